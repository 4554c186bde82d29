//! graph_import: a model's reply or a graph that another tool has made.

mod documents;
mod stated;

use std::collections::{BTreeMap, HashMap, HashSet};

use graphrag_text::answer::{self, Extraction, Format, Origin, Relation};
use graphrag_text::fold;
use pgrx::PgSqlErrorCode;
use pgrx::prelude::*;
use serde_json::{Map, Value};

use super::found::{UNNAMED, usable};
use super::merge::{Touched, recount};
use crate::collection::{Collection, quoted};
use crate::error::{Error, Result, required, sql};
use crate::ingest;
use crate::pg::json::Json;
use crate::pg::tick;

/// A record refers to a document or a block that is not there. If it may stand without, it is taken as stated by hand.
const NO_SOURCE: &str = "unknown source";
/// A claim without a document that makes it.
const NO_DOCUMENT: &str = "no document";
/// Communities and reports are made here, from the graph.
const MADE_HERE: &str = "community or report";
/// SQL: `graph_import(collection, payload, format, block_id)`.
#[pg_extern(sql = false)]
fn graph_import(
    collection: Option<&str>,
    payload: Option<&str>,
    format: Option<&str>,
    block_id: Option<i64>,
) -> sql::Result<
    TableIterator<
        'static,
        (
            name!(entities, i64),
            name!(relations, i64),
            name!(claims, i64),
            name!(dropped, i64),
            name!(reasons, Json),
        ),
    >,
> {
    Ok(TableIterator::once(import(collection, payload, format, block_id)?))
}

type Counts = (i64, i64, i64, i64, Json);

fn import(name: Option<&str>, payload: Option<&str>, format: Option<&str>, block_id: Option<i64>) -> Result<Counts> {
    let payload = required(payload, "payload")?;
    let format = required(format, "format")?;
    let format = Format::parse(&format.to_lowercase()).ok_or_else(|| {
        Error::invalid(format!("format {} does not exist", quoted(format)))
            .hint(format!("Formats are {}.", Format::NAMES.join(", ")))
    })?;
    let collection = Collection::build(name)?;
    ingest::take_up(&collection)?;
    let read = answer::read(payload, format).map_err(|error| {
        let error = error.to_string().replace("the reply", "the payload");
        Error::new(
            PgSqlErrorCode::ERRCODE_INVALID_TEXT_REPRESENTATION,
            format!("the payload cannot be read as {}: {error}", format.name()),
        )
        .hint(format!("Formats are {}.", Format::NAMES.join(", ")))
    })?;
    tick();
    let mut import = Import::new(&collection, &read, block_id)?;
    import.sort(&read);
    let mut touched = Touched::default();
    import.by_hand(&read, &mut touched)?;
    import.in_documents(&read, &mut touched)?;
    for list in [&mut touched.entities, &mut touched.relations] {
        list.sort_unstable();
        list.dedup();
    }
    recount(&collection, &touched)?;
    collection.analyze(&["entity", "mention", "relation", "evidence"])?;
    Ok(import.counts())
}

/// A record of the payload.
#[derive(Clone, Copy)]
enum Record {
    Entity(usize),
    Relation(usize),
    Claim(usize),
}

struct Import<'c> {
    collection: &'c Collection,
    /// Documents by the keys that the payload uses.
    documents: HashMap<String, i64>,
    /// Documents of blocks.
    blocks: HashMap<i64, i64>,
    block_id: Option<i64>,
    /// What each document says, with the block if that is known.
    said: BTreeMap<i64, Vec<(Record, Option<i64>)>>,
    stated: Vec<Record>,
    dropped: i64,
    claims: i64,
    reasons: BTreeMap<&'static str, i64>,
    entities: HashSet<String>,
    relations: HashSet<[String; 3]>,
}

impl<'c> Import<'c> {
    fn new(collection: &'c Collection, read: &Extraction, block_id: Option<i64>) -> Result<Self> {
        let origins = || {
            let entities = read.entities.iter().map(|entity| &entity.origin);
            let relations = read.relations.iter().map(|relation| &relation.origin);
            entities
                .chain(relations)
                .chain(read.claims.iter().map(|claim| &claim.origin))
        };
        let mut keys: Vec<String> = origins()
            .flat_map(|origin| origin.source_key.iter().chain(&origin.sources))
            .cloned()
            .collect();
        keys.sort_unstable();
        keys.dedup();
        let pair = |row: &crate::pg::spi::Row| Ok((row.need(1)?, row.need(2)?));
        let sql = "SELECT d.source_key, d.id FROM {s}.document d WHERE d.source_key = ANY ($1)";
        let mut documents: HashMap<String, i64> = collection
            .query(sql, &[keys.clone().into()], pair)?
            .into_iter()
            .collect();
        // A passage that came along is a document that has its text, with the title before it or not.
        let (mut unknown, mut texts) = (vec![], vec![]);
        for passage in &read.passages {
            if !documents.contains_key(&passage.key) && keys.binary_search(&passage.key).is_ok() {
                unknown.push(passage.key.clone());
                texts.push(passage.text.clone());
            }
        }
        if !unknown.is_empty() {
            let sql = "SELECT u.key, min(d.id) FROM unnest($1::text[], $2::text[]) AS u (key, text) \
                       JOIN (SELECT id, body AS text FROM {s}.document UNION ALL SELECT id, title || chr(10) || body FROM {s}.document) d \
                         ON d.text = u.text GROUP BY 1";
            documents.extend(collection.query(sql, &[unknown.into(), texts.into()], pair)?);
        }
        let mut ids: Vec<i64> = origins().filter_map(|origin| origin.block_id).chain(block_id).collect();
        ids.sort_unstable();
        ids.dedup();
        let sql = "SELECT id, document_id FROM {s}.block WHERE id = ANY ($1)";
        let blocks: HashMap<i64, i64> = collection
            .query(sql, &[ids.into()], |row| Ok((row.need(1)?, row.need(2)?)))?
            .into_iter()
            .collect();
        if let Some(block) = block_id.filter(|block| !blocks.contains_key(block)) {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_NO_DATA_FOUND,
                format!(
                    "block {block} does not exist in collection {}",
                    quoted(&collection.name)
                ),
            ));
        }
        Ok(Import {
            collection,
            documents,
            blocks,
            block_id,
            said: BTreeMap::new(),
            stated: vec![],
            dropped: 0,
            claims: 0,
            reasons: BTreeMap::new(),
            entities: HashSet::new(),
            relations: HashSet::new(),
        })
    }

    fn count(&mut self, reason: &'static str) {
        *self.reasons.entry(reason).or_default() += 1;
    }

    fn drop(&mut self, reason: &'static str) {
        self.dropped += 1;
        self.count(reason);
    }

    /// Gives each record to the documents that say it, or to nobody's hand.
    fn sort(&mut self, read: &Extraction) {
        for (reason, count) in &read.dropped {
            self.dropped += *count as i64;
            *self.reasons.entry(reason).or_default() += *count as i64;
        }
        for (reason, count) in &read.lost {
            *self.reasons.entry(reason).or_default() += *count as i64;
        }
        for _ in 0..read.communities.len() + read.reports.len() {
            self.drop(MADE_HERE);
        }
        for (at, entity) in read.entities.iter().enumerate() {
            let key = fold::name(&entity.name);
            if usable(&key) {
                if self.place(Record::Entity(at), &entity.origin) {
                    self.entities.insert(key);
                }
            } else {
                self.drop(unusable(&[key]));
            }
        }
        for (at, relation) in read.relations.iter().enumerate() {
            let keys = [
                fold::name(&relation.subject),
                predicate(relation).1,
                fold::name(&relation.object),
            ];
            if !keys.iter().all(|key| usable(key)) {
                self.drop(unusable(&keys));
            } else if self.place(Record::Relation(at), &relation.origin) {
                self.entities.extend([keys[0].clone(), keys[2].clone()]);
                self.relations.insert(keys);
            }
            tick();
        }
        for (at, claim) in read.claims.iter().enumerate() {
            if !usable(&fold::name(&claim.subject)) {
                self.drop(answer::reason::NO_NAME);
            } else if self.place(Record::Claim(at), &claim.origin) {
                self.claims += 1;
            }
        }
    }

    /// Whether the record is taken.
    fn place(&mut self, record: Record, origin: &Origin) -> bool {
        let mut places: Vec<(i64, Option<i64>)> = vec![];
        let mut is_known = true;
        if let Some(block) = origin.block_id {
            places.extend(self.blocks.get(&block).map(|&document| (document, Some(block))));
            is_known = !places.is_empty();
        } else if let Some(key) = &origin.source_key {
            places.extend(self.documents.get(key).map(|&document| (document, None)));
            is_known = !places.is_empty();
        } else if !origin.sources.is_empty() {
            places.extend(
                origin
                    .sources
                    .iter()
                    .filter_map(|key| self.documents.get(key).map(|&document| (document, None))),
            );
            places.sort_unstable();
            places.dedup();
            if places.is_empty() {
                self.count(NO_SOURCE);
            }
        }
        if let (true, true, Some(block)) = (is_known, places.is_empty(), self.block_id) {
            places.push((self.blocks[&block], Some(block)));
        }
        match (places.is_empty(), is_known, record) {
            (true, false, _) => self.drop(NO_SOURCE),
            (true, true, Record::Claim(_)) => self.drop(NO_DOCUMENT),
            (true, true, _) => self.stated.push(record),
            _ => {}
        }
        let is_taken = is_known && !(places.is_empty() && matches!(record, Record::Claim(_)));
        for (document, block) in places {
            self.said.entry(document).or_default().push((record, block));
        }
        is_taken
    }

    fn counts(self) -> Counts {
        let reasons: Map<String, Value> = self
            .reasons
            .into_iter()
            .map(|(reason, count)| (reason.to_owned(), count.into()))
            .collect();
        (
            self.entities.len() as i64,
            self.relations.len() as i64,
            self.claims,
            self.dropped,
            Json::from(Value::Object(reasons)),
        )
    }
}

/// How a relation is called, as written and folded.
fn predicate(relation: &Relation) -> (String, String) {
    let named = relation
        .predicate
        .as_ref()
        .map(|shown| (shown.clone(), fold::predicate(shown)));
    named
        .filter(|(_, key)| !key.is_empty())
        .unwrap_or_else(|| (UNNAMED.to_owned(), fold::predicate(UNNAMED)))
}

/// A JSON object that PostgreSQL takes: without NUL, and numbers that are too great as texts.
fn json_object(map: Map<String, Value>) -> String {
    fn clean(value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(text.replace('\0', "")),
            Value::Number(number) if !number.as_f64().is_some_and(f64::is_finite) => Value::String(number.to_string()),
            Value::Array(items) => items.into_iter().map(clean).collect(),
            Value::Object(map) => Value::Object(
                map.into_iter()
                    .map(|(key, value)| (key.replace('\0', ""), clean(value)))
                    .collect(),
            ),
            other => other,
        }
    }
    clean(Value::Object(map)).to_string()
}

/// Why one of the names is none.
fn unusable(keys: &[String]) -> &'static str {
    match keys.iter().any(String::is_empty) {
        true => answer::reason::NO_NAME,
        false => answer::reason::TOO_LONG,
    }
}

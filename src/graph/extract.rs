//! graph_extract: from blocks to mentions and evidence, and from those to entities and relations.

use std::collections::BTreeMap;

use graphrag_text::fold;
use pgrx::prelude::*;

use super::merge::{Touched, recount};
use crate::collection::Collection;
use crate::error::{Result, sql};
use crate::pg::tick;
use crate::progress::Progress;
use crate::{ingest, search};

/// Blocks that are read and written at once.
const BATCH: usize = 500;

/// Names longer than this are no names.
pub const MAX_KEY_BYTES: usize = 2000;

/// SQL: `graph_extract(collection)`.
#[pg_extern(sql = false)]
fn graph_extract(
    collection: Option<&str>,
) -> sql::Result<
    TableIterator<
        'static,
        (
            name!(blocks, i64),
            name!(entities, i64),
            name!(relations, i64),
            name!(failed, i64),
            name!(calls, i64),
        ),
    >,
> {
    Ok(TableIterator::once(extract(collection)?))
}

fn extract(name: Option<&str>) -> Result<(i64, i64, i64, i64, i64)> {
    let collection = Collection::build_nodes(name)?;
    ingest::take_up(&collection)?;
    search::ensure_index(&collection, "node")?;
    collection.analyze(&["node", "block"])?;
    let sql = "SELECT b.id FROM {s}.block b JOIN {s}.document d ON d.id = b.document_id \
               WHERE b.id IN (SELECT c.key::bigint FROM {s}.change c WHERE c.\"table\" = 'block') \
               ORDER BY d.body_hash, d.source_key COLLATE \"C\", d.id, b.ordinal";
    let pending: Vec<i64> = collection.query(sql, &[], |row| row.need(1))?;
    let mut touched = Touched::default();
    let mut progress = Progress::start();
    for (batch, ids) in pending.chunks(BATCH).enumerate() {
        write(&collection, ids, &mut touched)?;
        tick();
        progress.say(|| format!("{} of {} blocks read", (batch + 1) * BATCH, pending.len()));
    }
    for list in [&mut touched.entities, &mut touched.relations] {
        list.sort_unstable();
        list.dedup();
    }
    collection.analyze(&["mention", "evidence", "relation"])?;
    recount(&collection, &touched)?;
    // Not all rows: a statement that commits meanwhile may have recorded more.
    let sql = "DELETE FROM {s}.change WHERE \"table\" = 'block' AND key IN (SELECT unnest($1::bigint[])::text)";
    collection.execute(sql, &[pending.clone().into()])?;
    collection.analyze(&["entity", "mention", "relation", "evidence"])?;
    collection.note_step("extract", Some(collection.extractor().name()))?;
    let (entities, relations) = (touched.entities.len() as i64, touched.relations.len() as i64);
    Ok((pending.len() as i64, entities, relations, 0, 0))
}

#[derive(Default)]
struct Mentions {
    key: Vec<String>,
    name: Vec<String>,
    kind: Vec<String>,
    block: Vec<i64>,
    document: Vec<i64>,
    start: Vec<i32>,
    end: Vec<i32>,
}

#[derive(Default)]
struct Evidence {
    subject_key: Vec<String>,
    subject: Vec<String>,
    predicate_key: Vec<String>,
    predicate: Vec<String>,
    object_key: Vec<String>,
    object: Vec<String>,
    block: Vec<i64>,
    document: Vec<i64>,
    quote: Vec<String>,
    start: Vec<i32>,
    end: Vec<i32>,
}

/// Extracts from the blocks `ids`, which are in canonical order, and writes what they say.
fn write(collection: &Collection, ids: &[i64], touched: &mut Touched) -> Result<()> {
    let sql = "SELECT b.id, b.document_id, b.start_char, b.text FROM unnest($1::bigint[]) WITH ORDINALITY AS u (id, n) \
               JOIN {s}.block b ON b.id = u.id ORDER BY u.n";
    let blocks: Vec<(i64, i64, i32, String)> = collection.query(sql, &[ids.to_vec().into()], |row| {
        Ok((row.need(1)?, row.need(2)?, row.need(3)?, row.need(4)?))
    })?;
    let mut mentions = Mentions::default();
    let mut evidence = Evidence::default();
    // Folded name to the name as first written; sorted, so that two sessions take the rows in the same order.
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let usable = |key: &str| !key.is_empty() && key.len() <= MAX_KEY_BYTES;
    for (block, document, start, text) in &blocks {
        let found = collection.extractor().extract(text, collection.options.stop_words());
        for mention in found.mentions {
            let key = fold::name(&mention.name);
            if usable(&key) {
                names.entry(key.clone()).or_insert_with(|| mention.name.clone());
                mentions.key.push(key);
                mentions.name.push(mention.name);
                mentions.kind.push(mention.kind.to_owned());
                mentions.block.push(*block);
                mentions.document.push(*document);
                mentions.start.push(start + mention.start_char as i32);
                mentions.end.push(start + mention.end_char as i32);
            }
        }
        for relation in found.relations {
            let (subject, object) = (fold::name(&relation.subject), fold::name(&relation.object));
            let predicate = fold::predicate(&relation.predicate);
            if usable(&predicate) && names.contains_key(&subject) && names.contains_key(&object) {
                evidence.subject_key.push(subject);
                evidence.subject.push(relation.subject);
                evidence.predicate_key.push(predicate);
                evidence.predicate.push(relation.predicate);
                evidence.object_key.push(object);
                evidence.object.push(relation.object);
                evidence.block.push(*block);
                evidence.document.push(*document);
                evidence.quote.push(text[relation.quote].to_owned());
                evidence.start.push(start + relation.start_char as i32);
                evidence.end.push(start + relation.end_char as i32);
            }
        }
        tick();
    }

    let sql = "DELETE FROM {s}.mention WHERE block_id = ANY ($1) AND NOT given RETURNING entity_id";
    touched
        .entities
        .extend(collection.returning(sql, &[ids.to_vec().into()], |row| row.need::<i64>(1))?);
    let sql = "DELETE FROM {s}.evidence WHERE block_id = ANY ($1) AND NOT given RETURNING relation_id";
    touched
        .relations
        .extend(collection.returning(sql, &[ids.to_vec().into()], |row| row.need::<i64>(1))?);

    let (keys, shown): (Vec<String>, Vec<String>) = names.into_iter().unzip();
    let sql = "INSERT INTO {s}.entity (key, name, given) \
               SELECT u.key, u.name, false FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u (key, name, n) \
               WHERE NOT EXISTS (SELECT FROM {s}.entity_alias a WHERE a.key = u.key) ORDER BY u.n \
               ON CONFLICT (key) DO NOTHING";
    collection.execute(sql, &[keys.into(), shown.into()])?;
    let sql = "INSERT INTO {s}.mention (key, name, entity_id, block_id, document_id, type, start_char, end_char, given) \
               SELECT u.key, u.name, coalesce(a.entity_id, e.id), u.block, u.document, u.kind, u.start, u.end, false \
               FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::int[], $7::int[]) \
                    WITH ORDINALITY AS u (key, name, kind, block, document, start, \"end\", n) \
               LEFT JOIN {s}.entity_alias a ON a.key = u.key LEFT JOIN {s}.entity e ON e.key = u.key \
               ORDER BY u.n RETURNING entity_id";
    let args = [
        mentions.key.into(),
        mentions.name.into(),
        mentions.kind.into(),
        mentions.block.into(),
        mentions.document.into(),
        mentions.start.into(),
        mentions.end.into(),
    ];
    touched
        .entities
        .extend(collection.returning(sql, &args, |row| row.need::<i64>(1))?);

    // A relation that is known from documents alone starts with no weight; recount() gives it.
    let resolved = "LEFT JOIN {s}.entity_alias sa ON sa.key = u.subject LEFT JOIN {s}.entity s ON s.key = u.subject \
                    LEFT JOIN {s}.entity_alias oa ON oa.key = u.object LEFT JOIN {s}.entity o ON o.key = u.object";
    let sql = format!(
        "INSERT INTO {{s}}.relation (source_id, predicate, predicate_key, target_id, weight) \
         SELECT source, predicate, predicate_key, target, 0 FROM ( \
           SELECT DISTINCT ON (source, predicate_key, target) coalesce(sa.entity_id, s.id) AS source, u.predicate, \
                  u.predicate_key, coalesce(oa.entity_id, o.id) AS target, u.n \
           FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) \
                WITH ORDINALITY AS u (subject, predicate_key, predicate, object, n) {resolved} \
           ORDER BY source, predicate_key, target, u.n) t \
         ORDER BY n ON CONFLICT (source_id, predicate_key, target_id) DO NOTHING"
    );
    let args = [
        evidence.subject_key.clone().into(),
        evidence.predicate_key.clone().into(),
        evidence.predicate.clone().into(),
        evidence.object_key.clone().into(),
    ];
    collection.execute(&sql, &args)?;
    let sql = format!(
        "INSERT INTO {{s}}.evidence (relation_id, subject_key, subject_name, predicate, object_key, object_name, block_id, \
                                     document_id, quote, start_char, end_char, given) \
         SELECT r.id, u.subject, u.subject_name, u.predicate, u.object, u.object_name, u.block, u.document, u.quote, u.start, u.end, false \
         FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], \
                     $9::text[], $10::int[], $11::int[]) \
              WITH ORDINALITY AS u (subject, predicate_key, predicate, object, subject_name, object_name, block, document, \
                                    quote, start, \"end\", n) {resolved} \
         JOIN {{s}}.relation r ON r.source_id = coalesce(sa.entity_id, s.id) AND r.predicate_key = u.predicate_key \
              AND r.target_id = coalesce(oa.entity_id, o.id) \
         ORDER BY u.n RETURNING relation_id"
    );
    let args = [
        evidence.subject_key.into(),
        evidence.predicate_key.into(),
        evidence.predicate.into(),
        evidence.object_key.into(),
        evidence.subject.into(),
        evidence.object.into(),
        evidence.block.into(),
        evidence.document.into(),
        evidence.quote.into(),
        evidence.start.into(),
        evidence.end.into(),
    ];
    touched
        .relations
        .extend(collection.returning(&sql, &args, |row| row.need::<i64>(1))?);
    Ok(())
}

//! graph_add: one relation, stated by hand or read in a document.

use graphrag_text::{fold, place};
use pgrx::PgSqlErrorCode;
use pgrx::prelude::*;

use super::found::MAX_KEY_BYTES;
use super::merge::{Touched, recount};
use crate::collection::{Collection, quoted};
use crate::error::{Error, Result, required, sql};
use crate::ingest;
use crate::pg::json::Json;
use crate::pg::tick;

/// The greatest weight of a relation: sums of many stay finite in single precision.
pub const MAX_WEIGHT: f64 = 1e30;

/// SQL: `graph_add(collection, subject, predicate, object, description, document_id, properties, quote, weight)`.
#[pg_extern(sql = false)]
fn graph_add(
    collection: Option<&str>,
    subject: Option<&str>,
    predicate: Option<&str>,
    object: Option<&str>,
    description: Option<&str>,
    document_id: Option<i64>,
    properties: Option<Json>,
    quote: Option<&str>,
    weight: Option<f64>,
) -> sql::Result<i64> {
    let properties = required(properties, "properties")?;
    if !properties.is_object() {
        Err(Error::invalid("properties must be a JSON object"))?;
    }
    if document_id.is_none() && quote.is_some() {
        Err(Error::invalid("a quote needs the document_id that it stands in"))?;
    }
    if let Some(weight) = weight {
        if document_id.is_some() {
            Err(
                Error::invalid("weight cannot be given for a relation read in a document")
                    .detail("Its weight is the number of blocks that assert it."),
            )?;
        }
        if !(weight > 0.0 && weight <= MAX_WEIGHT) {
            Err(Error::invalid("weight must be a positive finite number")
                .detail(format!("It is {weight}, the most is {MAX_WEIGHT:e}.")))?;
        }
    }
    if quote.is_some_and(|quote| quote.trim().is_empty()) {
        Err(Error::invalid("quote must not be empty"))?;
    }
    let stated = Stated {
        subject: Name::new(subject, "subject", fold::name)?,
        predicate: Name::new(predicate, "predicate", fold::predicate)?,
        object: Name::new(object, "object", fold::name)?,
        description,
    };
    let id = match document_id {
        None => by_hand(&Collection::write(collection)?, &stated, properties, weight)?,
        Some(document) => in_document(&Collection::build(collection)?, &stated, properties, document, quote)?,
    };
    Ok(id)
}

/// Refuses what is no name, before it is folded: that takes its time with megabytes.
pub fn check_length(name: &str, argument: &str) -> Result<()> {
    if name.len() <= 2 * MAX_KEY_BYTES {
        return Ok(());
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_STRING_DATA_RIGHT_TRUNCATION,
        format!("{argument} is too long"),
    )
    .detail(format!("Names have at most {MAX_KEY_BYTES} bytes.")))
}

/// A name as written, and folded.
struct Name<'a> {
    shown: &'a str,
    key: String,
}

impl<'a> Name<'a> {
    fn new(text: Option<&'a str>, argument: &str, fold: fn(&str) -> String) -> Result<Name<'a>> {
        let shown = required(text, argument)?;
        check_length(shown, argument)?;
        let key = fold(shown);
        if key.is_empty() {
            return Err(Error::invalid(format!("{argument} must not be empty"))
                .detail("Nothing is left of it without spaces and quotes."));
        }
        if key.len() > MAX_KEY_BYTES {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_STRING_DATA_RIGHT_TRUNCATION,
                format!("{argument} is too long"),
            )
            .detail(format!("Names have at most {MAX_KEY_BYTES} bytes.")));
        }
        Ok(Name { shown, key })
    }
}

struct Stated<'a> {
    subject: Name<'a>,
    predicate: Name<'a>,
    object: Name<'a>,
    description: Option<&'a str>,
}

impl Stated<'_> {
    /// The entity of a name, made if there is none; `given` marks a new one as stated by hand.
    fn entity(collection: &Collection, name: &Name, given: bool) -> Result<i64> {
        let sql = "SELECT entity_id FROM {s}.entity_alias WHERE key = $1";
        if let Some(id) = collection
            .query(sql, &[name.key.as_str().into()], |row| row.need(1))?
            .pop()
        {
            return Ok(id);
        }
        let sql = "INSERT INTO {s}.entity AS e (key, name, given) VALUES ($1, $2, $3) \
                   ON CONFLICT (key) DO UPDATE SET given = e.given RETURNING id";
        let args = [name.key.as_str().into(), name.shown.into(), given.into()];
        let ids = collection.returning(sql, &args, |row| row.need(1))?;
        ids.first()
            .copied()
            .ok_or_else(|| Error::internal("the entity was not written"))
    }

    /// Both ends; in the order of their keys, as every other writer takes them.
    fn ends(&self, collection: &Collection, given: bool) -> Result<(i64, i64)> {
        if self.subject.key <= self.object.key {
            let source = Self::entity(collection, &self.subject, given)?;
            Ok((source, Self::entity(collection, &self.object, given)?))
        } else {
            let target = Self::entity(collection, &self.object, given)?;
            Ok((Self::entity(collection, &self.subject, given)?, target))
        }
    }

    /// The relation, made if there is none. One stated by hand (with a weight) has the description and the properties that
    /// it was given; one known from documents has theirs, which recount() merges from the evidence.
    fn relation(
        &self,
        collection: &Collection,
        (source, target): (i64, i64),
        by_hand: Option<(&Json, f64)>,
    ) -> Result<i64> {
        let sql = "INSERT INTO {s}.relation AS r (source_id, predicate, predicate_key, target_id, description, properties, weight) \
                   VALUES ($1, $2, $3, $4, $5, coalesce($6, '{}'), coalesce($7, 0)) \
                   ON CONFLICT (source_id, predicate_key, target_id) DO UPDATE SET \
                       description = CASE WHEN $7 IS NULL THEN r.description WHEN r.given_weight IS NULL OR r.bound THEN excluded.description \
                                          ELSE coalesce(excluded.description, r.description) END, \
                       properties = CASE WHEN $7 IS NULL THEN r.properties WHEN r.given_weight IS NULL OR r.bound THEN excluded.properties \
                                         ELSE r.properties || excluded.properties END, \
                       bound = r.bound AND $7 IS NULL, \
                       given_weight = coalesce($7, r.given_weight) RETURNING id";
        let args = [
            source.into(),
            self.predicate.shown.into(),
            self.predicate.key.as_str().into(),
            target.into(),
            by_hand.and(self.description).into(),
            by_hand.map(|(properties, _)| properties.clone()).into(),
            by_hand.map(|(_, weight)| weight).into(),
        ];
        let ids = collection.returning(sql, &args, |row| row.need(1))?;
        ids.first()
            .copied()
            .ok_or_else(|| Error::internal("the relation was not written"))
    }
}

fn by_hand(collection: &Collection, stated: &Stated, properties: Json, weight: Option<f64>) -> Result<i64> {
    let ends = stated.ends(collection, true)?;
    let weight = match weight {
        Some(weight) => weight,
        None => {
            let sql =
                "SELECT given_weight FROM {s}.relation WHERE source_id = $1 AND predicate_key = $2 AND target_id = $3";
            let args = [ends.0.into(), stated.predicate.key.as_str().into(), ends.1.into()];
            collection
                .query(sql, &args, |row| row.get(1))?
                .pop()
                .flatten()
                .unwrap_or(1.0)
        }
    };
    let id = stated.relation(collection, ends, Some((&properties, weight)))?;
    recount(
        collection,
        &Touched {
            entities: vec![ends.0, ends.1],
            relations: vec![id],
        },
    )?;
    Ok(id)
}

fn in_document(
    collection: &Collection,
    stated: &Stated,
    properties: Json,
    document: i64,
    quote: Option<&str>,
) -> Result<i64> {
    let exists = collection.query("SELECT id FROM {s}.document WHERE id = $1", &[document.into()], |_| {
        Ok(())
    })?;
    if exists.is_empty() {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_NO_DATA_FOUND,
            format!(
                "document {document} does not exist in collection {}",
                quoted(&collection.name)
            ),
        ));
    }
    ingest::cut_waiting(collection, document)?;
    let place = Place::find(collection, stated, document, quote)?;
    let ends = stated.ends(collection, false)?;
    let id = stated.relation(collection, ends, None)?;
    let (block, text, start, end) = match place {
        Some(place) => (Some(place.block), Some(place.quote), Some(place.start), Some(place.end)),
        None => (None, None, None, None),
    };
    // The same statement twice is one.
    let sql = "DELETE FROM {s}.evidence WHERE relation_id = $1 AND document_id = $2 AND block_id IS NOT DISTINCT FROM $3 \
               AND quote IS NOT DISTINCT FROM $4";
    collection.execute(sql, &[id.into(), document.into(), block.into(), text.clone().into()])?;
    let sql = "INSERT INTO {s}.evidence (relation_id, subject_key, subject_name, predicate, object_key, object_name, block_id, \
                                         document_id, quote, start_char, end_char, description, properties) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
    let args = [
        id.into(),
        stated.subject.key.as_str().into(),
        stated.subject.shown.into(),
        stated.predicate.shown.into(),
        stated.object.key.as_str().into(),
        stated.object.shown.into(),
        block.into(),
        document.into(),
        text.into(),
        start.into(),
        end.into(),
        stated.description.into(),
        properties.into(),
    ];
    collection.execute(sql, &args)?;
    for (name, entity) in [(&stated.subject, ends.0), (&stated.object, ends.1)] {
        let sql = "INSERT INTO {s}.mention (key, name, entity_id, block_id, document_id) SELECT $1, $2, $3, $4, $5 \
                   WHERE NOT EXISTS (SELECT FROM {s}.mention WHERE entity_id = $3 AND document_id = $5 \
                                     AND block_id IS NOT DISTINCT FROM $4)";
        let args = [
            name.key.as_str().into(),
            name.shown.into(),
            entity.into(),
            block.into(),
            document.into(),
        ];
        collection.execute(sql, &args)?;
    }
    recount(
        collection,
        &Touched {
            entities: vec![ends.0, ends.1],
            relations: vec![id],
        },
    )?;
    Ok(id)
}

/// Where a document asserts a relation, in characters of its body.
struct Place {
    block: i64,
    quote: String,
    start: i32,
    end: i32,
}

impl Place {
    /// Where the quote stands; without one, the first sentence that holds both names, if there is one.
    fn find(collection: &Collection, stated: &Stated, document: i64, quote: Option<&str>) -> Result<Option<Place>> {
        let sql = "SELECT id, start_char, text FROM {s}.block WHERE document_id = $1 ORDER BY ordinal";
        let mut place = None;
        collection.stream(sql, &[document.into()], |row| {
            if place.is_none() {
                place = Self::in_block(stated, quote, row.need(1)?, row.need(2)?, &row.need::<String>(3)?);
            }
            Ok(())
        })?;
        if place.is_some() {
            return Ok(place);
        }
        match quote {
            None => Ok(None),
            Some(_) => Err(
                Error::invalid(format!("the quote does not stand in document {document}"))
                    .detail("It must be found as it is written, within one block."),
            ),
        }
    }
}

impl Place {
    fn in_block(stated: &Stated, quote: Option<&str>, block: i64, start: i32, text: &str) -> Option<Place> {
        let range = match quote {
            Some(quote) => text.find(quote).map(|at| at..at + quote.len()),
            None => place::sentence(text, [&stated.subject.key, &stated.object.key], &mut tick),
        }?;
        let (quote, first, last) = place::trimmed(text, range);
        Some(Place {
            block,
            quote,
            start: start + first,
            end: start + last,
        })
    }
}

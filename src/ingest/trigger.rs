//! The trigger functions of a collection's tables.

use std::convert::Infallible;

use pgrx::AllocatedByRust;
use pgrx::datum::TryFromDatumError;
use pgrx::heap_tuple::PgHeapTuple;
use pgrx::prelude::*;
use sha2::{Digest, Sha256};

use super::{
    chunk_documents, cut_anew, forget_all, forget_documents, leave_partition, no_longer_waiting, refresh_metadata,
};
use crate::collection::{Collection, Options};
use crate::error::{self, Error, raise};
use crate::graph::{check_length, extracted, retitle};
use crate::model::{ledger, lsa};
use crate::pg::json::Json;
use crate::pg::lock;
use crate::pg::trigger::{Transition, misplaced, table_owner, table_schema};
use crate::refresh::learn_at_once;
use graphrag_text::{fold, phrases};

type Tuple<'a> = PgHeapTuple<'a, AllocatedByRust>;

/// BEFORE INSERT OR UPDATE on document, each row: fills body_hash, the hashes of the title, partition and updated_at. The arguments of the
/// trigger are the keys of partition_by.
#[pg_trigger(sql = false)]
fn _document_row<'a>(trigger: &'a PgTrigger<'a>) -> Result<Option<Tuple<'a>>, Infallible> {
    Ok(Some(raise(document_row(trigger))))
}

fn document_row<'a>(trigger: &'a PgTrigger<'a>) -> error::Result<Tuple<'a>> {
    let mut row = new_row(trigger)?;
    let body: Option<&str> = row.get_by_name("body").map_err(column)?;
    let hash = body.map(|body| Sha256::digest(body).to_vec());
    let keys = trigger.extra_args().map_err(|e| Error::internal(e.to_string()))?;
    let metadata = match keys[..] {
        [] => None,
        _ => row.get_by_name::<Json>("metadata").map_err(column)?,
    };
    let partition = Options::partition_of(&keys, metadata.as_ref().filter(|json| json.is_object()));
    let title: Option<&str> = row.get_by_name("title").map_err(column)?;
    let (title, short) = title.map_or((None, None), phrases::hashes);
    row.set_by_name("title_hash", title).map_err(column)?;
    row.set_by_name("short_title_hash", short).map_err(column)?;
    row.set_by_name("body_hash", hash.unwrap_or_default()).map_err(column)?;
    row.set_by_name("partition", partition).map_err(column)?;
    row.set_by_name("updated_at", now()).map_err(column)?;
    Ok(row)
}

/// BEFORE INSERT OR UPDATE on entity and relation, each row: fills the folded key of the name.
#[pg_trigger(sql = false)]
fn _name_row<'a>(trigger: &'a PgTrigger<'a>) -> Result<Option<Tuple<'a>>, Infallible> {
    Ok(Some(raise(name_row(trigger))))
}

fn name_row<'a>(trigger: &'a PgTrigger<'a>) -> error::Result<Tuple<'a>> {
    let mut row = new_row(trigger)?;
    let table = trigger.table_name().map_err(|e| Error::internal(e.to_string()))?;
    let (name, key, folded): (_, _, fn(&str) -> String) = match table.as_str() {
        "entity" => ("name", "key", fold::name),
        "relation" => ("predicate", "predicate_key", fold::predicate),
        _ => return Err(misplaced()),
    };
    if let Some(shown) = row.get_by_name::<&str>(name).map_err(column)? {
        check_length(shown, name)?;
        let text = folded(shown);
        let before = trigger
            .old()
            .map(|old| old.get_by_name::<String>(key).map_err(column))
            .transpose()?
            .flatten();
        if table == "entity" && before.as_ref().is_some_and(|before| *before != text) {
            // Renamed by hand: documents go on to mention it under the old name.
            let id: Option<i64> = row.get_by_name("id").map_err(column)?;
            let collection = Collection::of_trigger(table_schema(trigger)?, table_owner(trigger)?)?;
            let sql = "INSERT INTO {s}.entity_alias (key, entity_id) VALUES ($1, $2) \
                       ON CONFLICT (key) DO UPDATE SET entity_id = excluded.entity_id";
            collection.execute(sql, &[before.into(), id.into()])?;
            let sql = "DELETE FROM {s}.entity_alias WHERE key = $1 AND entity_id = $2";
            collection.execute(sql, &[text.as_str().into(), id.into()])?;
            let sql = "UPDATE {s}.community SET stale = true WHERE NOT stale AND id IN \
                         (SELECT community_id FROM {s}.community_entity WHERE entity_id = $1)";
            collection.execute(sql, &[id.into()])?;
            // If that is all, its type and description go on to be what documents say, and go with them.
            let same = |name: &str| {
                let old = trigger.old().map(|old| old.get_by_name::<String>(name)).transpose();
                Ok::<_, Error>(old.map_err(column)?.flatten() == row.get_by_name(name).map_err(column)?)
            };
            let is_all = same("type")? && same("description")?;
            if is_all && row.get_by_name("given").map_err(column)? == Some(false) {
                row.set_by_name("renamed", true).map_err(column)?;
            }
            row.set_by_name("given", true).map_err(column)?;
        }
        row.set_by_name(key, text).map_err(column)?;
    }
    let inserts = matches!(trigger.op(), Ok(PgTriggerOperation::Insert));
    if inserts && table == "relation" {
        let weight: Option<f64> = row.get_by_name("weight").map_err(column)?;
        row.set_by_name("given_weight", weight.filter(|weight| *weight > 0.0))
            .map_err(column)?;
    }
    Ok(row)
}

fn new_row<'a>(trigger: &'a PgTrigger<'a>) -> error::Result<Tuple<'a>> {
    let row = trigger.new().ok_or_else(misplaced)?;
    Ok(row.into_owned())
}

/// A column is missing or of another type: the table is not a collection's.
fn column(_: TryFromDatumError) -> Error {
    misplaced()
}

/// AFTER INSERT, UPDATE, DELETE or TRUNCATE on document, each statement: keeps blocks, leaves and what rests on them
/// right. Up to `inline_rows` documents are cut at once; more are recorded for the next build function.
#[pg_trigger(sql = false)]
fn _document_change<'a>(trigger: &'a PgTrigger<'a>) -> Result<Option<Tuple<'a>>, Infallible> {
    raise(document_change(trigger));
    Ok(None)
}

fn document_change(trigger: &PgTrigger) -> error::Result<()> {
    if !trigger.table_name().is_ok_and(|table| table == "document") {
        return Err(misplaced());
    }
    let collection = Collection::of_document_trigger(table_schema(trigger)?, table_owner(trigger)?)?;
    let rows = Transition(trigger);
    let ids = |sql: &str| rows.query(sql, &[], |row| row.need::<i64>(1));
    match trigger.op().map_err(|e| Error::internal(e.to_string()))? {
        PgTriggerOperation::Insert => {
            let added = ids("SELECT id FROM new_rows")?;
            cut(&collection, &added, "insert")
        }
        PgTriggerOperation::Delete => {
            let gone = ids("SELECT id FROM old_rows")?;
            wait_for_builds(&collection, &gone)?;
            forget(&collection, &gone)
        }
        PgTriggerOperation::Truncate => {
            lock_for_change(&collection)?;
            forget_all(&collection)
        }
        PgTriggerOperation::Update => {
            // A changed id is a document that goes and one that comes.
            let gone = ids("SELECT id FROM old_rows EXCEPT SELECT id FROM new_rows")?;
            let added = ids("SELECT id FROM new_rows EXCEPT SELECT id FROM old_rows")?;
            let same = "SELECT n.id FROM new_rows n JOIN old_rows o ON o.id = n.id";
            let (cut_differs, label_differs) = (
                "(o.body_hash <> n.body_hash OR o.format <> n.format)",
                "(o.metadata <> n.metadata OR o.partition <> n.partition)",
            );
            let text = ids(&format!("{same} WHERE {cut_differs}"))?;
            let labels = ids(&format!("{same} WHERE {label_differs}"))?;
            let moved = ids(&format!("{same} WHERE o.partition <> n.partition"))?;
            // Models have read it above the text.
            let titles = ids(&format!("{same} WHERE o.title IS DISTINCT FROM n.title"))?;
            if !titles.is_empty() {
                ledger::suspect_documents(&collection, &titles)?;
            }
            // Without a model it may be a name in the graph; what is cut anew is read anew anyway.
            let renamed: Vec<i64> = match collection.options.extractor.is_built_in() && !titles.is_empty() {
                true => renamed(&collection, &rows, &format!("{same} WHERE NOT {cut_differs}"))?,
                false => Vec::new(),
            };
            let named = extracted(&collection, &renamed)?;
            wait_for_builds(&collection, &[&gone[..], &text, &moved, &labels, &named].concat())?;
            forget(&collection, &gone)?;
            cut(&collection, &added, "insert")?;
            if is_many(&collection, &text) {
                // Their leaves hold the old text until they are cut anew, and must not be found under new labels.
                let relabelled = ids(&format!("{same} WHERE {cut_differs} AND {label_differs}"))?;
                if !relabelled.is_empty() {
                    lsa::forget(&collection, &relabelled)?;
                    forget_documents(&collection, &relabelled, false)?;
                }
            }
            if !labels.is_empty() {
                refresh_metadata(&collection, &labels)?;
            }
            if !renamed.is_empty() {
                retitle(&collection, &renamed)?;
            }
            if !moved.is_empty() {
                leave_partition(&collection, &moved)?;
            }
            cut(&collection, &text, "update")
        }
    }
}

/// The documents to which a statement gives another name: from one label to another is none.
fn renamed(collection: &Collection, rows: &Transition, same: &str) -> error::Result<Vec<i64>> {
    let stop = collection.options.stop_words();
    let sql =
        same.replacen("SELECT n.id", "SELECT n.id, o.title, n.title", 1) + " AND o.title IS DISTINCT FROM n.title";
    let changed: Vec<(i64, bool)> = rows.query(&sql, &[], |row| {
        let name = |title: Option<String>| title.and_then(|title| phrases::title(&title, stop));
        Ok((row.need(1)?, name(row.get(2)?) != name(row.get(3)?)))
    })?;
    Ok(changed.into_iter().filter(|row| row.1).map(|row| row.0).collect())
}

fn forget(collection: &Collection, ids: &[i64]) -> error::Result<()> {
    if ids.is_empty() {
        Ok(())
    } else {
        lsa::forget(collection, ids)?;
        forget_documents(collection, ids, true)
    }
}

/// Whether a statement has written more documents than are cut at once.
fn is_many(collection: &Collection, ids: &[i64]) -> bool {
    ids.len() as i64 > collection.options.inline_rows
}

/// Cuts the documents now, or records them if they are many.
fn cut(collection: &Collection, ids: &[i64], kind: &str) -> error::Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    if is_many(collection, ids) {
        let sql = "INSERT INTO {s}.change (\"table\", key, kind) SELECT 'document', id::text, $2 FROM unnest($1) AS u (id) \
                   WHERE NOT EXISTS (SELECT FROM {s}.change c WHERE c.\"table\" = 'document' AND c.key = u.id::text)";
        collection.execute(sql, &[ids.to_vec().into(), kind.into()])?;
        let until_then = if kind == "update" {
            "; until then search finds their old text"
        } else {
            ""
        };
        notice!(
            "{} documents recorded; rag_refresh or the next build function cuts and embeds them{until_then}",
            ids.len()
        );
        return Ok(());
    }
    let is_first = lsa::is_blank(collection)?;
    match kind {
        "update" => {
            no_longer_waiting(collection, ids)?;
            cut_anew(collection, ids)?
        }
        _ => {
            chunk_documents(collection, ids, &Default::default())?;
            // Those with ids of before the last learning count, which deleting them will count out.
            lsa::recount(collection, ids, Default::default())?;
        }
    }
    if lsa::at_once(collection, ids.len(), is_first)? {
        learn_at_once(collection)?;
    }
    Ok(())
}

/// Waits until no build draws on documents. With a snapshot older than a build (REPEATABLE READ) its rows could not be
/// seen and would stay behind: that is a serialization failure, as for any row that changed meanwhile.
fn wait_for_builds(collection: &Collection, ids: &[i64]) -> error::Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    lock_for_change(collection)?;
    if !collection.is_read_committed()? {
        collection.returning(
            "SELECT key FROM {s}.setting WHERE key = 'last_build' FOR SHARE",
            &[],
            |_| Ok(()),
        )?;
    }
    Ok(())
}

/// Both locks in the order in which a build that makes the index of `node` takes them.
fn lock_for_change(collection: &Collection) -> error::Result<()> {
    collection.execute("LOCK TABLE {s}.node IN ROW EXCLUSIVE MODE", &[])?;
    lock::change(collection.oid)
}

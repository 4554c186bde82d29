//! `change`: what was recorded and is not taken up yet.

use super::chunk::known_vectors;
use super::{chunk_documents, forget_documents};
use crate::collection::Collection;
use crate::error::Result;
use crate::model::lsa;
use crate::pg::tick;
use crate::progress::Progress;
use crate::{graph, search};

/// Documents of one pass over pending changes.
const PASS: i64 = 500;

/// Records every document as changed, for a collection whose blocks or leaves are to be cut anew.
pub fn queue_all(collection: &Collection) -> Result<usize> {
    let sql = "INSERT INTO {s}.change (\"table\", key, kind) SELECT 'document', id::text, 'update' FROM {s}.document d \
               WHERE NOT EXISTS (SELECT FROM {s}.change c WHERE c.\"table\" = 'document' AND c.key = d.id::text)";
    collection.execute(sql, &[])
}

/// Whether so many documents wait to be cut, or leaves to be embedded, that the index of `node` is dropped: the vectors go in
/// before it is built anew, which is several times faster.
pub fn will_drop_index(collection: &Collection) -> Result<bool> {
    let sql = "SELECT count(DISTINCT key) FILTER (WHERE \"table\" = 'document'), count(*) FILTER (WHERE \"table\" = 'node'), \
                      (SELECT count(*) FROM {s}.document), (SELECT count(*) FROM {s}.node) \
               FROM {s}.change WHERE \"table\" IN ('document', 'node')";
    let (documents, leaves, all_documents, all_nodes): (i64, i64, i64, i64) =
        collection.query_one(sql, &[], |row| {
            Ok((row.need(1)?, row.need(2)?, row.need(3)?, row.need(4)?))
        })?;
    let over_a_third = |pending: i64, total: i64| pending > 0 && pending > (total - pending) / 3;
    Ok(over_a_third(documents, all_documents) || over_a_third(leaves, all_nodes))
}

/// Cuts documents that may have been cut before.
pub fn cut_anew(collection: &Collection, ids: &[i64]) -> Result<()> {
    let known = known_vectors(collection, ids)?;
    let held = lsa::held(collection, ids)?;
    forget_documents(collection, ids, false)?;
    chunk_documents(collection, ids, &known)?;
    lsa::recount(collection, ids, held)?;
    graph::reattach(collection, ids)
}

/// Cuts one document if it waits for that.
pub fn cut_waiting(collection: &Collection, id: i64) -> Result<()> {
    let sql = "SELECT EXISTS (SELECT FROM {s}.change WHERE \"table\" = 'document' AND key = $1::text)";
    if collection.query_one(sql, &[id.into()], |row| row.need(1))? {
        cut_anew(collection, &[id])?;
    }
    Ok(())
}

/// Cuts the documents whose changes are pending.
///
/// Build functions call it first. Documents come in canonical order, so that the ids given do not depend on the order
/// in which they were written.
pub fn take_up(collection: &Collection) -> Result<()> {
    let mut documents = 0;
    let mut progress = Progress::start();
    loop {
        let cut = take_up_some(collection)?;
        if cut == 0 {
            return Ok(());
        }
        documents += cut;
        progress.say(|| format!("{documents} documents cut so far"));
        tick();
    }
}

/// Cuts some of the documents whose changes are pending; answers how many, 0 when none is left.
pub fn take_up_some(collection: &Collection) -> Result<usize> {
    // Written where triggers do not fire (replicated, or restored without them): this UPDATE makes up for it.
    collection.execute("UPDATE {s}.document SET body = body WHERE body_hash = ''", &[])?;
    if will_drop_index(collection)? {
        search::drop_index(collection, "node")?;
    }
    let sql = "SELECT d.id FROM {s}.document d WHERE d.id IN \
                 (SELECT c.key::bigint FROM {s}.change c WHERE c.\"table\" = 'document') \
               ORDER BY d.body_hash, d.source_key COLLATE \"C\", d.id LIMIT $1";
    let ids: Vec<i64> = collection.query(sql, &[PASS.into()], |row| row.need(1))?;
    if !ids.is_empty() {
        cut_anew(collection, &ids)?;
        collection.note_step("chunk", None, serde_json::json!({}))?;
        return Ok(ids.len());
    }
    // Not all rows: a statement that commits meanwhile may have recorded more.
    let sql = "DELETE FROM {s}.change c WHERE c.\"table\" = 'document' \
               AND NOT EXISTS (SELECT FROM {s}.document d WHERE d.id = c.key::bigint)";
    collection.execute(sql, &[])?;
    Ok(0)
}

//! `change`: what was recorded and is not taken up yet.

use super::chunk::known_vectors;
use super::{chunk_documents, forget_documents};
use crate::collection::Collection;
use crate::error::Result;
use crate::model::lsa;
use crate::pg::frame::Frame;
use crate::pg::tick;
use crate::progress::Progress;
use crate::{graph, search};

/// Selects the documents that wait to be cut.
pub const WAITING: &str = "SELECT key::bigint FROM {s}.change WHERE \"table\" = 'document' \
                           UNION ALL SELECT id FROM {s}.document WHERE body_hash = ''";

/// Documents of one pass over pending changes.
const PASS: usize = 500;

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

/// Takes back that documents wait to be cut; answers how many records there were.
pub fn no_longer_waiting(collection: &Collection, ids: &[i64]) -> Result<usize> {
    let sql = "DELETE FROM {s}.change WHERE \"table\" = 'document' AND key = ANY ($1::text[])";
    collection.execute(sql, &[ids.to_vec().into()])
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
    if no_longer_waiting(collection, &[id])? > 0 {
        cut_anew(collection, &[id])?;
    }
    Ok(())
}

/// The documents whose changes are pending, cut a piece at a time.
///
/// They come in canonical order, so that the ids given do not depend on the order in which they were written. They are listed
/// once: with a look at all of them for each piece, the time would grow with the square of their number.
#[derive(Default)]
pub struct Waiting {
    changes: Vec<i64>,
    at: usize,
    /// Documents of the lists before this one.
    seen: usize,
    has_begun: bool,
    /// How many were done when the tables were last analyzed.
    analyzed: usize,
}

impl Waiting {
    pub fn done(&self) -> usize {
        self.seen + self.at
    }

    pub fn total(&self) -> usize {
        self.seen + self.changes.len()
    }

    /// Cuts the next documents; answers whether there are more.
    pub fn step(&mut self, collection: &Collection) -> Result<bool> {
        if self.at >= self.changes.len() {
            self.list(collection)?;
        }
        let part = &self.changes[self.at..self.changes.len().min(self.at + PASS)];
        if part.is_empty() {
            // Not all rows: a statement that commits meanwhile may have recorded more.
            let sql = "DELETE FROM {s}.change c WHERE c.\"table\" = 'document' \
                       AND NOT EXISTS (SELECT FROM {s}.document d WHERE d.id = c.key::bigint)";
            collection.execute(sql, &[])?;
            return Ok(false);
        }
        {
            // Of tables that have grown since they were analyzed, the planner would read the whole for each piece.
            let frame = Frame::enter()?;
            frame.set("enable_seqscan", "off")?;
            // Since they were listed, others may have cut or deleted some.
            let sql = "DELETE FROM {s}.change WHERE id = ANY ($1) RETURNING key::bigint";
            let mut ids: Vec<i64> = collection.returning(sql, &[part.to_vec().into()], |row| row.need(1))?;
            ids.sort_unstable();
            ids.dedup();
            cut_anew(collection, &ids)?;
        }
        self.at += part.len();
        if self.done() >= 2 * self.analyzed && self.done() < self.total() {
            collection.analyze(&["node", "block", "change"])?;
            self.analyzed = self.done();
        }
        Ok(true)
    }

    fn list(&mut self, collection: &Collection) -> Result<()> {
        self.seen = self.done();
        self.at = 0;
        // Written where triggers do not fire (replicated, or restored without them): this UPDATE makes up for it.
        collection.execute("UPDATE {s}.document SET body = body WHERE body_hash = ''", &[])?;
        if !self.has_begun && will_drop_index(collection)? {
            search::drop_index(collection, "node")?;
        }
        self.has_begun = true;
        let sql = "SELECT c.id FROM {s}.change c JOIN {s}.document d ON d.id = c.key::bigint WHERE c.\"table\" = 'document' \
                   ORDER BY d.body_hash, d.source_key COLLATE \"C\", d.id";
        self.changes = collection.returning(sql, &[], |row| row.need(1))?;
        Ok(())
    }
}

/// Cuts all documents whose changes are pending. Build functions call it first.
pub fn take_up(collection: &Collection) -> Result<()> {
    let mut waiting = Waiting::default();
    let mut progress = Progress::start();
    while waiting.step(collection)? {
        progress.say(|| format!("{} of {} documents cut", waiting.done(), waiting.total()));
        tick();
    }
    match waiting.total() {
        0 => Ok(()),
        _ => collection.note_step("chunk", None, serde_json::json!({})),
    }
}

//! Vectors of leaves, by an embedder that is not built in.

use super::will_drop_index;
use crate::collection::Collection;
use crate::error::{Result, notice};
use crate::model::embed::{self, Text};
use crate::model::{Answer, Asking, Ledger};
use crate::pg::tick;
use crate::pg::vector::Vectors;
use crate::search;

/// Leaves that are embedded at once.
const BATCH: usize = 1_000;

/// The leaves that wait for their vectors, taken a batch at a time.
pub struct Leaves {
    nodes: Vec<i64>,
    at: usize,
    /// Leaves whose call failed.
    pub failed: i64,
}

impl Leaves {
    pub fn pending(collection: &Collection) -> Result<Leaves> {
        let sql = "SELECT key::bigint FROM {s}.change WHERE \"table\" = 'node' GROUP BY key ORDER BY min(id)";
        Ok(Leaves {
            nodes: collection.query(sql, &[], |row| row.need(1))?,
            at: 0,
            failed: 0,
        })
    }

    pub fn total(&self) -> usize {
        self.nodes.len()
    }

    pub fn done(&self) -> usize {
        self.at
    }

    /// Writes the vectors of the next leaves, or plans what is missing of them and stays there unless `skip`: the answers of
    /// a queue come another day. Answers how many are missing.
    pub fn step(&mut self, collection: &Collection, ledger: &mut Ledger, skip: bool) -> Result<i64> {
        let part = &self.nodes[self.at..self.nodes.len().min(self.at + BATCH)];
        let sql = "SELECT n.id, n.text, n.text_hash, n.document_id FROM unnest($1::bigint[]) WITH ORDINALITY AS u (id, n) \
                   JOIN {s}.node n ON n.id = u.id ORDER BY u.n";
        let rows: Vec<(i64, String, Vec<u8>, i64)> = collection.returning(sql, &[part.to_vec().into()], |row| {
            Ok((row.need(1)?, row.need(2)?, row.need(3)?, row.need(4)?))
        })?;
        let texts: Vec<Text> = rows
            .iter()
            .map(|(_, text, hash, document)| Text {
                text,
                hash: hash.clone(),
                documents: vec![*document],
            })
            .collect();
        let before = ledger.waiting;
        let answers = embed::vectors(ledger, collection, &texts)?;
        let waiting = ledger.waiting - before;
        let (mut ids, mut vectors, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
        let mut failed = 0;
        for ((id, _, hash, _), answer) in rows.iter().zip(answers) {
            match answer {
                Some(Answer::Vector(vector)) => {
                    ids.push(*id);
                    vectors.push(vector);
                    hashes.push(hash.clone());
                }
                Some(_) => failed += 1,
                None => {}
            }
        }
        let sql = "UPDATE {s}.node n SET embedding = u.embedding FROM unnest($1::bigint[], $2::{v}.vector[]) AS u (id, embedding) \
                   WHERE n.id = u.id";
        let vectors = Vectors(vectors.iter().map(Option::as_deref).collect());
        collection.execute(sql, &[ids.clone().into(), vectors.into()])?;
        let sql = "DELETE FROM {s}.change WHERE \"table\" = 'node' AND key IN (SELECT unnest($1::bigint[])::text)";
        collection.execute(sql, &[ids.into()])?;
        if let Some(part) = collection.options.embedder.outside() {
            ledger.moved(&part.model, &hashes)?;
        }
        if waiting == 0 || skip {
            self.at = self.nodes.len().min(self.at + BATCH);
            self.failed += failed;
        }
        Ok(waiting)
    }

    pub fn is_done(&self) -> bool {
        self.at >= self.nodes.len()
    }
}

/// Embeds the leaves that wait for it, in this transaction; answers the number of calls. Build functions call it after
/// cutting.
pub fn embed_all_leaves(collection: &Collection) -> Result<i64> {
    let embedder = &collection.options.embedder;
    let mut leaves = Leaves::pending(collection)?;
    // Of a built-in embedder leaves wait only where another one had not answered yet.
    if embedder.is_built_in() && leaves.total() == 0 {
        return Ok(0);
    }
    if will_drop_index(collection)? {
        search::drop_index(collection, "node")?;
    }
    let mut ledger = Ledger::begin(collection, "embed", Asking::Now)?;
    while !leaves.is_done() {
        leaves.step(collection, &mut ledger, true)?;
        tick();
    }
    if ledger.waiting > 0 {
        tell_waiting(collection, ledger.waiting, "those leaves are found");
    }
    ledger.finish()?;
    if leaves.total() > 0 {
        collection.note_step("embed", Some(&embedder.text), serde_json::json!({}))?;
    }
    Ok(ledger.calls)
}

/// Records all leaves without a vector for the embedder.
pub fn queue_leaves(collection: &Collection) -> Result<()> {
    let sql = "INSERT INTO {s}.change (\"table\", key, kind) SELECT 'node', n.id::text, 'update' FROM {s}.node n \
               WHERE n.level = 0 AND n.embedding IS NULL AND NOT EXISTS \
                 (SELECT FROM {s}.change c WHERE c.\"table\" = 'node' AND c.key = n.id::text) ORDER BY n.id";
    collection.execute(sql, &[])?;
    Ok(())
}

/// Says that answers of a queue are missing.
pub fn tell_waiting(collection: &Collection, waiting: i64, then: &str) {
    let (calls, are) = match waiting {
        1 => ("1 call waits".to_owned(), "it is"),
        _ => (format!("{waiting} calls wait"), "they are"),
    };
    notice(
        format!(
            "{calls} for an answer in {}.model_call; {then} when {are} there",
            collection.schema
        ),
        "Answer the rows with status 'pending' (SET response = ..., status = 'done'), then call again.",
    );
}

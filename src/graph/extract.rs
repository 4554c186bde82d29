//! graph_extract: from blocks to mentions and evidence, and from those to entities and relations.

use std::collections::{BTreeMap, HashSet};

use pgrx::prelude::*;
use serde_json::{Map, Value};

use super::describe::Descriptions;
use super::found::{Block, Found};
use super::merge::{Touched, recount};
use super::rounds::{self, Heard, Passage};
use super::titles;
use super::write::write;
use crate::collection::Collection;
use crate::error::{Result, required, sql};
use crate::model::{Asking, Ledger};
use crate::pg::json::Json;
use crate::pg::tick;
use crate::progress::Progress;
use crate::{ingest, search};

/// A block was read, but the question for what was missed in it has failed.
const NOT_ASKED_AGAIN: &str = "gleaning failed";

/// Blocks that are read and written at once.
const BATCH: usize = 500;

/// SQL: `graph_extract(collection, again)`.
#[pg_extern(sql = false)]
fn graph_extract(
    collection: Option<&str>,
    again: Option<bool>,
) -> sql::Result<
    TableIterator<
        'static,
        (
            name!(blocks, i64),
            name!(entities, i64),
            name!(relations, i64),
            name!(failed, i64),
            name!(calls, i64),
            name!(reasons, Json),
        ),
    >,
> {
    Ok(TableIterator::once(extract(collection, again)?))
}

fn extract(name: Option<&str>, again: Option<bool>) -> Result<(i64, i64, i64, i64, i64, Json)> {
    let again = required(again, "again")?;
    let collection = Collection::build_with_models(name, false)?;
    ingest::take_up(&collection)?;
    if again {
        let sql = "INSERT INTO {s}.change (\"table\", key, kind) SELECT 'block', id::text, 'update' FROM {s}.block b \
                   WHERE NOT EXISTS (SELECT FROM {s}.change c WHERE c.\"table\" = 'block' AND c.key = b.id::text)";
        collection.execute(sql, &[])?;
    }
    search::ensure_index(&collection, "node")?;
    collection.analyze(&["node", "block", "document"])?;
    let mut blocks = Blocks::pending(&collection)?;
    let mut ledger = Ledger::begin(&collection, "extract", Asking::Now)?;
    let mut progress = Progress::start();
    while !blocks.is_done() {
        blocks.step(&collection, &mut ledger, true)?;
        tick();
        progress.say(|| format!("{} of {} blocks read", blocks.done(), blocks.total()));
    }
    if ledger.waiting > 0 {
        ingest::tell_waiting(&collection, ledger.waiting, "those blocks are read");
    }
    ledger.finish()?;
    collection.analyze(&["mention", "evidence", "relation"])?;
    let touched = blocks.settle(&collection)?;
    finish(&collection, &blocks)?;
    let calls = ledger.calls + describe(&collection)?;
    let (entities, relations) = (touched.entities.len() as i64, touched.relations.len() as i64);
    let reasons: Map<String, Value> = std::mem::take(&mut blocks.reasons)
        .into_iter()
        .map(|(reason, count)| (reason.to_owned(), count.into()))
        .collect();
    let reasons = Json::from(Value::Object(reasons));
    Ok((blocks.read, entities, relations, blocks.failed, calls, reasons))
}

/// Has long descriptions written by the summarizer; answers how many calls that took.
fn describe(collection: &Collection) -> Result<i64> {
    let mut descriptions = Descriptions::pending(collection)?;
    if descriptions.total() == 0 {
        return Ok(0);
    }
    let mut ledger = Ledger::begin(collection, "describe", Asking::Now)?;
    let mut progress = Progress::start();
    while !descriptions.is_done() {
        descriptions.step(collection, &mut ledger, true)?;
        tick();
        progress.say(|| format!("{} of {} descriptions", descriptions.done(), descriptions.total()));
    }
    if ledger.waiting > 0 {
        ingest::tell_waiting(collection, ledger.waiting, "those descriptions are written");
    }
    ledger.finish()?;
    Ok(ledger.calls)
}

/// Brings statistics and the settings up to what extraction has written.
pub fn finish(collection: &Collection, read: &Blocks) -> Result<()> {
    collection.analyze(&["entity", "mention", "relation", "evidence"])?;
    // What an edge of the built-in extractor is worth depends on how many blocks there are. They are counted anew when one in a
    // hundred has come, so that a document more does not read them all.
    let sql =
        "SELECT (value ->> 'blocks')::bigint, (value ->> 'since')::bigint FROM {s}.setting WHERE key = 'step.extract'";
    let known = collection.query(sql, &[], |row| Ok((row.get::<i64>(1)?, row.get::<i64>(2)?)))?;
    let (blocks, since) = match known[..] {
        [(Some(blocks), Some(since))] if (since + read.read) * 100 <= blocks => (blocks, since + read.read),
        _ => {
            let count = "SELECT count(*) FROM {s}.block";
            (collection.query_one(count, &[], |row| row.need::<i64>(1))?, 0)
        }
    };
    collection.note_step(
        "extract",
        Some(&collection.options.extractor.text),
        serde_json::json!({ "blocks": blocks, "since": since }),
    )
}

/// The blocks that were not read yet, taken a batch at a time in canonical order.
pub struct Blocks {
    ids: Vec<i64>,
    at: usize,
    touched: Touched,
    /// Blocks read, and blocks whose model call failed.
    pub read: i64,
    pub failed: i64,
    /// Records of models' answers that were dropped or flagged, by reason.
    reasons: BTreeMap<&'static str, i64>,
}

impl Blocks {
    pub fn pending(collection: &Collection) -> Result<Blocks> {
        let sql = "SELECT b.id FROM {s}.block b JOIN {s}.document d ON d.id = b.document_id \
                   WHERE b.id IN (SELECT c.key::bigint FROM {s}.change c WHERE c.\"table\" = 'block') \
                   ORDER BY d.body_hash, d.source_key COLLATE \"C\", d.id, b.ordinal";
        Ok(Blocks {
            ids: collection.query(sql, &[], |row| row.need(1))?,
            at: 0,
            touched: Touched::default(),
            read: 0,
            failed: 0,
            reasons: BTreeMap::new(),
        })
    }

    pub fn total(&self) -> usize {
        self.ids.len()
    }

    pub fn done(&self) -> usize {
        self.at
    }

    pub fn is_done(&self) -> bool {
        self.at >= self.ids.len()
    }

    /// Reads the next blocks and writes what they say, or plans the answers that are missing and stays there unless `skip`.
    /// Answers how many are missing.
    pub fn step(&mut self, collection: &Collection, ledger: &mut Ledger, skip: bool) -> Result<i64> {
        let ids = &self.ids[self.at..self.ids.len().min(self.at + BATCH)];
        let sql = "SELECT b.id, b.document_id, b.start_char, b.text, d.title, to_json(b.section_path)::text, \
                     ARRAY(SELECT c.id FROM {s}.change c WHERE c.\"table\" = 'block' AND c.key = b.id::text), \
                     d.partition \
                   FROM unnest($1::bigint[]) WITH ORDINALITY AS u (id, n) \
                   JOIN {s}.block b ON b.id = u.id JOIN {s}.document d ON d.id = b.document_id \
                   WHERE EXISTS (SELECT FROM {s}.change c WHERE c.\"table\" = 'block' AND c.key = b.id::text) ORDER BY u.n";
        let rows = collection.returning(sql, &[ids.to_vec().into()], |row| {
            let block = Block {
                id: row.need(1)?,
                document: row.need(2)?,
                start: row.need(3)?,
                text: row.need(4)?,
                changes: row.need(7)?,
            };
            let section: String = row.need(6)?;
            Ok(Passage {
                block,
                title: row.get(5)?,
                partition: row.need(8)?,
                section: serde_json::from_str(&section).unwrap_or_default(),
            })
        })?;
        let options = &collection.options;
        let mut found = Found::default();
        let mut read: Vec<i64> = Vec::with_capacity(rows.len());
        let before = ledger.waiting;
        let mut failed = 0;
        if options.extractor.is_built_in() {
            titles::read(collection, &rows, &mut found)?;
            read.extend(rows.iter().map(|row| row.block.id));
        } else {
            let heard = rounds::ask(collection, ledger, &rows)?;
            for (Passage { block, .. }, heard) in rows.iter().zip(heard) {
                match heard {
                    Heard::Read { found: answer, missed } => {
                        found.add_answer(block, *answer, &options.reading);
                        if missed {
                            found.count(NOT_ASKED_AGAIN);
                        }
                        read.push(block.id);
                    }
                    Heard::Failed => failed += 1,
                    Heard::Waiting => {}
                }
                tick();
            }
        }
        let waiting = ledger.waiting - before;
        for (reason, count) in std::mem::take(&mut found.reasons) {
            *self.reasons.entry(reason).or_default() += count;
        }
        unwrite(collection, &read, &mut self.touched)?;
        write(collection, found, false, &mut self.touched)?;
        // Not all rows: a statement that commits meanwhile may have recorded more, of these blocks, too.
        let is_read: HashSet<i64> = read.iter().copied().collect();
        let done = rows
            .iter()
            .map(|row| &row.block)
            .filter(|block| is_read.contains(&block.id));
        let changes: Vec<i64> = done.flat_map(|block| block.changes.iter().copied()).collect();
        collection.execute("DELETE FROM {s}.change WHERE id = ANY ($1)", &[changes.into()])?;
        self.read += read.len() as i64;
        if waiting == 0 || skip {
            self.at = self.ids.len().min(self.at + BATCH);
            self.failed += failed;
        }
        Ok(waiting)
    }

    /// Recomputes what the blocks read since the last time have touched.
    pub fn settle(&mut self, collection: &Collection) -> Result<Touched> {
        let mut touched = std::mem::take(&mut self.touched);
        for list in [&mut touched.entities, &mut touched.relations] {
            list.sort_unstable();
            list.dedup();
        }
        recount(collection, &touched)?;
        Ok(touched)
    }
}

/// Removes what was found in the blocks `ids` before.
pub fn unwrite(collection: &Collection, ids: &[i64], touched: &mut Touched) -> Result<()> {
    let sql = "DELETE FROM {s}.mention WHERE block_id = ANY ($1) AND NOT given RETURNING entity_id";
    touched
        .entities
        .extend(collection.returning(sql, &[ids.to_vec().into()], |row| row.need::<i64>(1))?);
    let sql = "DELETE FROM {s}.claim WHERE block_id = ANY ($1) AND NOT given";
    collection.execute(sql, &[ids.to_vec().into()])?;
    let sql = "DELETE FROM {s}.evidence WHERE block_id = ANY ($1) AND NOT given RETURNING relation_id";
    touched
        .relations
        .extend(collection.returning(sql, &[ids.to_vec().into()], |row| row.need::<i64>(1))?);
    Ok(())
}

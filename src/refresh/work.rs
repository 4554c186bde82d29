//! The steps of a refresh, one like the other: plan and write what can be written, say what is missing.

use pgrx::notice;

use super::reembed::Reembed;
use crate::collection::Collection;
use crate::error::Result;
use crate::graph::{self, Blocks, Descriptions, Reports};
use crate::ingest::{self, Leaves, Waiting};
use crate::model::{Asking, Form, Ledger, Model, Role, ledger, lsa};
use crate::pg::spi;
use crate::progress::count;
use crate::raptor::Shape;
use crate::search;

/// The steps that a caller can name, in their order.
pub const STEPS: [&str; 6] = ["embed", "tree", "extract", "describe", "communities", "reports"];

/// Going over to another embedder, which is a part of embed. In the ledger it is a step of its own: what one of the two does
/// not want, the other may.
pub const REEMBED: &str = "reembed";

/// A step at work.
pub enum Work {
    /// Cuts documents that wait for it.
    Cut(Waiting),
    Embed(Leaves),
    /// Goes over to another embedder.
    Reembed(Box<Reembed>),
    Tree,
    Extract(Blocks),
    Describe(Descriptions),
    Communities,
    Reports(Reports),
}

/// How far a step is.
pub struct Pace {
    pub done: usize,
    pub total: usize,
    /// What is counted: one, and many.
    pub of: (&'static str, &'static str),
}

impl Work {
    /// The step as the ledger knows it.
    pub fn step(&self) -> &'static str {
        match self {
            Work::Cut(_) => "chunk",
            Work::Embed(_) => "embed",
            Work::Reembed(_) => REEMBED,
            Work::Tree => "tree",
            Work::Extract(_) => "extract",
            Work::Describe(_) => "describe",
            Work::Communities => "communities",
            Work::Reports(_) => "reports",
        }
    }

    /// The work of a step, or nothing if there is none.
    pub fn of(step: &str, collection: &Collection) -> Result<Option<Work>> {
        let work = match step {
            "embed" => Some(Work::Embed(Leaves::pending(collection)?)),
            REEMBED => match &collection.options.next_embedder {
                Some(next) => Some(Work::Reembed(Box::new(Reembed::new(collection, Some(next.clone()))?))),
                None => relearn(collection)?,
            },
            "tree" => (has_vectors(collection)? && needs_tree(collection)?).then_some(Work::Tree),
            "extract" => Some(Work::Extract(Blocks::pending(collection)?)),
            "describe" => Some(Work::Describe(Descriptions::pending(collection)?)),
            "communities" => graph::needs_communities(collection)?.then_some(Work::Communities),
            _ => {
                let options = &collection.options;
                let lazily = options.lazy_reports && !options.summarizer.is_built_in();
                Some(Work::Reports(Reports::pending(collection, None, lazily)?))
            }
        };
        let has_items = |work: &Work| work.pace().is_none_or(|pace| pace.total > 0);
        Ok(work.filter(|work| step == REEMBED || has_items(work) || leftovers(step, collection)))
    }

    /// Whether its next piece may replace the vectors of leaves.
    pub fn replaces(&self) -> bool {
        matches!(self, Work::Reembed(texts) if texts.replaces())
    }

    pub fn pace(&self) -> Option<Pace> {
        let pace = |done, total, of| Some(Pace { done, total, of });
        match self {
            Work::Cut(waiting) => pace(waiting.done(), waiting.total(), ("document", "documents")),
            Work::Embed(leaves) => pace(leaves.done(), leaves.total(), ("leaf", "leaves")),
            Work::Reembed(texts) => pace(texts.done(), texts.total(), ("text", "texts")),
            Work::Extract(blocks) => pace(blocks.done(), blocks.total(), ("block", "blocks")),
            Work::Describe(rows) => pace(rows.done(), rows.total(), ("description", "descriptions")),
            Work::Reports(reports) => pace(reports.done(), reports.total(), ("report", "reports")),
            Work::Tree | Work::Communities => None,
        }
    }

    /// Does the next piece. `begin` is for the first one of a run, `skip` says not to wait for what is missing. Answers how many
    /// answers are missing, and whether the step is done but for those.
    pub fn piece(&mut self, collection: &Collection, begin: bool, skip: bool) -> Result<(i64, bool)> {
        let step = self.step();
        let mut ledger = match begin {
            true => Ledger::begin(collection, step, Asking::Later)?,
            false => Ledger::resume(collection, step, Asking::Later),
        };
        let (waiting, done) = match self {
            Work::Cut(waiting) => {
                let more = waiting.step(collection)?;
                if !more {
                    if waiting.total() > 0 {
                        collection.note_step("chunk", None, serde_json::json!({}))?;
                    }
                    // Vectors that are about to be replaced need none.
                    if collection.options.embedder.is_built_in() && lsa::is_due(collection)?.is_none() {
                        search::ensure_index(collection, "node")?;
                    }
                    lsa::tidy(collection)?;
                    collection.analyze(&["node", "block", "document"])?;
                }
                return Ok((0, !more));
            }
            Work::Embed(leaves) => {
                if begin && ingest::will_drop_index(collection)? {
                    search::drop_index(collection, "node")?;
                }
                let skip = skip || collection.options.embedder.is_queue();
                (leaves.step(collection, &mut ledger, skip)?, leaves.is_done())
            }
            Work::Reembed(texts) => {
                let waiting = texts.step(collection, &mut ledger, skip)?;
                (waiting, texts.is_done())
            }
            Work::Tree => {
                let built = Shape::of_last(collection)?.build(collection, ledger, true)?;
                return Ok((built.waiting, true));
            }
            Work::Extract(blocks) => {
                let skip = skip || is_queue(&collection.options.extractor);
                let waiting = blocks.step(collection, &mut ledger, skip)?;
                blocks.settle(collection)?;
                (waiting, blocks.is_done())
            }
            Work::Describe(rows) => {
                let skip = skip || is_queue(&collection.options.summarizer);
                (rows.step(collection, &mut ledger, skip)?, rows.is_done())
            }
            Work::Communities => {
                graph::find_again(collection)?;
                return Ok((0, true));
            }
            Work::Reports(reports) => {
                let skip = skip || is_queue(&collection.options.summarizer);
                (reports.step(collection, &mut ledger, skip)?, reports.is_done())
            }
        };
        if done {
            ledger.finish()?;
            self.finish(collection)?;
        }
        Ok((waiting, done))
    }

    fn finish(&self, collection: &Collection) -> Result<()> {
        match self {
            Work::Embed(_) => {
                search::ensure_index(collection, "node")?;
                collection.note_step("embed", Some(&collection.options.embedder.text), serde_json::json!({}))
            }
            Work::Extract(blocks) => graph::finish_extraction(collection, blocks),
            Work::Describe(_) => collection.note_step(
                "describe",
                Some(&collection.options.summarizer.text),
                serde_json::json!({}),
            ),
            Work::Reports(reports) => reports.finish(collection),
            _ => Ok(()),
        }
    }

    /// Items whose calls have failed.
    pub fn failed(&self) -> i64 {
        match self {
            Work::Embed(leaves) => leaves.failed,
            Work::Extract(blocks) => blocks.failed,
            Work::Describe(rows) => rows.failed,
            Work::Reports(reports) => reports.failed(),
            _ => 0,
        }
    }
}

/// Embedding all texts by what the embedder learns anew, if the collection is due to learn.
fn relearn(collection: &Collection) -> Result<Option<Work>> {
    let Some(reason) = lsa::is_due(collection)? else {
        return Ok(None);
    };
    notice!("reembed: the embedder learns, since {reason}");
    Ok(Some(Work::Reembed(Box::new(Reembed::new(collection, None)?))))
}

/// Whether no leaf waits for its vector: a tree over a part of them would be paid for nothing. Says so if one does.
fn has_vectors(collection: &Collection) -> Result<bool> {
    let Some(part) = collection.options.embedder.outside() else {
        return Ok(true);
    };
    let prefix = ledger::prefix(Role::Embedder, &part.model.identity(collection.owner)?);
    let sql = "SELECT count(*) FROM {s}.node n WHERE n.id IN (SELECT key::bigint FROM {s}.change WHERE \"table\" = 'node') \
               AND NOT EXISTS (SELECT FROM {s}.model_call m WHERE m.key = sha256($1 || n.text_hash) AND m.status = 'failed')";
    let waiting: i64 = collection.query_one(sql, &[prefix.into()], |row| row.need(1))?;
    if waiting > 0 {
        let (leaves, wait) = (
            count(waiting, "leaf", "leaves"),
            if waiting == 1 { "waits" } else { "wait" },
        );
        notice!("tree: left for later, {leaves} {wait} for a vector (step embed)");
    }
    Ok(waiting == 0)
}

fn is_queue(model: &Model) -> bool {
    model.form == Form::Queue
}

/// Whether the ledger has something of a step to clear away.
fn leftovers(step: &str, collection: &Collection) -> bool {
    let sql = "SELECT EXISTS (SELECT FROM {s}.model_call WHERE step = $1 AND (stale OR status = 'pending'))";
    collection
        .query_one(sql, &[step.into()], |row| row.need(1))
        .unwrap_or(true)
}

/// Whether a leaf, or a summary where one root is due, has no parent, or a summary has lost its text or is not the model's.
pub fn needs_tree(collection: &Collection) -> Result<bool> {
    let shape = Shape::of_last(collection)?;
    let orphans = "SELECT n.partition, count(*) AS orphans, min(n.level) AS level, \
                     (SELECT count(*) FROM {s}.node l WHERE l.level = 0 AND l.embedding IS NOT NULL AND l.partition = n.partition) AS leaves \
                   FROM {s}.node n WHERE n.embedding IS NOT NULL AND NOT EXISTS (SELECT FROM {s}.node_child c WHERE c.child_id = n.id) \
                   GROUP BY 1";
    let sql = format!(
        "SELECT EXISTS (SELECT FROM {{s}}.node WHERE level > 0 AND stale AND text = '') \
         OR EXISTS (SELECT FROM {{s}}.node WHERE level > 0 AND stale) AND EXISTS \
           (SELECT FROM {{s}}.model_call WHERE step = 'tree' AND (status = 'pending' OR status = 'failed' AND attempts < $2 \
              OR status = 'done' AND finished_at IS NULL)) \
         OR EXISTS (SELECT FROM ({orphans}) o WHERE leaves > 1 AND (level = 0 OR orphans > 1 AND $1::int IS NULL))"
    );
    let args: [spi::Arg; 2] = [shape.max_levels.into(), collection.options.max_attempts.into()];
    collection.query_one(&sql, &args, |row| row.need(1))
}

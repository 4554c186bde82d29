//! `builtin:lsa`: the embedder that a collection teaches itself, by latent semantic analysis of its leaves.
//!
//! What it has learned stands in the table `term`: a text is the weighted sum of its terms' vectors, so that embedding a query
//! is one look-up by key. Which terms a text has, the dictionaries of the collection's language decide.

mod due;
mod forget;
mod learn;
mod neighbors;
mod space;

pub use due::{FEW, LEAST, Standing, at_once, can_learn, is_due, may_learn};
pub use forget::{forget, held, recount, tidy, unlearn};
pub use learn::{Learning, describe};
pub use space::Space;

use std::cell::Cell;

use pgrx::pg_sys;
use serde_json::{Value, json};

use crate::collection::{Collection, literal};
use crate::error::{Result, notice};
use crate::search::has_index;

/// The key of [`State`] in `setting`.
pub const KEY: &str = "lsa";

/// What the embedder has learned from; in `setting`.
#[derive(Clone, Copy, Debug, Default)]
pub struct State {
    /// How often it has learned.
    pub version: i64,
    /// Leaves that it has learned from; 0 while it has learned nothing.
    pub leaves: i64,
    /// Their terms, summed over the leaves.
    pub occurrences: i64,
    pub rank: i64,
    /// The last leaf that was there.
    pub last_node: i64,
    /// The last document that counts in `term.document_count`.
    pub last_document: i64,
}

impl State {
    /// As it is now: another transaction may have changed it since the settings were read.
    pub fn load(collection: &Collection) -> Result<State> {
        let sql = "SELECT value::text FROM {s}.setting WHERE key = $1";
        let found: Vec<String> = collection.query(sql, &[KEY.into()], |row| row.need(1))?;
        let value: Value = found
            .first()
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        // What is no number of ours counts as not learned.
        let number = |key: &str| value[key].as_i64().filter(|n| *n >= 0).unwrap_or_default();
        Ok(State {
            version: number("version"),
            leaves: number("leaves"),
            occurrences: number("occurrences"),
            rank: number("rank"),
            last_node: number("last_node"),
            last_document: number("last_document"),
        })
    }

    fn save(&self, collection: &Collection) -> Result<()> {
        let value = json!({
            "version": self.version,
            "leaves": self.leaves,
            "occurrences": self.occurrences,
            "rank": self.rank,
            "last_node": self.last_node,
            "last_document": self.last_document,
        });
        let sql = "INSERT INTO {s}.setting (key, value) VALUES ($1, $2::jsonb) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        collection.execute(sql, &[KEY.into(), value.to_string().into()])?;
        Ok(())
    }

    pub fn has_learned(&self) -> bool {
        self.leaves > 0
    }
}

/// How somebody has the collection learn who does not wait until it is due, for hints.
pub fn to_learn(collection: &Collection) -> String {
    let name = literal(&collection.name);
    let embedder = &collection.options.embedder.text;
    format!("SELECT rag_alter({name}, '{{\"embedder\": \"{embedder}\"}}') and CALL rag_refresh({name}) learn anew")
}

/// Says that the embedder has not learned what it could, but not of the same collection twice in a row.
pub fn tell_if_unlearned(collection: &Collection) -> Result<()> {
    thread_local! {
        static TOLD: Cell<pg_sys::Oid> = const { Cell::new(pg_sys::Oid::INVALID) };
    }
    if TOLD.get() == collection.oid {
        return Ok(());
    }
    if can_learn(collection)? {
        TOLD.set(collection.oid);
        notice(
            "the embedder has not learned this collection yet, and knows words by their spelling alone",
            format!("CALL rag_refresh({})", literal(&collection.name)),
        );
    }
    Ok(())
}

/// Whether the collection holds nothing that the embedder would have to embed anew, so that it can learn from what comes next
/// as it comes.
pub fn is_blank(collection: &Collection) -> Result<bool> {
    if collection.options.embedder.lsa().is_none() || has_index(collection, "node")? {
        return Ok(false);
    }
    collection.query_one("SELECT NOT EXISTS (SELECT FROM {s}.node)", &[], |row| row.need(1))
}

/// Fails, with a serialization failure, where an older snapshot does not show what the embedder has learned since: leaves would
/// get vectors that do not fit the others.
pub fn must_be_current(collection: &Collection) -> Result<()> {
    if collection.options.embedder.lsa().is_some() && !collection.is_read_committed()? {
        let sql = "SELECT key FROM {s}.setting WHERE key = $1 FOR SHARE";
        collection.returning(sql, &[KEY.into()], |_| Ok(()))?;
    }
    Ok(())
}

//! `builtin:lsa`: the embedder that a collection teaches itself, by latent semantic analysis of its leaves.
//!
//! What it has learned stands in the table `term`: a text is the weighted sum of its terms' vectors, so that embedding a query
//! is one look-up by key. Which terms a text has, the dictionaries of the collection's language decide.

mod forget;
mod learn;
mod lexemes;
mod neighbors;
mod space;

pub use forget::{forget, tidy, unlearn};
pub use learn::{LEAST, Learning, describe, is_due, may_learn, must_learn};
pub use space::Space;

use crate::collection::Collection;
use crate::error::Result;
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
    /// The last leaf that counts in `term.document_count`.
    pub last_node: i64,
}

impl State {
    /// As it is now: another transaction may have changed it since the settings were read.
    pub fn load(collection: &Collection) -> Result<State> {
        let sql = "SELECT coalesce((value ->> 'version')::bigint, 0), coalesce((value ->> 'leaves')::bigint, 0), \
                     coalesce((value ->> 'occurrences')::bigint, 0), coalesce((value ->> 'rank')::bigint, 0), \
                     coalesce((value ->> 'last_node')::bigint, 0) \
                   FROM {s}.setting WHERE key = $1";
        let found = collection.query(sql, &[KEY.into()], |row| {
            Ok(State {
                version: row.need(1)?,
                leaves: row.need(2)?,
                occurrences: row.need(3)?,
                rank: row.need(4)?,
                last_node: row.need(5)?,
            })
        })?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    fn save(&self, collection: &Collection) -> Result<()> {
        let value = serde_json::json!({
            "version": self.version,
            "leaves": self.leaves,
            "occurrences": self.occurrences,
            "rank": self.rank,
            "last_node": self.last_node,
        });
        let sql = "INSERT INTO {s}.setting (key, value) VALUES ($1, $2::jsonb) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        collection.execute(sql, &[KEY.into(), value.to_string().into()])?;
        Ok(())
    }

    pub fn has_learned(&self) -> bool {
        self.leaves > 0
    }
}

/// Whether the collection holds nothing that the embedder would have to embed anew, so that it can learn from what comes next
/// as it comes.
pub fn is_blank(collection: &Collection) -> Result<bool> {
    if collection.options.embedder.lsa().is_none() || !collection.is_read_committed()? || has_index(collection, "node")?
    {
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

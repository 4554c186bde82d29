//! What `builtin:lsa` forgets when documents go: terms that no leaf holds any more.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::State;
use crate::collection::Collection;
use crate::error::Result;
use crate::lexical::Lexemes;
use crate::pg::tick;

/// Documents whose leaves are read at once.
const BATCH: usize = 50;

/// How many of some documents hold each term, of those that count.
pub type Held = BTreeMap<String, i64>;

/// The terms of the leaves of `documents`, as far as the documents count: those that came after the last learning do not.
pub fn held(collection: &Collection, documents: &[i64]) -> Result<Held> {
    let state = State::load(collection)?;
    let mut held = Held::new();
    let counted: Vec<i64> = documents
        .iter()
        .copied()
        .filter(|id| *id <= state.last_document)
        .collect();
    if !state.has_learned() || counted.is_empty() {
        return Ok(held);
    }
    if Lexemes::configuration(collection)?.is_none() {
        // Without the dictionaries nobody knows which terms they were.
        unlearn(collection)?;
        return Ok(held);
    }
    let mut lexemes = Lexemes::default();
    for part in counted.chunks(BATCH) {
        let sql = "SELECT document_id, text FROM {s}.node WHERE level = 0 AND document_id = ANY ($1) ORDER BY document_id, id";
        let leaves: Vec<(i64, String)> =
            collection.returning(sql, &[part.to_vec().into()], |row| Ok((row.need(1)?, row.need(2)?)))?;
        for leaves in leaves.chunk_by(|a, b| a.0 == b.0) {
            let texts: Vec<&str> = leaves.iter().map(|(_, text)| text.as_str()).collect();
            let rows = lexemes.rows(collection, &texts)?;
            let terms: BTreeSet<u32> = rows.iter().flatten().map(|(term, _)| *term).collect();
            for term in terms {
                *held.entry(lexemes.name(term).to_owned()).or_default() += 1;
            }
            tick();
        }
    }
    Ok(held)
}

/// Counts documents out that are about to go; a term that no counted document holds then is deleted.
pub fn forget(collection: &Collection, documents: &[i64]) -> Result<()> {
    let held = held(collection, documents)?;
    count_out(collection, &held)
}

/// Brings the counts up to documents that have been cut anew: `before` is what they held.
pub fn recount(collection: &Collection, documents: &[i64], before: Held) -> Result<()> {
    let mut gone = before;
    for (name, count) in held(collection, documents)? {
        *gone.entry(name).or_default() -= count;
    }
    gone.retain(|_, count| *count != 0);
    count_out(collection, &gone)
}

/// Takes counts from the terms, and deletes those that have none left.
///
/// Terms that another transaction has locked are not waited for, since two that delete documents would then wait for each
/// other's: their share is recorded in `change`, for [`tidy`].
fn count_out(collection: &Collection, gone: &Held) -> Result<()> {
    if gone.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = gone.keys().cloned().collect();
    // An older snapshot cannot lock what has changed since.
    let free: Vec<String> = match collection.is_read_committed()? {
        true => {
            let sql = "SELECT lexeme FROM {s}.term WHERE lexeme = ANY ($1) ORDER BY lexeme COLLATE \"C\" FOR UPDATE SKIP LOCKED";
            collection.returning(sql, &[names.clone().into()], |row| row.need(1))?
        }
        false => Vec::new(),
    };
    let counts = |names: &[String]| names.iter().map(|name| gone[name]).collect::<Vec<i64>>();
    take_from(collection, &free, counts(&free))?;
    let free: HashSet<&String> = free.iter().collect();
    let taken: Vec<String> = names.iter().filter(|name| !free.contains(name)).cloned().collect();
    let counts = counts(&taken);
    let sql = "INSERT INTO {s}.change (\"table\", key, kind) SELECT 'term', t.lexeme, u.n::text \
               FROM unnest($1::text[], $2::bigint[]) AS u (lexeme, n) JOIN {s}.term t ON t.lexeme = u.lexeme";
    collection.execute(sql, &[taken.into(), counts.into()])?;
    Ok(())
}

fn take_from(collection: &Collection, names: &[String], counts: Vec<i64>) -> Result<()> {
    let args = || [names.to_vec().into(), counts.clone().into()];
    let given = "unnest($1::text[], $2::bigint[]) AS u (lexeme, n)";
    let sql = format!("DELETE FROM {{s}}.term t USING {given} WHERE t.lexeme = u.lexeme AND t.document_count <= u.n");
    collection.execute(&sql, &args())?;
    let sql = format!(
        "UPDATE {{s}}.term t SET document_count = t.document_count - u.n FROM {given} WHERE t.lexeme = u.lexeme"
    );
    collection.execute(&sql, &args())?;
    Ok(())
}

/// Counts out what deletions have recorded for later.
pub fn tidy(collection: &Collection) -> Result<()> {
    let sql = "DELETE FROM {s}.change WHERE \"table\" = 'term' RETURNING key, kind::bigint";
    let rows: Vec<(String, i64)> = collection.returning(sql, &[], |row| Ok((row.need(1)?, row.need(2)?)))?;
    let mut gone = Held::new();
    for (name, count) in rows {
        let sum = gone.entry(name).or_default();
        *sum = sum.saturating_add(count);
    }
    count_out(collection, &gone)
}

/// Nothing is learned any more: the documents are gone, or the embedder is another one.
pub fn unlearn(collection: &Collection) -> Result<()> {
    let state = State::load(collection)?;
    if !state.has_learned() {
        return Ok(());
    }
    collection.execute("DELETE FROM {s}.term", &[])?;
    State {
        version: state.version,
        ..State::default()
    }
    .save(collection)
}

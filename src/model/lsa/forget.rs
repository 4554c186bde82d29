//! What `builtin:lsa` forgets when documents go: terms that no leaf holds any more.

use std::collections::BTreeMap;

use super::State;
use super::lexemes::Lexemes;
use crate::collection::Collection;
use crate::error::Result;
use crate::pg::tick;

/// Leaves that are read at once.
const BATCH: i64 = 1_000;

/// Counts the leaves of `documents` out of the terms that they were counted in; a term that no leaf holds then is deleted.
/// Comes before the leaves are deleted.
///
/// Terms that another transaction has locked are not waited for, since two that delete documents would then wait for each
/// other's: their share is recorded in `change`, for [`tidy`].
pub fn forget(collection: &Collection, documents: &[i64]) -> Result<()> {
    let state = State::load(collection)?;
    if !state.has_learned() {
        return Ok(());
    }
    if Lexemes::configuration(collection)?.is_none() {
        // Without the dictionaries nobody knows which terms they were.
        return unlearn(collection);
    }
    let mut lexemes = Lexemes::default();
    let mut gone: BTreeMap<String, i64> = BTreeMap::new();
    let mut last = 0;
    loop {
        let sql = "SELECT id, text FROM {s}.node WHERE level = 0 AND document_id = ANY ($1) AND id > $2 AND id <= $3 \
                   ORDER BY id LIMIT $4";
        let args = [
            documents.to_vec().into(),
            last.into(),
            state.last_node.into(),
            BATCH.into(),
        ];
        let leaves: Vec<(i64, String)> = collection.returning(sql, &args, |row| Ok((row.need(1)?, row.need(2)?)))?;
        let Some((id, _)) = leaves.last() else { break };
        last = *id;
        let texts: Vec<&str> = leaves.iter().map(|(_, text)| text.as_str()).collect();
        for row in lexemes.rows(collection, &texts)? {
            for (term, _) in row {
                *gone.entry(lexemes.name(term).to_owned()).or_default() += 1;
            }
        }
        tick();
    }
    count_out(collection, &gone)
}

fn count_out(collection: &Collection, gone: &BTreeMap<String, i64>) -> Result<()> {
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
    let free: std::collections::HashSet<&String> = free.iter().collect();
    let held: Vec<String> = names.iter().filter(|name| !free.contains(name)).cloned().collect();
    let counts = counts(&held);
    let sql = "INSERT INTO {s}.change (\"table\", key, kind) SELECT 'term', t.lexeme, u.n::text \
               FROM unnest($1::text[], $2::bigint[]) AS u (lexeme, n) JOIN {s}.term t ON t.lexeme = u.lexeme";
    collection.execute(sql, &[held.into(), counts.into()])?;
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
    let mut gone: BTreeMap<String, i64> = BTreeMap::new();
    for (name, count) in rows {
        *gone.entry(name).or_default() += count;
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

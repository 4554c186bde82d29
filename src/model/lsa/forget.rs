//! What `builtin:lsa` forgets when documents go: terms that no leaf holds any more.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::State;
use crate::collection::Collection;
use crate::error::Result;
use crate::lexical::{Lexemes, quote};
use crate::pg::tick;

/// Documents whose leaves are read at once.
const BATCH: usize = 50;
/// Terms whose leaves are looked up.
const FEW: usize = 200;

/// How many of some documents hold each term, of those that count: none of a term that only others hold.
pub type Held = BTreeMap<String, i64>;

/// The terms of the leaves of `documents`. Documents that came after the last learning do not count.
pub fn held(collection: &Collection, documents: &[i64]) -> Result<Held> {
    let state = State::load(collection)?;
    let mut held = Held::new();
    if !state.has_learned() {
        return Ok(held);
    }
    if Lexemes::configuration(collection)?.is_none() {
        // Without the dictionaries nobody knows which terms they were.
        unlearn(collection)?;
        return Ok(held);
    }
    let mut lexemes = Lexemes::default();
    for part in documents.chunks(BATCH) {
        let sql = "SELECT document_id, text FROM {s}.node WHERE level = 0 AND document_id = ANY ($1) ORDER BY document_id, id";
        let leaves: Vec<(i64, String)> =
            collection.returning(sql, &[part.to_vec().into()], |row| Ok((row.need(1)?, row.need(2)?)))?;
        for leaves in leaves.chunk_by(|a, b| a.0 == b.0) {
            let texts: Vec<&str> = leaves.iter().map(|(_, text)| text.as_str()).collect();
            let rows = lexemes.rows(collection, &texts)?;
            let terms: BTreeSet<u32> = rows.iter().flatten().map(|(term, _)| *term).collect();
            let counts = i64::from(leaves[0].0 <= state.last_document);
            for term in terms {
                *held.entry(lexemes.name(term).to_owned()).or_default() += counts;
            }
            tick();
        }
    }
    Ok(held)
}

/// Counts documents out that are about to go; a term that no leaf of another document holds is deleted.
pub fn forget(collection: &Collection, documents: &[i64]) -> Result<()> {
    let held = held(collection, documents)?;
    count_out(collection, &held, documents)
}

/// Brings the counts up to documents that have been cut anew: `before` is what they held.
pub fn recount(collection: &Collection, documents: &[i64], before: Held) -> Result<()> {
    let mut gone = before;
    for (name, count) in held(collection, documents)? {
        match gone.remove(&name).unwrap_or_default() - count {
            0 => {}
            less => drop(gone.insert(name, less)),
        }
    }
    count_out(collection, &gone, &[])
}

/// Takes counts from the terms, and deletes those that have none left and that no leaf holds but those of `going`.
///
/// A term that a leaf of an uncounted document holds has to stay, since the vector of that leaf is made with it. Terms that another transaction has locked are not waited for, since two that delete documents would then wait for each
/// other's: their share is recorded in `change`, for [`tidy`].
fn count_out(collection: &Collection, gone: &Held, going: &[i64]) -> Result<()> {
    if gone.is_empty() {
        return Ok(());
    }
    // Common words stay, and are not locked.
    let sql = "SELECT t.lexeme FROM unnest($1::text[], $2::bigint[]) AS u (lexeme, n) JOIN {s}.term t ON t.lexeme = u.lexeme \
               WHERE u.n <> 0 OR t.document_count <= 0";
    let (all, counts): (Vec<String>, Vec<i64>) = gone.iter().map(|(name, count)| (name.clone(), *count)).unzip();
    let names: Vec<String> = collection.returning(sql, &[all.into(), counts.into()], |row| row.need(1))?;
    // An older snapshot cannot lock what has changed since.
    let free: Vec<String> = match collection.is_read_committed()? {
        true => {
            let sql = "SELECT lexeme FROM {s}.term WHERE lexeme = ANY ($1) ORDER BY lexeme COLLATE \"C\" FOR UPDATE SKIP LOCKED";
            collection.returning(sql, &[names.clone().into()], |row| row.need(1))?
        }
        false => Vec::new(),
    };
    let counts = |names: &[String]| names.iter().map(|name| gone[name]).collect::<Vec<i64>>();
    take_from(collection, &free, counts(&free), going)?;
    let free: HashSet<&String> = free.iter().collect();
    let taken: Vec<String> = names.iter().filter(|name| !free.contains(name)).cloned().collect();
    let counts = counts(&taken);
    let sql = "INSERT INTO {s}.change (\"table\", key, kind) SELECT 'term', t.lexeme, u.n::text \
               FROM unnest($1::text[], $2::bigint[]) AS u (lexeme, n) JOIN {s}.term t ON t.lexeme = u.lexeme";
    collection.execute(sql, &[taken.into(), counts.into()])?;
    Ok(())
}

fn take_from(collection: &Collection, names: &[String], counts: Vec<i64>, going: &[i64]) -> Result<()> {
    let sql = "SELECT t.lexeme FROM unnest($1::text[], $2::bigint[]) AS u (lexeme, n) JOIN {s}.term t ON t.lexeme = u.lexeme \
               WHERE t.document_count <= u.n";
    let mut gone: Vec<String> =
        collection.returning(sql, &[names.to_vec().into(), counts.clone().into()], |row| row.need(1))?;
    let held = held_by_others(collection, &gone, going)?;
    gone.retain(|name| !held.contains(name));
    collection.execute("DELETE FROM {s}.term WHERE lexeme = ANY ($1)", &[gone.into()])?;
    let sql = "UPDATE {s}.term t SET document_count = greatest(t.document_count - u.n, 0) \
               FROM unnest($1::text[], $2::bigint[]) AS u (lexeme, n) WHERE t.lexeme = u.lexeme AND u.n <> 0";
    collection.execute(sql, &[names.to_vec().into(), counts.into()])?;
    if going.is_empty() {
        return Ok(());
    }
    // Two that delete the last documents of a term at once each see the other's.
    let sql = "INSERT INTO {s}.change (\"table\", key, kind) SELECT 'term', t.lexeme, '0' FROM {s}.term t \
               WHERE t.lexeme = ANY ($1) AND t.document_count <= 0 AND NOT EXISTS \
                 (SELECT FROM {s}.change c WHERE c.\"table\" = 'term' AND c.key = t.lexeme)";
    collection.execute(sql, &[names.to_vec().into()])?;
    Ok(())
}

/// Which terms stand in leaves of documents that do not count, but for those of `going`.
fn held_by_others(collection: &Collection, terms: &[String], going: &[i64]) -> Result<HashSet<String>> {
    let last = State::load(collection)?.last_document;
    let sql = "SELECT EXISTS (SELECT FROM {s}.document WHERE id > $1 AND id <> ALL ($2))";
    if terms.is_empty()
        || collection.returning(sql, &[last.into(), going.to_vec().into()], |row| row.need::<bool>(1))? != [true]
    {
        return Ok(HashSet::new());
    }
    let mut query = String::new();
    // The leaves that hold a few terms are looked up; for many, those of the documents in question are read.
    if terms.len() <= FEW {
        for term in terms {
            if !query.is_empty() {
                query.push('|');
            }
            quote(term, &mut query);
        }
    }
    let narrow = match query.is_empty() {
        true => "$4::text IS NOT NULL",
        false => "p.lexemes @@ $4::tsquery",
    };
    let sql = format!(
        "SELECT DISTINCT l.lexeme FROM {{s}}.posting p JOIN {{s}}.node n ON n.id = p.node_id \
         CROSS JOIN LATERAL unnest(tsvector_to_array(p.lexemes)) AS l (lexeme) \
         WHERE n.document_id > $1 AND n.document_id <> ALL ($2) AND l.lexeme = ANY ($3) AND {narrow}"
    );
    let args = [last.into(), going.to_vec().into(), terms.to_vec().into(), query.into()];
    Ok(collection
        .returning(&sql, &args, |row| row.need(1))?
        .into_iter()
        .collect())
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
    count_out(collection, &gone, &[])
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

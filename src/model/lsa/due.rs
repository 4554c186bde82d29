//! When the collection has to learn.

use super::State;
use crate::collection::Collection;
use crate::error::Result;
use crate::lexical::Lexemes;

/// Leaves from which there is something to learn.
pub const LEAST: i64 = 20;
/// Vectors that an index takes in a second or two, so that it need not be built anew.
pub const FEW: i64 = 1_000;
/// It learns anew when the unknown words of new leaves are more than this share of the words that it has learned from.
const UNKNOWN_SHARE: f64 = 0.05;
/// New leaves that are looked at for unknown words.
const LOOK: i64 = 2_000;

/// Whether it learns in the statement that has just cut `documents`: while the collection is small, so that no index has to go and
/// it takes a moment, and when it is new, as `is_first` says.
pub fn at_once(collection: &Collection, documents: usize, is_first: bool) -> Result<bool> {
    let options = &collection.options;
    if options.embedder.lsa().is_none() || options.next_embedder.is_some() || !collection.is_read_committed()? {
        return Ok(false);
    }
    let sql = "SELECT (SELECT count(*) FROM (SELECT FROM {s}.node LIMIT $1) n), \
                 (SELECT count(*) FROM (SELECT FROM {s}.document LIMIT $2) d)";
    let share = documents as i64 * 20;
    let (nodes, all): (i64, i64) = collection.query_one(sql, &[(FEW + 1).into(), (share + 1).into()], |row| {
        Ok((row.need(1)?, row.need(2)?))
    })?;
    if nodes > FEW && !is_first {
        return Ok(false);
    }
    let state = State::load(collection)?;
    // Looked at closely only where much has changed.
    Ok((all <= share || !state.has_learned() || nodes / 2 >= state.leaves) && is_due(collection)?.is_some())
}

/// How what was learned fits the leaves that there are.
#[derive(Default)]
pub struct Standing {
    /// Why the collection has to learn, if it has to.
    pub due: Option<String>,
    /// Leaves that have come since it learned, where they were looked at.
    pub new: i64,
    /// The unknown words of those, as a share of the words that it has learned from.
    pub unknown: f64,
}

impl Standing {
    pub fn of(collection: &Collection) -> Result<Standing> {
        let state = State::load(collection)?;
        let sql = "SELECT count(*), count(*) FILTER (WHERE id > $1) FROM {s}.node WHERE level = 0";
        let (leaves, new): (i64, i64) =
            collection.query_one(sql, &[state.last_node.into()], |row| Ok((row.need(1)?, row.need(2)?)))?;
        let because = |due: String| Standing {
            due: Some(due),
            ..Standing::default()
        };
        Ok(if leaves < LEAST {
            Standing::default()
        } else if !state.has_learned() {
            because("it has learned nothing yet".to_owned())
        } else if leaves / 2 >= state.leaves {
            because(format!(
                "the collection has grown from {} leaves to {leaves}",
                state.leaves
            ))
        } else if leaves <= state.leaves / 2 {
            because(format!(
                "the collection has shrunk from {} leaves to {leaves}",
                state.leaves
            ))
        } else if new == 0 {
            Standing::default()
        } else {
            let unknown = unknown_share(collection, &state, new)?;
            let due = (unknown > UNKNOWN_SHARE).then(|| {
                format!(
                    "unknown words of new leaves are {:.0} % of the words that it has learned from",
                    unknown * 100.0
                )
            });
            Standing { due, new, unknown }
        })
    }
}

/// The unknown words of `new` leaves, as a share of the words that the collection has learned from.
fn unknown_share(collection: &Collection, state: &State, new: i64) -> Result<f64> {
    let sql = "SELECT text FROM {s}.node WHERE level = 0 AND id > $1 ORDER BY text_hash, id LIMIT $2";
    let texts: Vec<String> = collection.query(sql, &[state.last_node.into(), LOOK.into()], |row| row.need(1))?;
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut lexemes = Lexemes::default();
    let mut of_terms: Vec<u64> = Vec::new();
    for row in lexemes.rows(collection, &texts)? {
        of_terms.resize(lexemes.len(), 0);
        for (term, count) in row {
            of_terms[term as usize] += u64::from(count);
        }
    }
    let names: Vec<String> = (0..lexemes.len() as u32)
        .map(|term| lexemes.name(term).to_owned())
        .collect();
    let sql = "SELECT u.n FROM unnest($1::text[]) WITH ORDINALITY AS u (lexeme, n) \
               WHERE NOT EXISTS (SELECT FROM {s}.term t WHERE t.lexeme = u.lexeme)";
    let unknown: Vec<i64> = collection.query(sql, &[names.into()], |row| row.need(1))?;
    let unknown: u64 = unknown
        .iter()
        .map(|&n| of_terms.get(n as usize - 1).copied().unwrap_or(0))
        .sum();
    let of_all = unknown as f64 * new as f64 / texts.len().max(1) as f64;
    Ok(of_all / state.occurrences.max(1) as f64)
}

/// Why the collection has to learn, if it has to.
pub fn is_due(collection: &Collection) -> Result<Option<String>> {
    match collection.options.embedder.lsa() {
        Some(_) => Ok(Standing::of(collection)?.due),
        None => Ok(None),
    }
}

/// Whether a build may find that the collection has to learn, once it has cut the documents that wait.
pub fn may_learn(collection: &Collection) -> Result<bool> {
    let options = &collection.options;
    if options.embedder.lsa().is_none() || options.next_embedder.is_some() {
        return Ok(false);
    }
    if is_due(collection)?.is_some() {
        return Ok(true);
    }
    // About a leaf for every six hundred characters.
    let sql = "SELECT coalesce(sum(octet_length(body) / 600 + 1), 0)::bigint FROM {s}.document \
               WHERE id IN (SELECT key::bigint FROM {s}.change WHERE \"table\" = 'document')";
    let waiting: i64 = collection.query_one(sql, &[], |row| row.need(1))?;
    let learned = State::load(collection)?.leaves;
    Ok(waiting >= LEAST && waiting as f64 > UNKNOWN_SHARE * learned as f64)
}

/// Whether there is enough to learn from.
pub fn can_learn(collection: &Collection) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT FROM {s}.node WHERE level = 0 OFFSET $1)";
    collection.query_one(sql, &[(LEAST - 1).into()], |row| row.need(1))
}

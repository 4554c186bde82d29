//! rag_neighbors.

use graphrag_lsa::idf;
use pgrx::PgSqlErrorCode;
use pgrx::prelude::*;

use super::{LEAST, Space, State};
use crate::collection::{Collection, literal, quoted};
use crate::error::{Error, Result, in_range, notice, required, sql};
use crate::pg::vector::Vector;

/// SQL: `rag_neighbors(collection, word, k)`.
#[pg_extern(sql = false)]
fn rag_neighbors(
    collection: Option<&str>,
    word: Option<&str>,
    k: Option<i32>,
) -> sql::Result<TableIterator<'static, (name!(word, String), name!(score, f64))>> {
    Ok(TableIterator::new(neighbors(collection, word, k)?))
}

fn neighbors(name: Option<&str>, word: Option<&str>, k: Option<i32>) -> Result<Vec<(String, f64)>> {
    let word = required(word, "word")?;
    let k = in_range(k, "k", 0..=10_000)?;
    let collection = Collection::read(name)?;
    let embedder = &collection.options.embedder;
    let Some(part) = embedder.lsa() else {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("collection {} does not teach itself", quoted(&collection.name)),
        )
        .detail(format!("Its embedder is {}.", embedder.text))
        .hint("rag_neighbors shows what builtin:lsa has learned."));
    };
    let state = State::load(&collection)?;
    if !state.has_learned() {
        notice(
            format!("collection {} has learned nothing yet", quoted(&collection.name)),
            format!(
                "CALL rag_refresh({}) learns, from {LEAST} leaves on.",
                literal(&collection.name)
            ),
        );
        return Ok(Vec::new());
    }
    let mut space = Space::open(&collection, part.dimensions)?;
    let terms: Vec<String> = space.lexemes.rows(&collection, &[word])?[0]
        .iter()
        .map(|(term, _)| space.lexemes.name(*term).to_owned())
        .collect();
    let sql = "SELECT EXISTS (SELECT FROM {s}.term WHERE lexeme = ANY ($1))";
    let known: bool = collection.query_one(sql, &[terms.clone().into()], |row| row.need(1))?;
    let vector = space.embed(&collection, &[word])?.pop().flatten().filter(|_| known);
    let Some(vector) = vector else {
        notice(
            format!("the collection has not learned {}", quoted(word)),
            "No leaf held it when the collection learned, or it is a stop word.",
        );
        return Ok(Vec::new());
    };
    // A term of one leaf is as near as that leaf, and says no more.
    let sql = "SELECT lexeme, 1 - (vector OPERATOR({v}.<=>) $1) FROM {s}.term \
               WHERE weight < $5 AND vector IS NOT NULL AND {v}.vector_dims(vector) = $4 AND lexeme <> ALL ($2) ORDER BY 2 DESC, lexeme COLLATE \"C\" LIMIT $3";
    let args = [
        Vector(vector).into(),
        terms.into(),
        i64::from(k).into(),
        (part.dimensions as i32).into(),
        (idf(state.leaves as u64, 1) - 1e-9).into(),
    ];
    collection.query(sql, &args, |row| Ok((row.need(1)?, row.need(2)?)))
}

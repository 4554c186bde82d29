//! graph_global.

use pgrx::prelude::*;

use crate::collection::Collection;
use crate::error::{Result, in_range, required, sql};
use crate::pg::json::Json;
use crate::search::{Scope, query_vector, rank};

/// Communities that are answered when k is not given.
const DEFAULT_K: i32 = 5;

type Found = (i64, i32, f64, String, String, f64, i32);

/// SQL: `graph_global(collection, query, k, level, filter, documents)`.
#[pg_extern(sql = false)]
fn graph_global(
    collection: Option<&str>,
    query: Option<&str>,
    k: Option<i32>,
    level: Option<i32>,
    filter: Option<Json>,
    documents: Option<Vec<Option<i64>>>,
) -> sql::Result<
    TableIterator<
        'static,
        (
            name!(community_id, i64),
            name!(level, i32),
            name!(score, f64),
            name!(title, String),
            name!(summary, String),
            name!(rating, f64),
            name!(size, i32),
        ),
    >,
> {
    Ok(TableIterator::new(global(
        collection,
        query,
        k,
        level,
        Scope::new(filter, documents)?,
    )?))
}

/// The condition on a community `n` that it stands at a level: one that does not divide stands for itself on deeper ones.
pub fn stands(level: i32) -> String {
    format!(
        "(n.level = {level} OR n.level < {level} AND NOT EXISTS (SELECT FROM {{s}}.community c WHERE c.parent_id = n.id))"
    )
}

fn global(
    name: Option<&str>,
    query: Option<&str>,
    k: Option<i32>,
    level: Option<i32>,
    scope: Scope,
) -> Result<Vec<Found>> {
    let query = required(query, "query")?;
    let k = in_range(k.or(Some(DEFAULT_K)), "k", 0..=i32::MAX)?;
    let level = level
        .map(|level| in_range(Some(level), "level", 0..=1000))
        .transpose()?;
    let collection = Collection::read(name)?;
    let Some(vector) = query_vector(&collection, Some(query), None)? else {
        return Ok(Vec::new());
    };
    let condition = level.map_or("true".to_owned(), stands);
    let (ids, scores): (Vec<i64>, Vec<f64>) = rank(&collection, "community", &vector, k.into(), &scope, &condition)?
        .into_iter()
        .unzip();
    let sql = "SELECT c.id, c.level, u.score, c.title, c.summary, c.rating, c.size \
               FROM unnest($1::bigint[], $2::float8[]) WITH ORDINALITY AS u (id, score, n) \
               JOIN {s}.community c ON c.id = u.id ORDER BY u.n";
    collection.query(sql, &[ids.into(), scores.into()], |row| {
        Ok((
            row.need(1)?,
            row.need(2)?,
            row.need(3)?,
            row.need(4)?,
            row.need(5)?,
            row.need(6)?,
            row.need(7)?,
        ))
    })
}

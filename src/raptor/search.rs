//! raptor_search.

use pgrx::prelude::*;

use crate::collection::Collection;
use crate::error::{Error, Result, in_range, required, sql};
use crate::pg::{json::Json, memory, vector::Vector};
use crate::search::{Scope, query_vector, rank, tell_if_unembedded};

/// SQL: `raptor_search(collection, query text, k, filter, mode, max_tokens, documents)`.
#[pg_extern(sql = false)]
fn raptor_search(
    collection: Option<&str>,
    query: Option<&str>,
    k: Option<i32>,
    filter: Option<Json>,
    mode: Option<&str>,
    max_tokens: Option<i32>,
    documents: Option<Vec<Option<i64>>>,
) -> sql::Result<
    TableIterator<
        'static,
        (
            name!(node_id, i64),
            name!(level, i32),
            name!(score, f64),
            name!(text, String),
            name!(token_count, i32),
            name!(metadata, Json),
            name!(document_ids, Vec<i64>),
            name!(documents, i64),
        ),
    >,
> {
    let query = Query {
        text: Some(required(query, "query")?),
        vector: None,
    };
    Ok(TableIterator::new(search(
        collection,
        query,
        k,
        Scope::new(filter, documents)?,
        mode,
        max_tokens,
    )?))
}

/// SQL: `raptor_search(collection, query vector, k, filter, mode, max_tokens, documents)`.
#[pg_extern(sql = false)]
fn raptor_search_vector(
    collection: Option<&str>,
    query: Option<Vector>,
    k: Option<i32>,
    filter: Option<Json>,
    mode: Option<&str>,
    max_tokens: Option<i32>,
    documents: Option<Vec<Option<i64>>>,
) -> sql::Result<
    TableIterator<
        'static,
        (
            name!(node_id, i64),
            name!(level, i32),
            name!(score, f64),
            name!(text, String),
            name!(token_count, i32),
            name!(metadata, Json),
            name!(document_ids, Vec<i64>),
            name!(documents, i64),
        ),
    >,
> {
    let query = Query {
        text: None,
        vector: Some(required(query, "query")?),
    };
    Ok(TableIterator::new(search(
        collection,
        query,
        k,
        Scope::new(filter, documents)?,
        mode,
        max_tokens,
    )?))
}

struct Query<'a> {
    text: Option<&'a str>,
    vector: Option<Vector>,
}

type Hit = (i64, i32, f64, String, i32, Json, Vec<i64>, i64);

fn search(
    name: Option<&str>,
    query: Query,
    k: Option<i32>,
    scope: Scope,
    mode: Option<&str>,
    max_tokens: Option<i32>,
) -> Result<Vec<Hit>> {
    let k = in_range(k, "k", 0..=i32::MAX)?;
    let condition = match required(mode, "mode")? {
        "collapsed" => "true",
        "leaf" => "n.level = 0",
        other => {
            return Err(Error::invalid(format!("unknown mode \"{other}\"")).hint("Modes are 'collapsed' and 'leaf'."));
        }
    };
    let budget = max_tokens
        .map(|tokens| in_range(Some(tokens), "max_tokens", 1..=i32::MAX))
        .transpose()?;
    let collection = Collection::read(name)?;
    // A query without words is near to nothing.
    let Some(vector) = query_vector(&collection, query.text, query.vector)? else {
        return Ok(Vec::new());
    };
    let ranked = rank(&collection, "node", &vector, k.into(), &scope, condition)?;

    let mut hits = Vec::new();
    let (mut bytes, mut tokens) = (0, 0);
    for part in ranked.chunks(1000) {
        let (ids, scores): (Vec<i64>, Vec<f64>) = part.iter().copied().unzip();
        let sql = "SELECT n.id, n.level, u.score, n.text, n.token_count, n.metadata, \
                     CASE WHEN n.level = 0 THEN ARRAY[n.document_id] ELSE ARRAY(SELECT s.document_id FROM {s}.node_source s \
                          WHERE s.node_id = n.id ORDER BY 1 LIMIT 1000) END, \
                     n.source_count::bigint \
                   FROM unnest($1::bigint[], $2::float8[]) WITH ORDINALITY AS u (id, score, n) \
                   JOIN {s}.node n ON n.id = u.id ORDER BY u.n";
        let rows = collection.query(sql, &[ids.into(), scores.into()], |row| {
            Ok((
                row.need(1)?,
                row.need(2)?,
                row.need(3)?,
                row.need::<String>(4)?,
                row.need::<i32>(5)?,
                row.need(6)?,
                row.need(7)?,
                row.need(8)?,
            ))
        })?;
        for hit in rows {
            let fits = budget.is_none_or(|budget| tokens + i64::from(hit.4) <= i64::from(budget));
            if fits {
                tokens += i64::from(hit.4);
                bytes += hit.3.len() + 500;
                hits.push(hit);
            }
        }
        memory::check(bytes, "the result of this search")?;
    }
    if hits.is_empty() {
        tell_if_unembedded(&collection)?;
    }
    Ok(hits)
}

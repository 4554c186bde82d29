//! rag_explain: what rag_search has made of each candidate.

use std::collections::HashMap;

use pgrx::prelude::*;

use super::method::{METHODS, Question};
use super::pack::Outcome;
use super::{Asked, helped};
use crate::ask::source::forget_what_changed;
use crate::collection::Collection;
use crate::error::{Result, required, sql};
use crate::pg::json::Json;
use crate::pg::memory;
use crate::pg::vector::Vector;
use crate::search::{Scope, tell_if_unembedded};

/// Characters that are shown of a text.
const SHOWN: i32 = 200;

type Row = (
    i64,
    Option<i32>,
    f64,
    Option<i32>,
    Option<f64>,
    Option<i32>,
    Option<f64>,
    Option<i32>,
    Option<f64>,
    Option<i32>,
    Option<f64>,
    Option<f64>,
    String,
    String,
);

/// SQL: `rag_explain(collection, query, k, filter, methods, expand, documents, weights, fusion, max_tokens, candidates, rewrite, rerank, query_vector, repeats)`.
#[pg_extern(sql = false)]
fn rag_explain(
    collection: Option<&str>,
    query: Option<&str>,
    k: Option<i32>,
    filter: Option<Json>,
    methods: Option<Vec<Option<String>>>,
    expand: Option<&str>,
    documents: Option<Vec<Option<i64>>>,
    weights: Option<Vec<Option<f64>>>,
    fusion: Option<&str>,
    max_tokens: Option<i32>,
    candidates: Option<i32>,
    rewrite: Option<Vec<Option<String>>>,
    rerank: Option<i32>,
    query_vector: Option<Vector>,
    repeats: Option<f64>,
) -> sql::Result<
    TableIterator<
        'static,
        (
            name!(node_id, i64),
            name!(rank, Option<i32>),
            name!(score, f64),
            name!(dense_rank, Option<i32>),
            name!(dense_score, Option<f64>),
            name!(lexical_rank, Option<i32>),
            name!(lexical_score, Option<f64>),
            name!(tree_rank, Option<i32>),
            name!(tree_score, Option<f64>),
            name!(graph_rank, Option<i32>),
            name!(graph_score, Option<f64>),
            name!(rerank_score, Option<f64>),
            name!(outcome, String),
            name!(text, String),
        ),
    >,
> {
    let query = required(query, "query")?;
    let asked = Asked::new(k, methods, expand, weights, fusion, max_tokens, candidates)?
        .helped(rewrite, rerank)?
        .repeating(repeats)?;
    let scope = Scope::new(filter, documents)?;
    let collection = asked.open(collection)?;
    Ok(TableIterator::new(explain(
        &collection,
        (query, query_vector),
        &asked,
        scope,
    )?))
}

fn explain(collection: &Collection, query: (&str, Option<Vector>), asked: &Asked, scope: Scope) -> Result<Vec<Row>> {
    let mut read = Vec::new();
    let mut question = Question::new(collection, query.0, scope).given(query.1)?;
    let found = helped(collection, &mut question, asked, &mut read)?;
    forget_what_changed(collection, &read)?;
    if found.fused.is_empty() && found.methods.iter().any(|(method, _)| method.is_by_vector()) {
        tell_if_unembedded(collection)?;
    }
    let scores: Vec<HashMap<i64, f64>> = found.rankings.iter().map(|of| of.iter().copied().collect()).collect();
    let outcomes: HashMap<i64, Outcome> = found.outcomes.into_iter().collect();
    let nodes: Vec<i64> = found.fused.iter().map(|(node, _)| *node).collect();
    let sql = "SELECT n.id, left(n.text, $2) FROM {s}.node n WHERE n.id = ANY ($1)";
    let (mut texts, mut bytes) = (HashMap::new(), 0);
    collection.stream(sql, &[nodes.into(), SHOWN.into()], |row| {
        let text: String = row.need(2)?;
        bytes += text.len() + 300;
        texts.insert(row.need::<i64>(1)?, text);
        memory::check(bytes, "the result of this search")
    })?;
    let shown: HashMap<i64, i32> = (1..).zip(&found.hits).map(|(rank, hit)| (hit.node, rank)).collect();
    Ok(found
        .fused
        .into_iter()
        .filter_map(|(node, fused)| {
            let [dense, lexical, tree, graph] = METHODS.map(|(_, method)| {
                let at = found.methods.iter().position(|asked| asked.0 == method);
                let rank = at.and_then(|at| fused.ranks[at]).map(|rank| rank as i32);
                (rank, at.and_then(|at| scores[at].get(&node).copied()))
            });
            let outcome = outcomes.get(&node);
            let rank = shown.get(&node).copied();
            let said = match outcome {
                Some(Outcome::Shown) => "shown".to_owned(),
                Some(Outcome::Repeats(other)) => format!("repeats node {other}"),
                Some(Outcome::TooLarge) => "does not fit the budget".to_owned(),
                None => "beyond k".to_owned(),
            };
            let row = (
                node,
                rank,
                fused.score,
                dense.0,
                dense.1,
                lexical.0,
                lexical.1,
                tree.0,
                tree.1,
                graph.0,
                graph.1,
                found.reranked.get(&node).copied(),
                said,
                texts.remove(&node)?,
            );
            Some(row)
        })
        .collect())
}

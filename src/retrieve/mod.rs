//! rag_search: several rankings of the same nodes, fused.

pub mod context;
pub mod evaluate;
mod explain;
pub mod help;
mod method;
pub mod pack;

use std::collections::HashMap;

use graphrag_rank::budget::Budget;
use graphrag_rank::fusion::{Fused, Fusion, Ranking, fuse};
use pgrx::prelude::*;

use crate::ask::source::{Source, forget_what_changed};
use crate::collection::Collection;
use crate::error::{Error, Result, in_range, notice, required, sql};
use crate::model::{Asking, Ledger};
use crate::pg::json::Json;
use crate::pg::vector::Vector;
use crate::search::{Scope, in_order, tell_if_unembedded};
use help::Rewriting;
use method::{METHODS, Method, Question};
use pack::{Hit, Limits, Outcome, Overlap, Packer, Show};

/// Rows that are taken of each method, at least.
const CANDIDATES: i64 = 100;
/// How much farther the rankings are read, each time four times as far, to make up for what is left out.
const FARTHEST: i64 = 16;
/// Rows that a reranker may be asked to read.
const MOST_RERANKED: i32 = 1000;

type Row = (
    i64,
    i32,
    f64,
    Option<i32>,
    Option<i32>,
    Option<i32>,
    Option<i32>,
    String,
    i32,
    Option<Vec<String>>,
    Json,
    Vec<i64>,
    i64,
    Option<i64>,
    Option<i32>,
    Option<i32>,
    Option<String>,
    Option<f64>,
);

/// SQL: `rag_search(collection, query, k, filter, methods, expand, documents, weights, fusion, max_tokens, candidates, rewrite, rerank, query_vector, repeats)`.
#[pg_extern(sql = false)]
fn rag_search(
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
            name!(level, i32),
            name!(score, f64),
            name!(dense_rank, Option<i32>),
            name!(lexical_rank, Option<i32>),
            name!(tree_rank, Option<i32>),
            name!(graph_rank, Option<i32>),
            name!(text, String),
            name!(token_count, i32),
            name!(section_path, Option<Vec<String>>),
            name!(metadata, Json),
            name!(document_ids, Vec<i64>),
            name!(documents, i64),
            name!(block_id, Option<i64>),
            name!(start_char, Option<i32>),
            name!(end_char, Option<i32>),
            name!(matched, Option<String>),
            name!(rerank_score, Option<f64>),
        ),
    >,
> {
    let query = required(query, "query")?;
    let asked = Asked::new(k, methods, expand, weights, fusion, max_tokens, candidates)?
        .helped(rewrite, rerank)?
        .repeating(repeats)?;
    let scope = Scope::new(filter, documents)?;
    let collection = asked.open(collection)?;
    Ok(TableIterator::new(rows(search(
        &collection,
        (query, query_vector),
        &asked,
        scope,
    )?)))
}

/// The arguments of a search but for what is searched.
pub struct Asked {
    k: i64,
    /// With their weights; nothing for what measures best.
    methods: Option<Vec<(Method, f64)>>,
    show: Show,
    fusion: Fusion,
    budget: Option<i64>,
    /// Rows that are taken of each method; nothing for as many as it takes.
    candidates: Option<i64>,
    /// The share of a text from which on it is left out where a better row says it.
    repeats: Option<f64>,
    rewrite: Vec<Rewriting>,
    /// Rows that the reranker puts in order.
    rerank: Option<i64>,
}

impl Asked {
    /// A hundred rows of what measures best.
    pub fn best() -> Asked {
        Asked {
            k: CANDIDATES,
            methods: None,
            show: Show::Leaf,
            fusion: Fusion::Ranks,
            budget: None,
            candidates: None,
            repeats: Some(1.0),
            rewrite: Vec::new(),
            rerank: None,
        }
    }

    pub fn new(
        k: Option<i32>,
        methods: Option<Vec<Option<String>>>,
        expand: Option<&str>,
        weights: Option<Vec<Option<f64>>>,
        fusion: Option<&str>,
        max_tokens: Option<i32>,
        candidates: Option<i32>,
    ) -> Result<Asked> {
        let given = |value: Option<i32>, name: &str| {
            value
                .map(|n| in_range(Some(n), name, 1..=i32::MAX).map(i64::from))
                .transpose()
        };
        let methods = methods.map(Method::list).transpose()?;
        let weights = match &methods {
            Some(methods) => weights_of(weights, methods.len())?,
            None if weights.is_some() => {
                return Err(Error::invalid("weights without methods")
                    .hint("For example methods => '{dense,lexical}', weights => '{1,0.5}'."));
            }
            None => Vec::new(),
        };
        Ok(Asked {
            k: in_range(k, "k", 0..=i32::MAX)?.into(),
            methods: methods.map(|methods| methods.into_iter().zip(weights).collect()),
            show: match required(expand, "expand")? {
                "leaf" => Show::Leaf,
                "block" => Show::Block,
                other => {
                    return Err(Error::invalid(format!("unknown expand \"{other}\"")).hint("It is 'leaf' or 'block'."));
                }
            },
            fusion: match required(fusion, "fusion")? {
                "rrf" => Fusion::Ranks,
                "scores" => Fusion::Scores,
                other => {
                    return Err(Error::invalid(format!("unknown fusion \"{other}\"")).hint(
                        "It is 'rrf' (reciprocal rank fusion) or 'scores' (the sum of scores, each from 0 to 1).",
                    ));
                }
            },
            budget: given(max_tokens, "max_tokens")?,
            candidates: given(candidates, "candidates")?,
            repeats: Some(1.0),
            rewrite: Vec::new(),
            rerank: None,
        })
    }

    /// With what models add.
    pub fn helped(mut self, rewrite: Option<Vec<Option<String>>>, rerank: Option<i32>) -> Result<Asked> {
        self.rewrite = Rewriting::list(rewrite)?;
        if let Some(rows) = rerank {
            self.rerank = Some(in_range(Some(rows), "rerank", 1..=MOST_RERANKED)?.into());
        }
        if self.rerank.is_some_and(|rows| rows < self.k) {
            return Err(Error::invalid("rerank must be at least k")
                .detail("It is the number of candidates that the reranker reads, of which the best k are shown.")
                .hint("For example k => 5, rerank => 50."));
        }
        Ok(self)
    }

    /// With another share of a text from which on it is left out, or none.
    pub fn repeating(mut self, share: Option<f64>) -> Result<Asked> {
        self.repeats = share
            .map(|share| in_range(Some(share), "repeats", 0.01..=1.0))
            .transpose()?;
        Ok(self)
    }

    pub fn is_helped(&self) -> bool {
        self.rerank.is_some() || !self.rewrite.is_empty()
    }

    pub fn open(&self, name: Option<&str>) -> Result<Collection> {
        help::open(name, self.is_helped())
    }
}

/// The weights of so many methods: 1 each where none are given.
fn weights_of(weights: Option<Vec<Option<f64>>>, methods: usize) -> Result<Vec<f64>> {
    let Some(weights) = weights else {
        return Ok(vec![1.0; methods]);
    };
    if weights.len() != methods {
        return Err(Error::invalid("weights and methods must be equally many")
            .detail(format!("There are {} weights and {methods} methods.", weights.len()))
            .hint("For example methods => '{dense,lexical}', weights => '{1,0.5}'."));
    }
    let mut checked = Vec::with_capacity(methods);
    for weight in weights {
        let weight = required(weight, "a weight")?;
        checked.push(in_range(Some(weight), "a weight", 0.0..=1e6)?);
    }
    if checked.iter().all(|weight| *weight == 0.0) {
        return Err(Error::invalid("one weight must be above 0").hint("Leave out what has no weight."));
    }
    Ok(checked)
}

/// What rag_search finds, without the ranks of its methods.
pub fn find(collection: &Collection, query: &str, asked: &Asked, scope: Scope) -> Result<Vec<Hit>> {
    Ok(search(collection, (query, None), asked, scope)?.hits)
}

fn search(collection: &Collection, query: (&str, Option<Vector>), asked: &Asked, scope: Scope) -> Result<Ranked> {
    let mut read = Vec::new();
    let mut question = Question::new(collection, query.0, scope).given(query.1)?;
    let found = helped(collection, &mut question, asked, &mut read)?;
    forget_what_changed(collection, &read)?;
    if let Some(depth) = found.cut {
        if asked.candidates.is_some_and(|candidates| candidates < asked.k) {
            notice(
                format!(
                    "found only {} rows, since no more than {depth} are taken of each method",
                    found.hits.len()
                ),
                "candidates should be at least k.",
            );
            return Ok(found);
        }
        notice(
            format!(
                "found only {} of {} rows, since the others of the best {depth} of each method repeat them",
                found.ranked,
                asked.rerank.unwrap_or(asked.k)
            ),
            "A greater candidates looks further; documents and filter narrow what is searched.",
        );
    }
    if found.hits.is_empty() && found.methods.iter().any(|(method, _)| method.is_by_vector()) {
        tell_if_unembedded(collection)?;
    }
    Ok(found)
}

/// What a search has found, and how it came to that.
#[derive(Default)]
struct Ranked {
    hits: Vec<Hit>,
    /// The nodes of all rankings, best first.
    fused: Vec<(i64, Fused)>,
    methods: Vec<(Method, f64)>,
    /// The ranking of each method: node and score, best first.
    rankings: Vec<Vec<(i64, f64)>>,
    /// What became of the first of `fused`, as far as it took to fill the result.
    outcomes: Vec<(i64, Outcome)>,
    /// How many of `fused` repeated nothing.
    ranked: i64,
    /// How many rows were taken of each method, where there would have been more and the result is not full.
    cut: Option<i64>,
    /// The reranker's scores, of what is not shown too.
    reranked: HashMap<i64, f64>,
}

/// The same with what models add; what a reranker has read is added to `read`.
fn helped(collection: &Collection, question: &mut Question, asked: &Asked, read: &mut Vec<Source>) -> Result<Ranked> {
    if asked.k == 0 {
        return Ok(Ranked::default());
    }
    let reranker = asked.rerank.map(|_| help::reranker(collection)).transpose()?;
    let text = question.text;
    let others = help::rewritten(collection, text, &asked.rewrite)?;
    let mut others: Vec<Question> = others.iter().map(|text| question.other(text)).collect();
    let mut found = ranked(collection, question, &mut others, asked)?;
    let Some(reranker) = reranker else {
        return Ok(found);
    };
    let mut ledger = Ledger::resume(collection, "rerank", Asking::Now);
    let hits = help::rerank(&mut ledger, reranker, text, std::mem::take(&mut found.hits), read)?;
    let mut outcomes: HashMap<i64, Outcome> = found.outcomes.drain(..).collect();
    let mut budget = Budget::new(asked.budget.map(|tokens| tokens as u64));
    for (place, (score, hit)) in hits.into_iter().enumerate() {
        found.reranked.extend(score.map(|score| (hit.node, score)));
        if place as i64 >= asked.k {
            outcomes.remove(&hit.node);
        } else if budget.take(hit.tokens.max(0) as u64) {
            found.hits.push(hit);
        } else {
            outcomes.insert(hit.node, Outcome::TooLarge);
        }
    }
    found.outcomes = outcomes.into_iter().collect();
    Ok(found)
}

/// What is found for a question and for others that stand for it.
fn ranked(collection: &Collection, question: &mut Question, others: &mut [Question], asked: &Asked) -> Result<Ranked> {
    let methods = match &asked.methods {
        Some(methods) => methods.clone(),
        None => Method::best(collection, question.text)?
            .into_iter()
            .map(|method| (method, 1.0))
            .collect(),
    };
    let with_tree = methods.iter().any(|(method, _)| *method == Method::Tree);
    let limits = Limits {
        k: asked.rerank.unwrap_or(asked.k),
        budget: asked.budget.filter(|_| asked.rerank.is_none()),
        // Leaves do not stand above each other.
        overlap: if with_tree { Overlap::Skip } else { Overlap::Keep },
        show: asked.show,
        repeats: asked.repeats,
    };
    // Where nothing is fused, what is behind the result is of use only for what repeats.
    let least = if methods.len() > 1 { CANDIDATES } else { 0 };
    let mut depth = asked.candidates.unwrap_or(least.max(limits.k.saturating_mul(2)));
    let deepest = CANDIDATES.max(limits.k.saturating_mul(2)).saturating_mul(FARTHEST);
    loop {
        let rankings: Vec<Vec<(i64, f64)>> = methods
            .iter()
            .map(|(method, _)| by_method(collection, question, others, *method, depth, asked.fusion))
            .collect::<Result<_>>()?;
        let weights: Vec<f64> = methods.iter().map(|(_, weight)| *weight).collect();
        let fused = fused(collection, &rankings, &weights, asked.fusion)?;
        let ranking: Vec<(i64, f64)> = fused.iter().map(|(id, row)| (*id, row.score)).collect();
        let mut packer = Packer::new(collection, limits);
        packer.pack(&ranking)?;
        let all = rankings.iter().all(|ranking| (ranking.len() as i64) < depth);
        let short = !all && packer.ranked < limits.k;
        if short && asked.candidates.is_none() && depth < deepest {
            depth = (4 * depth).min(deepest);
            continue;
        }
        return Ok(Ranked {
            hits: packer.hits,
            fused,
            methods,
            rankings,
            outcomes: packer.outcomes,
            ranked: packer.ranked,
            cut: short.then_some(depth),
            reranked: HashMap::new(),
        });
    }
}

/// The ranking of one method. The question counts for as much as all others that stand for it together.
fn by_method(
    collection: &Collection,
    question: &mut Question,
    others: &mut [Question],
    method: Method,
    depth: i64,
    fusion: Fusion,
) -> Result<Vec<(i64, f64)>> {
    let own = question.rank(method, depth)?;
    if others.is_empty() {
        return Ok(own);
    }
    let (mut rankings, mut weights) = (vec![own], vec![1.0]);
    weights.resize(1 + others.len(), 1.0 / others.len() as f64);
    for other in others {
        rankings.push(other.rank(method, depth)?);
    }
    let mut all = fused(collection, &rankings, &weights, fusion)?;
    all.truncate(depth as usize);
    Ok(all.into_iter().map(|(id, row)| (id, row.score)).collect())
}

/// The nodes of all rankings, best first, ties in canonical order.
fn fused(
    collection: &Collection,
    rankings: &[Vec<(i64, f64)>],
    weights: &[f64],
    fusion: Fusion,
) -> Result<Vec<(i64, Fused)>> {
    let mut ids: Vec<i64> = rankings.iter().flatten().map(|node| node.0).collect();
    ids.sort_unstable();
    ids.dedup();
    let sql = in_order(
        "node",
        "SELECT u.id, 0::float8 AS score FROM unnest($1::bigint[]) AS u (id) WHERE $2::int IS NULL AND $3::int IS NULL",
    );
    let all = ids.len() as i64;
    let args = [ids.into(), None::<i32>.into(), None::<i32>.into(), all.into()];
    let order: Vec<i64> = collection.lookup(&sql, &args, |row| row.need(1))?;
    let place: HashMap<i64, usize> = order.iter().enumerate().map(|(place, id)| (*id, place)).collect();
    let rankings: Vec<Ranking> = rankings
        .iter()
        .zip(weights)
        .map(|(nodes, weight)| Ranking {
            items: nodes
                .iter()
                .filter_map(|(id, score)| Some((*place.get(id)?, *score)))
                .collect(),
            weight: *weight,
        })
        .collect();
    let mut fused = fuse(&rankings, fusion);
    // Alone, a method is not fused, and its own scores say more.
    if let [alone] = &rankings[..] {
        let scores: HashMap<usize, f64> = alone.items.iter().copied().collect();
        fused.iter_mut().for_each(|row| row.score = scores[&row.item]);
    }
    Ok(fused.into_iter().map(|row| (order[row.item], row)).collect())
}

fn rows(found: Ranked) -> Vec<Row> {
    let fused: HashMap<i64, Fused> = found.fused.into_iter().collect();
    let of = |hit: &Hit, method: Method| {
        let at = found.methods.iter().position(|asked| asked.0 == method)?;
        fused[&hit.node].ranks[at].map(|rank| rank as i32)
    };
    found
        .hits
        .into_iter()
        .map(|hit| {
            let rerank_score = found.reranked.get(&hit.node).copied();
            let ranks = METHODS.map(|(_, method)| of(&hit, method));
            let [dense, lexical, tree, graph] = ranks;
            (
                hit.node,
                hit.level,
                hit.score,
                dense,
                lexical,
                tree,
                graph,
                hit.text,
                hit.tokens,
                hit.section,
                hit.metadata,
                hit.document_ids,
                hit.documents,
                hit.block,
                hit.start,
                hit.end,
                hit.matched,
                rerank_score,
            )
        })
        .collect()
}

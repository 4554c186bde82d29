//! rag_search: several rankings of the same nodes, fused.

pub mod context;
pub mod evaluate;
mod explain;
mod method;
pub mod pack;

use std::collections::HashMap;

use graphrag_rank::fusion::{Fused, Fusion, Ranking, fuse};
use pgrx::prelude::*;

use crate::collection::Collection;
use crate::error::{Error, Result, in_range, notice, required, sql};
use crate::pg::json::Json;
use crate::search::{Scope, in_order, tell_if_unembedded};
use method::{METHODS, Method, Question};
use pack::{Hit, Limits, Outcome, Overlap, Packer, Show};

/// Rows that are taken of each method, at least.
const CANDIDATES: i64 = 100;
/// How much farther the rankings are read, each time four times as far, to make up for what is left out.
const FARTHEST: i64 = 16;

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
);

/// SQL: `rag_search(collection, query, k, filter, methods, expand, documents, weights, fusion, max_tokens, candidates)`.
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
        ),
    >,
> {
    let query = required(query, "query")?;
    let asked = Asked::new(k, methods, expand, weights, fusion, max_tokens, candidates)?;
    let scope = Scope::new(filter, documents)?;
    let collection = Collection::read(collection)?;
    Ok(TableIterator::new(rows(search(&collection, query, &asked, scope)?)))
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
        })
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
    Ok(search(collection, query, asked, scope)?.hits)
}

fn search(collection: &Collection, query: &str, asked: &Asked, scope: Scope) -> Result<Ranked> {
    let found = ranked(collection, &mut Question::new(collection, query, scope), asked)?;
    if let Some(depth) = found.cut {
        notice(
            format!(
                "found only {} of {} rows, since the others of the best {depth} of each method repeat them",
                found.ranked, asked.k
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
}

fn ranked(collection: &Collection, question: &mut Question, asked: &Asked) -> Result<Ranked> {
    if asked.k == 0 {
        return Ok(Ranked::default());
    }
    let methods = match &asked.methods {
        Some(methods) => methods.clone(),
        None => Method::best(collection)?
            .into_iter()
            .map(|method| (method, 1.0))
            .collect(),
    };
    let with_tree = methods.iter().any(|(method, _)| *method == Method::Tree);
    let limits = Limits {
        k: asked.k,
        budget: asked.budget,
        // Leaves do not stand above each other.
        overlap: if with_tree { Overlap::Skip } else { Overlap::Keep },
        show: asked.show,
    };
    // Where nothing is fused, what is behind the result is of use only for what repeats.
    let least = if methods.len() > 1 { CANDIDATES } else { 0 };
    let mut depth = asked.candidates.unwrap_or(least.max(asked.k.saturating_mul(2)));
    let deepest = CANDIDATES.max(asked.k.saturating_mul(2)).saturating_mul(FARTHEST);
    loop {
        let rankings: Vec<Vec<(i64, f64)>> = methods
            .iter()
            .map(|(method, _)| question.rank(*method, depth))
            .collect::<Result<_>>()?;
        let fused = fused(collection, &rankings, &methods, asked.fusion)?;
        let ranking: Vec<(i64, f64)> = fused.iter().map(|(id, row)| (*id, row.score)).collect();
        let mut packer = Packer::new(collection, limits);
        packer.pack(&ranking)?;
        let all = rankings.iter().all(|ranking| (ranking.len() as i64) < depth);
        let short = !all && packer.ranked < asked.k;
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
        });
    }
}

/// The nodes of all rankings, best first, ties in canonical order.
fn fused(
    collection: &Collection,
    rankings: &[Vec<(i64, f64)>],
    methods: &[(Method, f64)],
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
    let order: Vec<i64> = collection.query(&sql, &args, |row| row.need(1))?;
    let place: HashMap<i64, usize> = order.iter().enumerate().map(|(place, id)| (*id, place)).collect();
    let rankings: Vec<Ranking> = rankings
        .iter()
        .zip(methods)
        .map(|(nodes, (_, weight))| Ranking {
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
            )
        })
        .collect()
}

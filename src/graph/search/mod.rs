//! graph_search: passages by a walk over the graph, from what a question names and from what is near to it.

mod around;
mod facts;
mod seeds;

pub use facts::{facts, named};

use std::collections::{BTreeMap, HashMap, HashSet};

use graphrag_network::{Limits, Walked, walk};
use graphrag_rank::budget::Budget;
use pgrx::prelude::*;

use self::around::{Around, Vertex};
use self::seeds::{POWER, Seeds};
use crate::collection::Collection;
use crate::error::{Error, Result, in_range, required, sql};
use crate::pg::json::Json;
use crate::pg::tick;
use crate::pg::vector::Vector;
use crate::search::{SCORE, Scope, TYPES, query_vector};

/// Mode, and the shares of the walk that start from entities that the question names, from the nearest passages, from the entities that
/// these mention, and from those of the nearest reports.
pub const MODES: [(&str, [f64; 4]); 5] = [
    ("mix", [0.3, 0.6, 0.0, 0.1]),
    ("pagerank", [0.3, 0.7, 0.0, 0.0]),
    ("local", [0.5, 0.0, 0.5, 0.0]),
    ("global", [0.0, 0.0, 0.0, 1.0]),
    ("hybrid", [0.3, 0.0, 0.3, 0.4]),
];

/// Chosen on questions of two public sets; what is near to these does hardly worse.
const LIMITS: Limits = Limits {
    damping: 0.7,
    least: 1e-3,
    rounds: 6,
};
/// Entities that are named as the way to a passage.
const VIA: usize = 3;

pub type FoundRow = (i64, f64, String, Option<String>, i32, Vec<i64>);

/// SQL: `graph_search(collection, query, mode, k, filter, documents, max_tokens)`.
#[pg_extern(sql = false)]
fn graph_search(
    collection: Option<&str>,
    query: Option<&str>,
    mode: Option<&str>,
    k: Option<i32>,
    filter: Option<Json>,
    documents: Option<Vec<Option<i64>>>,
    max_tokens: Option<i32>,
) -> sql::Result<
    TableIterator<
        'static,
        (
            name!(node_id, i64),
            name!(score, f64),
            name!(text, String),
            name!(via, Option<String>),
            name!(token_count, i32),
            name!(document_ids, Vec<i64>),
        ),
    >,
> {
    let scope = Scope::new(filter, documents)?;
    let query = required(query, "query")?;
    let k = in_range(k, "k", 0..=i32::MAX)?;
    let mode = required(mode, "mode")?;
    let budget = max_tokens
        .map(|tokens| in_range(Some(tokens), "max_tokens", 1..=i32::MAX))
        .transpose()?;
    let collection = Collection::read(collection)?;
    let shares = shares(mode)?;
    let vector = query_vector(&collection, Some(query), None)?;
    let mut rows = found(&collection, query, vector.as_ref(), shares, k as usize, &scope)?;
    let mut budget = Budget::new(budget.map(|tokens| tokens as u64));
    rows.retain(|row| budget.take(row.4.max(0) as u64));
    Ok(TableIterator::new(rows))
}

/// The `k` leaves that a walk comes by most, from what a query names and from what is near to it: (id, score), best first.
pub fn rank_by_walk(
    collection: &Collection,
    query: &str,
    vector: Option<&Vector>,
    k: usize,
    scope: &Scope,
) -> Result<Vec<(i64, f64)>> {
    let found = Found::walk(collection, query, vector, MODES[0].1, k, scope)?;
    Ok(found.leaves.into_iter().map(|(node, _, score)| (node, score)).collect())
}

/// The shares of the walk of a mode.
pub fn shares(mode: &str) -> Result<[f64; 4]> {
    let known = MODES.iter().find(|(name, _)| *name == mode);
    known.map(|(_, shares)| *shares).ok_or_else(|| {
        let names = MODES.map(|(name, _)| name);
        Error::invalid(format!("unknown mode \"{mode}\"")).hint(format!("Modes are '{}'.", names.join("', '")))
    })
}

/// The rows of graph_search.
pub fn found(
    collection: &Collection,
    query: &str,
    vector: Option<&Vector>,
    shares: [f64; 4],
    k: usize,
    scope: &Scope,
) -> Result<Vec<FoundRow>> {
    let found = Found::walk(collection, query, vector, shares, k, scope)?;
    // Where only passages are hidden, names would tell of them.
    let via = match collection.hides_only_nodes()? {
        true => HashMap::new(),
        false => via(&found)?,
    };
    let nodes: Vec<i64> = found.leaves.iter().map(|leaf| leaf.0).collect();
    let sql = "SELECT n.id, n.text, n.token_count, ARRAY[n.document_id] FROM {s}.node n WHERE n.id = ANY ($1)";
    let mut rows: HashMap<i64, (String, i32, Vec<i64>)> = collection
        .lookup(sql, &[nodes.into()], |row| {
            Ok((row.need(1)?, (row.need(2)?, row.need(3)?, row.need(4)?)))
        })?
        .into_iter()
        .collect();
    Ok(found
        .leaves
        .into_iter()
        .filter_map(|(node, block, score)| {
            let (text, tokens, documents) = rows.remove(&node)?;
            Some((node, score, text, via.get(&block).cloned(), tokens, documents))
        })
        .collect())
}

/// What a walk has come by.
struct Found<'a> {
    around: Around<'a>,
    walked: Walked,
    /// Leaf, block and share, best first.
    leaves: Vec<(i64, i64, f64)>,
}

impl<'a> Found<'a> {
    /// The `k` leaves of the blocks that most of the walk comes by. Where it started from what is near and comes by fewer, the next
    /// nearest follow, which it has not come by.
    fn walk(
        collection: &'a Collection,
        query: &str,
        vector: Option<&Vector>,
        shares: [f64; 4],
        k: usize,
        scope: &'a Scope,
    ) -> Result<Found<'a>> {
        let mut around = Around::new(collection, scope)?;
        let start = Seeds::find(collection, &mut around, query, vector, scope, shares)?;
        let walked = walk(&start.seeds, LIMITS, |vertices| around.edges(vertices), &mut tick)?;
        let mut leaves = leaves(collection, &blocks(&walked, k), vector, k, scope)?;
        if let Some(vector) = vector.filter(|_| start.is_near && leaves.len() < k) {
            let mut taken: HashSet<i64> = leaves.iter().map(|leaf| leaf.0).collect();
            let next = seeds::nearest(collection, vector, k as i64, scope)?;
            let next = next.into_iter().filter(|(node, ..)| taken.insert(*node));
            let missing = k - leaves.len();
            leaves.extend(next.map(|(node, block, _)| (node, block, 0.0)).take(missing));
        }
        Ok(Found { around, walked, leaves })
    }
}

/// The `k` blocks that most of a walk comes by, and those that are as good as the last one.
fn blocks(walked: &Walked, k: usize) -> Vec<(i64, f64)> {
    let mut blocks: Vec<(i64, f64)> = walked
        .rank
        .iter()
        .filter_map(|(&vertex, &share)| match Vertex::of(vertex) {
            // What is equal but for rounding is equal.
            Vertex::Block(block) => Some((block, (share * 1e9).round() / 1e9)),
            Vertex::Entity(_) => None,
        })
        .filter(|(_, share)| *share > 0.0)
        .collect();
    blocks.sort_by(|a, b| b.1.total_cmp(&a.1));
    let worst = blocks.get(k.saturating_sub(1)).map_or(0.0, |block| block.1);
    blocks.retain(|block| block.1 >= worst);
    blocks
}

/// The leaves of some blocks with block and score, best first, ties in canonical order: the one nearest to the query has what its block
/// has, the others as much less as they are farther.
fn leaves(
    collection: &Collection,
    blocks: &[(i64, f64)],
    vector: Option<&Vector>,
    k: usize,
    scope: &Scope,
) -> Result<Vec<(i64, i64, f64)>> {
    let (ids, scores): (Vec<i64>, Vec<f64>) = blocks.iter().copied().unzip();
    let near = format!("greatest(coalesce(nullif({SCORE}, 'NaN'), 0), 0)");
    let sql = format!(
        "SELECT t.id, t.block_id, t.share FROM ( \
           SELECT l.*, round((l.score * CASE WHEN row_number() OVER of_block = 1 THEN 1 \
             ELSE (l.near / nullif(max(l.near) OVER (PARTITION BY l.block_id), 0)) ^ {POWER} END)::numeric, 9)::float8 AS share \
           FROM (SELECT n.id, n.block_id, n.document_id, n.ordinal, n.text_hash, u.score, {near} AS near \
             FROM unnest($4::bigint[], $5::float8[]) AS u (id, score) JOIN {{s}}.node n ON n.block_id = u.id WHERE {} AND {TYPES}) l \
           WINDOW of_block AS (PARTITION BY l.block_id ORDER BY l.near DESC, l.ordinal)) t \
         JOIN {{s}}.document d ON d.id = t.document_id WHERE t.share > 0 \
         ORDER BY t.share DESC, t.text_hash, d.body_hash, d.source_key COLLATE \"C\", t.ordinal, t.id LIMIT $6",
        scope.on_row("node")
    );
    let args = [
        vector.cloned().into(),
        scope.filter(),
        scope.documents(),
        ids.into(),
        scores.into(),
        (k as i64).into(),
    ];
    collection.lookup(&sql, &args, |row| Ok((row.need(1)?, row.need(2)?, row.need(3)?)))
}

/// For each block that was found the names of the entities through which most of the walk came, where it came through any.
fn via(found: &Found) -> Result<HashMap<i64, String>> {
    let Found { around, walked, leaves } = found;
    let mut through: HashMap<i64, BTreeMap<i64, f64>> = leaves.iter().map(|leaf| (leaf.1, BTreeMap::new())).collect();
    for (&vertex, edges) in &walked.edges {
        let (Vertex::Entity(entity), Some(share)) = (Vertex::of(vertex), walked.rank.get(&vertex)) else {
            continue;
        };
        for (to, part) in edges {
            if let Vertex::Block(block) = Vertex::of(*to)
                && let Some(ways) = through.get_mut(&block)
            {
                // A title leads to its own document by two edges.
                *ways.entry(entity).or_default() += share * part;
            }
        }
    }
    let mut wanted: Vec<i64> = through.values().flat_map(BTreeMap::keys).copied().collect();
    wanted.sort_unstable();
    wanted.dedup();
    let names = around.names(&wanted)?;
    Ok(through
        .into_iter()
        .filter_map(|(block, ways)| {
            let mut ways: Vec<(f64, i64)> = ways
                .into_iter()
                .map(|(entity, share)| ((share * 1e9).round(), entity))
                .filter(|(share, entity)| *share > 0.0 && names.contains_key(entity))
                .collect();
            ways.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| names[&a.1].cmp(&names[&b.1])));
            let said: Vec<&str> = ways
                .iter()
                .take(VIA)
                .map(|(_, entity)| names[entity].as_str())
                .collect();
            (!said.is_empty()).then(|| (block, said.join(", ")))
        })
        .collect())
}

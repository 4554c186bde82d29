//! raptor_search.

mod traversal;

use pgrx::prelude::*;

use crate::collection::Collection;
use crate::error::{Error, Result, in_range, notice, required, sql};
use crate::pg::{json::Json, vector::Vector};
use crate::retrieve::pack::{Hit, Limits, Overlap, Packer, Show};
use crate::search::{Scope, query_vector, rank, tell_if_unembedded};

/// Highest level that can be asked for.
const MAX_LEVEL: i32 = 1_000;
/// How often the ranking is read on, each time four times as far, to make up for what is left out.
const ROUNDS: u32 = 3;

/// SQL: `raptor_search(collection, query text, k, filter, mode, max_tokens, documents, width, depth, min_level, max_level, overlap)`.
#[pg_extern(sql = false)]
fn raptor_search(
    collection: Option<&str>,
    query: Option<&str>,
    k: Option<i32>,
    filter: Option<Json>,
    mode: Option<&str>,
    max_tokens: Option<i32>,
    documents: Option<Vec<Option<i64>>>,
    width: Option<i32>,
    depth: Option<i32>,
    min_level: Option<i32>,
    max_level: Option<i32>,
    overlap: Option<&str>,
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
    let asked = Asked::new(k, mode, max_tokens, width, depth, overlap)?;
    let scope = Scope::new(filter, documents)?.within(asked.levels(min_level, max_level)?);
    Ok(TableIterator::new(rows(search(collection, query, &asked, &scope)?)))
}

/// SQL: `raptor_search(collection, query vector, k, filter, mode, max_tokens, documents, width, depth, min_level, max_level, overlap)`.
#[pg_extern(sql = false)]
fn raptor_search_vector(
    collection: Option<&str>,
    query: Option<Vector>,
    k: Option<i32>,
    filter: Option<Json>,
    mode: Option<&str>,
    max_tokens: Option<i32>,
    documents: Option<Vec<Option<i64>>>,
    width: Option<i32>,
    depth: Option<i32>,
    min_level: Option<i32>,
    max_level: Option<i32>,
    overlap: Option<&str>,
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
    let asked = Asked::new(k, mode, max_tokens, width, depth, overlap)?;
    let scope = Scope::new(filter, documents)?.within(asked.levels(min_level, max_level)?);
    Ok(TableIterator::new(rows(search(collection, query, &asked, &scope)?)))
}

fn rows(hits: Vec<Hit>) -> impl Iterator<Item = (i64, i32, f64, String, i32, Json, Vec<i64>, i64)> {
    hits.into_iter().map(|hit| {
        (
            hit.node,
            hit.level,
            hit.score,
            hit.text,
            hit.tokens,
            hit.metadata,
            hit.document_ids,
            hit.documents,
        )
    })
}

struct Query<'a> {
    text: Option<&'a str>,
    vector: Option<Vector>,
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Collapsed,
    Traversal,
    Leaf,
}

/// The arguments of a search but for what is searched.
struct Asked {
    k: i64,
    mode: Mode,
    budget: Option<i64>,
    /// Nodes of a level from which a walk goes on.
    width: i64,
    /// Steps of a walk, the roots being the first.
    depth: i32,
    overlap: Overlap,
}

impl Asked {
    fn new(
        k: Option<i32>,
        mode: Option<&str>,
        max_tokens: Option<i32>,
        width: Option<i32>,
        depth: Option<i32>,
        overlap: Option<&str>,
    ) -> Result<Asked> {
        let given = |value: Option<i32>, name: &str, range| value.map(|n| in_range(Some(n), name, range)).transpose();
        Ok(Asked {
            k: in_range(k, "k", 0..=i32::MAX)?.into(),
            mode: match required(mode, "mode")? {
                "collapsed" => Mode::Collapsed,
                "traversal" => Mode::Traversal,
                "leaf" => Mode::Leaf,
                other => {
                    return Err(Error::invalid(format!("unknown mode \"{other}\""))
                        .hint("Modes are 'collapsed', 'traversal' and 'leaf'."));
                }
            },
            budget: given(max_tokens, "max_tokens", 1..=i32::MAX)?.map(i64::from),
            width: in_range(width, "width", 1..=10_000)?.into(),
            depth: given(depth, "depth", 1..=MAX_LEVEL)?.unwrap_or(i32::MAX),
            overlap: match required(overlap, "overlap")? {
                "skip" => Overlap::Skip,
                "extend" => Overlap::Extend,
                "keep" => Overlap::Keep,
                other => {
                    return Err(Error::invalid(format!("unknown overlap \"{other}\""))
                        .hint("It is 'skip', 'extend' or 'keep'."));
                }
            },
        })
    }

    fn limits(&self) -> Limits {
        Limits {
            k: self.k,
            budget: self.budget,
            overlap: self.overlap,
            show: Show::Each,
            repeats: None,
        }
    }

    /// The levels to search.
    fn levels(&self, min_level: Option<i32>, max_level: Option<i32>) -> Result<std::ops::RangeInclusive<i32>> {
        let given = |value: Option<i32>, name: &str| {
            value
                .map(|level| in_range(Some(level), name, 0..=MAX_LEVEL))
                .transpose()
        };
        let least = given(min_level, "min_level")?.unwrap_or(0);
        let most = given(max_level, "max_level")?.unwrap_or(i32::MAX);
        if least > most {
            return Err(Error::invalid("min_level must not be above max_level")
                .detail(format!("min_level is {least}, max_level is {most}."))
                .hint("Levels count from the leaves, which are 0."));
        }
        if self.mode != Mode::Leaf {
            return Ok(least..=most);
        }
        if least > 0 {
            return Err(Error::invalid("mode \"leaf\" has no level but 0")
                .detail(format!("min_level is {least}."))
                .hint("Use mode 'collapsed' for summaries."));
        }
        Ok(0..=0)
    }
}

fn search(name: Option<&str>, query: Query, asked: &Asked, scope: &Scope) -> Result<Vec<Hit>> {
    let collection = Collection::read(name)?;
    // A query without words is near to nothing.
    let Some(vector) = query_vector(&collection, query.text, query.vector)? else {
        return Ok(Vec::new());
    };
    if asked.k == 0 {
        return Ok(Vec::new());
    }
    let hits = match asked.mode {
        Mode::Traversal => {
            let kept = traversal::walk(&collection, &vector, asked, scope)?;
            let mut packer = Packer::new(&collection, asked.limits());
            packer.pack(&kept)?;
            packer.hits
        }
        Mode::Collapsed | Mode::Leaf => ranked(&collection, &vector, asked, scope)?,
    };
    if hits.is_empty() {
        tell_if_unembedded(&collection)?;
    }
    Ok(hits)
}

/// The first `k` of the ranking that repeat nothing.
fn ranked(collection: &Collection, vector: &Vector, asked: &Asked, scope: &Scope) -> Result<Vec<Hit>> {
    // Nodes of one level are not above each other.
    let repeats = asked.overlap != Overlap::Keep && scope.levels().start() != scope.levels().end();
    let mut want = asked.k;
    if repeats {
        want = 2 * asked.k + 10;
    }
    for round in 1.. {
        let ranking = rank(collection, "node", vector, want, scope, "true")?;
        let mut packer = Packer::new(collection, asked.limits());
        packer.pack(&ranking)?;
        let all = (ranking.len() as i64) < want;
        if !repeats || all || packer.ranked == asked.k {
            return Ok(packer.hits);
        }
        if round == ROUNDS {
            notice(
                format!(
                    "found only {} of {} nodes, since the others of the nearest {want} repeat them",
                    packer.ranked, asked.k
                ),
                "overlap => 'keep' shows what repeats, too; documents, filter and levels narrow what is searched.",
            );
            return Ok(packer.hits);
        }
        want *= 4;
    }
    unreachable!("the last round returns");
}

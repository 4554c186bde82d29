//! The tree of summaries: group a level, summarise each group, and go on with the summaries.
//!
//! After RAPTOR (Sarthi et al., 2024, "RAPTOR: Recursive Abstractive Processing for Tree-Organized Retrieval"), with these changes:
//! every level has at most half as many items as the one below it, so that a root is always reached; a group of one is not summarised;
//! and no group holds more than the summarizer can read.

use crate::bisect::bisect;
use crate::greedy::greedy;
use crate::keep::{Before, Kept, keep_up};
use crate::limits::{Cluster, Limits, Member};
use crate::mixture::{self, mixture};
use crate::vectors::{ShapeError, Vectors};
use graphrag_linear::Crew;
use std::fmt;

/// What writes and embeds the summaries.
pub trait Summarize {
    type Error;

    /// The clusters of an earlier tree at `level`, of those of `items` that were in them, by their places in `items`.
    ///
    /// With none, the items are clustered anew; else clusters stay as they are as far as the items let them, see [`keep_up()`].
    /// The method `Greedy` does not ask.
    fn before(&mut self, _level: u32, _items: &[u32]) -> Result<Vec<Before>, Self::Error> {
        Ok(vec![])
    }

    /// Summarises each of `clusters`, which hold two or more children each; the parents made of them stand at `level`, 1 or higher.
    /// `was` has for each of them which of those of `before` it goes on from.
    ///
    /// Answers one summary per cluster, in order.
    /// The clusters become the nodes that follow those made before, in order.
    fn summarize(
        &mut self,
        level: u32,
        clusters: &[Vec<Child>],
        was: &[Option<u32>],
    ) -> Result<Vec<Written>, Self::Error>;
}

/// A node below another, and how probable it is that it belongs there: above 0, at most 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Child {
    pub node: u32,
    pub weight: f32,
}

/// What is known of a summary.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// Of the dimension of the leaves and of any length; nothing if it has none.
    pub vector: Option<Vec<f32>>,
    pub tokens: u32,
}

/// How the items of one level are grouped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// By k-means and bisection, softly: see [`bisect()`].
    #[default]
    Bisect,
    /// By Gaussian mixtures, as in the paper: see [`mixture()`].
    Mixture,
    /// Each free item takes its nearest free ones, up to the limit of members: see [`greedy()`].
    Greedy,
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub method: Method,
    pub limits: Limits,
    /// Levels of parents at most; `None` goes on to a single root.
    pub max_levels: Option<u32>,
    pub seed: u64,
    pub crew: Crew,
}

/// A summary's place in the tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Parent {
    /// 1 for the first parents. A child may stand more than one level below, where it was alone in its cluster.
    pub level: u32,
    /// The nodes summarised, two or more.
    pub children: Vec<Child>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildError<E> {
    /// Clusters of fewer than two members make no level smaller.
    ClusterSize(usize),
    /// The summarizer answered `got` vectors for `expected` clusters.
    Answers { expected: usize, got: usize },
    /// The summarizer answered a vector of `got` dimensions where the leaves have `expected`.
    Dimension { expected: usize, got: usize },
    /// There are more items than can be numbered.
    Shape(ShapeError),
    /// The summarizer failed.
    Summarize(E),
}

impl<E: fmt::Display> fmt::Display for BuildError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClusterSize(size) => write!(f, "cluster size {size} is below 2"),
            Self::Answers { expected, got } => {
                write!(f, "{got} summaries were made of {expected} clusters")
            }
            Self::Dimension { expected, got } => {
                write!(
                    f,
                    "a summary's vector has {got} dimensions where the leaves have {expected}"
                )
            }
            Self::Shape(error) => error.fmt(f),
            Self::Summarize(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for BuildError<E> {}

/// Builds the tree over `leaves`, of `sizes` tokens each, and returns its parents in the order made.
///
/// Nodes are numbered: the leaves from 0 by row, then the parents. Each level has at most half as many items as the one below it, rounded up.
/// A cluster of one is no parent: its item goes up to the next level as it is. Without `max_levels` the last parent is the one root;
/// fewer than two leaves make no parent. An item without a vector has cosine 0 with all others and is grouped last.
/// The items of a level are ordered as the clusters that they come from.
///
/// Only one level's vectors are held at a time, and while the summarizer works only those that go up with no parent; see [`bytes_needed`].
pub fn build<S: Summarize>(
    leaves: Vectors,
    sizes: Vec<u32>,
    options: &Options,
    summarizer: &mut S,
    tick: &mut dyn FnMut(),
) -> Result<Vec<Parent>, BuildError<S::Error>> {
    if options.limits.members < 2 {
        return Err(BuildError::ClusterSize(options.limits.members));
    }
    let dim = leaves.dim();
    let mut items: Vec<u32> = (0..leaves.len() as u32).collect();
    let mut next_node = items.len() as u32;
    let (mut vectors, mut sizes) = (leaves, sizes);
    let mut parents = vec![];
    for level in 1..=options.max_levels.unwrap_or(u32::MAX) {
        if items.len() < 2 {
            break;
        }
        let before = match options.method {
            Method::Greedy => vec![],
            _ => summarizer.before(level, &items).map_err(BuildError::Summarize)?,
        };
        let clusters = match before.is_empty() {
            true => {
                let clusters = clustered(&vectors, &sizes, options, tick).into_iter();
                clusters.map(|cluster| Kept { cluster, was: None }).collect()
            }
            false => keep_up(&vectors, &sizes, options, &before, tick),
        };
        let mut next_items = Vec::with_capacity(clusters.len());
        let mut risen = Vec::with_capacity(clusters.len());
        let (mut groups, mut origins) = (vec![], vec![]);
        for Kept { cluster, was } in clusters {
            if let [Member { row, .. }] = cluster[..] {
                next_items.push(items[row as usize]);
                risen.push(Some(Written {
                    vector: Some(vectors.row(row).to_vec()),
                    tokens: sizes[row as usize],
                }));
            } else {
                next_items.push(next_node);
                next_node += 1;
                risen.push(None);
                let child = |member: &Member| Child {
                    node: items[member.row as usize],
                    weight: member.weight,
                };
                groups.push(cluster.iter().map(child).collect());
                origins.push(was);
            }
        }
        drop(vectors);

        let answers = summarizer
            .summarize(level, &groups, &origins)
            .map_err(BuildError::Summarize)?;
        if answers.len() != groups.len() {
            return Err(BuildError::Answers {
                expected: groups.len(),
                got: answers.len(),
            });
        }
        let mut answers = answers.into_iter();
        let mut data = Vec::with_capacity(next_items.len() * dim);
        sizes = Vec::with_capacity(next_items.len());
        for (i, known) in risen.into_iter().enumerate() {
            if i.is_multiple_of(256) {
                tick();
            }
            let Some(written) = known.or_else(|| answers.next()) else {
                continue;
            };
            sizes.push(written.tokens);
            match written.vector {
                None => data.resize(data.len() + dim, 0.0),
                Some(vector) if vector.len() == dim => data.extend(vector),
                Some(vector) => {
                    return Err(BuildError::Dimension {
                        expected: dim,
                        got: vector.len(),
                    });
                }
            }
        }
        vectors = Vectors::new(dim, data, tick).map_err(BuildError::Shape)?;
        items = next_items;
        parents.extend(groups.into_iter().map(|children| Parent { level, children }));
    }
    Ok(parents)
}

/// Clusters rows by the method of `options`.
pub(crate) fn clustered(vectors: &Vectors, sizes: &[u32], options: &Options, tick: &mut dyn FnMut()) -> Vec<Cluster> {
    let Options { limits, seed, crew, .. } = options;
    match options.method {
        Method::Bisect => bisect(vectors, sizes, limits, *seed, crew, tick),
        Method::Mixture => mixture(vectors, sizes, limits, *seed, crew, tick),
        Method::Greedy => {
            let sure = |row| Member { row, weight: 1.0 };
            let clusters = greedy(vectors, limits.members, tick).into_iter();
            clusters
                .map(|cluster| cluster.into_iter().map(sure).collect())
                .collect()
        }
    }
}

/// Bytes that [`build`] holds at most over `leaves` leaves of `dim` dimensions in about so many `clusters`, the leaves' vectors included;
/// what the summarizer holds itself is not counted. With `keeps`, where there are clusters before.
pub fn bytes_needed(leaves: usize, dim: usize, clusters: usize, options: &Options, keeps: bool) -> usize {
    let vector = dim.saturating_mul(size_of::<f32>());
    // A row: its vector; its size, and as item, member of a cluster, child of a parent, with room to grow.
    let rows = leaves.saturating_mul(vector.saturating_add(60));
    // A cluster: its summary's vector as answered and as a row, and the heads of the lists that hold it.
    let summaries = clusters.saturating_mul(vector.saturating_mul(2).saturating_add(200));
    let grouping = match options.method {
        // A row: what it may move to, its closeness, its clusters. A cluster: the sum of its vectors, and those near it.
        Method::Bisect => leaves
            .saturating_mul(150)
            .saturating_add(clusters.saturating_mul(vector.saturating_add(300)))
            .saturating_add(crate::bisect::bytes_beside(leaves, dim, clusters)),
        Method::Mixture => mixture::bytes_needed(leaves, dim, options.crew.threads.get()),
        // The lists of the nearest rows are never longer than the rows, four seeds at a time.
        Method::Greedy => leaves
            .min(options.limits.members.saturating_mul(4))
            .saturating_mul(2 * 4 * size_of::<u64>()),
    };
    // Rows that are clustered by themselves are copied.
    let copied = if keeps { (leaves / 2).saturating_mul(vector) } else { 0 };
    rows.saturating_add(summaries.max(grouping.saturating_add(copied)))
}

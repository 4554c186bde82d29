//! The tree of summaries: group a level, summarise each group, and go on with the summaries.
//!
//! After RAPTOR (Sarthi et al., 2024, "RAPTOR: Recursive Abstractive Processing for Tree-Organized Retrieval"), with three changes:
//! every level is smaller than the one below it, so that a root is always reached; a group of one is not summarised;
//! and no node has two parents.

use crate::greedy::greedy;
use crate::vectors::{ShapeError, Vectors};
use std::fmt;

/// What writes and embeds the summaries.
pub trait Summarize {
    type Error;

    /// Summarises each of `clusters`, which hold the numbers of two or more nodes each; the parents made of them stand at `level`, 1 or higher.
    ///
    /// Answers one vector per cluster, in order, of the dimension of the leaves and of any length, or `None` for a summary that has no vector.
    /// The clusters become the nodes that follow those made before, in order.
    fn summarize(&mut self, level: u32, clusters: &[Vec<u32>]) -> Result<Vec<Option<Vec<f32>>>, Self::Error>;
}

/// How the items of one level are grouped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Each free item takes its nearest free ones: see [`greedy()`].
    #[default]
    Greedy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub method: Method,
    /// Items per cluster, at least 2.
    pub cluster_size: usize,
    /// Levels of parents at most; `None` goes on to a single root.
    pub max_levels: Option<u32>,
}

/// A summary's place in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// 1 for the first parents. A child may stand more than one level below, where it was alone in its cluster.
    pub level: u32,
    /// The nodes summarised, two or more.
    pub children: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildError<E> {
    /// A cluster size below 2 makes no level smaller.
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

/// Builds the tree over `leaves` and returns its parents in the order made.
///
/// Nodes are numbered: the leaves from 0 by row, then the parents. Each level has strictly fewer items than the one below it.
/// A cluster of one is no parent: its item goes up to the next level as it is. Without `max_levels` the last parent is the one root;
/// fewer than two leaves make no parent. An item without a vector has cosine 0 with all others and is grouped last.
/// The items of a level are ordered as the clusters that they come from.
///
/// Only one level's vectors are held at a time, and while the summarizer works only those that go up with no parent; see [`bytes_needed`].
pub fn build<S: Summarize>(
    leaves: Vectors,
    options: &Options,
    summarizer: &mut S,
    tick: &mut dyn FnMut(),
) -> Result<Vec<Parent>, BuildError<S::Error>> {
    if options.cluster_size < 2 {
        return Err(BuildError::ClusterSize(options.cluster_size));
    }
    let dim = leaves.dim();
    let mut items: Vec<u32> = (0..leaves.len() as u32).collect();
    let mut next_node = items.len() as u32;
    let mut vectors = leaves;
    let mut parents = vec![];
    for level in 1..=options.max_levels.unwrap_or(u32::MAX) {
        if items.len() < 2 {
            break;
        }
        let clusters = match options.method {
            Method::Greedy => greedy(&vectors, options.cluster_size, tick),
        };
        let mut next_items = Vec::with_capacity(clusters.len());
        let mut risen = Vec::with_capacity(clusters.len());
        let mut groups = vec![];
        for cluster in clusters {
            if let [row] = cluster[..] {
                next_items.push(items[row as usize]);
                risen.push(Some(vectors.row(row).to_vec()));
            } else {
                next_items.push(next_node);
                next_node += 1;
                risen.push(None);
                groups.push(cluster.iter().map(|&row| items[row as usize]).collect());
            }
        }
        drop(vectors);

        let answers = summarizer.summarize(level, &groups).map_err(BuildError::Summarize)?;
        if answers.len() != groups.len() {
            return Err(BuildError::Answers {
                expected: groups.len(),
                got: answers.len(),
            });
        }
        let mut answers = answers.into_iter();
        let mut data = Vec::with_capacity(next_items.len() * dim);
        for (i, vector) in risen.into_iter().enumerate() {
            if i.is_multiple_of(256) {
                tick();
            }
            match vector.or_else(|| answers.next().flatten()) {
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

/// Bytes that [`build`] holds at most over `leaves` leaves of `dim` dimensions, the leaves' vectors included;
/// what the summarizer holds itself is not counted.
pub fn bytes_needed(leaves: usize, dim: usize, cluster_size: usize) -> usize {
    let vector = dim.saturating_mul(size_of::<f32>());
    let clusters = leaves.div_ceil(cluster_size.max(2));
    // A row: its vector, and four bytes each as item, free row, member of a cluster, of a group and of a parent, with room to grow and a flag.
    // The lists of the nearest rows are never longer than the rows, four seeds at a time.
    let nearest = leaves
        .min(cluster_size.saturating_mul(4))
        .saturating_mul(2 * 4 * size_of::<u64>());
    let rows = leaves.saturating_mul(vector.saturating_add(40));
    // A cluster: its summary's vector as answered and as a row, and the heads of the lists that hold it.
    let summaries = clusters.saturating_mul(vector.saturating_mul(2).saturating_add(200));
    rows.saturating_add(summaries).saturating_add(nearest)
}

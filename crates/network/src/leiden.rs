//! Communities by the Leiden algorithm: local moving, refinement inside communities, aggregation, until nothing improves.
//!
//! Traag, Waltman and van Eck, 2019, "From Louvain to Leiden: guaranteeing well-connected communities". Of the communities that a node may join in
//! the refinement the best is taken, not one by chance, so that the seed decides on the order of nodes alone.

mod aggregate;
mod moving;
mod refine;

use crate::Pace;
use crate::graph::Graph;
use crate::random::Random;
use aggregate::aggregate;
use moving::{Mover, Start};
use refine::refine;

/// What makes a partition a good one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Objective {
    /// Newman's modularity, with a resolution: see [`crate::modularity`].
    Modularity { resolution: f64 },
    /// The constant Potts model: the weight inside communities less `resolution` times their pairs of nodes.
    Potts { resolution: f64 },
}

/// Rounds of moving, refining and aggregating at most; each starts from what the one before has found. They end with the first
/// that changes nothing.
const ROUNDS: usize = 2;

/// A graph as one phase sees it; loops count in `sizes` alone.
#[derive(Clone, Copy)]
struct Net<'a> {
    starts: &'a [usize],
    neighbors: &'a [u32],
    weights: &'a [f32],
    /// What a node brings into a community: its weighted degree, or the nodes that it stands for.
    sizes: &'a [f64],
}

impl<'a> Net<'a> {
    fn of(graph: &'a Graph, sizes: &'a [f64]) -> Net<'a> {
        Net {
            starts: graph.starts(),
            neighbors: graph.all_neighbors(),
            weights: graph.all_weights(),
            sizes,
        }
    }

    fn nodes(&self) -> usize {
        self.sizes.len()
    }

    fn row(&self, node: u32) -> impl Iterator<Item = (u32, f32)> {
        let range = self.starts[node as usize]..self.starts[node as usize + 1];
        self.neighbors[range.clone()]
            .iter()
            .copied()
            .zip(self.weights[range].iter().copied())
    }
}

/// The communities of a graph: a label for each node, numbered from 0 in the order of their lowest nodes.
///
/// Each community is connected by edges of a weight above 0; a node without such an edge is one of its own. The result depends
/// on the graph, the objective and the `seed` alone. `start` is a partition to begin with in place of single nodes, with the nodes around which the graph
/// has changed since it was found: only they, what they are part of, and what their moves touch are looked at.
pub fn leiden(
    graph: &Graph,
    objective: Objective,
    seed: u64,
    start: Option<(&[u32], &[u32])>,
    tick: &mut dyn FnMut(),
) -> Vec<u32> {
    let nodes = graph.nodes() as usize;
    let mut pace = Pace::new(tick);
    let (sizes, factor): (Vec<f64>, f64) = match objective {
        Objective::Modularity { resolution } => {
            let total = 2.0 * graph.total_weight();
            let degrees = (0..graph.nodes()).map(|node| graph.weighted_degree(node)).collect();
            (degrees, if total > 0.0 { resolution / total } else { 0.0 })
        }
        Objective::Potts { resolution } => (vec![1.0; nodes], resolution),
    };
    let net = Net::of(graph, &sizes);
    let mut random = Random::new(seed);
    let mut mover = Mover::default();
    let mut labels: Vec<u32> = match start {
        Some((labels, _)) => labels.to_vec(),
        None => (0..nodes as u32).collect(),
    };
    renumber(&mut labels);
    let (first, rounds) = match start {
        Some((_, changed)) => (Start::Around(changed), 1),
        None => (Start::All, ROUNDS),
    };
    // Below this a change is an error of rounding.
    let least = 1e-12 * graph.total_weight().max(1.0);
    for round in 0..rounds {
        let before = labels.clone();
        climb(
            net,
            factor,
            least,
            &mut labels,
            first,
            &mut random,
            &mut mover,
            &mut pace,
        );
        connect(net, &mut labels, &mut pace);
        if round > 0 && labels == before {
            break;
        }
    }
    labels
}

/// One round: from single nodes to ever coarser graphs, until no community grows.
#[allow(clippy::too_many_arguments)]
fn climb(
    net: Net,
    factor: f64,
    least: f64,
    labels: &mut [u32],
    start: Start,
    random: &mut Random,
    mover: &mut Mover,
    pace: &mut Pace,
) {
    mover.improve(net, factor, least, labels, start, random, pace);
    // The node of the current graph that each node of the first one is part of.
    let mut part_of: Option<Vec<u32>> = None;
    let mut coarse = None;
    let mut current: Vec<u32> = labels.to_vec();
    loop {
        let net = coarse.as_ref().map_or(net, aggregate::Coarse::net);
        let communities = renumber(&mut current);
        if communities == net.nodes() {
            break;
        }
        let (refined, parts) = refine(net, factor, &current, communities, random, pace);
        if parts == net.nodes() {
            break;
        }
        let next = aggregate(net, &refined, parts, pace);
        let mut labels_of = vec![0; parts];
        for (part, label) in refined.iter().zip(&current) {
            labels_of[*part as usize] = *label;
        }
        part_of = Some(match part_of {
            None => refined,
            Some(mut part_of) => {
                for part in &mut part_of {
                    *part = refined[*part as usize];
                }
                part_of
            }
        });
        current = labels_of;
        let around: Vec<u32>;
        let start = match start {
            Start::All => Start::All,
            Start::Around(changed) => {
                let parts = part_of.as_deref().unwrap_or_default();
                around = changed.iter().map(|&node| parts[node as usize]).collect();
                Start::Around(&around)
            }
        };
        mover.improve(next.net(), factor, least, &mut current, start, random, pace);
        coarse = Some(next);
    }
    match part_of {
        None => labels.copy_from_slice(&current),
        Some(part_of) => {
            for (label, part) in labels.iter_mut().zip(part_of) {
                *label = current[part as usize];
            }
        }
    }
}

/// Numbers labels from 0 in the order of their first nodes; answers how many there are.
pub(crate) fn renumber(labels: &mut [u32]) -> usize {
    const NONE: u32 = u32::MAX;
    let mut number = vec![NONE; labels.iter().max().map_or(0, |label| *label as usize + 1)];
    let mut count = 0;
    for label in labels {
        let number = &mut number[*label as usize];
        if *number == NONE {
            *number = count;
            count += 1;
        }
        *label = *number;
    }
    count as usize
}

/// [`connect`] for the communities of a graph.
pub(crate) fn connected(graph: &Graph, labels: &mut [u32], pace: &mut Pace) {
    connect(Net::of(graph, &[]), labels, pace);
}

/// Parts communities that are not connected, which only makes them better, and numbers them in the order of their lowest nodes.
fn connect(net: Net, labels: &mut [u32], pace: &mut Pace) {
    const UNSEEN: u32 = u32::MAX;
    let mut parts = vec![UNSEEN; labels.len()];
    let mut stack = Vec::new();
    let mut count = 0;
    for first in 0..labels.len() as u32 {
        pace.step(1);
        if parts[first as usize] != UNSEEN {
            continue;
        }
        parts[first as usize] = count;
        stack.push(first);
        while let Some(node) = stack.pop() {
            for (neighbor, weight) in net.row(node) {
                pace.step(1);
                let is_inside = labels[neighbor as usize] == labels[node as usize] && weight > 0.0;
                if is_inside && parts[neighbor as usize] == UNSEEN {
                    parts[neighbor as usize] = count;
                    stack.push(neighbor);
                }
            }
        }
        count += 1;
    }
    labels.copy_from_slice(&parts);
}

#[cfg(test)]
mod tests;

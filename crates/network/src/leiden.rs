//! Communities by the Leiden algorithm: local moving, refinement inside communities, aggregation, until nothing improves; then local moving
//! on each of the graphs again, down to the first, which costs less than a second round from there and finds as much (Rotta and Noack,
//! 2011, "Multilevel local search algorithms for modularity clustering").
//!
//! Traag, Waltman and van Eck, 2019, "From Louvain to Leiden: guaranteeing well-connected communities". Of the communities that a node may join in
//! the refinement the best is taken, not one by chance, so that the seed decides on the order of nodes alone.

mod aggregate;
mod moving;
mod refine;

use crate::Pace;
use crate::graph::Graph;
use crate::random::Random;
use aggregate::{Coarse, aggregate};
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

/// Searches from single nodes, each in another order, of which the best is kept. Where a graph is small one search ends too often where no move
/// helps, as when a path of six nodes has become three pairs; and its time does not matter. A hierarchy has many graphs of some dozen nodes.
fn searches(net: Net) -> usize {
    match (net.nodes(), net.neighbors.len()) {
        (..=10, _) => 16,
        (_, ..=1_000) => 4,
        _ => 1,
    }
}

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

    fn degree(&self, node: u32) -> usize {
        self.starts[node as usize + 1] - self.starts[node as usize]
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
    let (sizes, factor): (Vec<f64>, f64) = match objective {
        Objective::Modularity { resolution } => {
            let total = 2.0 * graph.total_weight();
            let degrees = (0..graph.nodes()).map(|node| graph.weighted_degree(node)).collect();
            (degrees, if total > 0.0 { resolution / total } else { 0.0 })
        }
        Objective::Potts { resolution } => (vec![1.0; nodes], resolution),
    };
    let net = Net::of(graph, &sizes);
    // Below this a change is an error of rounding.
    let least = 1e-12 * graph.total_weight().max(1.0);
    let mut search = Search {
        factor,
        least,
        random: Random::new(seed),
        mover: Mover::default(),
        pace: Pace::new(tick),
    };
    match start {
        Some((start, changed)) => {
            let mut labels = start.to_vec();
            renumber(&mut labels);
            search.improve(net, &mut labels, Start::Around(changed));
            search.climb(net, &mut labels, Start::Around(changed));
            connect(net, &mut labels, &mut search.pace);
            labels
        }
        None => {
            let mut best = search.whole_search(net);
            let mut most = None;
            for _ in 1..searches(net) {
                let labels = search.whole_search(net);
                let value = search.value(net, &labels);
                if value > *most.get_or_insert_with(|| search.value(net, &best)) + least {
                    (best, most) = (labels, Some(value));
                }
            }
            best
        }
    }
}

/// What all phases share.
struct Search<'a> {
    factor: f64,
    least: f64,
    random: Random,
    mover: Mover,
    pace: Pace<'a>,
}

impl Search<'_> {
    /// From single nodes to the end; leaves no trace in the next but another order of nodes.
    fn whole_search(&mut self, net: Net) -> Vec<u32> {
        let mut labels: Vec<u32> = (0..net.nodes() as u32).collect();
        let order = self.random.order(net.nodes());
        self.improve(net, &mut labels, Start::Once(&order));
        // From here on nodes of one community stand side by side: what a node is compared with is near in memory.
        let communities = renumber(&mut labels);
        let order = by_label(&labels, communities, order.into_iter()).0;
        let sorted = aggregate::reordered(net, &order, &mut self.pace);
        let mut inner: Vec<u32> = order.iter().map(|&node| labels[node as usize]).collect();
        self.improve(sorted.net(), &mut inner, Start::InOrder);
        self.climb(sorted.net(), &mut inner, Start::All);
        connect(sorted.net(), &mut inner, &mut self.pace);
        for (&node, label) in order.iter().zip(inner) {
            labels[node as usize] = label;
        }
        renumber(&mut labels);
        labels
    }

    /// What the objective makes of a partition, but for what is the same for all.
    fn value(&self, net: Net, labels: &[u32]) -> f64 {
        let mut sizes = vec![0.0; net.nodes()];
        let mut inside = 0.0;
        for node in 0..net.nodes() as u32 {
            let label = labels[node as usize];
            sizes[label as usize] += net.sizes[node as usize];
            let inner = net
                .row(node)
                .filter(|(neighbor, _)| labels[*neighbor as usize] == label);
            inside += inner.map(|(_, weight)| f64::from(weight)).sum::<f64>();
        }
        inside - self.factor * sizes.iter().map(|size| size * size).sum::<f64>()
    }

    fn improve(&mut self, net: Net, labels: &mut [u32], start: Start) {
        self.mover.improve(
            net,
            self.factor,
            self.least,
            labels,
            start,
            &mut self.random,
            &mut self.pace,
        );
    }

    /// From labels that no move of a node makes better to ever coarser graphs, until no community grows; then down again, as what
    /// has become of the coarse communities makes nodes move.
    fn climb(&mut self, net: Net, labels: &mut [u32], start: Start) {
        // Each coarser graph, the node of it that each node of the finer one is part of, and the nodes that are looked at first.
        let mut levels: Vec<(Coarse, Vec<u32>, Vec<u32>)> = Vec::new();
        let mut current: Vec<u32> = labels.to_vec();
        loop {
            let net = levels.last().map_or(net, |(coarse, ..)| coarse.net());
            let communities = renumber(&mut current);
            if communities == net.nodes() {
                break;
            }
            let (refined, parts) = refine(
                net,
                self.factor,
                &current,
                communities,
                &mut self.random,
                &mut self.pace,
            );
            if parts == net.nodes() {
                break;
            }
            let next = aggregate(net, &refined, parts, &mut self.pace);
            let mut labels_of = vec![0; parts];
            for (part, label) in refined.iter().zip(&current) {
                labels_of[*part as usize] = *label;
            }
            current = labels_of;
            let around: Vec<u32> = match start {
                Start::Around(changed) => {
                    let finer = levels.last().map_or(changed, |(.., around)| &around[..]);
                    finer.iter().map(|&node| refined[node as usize]).collect()
                }
                _ => Vec::new(),
            };
            let first = match start {
                Start::Around(_) => Start::Around(&around),
                _ => Start::All,
            };
            self.improve(next.net(), &mut current, first);
            levels.push((next, refined, around));
        }
        while let Some((_, part_of, _)) = levels.pop() {
            let (net, around) = levels
                .last()
                .map_or((net, None), |(coarse, _, around)| (coarse.net(), Some(&around[..])));
            current = part_of.iter().map(|&part| current[part as usize]).collect();
            let first = match start {
                Start::Around(changed) => Start::Around(around.unwrap_or(changed)),
                _ => Start::InOrder,
            };
            self.improve(net, &mut current, first);
        }
        labels.copy_from_slice(&current);
    }
}

/// The nodes in the order of their labels, those of one as they come, and where those of each label start.
fn by_label(labels: &[u32], count: usize, nodes: impl Iterator<Item = u32>) -> (Vec<u32>, Vec<usize>) {
    let mut first = vec![0usize; count + 1];
    for label in labels {
        first[*label as usize + 1] += 1;
    }
    for label in 0..count {
        first[label + 1] += first[label];
    }
    let mut free = first.clone();
    let mut order = vec![0u32; labels.len()];
    for node in nodes {
        let slot = &mut free[labels[node as usize] as usize];
        order[*slot] = node;
        *slot += 1;
    }
    (order, first)
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
mod optimum;
#[cfg(test)]
mod tests;

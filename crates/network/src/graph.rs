//! The graph in memory: compressed adjacency lists (compressed sparse rows) with weights.

use crate::Pace;
use std::fmt;

/// A weighted undirected graph over the nodes 0, 1, … `nodes - 1`.
///
/// Parallel and reversed edges are one edge with the sum of their weights. Loops (edges from a node to itself) are kept apart from the neighbours.
/// The graph is the same, to the bit, whatever the order of the edges it was made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// Where the neighbours of each node start, and the end of the last.
    starts: Vec<usize>,
    neighbors: Vec<u32>,
    weights: Vec<f32>,
    loops: Vec<f32>,
    total_weight: f64,
}

/// An edge that can't be taken, with its place in the list of edges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EdgeError {
    /// An end of the edge is not a node of the graph.
    Node { edge: usize, node: u32 },
    /// The weight is negative, infinite or not a number.
    Weight { edge: usize, weight: f32 },
}

impl fmt::Display for EdgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node { edge, node } => write!(f, "edge {edge} ends at node {node}, which the graph does not have"),
            Self::Weight { edge, weight } => {
                write!(f, "edge {edge} has weight {weight}, which is not finite and at least 0")
            }
        }
    }
}

impl std::error::Error for EdgeError {}

impl Graph {
    /// Makes the graph of `nodes` nodes from edges (one end, other end, weight). A weight of 0 makes an edge all the same.
    ///
    /// A sum of parallel edges beyond the greatest `f32` is held at that. Memory: [`bytes_needed`].
    pub fn new(nodes: u32, edges: &[(u32, u32, f32)], tick: &mut dyn FnMut()) -> Result<Self, EdgeError> {
        let mut pace = Pace::new(tick);
        let count = nodes as usize;
        let mut starts = vec![0usize; count + 1];
        for (edge, &(u, v, weight)) in edges.iter().enumerate() {
            pace.step(1);
            if let Some(&node) = [u, v].iter().find(|&&node| node >= nodes) {
                return Err(EdgeError::Node { edge, node });
            }
            if !(weight.is_finite() && weight >= 0.0) {
                return Err(EdgeError::Weight { edge, weight });
            }
            starts[u as usize + 1] += 1;
            starts[v as usize + 1] += usize::from(u != v);
        }
        for node in 0..count {
            pace.step(1);
            starts[node + 1] += starts[node];
        }

        // Each edge stands in the rows of both of its ends, a loop once.
        let mut ends = vec![(0u32, 0.0f32); starts[count]];
        let mut free = starts.clone();
        let mut next_slot = |node: u32| {
            let slot = free[node as usize];
            free[node as usize] += 1;
            slot
        };
        for &(u, v, weight) in edges {
            pace.step(1);
            // Of the two zeros only the positive one is kept.
            ends[next_slot(u)] = (v, weight + 0.0);
            if u != v {
                ends[next_slot(v)] = (u, weight + 0.0);
            }
        }

        // Dealing out the rows from the first to the last to the rows of their neighbours gives the same rows, sorted.
        let mut neighbors = vec![0u32; ends.len()];
        let mut weights = vec![0.0f32; ends.len()];
        free.copy_from_slice(&starts);
        for node in 0..nodes {
            pace.step(1);
            for &(neighbor, weight) in &ends[starts[node as usize]..starts[node as usize + 1]] {
                pace.step(1);
                let slot = &mut free[neighbor as usize];
                neighbors[*slot] = node;
                weights[*slot] = weight;
                *slot += 1;
            }
        }
        drop((ends, free));

        let mut loops = vec![0.0; count];
        let mut twice_total = 0.0;
        let mut kept = 0;
        for node in 0..count {
            pace.step(1);
            let (mut at, end) = (starts[node], starts[node + 1]);
            starts[node] = kept;
            while at < end {
                let neighbor = neighbors[at];
                let parallel = neighbors[at..end]
                    .iter()
                    .take_while(|&&other| other == neighbor)
                    .count();
                pace.step(parallel);
                // Sorted, so that the order of the edges does not show in the sum.
                let same = &mut weights[at..at + parallel];
                same.sort_unstable_by(f32::total_cmp);
                let sum: f64 = same.iter().copied().map(f64::from).sum();
                let weight = (sum as f32).min(f32::MAX);
                if neighbor as usize == node {
                    loops[node] = weight;
                    twice_total += 2.0 * f64::from(weight);
                } else {
                    neighbors[kept] = neighbor;
                    weights[kept] = weight;
                    kept += 1;
                    twice_total += f64::from(weight);
                }
                at += parallel;
            }
        }
        starts[count] = kept;
        neighbors.truncate(kept);
        neighbors.shrink_to_fit();
        weights.truncate(kept);
        weights.shrink_to_fit();
        Ok(Self {
            starts,
            neighbors,
            weights,
            loops,
            total_weight: twice_total / 2.0,
        })
    }

    /// Number of nodes.
    pub fn nodes(&self) -> u32 {
        self.loops.len() as u32
    }

    /// The neighbours of node `node`, ascending and without itself, and the weights of the edges to them.
    /// Panics, as all functions of a node do, if the graph has no such node.
    pub fn neighbors(&self, node: u32) -> (&[u32], &[f32]) {
        let range = self.starts[node as usize]..self.starts[node as usize + 1];
        (&self.neighbors[range.clone()], &self.weights[range])
    }

    /// The weight of the loop at `node`, 0 if there is none.
    pub fn loop_weight(&self, node: u32) -> f32 {
        self.loops[node as usize]
    }

    /// The sum of the weights at `node`; its loop counts twice, as both of its ends are there.
    pub fn weighted_degree(&self, node: u32) -> f64 {
        let weights = self.neighbors(node).1;
        weights.iter().copied().map(f64::from).sum::<f64>() + 2.0 * f64::from(self.loop_weight(node))
    }

    /// The graph of some of the nodes, ascending, and the edges between them; the place of a node in the list is its number.
    /// `place` has a number for each node of this graph, all of them the greatest there is, and has them again afterwards.
    pub(crate) fn induced(&self, members: &[u32], place: &mut [u32]) -> Graph {
        for (number, &node) in members.iter().enumerate() {
            place[node as usize] = number as u32;
        }
        let mut inner = Graph {
            starts: Vec::with_capacity(members.len() + 1),
            neighbors: Vec::new(),
            weights: Vec::new(),
            loops: members.iter().map(|&node| self.loops[node as usize]).collect(),
            total_weight: 0.0,
        };
        inner.starts.push(0);
        for &node in members {
            let (neighbors, weights) = self.neighbors(node);
            for (&neighbor, &weight) in neighbors.iter().zip(weights) {
                if place[neighbor as usize] != u32::MAX {
                    inner.neighbors.push(place[neighbor as usize]);
                    inner.weights.push(weight);
                }
            }
            inner.starts.push(inner.neighbors.len());
        }
        let sum = |weights: &[f32]| weights.iter().copied().map(f64::from).sum::<f64>();
        inner.total_weight = sum(&inner.weights) / 2.0 + sum(&inner.loops);
        for &node in members {
            place[node as usize] = u32::MAX;
        }
        inner
    }

    pub(crate) fn starts(&self) -> &[usize] {
        &self.starts
    }

    pub(crate) fn all_neighbors(&self) -> &[u32] {
        &self.neighbors
    }

    pub(crate) fn all_weights(&self) -> &[f32] {
        &self.weights
    }

    /// The sum of the weights of all edges, each counted once, loops included.
    pub fn total_weight(&self) -> f64 {
        self.total_weight
    }
}

/// Bytes that [`Graph::new`] holds at most for `nodes` nodes and `edges` edges, the list of edges not included. The finished graph holds less.
pub fn bytes_needed(nodes: usize, edges: usize) -> usize {
    let node = 2 * size_of::<usize>() + size_of::<f32>();
    let edge = 2 * 2 * (size_of::<u32>() + size_of::<f32>());
    nodes
        .saturating_add(1)
        .saturating_mul(node)
        .saturating_add(edges.saturating_mul(edge))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(nodes: u32, edges: &[(u32, u32, f32)]) -> Graph {
        Graph::new(nodes, edges, &mut || ()).unwrap()
    }

    #[test]
    fn parallel_and_reversed_edges_are_summed() {
        let g = graph(
            4,
            &[
                (2, 0, 1.0),
                (0, 1, 2.0),
                (0, 2, 0.5),
                (1, 0, 0.25),
                (1, 1, 3.0),
                (1, 1, 1.0),
            ],
        );
        assert_eq!(g.neighbors(0), (&[1, 2][..], &[2.25, 1.5][..]));
        assert_eq!(g.neighbors(1), (&[0][..], &[2.25][..]));
        assert_eq!(g.neighbors(2), (&[0][..], &[1.5][..]));
        assert_eq!(g.neighbors(3), (&[][..], &[][..]));
        assert_eq!([0, 1, 2, 3].map(|node| g.loop_weight(node)), [0.0, 4.0, 0.0, 0.0]);
        assert_eq!(
            [0, 1, 2, 3].map(|node| g.weighted_degree(node)),
            [3.75, 10.25, 1.5, 0.0]
        );
        assert_eq!((g.nodes(), g.total_weight()), (4, 7.75));
    }

    #[test]
    fn an_edge_of_weight_zero_is_an_edge() {
        let g = graph(2, &[(0, 1, -0.0)]);
        assert_eq!(g.neighbors(1).0, [0]);
        assert!(g.neighbors(1).1[0].is_sign_positive());
    }

    #[test]
    fn no_nodes_and_no_edges() {
        assert_eq!((graph(0, &[]).nodes(), graph(0, &[]).total_weight()), (0, 0.0));
        assert_eq!(graph(3, &[]).neighbors(2), (&[][..], &[][..]));
    }

    #[test]
    fn wrong_edges_are_refused() {
        let refused = |edge| Graph::new(2, &[(0, 1, 1.0), edge], &mut || ()).unwrap_err();
        assert_eq!(refused((0, 2, 1.0)), EdgeError::Node { edge: 1, node: 2 });
        assert_eq!(
            refused((u32::MAX, 0, 1.0)),
            EdgeError::Node {
                edge: 1,
                node: u32::MAX
            }
        );
        assert_eq!(refused((0, 1, -1.0)), EdgeError::Weight { edge: 1, weight: -1.0 });
        assert_eq!(
            refused((0, 1, f32::INFINITY)),
            EdgeError::Weight {
                edge: 1,
                weight: f32::INFINITY
            }
        );
        assert!(matches!(refused((0, 1, f32::NAN)), EdgeError::Weight { edge: 1, .. }));
    }

    #[test]
    fn the_order_of_parallel_edges_does_not_show_in_their_sum() {
        // The small weights move the sum past the middle between two floats, unless each is lost in the great one.
        let mut edges = vec![(0, 1, 1.0), (1, 0, 2f32.powi(-24))];
        edges.extend([(0, 1, 2f32.powi(-54)); 8]);
        let sum = 1.0 + f32::EPSILON;
        assert_eq!(graph(2, &edges).neighbors(0).1, [sum]);
        edges.reverse();
        assert_eq!(graph(2, &edges).neighbors(0).1, [sum]);
    }

    #[test]
    fn sums_stay_finite() {
        let g = graph(2, &[(0, 1, f32::MAX), (1, 0, f32::MAX)]);
        assert_eq!(g.neighbors(0).1, [f32::MAX]);
    }

    #[test]
    fn bytes_cover_the_finished_graph() {
        let edges: Vec<_> = (0..1000).map(|u| (u, u + 1, 1.0)).collect();
        let g = graph(1001, &edges);
        let held = g.starts.capacity() * 8 + (g.neighbors.capacity() + g.weights.capacity() + g.loops.capacity()) * 4;
        assert!(bytes_needed(1001, 1000) > held);
        assert_eq!(bytes_needed(usize::MAX, 1), usize::MAX);
    }

    #[test]
    fn it_ticks_while_it_works() {
        let mut ticks = 0;
        let edges = vec![(0, 1, 1.0); 4 * Pace::WORK_PER_TICK];
        Graph::new(2, &edges, &mut || ticks += 1).unwrap();
        // Each edge is looked at twice, and once more at each of its ends.
        assert!(ticks >= 16);
    }
}

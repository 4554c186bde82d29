//! How good a partition of a graph is.

use crate::Pace;
use crate::graph::Graph;
use std::collections::BTreeMap;

/// The modularity of the partition that puts nodes of equal `labels` together: at most 1, and 0 for a graph without weight.
///
/// Q = Σ over communities c of L_c / m − γ (K_c / 2m)², with m the weight of all edges, L_c of those inside c (loops included),
/// K_c the sum of the weighted degrees of its nodes, and γ the `resolution`: 1 is the usual one, a greater one favours smaller communities.
/// Nodes past the end of `labels` count as one community.
///
/// Newman, 2004, "Analysis of weighted networks"; γ from Reichardt and Bornholdt, 2006, "Statistical mechanics of community detection".
pub fn modularity(graph: &Graph, labels: &[u32], resolution: f64, tick: &mut dyn FnMut()) -> f64 {
    let total = graph.total_weight();
    if total == 0.0 {
        return 0.0;
    }
    let label = |node: u32| labels.get(node as usize);
    let mut inside = 0.0;
    let mut degrees = BTreeMap::new();
    let mut pace = Pace::new(tick);
    for node in 0..graph.nodes() {
        let (neighbors, weights) = graph.neighbors(node);
        pace.step(1);
        inside += f64::from(graph.loop_weight(node));
        for (&neighbor, &weight) in neighbors.iter().zip(weights) {
            pace.step(1);
            if neighbor > node && label(neighbor) == label(node) {
                inside += f64::from(weight);
            }
        }
        *degrees.entry(label(node)).or_insert(0.0) += graph.weighted_degree(node);
    }
    let expected: f64 = degrees.values().map(|degree| (degree / (2.0 * total)).powi(2)).sum();
    inside / total - resolution * expected
}

#[cfg(test)]
mod tests {
    use super::*;

    fn q(nodes: u32, edges: &[(u32, u32, f32)], labels: &[u32], resolution: f64) -> f64 {
        modularity(
            &Graph::new(nodes, edges, &mut || ()).unwrap(),
            labels,
            resolution,
            &mut || (),
        )
    }

    #[test]
    fn two_triangles_joined_by_an_edge() {
        let edges = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)].map(|(u, v)| (u, v, 2.0));
        // 6/7 of the weight is inside, and each half has half of the degrees.
        assert!((q(6, &edges, &[7, 7, 7, 9, 9, 9], 1.0) - (6.0 / 7.0 - 0.5)).abs() < 1e-12);
        assert!((q(6, &edges, &[7, 7, 7, 9, 9, 9], 3.0) - (6.0 / 7.0 - 1.5)).abs() < 1e-12);
        assert!(q(6, &edges, &[0; 6], 1.0).abs() < 1e-12);
    }

    /// The values are NetworkX's.
    #[test]
    fn weights_and_loops_count() {
        let edges = [
            (0, 1, 2.0),
            (1, 2, 1.0),
            (2, 2, 3.0),
            (3, 4, 0.5),
            (2, 3, 1.5),
            (0, 0, 0.25),
        ];
        assert!((q(5, &edges, &[0, 0, 1, 1, 1], 1.0) - 0.32323232323232326).abs() < 1e-12);
        assert!((q(5, &edges, &[0, 0, 1, 1, 1], 0.5) - 0.601010101010101).abs() < 1e-12);
        // Nodes past the end of the labels are together.
        assert_eq!(q(5, &edges, &[0, 0], 1.0), q(5, &edges, &[0, 0, 1, 1, 1], 1.0));
    }

    #[test]
    fn a_graph_without_weight_has_none() {
        assert_eq!(q(0, &[], &[], 1.0), 0.0);
        assert_eq!(q(3, &[(0, 1, 0.0)], &[0, 1, 2], 1.0), 0.0);
    }
}

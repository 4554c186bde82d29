//! Connected components.

use crate::Pace;
use crate::graph::Graph;

/// The number of each node's component. Two nodes are in one component if a path of edges leads from one to the other.
///
/// Components are numbered from 0 by their lowest node; a node without an edge is one of its own.
pub fn components(graph: &Graph, tick: &mut dyn FnMut()) -> Vec<u32> {
    const UNSEEN: u32 = u32::MAX;
    let mut labels = vec![UNSEEN; graph.nodes() as usize];
    let mut stack = vec![];
    let mut count = 0;
    let mut pace = Pace::new(tick);
    for start in 0..graph.nodes() {
        pace.step(1);
        if labels[start as usize] != UNSEEN {
            continue;
        }
        labels[start as usize] = count;
        stack.push(start);
        while let Some(node) = stack.pop() {
            for &neighbor in graph.neighbors(node).0 {
                pace.step(1);
                let label = &mut labels[neighbor as usize];
                if *label == UNSEEN {
                    *label = count;
                    stack.push(neighbor);
                }
            }
        }
        count += 1;
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(nodes: u32, edges: &[(u32, u32)]) -> Vec<u32> {
        let edges: Vec<_> = edges.iter().map(|&(u, v)| (u, v, 1.0)).collect();
        components(&Graph::new(nodes, &edges, &mut || ()).unwrap(), &mut || ())
    }

    #[test]
    fn numbered_by_lowest_node() {
        assert_eq!(labels(7, &[(5, 1), (6, 0), (3, 5), (4, 4)]), [0, 1, 2, 1, 3, 1, 0]);
        assert!(labels(0, &[]).is_empty());
    }

    #[test]
    fn a_long_path_is_one_component() {
        let edges: Vec<_> = (1..300_000).map(|v| (v - 1, v)).collect();
        assert!(labels(300_000, &edges).iter().all(|&label| label == 0));
    }

    #[test]
    fn it_ticks_while_it_works() {
        let graph = Graph::new(10 * Pace::WORK_PER_TICK as u32, &[], &mut || ()).unwrap();
        let mut ticks = 0;
        components(&graph, &mut || ticks += 1);
        assert_eq!(ticks, 10);
    }
}

use super::*;
use crate::{Before, hierarchy, label_propagation, labels_at, modularity};
use proptest::prelude::*;

/// Zachary's karate club: the friendships of 34 members.
pub const KARATE: [(u32, u32); 78] = [
    (0, 1),
    (0, 2),
    (0, 3),
    (0, 4),
    (0, 5),
    (0, 6),
    (0, 7),
    (0, 8),
    (0, 10),
    (0, 11),
    (0, 12),
    (0, 13),
    (0, 17),
    (0, 19),
    (0, 21),
    (0, 31),
    (1, 2),
    (1, 3),
    (1, 7),
    (1, 13),
    (1, 17),
    (1, 19),
    (1, 21),
    (1, 30),
    (2, 3),
    (2, 7),
    (2, 8),
    (2, 9),
    (2, 13),
    (2, 27),
    (2, 28),
    (2, 32),
    (3, 7),
    (3, 12),
    (3, 13),
    (4, 6),
    (4, 10),
    (5, 6),
    (5, 10),
    (5, 16),
    (6, 16),
    (8, 30),
    (8, 32),
    (8, 33),
    (9, 33),
    (13, 33),
    (14, 32),
    (14, 33),
    (15, 32),
    (15, 33),
    (18, 32),
    (18, 33),
    (19, 33),
    (20, 32),
    (20, 33),
    (22, 32),
    (22, 33),
    (23, 25),
    (23, 27),
    (23, 29),
    (23, 32),
    (23, 33),
    (24, 25),
    (24, 27),
    (24, 31),
    (25, 31),
    (26, 29),
    (26, 33),
    (27, 33),
    (28, 31),
    (28, 33),
    (29, 32),
    (29, 33),
    (30, 32),
    (30, 33),
    (31, 32),
    (31, 33),
    (32, 33),
];

const MODULARITY: Objective = Objective::Modularity { resolution: 1.0 };

fn graph(nodes: u32, edges: &[(u32, u32, f32)]) -> Graph {
    Graph::new(nodes, edges, &mut || ()).expect("a graph")
}

fn plain(nodes: u32, edges: &[(u32, u32)]) -> Graph {
    let edges: Vec<_> = edges.iter().map(|&(u, v)| (u, v, 1.0)).collect();
    graph(nodes, &edges)
}

fn found(graph: &Graph, seed: u64) -> Vec<u32> {
    leiden(graph, MODULARITY, seed, None, &mut || ())
}

fn q(graph: &Graph, labels: &[u32]) -> f64 {
    modularity(graph, labels, 1.0, &mut || ())
}

#[test]
fn the_karate_club_is_divided_as_well_as_can_be() {
    let karate = plain(34, &KARATE);
    for seed in 0..20 {
        let labels = found(&karate, seed);
        assert!(
            q(&karate, &labels) >= 0.4198 - 0.005,
            "seed {seed}: {}",
            q(&karate, &labels)
        );
    }
    assert!(q(&karate, &found(&karate, 0)) >= 0.4197);
}

#[test]
fn two_cliques_and_a_bridge() {
    let mut edges = Vec::new();
    for clique in [0, 5] {
        edges.extend((0..5).flat_map(|u| (u + 1..5).map(move |v| (clique + u, clique + v))));
    }
    edges.push((4, 5));
    let g = plain(10, &edges);
    assert_eq!(found(&g, 0), [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]);
    // Few friends make a community at a low resolution, none at a high one.
    let potts = |resolution| leiden(&g, Objective::Potts { resolution }, 0, None, &mut || ());
    assert_eq!(potts(0.5), [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]);
    assert_eq!(potts(0.01), [0; 10]);
    assert_eq!(potts(1.5), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn degenerate_graphs() {
    assert!(found(&graph(0, &[]), 0).is_empty());
    assert_eq!(found(&graph(1, &[]), 0), [0]);
    assert_eq!(found(&graph(3, &[]), 0), [0, 1, 2]);
    assert_eq!(found(&graph(3, &[(0, 1, 0.0), (1, 2, 0.0)]), 0), [0, 1, 2]);
    assert_eq!(found(&graph(2, &vec![(0, 1, 1.0); 10_000]), 0), [0, 0]);
    assert_eq!(found(&graph(2, &[(0, 0, 1.0), (1, 1, 1.0)]), 0), [0, 1]);
    assert_eq!(found(&graph(3, &[(0, 1, f32::MAX), (1, 2, 1e-30)]), 0)[..2], [0, 0]);
    let clique: Vec<(u32, u32)> = (0..100).flat_map(|u| (u + 1..100).map(move |v| (u, v))).collect();
    let clique = plain(100, &clique);
    assert_eq!(found(&clique, 0), [0; 100]);
    // One that can't be divided ends the division.
    assert_eq!(
        hierarchy(&clique, &[0; 100], MODULARITY, 10, 0, None, &mut || ()).len(),
        1
    );
    let star: Vec<(u32, u32)> = (1..=100_000).map(|leaf| (0, leaf)).collect();
    let star = plain(100_001, &star);
    assert_eq!(found(&star, 0), vec![0; 100_001]);
    assert_eq!(
        hierarchy(&star, &vec![0; 100_001], MODULARITY, 10, 0, None, &mut || ()).len(),
        1
    );
    let path: Vec<(u32, u32)> = (1..100_000).map(|v| (v - 1, v)).collect();
    let path = plain(100_000, &path);
    let labels = found(&path, 0);
    assert!(q(&path, &labels) > 0.99);
    let all = hierarchy(&path, &labels, MODULARITY, 10, 0, None, &mut || ());
    assert!(
        all.iter()
            .enumerate()
            .all(|(at, c)| c.members.len() <= 10 || all.iter().any(|d| d.parent == Some(at)))
    );
}

#[test]
fn a_start_is_gone_on_from() {
    let karate = plain(34, &KARATE);
    let labels = found(&karate, 3);
    assert_eq!(leiden(&karate, MODULARITY, 9, Some((&labels, &[])), &mut || ()), labels);
    let all: Vec<u32> = (0..34).collect();
    let again = leiden(&karate, MODULARITY, 9, Some((&all, &all)), &mut || ());
    assert!(q(&karate, &again) > 0.41);
}

/// A graph of up to 40 nodes.
fn any_graph() -> impl Strategy<Value = (u32, Vec<(u32, u32, f32)>)> {
    (1u32..40).prop_flat_map(|nodes| {
        let weight = prop_oneof![Just(1.0f32), Just(0.0), 0.01f32..100.0];
        (Just(nodes), prop::collection::vec((0..nodes, 0..nodes, weight), 0..120))
    })
}

fn is_connected(graph: &Graph, members: &[u32]) -> bool {
    let mut reached = vec![members[0]];
    let mut at = 0;
    while at < reached.len() {
        let (neighbors, weights) = graph.neighbors(reached[at]);
        for (neighbor, weight) in neighbors.iter().zip(weights) {
            if *weight > 0.0 && members.contains(neighbor) && !reached.contains(neighbor) {
                reached.push(*neighbor);
            }
        }
        at += 1;
    }
    reached.len() == members.len()
}

proptest! {
    #[test]
    fn communities_are_connected_nest_and_lose_no_node((nodes, edges) in any_graph(), seed in 0u64..5, size in 1usize..6, potts in any::<bool>()) {
        let g = graph(nodes, &edges);
        let objective = if potts { Objective::Potts { resolution: 0.3 } } else { MODULARITY };
        let labels = leiden(&g, objective, seed, None, &mut || ());
        let all = hierarchy(&g, &labels, objective, size, seed, None, &mut || ());
        let deepest = all.iter().map(|c| c.level).max().unwrap_or(0);
        for level in 0..=deepest {
            let labels = labels_at(&all, level, nodes);
            prop_assert_eq!(labels.len(), nodes as usize);
            for (node, at) in labels.iter().enumerate() {
                prop_assert!(all[*at as usize].members.contains(&(node as u32)));
            }
        }
        for community in &all {
            prop_assert!(is_connected(&g, &community.members));
            if let Some(parent) = community.parent {
                prop_assert!(all[parent].level + 1 == community.level);
                prop_assert!(community.members.iter().all(|node| all[parent].members.contains(node)));
            }
        }
    }

    #[test]
    fn the_order_of_edges_does_not_show((nodes, edges) in any_graph(), seed in 0u64..3) {
        let shuffled: Vec<_> = edges.iter().rev().map(|&(u, v, w)| (v, u, w)).collect();
        prop_assert_eq!(found(&graph(nodes, &edges), seed), found(&graph(nodes, &shuffled), seed));
    }

    #[test]
    fn nothing_is_worse_than_single_nodes_or_the_start((nodes, edges) in any_graph(), seed in 0u64..3, start in prop::collection::vec(0u32..40, 40)) {
        let g = graph(nodes, &edges);
        let single: Vec<u32> = (0..nodes).collect();
        prop_assert!(q(&g, &found(&g, seed)) >= q(&g, &single) - 1e-6);
        let start: Vec<u32> = start.iter().take(nodes as usize).map(|label| label % nodes).collect();
        let again = leiden(&g, MODULARITY, seed, Some((&start, &single)), &mut || ());
        prop_assert!(q(&g, &again) >= q(&g, &start) - 1e-6);
    }

    #[test]
    fn what_has_not_changed_stays_and_what_has_is_as_good((nodes, edges) in any_graph(), seed in 0u64..3, size in 1usize..6) {
        let g = graph(nodes, &edges);
        let top = found(&g, seed);
        let all = hierarchy(&g, &top, MODULARITY, size, seed, None, &mut || ());
        let deepest = all.iter().map(|c| c.level).max().unwrap_or(0);
        let levels: Vec<Vec<u32>> = (0..=deepest).map(|level| {
            let mut labels = labels_at(&all, level, nodes);
            renumber(&mut labels);
            labels
        }).collect();
        let before = Before { levels: levels.clone(), changed: vec![] };
        let again = leiden(&g, MODULARITY, seed, Some((&levels[0], &[])), &mut || ());
        prop_assert_eq!(&again, &top);
        prop_assert_eq!(hierarchy(&g, &again, MODULARITY, size, seed, Some(&before), &mut || ()), all);

        let mut more = edges.clone();
        more.push((0, nodes - 1, 5.0));
        let h = graph(nodes, &more);
        let mut changed = vec![0, nodes - 1];
        changed.dedup();
        let next = leiden(&h, MODULARITY, seed, Some((&levels[0], &changed)), &mut || ());
        prop_assert!(q(&h, &next) >= q(&h, &levels[0]) - 1e-6);
        let before = Before { levels, changed };
        for community in hierarchy(&h, &next, MODULARITY, size, seed, Some(&before), &mut || ()) {
            prop_assert!(is_connected(&h, &community.members));
        }
    }

    #[test]
    fn labels_that_are_propagated_are_connected((nodes, edges) in any_graph(), seed in 0u64..3) {
        let g = graph(nodes, &edges);
        let labels = label_propagation(&g, seed, &mut || ());
        for label in 0..=*labels.iter().max().expect("a node") {
            let members: Vec<u32> = (0..nodes).filter(|&node| labels[node as usize] == label).collect();
            prop_assert!(!members.is_empty() && is_connected(&g, &members));
        }
    }
}

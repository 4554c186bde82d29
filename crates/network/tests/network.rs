//! A known graph, and laws against another implementation.

use graphrag_network::{Graph, components, modularity};
use petgraph::unionfind::UnionFind;
use proptest::prelude::*;

/// Zachary, 1977, "An information flow model for conflict and fission in small groups": who met whom outside the club.
/// For each member, the friends with a higher number.
const KARATE: [(u32, &[u32]); 26] = [
    (0, &[1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 17, 19, 21, 31]),
    (1, &[2, 3, 7, 13, 17, 19, 21, 30]),
    (2, &[3, 7, 8, 9, 13, 27, 28, 32]),
    (3, &[7, 12, 13]),
    (4, &[6, 10]),
    (5, &[6, 10, 16]),
    (6, &[16]),
    (8, &[30, 32, 33]),
    (9, &[33]),
    (13, &[33]),
    (14, &[32, 33]),
    (15, &[32, 33]),
    (18, &[32, 33]),
    (19, &[33]),
    (20, &[32, 33]),
    (22, &[32, 33]),
    (23, &[25, 27, 29, 32, 33]),
    (24, &[25, 27, 31]),
    (25, &[31]),
    (26, &[29, 33]),
    (27, &[33]),
    (28, &[31, 33]),
    (29, &[32, 33]),
    (30, &[32, 33]),
    (31, &[32, 33]),
    (32, &[33]),
];

/// The members who stayed with the instructor when the club split.
const INSTRUCTORS: [u32; 17] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 16, 17, 19, 21];

fn karate() -> Graph {
    let edges: Vec<_> = KARATE
        .iter()
        .flat_map(|&(u, friends)| friends.iter().map(move |&v| (u, v, 1.0)))
        .collect();
    assert_eq!(edges.len(), 78);
    Graph::new(34, &edges, &mut || ()).unwrap()
}

#[test]
fn karate_degrees() {
    let graph = karate();
    assert_eq!(graph.total_weight(), 78.0);
    assert_eq!(
        [0, 11, 32, 33].map(|node| graph.weighted_degree(node)),
        [16.0, 1.0, 12.0, 17.0]
    );
    assert_eq!(components(&graph, &mut || ()), [0; 34]);
}

/// The values are NetworkX's (3.6.1, weights left out).
#[test]
fn karate_modularity() {
    let graph = karate();
    let factions: Vec<u32> = (0..34).map(|node| u32::from(INSTRUCTORS.contains(&node))).collect();
    let alone: Vec<u32> = (0..34).collect();
    let q = |labels: &[u32], resolution| modularity(&graph, labels, resolution, &mut || ());
    assert!((q(&factions, 1.0) - 0.3582347140039448).abs() < 1e-12);
    assert!((q(&factions, 2.0) - -0.14250493096646943).abs() < 1e-12);
    assert!((q(&alone, 1.0) - -0.04980276134122286).abs() < 1e-12);
}

/// Up to 60 edges over up to 40 nodes: sparse enough for several components, with parallel edges and loops.
fn edges() -> impl Strategy<Value = (u32, Vec<(u32, u32, f32)>)> {
    (1u32..40).prop_flat_map(|nodes| {
        let weight = prop_oneof![Just(0.0f32), Just(1e-30), Just(1e30), 0.0f32..4.0];
        (
            Just(nodes),
            proptest::collection::vec((0..nodes, 0..nodes, weight), 0..60),
        )
    })
}

proptest! {
    #[test]
    fn the_order_and_direction_of_edges_do_not_matter(
        ((nodes, edges), (shuffled, flips)) in edges().prop_flat_map(|(nodes, edges)| {
            let order = (Just(edges.clone()).prop_shuffle(), proptest::collection::vec(any::<bool>(), edges.len()));
            (Just((nodes, edges)), order)
        }),
    ) {
        let other: Vec<_> =
            shuffled.iter().zip(flips).map(|(&(u, v, w), flip)| if flip { (v, u, w) } else { (u, v, w) }).collect();
        let graph = Graph::new(nodes, &edges, &mut || ()).unwrap();
        prop_assert_eq!(&graph, &Graph::new(nodes, &other, &mut || ()).unwrap());
    }

    #[test]
    fn adjacency_is_sorted_and_symmetric((nodes, edges) in edges()) {
        let graph = Graph::new(nodes, &edges, &mut || ()).unwrap();
        let mut degrees = 0.0;
        for u in 0..nodes {
            let (neighbors, weights) = graph.neighbors(u);
            prop_assert!(neighbors.is_sorted_by(|a, b| a < b));
            for (&v, weight) in neighbors.iter().zip(weights) {
                prop_assert!(v != u && edges.iter().any(|&(a, b, _)| (a, b) == (u, v) || (a, b) == (v, u)));
                let (back, back_weights) = graph.neighbors(v);
                prop_assert_eq!(back.binary_search(&u).map(|i| back_weights[i]), Ok(*weight));
            }
            degrees += graph.weighted_degree(u);
        }
        prop_assert!((degrees - 2.0 * graph.total_weight()).abs() <= 1e-9 * degrees);
        let given: f64 = edges.iter().map(|&(_, _, w)| f64::from(w)).sum();
        prop_assert!((given - graph.total_weight()).abs() <= 1e-6 * given);
    }

    #[test]
    fn components_are_those_of_union_find((nodes, edges) in edges()) {
        let labels = components(&Graph::new(nodes, &edges, &mut || ()).unwrap(), &mut || ());
        let mut sets = UnionFind::<u32>::new(nodes as usize);
        edges.iter().for_each(|&(u, v, _)| { sets.union(u, v); });
        let sets = sets.into_labeling();
        let mut firsts: Vec<u32> = vec![];
        for &set in &sets {
            if !firsts.contains(&set) {
                firsts.push(set);
            }
        }
        let expected: Vec<u32> =
            sets.iter().map(|set| firsts.iter().position(|first| first == set).unwrap() as u32).collect();
        prop_assert_eq!(labels, expected);
    }

    #[test]
    fn modularity_agrees_with_the_sum_over_pairs(
        (nodes, edges) in edges(),
        labels in proptest::collection::vec(0u32..4, 40),
        resolution in 0.1f64..3.0,
    ) {
        let graph = Graph::new(nodes, &edges, &mut || ()).unwrap();
        let twice = 2.0 * graph.total_weight();
        let mut expected = 0.0;
        for u in 0..nodes {
            for v in (0..nodes).filter(|&v| labels[v as usize] == labels[u as usize]) {
                let (neighbors, weights) = graph.neighbors(u);
                let weight = match neighbors.binary_search(&v) {
                    Ok(i) => f64::from(weights[i]),
                    Err(_) if u == v => 2.0 * f64::from(graph.loop_weight(u)),
                    Err(_) => 0.0,
                };
                if twice > 0.0 {
                    expected += weight / twice
                        - resolution * (graph.weighted_degree(u) / twice) * (graph.weighted_degree(v) / twice);
                }
            }
        }
        let q = modularity(&graph, &labels, resolution, &mut || ());
        prop_assert!((q - expected).abs() < 1e-9, "{} {}", q, expected);
        prop_assert!(q <= 1.0);
    }
}

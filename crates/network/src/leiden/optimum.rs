//! Against the best partition that there is, and the best that are known.

use super::*;
use crate::modularity;

/// Knuth, 1993, "The Stanford GraphBase": the characters of Les Misérables. For each, those with a higher number that it appears with,
/// and how often if more than once.
const LES_MISERABLES: &str = "
0: 1
1: 2*8 3*10 4 5 6 7 8*2 9 10*5
2: 3*6 10*3
3: 10*3
10: 11 12 13 14 15 23*9 24*7 25*12 26*31 27*17 28*8 29*2 31*3 32 33*2 34*3 35*3 36*2 37*2 38*2 43*3 44 48 49*2 51*2 55*19 58*4 64 68 69 70 71 72
12: 23*2
16: 17*4 18*4 19*4 20*3 21*3 22*3 23*3
17: 18*4 19*4 20*3 21*3 22*3 23*3 26 55
18: 19*4 20*3 21*3 22*3 23*3
19: 20*4 21*3 22*3 23*3
20: 21*5 22*4 23*4
21: 22*4 23*4
22: 23*4
23: 24*2 25 27*5 29 30 31*2
24: 25*13 26*4 27 41*2 42 50 68 69 70
25: 26 27*5 39 40 41*3 42*2 48 55*2 68*5 69*6 70*4 71 75*3
26: 27 43 49*3 51*2 54 55*21 72*2
27: 28 29 31 33 43 48 58*6 68 69*2 70 71 72
28: 44*3 45*2
29: 34*2 35*2 36 37 38
30: 31*2
34: 35*3 36*2 37*2 38*2
35: 36*2 37*2 38*2
36: 37*2 38*2
37: 38*2
39: 52 55
41: 42*2 55*5 57 62 68 69 70 71 75
46: 47 48*2
48: 55*4 57 58*7 59*6 60 61*2 62*7 63*5 64*5 65*3 66 68 69 71 73*2 74*2 75 76
49: 50 51*9 54 55*12 56
51: 52 53 54*2 55*6
54: 55
55: 56 57 58*7 59*5 61 62*9 63 64*5 65*2
57: 58 59*2 61 62*2 63*2 64 65 67*3
58: 59*15 60*4 61*6 62*17 63*4 64*10 65*5 66*3 70 76
59: 60*2 61*5 62*13 63*5 64*9 65*5 66
60: 61*2 62*3 63*2 64*2 65*2 66
61: 62*6 63*3 64*6 65*5 66
62: 63*6 64*12 65*5 66*2 76
63: 64*4 65*5 66 76
64: 65*7 66*3 76
65: 66*2 76
66: 76
68: 69*6 70*4 71*2 75*3
69: 70*4 71*2 75*3
70: 71*2 75
71: 75
73: 74*3
";

fn q(graph: &Graph, labels: &[u32]) -> f64 {
    modularity(graph, labels, 1.0, &mut || ())
}

/// The greatest modularity of all partitions: each node joins one of the groups of those before it, or begins one.
fn greatest(graph: &Graph, labels: &mut [u32], node: usize, groups: u32) -> f64 {
    if node == labels.len() {
        return q(graph, labels);
    }
    let mut most = f64::MIN;
    for group in 0..=groups {
        labels[node] = group;
        most = most.max(greatest(graph, labels, node + 1, groups.max(group + 1)));
    }
    most
}

/// Small graphs of all densities; every other one has weights.
fn small(random: &mut Random) -> Graph {
    let nodes = 2 + random.below(6) as u32;
    let density = 1 + random.below(9);
    let weighted = random.below(2) == 1;
    let mut edges = Vec::new();
    for u in 0..nodes {
        for v in u + 1..nodes {
            if random.below(10) < density {
                edges.push((u, v, if weighted { 1.0 + random.below(5) as f32 } else { 1.0 }));
            }
        }
    }
    Graph::new(nodes, &edges, &mut || ()).expect("a graph")
}

#[test]
fn small_graphs_are_divided_nearly_as_well_as_can_be() {
    const GRAPHS: usize = 2_000;
    let mut random = Random::new(7);
    let (mut below, mut sum, mut worst) = (0, 0.0, 0.0f64);
    for seed in 0..GRAPHS {
        let graph = small(&mut random);
        let found = q(
            &graph,
            &leiden(
                &graph,
                Objective::Modularity { resolution: 1.0 },
                seed as u64,
                None,
                &mut || (),
            ),
        );
        let gap = greatest(&graph, &mut vec![0; graph.nodes() as usize], 0, 0) - found;
        assert!(gap > -1e-9);
        below += usize::from(gap > 1e-9);
        sum += gap;
        worst = worst.max(gap);
    }
    // A few remain in which all searches end in the same place.
    assert!(
        below <= GRAPHS / 200 && sum <= GRAPHS as f64 * 0.0002 && worst <= 0.05,
        "below {below} of {GRAPHS}, by {sum} in all, {worst} at most"
    );
}

#[test]
fn les_miserables_are_divided_as_well_as_is_known() {
    let mut edges = Vec::new();
    for line in LES_MISERABLES.trim().lines() {
        let (node, others) = line.split_once(": ").expect("a node");
        let node: u32 = node.parse().expect("its number");
        for other in others.split(' ') {
            let (other, weight) = other.split_once('*').unwrap_or((other, "1"));
            edges.push((node, other.parse().expect("a node"), weight.parse().expect("a weight")));
        }
    }
    assert_eq!(edges.len(), 254);
    let graph = Graph::new(77, &edges, &mut || ()).expect("a graph");
    let plain: Vec<_> = edges.iter().map(|&(u, v, _)| (u, v, 1.0)).collect();
    let plain = Graph::new(77, &plain, &mut || ()).expect("a graph");
    for seed in 0..20 {
        let best = |graph| {
            q(
                graph,
                &leiden(graph, Objective::Modularity { resolution: 1.0 }, seed, None, &mut || ()),
            )
        };
        assert!(best(&graph) >= 0.5667 - 0.005, "seed {seed}: {}", best(&graph));
        assert!(best(&plain) >= 0.5600 - 0.005, "seed {seed}: {}", best(&plain));
    }
}

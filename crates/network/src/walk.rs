//! Personalised PageRank around some vertices, over a graph that is read piece by piece: only where the walk comes by.
//!
//! Forward push of Andersen, Chung and Lang, 2006, "Local Graph Partitioning using PageRank Vectors", in rounds, so that the edges
//! of all vertices of a round are read at once.

use std::collections::{BTreeMap, HashMap};

use crate::Pace;

/// How far a walk goes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The share that goes on along the edges, from 0 to 1; the rest stays.
    pub damping: f64,
    /// What is less stays where it is: at most 1 / `least` vertices are read in a round.
    pub least: f64,
    pub rounds: usize,
}

/// Where a walk has come by.
#[derive(Debug, Default)]
pub struct Walked {
    /// The share of each vertex; together they are 1.
    pub rank: BTreeMap<u64, f64>,
    /// The edges that were read, with the share of each among those of its vertex.
    pub edges: HashMap<u64, Vec<(u64, f64)>>,
}

/// Walks from `seeds`, vertices with what they weigh. `read` answers the edges of vertices with their weights, in their order, and is
/// asked for each vertex once. Weights that are not positive count as none. The order of seeds and edges does not matter but for
/// rounding. `tick` is called about once a millisecond.
pub fn walk<E>(
    seeds: &[(u64, f64)],
    limits: Limits,
    mut read: impl FnMut(&[u64]) -> Result<Vec<Vec<(u64, f64)>>, E>,
    tick: &mut dyn FnMut(),
) -> Result<Walked, E> {
    let mut walked = Walked::default();
    let mut pace = Pace::new(tick);
    let mut here: BTreeMap<u64, f64> =
        shares(seeds.to_vec())
            .into_iter()
            .fold(BTreeMap::new(), |mut sum, (v, share)| {
                *sum.entry(v).or_default() += share;
                sum
            });
    for _ in 0..limits.rounds {
        let (go, stay): (Vec<_>, Vec<_>) = here.into_iter().partition(|(_, share)| *share >= limits.least);
        for (vertex, share) in stay {
            *walked.rank.entry(vertex).or_default() += share;
        }
        here = BTreeMap::new();
        let new: Vec<u64> = go
            .iter()
            .map(|(vertex, _)| *vertex)
            .filter(|vertex| !walked.edges.contains_key(vertex))
            .collect();
        if !new.is_empty() {
            for (vertex, edges) in new.iter().zip(read(&new)?) {
                walked.edges.insert(*vertex, shares(edges));
            }
        }
        for (vertex, share) in go {
            let edges = walked.edges.get(&vertex).map_or(&[][..], Vec::as_slice);
            let goes = if edges.is_empty() { 0.0 } else { share * limits.damping };
            *walked.rank.entry(vertex).or_default() += share - goes;
            for (to, part) in edges {
                *here.entry(*to).or_default() += goes * part;
            }
            pace.step(edges.len());
        }
    }
    for (vertex, share) in here {
        *walked.rank.entry(vertex).or_default() += share;
    }
    Ok(walked)
}

/// Weights as shares of their sum.
fn shares(mut weighted: Vec<(u64, f64)>) -> Vec<(u64, f64)> {
    weighted.retain(|(_, weight)| *weight > 0.0 && weight.is_finite());
    weighted.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let sum: f64 = weighted.iter().map(|(_, weight)| weight).sum();
    for (_, weight) in &mut weighted {
        *weight /= sum;
    }
    weighted
}

#[cfg(test)]
mod tests {
    use super::{Limits, Walked, walk};
    use proptest::prelude::*;
    use std::collections::HashSet;

    const LIMITS: Limits = Limits {
        damping: 0.5,
        least: 1e-9,
        rounds: 60,
    };

    fn over(edges: &[(u64, u64, f64)], seeds: &[(u64, f64)], limits: Limits) -> Walked {
        let mut asked = HashSet::new();
        let read = |of: &[u64]| {
            assert!(of.iter().all(|v| asked.insert(*v)), "each vertex is read once");
            Ok::<_, ()>(
                of.iter()
                    .map(|v| edges.iter().filter(|e| e.0 == *v).map(|e| (e.1, e.2)).collect())
                    .collect(),
            )
        };
        walk(seeds, limits, read, &mut || ()).expect("no error")
    }

    #[test]
    fn a_pair_shares_by_damping() {
        // p = 1/2 s + 1/2 W p: of a seed and its only neighbour 2/3 and 1/3.
        let found = over(&[(1, 2, 3.0), (2, 1, 1.0)], &[(1, 5.0)], LIMITS);
        assert!((found.rank[&1] - 2.0 / 3.0).abs() < 1e-6 && (found.rank[&2] - 1.0 / 3.0).abs() < 1e-6);
        assert_eq!(found.edges[&1], [(2, 1.0)]);
    }

    #[test]
    fn what_leads_nowhere_stays_and_what_is_nothing_is_none() {
        let found = over(
            &[(1, 2, 1.0), (1, 3, 0.0), (1, 4, f64::NAN)],
            &[(1, 1.0), (9, -1.0)],
            LIMITS,
        );
        assert_eq!(found.rank.into_iter().collect::<Vec<_>>(), [(1, 0.5), (2, 0.5)]);
        assert!(over(&[], &[], LIMITS).rank.is_empty());
    }

    #[test]
    fn an_error_of_the_reader_is_the_walk_s() {
        assert_eq!(
            walk(&[(1, 1.0)], LIMITS, |_| Err("gone"), &mut || ()).err(),
            Some("gone")
        );
    }

    proptest! {
        #[test]
        fn it_is_the_fixed_point(edges in prop::collection::vec((0u64..12, 0u64..12, 0.1f64..5.0), 1..60), seeds in prop::collection::vec((0u64..12, 0.1f64..3.0), 1..5), damping in 0.1f64..0.9) {
            let limits = Limits { damping, least: 1e-12, rounds: 400 };
            let found = over(&edges, &seeds, limits);
            let total: f64 = found.rank.values().sum();
            prop_assert!((total - 1.0).abs() < 1e-9);
            // Power iteration over the dense matrix, where what leads nowhere stays.
            let all: f64 = seeds.iter().map(|s| s.1).sum();
            let mut start = [0.0; 12];
            seeds.iter().for_each(|s| start[s.0 as usize] += s.1 / all);
            let mut going = start;
            let mut rank = [0.0; 12];
            for _ in 0..400 {
                let mut next = [0.0; 12];
                for v in 0..12u64 {
                    let out: Vec<_> = edges.iter().filter(|e| e.0 == v).collect();
                    let sum: f64 = out.iter().map(|e| e.2).sum();
                    let goes = if out.is_empty() { 0.0 } else { damping * going[v as usize] };
                    rank[v as usize] += going[v as usize] - goes;
                    out.iter().for_each(|e| next[e.1 as usize] += goes * e.2 / sum);
                }
                going = next;
            }
            for v in 0..12u64 {
                let share = found.rank.get(&v).copied().unwrap_or(0.0);
                prop_assert!((share - rank[v as usize] - going[v as usize]).abs() < 1e-6);
            }
        }

        #[test]
        fn limits_bound_what_is_read(edges in prop::collection::vec((0u64..50, 0u64..50, 0.1f64..5.0), 1..200)) {
            let found = over(&edges, &[(0, 1.0)], Limits { damping: 0.5, least: 0.05, rounds: 3 });
            prop_assert!(found.edges.len() <= 60);
            prop_assert!((found.rank.values().sum::<f64>() - 1.0).abs() < 1e-9);
        }
    }
}

//! How good a ranking is, against the items that are known to be relevant.
//!
//! A ranking holds no item twice (what is there twice counts once). The measures are those of the field, as in *Introduction to
//! Information Retrieval* (Manning, Raghavan and Schütze 2008); the gain of nDCG is 2^grade - 1 (Burges et al. 2005).

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// The measures of one ranking, each between 0 and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measures {
    /// The share of the relevant items that is among the first k.
    pub recall: f64,
    /// The share of k that is relevant items. Fewer than k found count as k.
    pub precision: f64,
    /// 1 if one of the relevant items is among the first k.
    pub hit: f64,
    /// 1 if all of them are.
    pub all_found: f64,
    /// 1 / the rank of the first of them; 0 if none is among the first k.
    pub mrr: f64,
    /// Discounted cumulative gain by their grades, relative to that of the best order.
    pub ndcg: f64,
}

/// Measures the first `k` of `found`, best first, against `relevant` items with their grades: 1 where there is but one. An item
/// with a grade of 0 is none. With no relevant item at all there is nothing to measure.
pub fn measure<T: Eq + Hash>(found: &[T], relevant: &[(T, u32)], k: usize) -> Option<Measures> {
    let mut grades: HashMap<&T, u32> = HashMap::new();
    for (item, grade) in relevant.iter().filter(|item| item.1 > 0) {
        let best = grades.entry(item).or_default();
        *best = (*best).max(*grade);
    }
    if grades.is_empty() || k == 0 {
        return None;
    }
    let mut seen = HashSet::new();
    let ranking: Vec<u32> = found
        .iter()
        .filter(|item| seen.insert(*item))
        .take(k)
        .map(|item| grades.get(item).copied().unwrap_or(0))
        .collect();
    let mut ideal: Vec<u32> = grades.values().copied().collect();
    ideal.sort_unstable_by(|a, b| b.cmp(a));
    ideal.truncate(k);
    let hits = ranking.iter().filter(|grade| **grade > 0).count();
    let share = |of: usize| hits as f64 / of as f64;
    let flag = |is: bool| if is { 1.0 } else { 0.0 };
    let first = ranking.iter().position(|grade| *grade > 0);
    Some(Measures {
        recall: share(grades.len()),
        precision: share(k),
        hit: flag(hits > 0),
        all_found: flag(hits == grades.len()),
        mrr: first.map_or(0.0, |place| 1.0 / (place + 1) as f64),
        // The ideal order sums the same numbers in the same way, so that a perfect ranking has exactly 1.
        ndcg: gain(&ranking) / gain(&ideal),
    })
}

/// Discounted cumulative gain. Grades beyond 50 weigh as that.
fn gain(grades: &[u32]) -> f64 {
    let of = |grade: u32| f64::from(grade.min(50)).exp2() - 1.0;
    let parts = grades.iter().enumerate();
    parts
        .map(|(place, grade)| of(*grade) / ((place + 2) as f64).log2())
        // The sum of nothing would be -0.
        .fold(0.0, |sum, part| sum + part)
}

#[cfg(test)]
mod tests {
    use super::measure;

    #[test]
    fn values_computed_by_hand() {
        let found = ["x", "a", "y", "b"];
        let m = measure(&found, &[("a", 1), ("b", 1), ("c", 1)], 3).unwrap();
        assert_eq!(
            (m.recall, m.precision, m.hit, m.all_found, m.mrr),
            (1.0 / 3.0, 1.0 / 3.0, 1.0, 0.0, 0.5)
        );
        let ideal = 1.0 + 1.0 / 3f64.log2() + 0.5;
        assert!((m.ndcg - (1.0 / 3f64.log2()) / ideal).abs() < 1e-12);
        // Graded: 3 and 1 in the wrong order.
        let m = measure(&["b", "a"], &[("a", 3), ("b", 1)], 2).unwrap();
        assert!((m.ndcg - (1.0 + 7.0 / 3f64.log2()) / (7.0 + 1.0 / 3f64.log2())).abs() < 1e-12);
        assert_eq!((m.recall, m.all_found, m.mrr), (1.0, 1.0, 1.0));
    }

    #[test]
    fn odd_input() {
        assert_eq!(measure::<u8>(&[1], &[], 5), None);
        assert_eq!(measure(&[1], &[(1, 0)], 5), None);
        assert_eq!(measure(&[1], &[(1, 1)], 0), None);
        let none = measure(&[], &[(1, 1)], 5).unwrap();
        assert_eq!((none.recall, none.mrr, none.ndcg), (0.0, 0.0, 0.0));
        let twice = measure(&[1, 1, 2], &[(1, 1), (2, 1), (1, 2)], 2).unwrap();
        assert_eq!((twice.recall, twice.precision, twice.all_found), (1.0, 1.0, 1.0));
    }
}

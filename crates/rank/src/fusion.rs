//! Several rankings of the same items made one.
//!
//! Items are numbers: an item's place in the canonical order of the caller, by which ties are broken.

use std::collections::BTreeMap;

/// The constant of reciprocal rank fusion (Cormack, Clarke and Büttcher 2009).
pub const K: f64 = 60.0;

/// How rankings are fused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fusion {
    /// By the sum of weight / (60 + rank), ranks from 1.
    Ranks,
    /// By the sum of weight × score, with the scores of each ranking stretched to between 0 (its last) and 1 (its first).
    Scores,
}

/// One ranking, best first, without an item twice.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking {
    /// Item and score.
    pub items: Vec<(usize, f64)>,
    pub weight: f64,
}

/// An item of the fused ranking.
#[derive(Clone, Debug, PartialEq)]
pub struct Fused {
    pub item: usize,
    pub score: f64,
    /// Its rank in each of the rankings, from 1; nothing where it is not in.
    pub ranks: Vec<Option<usize>>,
}

/// The items of all rankings, best first. What a ranking does not hold gets nothing from it.
pub fn fuse(rankings: &[Ranking], fusion: Fusion) -> Vec<Fused> {
    let mut fused: BTreeMap<usize, Fused> = BTreeMap::new();
    for (number, ranking) in rankings.iter().enumerate() {
        let scores = || ranking.items.iter().map(|item| item.1);
        let (least, most) = scores().fold((f64::MAX, f64::MIN), |(least, most), score| {
            (least.min(score), most.max(score))
        });
        for (place, &(item, score)) in ranking.items.iter().enumerate() {
            let part = match fusion {
                Fusion::Ranks => 1.0 / (K + place as f64 + 1.0),
                Fusion::Scores if most > least => (score - least) / (most - least),
                Fusion::Scores => 1.0,
            };
            let entry = fused.entry(item).or_insert_with(|| Fused {
                item,
                score: 0.0,
                ranks: vec![None; rankings.len()],
            });
            entry.score += ranking.weight * part;
            entry.ranks[number] = Some(place + 1);
        }
    }
    let mut fused: Vec<Fused> = fused.into_values().collect();
    // Stable, and so in the caller's order where scores are equal.
    fused.sort_by(|a, b| b.score.total_cmp(&a.score));
    fused
}

#[cfg(test)]
mod tests {
    use super::{Fusion, Ranking, fuse};

    fn ranking(items: &[(usize, f64)], weight: f64) -> Ranking {
        Ranking {
            items: items.to_vec(),
            weight,
        }
    }

    #[test]
    fn ranks_by_hand() {
        let rankings = [
            ranking(&[(7, 0.9), (3, 0.5)], 1.0),
            ranking(&[(3, 12.0), (5, 1.0)], 2.0),
        ];
        let fused = fuse(&rankings, Fusion::Ranks);
        let items: Vec<usize> = fused.iter().map(|row| row.item).collect();
        assert_eq!(items, [3, 5, 7]);
        assert!((fused[0].score - (1.0 / 62.0 + 2.0 / 61.0)).abs() < 1e-15);
        assert_eq!(fused[0].ranks, [Some(2), Some(1)]);
        assert_eq!(fused[2].ranks, [Some(1), None]);
    }

    #[test]
    fn scores_by_hand() {
        let rankings = [
            ranking(&[(0, 0.9), (1, 0.7), (2, 0.5)], 1.0),
            ranking(&[(2, 8.0), (0, 4.0)], 0.5),
            ranking(&[(9, 3.0)], 0.25),
        ];
        let fused = fuse(&rankings, Fusion::Scores);
        let scores: Vec<(usize, f64)> = fused.iter().map(|row| (row.item, row.score)).collect();
        assert_eq!(scores[0], (0, 1.0));
        assert!((scores[1].1 - 0.5).abs() < 1e-12);
        assert_eq!(scores[3], (9, 0.25));
    }

    #[test]
    fn nothing_of_nothing() {
        assert!(fuse(&[], Fusion::Ranks).is_empty());
        assert!(fuse(&[ranking(&[], 1.0)], Fusion::Scores).is_empty());
    }
}

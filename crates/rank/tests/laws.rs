//! Laws that hold for all rankings.

use graphrag_rank::compare::difference;
use graphrag_rank::fusion::{Fused, Fusion, Ranking, fuse};
use graphrag_rank::measure::measure;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn ranking() -> impl Strategy<Value = Ranking> {
    (
        prop::collection::btree_set(0usize..30, 0..15),
        prop::collection::vec(-1.0f64..1.0, 15),
        0.0f64..3.0,
    )
        .prop_flat_map(|(items, mut scores, weight)| {
            scores.sort_by(|a, b| b.total_cmp(a));
            Just(items.into_iter().collect::<Vec<_>>())
                .prop_shuffle()
                .prop_map(move |items| Ranking {
                    items: items.into_iter().zip(scores.iter().copied()).collect(),
                    weight,
                })
        })
}

fn fusion() -> impl Strategy<Value = Fusion> {
    prop_oneof![Just(Fusion::Ranks), Just(Fusion::Scores)]
}

proptest! {
    #[test]
    fn fusion_holds_each_item_once_in_order(rankings in prop::collection::vec(ranking(), 0..4), fusion in fusion()) {
        let fused = fuse(&rankings, fusion);
        let items: BTreeSet<usize> = rankings.iter().flat_map(|r| r.items.iter().map(|item| item.0)).collect();
        prop_assert_eq!(fused.iter().map(|row| row.item).collect::<BTreeSet<_>>(), items);
        let most: f64 = rankings.iter().map(|r| r.weight).sum();
        for pair in fused.windows(2) {
            let before = |a: &Fused, b: &Fused| a.score > b.score || a.score == b.score && a.item < b.item;
            prop_assert!(before(&pair[0], &pair[1]));
        }
        for row in &fused {
            prop_assert!(row.score >= 0.0 && row.score <= most + 1e-9);
            for (rank, ranking) in row.ranks.iter().zip(&rankings) {
                let place = ranking.items.iter().position(|item| item.0 == row.item);
                prop_assert_eq!(*rank, place.map(|place| place + 1));
            }
        }
    }

    #[test]
    fn fusion_does_not_depend_on_the_order_of_two_methods(a in ranking(), b in ranking(), fusion in fusion()) {
        let one = fuse(&[a.clone(), b.clone()], fusion);
        let other = fuse(&[b, a], fusion);
        let scores = |rows: &[Fused]| rows.iter().map(|row| (row.item, row.score)).collect::<Vec<_>>();
        prop_assert_eq!(scores(&one), scores(&other));
    }

    #[test]
    fn one_ranking_keeps_its_order(a in ranking()) {
        prop_assume!(a.weight > 0.0);
        let order: Vec<usize> = fuse(std::slice::from_ref(&a), Fusion::Ranks).iter().map(|row| row.item).collect();
        prop_assert_eq!(order, a.items.iter().map(|item| item.0).collect::<Vec<_>>());
    }

    #[test]
    fn scores_do_not_depend_on_their_scale(a in ranking(), scale in 0.5f64..8.0, shift in -3.0f64..3.0) {
        let mut b = a.clone();
        b.items.iter_mut().for_each(|item| item.1 = item.1 * scale + shift);
        for (x, y) in fuse(&[a], Fusion::Scores).iter().zip(fuse(&[b], Fusion::Scores)) {
            prop_assert!((x.score - y.score).abs() < 1e-6);
        }
    }

    #[test]
    fn measures_are_shares(
        found in prop::collection::vec(0u8..20, 0..20), relevant in prop::collection::vec((0u8..20, 0u32..4), 0..10), k in 1usize..15,
    ) {
        let Some(m) = measure(&found, &relevant, k) else {
            prop_assert!(relevant.iter().all(|item| item.1 == 0));
            return Ok(());
        };
        for value in [m.recall, m.precision, m.hit, m.all_found, m.mrr, m.ndcg] {
            prop_assert!((0.0..=1.0 + 1e-12).contains(&value));
        }
        prop_assert!(m.all_found <= m.recall && m.recall <= m.hit && m.mrr <= m.hit);
        prop_assert_eq!(m.hit > 0.0, m.ndcg > 0.0);
        let further = measure(&found, &relevant, k + 1).unwrap();
        prop_assert!(further.recall >= m.recall && further.hit >= m.hit && further.mrr >= m.mrr);
        let mut turned = relevant.clone();
        turned.reverse();
        prop_assert_eq!(measure(&found, &turned, k), Some(m));
    }

    #[test]
    fn the_best_order_has_all(relevant in prop::collection::btree_map(0u8..20, 1u32..4, 1..10)) {
        let mut best: Vec<(u8, u32)> = relevant.into_iter().collect();
        best.sort_by_key(|item| std::cmp::Reverse(item.1));
        let order: Vec<u8> = best.iter().map(|item| item.0).collect();
        let m = measure(&order, &best, order.len()).unwrap();
        prop_assert_eq!((m.recall, m.precision, m.all_found, m.mrr, m.ndcg), (1.0, 1.0, 1.0, 1.0, 1.0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn differences_turn_round_and_are_repeatable(pairs in prop::collection::vec((0.0f64..1.0, 0.0f64..1.0), 1..30), seed: u64) {
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        let there = difference(&a, &b, 0.95, seed, &mut || ()).unwrap();
        let back = difference(&b, &a, 0.95, seed, &mut || ()).unwrap();
        prop_assert!((there.mean + back.mean).abs() < 1e-12);
        prop_assert!((there.low + back.high).abs() < 1e-9 && (there.high + back.low).abs() < 1e-9);
        prop_assert!(there.low <= there.high);
        let differences = a.iter().zip(&b).map(|(a, b)| b - a);
        let (least, most) = differences.fold((f64::MAX, f64::MIN), |(l, m), d| (l.min(d), m.max(d)));
        prop_assert!(there.low >= least - 1e-9 && there.high <= most + 1e-9);
        prop_assert_eq!(difference(&a, &b, 0.95, seed, &mut || ()), Some(there));
    }
}

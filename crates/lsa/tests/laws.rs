//! The laws of the decomposition, against a dense singular value decomposition in f64.

use graphrag_lsa::{Counts, LearnError, Learned, Learner, Options, Sum, idf};
use proptest::prelude::*;
use std::num::NonZero;

type Row = Vec<(u32, u32)>;

fn counts(rows: &[Row]) -> Counts {
    let mut counts = Counts::new();
    rows.iter().for_each(|row| counts.push(row));
    counts
}

fn weights(rows: &[Row], terms: usize) -> Vec<f64> {
    let mut holding = vec![0u64; terms];
    let counts = counts(rows);
    for text in 0..counts.len() {
        counts.row(text).for_each(|(term, _)| holding[term as usize] += 1);
    }
    holding.iter().map(|&n| idf(rows.len() as u64, n)).collect()
}

fn options(dimensions: usize) -> Options {
    Options::new(NonZero::new(dimensions).unwrap())
}

fn learn(rows: &[Row], terms: usize, options: Options) -> Learned {
    let learner = Learner::new(&counts(rows), &weights(rows, terms), options, &mut || ()).unwrap();
    learner.run(&mut || ())
}

fn directions(learned: &Learned, terms: usize) -> Vec<Option<Vec<f32>>> {
    (0..terms).map(|term| learned.direction(term)).collect()
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum()
}

/// The texts as the sums of their terms' vectors.
fn texts(rows: &[Row], learned: &Learned, weights: &[f64], dimensions: usize) -> Vec<Option<Vec<f32>>> {
    let text = |row: &Row| {
        let mut sum = Sum::new(dimensions);
        for &(term, count) in row {
            let (name, weight) = (term.to_string(), weights[term as usize]);
            match learned.vector(term as usize, &name) {
                Some(vector) => sum.add(count, weight, &vector),
                None => sum.add_unknown(count, weight, &name),
            }
        }
        sum.unit()
    };
    rows.iter().map(text).collect()
}

/// Texts of `topics` topics, each with terms of its own beside common ones.
fn corpus(texts: usize, terms: u64, topics: u64) -> Vec<Row> {
    let mut state = 7u64;
    let mut random = move |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let text = |_| {
        let topic = random(topics);
        let term = |draw| {
            let common = draw % 3 == 0;
            let term = if common {
                random(terms / 10)
            } else {
                topic * (terms / topics) + random(terms / topics)
            };
            (term as u32, 1 + random(3) as u32)
        };
        (0..30).map(term).collect()
    };
    (0..texts).map(text).collect()
}

/// The singular values, the greatest first, each with its right singular vector: by rotations that make each two columns orthogonal (Jacobi).
///
/// `columns` are those of the matrix.
fn svd(mut columns: Vec<Vec<f64>>) -> Vec<(f64, Vec<f64>)> {
    let size = columns.len();
    let mut v: Vec<Vec<f64>> = (0..size)
        .map(|i| (0..size).map(|j| f64::from(i == j)).collect())
        .collect();
    let mut worst = 1.0;
    while worst > 1e-13 {
        worst = 0.0f64;
        for y in 1..size {
            for x in 0..y {
                let (xx, yy) = (dot(&columns[x], &columns[x]), dot(&columns[y], &columns[y]));
                let xy = dot(&columns[x], &columns[y]);
                if xy.abs() < 1e-14 {
                    continue;
                }
                worst = worst.max(xy.abs());
                let zeta = (yy - xx) / (2.0 * xy);
                let tan = 1f64.copysign(zeta) / (zeta.abs() + (1.0 + zeta * zeta).sqrt());
                let cos = 1.0 / (1.0 + tan * tan).sqrt();
                let sin = cos * tan;
                for matrix in [&mut columns, &mut v] {
                    let (before, after) = matrix.split_at_mut(y);
                    for (x, y) in before[x].iter_mut().zip(&mut after[0]) {
                        (*x, *y) = (cos * *x - sin * *y, sin * *x + cos * *y);
                    }
                }
            }
        }
    }
    let norms = columns.iter().map(|column| dot(column, column).sqrt());
    let mut svd: Vec<_> = norms.zip(v).collect();
    svd.sort_by(|a, b| b.0.total_cmp(&a.0));
    svd
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// Compares with the definition: the directions only if they converge, because of a gap after the rank, as the caller says, or
/// because the columns that are iterated hold all that the sample has.
fn check(rows: &[Row], terms: usize, dimensions: usize, gap: bool) {
    let (sample, weights) = (counts(rows), weights(rows, terms));
    let mut columns = vec![vec![0.0; rows.len()]; terms];
    for (text, _) in rows.iter().enumerate() {
        let weight = |(term, count)| (1.0 + f64::from(count).ln()) * weights[term as usize];
        let norm = sample.row(text).map(|entry| weight(entry).powi(2)).sum::<f64>().sqrt();
        for (term, count) in sample.row(text) {
            columns[term as usize][text] = weight((term, count)) / norm;
        }
    }
    let svd = svd(columns);
    let value = |i: usize| svd.get(i).map_or(0.0, |(value, _)| *value);

    let learned = learn(rows, terms, options(dimensions));
    let wanted = dimensions.min(rows.len() / 3);
    let rank = learned.rank;
    assert!(rank <= wanted && rank == learned.singular_values.len());
    assert!(
        rank == wanted || value(rank) < 1e-4,
        "rank {rank}, next {}",
        value(rank)
    );
    for (i, &found) in learned.singular_values.iter().enumerate() {
        assert!(
            (f64::from(found) - value(i)).abs() < 1e-3 * value(i),
            "{i}: {found}, {}",
            value(i)
        );
    }
    let all = value(rank + 10) < 1e-6;
    // The directions are of one space only if the value after the last is another.
    if !(all || gap) || rank == 0 || value(rank - 1) - value(rank) < 0.01 {
        return;
    }
    let row = |term: usize| -> Vec<f64> { svd[..rank].iter().map(|(value, v)| v[term] * value.sqrt()).collect() };
    let norm = |term: usize| dot(&row(term), &row(term)).sqrt();
    for x in 0..terms {
        let Some(found_x) = learned.direction(x) else {
            assert!(norm(x) < 1e-3, "term {x} has no direction");
            continue;
        };
        assert_eq!(found_x.len(), rank);
        assert!((cosine(&found_x, &found_x) - 1.0).abs() < 1e-5);
        for y in 0..x {
            if let Some(found_y) = learned.direction(y)
                && norm(x).min(norm(y)) > 0.05
            {
                let expected = dot(&row(x), &row(y)) / norm(x) / norm(y);
                let found = cosine(&found_x, &found_y);
                assert!((found - expected).abs() < 1e-3, "{x} and {y}: {found}, not {expected}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn small_matrices_are_decomposed_exactly(
        rows in prop::collection::vec(prop::collection::vec((0u32..24, 1u32..6), 0..9), 1..26),
        dimensions in 1usize..12,
    ) {
        check(&rows, 24, dimensions, false);
    }

    #[test]
    fn matrices_of_small_rank_are_decomposed_exactly(
        kinds in prop::collection::vec(prop::collection::vec((0u32..40, 1u32..6), 0..9), 1..9),
        picks in prop::collection::vec(0usize..8, 30..80),
        dimensions in 1usize..30,
    ) {
        let rows: Vec<Row> = picks.iter().map(|&pick| kinds[pick % kinds.len()].clone()).collect();
        check(&rows, 40, dimensions, false);
    }

    #[test]
    fn threads_and_repetition_change_no_bit(
        rows in prop::collection::vec(prop::collection::vec((0u32..60, 1u32..6), 0..12), 0..150),
        seed: u64,
    ) {
        let with = |threads| {
            let options = Options { seed, threads: NonZero::new(threads).unwrap(), ..options(20) };
            let learned = learn(&rows, 60, options);
            (directions(&learned, 60), learned.singular_values)
        };
        let one = with(1);
        for threads in [1, 2, 3] {
            prop_assert_eq!(&with(threads), &one);
        }
    }
}

#[test]
fn the_greatest_values_of_a_greater_matrix_converge() {
    check(&corpus(400, 300, 20), 300, 20, false);
    // As many topics as dimensions: there is a gap after the last.
    check(&corpus(600, 300, 10), 300, 10, true);
}

#[test]
fn threads_change_no_bit_of_a_greater_matrix() {
    let rows = corpus(1500, 2000, 30);
    let with = |threads| {
        let threads = NonZero::new(threads).unwrap();
        let learned = learn(
            &rows,
            2000,
            Options {
                threads,
                ..options(100)
            },
        );
        (directions(&learned, 2000), learned.singular_values)
    };
    let one = with(1);
    assert!(one == with(2) && one == with(3));
}

#[test]
fn the_order_of_the_texts_matters_only_by_rounding() {
    let mut rows = corpus(300, 200, 10);
    rows.extend_from_within(..50);
    rows.push(vec![]);
    let weights = weights(&rows, 200);
    let before = texts(&rows, &learn(&rows, 200, options(40)), &weights, 40);
    let order: Vec<usize> = (0..rows.len()).map(|i| i * 100 % rows.len()).collect();
    assert_eq!(order.iter().max(), Some(&(rows.len() - 1)));
    let permuted: Vec<Row> = order.iter().map(|&i| rows[i].clone()).collect();
    let after = texts(&permuted, &learn(&permuted, 200, options(40)), &weights, 40);
    let (mut compared, mut worst) = (0, 0.0f64);
    for (i, &x) in order.iter().enumerate() {
        for (j, &y) in order.iter().enumerate() {
            if let (Some(a), Some(b), Some(c), Some(d)) = (&before[x], &before[y], &after[i], &after[j]) {
                worst = worst.max((cosine(a, b) - cosine(c, d)).abs());
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 350 * 350);
    assert!(worst < 1e-3, "{worst}");
}

#[test]
fn texts_of_one_topic_are_near_and_have_the_same_bytes_again() {
    let rows = corpus(300, 200, 10);
    let weights = weights(&rows, 200);
    let learned = learn(&rows, 200, options(16));
    let once = texts(&rows, &learned, &weights, 16);
    assert_eq!(once, texts(&rows, &learn(&rows, 200, options(16)), &weights, 16));
    // A topic is known by the terms beyond the common ones, 20 for each.
    let topic = |row: &Row| {
        row.iter()
            .map(|&(term, _)| term / 20)
            .filter(|&t| t > 0)
            .max_by_key(|t| row.iter().filter(|&&(term, _)| term / 20 == *t).count())
    };
    let (mut same, mut other) = ((0.0, 0), (0.0, 0));
    for x in 0..rows.len() {
        for y in 0..x {
            let sum = if topic(&rows[x]) == topic(&rows[y]) {
                &mut same
            } else {
                &mut other
            };
            sum.0 += cosine(once[x].as_ref().unwrap(), once[y].as_ref().unwrap());
            sum.1 += 1;
        }
    }
    assert!(same.0 / f64::from(same.1) > other.0 / f64::from(other.1) + 0.4);
}

#[test]
fn samples_of_next_to_nothing_teach_nothing() {
    for rows in [vec![], vec![vec![(0, 1)]], vec![vec![(0, 1)]; 2], vec![vec![]; 9]] {
        let learned = learn(&rows, 2, options(4));
        assert_eq!((learned.rank, learned.direction(0)), (0, None));
        assert_eq!((learned.vector(1, "one"), learned.direction(9)), (None, None));
    }
    let learned = learn(&vec![vec![(0, 1)]; 3], 2, options(4));
    assert_eq!(learned.rank, 1);
    assert!((learned.singular_values[0] - 3f32.sqrt()).abs() < 1e-5);
    assert!((learned.direction(0).unwrap()[0].abs() - 1.0).abs() < 1e-6);
    assert_eq!(learned.direction(1), None);
}

#[test]
fn equal_texts_have_one_direction() {
    let learned = learn(&vec![vec![(0, 1), (1, 2), (2, u32::MAX)]; 500], 3, options(64));
    assert_eq!(learned.rank, 1);
    assert!((learned.singular_values[0] - 500f32.sqrt()).abs() < 1e-3);
    assert_eq!(learned.direction(0), learned.direction(2));
}

#[test]
fn terms_of_no_weight_have_no_direction() {
    let rows = vec![
        vec![(0, 1), (1, 2)],
        vec![(1, 1), (2, 1)],
        vec![(0, u32::MAX)],
        vec![(2, 3)],
    ];
    let learn =
        |weights: &[f64]| Learner::new(&counts(&rows), weights, options(4), &mut || ()).map(|l| l.run(&mut || ()));
    let learned = learn(&[1.0, 0.0, 1e-300]).unwrap();
    assert!(learned.direction(0).is_some() && learned.direction(1).is_none());
    assert_eq!(learn(&[1.0, 1.0]).err(), Some(LearnError::Term { text: 1, term: 2 }));
    for weight in [-1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(learn(&[1.0, 1.0, weight]).err(), Some(LearnError::Weight { term: 2 }));
    }
}

#[test]
fn vectors_are_of_direction_and_hash() {
    let rows = corpus(12, 100, 4);
    let learned = learn(&rows, 100, options(64));
    let term = rows[0][0].0 as usize;
    let (direction, vector) = (learned.direction(term).unwrap(), learned.vector(term, "name").unwrap());
    assert_eq!((direction.len(), vector.len()), (learned.rank, 64));
    let (bucket, sign) = graphrag_lsa::signed_hash("name", 64);
    for (i, &x) in vector.iter().enumerate() {
        let learned = direction.get(i).map_or(0.0, |x| 0.8 * x);
        let hash = if i == bucket { 0.2 * sign } else { 0.0 };
        assert_eq!(x, learned + hash);
    }
}

#[test]
fn other_seeds_and_no_iterations_work() {
    let rows = corpus(90, 100, 4);
    for iterations in 0..3 {
        let learned = learn(
            &rows,
            100,
            Options {
                seed: 5,
                iterations,
                ..options(10)
            },
        );
        assert_eq!(learned.rank, 10);
        assert!(learned.singular_values.is_sorted_by(|a, b| a >= b));
    }
}

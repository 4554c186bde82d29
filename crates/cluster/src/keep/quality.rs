//! How good clusters are that have kept up, beside those of a fresh clustering of the same rows.

use super::tests::{carried, clusters, of, options};
use super::*;
use crate::bisect::tests::{check, random};
use crate::tree::Method;
use crate::vectors::add;
use graphrag_linear::splitmix64;
use std::ops::Range;

const SIZE: u32 = 80;
const LIMITS: Limits = Limits {
    tokens: 1000,
    members: 100,
};
const DIM: usize = 48;
const NOISE: [f32; 2] = [0.5, 1.0];

/// Rows of themes: `theme(row)` is that of a row.
fn themed(rows: usize, noise: f32, seed: usize, theme: fn(usize) -> usize) -> Vectors {
    let data = (0..rows * DIM).map(|at| {
        let (row, i) = (at / DIM, at % DIM);
        random(theme(row) * DIM + i + ((seed + 1) << 40)) + noise * random(at + (seed << 30))
    });
    Vectors::new(DIM, data.collect(), &mut || ()).unwrap()
}

/// The number of clusters; the mean share of a cluster that is of its most frequent theme; and the same, over all themes, of the summaries nearest to a theme's centre,
/// as many as it must have.
#[derive(Clone, Copy, Debug, Default)]
struct Quality {
    clusters: f64,
    purity: f64,
    found: f64,
}

fn quality(vectors: &Vectors, clusters: &[Cluster], themes: &[usize]) -> Quality {
    let sum = |rows: &mut dyn Iterator<Item = u32>| {
        let mut sum = vec![0.0; DIM];
        rows.for_each(|row| add(&mut sum, vectors.row(row)));
        sum
    };
    let share = |cluster: &Cluster, theme: usize| {
        cluster.iter().filter(|m| themes[m.row as usize] == theme).count() as f64 / cluster.len() as f64
    };
    let best = |cluster: &Cluster| {
        cluster
            .iter()
            .map(|m| share(cluster, themes[m.row as usize]))
            .fold(0.0, f64::max)
    };
    let summaries = clusters.iter().map(|cluster| sum(&mut cluster.iter().map(|m| m.row)));
    let summaries: Vec<Vec<f32>> = summaries.collect();
    let (mut found, mut asked) = (0.0, 0.0);
    for theme in 0..=*themes.iter().max().unwrap() {
        let of_theme: Vec<u32> = (0..)
            .zip(themes)
            .filter(|(_, of)| **of == theme)
            .map(|(row, _)| row)
            .collect();
        if of_theme.is_empty() {
            continue;
        }
        let center = sum(&mut of_theme.iter().copied());
        let near = |at: usize| dot(&summaries[at], &center) / dot(&summaries[at], &summaries[at]).sqrt();
        let needed = of_theme.len().div_ceil((LIMITS.tokens / SIZE) as usize);
        let nearest = highest(0..clusters.len(), needed, near);
        found += nearest.iter().map(|&at| share(&clusters[at], theme)).sum::<f64>() / needed as f64;
        asked += 1.0;
    }
    Quality {
        clusters: clusters.len() as f64,
        purity: clusters.iter().map(best).sum::<f64>() / clusters.len() as f64,
        found: found / asked,
    }
}

/// Clusters the rows of the first step and keeps up through the others; answers the quality of that as shares of what a fresh clustering of the last has.
fn through(vectors: &Vectors, steps: &[Vec<u32>], theme: fn(usize) -> usize, seed: u64) -> Quality {
    let options = Options {
        seed,
        ..options(LIMITS)
    };
    let fresh = |rows: &[u32]| clustered(&of(vectors, rows), &vec![SIZE; rows.len()], &options, &mut || ());
    let mut now = fresh(&steps[0]);
    for pair in steps.windows(2) {
        let part = of(vectors, &pair[1]);
        let sizes = vec![SIZE; pair[1].len()];
        now = clusters(&keep_up(
            &part,
            &sizes,
            &options,
            &carried(&now, &pair[0], &pair[1]),
            &mut || (),
        ));
        check(&part, &sizes, &LIMITS, &now);
    }
    let last = steps.last().unwrap();
    let themes: Vec<usize> = last.iter().map(|&row| theme(row as usize)).collect();
    let vectors = of(vectors, last);
    let (kept, fresh) = (
        quality(&vectors, &now, &themes),
        quality(&vectors, &fresh(last), &themes),
    );
    Quality {
        clusters: kept.clusters / fresh.clusters,
        purity: kept.purity / fresh.purity,
        found: kept.found / fresh.found,
    }
}

/// Within 2 % of fresh clusterings in the mean of several seeds and noises, never far from it, and about as many clusters.
#[track_caller]
fn check_through(rows: usize, theme: fn(usize) -> usize, steps: &[Vec<u32>]) {
    let mut all = vec![];
    for seed in 0..3 {
        for noise in NOISE {
            let vectors = themed(rows, noise, seed, theme);
            all.push(through(&vectors, steps, theme, seed as u64));
        }
    }
    let mean = |of: fn(&Quality) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
    let least = |of: fn(&Quality) -> f64| all.iter().map(of).fold(f64::INFINITY, f64::min);
    let most = all.iter().map(|quality| quality.clusters).fold(0.0, f64::max);
    println!(
        "purity {:.3}, at least {:.3}; found {:.3}, at least {:.3}; clusters {:.2}, at most {most:.2}",
        mean(|q| q.purity),
        least(|q| q.purity),
        mean(|q| q.found),
        least(|q| q.found),
        mean(|q| q.clusters)
    );
    assert!(mean(|q| q.purity) >= 0.98 && mean(|q| q.found) >= 0.98, "{all:?}");
    assert!(least(|q| q.purity) >= 0.97 && least(|q| q.found) >= 0.96, "{all:?}");
    assert!(least(|q| q.clusters) >= 0.85 && most <= 1.15, "{all:?}");
}

/// Steps of rows that grow by so many.
fn growing(from: u32, to: u32, by: usize) -> Vec<Vec<u32>> {
    (from..=to).step_by(by).map(|end| (0..end).collect()).collect()
}

#[test]
fn new_themes_find_their_own_clusters() {
    // Twenty new ones beside forty.
    let theme = |row| if row < 2000 { row % 40 } else { 40 + row % 20 };
    for by in [10, 100, 500] {
        check_through(2500, theme, &growing(2000, 2500, by));
    }
}

#[test]
fn known_themes_stay_together_as_they_grow() {
    check_through(2000, |row| row % 40, &growing(800, 2000, 100));
}

#[test]
fn clusters_that_lose_rows_are_put_together() {
    let left = |step: u64| {
        (0..2000)
            .filter(|&row| splitmix64(u64::from(row) + 77) % 15 >= step)
            .collect()
    };
    check_through(2000, |row| row % 40, &(0..10).map(left).collect::<Vec<_>>());
}

#[test]
fn themes_that_slide_are_followed() {
    let window = |step: u32| -> Range<u32> { 100 * step..1000 + 100 * step };
    let steps: Vec<Vec<u32>> = (0..31).map(|step| window(step).collect()).collect();
    check_through(4000, |row| row / 400 * 10 + row % 40, &steps);
}

#[test]
fn rows_are_clustered_by_the_method_that_clustered_them() {
    let theme = |row: usize| if row < 900 { row % 12 } else { 12 + row % 4 };
    let vectors = themed(1180, 0.6, 0, theme);
    let options = Options {
        method: Method::Mixture,
        ..options(Limits {
            tokens: 100_000,
            members: 100,
        })
    };
    let whole = |rows: u32| {
        clustered(
            &of(&vectors, &(0..rows).collect::<Vec<_>>()),
            &vec![SIZE; rows as usize],
            &options,
            &mut || (),
        )
    };
    let all: Vec<u32> = (0..1180).collect();
    let kept = |from: u32| {
        let before = carried(&whole(from), &all[..from as usize], &all);
        clusters(&keep_up(&vectors, &[SIZE; 1180], &options, &before, &mut || ()))
    };
    // A quarter is new, and less.
    assert_eq!(kept(800), whole(1180));
    let (kept, fresh) = (kept(900), whole(1180));
    let themes: Vec<usize> = (0..1180).map(theme).collect();
    let purity = |clusters: &[Cluster]| quality(&vectors, clusters, &themes).purity;
    assert!(
        purity(&kept) >= 0.98 * purity(&fresh),
        "{} of {}",
        purity(&kept),
        purity(&fresh)
    );
    let mean = |clusters: &[Cluster]| 1180.0 / clusters.len() as f64;
    assert!(mean(&kept) > 0.8 * mean(&fresh), "{} of {}", mean(&kept), mean(&fresh));
}

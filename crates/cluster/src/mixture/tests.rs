use super::*;
use graphrag_linear::eigen;
use proptest::prelude::*;
use std::num::NonZero;
use std::time::Instant;

fn crew(threads: usize) -> Crew {
    Crew {
        threads: NonZero::new(threads).unwrap(),
        spawning: |spawn| spawn(),
    }
}

const WIDE: Limits = Limits {
    tokens: u32::MAX,
    members: usize::MAX,
};

/// Numbers that are about normal, the same for the same seed.
struct Normal(u64);

impl Normal {
    fn next(&mut self) -> f32 {
        let mut uniform = || {
            self.0 = splitmix64(self.0);
            (self.0 >> 40) as f32 / (1u32 << 24) as f32
        };
        (0..12).map(|_| uniform()).sum::<f32>() - 6.0
    }

    /// Of length 1, about.
    fn vector(&mut self, dim: usize) -> Vec<f32> {
        (0..dim).map(|_| self.next() / (dim as f32).sqrt()).collect()
    }
}

/// Row i is about topic i % topics; six topics have a field in common. The noise is as long as it is given, a topic's vector 1.3.
fn planted(n: usize, dim: usize, topics: usize, noise: f32) -> Vectors {
    let mut normal = Normal(7);
    let fields: Vec<Vec<f32>> = (0..topics.div_ceil(6)).map(|_| normal.vector(dim)).collect();
    let centres: Vec<Vec<f32>> = (0..topics)
        .map(|topic| {
            let own = normal.vector(dim);
            fields[topic / 6].iter().zip(own).map(|(x, y)| x + 0.8 * y).collect()
        })
        .collect();
    let mut data = Vec::with_capacity(n * dim);
    for i in 0..n {
        let own = normal.vector(dim);
        data.extend(centres[i % topics].iter().zip(own).map(|(x, y)| x + noise * y));
    }
    vectors(dim, data)
}

fn vectors(dim: usize, data: Vec<f32>) -> Vectors {
    Vectors::new(dim, data, &mut || ()).unwrap()
}

/// The share of members that are about the topic that most of their cluster is about.
fn purity(clusters: &[Cluster], topics: usize) -> f64 {
    let mut pure = 0;
    for cluster in clusters {
        let mut counts = vec![0; topics];
        cluster
            .iter()
            .for_each(|member| counts[member.row as usize % topics] += 1);
        pure += counts.iter().max().unwrap();
    }
    pure as f64 / clusters.iter().map(Vec::len).sum::<usize>() as f64
}

fn rows(cluster: &Cluster) -> Vec<u32> {
    cluster.iter().map(|member| member.row).collect()
}

/// Clusters with one thread and with two, and checks what holds for all of them.
fn checked(vectors: &Vectors, sizes: &[u32], limits: &Limits, seed: u64) -> Vec<Cluster> {
    let clusters = mixture(vectors, sizes, limits, seed, &crew(1), &mut || ());
    assert_eq!(
        clusters,
        mixture(vectors, sizes, limits, seed, &crew(2), &mut || ()),
        "threads"
    );
    let n = vectors.len();
    let mut weights = vec![0.0; n];
    for cluster in &clusters {
        assert!(cluster.is_sorted_by(|a, b| a.row < b.row));
        let tokens = cluster
            .iter()
            .map(|member| limits.counted(sizes[member.row as usize]))
            .sum();
        assert!(
            limits.hold(cluster.len(), tokens),
            "{} members of {tokens} tokens",
            cluster.len()
        );
        for member in cluster {
            assert!(member.weight > 0.0 && member.weight <= 1.0, "{}", member.weight);
            weights[member.row as usize] += member.weight;
        }
    }
    assert!(weights.iter().all(|&weight| weight > 0.0 && weight < 1.001));
    assert!(
        clusters.len() <= n.div_ceil(2),
        "{} clusters of {n} rows",
        clusters.len()
    );
    assert!(clusters.iter().filter(|cluster| cluster.len() == 1).count() <= 1);
    assert!(clusters.is_sorted_by_key(|cluster| {
        let directed = cluster.iter().any(|member| vectors.has_direction(member.row));
        (!directed, rows(cluster))
    }));
    for (i, a) in clusters.iter().enumerate() {
        for (j, b) in clusters.iter().enumerate() {
            let held = |row: &u32| b.binary_search_by_key(row, |member| member.row).is_ok();
            assert!(i == j || !rows(a).iter().all(held), "{a:?} is in {b:?}");
        }
    }
    clusters
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_contract_holds(
        dim in 1usize..14,
        values in prop::collection::vec(-2i8..=2, 0..900),
        sizes in prop::collection::vec(prop_oneof![0u32..40, Just(u32::MAX)], 900),
        tokens in prop_oneof![0u32..200, Just(u32::MAX)],
        members in prop_oneof![2usize..30, Just(usize::MAX)],
        seed: u64,
    ) {
        let rows = values.len() / dim;
        let v = vectors(dim, values[..rows * dim].iter().map(|&x| f32::from(x)).collect());
        checked(&v, &sizes[..rows], &Limits { tokens, members }, seed);
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn the_contract_holds_for_topics_that_overlap(
        n in 0usize..400,
        dim in 8usize..40,
        topics in 1usize..12,
        noise in 0.5f32..4.0,
        members in 2usize..60,
        seed: u64,
    ) {
        checked(&planted(n, dim, topics, noise), &vec![100; n], &Limits { tokens: 3500, members }, seed);
    }
}

#[test]
fn a_few_rows_are_one_cluster_and_equal_rows_are_divided_by_the_limits() {
    assert!(checked(&vectors(3, vec![]), &[], &WIDE, 1).is_empty());
    for n in [1, 2, 3, 10, 11, 12, 13, 100] {
        let equal = vectors(3, [1.0, 2.0, 3.0].repeat(n));
        assert_eq!(checked(&equal, &vec![5; n], &WIDE, 1).len(), 1);
        let four = Limits {
            tokens: 20,
            members: 100,
        };
        assert!(checked(&equal, &vec![5; n], &four, 1).len() >= n.div_ceil(4));
        if n <= 11 {
            let v = planted(n, 20, 5, 0.1);
            assert_eq!(checked(&v, &vec![5; n], &WIDE, 1).len(), 1);
        }
        let nothing = vectors(2, vec![0.0; 2 * n]);
        checked(&nothing, &vec![5; n], &four, 1);
    }
}

#[test]
fn a_row_over_the_budget_is_in_a_cluster() {
    let mut sizes = vec![10; 60];
    sizes[17] = 100_000;
    let limits = Limits {
        tokens: 100,
        members: 50,
    };
    checked(&planted(60, 16, 4, 0.5), &sizes, &limits, 1);
}

#[test]
fn rows_without_a_direction_come_last() {
    let mut data = [1.0, 0.5].repeat(20);
    data[4..6].fill(0.0);
    data[10..12].fill(0.0);
    let limits = Limits {
        tokens: 1000,
        members: 100,
    };
    let clusters = checked(&vectors(2, data), &[1; 20], &limits, 1);
    assert_eq!(rows(clusters.last().unwrap()), [2, 5]);
}

#[test]
fn planted_topics_are_found() {
    for noise in [0.3, 1.0, 1.5] {
        let clusters = checked(&planted(600, 384, 12, noise), &[100; 600], &WIDE, 3);
        assert!(
            (12..=16).contains(&clusters.len()) && purity(&clusters, 12) > 0.98,
            "{} clusters of purity {} at noise {noise}",
            clusters.len(),
            purity(&clusters, 12)
        );
    }
    // More rows than are drawn.
    let clusters = checked(&planted(6000, 16, 6, 0.4), &[100; 6000], &WIDE, 3);
    assert!(
        purity(&clusters, 6) > 0.98 && clusters.len() <= 8,
        "{} {}",
        purity(&clusters, 6),
        clusters.len()
    );
}

#[test]
fn rows_between_two_topics_are_in_both() {
    let mut normal = Normal(3);
    let (dim, topical, steps) = (16, 400, 20);
    let mut data = vec![];
    for i in 0..topical {
        let mut row = normal.vector(dim);
        row[i % 2] += 1.0;
        data.extend(row);
    }
    // From the one topic to the other.
    for step in 0..=steps {
        let mut row = vec![0.0; dim];
        row[0] = 1.0 - step as f32 / steps as f32;
        row[1] = 1.0 - row[0];
        data.extend(row);
    }
    let n = topical + steps + 1;
    let clusters = checked(&vectors(dim, data), &vec![100; n], &WIDE, 1);
    assert_eq!(clusters.len(), 2);
    let holds = |cluster: &Cluster, row: usize| rows(cluster).contains(&(row as u32));
    let both: Vec<usize> = (0..=steps)
        .filter(|step| clusters.iter().all(|cluster| holds(cluster, topical + step)))
        .collect();
    assert!(
        !both.is_empty() && both.iter().all(|step| (5..=15).contains(step)),
        "{both:?}"
    );
    let alone = (0..topical).filter(|&row| holds(&clusters[row % 2], row) && !holds(&clusters[1 - row % 2], row));
    assert!(alone.count() * 10 > topical * 9);
}

/// The variance along the directions is that along the eigenvectors of the covariance.
#[test]
fn components_are_the_principal_ones() {
    let (n, dim) = (300, 40);
    let v = planted(n, dim, 12, 1.0);
    let mean: Vec<f64> = (0..dim)
        .map(|i| (0..n as u32).map(|row| f64::from(v.row(row)[i])).sum::<f64>() / n as f64)
        .collect();
    let mut covariance = vec![0.0; dim * dim];
    for row in 0..n as u32 {
        let centred: Vec<f64> = v
            .row(row)
            .iter()
            .zip(&mean)
            .map(|(&x, mean)| f64::from(x) - mean)
            .collect();
        for i in 0..dim {
            for j in 0..dim {
                covariance[i * dim + j] += centred[i] * centred[j];
            }
        }
    }
    let (mut values, _) = eigen(covariance, dim, &mut || ());
    values.sort_by(|a, b| b.total_cmp(a));
    let mut points = vec![];
    let all: Vec<u32> = (0..n as u32).collect();
    crew(1).share(
        &mut || (),
        std::iter::once(&mut points),
        || (),
        |(), points, pace| {
            *points = Reduction::new(&v, &all, 1, pace)?.project(&v, all.iter().copied(), pace)?;
            Ok(())
        },
    );
    for i in 0..D {
        let variance: f64 = points.iter().map(|point| point[i] * point[i]).sum();
        assert!(
            (variance / values[i] - 1.0).abs() < 0.05,
            "{variance}, not {}",
            values[i]
        );
    }
}

#[test]
fn it_ticks_while_it_works() {
    let mut ticks = 0;
    mixture(
        &planted(2000, 64, 30, 1.0),
        &[100; 2000],
        &WIDE,
        1,
        &crew(1),
        &mut || ticks += 1,
    );
    assert!(ticks > 20, "{ticks}");
}

#[test]
#[ignore = "measures"]
fn times() {
    for (n, noise) in [(1000, 1.0), (1000, 2.0), (5000, 2.0), (100_000, 2.0)] {
        let topics = n / 60;
        let vectors = planted(n, 384, topics, noise);
        let limits = Limits {
            tokens: 3500,
            members: 1000,
        };
        let start = Instant::now();
        let mut longest = start.elapsed();
        let mut before = start;
        let clusters = mixture(&vectors, &vec![100; n], &limits, 1, &crew(1), &mut || {
            longest = longest.max(before.elapsed());
            before = Instant::now();
        });
        println!(
            "{n} rows, noise {noise}: {:?}, {longest:?} between ticks; {} clusters, {:.3} a row, purity {:.3}",
            start.elapsed(),
            clusters.len(),
            clusters.iter().map(Vec::len).sum::<usize>() as f64 / n as f64,
            purity(&clusters, topics),
        );
    }
}

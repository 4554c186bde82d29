use super::*;
use graphrag_linear::splitmix64;
use proptest::prelude::*;
use std::collections::HashSet;
use std::num::NonZero;

const LIMITS: Limits = Limits {
    tokens: 1000,
    members: 100,
};

pub fn crew(threads: usize) -> Crew {
    Crew {
        threads: NonZero::new(threads).unwrap(),
        spawning: |spawn| spawn(),
    }
}

fn run(vectors: &Vectors, sizes: &[u32], limits: &Limits, threads: usize) -> Vec<Cluster> {
    bisect(vectors, sizes, limits, 0, &crew(threads), &mut || ())
}

pub fn random(at: usize) -> f32 {
    // The sum of four is close enough to normal.
    let uniform = |i: usize| (splitmix64((at * 4 + i) as u64) >> 40) as f32 / (1 << 24) as f32 - 0.5;
    (0..4).map(uniform).sum::<f32>() * 1.7
}

/// `rows` rows of `topics` topics, one after another in turn, with so much noise beside the topic's direction.
pub fn planted(rows: usize, topics: usize, dim: usize, noise: f32) -> Vectors {
    let data = (0..rows * dim).map(|at| {
        let topic = at / dim % topics;
        random(topic * dim + at % dim + (1 << 40)) + noise * random(at)
    });
    Vectors::new(dim, data.collect(), &mut || ()).unwrap()
}

pub fn check(vectors: &Vectors, sizes: &[u32], limits: &Limits, clusters: &[Cluster]) {
    let rows = vectors.len();
    let mut seen = HashSet::new();
    for cluster in clusters {
        assert!(cluster.windows(2).all(|pair| pair[0].row < pair[1].row));
        assert!(cluster.iter().all(|member| member.weight > 0.0 && member.weight <= 1.0));
        let tokens = cluster
            .iter()
            .map(|member| limits.counted(sizes[member.row as usize]))
            .sum();
        assert!(
            limits.hold(cluster.len(), tokens),
            "{} members, {tokens} tokens",
            cluster.len()
        );
        seen.extend(cluster.iter().map(|member| member.row));
    }
    assert_eq!(seen.len(), rows);
    assert!(clusters.iter().filter(|cluster| cluster.len() == 1).count() <= 1);
    assert!(clusters.len() <= rows.div_ceil(2));
    let sets: Vec<HashSet<u32>> = clusters.iter().map(|c| c.iter().map(|m| m.row).collect()).collect();
    for (i, a) in sets.iter().enumerate() {
        assert!(sets.iter().enumerate().all(|(j, b)| i == j || !a.is_subset(b)));
    }
    assert!(clusters.windows(2).all(|pair| pair[0][0].row <= pair[1][0].row));
}

fn rows_of(clusters: &[Cluster]) -> Vec<Vec<u32>> {
    clusters
        .iter()
        .map(|cluster| cluster.iter().map(|member| member.row).collect())
        .collect()
}

#[test]
fn few_rows_are_one_cluster() {
    for rows in [1, 2, 3, 10] {
        let v = planted(rows, 3, 16, 0.5);
        let clusters = run(&v, &vec![100; rows], &LIMITS, 1);
        assert_eq!(rows_of(&clusters), [(0..rows as u32).collect::<Vec<_>>()]);
    }
    assert!(run(&planted(0, 1, 4, 0.0), &[], &LIMITS, 1).is_empty());
}

#[test]
fn a_row_longer_than_the_limit_has_a_place() {
    for rows in [2, 3, 12] {
        let v = planted(rows, 3, 16, 0.5);
        let sizes = vec![5000; rows];
        let clusters = run(&v, &sizes, &LIMITS, 1);
        check(&v, &sizes, &LIMITS, &clusters);
        assert_eq!(clusters.len(), rows.div_ceil(2));
    }
}

#[test]
fn planted_topics_are_found() {
    let v = planted(1200, 120, 64, 0.7);
    let limits = Limits {
        tokens: 1200,
        members: 100,
    };
    let clusters = run(&v, &[100; 1200], &limits, 1);
    check(&v, &[100; 1200], &limits, &clusters);
    let pure = clusters
        .iter()
        .filter(|c| c.iter().all(|m| m.row % 120 == c[0].row % 120))
        .count();
    assert!(
        pure * 100 >= clusters.len() * 95,
        "{pure} of {} clusters are of one topic",
        clusters.len()
    );
}

#[test]
fn a_row_between_two_topics_belongs_to_both() {
    let (dim, each) = (32, 8);
    let mut data: Vec<f32> = (0..2 * each * dim)
        .map(|at| f32::from(u8::from(at % dim == at / dim / each)) + 0.2 * random(at))
        .collect();
    data.extend((0..dim).map(|i| if i < 2 { 1.0 } else { 0.0 }));
    let v = Vectors::new(dim, data, &mut || ()).unwrap();
    let limits = Limits {
        tokens: 1000,
        members: 100,
    };
    let clusters = run(&v, &[100; 17], &limits, 1);
    check(&v, &[100; 17], &limits, &clusters);
    let both: Vec<_> = clusters.iter().filter_map(|c| c.iter().find(|m| m.row == 16)).collect();
    assert_eq!((clusters.len(), both.len()), (2, 2));
    assert!(both.iter().all(|member| member.weight < 0.75));
}

#[test]
fn equal_rows_and_rows_without_a_direction_have_a_place() {
    for rows in [10, 11, 12, 13, 100] {
        let equal = Vectors::new(3, [1.0, 2.0, 3.0].repeat(rows), &mut || ()).unwrap();
        let none = Vectors::new(3, vec![0.0; 3 * rows], &mut || ()).unwrap();
        for v in [equal, none] {
            let clusters = run(&v, &vec![200; rows], &LIMITS, 1);
            check(&v, &vec![200; rows], &LIMITS, &clusters);
            assert!(clusters.iter().all(|cluster| cluster.len() > 1));
        }
    }
}

#[test]
fn every_cluster_is_home_to_two_rows() {
    let v = planted(600, 40, 16, 1.5);
    let clusters = run(&v, &[100; 600], &LIMITS, 1);
    let mut home = vec![(0.0, 0); 600];
    for (at, cluster) in clusters.iter().enumerate() {
        for member in cluster {
            let known = &mut home[member.row as usize];
            assert!(known.0 != member.weight, "a home is told apart");
            if member.weight > known.0 {
                *known = (member.weight, at);
            }
        }
    }
    for at in 0..clusters.len() {
        assert!(home.iter().filter(|home| home.1 == at).count() >= 2);
    }
}

#[test]
fn many_rows_are_clustered_the_same_on_two_threads() {
    let v = planted(9000, 300, 32, 1.0);
    let sizes: Vec<u32> = (0..9000).map(|row| 50 + row % 100).collect();
    let clusters = run(&v, &sizes, &LIMITS, 1);
    check(&v, &sizes, &LIMITS, &clusters);
    assert_eq!(clusters, run(&v, &sizes, &LIMITS, 2));
    let other = bisect(&v, &sizes, &LIMITS, 1, &crew(1), &mut || ());
    assert_ne!(clusters, other, "the seed counts");
}

#[test]
fn it_ticks_while_it_works() {
    let v = planted(3000, 50, 64, 1.0);
    let mut ticks = 0;
    bisect(&v, &[100; 3000], &LIMITS, 0, &crew(1), &mut || ticks += 1);
    assert!(ticks > 20, "{ticks}");
}

proptest! {
    #[test]
    fn clusters_keep_what_is_promised(
        dim in 1usize..6,
        values in proptest::collection::vec(-2i8..=2, 0..500),
        tokens in 1u32..2000,
        members in 2usize..20,
        size in 1u32..900,
        threads in 1usize..3,
    ) {
        let rows = values.len() / dim;
        let data = values[..rows * dim].iter().map(|&x| f32::from(x)).collect();
        let v = Vectors::new(dim, data, &mut || ()).unwrap();
        let sizes: Vec<u32> = (0..rows as u32).map(|row| size * (row % 4 + 1)).collect();
        let limits = Limits { tokens, members };
        let clusters = run(&v, &sizes, &limits, 1);
        check(&v, &sizes, &limits, &clusters);
        prop_assert_eq!(&clusters, &run(&v, &sizes, &limits, threads));
    }
}

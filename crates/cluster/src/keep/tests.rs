use super::*;
use crate::bisect;
use crate::bisect::tests::{check, crew, planted};
use crate::tree::Method;
use proptest::prelude::*;
use std::collections::BTreeSet;

const LIMITS: Limits = Limits {
    tokens: 1000,
    members: 100,
};

/// The rows `left` of `vectors`.
pub fn of(vectors: &Vectors, left: &[u32]) -> Vectors {
    let data = left.iter().flat_map(|&row| vectors.row(row)).copied().collect();
    Vectors::new(vectors.dim(), data, &mut || ()).unwrap()
}

/// Clusters of the rows `old`, as those of the rows `new` of them.
pub fn carried(clusters: &[Cluster], old: &[u32], new: &[u32]) -> Vec<Before> {
    let place = |member: &Member| {
        let row = new.binary_search(&old[member.row as usize]).ok()? as u32;
        Some(Member { row, ..*member })
    };
    let carry = |cluster: &Cluster| {
        let left: Cluster = cluster.iter().filter_map(place).collect();
        let changed = left.len() < cluster.len();
        Before { cluster: left, changed }
    };
    clusters.iter().map(carry).collect()
}

pub fn options(limits: Limits) -> Options {
    Options {
        method: Method::Bisect,
        limits,
        max_levels: None,
        seed: 0,
        crew: crew(1),
    }
}

pub fn run(vectors: &Vectors, sizes: &[u32], before: &[Before]) -> Vec<Kept> {
    keep_up(vectors, sizes, &options(LIMITS), before, &mut || ())
}

pub fn clusters(kept: &[Kept]) -> Vec<Cluster> {
    kept.iter().map(|kept| kept.cluster.clone()).collect()
}

#[test]
fn nothing_changes_where_nothing_has_changed() {
    let v = planted(300, 12, 16, 0.6);
    let first = bisect(&v, &[100; 300], &LIMITS, 0, &crew(1), &mut || ());
    let all: Vec<u32> = (0..300).collect();
    let kept = run(&v, &[100; 300], &carried(&first, &all, &all));
    assert_eq!(clusters(&kept), first);
    assert!(kept.iter().enumerate().all(|(at, kept)| kept.was == Some(at as u32)));
}

#[test]
fn one_row_more_or_less_touches_its_clusters_only() {
    let v = planted(301, 12, 16, 0.6);
    let all: Vec<u32> = (0..300).collect();
    let first = bisect(&of(&v, &all), &[100; 300], &LIMITS, 0, &crew(1), &mut || ());
    let sets = |clusters: &[Cluster], rows: &[u32]| -> BTreeSet<Vec<u32>> {
        clusters
            .iter()
            .map(|c| c.iter().map(|m| rows[m.row as usize]).collect())
            .collect()
    };
    let before = sets(&first, &all);
    let more: Vec<u32> = (0..301).collect();
    let kept = clusters(&run(&v, &[100; 301], &carried(&first, &all, &more)));
    check(&v, &[100; 301], &LIMITS, &kept);
    // The one that it joins, or the two that this one becomes.
    assert!(sets(&kept, &more).difference(&before).count() <= 2);
    for gone in [0, 150, 299] {
        let less: Vec<u32> = (0..300).filter(|&row| row != gone).collect();
        let rest = of(&v, &less);
        let kept = clusters(&run(&rest, &[100; 299], &carried(&first, &all, &less)));
        check(&rest, &[100; 299], &LIMITS, &kept);
        let of_it = first.iter().filter(|c| c.iter().any(|m| m.row == gone)).count();
        assert!(sets(&kept, &less).difference(&before).count() <= of_it);
    }
}

#[test]
fn single_rows_touch_little_of_many() {
    let v = planted(2020, 40, 32, 0.8);
    let mut rows: Vec<u32> = (0..2000).collect();
    let mut now = bisect(&of(&v, &rows), &[80; 2000], &LIMITS, 0, &crew(1), &mut || ());
    let (mut touched, mut most) = (0, 0);
    for row in 2000..2020 {
        let old = rows.clone();
        rows.push(row);
        let before: BTreeSet<Vec<u32>> = now.iter().map(|c| c.iter().map(|m| m.row).collect()).collect();
        now = clusters(&run(&of(&v, &rows), &vec![80; rows.len()], &carried(&now, &old, &rows)));
        let new = now
            .iter()
            .filter(|c| !before.contains(&c.iter().map(|m| m.row).collect::<Vec<_>>()))
            .count();
        (touched, most) = (touched + new, most.max(new));
    }
    // The one that it joins, and now and then the two or three that this one becomes.
    assert!(touched <= 30 && most <= 3, "{touched}, at most {most}");
}

#[test]
fn threads_change_nothing() {
    let v = planted(1300, 60, 32, 0.9);
    let old: Vec<u32> = (0..1000).collect();
    let all: Vec<u32> = (0..1300).collect();
    let first = bisect(&of(&v, &old), &[80; 1000], &LIMITS, 0, &crew(1), &mut || ());
    let before = carried(&first, &old, &all);
    let one = run(&v, &[80; 1300], &before);
    let two = Options {
        crew: crew(2),
        ..options(LIMITS)
    };
    assert_eq!(one, keep_up(&v, &[80; 1300], &two, &before, &mut || ()));
}

/// The lengths of the clusters' sums, each row in its best cluster: the more, the closer rows are to their centres.
fn closeness(vectors: &Vectors, clusters: &[Cluster]) -> f32 {
    let mut home = vec![(0.0, 0); vectors.len()];
    for (at, cluster) in clusters.iter().enumerate() {
        for member in cluster {
            if member.weight > home[member.row as usize].0 {
                home[member.row as usize] = (member.weight, at);
            }
        }
    }
    let mut sums = vec![vec![0.0; vectors.dim()]; clusters.len()];
    for (row, (_, at)) in home.iter().enumerate() {
        crate::vectors::add(&mut sums[*at], vectors.row(row as u32));
    }
    sums.iter().map(|sum| crate::vectors::dot(sum, sum).sqrt()).sum()
}

#[test]
fn after_many_changes_clusters_are_nearly_as_close_as_new_ones() {
    let v = planted(1500, 100, 32, 0.6);
    let mut rows: Vec<u32> = (0..750).collect();
    let mut now = bisect(&of(&v, &rows), &[100; 750], &LIMITS, 0, &crew(1), &mut || ());
    for round in 0..50 {
        let old = rows.clone();
        // Fifteen go, fifteen come.
        rows.retain(|row| !(round * 15..round * 15 + 15).contains(row));
        rows.extend(750 + round * 15..750 + round * 15 + 15);
        let vectors = of(&v, &rows);
        now = clusters(&run(&vectors, &[100; 750], &carried(&now, &old, &rows)));
        check(&vectors, &[100; 750], &LIMITS, &now);
    }
    let vectors = of(&v, &rows);
    let fresh = bisect(&vectors, &[100; 750], &LIMITS, 0, &crew(1), &mut || ());
    let (kept, fresh) = (closeness(&vectors, &now), closeness(&vectors, &fresh));
    assert!(kept > 0.98 * fresh, "{kept} of {fresh}");
}

proptest! {
    #[test]
    fn the_promises_hold_after_any_changes(
        dim in 1usize..6,
        values in proptest::collection::vec(-2i8..=2, 0..400),
        steps in proptest::collection::vec((any::<u64>(), any::<u64>()), 1..5),
        members in 2usize..12,
    ) {
        let count = values.len() / dim;
        let data = values[..count * dim].iter().map(|&x| f32::from(x)).collect();
        let v = Vectors::new(dim, data, &mut || ()).unwrap();
        let limits = Limits { tokens: 1000, members };
        let chosen = |seed: u64| -> Vec<u32> {
            (0..count as u32).filter(|&row| !graphrag_linear::splitmix64(seed ^ u64::from(row)).is_multiple_of(4)).collect()
        };
        let sizes = |rows: &[u32]| rows.iter().map(|row| 50 + row % 500).collect::<Vec<u32>>();
        let mut rows = chosen(0);
        let mut now = bisect(&of(&v, &rows), &sizes(&rows), &limits, 0, &crew(1), &mut || ());
        for (seed, more) in steps {
            let old = rows;
            // Most stay, some go, some come.
            rows = chosen(seed);
            rows.extend(old.iter().filter(|&&row| !graphrag_linear::splitmix64(more ^ u64::from(row)).is_multiple_of(8)));
            rows.sort_unstable();
            rows.dedup();
            let vectors = of(&v, &rows);
            let kept = keep_up(&vectors, &sizes(&rows), &options(limits), &carried(&now, &old, &rows), &mut || ());
            now = clusters(&kept);
            check(&vectors, &sizes(&rows), &limits, &now);
        }
    }
}

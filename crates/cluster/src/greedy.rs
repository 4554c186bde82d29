//! Greedy nearest-neighbour grouping: the plain way to make groups of one size.

use crate::vectors::{Vectors, dot};
use std::collections::BinaryHeap;

/// Seeds whose neighbours are looked up in one pass over the vectors: the pass is bound by memory, not by arithmetic.
const BATCH: usize = 4;

/// Products of two values between two calls of `tick`, about a millisecond of work.
const WORK_PER_TICK: usize = 1 << 21;

/// Groups all rows into clusters of `cluster_size` rows (0 counts as 1); only the last may be smaller.
///
/// In row order, each row that is still free takes the `cluster_size - 1` free rows with the greatest cosine to it, of equal ones the lowest.
/// Rows without a direction come last, in row order: they fill up the last cluster and then make clusters of their own.
/// The result lists the clusters in the order made, members ascending (those without a direction after the others). Time grows with n² · dim / `cluster_size`.
pub fn greedy(vectors: &Vectors, cluster_size: usize, tick: &mut dyn FnMut()) -> Vec<Vec<u32>> {
    let size = cluster_size.max(1);
    let (mut free, undirected): (Vec<u32>, Vec<u32>) = (0..vectors.len() as u32).partition(|&row| {
        if row.is_multiple_of(256) {
            tick();
        }
        vectors.has_direction(row)
    });
    let mut taken = vec![false; vectors.len()];
    let mut clusters = Vec::with_capacity(vectors.len().div_ceil(size));
    while free.len() > size {
        let seeds = &free[..BATCH.min(free.len())];
        let mut left = free.len();
        for (&seed, near) in seeds.iter().zip(nearest(vectors, seeds, &free, size, tick)) {
            if taken[seed as usize] || left <= size {
                continue;
            }
            let mut members: Vec<u32> = near
                .into_iter()
                .filter(|&row| !taken[row as usize])
                .take(size)
                .collect();
            members.sort_unstable();
            left -= members.len();
            members.iter().for_each(|&row| taken[row as usize] = true);
            clusters.push(members);
        }
        free.retain(|&row| !taken[row as usize]);
    }
    free.extend(undirected);
    clusters.extend(free.chunks(size).map(<[u32]>::to_vec));
    clusters
}

/// For each seed, the free rows from the seed itself outwards, long enough that `size` of them are left
/// when each seed before it has taken `size` rows. The free rows only become fewer, so a list made before that is still right after it.
fn nearest(vectors: &Vectors, seeds: &[u32], free: &[u32], size: usize, tick: &mut dyn FnMut()) -> Vec<Vec<u32>> {
    let mut heaps = vec![BinaryHeap::<u64>::new(); seeds.len()];
    for rows in free.chunks((WORK_PER_TICK / vectors.dim() / BATCH).max(1)) {
        tick();
        for &row in rows {
            let vector = vectors.row(row);
            for (i, (&seed, heap)) in seeds.iter().zip(&mut heaps).enumerate() {
                // The seed leads its own list, even before a row that is equal to it.
                let cosine = if row == seed {
                    f32::INFINITY
                } else {
                    dot(vectors.row(seed), vector)
                };
                let key = distance_key(cosine, row);
                if heap.len() < size.saturating_mul(i + 1) {
                    heap.push(key);
                } else if let Some(mut farthest) = heap.peek_mut()
                    && key < *farthest
                {
                    *farthest = key;
                }
            }
        }
    }
    heaps
        .into_iter()
        .map(|heap| heap.into_sorted_vec().into_iter().map(|key| key as u32).collect())
        .collect()
}

/// A number that is the smaller the greater the cosine, then the lower the row.
fn distance_key(cosine: f32, row: u32) -> u64 {
    let bits = (0.0 - cosine).to_bits();
    let ascending = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    u64::from(ascending) << 32 | u64::from(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn vectors(dim: usize, data: Vec<f32>) -> Vectors {
        Vectors::new(dim, data, &mut || ()).unwrap()
    }

    /// The definition, one seed at a time.
    fn by_definition(vectors: &Vectors, size: usize) -> Vec<Vec<u32>> {
        let (mut free, undirected): (Vec<u32>, Vec<u32>) =
            (0..vectors.len() as u32).partition(|&r| vectors.has_direction(r));
        let mut clusters = vec![];
        while free.len() > size {
            let seed = free.remove(0);
            free.sort_by(|&a, &b| {
                let cosine = |r| dot(vectors.row(seed), vectors.row(r));
                cosine(b).total_cmp(&cosine(a)).then(a.cmp(&b))
            });
            let mut members = vec![seed];
            members.extend(free.drain(..size - 1));
            members.sort();
            clusters.push(members);
            free.sort();
        }
        free.extend(undirected);
        clusters.extend(free.chunks(size).map(<[u32]>::to_vec));
        clusters
    }

    #[test]
    fn the_nearest_free_rows_are_taken() {
        let v = vectors(2, vec![1.0, 0.0, 0.0, 1.0, 0.9, 0.1, 0.1, 0.9, -1.0, 0.0, 0.8, 0.1]);
        assert_eq!(greedy(&v, 3, &mut || ()), [vec![0, 2, 5], vec![1, 3, 4]]);
        assert_eq!(greedy(&v, 2, &mut || ()), [vec![0, 2], vec![1, 3], vec![4, 5]]);
    }

    #[test]
    fn equal_rows_are_taken_in_row_order() {
        let v = vectors(3, [1.0, 2.0, 3.0].repeat(7));
        assert_eq!(greedy(&v, 3, &mut || ()), [vec![0, 1, 2], vec![3, 4, 5], vec![6]]);
    }

    #[test]
    fn rows_without_a_direction_fill_the_last_cluster() {
        let v = vectors(1, vec![0.0, 1.0, 0.0, 1.0, 1.0, 0.0]);
        assert_eq!(greedy(&v, 2, &mut || ()), [vec![1, 3], vec![4, 0], vec![2, 5]]);
        assert_eq!(greedy(&vectors(1, vec![0.0, 1.0]), 2, &mut || ()), [vec![1, 0]]);
    }

    #[test]
    fn odd_sizes_end_well() {
        assert!(greedy(&vectors(1, vec![]), 8, &mut || ()).is_empty());
        let v = vectors(1, vec![1.0; 3]);
        assert_eq!(greedy(&v, 0, &mut || ()), [[0], [1], [2]]);
        assert_eq!(greedy(&v, usize::MAX, &mut || ()), [[0, 1, 2]]);
    }

    #[test]
    fn keys_order_by_cosine_then_row() {
        let mut keys = [(-1.0, 0), (0.0, 9), (-0.0, 3), (1.0, 7), (0.5, 2), (f32::INFINITY, 8)]
            .map(|(cosine, row)| distance_key(cosine, row));
        keys.sort();
        assert_eq!(keys.map(|key| key as u32), [8, 7, 2, 3, 9, 0]);
    }

    #[test]
    fn it_ticks_while_it_works() {
        let v = vectors(64, (0..64 * 2000).map(|i| (i % 97) as f32 - 48.0).collect());
        let mut ticks = 0;
        greedy(&v, 8, &mut || ticks += 1);
        // Two million pairs of 64 values each, in steps of two million products.
        assert!(ticks > 60);
    }

    proptest! {
        #[test]
        fn it_agrees_with_the_definition(
            dim in 1usize..20,
            values in proptest::collection::vec(-2i8..=2, 0..600),
            size in 1usize..9,
        ) {
            let rows = values.len() / dim;
            let v = vectors(dim, values[..rows * dim].iter().map(|&x| f32::from(x)).collect());
            let clusters = greedy(&v, size, &mut || ());
            prop_assert_eq!(&clusters, &by_definition(&v, size));
            prop_assert_eq!(clusters.len(), rows.div_ceil(size));
            let mut all = clusters.concat();
            all.sort();
            prop_assert_eq!(all, (0..rows as u32).collect::<Vec<_>>());
        }
    }
}

//! Which of many centres are near a row, without looking at all of them.

use graphrag_linear::{LANES, Lane, products, splitmix64};

/// Centres that a row is compared with, about, if there are more.
const LOOKED_AT: usize = 640;

/// Rounds of k-means over the centres.
const ROUNDS: usize = 5;

/// An inverted file over centres: they stand in lists around their own centres, of which the nearest few are looked through.
///
/// Source: Sivic and Zisserman (2003).
pub struct Near {
    heads: List,
    lists: Vec<List>,
    probes: usize,
}

/// Centres, two blocks of [`LANES`] together, a lane for each dimension.
#[derive(Default)]
struct List {
    ids: Vec<u32>,
    lanes: Vec<Vec<Lane>>,
}

/// What one thread reuses from row to row.
#[derive(Default)]
pub struct Found {
    heads: Vec<(f32, u32)>,
    pub best: Vec<(f32, u32)>,
}

impl List {
    fn new(ids: Vec<u32>, center: impl Fn(u32) -> Vec<f32>) -> Self {
        let lanes = ids.chunks(2 * LANES).flat_map(|ids| {
            let centers: Vec<Vec<f32>> = ids.iter().map(|&id| center(id)).collect();
            [0, LANES].map(|first| {
                let lane = |i: usize| {
                    Lane(std::array::from_fn(|lane| {
                        centers.get(first + lane).map_or(0.0, |x| x[i])
                    }))
                };
                (0..centers[0].len()).map(lane).collect::<Vec<Lane>>()
            })
        });
        Self {
            lanes: lanes.collect(),
            ids,
        }
    }

    /// Puts the centres whose products with `row` are among the `count` highest in their places, best first; of equal ones what came first.
    fn scan(&self, row: &[f32], count: usize, found: &mut Vec<(f32, u32)>) {
        for (ids, lanes) in self.ids.chunks(2 * LANES).zip(self.lanes.chunks_exact(2)) {
            let [sums] = products([row], [&lanes[0], &lanes[1]]);
            for (lane, ids) in sums.iter().zip(ids.chunks(LANES)) {
                // Most lanes hold nothing that is near enough.
                let most = lane
                    .0
                    .iter()
                    .fold(f32::NEG_INFINITY, |most, &x| if x > most { x } else { most });
                if found.len() == count && found.last().is_some_and(|last| most <= last.0) {
                    continue;
                }
                for (&x, &id) in lane.0.iter().zip(ids) {
                    if found.len() < count || found.last().is_some_and(|last| x > last.0) {
                        found.truncate(count - 1);
                        found.insert(found.partition_point(|other| other.0 >= x), (x, id));
                    }
                }
            }
        }
    }
}

impl Near {
    /// Lists of `centers`, which are of the space and of unit length; one without a direction is never found first.
    pub fn new(centers: &[Vec<f32>], seed: u64, tick: &mut dyn FnMut()) -> Self {
        let count = centers.len().isqrt().max(1);
        let random = |i: usize| splitmix64(seed ^ splitmix64(i as u64)) as usize;
        // One at random of each stretch of equal length.
        let mut heads: Vec<Vec<f32>> = (0..count)
            .map(|i| {
                let (start, end) = (i * centers.len() / count, (i + 1) * centers.len() / count);
                centers[start + random(i) % (end - start)].clone()
            })
            .collect();
        let mut nearest = Vec::new();
        let mut members = vec![vec![]; count];
        for _ in 0..ROUNDS {
            let list = List::new((0..count as u32).collect(), |head| heads[head as usize].clone());
            members = vec![vec![]; count];
            for (at, center) in centers.iter().enumerate() {
                tick();
                nearest.clear();
                list.scan(center, 1, &mut nearest);
                members[nearest[0].1 as usize].push(at as u32);
            }
            for (head, members) in heads.iter_mut().zip(&members) {
                let mut sum = vec![0.0; head.len()];
                for &center in members {
                    sum.iter_mut()
                        .zip(&centers[center as usize])
                        .for_each(|(sum, x)| *sum += x);
                }
                let norm = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
                if norm > 0.0 {
                    sum.iter_mut().for_each(|x| *x /= norm);
                    *head = sum;
                }
            }
        }
        Self {
            probes: (LOOKED_AT * count).div_ceil(centers.len()),
            heads: List::new((0..count as u32).collect(), |head| heads[head as usize].clone()),
            lists: members
                .into_iter()
                .map(|ids| List::new(ids, |center| centers[center as usize].clone()))
                .collect(),
        }
    }

    /// One list of `count` centres, all of which are looked at.
    pub fn all(count: usize, center: impl Fn(usize) -> Vec<f32>) -> Self {
        let dim = if count > 0 { center(0).len() } else { 0 };
        Self {
            probes: 1,
            heads: List::new(vec![0], |_| vec![0.0; dim]),
            lists: vec![List::new((0..count as u32).collect(), |at| center(at as usize))],
        }
    }

    /// The `count` centres nearest to `row`, which is of the space, of those that are looked at.
    pub fn best<'f>(&self, row: &[f32], count: usize, found: &'f mut Found) -> &'f [(f32, u32)] {
        found.heads.clear();
        found.best.clear();
        self.heads.scan(row, self.probes, &mut found.heads);
        for &(_, head) in &found.heads {
            self.lists[head as usize].scan(row, count, &mut found.best);
        }
        &found.best
    }

    /// Multiplications for one row of `dim` values, about.
    pub fn work(&self, dim: usize) -> usize {
        let centers: usize = self.lists.iter().map(|list| list.ids.len()).sum();
        (self.lists.len() + centers * self.probes / self.lists.len().max(1)) * dim
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bisect::tests::{crew, planted};
    use crate::space::Space;
    use crate::vectors::dot;

    fn centers(count: usize) -> Vec<Vec<f32>> {
        let vectors = planted(count, 7, 24, 0.8);
        (0..count as u32).map(|row| vectors.row(row).to_vec()).collect()
    }

    fn by_all(centers: &[Vec<f32>], row: &[f32], count: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..centers.len() as u32).collect();
        order.sort_by(|&a, &b| dot(&centers[b as usize], row).total_cmp(&dot(&centers[a as usize], row)));
        order.truncate(count);
        order
    }

    #[test]
    fn few_centres_are_all_looked_at() {
        for count in [1, 2, 31, 32, 33, 600] {
            let centers = centers(count);
            let near = Near::new(&centers, 0, &mut || ());
            let mut found = Found::default();
            for row in centers.iter().step_by(7) {
                let best: Vec<u32> = near.best(row, 8, &mut found).iter().map(|best| best.1).collect();
                assert_eq!(best, by_all(&centers, row, 8), "{count}");
            }
        }
    }

    #[test]
    fn of_many_the_nearest_are_mostly_found() {
        let centers = centers(4000);
        let near = Near::new(&centers, 0, &mut || ());
        let mut found = Found::default();
        let mut hits = 0;
        for row in &centers[..200] {
            let best: Vec<u32> = near.best(row, 8, &mut found).iter().map(|best| best.1).collect();
            hits += by_all(&centers, row, 8).iter().filter(|id| best.contains(id)).count();
        }
        assert!(hits > 8 * 200 * 8 / 10, "{hits} of 1600");
    }

    #[test]
    fn the_space_keeps_what_tells_topics_apart() {
        let vectors = planted(500, 10, 200, 0.3);
        let rows: Vec<u32> = (0..500).collect();
        let space = Space::new(&vectors, &rows, 0, &crew(1), &mut || ());
        assert_eq!(space.dim(), 64);
        let other = Space::new(&vectors, &rows, 0, &crew(2), &mut || ());
        for (a, b) in [(0, 10), (0, 1), (7, 17), (7, 8)] {
            let (full, small) = (dot(vectors.row(a), vectors.row(b)), dot(space.row(a), space.row(b)));
            assert!((full - small).abs() < 0.15, "{a}, {b}: {full}, {small}");
            assert_eq!(space.row(a), other.row(a));
        }
    }
}

//! First groups of many rows: spherical k-means, its centres learned from a sample.

use crate::groups::Groups;
use crate::limits::Limits;
use crate::near::Found;
use crate::space::Space;
use crate::vectors::{Vectors, dot};
use graphrag_linear::{Crew, splitmix64};

/// Rows of the sample for each group.
const SAMPLE: usize = 8;

/// Rows of the sample at least.
const LEAST: usize = 1024;

/// Rounds over the sample, and then over all rows.
const ROUNDS: [usize; 2] = [3, 2];

/// Centres near in the space that are compared in full.
const COMPARED: usize = 8;

/// Rows that are assigned by one task.
const CHUNK: usize = 256;

/// Groups `rows` around at most `count` centres.
pub fn start(
    vectors: &Vectors,
    space: &Space,
    rows: &[u32],
    count: usize,
    seed: u64,
    crew: &Crew,
    tick: &mut dyn FnMut(),
) -> Vec<Vec<u32>> {
    let drawn = |rows: &[u32], count: usize, salt: u64| -> Vec<u32> {
        let count = count.clamp(1, rows.len());
        // One at random of each stretch of equal length.
        let draw = |i: usize| {
            let (start, end) = (i * rows.len() / count, (i + 1) * rows.len() / count);
            rows[start + (splitmix64(seed ^ splitmix64(salt << 32 | i as u64)) % (end - start) as u64) as usize]
        };
        (0..count).map(draw).collect()
    };
    let sample = drawn(rows, (count * SAMPLE).max(LEAST), 0);
    let mut groups: Vec<Vec<u32>> = drawn(&sample, count, 1).into_iter().map(|row| vec![row]).collect();
    for (rows, rounds) in [&sample[..], rows].into_iter().zip(ROUNDS) {
        for _ in 0..rounds {
            groups = assigned(vectors, space, rows, groups, seed, crew, tick);
        }
    }
    groups
}

/// Groups of `rows` around the centres of `groups`.
fn assigned(
    vectors: &Vectors,
    space: &Space,
    rows: &[u32],
    groups: Vec<Vec<u32>>,
    seed: u64,
    crew: &Crew,
    tick: &mut dyn FnMut(),
) -> Vec<Vec<u32>> {
    let groups = Groups::new(vectors, &[], &Limits::NONE, groups, crew, tick);
    let near = groups.listed(space, seed, tick);
    let scales: Vec<f32> = groups
        .squares
        .iter()
        .map(|square| square.max(f32::MIN_POSITIVE).sqrt().recip())
        .collect();
    let mut chosen = vec![0u32; rows.len()];
    let tasks = rows.chunks(CHUNK).zip(chosen.chunks_mut(CHUNK));
    crew.share(tick, tasks, Found::default, |found, (rows, chosen), pace| {
        for (&row, chosen) in rows.iter().zip(chosen) {
            pace.step(near.work(space.dim()) + COMPARED * vectors.dim())?;
            let score = |group: u32| dot(groups.sum(group as usize), vectors.row(row)) * scales[group as usize];
            let best = near
                .best(space.row(row), COMPARED, found)
                .iter()
                .map(|&(_, group)| (score(group), group));
            *chosen = best
                .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))
                .map_or(0, |best| best.1);
        }
        Ok(())
    });
    let mut found = vec![vec![]; groups.rows.len()];
    for (&row, &group) in rows.iter().zip(&chosen) {
        found[group as usize].push(row);
    }
    found.retain(|group| !group.is_empty());
    found
}

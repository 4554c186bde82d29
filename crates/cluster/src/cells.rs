//! Cells: a coarse division of many rows, so that what comes after looks at few rows at a time.

use crate::vectors::{Vectors, dot, nearest};
use graphrag_linear::{Crew, splitmix64};

/// Rows of a cell at most.
const ROWS: usize = 4096;

/// Cells that a part is divided into at most.
const CELLS: usize = 32;

/// Rows of the sample for each cell.
const SAMPLE: usize = 64;

/// Rounds of k-means on the sample.
const ROUNDS: usize = 8;

/// Rows that are assigned by one task.
const CHUNK: usize = 256;

/// Divides `rows` into cells of at most a few thousand rows each, by spherical k-means on samples; in the order of their first rows, rows ascending.
///
/// Time grows with n · log n · dim. Source: the coarse quantizer of an inverted file (Sivic and Zisserman 2003), k-means++ of Arthur and Vassilvitskii (2007).
pub fn cells(vectors: &Vectors, rows: Vec<u32>, seed: u64, crew: &Crew, tick: &mut dyn FnMut()) -> Vec<Vec<u32>> {
    let (mut open, mut cells) = (vec![rows], vec![]);
    while let Some(part) = open.pop() {
        if part.len() <= ROWS {
            cells.push(part);
        } else {
            open.extend(divide(vectors, &part, seed, crew, tick));
        }
    }
    cells.retain(|cell| !cell.is_empty());
    cells.sort_unstable_by_key(|cell| cell[0]);
    cells
}

/// Two or more parts of rows that are more than [`ROWS`], each smaller.
fn divide(vectors: &Vectors, rows: &[u32], seed: u64, crew: &Crew, tick: &mut dyn FnMut()) -> Vec<Vec<u32>> {
    let count = (rows.len() * 4 / ROWS).clamp(2, CELLS);
    let centers = learn(vectors, rows, count, seed, tick);
    let mut chosen = vec![0u32; rows.len()];
    let tasks = rows.chunks(CHUNK).zip(chosen.chunks_mut(CHUNK));
    crew.share(
        tick,
        tasks,
        || (),
        |(), (rows, chosen), pace| {
            pace.step(rows.len() * centers.len() * vectors.dim())?;
            for (&row, chosen) in rows.iter().zip(chosen) {
                *chosen = nearest(vectors.row(row), &centers).0 as u32;
            }
            Ok(())
        },
    );
    let mut parts = vec![vec![]; centers.len()];
    for (&row, &center) in rows.iter().zip(&chosen) {
        parts[center as usize].push(row);
    }
    parts.retain(|part| !part.is_empty());
    match parts.len() {
        // All rows are alike.
        1 => rows.chunks(ROWS).map(<[u32]>::to_vec).collect(),
        _ => parts,
    }
}

/// The centres of `count` cells, learned from a sample of `rows`.
fn learn(vectors: &Vectors, rows: &[u32], count: usize, seed: u64, tick: &mut dyn FnMut()) -> Vec<Vec<f32>> {
    let random = |i: usize, below: usize| {
        (splitmix64(seed ^ splitmix64(i as u64 ^ (rows[0] as u64) << 32)) % below as u64) as usize
    };
    let size = (count * SAMPLE).min(rows.len());
    // One row at random of each stretch of equal length.
    let sample: Vec<&[f32]> = (0..size)
        .map(|i| {
            let (start, end) = (i * rows.len() / size, (i + 1) * rows.len() / size);
            vectors.row(rows[start + random(i, end - start)])
        })
        .collect();
    let mut centers: Vec<Vec<f32>> = vec![sample[random(size, size)].to_vec()];
    let mut distances = vec![f32::INFINITY; size];
    while centers.len() < count {
        tick();
        let last = &centers[centers.len() - 1];
        let mut total = 0.0;
        for (distance, row) in distances.iter_mut().zip(&sample) {
            *distance = distance.min((1.0 - dot(row, last)).max(0.0));
            total += f64::from(*distance);
        }
        // The share of the whole distance at which the next centre is drawn.
        let mut left = total * random(size + centers.len(), 1 << 30) as f64 / f64::from(1 << 30);
        let drawn = distances.iter().position(|&distance| {
            left -= f64::from(distance);
            left < 0.0
        });
        match drawn {
            Some(at) => centers.push(sample[at].to_vec()),
            None => break,
        }
    }
    for _ in 0..ROUNDS {
        let mut sums = vec![vec![0.0f32; vectors.dim()]; centers.len()];
        for (i, row) in sample.iter().enumerate() {
            if i.is_multiple_of(CHUNK) {
                tick();
            }
            let to = nearest(row, &centers).0;
            sums[to].iter_mut().zip(*row).for_each(|(sum, x)| *sum += x);
        }
        for (center, sum) in centers.iter_mut().zip(sums) {
            let norm = dot(&sum, &sum).sqrt();
            // One that nothing is near to stays where it is.
            if norm > 0.0 {
                center.iter_mut().zip(sum).for_each(|(x, sum)| *x = sum / norm);
            }
        }
    }
    centers
}

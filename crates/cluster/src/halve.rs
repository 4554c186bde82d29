//! Cutting a part in two by spherical 2-means.

use crate::limits::Limits;
use crate::vectors::{Vectors, add, dot};
use graphrag_linear::{Pace, Stopped, splitmix64};

/// Starts from which the best cut of a part is taken.
const TRIES: u64 = 3;

/// Rounds of 2-means at most.
const ROUNDS: usize = 12;

/// The smaller side of a cut has at least one in so many rows.
const LEAST: usize = 10;

/// What one thread reuses from cut to cut.
#[derive(Default)]
pub struct Scratch {
    scores: Vec<f32>,
    best: Vec<f32>,
    whole: Vec<f32>,
    side: Vec<f32>,
    direction: Vec<f32>,
}

/// Cuts `rows` until every part is within the limits, single rows included.
pub fn cut_up(
    vectors: &Vectors,
    sizes: &[u32],
    limits: &Limits,
    seed: u64,
    rows: Vec<u32>,
    scratch: &mut Scratch,
    pace: &mut Pace,
) -> Result<Vec<Vec<u32>>, Stopped> {
    let (mut open, mut parts) = (vec![rows], vec![]);
    while let Some(rows) = open.pop() {
        let tokens = rows.iter().map(|&row| limits.counted(sizes[row as usize])).sum();
        if limits.hold(rows.len(), tokens) {
            parts.push(rows);
        } else {
            let (one, other) = halve(vectors, &rows, seed, scratch, pace)?;
            open.extend([other, one]);
        }
    }
    Ok(parts)
}

/// Two parts of two or more rows, each with its rows in their order.
fn halve(
    vectors: &Vectors,
    rows: &[u32],
    seed: u64,
    scratch: &mut Scratch,
    pace: &mut Pace,
) -> Result<(Vec<u32>, Vec<u32>), Stopped> {
    let work = rows.len() * vectors.dim();
    scratch.whole.clear();
    scratch.whole.resize(vectors.dim(), 0.0);
    pace.step(work)?;
    rows.iter().for_each(|&row| add(&mut scratch.whole, vectors.row(row)));
    let mut best = f32::NEG_INFINITY;
    scratch.best.clear();
    for attempt in 0..TRIES {
        let first = splitmix64(seed ^ splitmix64(u64::from(rows[0]) << 2 | attempt)) as usize % rows.len();
        let objective = two_means(vectors, rows, rows[first], scratch, pace)?;
        if objective > best {
            best = objective;
            std::mem::swap(&mut scratch.best, &mut scratch.scores);
        }
    }
    // Those on one side are above 0. Equal rows are cut in their order.
    let mut order: Vec<usize> = (0..rows.len()).collect();
    let scores = &scratch.best;
    let above = scores.iter().filter(|&&score| score > 0.0).count();
    let least = (rows.len() / LEAST).max(2).min(rows.len() / 2);
    let take = match above {
        0 => rows.len() / 2,
        _ if above == rows.len() => rows.len() / 2,
        _ => above.clamp(least, rows.len() - least),
    };
    order.sort_unstable_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
    order[..take].sort_unstable();
    order[take..].sort_unstable();
    let of = |part: &[usize]| part.iter().map(|&at| rows[at]).collect();
    Ok((of(&order[..take]), of(&order[take..])))
}

/// Fills `scratch.scores` with how much nearer each row is to the centre of one side than to the other's; answers the sum of the lengths of the
/// sides' sums, which is the greater the closer the rows are to their centres.
fn two_means(
    vectors: &Vectors,
    rows: &[u32],
    first: u32,
    scratch: &mut Scratch,
    pace: &mut Pace,
) -> Result<f32, Stopped> {
    let Scratch {
        scores,
        whole,
        side,
        direction,
        ..
    } = scratch;
    let work = rows.len() * vectors.dim();
    let farthest = |from: u32, pace: &mut Pace| -> Result<u32, Stopped> {
        pace.step(work)?;
        let mut found = (f32::INFINITY, from);
        for &row in rows {
            let cosine = dot(vectors.row(from), vectors.row(row));
            if cosine < found.0 {
                found = (cosine, row);
            }
        }
        Ok(found.1)
    };
    let one = farthest(first, pace)?;
    let other = farthest(one, pace)?;
    direction.clear();
    direction.extend(vectors.row(one).iter().zip(vectors.row(other)).map(|(a, b)| a - b));
    scores.clear();
    scores.resize(rows.len(), 0.0);
    side.clear();
    side.resize(vectors.dim(), 0.0);
    let mut objective = 0.0;
    for _ in 0..ROUNDS {
        pace.step(work)?;
        let mut moved = false;
        for (score, &row) in scores.iter_mut().zip(rows) {
            let values = vectors.row(row);
            let new = dot(values, direction);
            match (*score > 0.0, new > 0.0) {
                (false, true) => side.iter_mut().zip(values).for_each(|(sum, x)| *sum += x),
                (true, false) => side.iter_mut().zip(values).for_each(|(sum, x)| *sum -= x),
                _ => {
                    *score = new;
                    continue;
                }
            }
            moved = true;
            *score = new;
        }
        let norm = dot(side, side).sqrt();
        let rest: Vec<f32> = whole
            .iter()
            .zip(side.iter())
            .map(|(whole, side)| whole - side)
            .collect();
        let rest_norm = dot(&rest, &rest).sqrt();
        objective = norm + rest_norm;
        if !moved || norm == 0.0 || rest_norm == 0.0 {
            break;
        }
        for ((to, side), rest) in direction.iter_mut().zip(side.iter()).zip(&rest) {
            *to = side / norm - rest / rest_norm;
        }
    }
    Ok(objective)
}

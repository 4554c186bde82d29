//! Groups around rows that lie far apart.

use crate::vectors::{Vectors, dot};
use graphrag_linear::{Pace, Stopped, splitmix64};

/// Groups `rows` around `count` of them, each drawn with a probability in proportion to its distance from those drawn before; each row goes to the nearest.
///
/// Fewer groups if fewer rows differ. Source: k-means++ (Arthur and Vassilvitskii 2007), for the distance 1 - cosine.
pub fn around_seeds(
    vectors: &Vectors,
    rows: &[u32],
    count: usize,
    seed: u64,
    pace: &mut Pace,
) -> Result<Vec<Vec<u32>>, Stopped> {
    if rows.is_empty() {
        return Ok(vec![]);
    }
    let random = |at: usize| splitmix64(seed ^ splitmix64(u64::from(rows[0]) << 32 | at as u64));
    // The distance of each row from its nearest seed, and which one that is.
    let mut nearest = vec![(f32::INFINITY, 0u32); rows.len()];
    let mut next = random(0) as usize % rows.len();
    let mut groups = 0;
    while groups < count.max(1) {
        pace.step(rows.len() * vectors.dim())?;
        let center = vectors.row(rows[next]);
        let mut total = 0.0;
        for (nearest, &row) in nearest.iter_mut().zip(rows) {
            let distance = (1.0 - dot(center, vectors.row(row))).max(0.0);
            if distance < nearest.0 {
                *nearest = (distance, groups as u32);
            }
            total += f64::from(nearest.0);
        }
        groups += 1;
        let mut left = total * (random(groups) >> 11) as f64 / (1_u64 << 53) as f64;
        let drawn = nearest.iter().position(|&(distance, _)| {
            left -= f64::from(distance);
            left < 0.0
        });
        match drawn {
            // Rounding leaves a small distance between equal rows.
            Some(at) if nearest[at].0 > 1e-6 => next = at,
            _ => break,
        }
    }
    let mut found = vec![vec![]; groups];
    for (&(_, group), &row) in nearest.iter().zip(rows) {
        found[group as usize].push(row);
    }
    found.retain(|group| !group.is_empty());
    Ok(found)
}

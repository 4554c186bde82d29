//! Aggregation: a graph whose nodes are the parts of another one.

use super::Net;
use crate::Pace;

/// A graph that was made from a finer one.
pub(super) struct Coarse {
    starts: Vec<usize>,
    neighbors: Vec<u32>,
    weights: Vec<f32>,
    sizes: Vec<f64>,
}

impl Coarse {
    pub(super) fn net(&self) -> Net<'_> {
        Net {
            starts: &self.starts,
            neighbors: &self.neighbors,
            weights: &self.weights,
            sizes: &self.sizes,
        }
    }
}

/// The graph of so many parts. Edges inside a part are left out: they count in its size.
pub(super) fn aggregate(net: Net, part_of: &[u32], parts: usize, pace: &mut Pace) -> Coarse {
    let mut first = vec![0usize; parts + 1];
    let mut sizes = vec![0.0; parts];
    for (part, size) in part_of.iter().zip(net.sizes) {
        first[*part as usize + 1] += 1;
        sizes[*part as usize] += size;
    }
    for part in 0..parts {
        first[part + 1] += first[part];
    }
    let mut members = vec![0u32; part_of.len()];
    let mut free = first.clone();
    for (node, part) in part_of.iter().enumerate() {
        let slot = &mut free[*part as usize];
        members[*slot] = node as u32;
        *slot += 1;
    }
    let mut starts = Vec::with_capacity(parts + 1);
    let (mut neighbors, mut weights) = (Vec::new(), Vec::new());
    let mut sums = vec![0.0f64; parts];
    let mut near: Vec<u32> = Vec::new();
    starts.push(0);
    for part in 0..parts as u32 {
        for &node in &members[first[part as usize]..first[part as usize + 1]] {
            pace.step(1 + net.starts[node as usize + 1] - net.starts[node as usize]);
            for (neighbor, weight) in net.row(node) {
                let other = part_of[neighbor as usize];
                if other != part && weight > 0.0 {
                    let sum = &mut sums[other as usize];
                    if *sum == 0.0 {
                        near.push(other);
                    }
                    *sum += f64::from(weight);
                }
            }
        }
        for other in near.drain(..) {
            neighbors.push(other);
            weights.push((std::mem::take(&mut sums[other as usize]) as f32).min(f32::MAX));
        }
        starts.push(neighbors.len());
    }
    Coarse {
        starts,
        neighbors,
        weights,
        sizes,
    }
}

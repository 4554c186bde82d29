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
    let (members, first) = super::by_label(part_of, parts, 0..part_of.len() as u32);
    let mut sizes = vec![0.0; parts];
    for (part, size) in part_of.iter().zip(net.sizes) {
        sizes[*part as usize] += size;
    }
    let mut starts = Vec::with_capacity(parts + 1);
    let mut neighbors = Vec::with_capacity(net.neighbors.len());
    let mut weights = Vec::with_capacity(net.neighbors.len());
    let mut sums = vec![0.0f64; parts];
    // The parts that have such an edge, and room for one more.
    let mut near = vec![0u32; parts + 1];
    starts.push(0);
    for part in 0..parts as u32 {
        let mut count = 0;
        for &node in &members[first[part as usize]..first[part as usize + 1]] {
            pace.step(1 + net.degree(node));
            for (neighbor, weight) in net.row(node) {
                let other = part_of[neighbor as usize];
                let sum = &mut sums[other as usize];
                near[count] = other;
                count += usize::from(*sum == 0.0 && weight > 0.0);
                *sum += f64::from(weight);
            }
        }
        for &other in &near[..count] {
            let sum = std::mem::take(&mut sums[other as usize]);
            if other != part {
                neighbors.push(other);
                weights.push((sum as f32).min(f32::MAX));
            }
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

/// The same graph with its nodes in another order.
pub(super) fn reordered(net: Net, order: &[u32], pace: &mut Pace) -> Coarse {
    let mut place = vec![0u32; order.len()];
    for (at, &node) in order.iter().enumerate() {
        place[node as usize] = at as u32;
    }
    let mut starts = Vec::with_capacity(order.len() + 1);
    let mut neighbors = Vec::with_capacity(net.neighbors.len());
    let mut weights = Vec::with_capacity(net.neighbors.len());
    starts.push(0);
    for &node in order {
        let range = net.starts[node as usize]..net.starts[node as usize + 1];
        pace.step(1 + range.len());
        neighbors.extend(
            net.neighbors[range.clone()]
                .iter()
                .map(|&neighbor| place[neighbor as usize]),
        );
        weights.extend_from_slice(&net.weights[range]);
        starts.push(neighbors.len());
    }
    Coarse {
        starts,
        neighbors,
        weights,
        sizes: order.iter().map(|&node| net.sizes[node as usize]).collect(),
    }
}

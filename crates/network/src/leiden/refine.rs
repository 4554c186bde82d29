//! Refinement: inside each community single nodes join others, where both are well connected to the rest of it.

use super::Net;
use crate::Pace;
use crate::random::Random;

/// The part of its community that each node belongs to, and the number of parts. Each part is connected. Labels are below `communities`.
pub(super) fn refine(
    net: Net,
    factor: f64,
    labels: &[u32],
    communities: usize,
    random: &mut Random,
    pace: &mut Pace,
) -> (Vec<u32>, usize) {
    let nodes = net.nodes();
    let mut whole = vec![0.0; communities];
    for (label, size) in labels.iter().zip(net.sizes) {
        whole[*label as usize] += size;
    }
    // Of each part: its size, its nodes, and the weight of the edges from it to the rest of its community.
    let mut sizes = net.sizes.to_vec();
    let mut members = vec![1u32; nodes];
    let mut outward = vec![0.0f64; nodes];
    for node in 0..nodes as u32 {
        let label = labels[node as usize];
        pace.step(1 + net.starts[node as usize + 1] - net.starts[node as usize]);
        outward[node as usize] = net
            .row(node)
            .filter(|(neighbor, _)| labels[*neighbor as usize] == label)
            .map(|(_, weight)| f64::from(weight))
            .sum();
    }
    let mut parts: Vec<u32> = (0..nodes as u32).collect();
    let mut weights = vec![0.0f64; nodes];
    let mut near: Vec<u32> = Vec::new();
    for node in random.order(nodes) {
        // One that others have joined stays.
        if parts[node as usize] != node || members[node as usize] != 1 {
            continue;
        }
        let (label, size) = (labels[node as usize], net.sizes[node as usize]);
        let all = whole[label as usize];
        let ties = outward[node as usize];
        if ties == 0.0 || ties < factor * size * (all - size) {
            continue;
        }
        pace.step(1 + net.starts[node as usize + 1] - net.starts[node as usize]);
        for (neighbor, weight) in net.row(node) {
            if labels[neighbor as usize] == label {
                let part = parts[neighbor as usize];
                let sum = &mut weights[part as usize];
                if *sum == 0.0 {
                    near.push(part);
                }
                *sum += f64::from(weight);
            }
        }
        let mut best = None;
        let mut most = 0.0;
        for part in near.drain(..) {
            let weight = std::mem::take(&mut weights[part as usize]);
            let of_part = sizes[part as usize];
            let gain = weight - factor * size * of_part;
            let is_well_connected = outward[part as usize] >= factor * of_part * (all - of_part);
            if gain > most && is_well_connected {
                (best, most) = (Some((part, weight)), gain);
            }
        }
        if let Some((part, weight)) = best {
            parts[node as usize] = part;
            members[part as usize] += 1;
            sizes[part as usize] += size;
            outward[part as usize] += ties - 2.0 * weight;
        }
    }
    let count = super::renumber(&mut parts);
    (parts, count)
}

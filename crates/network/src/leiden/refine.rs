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
    let mut longest = 0;
    for node in 0..nodes as u32 {
        let label = labels[node as usize];
        pace.step(1 + net.degree(node));
        longest = longest.max(net.degree(node));
        for (neighbor, weight) in net.row(node) {
            let is_inside = labels[neighbor as usize] == label;
            outward[node as usize] += if is_inside { f64::from(weight) } else { 0.0 };
        }
    }
    let mut parts: Vec<u32> = (0..nodes as u32).collect();
    // Of each part, the weight of the edges from the node at hand to it; the parts that have such edges, and room for one more.
    let mut weights = vec![0.0f64; nodes];
    let mut near = vec![0u32; longest + 1];
    let order = super::by_label(labels, communities, random.order(nodes).into_iter()).0;
    for node in order {
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
        pace.step(1 + net.degree(node));
        let mut count = 0;
        for (neighbor, weight) in net.row(node) {
            let is_inside = labels[neighbor as usize] == label;
            let part = parts[neighbor as usize];
            let sum = &mut weights[part as usize];
            near[count] = part;
            count += usize::from(is_inside && *sum == 0.0);
            *sum += if is_inside { f64::from(weight) } else { 0.0 };
        }
        let mut best = None;
        let mut most = 0.0;
        for &part in &near[..count] {
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

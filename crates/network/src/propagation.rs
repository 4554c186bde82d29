//! Communities by label propagation.

use crate::Pace;
use crate::graph::Graph;
use crate::leiden::connected;
use crate::random::Random;

/// Rounds at most; most graphs settle within ten.
const ROUNDS: usize = 100;

/// The communities of a graph: each node takes the label that weighs most among its neighbours, one after the other in an order that
/// the `seed` gives, until none changes or 100 rounds are over. Of equal ones it keeps its own, else the lowest is taken.
///
/// Communities are connected by edges of a weight above 0 and numbered from 0 by their lowest nodes. Raghavan, Albert and Kumara, 2007,
/// "Near linear time algorithm to detect community structures in large-scale networks".
pub fn label_propagation(graph: &Graph, seed: u64, tick: &mut dyn FnMut()) -> Vec<u32> {
    let nodes = graph.nodes() as usize;
    let mut labels: Vec<u32> = (0..graph.nodes()).collect();
    let mut random = Random::new(seed);
    let mut sums = vec![0.0f64; nodes];
    let mut near: Vec<u32> = Vec::new();
    let mut pace = Pace::new(tick);
    for _ in 0..ROUNDS {
        let mut moved = false;
        for node in random.order(nodes) {
            let (neighbors, weights) = graph.neighbors(node);
            pace.step(1 + neighbors.len());
            for (&neighbor, &weight) in neighbors.iter().zip(weights) {
                let label = labels[neighbor as usize];
                if sums[label as usize] == 0.0 {
                    near.push(label);
                }
                sums[label as usize] += f64::from(weight);
            }
            let here = labels[node as usize];
            let (mut best, mut most) = (here, sums[here as usize]);
            for label in near.drain(..) {
                let sum = std::mem::take(&mut sums[label as usize]);
                if sum > most || sum == most && best != here && label < best {
                    (best, most) = (label, sum);
                }
            }
            moved |= best != here;
            labels[node as usize] = best;
        }
        if !moved {
            break;
        }
    }
    connected(graph, &mut labels, &mut pace);
    labels
}

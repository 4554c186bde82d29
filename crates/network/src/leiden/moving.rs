//! Local moving: each node into the community that gains most by it, until none gains.

use super::Net;
use crate::Pace;
use crate::random::Random;

/// Which nodes are looked at first.
#[derive(Clone, Copy)]
pub(super) enum Start<'a> {
    /// All, in an order by chance.
    All,
    /// These, which are all, in this order, and none again.
    Once(&'a [u32]),
    /// All, as they are numbered: few will move.
    InOrder,
    /// These and their neighbours.
    Around(&'a [u32]),
}

/// The nodes that wait to be looked at, each once.
#[derive(Default)]
struct Queue {
    ring: Vec<u32>,
    first: usize,
    count: usize,
    waits: Vec<bool>,
}

impl Queue {
    fn fill(&mut self, nodes: usize, order: &[u32]) {
        self.ring.clear();
        self.ring.resize(nodes, 0);
        self.waits.clear();
        self.waits.resize(nodes, false);
        (self.first, self.count) = (0, 0);
        for &node in order {
            self.push(node);
        }
    }

    fn push(&mut self, node: u32) {
        let waits = &mut self.waits[node as usize];
        if !*waits {
            *waits = true;
            let mut at = self.first + self.count;
            if at >= self.ring.len() {
                at -= self.ring.len();
            }
            self.ring[at] = node;
            self.count += 1;
        }
    }

    fn pop(&mut self) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        let node = self.ring[self.first];
        self.first += 1;
        if self.first == self.ring.len() {
            self.first = 0;
        }
        self.count -= 1;
        self.waits[node as usize] = false;
        Some(node)
    }
}

/// What draws a node into a community, side by side in memory: its size, and the weight of the edges from the node at hand into it.
#[derive(Clone, Copy, Default)]
struct Pull {
    size: f64,
    weight: f64,
}

/// Local moving with its scratch memory.
#[derive(Default)]
pub(super) struct Mover {
    queue: Queue,
    communities: Vec<Pull>,
    /// Of each community its nodes.
    members: Vec<u32>,
    /// The communities that the node at hand has edges into, and room.
    near: Vec<u32>,
    /// Communities without nodes.
    empty: Vec<u32>,
}

impl Mover {
    /// Moves nodes until no move gains more than `least`. Labels are below the number of nodes.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn improve(
        &mut self,
        net: Net,
        factor: f64,
        least: f64,
        labels: &mut [u32],
        start: Start,
        random: &mut Random,
        pace: &mut Pace,
    ) {
        let nodes = net.nodes();
        let order = match start {
            Start::All => random.order(nodes),
            Start::Once(order) => order.to_vec(),
            Start::InOrder => (0..nodes as u32).collect(),
            Start::Around(changed) => {
                let mut order: Vec<u32> = changed.to_vec();
                order.extend(
                    changed
                        .iter()
                        .flat_map(|&node| net.row(node).map(|(neighbor, _)| neighbor)),
                );
                order.sort_unstable();
                order.dedup();
                random.shuffle(&mut order);
                order
            }
        };
        self.queue.fill(nodes, &order);
        self.count(net, labels);
        let again = !matches!(start, Start::Once(_));
        while let Some(node) = self.queue.pop() {
            let here = labels[node as usize];
            pace.step(1 + net.degree(node));
            let there = self.best(net, factor, least, labels, node);
            if there == here {
                continue;
            }
            let size = net.sizes[node as usize];
            self.communities[here as usize].size -= size;
            self.members[here as usize] -= 1;
            if self.members[here as usize] == 0 {
                // Not what rounding has left.
                self.communities[here as usize].size = 0.0;
                self.empty.push(here);
            }
            self.communities[there as usize].size += size;
            self.members[there as usize] += 1;
            labels[node as usize] = there;
            if !again {
                continue;
            }
            for (neighbor, _) in net.row(node) {
                if labels[neighbor as usize] != there {
                    self.queue.push(neighbor);
                }
            }
        }
    }

    fn count(&mut self, net: Net, labels: &[u32]) {
        let nodes = net.nodes();
        self.communities.clear();
        self.communities.resize(nodes, Pull::default());
        self.members.clear();
        self.members.resize(nodes, 0);
        for (label, size) in labels.iter().zip(net.sizes) {
            self.communities[*label as usize].size += size;
            self.members[*label as usize] += 1;
        }
        self.empty.clear();
        self.empty.extend(
            (0..nodes as u32)
                .rev()
                .filter(|&label| self.members[label as usize] == 0),
        );
    }

    /// The community in which the node gains most: its own unless another is better; of equal ones the first by its neighbours.
    fn best(&mut self, net: Net, factor: f64, least: f64, labels: &[u32], node: u32) -> u32 {
        let here = labels[node as usize];
        let degree = net.degree(node);
        if self.near.len() <= degree {
            self.near.resize(degree + 1, 0);
        }
        let mut count = 0;
        for (neighbor, weight) in net.row(node) {
            let label = labels[neighbor as usize];
            let sum = &mut self.communities[label as usize].weight;
            // Without a branch, which would often be foreseen wrongly.
            self.near[count] = label;
            count += usize::from(*sum == 0.0);
            *sum += f64::from(weight);
        }
        let size = net.sizes[node as usize];
        let pull = factor * size;
        let mut best = here;
        let own = self.communities[here as usize];
        let mut most = own.weight - pull * (own.size - size) + least;
        // Alone it gains nothing and loses nothing.
        if most < 0.0
            && self.members[here as usize] > 1
            && let Some(&free) = self.empty.last()
        {
            (best, most) = (free, 0.0);
        }
        for &label in &self.near[..count] {
            let community = &mut self.communities[label as usize];
            let gain = std::mem::take(&mut community.weight) - pull * community.size;
            if gain > most && label != here {
                (best, most) = (label, gain);
            }
        }
        if self.empty.last() == Some(&best) && best != here {
            self.empty.pop();
        }
        best
    }
}

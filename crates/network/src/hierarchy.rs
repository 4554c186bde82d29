//! Communities within communities, down to a size.

use crate::graph::Graph;
use crate::leiden::{Objective, leiden, renumber};

/// One community of a hierarchy.
#[derive(Clone, Debug, PartialEq)]
pub struct Community {
    /// 0 is the coarsest.
    pub level: u32,
    /// The place of the one that it is a part of.
    pub parent: Option<usize>,
    /// Its nodes, ascending.
    pub members: Vec<u32>,
}

/// A hierarchy that was found before the graph changed a little.
pub struct Before {
    /// For each level the labels of all nodes, below their number; those of a community that does not divide are the same on the next
    /// level, and a node that is new has one of its own.
    pub levels: Vec<Vec<u32>>,
    /// The nodes around which the graph has changed, ascending.
    pub changed: Vec<u32>,
}

impl Before {
    fn labels(&self, level: u32) -> &[u32] {
        let level = (level as usize).min(self.levels.len().saturating_sub(1));
        self.levels.get(level).map_or(&[], Vec::as_slice)
    }
}

/// Divides communities of more than `max_size` nodes again on the graph of their inner edges, and their parts likewise, until none is
/// left or none divides. `top` are the labels of level 0. In the order of levels, then of parents, then of lowest nodes.
///
/// One that doesn't divide has no community below it, and stands for itself on deeper levels. On its inner edges modularity is
/// measured against these alone, which has a community divide at the same resolution; the constant Potts model knows no such
/// measure, so its resolution is doubled, at most 32 times, until a community divides. A community that was there `before`, and in which nothing
/// has changed, is divided as it was; in others the search goes on from there. As Microsoft's GraphRAG does, but with all
/// components of the graph and with nodes that are alone.
pub fn hierarchy(
    graph: &Graph,
    top: &[u32],
    objective: Objective,
    max_size: usize,
    seed: u64,
    before: Option<&Before>,
    tick: &mut dyn FnMut(),
) -> Vec<Community> {
    const DOUBLINGS: u32 = 32;
    let mut communities: Vec<Community> = members_of(top)
        .into_iter()
        .map(|members| Community {
            level: 0,
            parent: None,
            members,
        })
        .collect();
    let mut place = vec![u32::MAX; graph.nodes() as usize];
    let sizes: Vec<Vec<u32>> = before.map_or(Vec::new(), |before| {
        before.levels.iter().map(|labels| sizes_of(labels)).collect()
    });
    // How often the resolution was doubled where a community was found.
    let mut doublings = vec![0u32; communities.len()];
    let most = match objective {
        Objective::Modularity { .. } => u32::MAX,
        Objective::Potts { .. } => DOUBLINGS,
    };
    let mut at = 0;
    while at < communities.len() {
        let Community { level, ref members, .. } = communities[at];
        if members.len() > max_size.max(1) {
            let old = before.map(|before| Old::of(before, &sizes, level, members));
            let mut doubled = doublings[at];
            let parts = match old {
                Some(old) if old.stands => {
                    doubled += 1;
                    old.parts
                }
                old => {
                    let inner = graph.induced(members, &mut place);
                    // One community would stay one: nothing leads a node out of it.
                    let start = old.filter(|old| old.parts.iter().any(|part| *part != old.parts[0]));
                    let start = start.as_ref().map(|old| (&old.parts[..], &old.changed[..]));
                    let mut parts = vec![0; members.len()];
                    while doubled < most && parts.iter().all(|part| *part == 0) {
                        doubled += 1;
                        let finer = match objective {
                            Objective::Modularity { .. } => objective,
                            Objective::Potts { resolution } => Objective::Potts {
                                resolution: resolution * f64::from(2u32).powi(doubled as i32),
                            },
                        };
                        parts = leiden(&inner, finer, seed, start, tick);
                        if matches!(objective, Objective::Modularity { .. }) {
                            break;
                        }
                    }
                    parts
                }
            };
            let parts = members_of(&parts);
            if parts.len() > 1 {
                let finer: Vec<Community> = parts
                    .iter()
                    .map(|part| Community {
                        level: level + 1,
                        parent: Some(at),
                        members: part.iter().map(|&node| members[node as usize]).collect(),
                    })
                    .collect();
                doublings.extend(vec![doubled; finer.len()]);
                communities.extend(finer);
            }
        }
        at += 1;
    }
    communities
}

/// What was there before of the members of a community.
struct Old {
    /// Their labels on the next level, numbered from 0.
    parts: Vec<u32>,
    /// Those around which something has changed, by their places among the members.
    changed: Vec<u32>,
    /// They were a community, and nothing has changed.
    stands: bool,
}

impl Old {
    fn of(before: &Before, sizes: &[Vec<u32>], level: u32, members: &[u32]) -> Old {
        let at = (level as usize).min(sizes.len() - 1);
        let (here, below) = (before.labels(level), before.labels(level + 1));
        let label = here[members[0] as usize];
        let was_one = members.iter().all(|&node| here[node as usize] == label)
            && sizes[at][label as usize] as usize == members.len();
        let changed: Vec<u32> = (0..members.len() as u32)
            .filter(|&place| before.changed.binary_search(&members[place as usize]).is_ok())
            .collect();
        let mut parts: Vec<u32> = members.iter().map(|&node| below[node as usize]).collect();
        renumber(&mut parts);
        Old {
            parts,
            stands: was_one && changed.is_empty(),
            changed,
        }
    }
}

/// How many nodes have each label.
fn sizes_of(labels: &[u32]) -> Vec<u32> {
    let mut sizes = vec![0; labels.iter().max().map_or(0, |label| *label as usize + 1)];
    for label in labels {
        sizes[*label as usize] += 1;
    }
    sizes
}

/// The nodes of each label, which are numbered from 0.
fn members_of(labels: &[u32]) -> Vec<Vec<u32>> {
    let mut members = vec![Vec::new(); labels.iter().max().map_or(0, |label| *label as usize + 1)];
    for (node, label) in labels.iter().enumerate() {
        members[*label as usize].push(node as u32);
    }
    members
}

/// The labels of a level: the place of each node's community there, or of the deepest above.
pub fn labels_at(communities: &[Community], level: u32, nodes: u32) -> Vec<u32> {
    let mut labels = vec![0; nodes as usize];
    // Deeper ones come later and replace those that they are parts of.
    for (at, community) in communities.iter().enumerate().filter(|(_, c)| c.level <= level) {
        for &node in &community.members {
            labels[node as usize] = at as u32;
        }
    }
    labels
}

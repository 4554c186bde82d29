//! Communities within communities, down to a size.

use crate::graph::Graph;
use crate::leiden::{Objective, leiden};

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

/// Divides communities of more than `max_size` nodes again on the graph of their inner edges, and their parts likewise, until none is
/// left or none divides. `top` are the labels of level 0. In the order of levels, then of parents, then of lowest nodes.
///
/// One that doesn't divide has no community below it, and stands for itself on deeper levels. On its inner edges modularity is
/// measured against these alone, which has a community divide at the same resolution; the constant Potts model knows no such
/// measure, so its resolution is doubled from level to level, at most 32 times. As Microsoft's GraphRAG does, but with all
/// components of the graph and with nodes that are alone.
pub fn hierarchy(
    graph: &Graph,
    top: &[u32],
    objective: Objective,
    max_size: usize,
    seed: u64,
    tick: &mut dyn FnMut(),
) -> Vec<Community> {
    /// Doublings at most.
    const DEEPEST: u32 = 32;
    let mut communities: Vec<Community> = members_of(top)
        .into_iter()
        .map(|members| Community {
            level: 0,
            parent: None,
            members,
        })
        .collect();
    let mut place = vec![u32::MAX; graph.nodes() as usize];
    let mut at = 0;
    while at < communities.len() {
        let Community { level, ref members, .. } = communities[at];
        if members.len() > max_size.max(1) {
            let inner = graph.induced(members, &mut place);
            let parts = match objective {
                Objective::Modularity { .. } => leiden(&inner, objective, seed, None, tick),
                Objective::Potts { .. } if level < DEEPEST => {
                    let finer = objective.times(f64::from(2u32).powi(level as i32 + 1));
                    leiden(&inner, finer, seed, None, tick)
                }
                Objective::Potts { .. } => vec![0; members.len()],
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
                communities.extend(finer);
            }
        }
        at += 1;
    }
    communities
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

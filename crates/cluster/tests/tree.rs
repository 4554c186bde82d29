//! The laws of the tree, over a summarizer that answers the mean of the children, a fixed vector, or nothing.

use graphrag_cluster::{
    BuildError, Child, Limits, Method, Options, Parent, Summarize, Vectors, Written, build, bytes_needed,
};
use graphrag_linear::Crew;
use proptest::prelude::*;
use std::collections::HashSet;
use std::num::NonZero;

#[derive(Clone, Copy, Debug)]
enum Answer {
    Mean,
    Same,
    Nothing,
}

/// Keeps every node's vector, and checks the order and size of what it is asked.
struct Summarizer {
    answer: Answer,
    nodes: Vec<Vec<f32>>,
    levels: Vec<u32>,
}

impl Summarize for Summarizer {
    type Error = String;

    fn summarize(&mut self, level: u32, clusters: &[Vec<Child>], _: &[Option<u32>]) -> Result<Vec<Written>, String> {
        self.levels.push(level);
        let dim = self.nodes[0].len();
        let mut answers = vec![];
        for cluster in clusters {
            if cluster.len() < 2 || cluster.iter().any(|child| child.node as usize >= self.nodes.len()) {
                return Err(format!("asked to summarise {cluster:?} of {} nodes", self.nodes.len()));
            }
            let answer = match self.answer {
                Answer::Mean => {
                    let sum = |i| cluster.iter().map(|child| self.nodes[child.node as usize][i]).sum();
                    Some((0..dim).map(sum).collect())
                }
                Answer::Same => Some(vec![1.0; dim]),
                Answer::Nothing => None,
            };
            answers.push(answer);
        }
        self.nodes
            .extend(answers.iter().map(|answer| answer.clone().unwrap_or(vec![0.0; dim])));
        Ok(answers
            .into_iter()
            .map(|vector| Written { vector, tokens: 200 })
            .collect())
    }
}

fn options(method: Method, cluster_size: usize, max_levels: Option<u32>, threads: usize) -> Options {
    Options {
        method,
        limits: Limits {
            tokens: 3500,
            members: cluster_size,
        },
        max_levels,
        seed: 0,
        crew: Crew {
            threads: NonZero::new(threads).unwrap(),
            spawning: |spawn| spawn(),
        },
    }
}

/// The tree by greedy groups.
fn tree(
    rows: &[Vec<f32>],
    dim: usize,
    cluster_size: usize,
    max_levels: Option<u32>,
    answer: Answer,
) -> (Vec<Parent>, Vec<u32>) {
    tree_by(options(Method::Greedy, cluster_size, max_levels, 1), rows, dim, answer)
}

fn tree_by(options: Options, rows: &[Vec<f32>], dim: usize, answer: Answer) -> (Vec<Parent>, Vec<u32>) {
    let mut s = Summarizer {
        answer,
        nodes: rows.to_vec(),
        levels: vec![],
    };
    let leaves = Vectors::new(dim, rows.concat(), &mut || ()).unwrap();
    let sizes = (0..rows.len() as u32).map(|row| 50 + row * 7 % 400).collect();
    (build(leaves, sizes, &options, &mut s, &mut || ()).unwrap(), s.levels)
}

fn parent(level: u32, children: &[u32]) -> Parent {
    let sure = |&node| Child { node, weight: 1.0 };
    Parent {
        level,
        children: children.iter().map(sure).collect(),
    }
}

#[test]
fn a_small_tree() {
    let rows = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.1], [0.1, 1.0], [1.0, -0.1]].map(|row| row.to_vec());
    let (parents, levels) = tree(&rows, 2, 2, None, Answer::Mean);
    // Leaf 4 is alone twice and joins at the top.
    assert_eq!(
        parents,
        [
            parent(1, &[0, 2]),
            parent(1, &[1, 3]),
            parent(2, &[5, 4]),
            parent(3, &[7, 6])
        ]
    );
    assert_eq!(levels, [1, 2, 3]);
}

#[test]
fn fewer_than_two_leaves_have_no_parent() {
    assert!(tree(&[], 3, 8, None, Answer::Mean).0.is_empty());
    assert!(tree(&[vec![1.0]], 1, 8, None, Answer::Mean).0.is_empty());
    assert_eq!(
        tree(&[vec![1.0], vec![-1.0]], 1, 8, None, Answer::Mean).0,
        [parent(1, &[0, 1])]
    );
}

#[test]
fn levels_are_limited() {
    let rows = vec![vec![1.0]; 20];
    assert!(tree(&rows, 1, 3, Some(0), Answer::Mean).0.is_empty());
    let (parents, levels) = tree(&rows, 1, 3, Some(1), Answer::Mean);
    assert_eq!((parents.len(), levels), (7, vec![1]));
    assert_eq!(
        tree(&rows, 1, 3, Some(99), Answer::Mean),
        tree(&rows, 1, 3, None, Answer::Mean)
    );
}

#[test]
fn wrong_answers_are_errors() {
    struct Fixed(Result<Vec<Option<Vec<f32>>>, &'static str>);
    impl Summarize for Fixed {
        type Error = &'static str;
        fn summarize(&mut self, _: u32, _: &[Vec<Child>], _: &[Option<u32>]) -> Result<Vec<Written>, &'static str> {
            let written = |vector| Written { vector, tokens: 1 };
            self.0.clone().map(|vectors| vectors.into_iter().map(written).collect())
        }
    }
    let run = |cluster_size, answer| {
        let leaves = Vectors::new(2, vec![1.0; 8], &mut || ()).unwrap();
        let options = options(Method::Greedy, cluster_size, None, 1);
        build(leaves, vec![1; 4], &options, &mut Fixed(answer), &mut || ()).unwrap_err()
    };
    assert_eq!(run(1, Ok(vec![])), BuildError::ClusterSize(1));
    assert_eq!(run(2, Ok(vec![None])), BuildError::Answers { expected: 2, got: 1 });
    assert_eq!(
        run(4, Ok(vec![Some(vec![1.0])])),
        BuildError::Dimension { expected: 2, got: 1 }
    );
    assert_eq!(run(4, Err("down")), BuildError::Summarize("down"));
}

#[test]
fn bytes_are_a_little_more_than_the_vectors() {
    let vectors = 50_000 * 384 * 4;
    for method in [Method::Bisect, Method::Mixture, Method::Greedy] {
        let options = options(method, 16, None, 2);
        let needed = bytes_needed(50_000, 384, 50_000 / 16, &options, false);
        assert!(
            needed > vectors * 9 / 8 && needed < vectors * 3 / 2,
            "{method:?}: {needed} of {vectors}"
        );
        assert_eq!(bytes_needed(usize::MAX, 384, 8, &options, false), usize::MAX);
    }
}

proptest! {
    #[test]
    fn the_laws_hold(
        dim in 1usize..6,
        values in proptest::collection::vec(
            prop_oneof![8 => (-2i8..=2).prop_map(f32::from), 1 => Just(f32::NAN), 1 => Just(f32::MAX)], 0..400),
        cluster_size in 2usize..10,
        max_levels in proptest::option::of(0u32..5),
        answer in prop_oneof![Just(Answer::Mean), Just(Answer::Same), Just(Answer::Nothing)],
    ) {
        let rows: Vec<Vec<f32>> = values.chunks_exact(dim).map(<[f32]>::to_vec).collect();
        let (parents, levels) = tree(&rows, dim, cluster_size, max_levels, answer);
        prop_assert_eq!(&parents, &tree(&rows, dim, cluster_size, max_levels, answer).0);

        // No node has two parents, and each comes before its parent.
        let mut level = vec![0; rows.len()];
        let mut has_parent = vec![false; rows.len() + parents.len()];
        for (i, parent) in parents.iter().enumerate() {
            prop_assert!((2..=cluster_size).contains(&parent.children.len()));
            for child in &parent.children {
                let child = child.node as usize;
                prop_assert!(child < rows.len() + i && level[child] < parent.level);
                prop_assert!(!std::mem::replace(&mut has_parent[child], true));
            }
            level.push(parent.level);
        }
        prop_assert!(parents.is_sorted_by_key(|parent| parent.level));

        // Each level has ⌈items / cluster_size⌉ items, so all leaves lie below what is left at the end.
        let mut items = rows.len();
        for expected in 1.. {
            if items < 2 || max_levels.is_some_and(|max| expected > max) {
                prop_assert_eq!(levels.len() + 1, expected as usize);
                break;
            }
            items = items.div_ceil(cluster_size);
        }
        let roots = has_parent.iter().filter(|&&has| !has).count();
        prop_assert_eq!(roots, items);
        if max_levels.is_none() {
            prop_assert_eq!(roots, rows.len().min(1));
        }
    }

    #[test]
    fn the_laws_of_soft_trees_hold(
        dim in 1usize..6,
        values in proptest::collection::vec((-2i8..=2).prop_map(f32::from), 0..400),
        cluster_size in 2usize..20,
        max_levels in proptest::option::of(0u32..5),
        answer in prop_oneof![Just(Answer::Mean), Just(Answer::Same), Just(Answer::Nothing)],
        method in prop_oneof![Just(Method::Bisect), Just(Method::Mixture)],
    ) {
        let rows: Vec<Vec<f32>> = values.chunks_exact(dim).map(<[f32]>::to_vec).collect();
        let run = |threads| tree_by(options(method, cluster_size, max_levels, threads), &rows, dim, answer);
        let (parents, levels) = run(1);
        prop_assert_eq!(&parents, &run(2).0);

        // Each comes before its parents, which are on one level, and no two parents have the same children.
        let mut level = vec![0; rows.len()];
        let mut parent_level: Vec<Option<u32>> = vec![None; rows.len() + parents.len()];
        let mut made = HashSet::new();
        for (i, parent) in parents.iter().enumerate() {
            prop_assert!((2..=cluster_size).contains(&parent.children.len()));
            for child in &parent.children {
                let node = child.node as usize;
                prop_assert!(node < rows.len() + i && level[node] < parent.level);
                prop_assert!(child.weight > 0.0 && child.weight <= 1.0);
                prop_assert_eq!(*parent_level[node].get_or_insert(parent.level), parent.level);
            }
            prop_assert!(made.insert(parent.children.iter().map(|child| child.node).collect::<Vec<_>>()));
            level.push(parent.level);
        }
        prop_assert!(parents.is_sorted_by_key(|parent| parent.level));

        // Levels halve, items that rise included.
        let mut items = rows.len();
        for (at, _) in levels.iter().enumerate() {
            let above = at as u32 + 1;
            let made = parents.iter().filter(|parent| parent.level == above).count();
            let risen = (0..parent_level.len()).filter(|&node| {
                level[node] < above && parent_level[node].is_none_or(|parent| parent > above)
            });
            let next = made + risen.count();
            prop_assert!(next <= items.div_ceil(2), "{} of {}", next, items);
            items = next;
        }
        if max_levels.is_none() {
            prop_assert_eq!(parent_level.iter().filter(|parent| parent.is_none()).count(), rows.len().min(1));
        }
    }
}

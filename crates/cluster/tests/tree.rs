//! The laws of the tree, over a summarizer that answers the mean of the children, a fixed vector, or nothing.

use graphrag_cluster::{BuildError, Method, Options, Parent, Summarize, Vectors, build, bytes_needed};
use proptest::prelude::*;

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

    fn summarize(&mut self, level: u32, clusters: &[Vec<u32>]) -> Result<Vec<Option<Vec<f32>>>, String> {
        self.levels.push(level);
        let dim = self.nodes[0].len();
        let mut answers = vec![];
        for cluster in clusters {
            if cluster.len() < 2 || cluster.iter().any(|&node| node as usize >= self.nodes.len()) {
                return Err(format!("asked to summarise {cluster:?} of {} nodes", self.nodes.len()));
            }
            let answer = match self.answer {
                Answer::Mean => {
                    let sum = |i| cluster.iter().map(|&node| self.nodes[node as usize][i]).sum();
                    Some((0..dim).map(sum).collect())
                }
                Answer::Same => Some(vec![1.0; dim]),
                Answer::Nothing => None,
            };
            answers.push(answer);
        }
        self.nodes
            .extend(answers.iter().map(|answer| answer.clone().unwrap_or(vec![0.0; dim])));
        Ok(answers)
    }
}

fn tree(
    rows: &[Vec<f32>],
    dim: usize,
    cluster_size: usize,
    max_levels: Option<u32>,
    answer: Answer,
) -> (Vec<Parent>, Vec<u32>) {
    let mut s = Summarizer {
        answer,
        nodes: rows.to_vec(),
        levels: vec![],
    };
    let leaves = Vectors::new(dim, rows.concat(), &mut || ()).unwrap();
    let options = Options {
        method: Method::Greedy,
        cluster_size,
        max_levels,
    };
    (build(leaves, &options, &mut s, &mut || ()).unwrap(), s.levels)
}

fn parent(level: u32, children: &[u32]) -> Parent {
    Parent {
        level,
        children: children.to_vec(),
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
        fn summarize(&mut self, _: u32, _: &[Vec<u32>]) -> Result<Vec<Option<Vec<f32>>>, &'static str> {
            self.0.clone()
        }
    }
    let run = |cluster_size, answer| {
        let leaves = Vectors::new(2, vec![1.0; 8], &mut || ()).unwrap();
        let options = Options {
            method: Method::Greedy,
            cluster_size,
            max_levels: None,
        };
        build(leaves, &options, &mut Fixed(answer), &mut || ()).unwrap_err()
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
    let needed = bytes_needed(50_000, 384, 8);
    assert!(needed > vectors * 5 / 4 && needed < vectors * 3 / 2, "{needed}");
    assert_eq!(bytes_needed(usize::MAX, 384, 8), usize::MAX);
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
            for &child in &parent.children {
                let child = child as usize;
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
}

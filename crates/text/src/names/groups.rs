//! From proposals to groups.

use super::form::Form;
use super::{Verdict, rules};
use crate::fold;
use std::collections::HashMap;

/// The groups that `pairs` of names propose: each of at least two names, sorted, and the groups sorted.
///
/// Complete linkage: pair by pair, from the highest score of [`compare`](super::compare) down and then by name, two groups
/// become one if no name of the one is [`Verdict::Different`] from a name of the other. So a chain from `Ada Lovelace` over
/// `A. Lovelace` to `Anne Lovelace` does not make one of the two, and the order of `pairs` does not matter. The time
/// grows with the square of a group: the caller bounds the proposals.
pub fn groups<'a>(pairs: &[(&'a str, &'a str)]) -> Vec<Vec<&'a str>> {
    let mut names: Vec<&str> = pairs.iter().flat_map(|&(a, b)| [a, b]).collect();
    names.sort_unstable();
    names.dedup();
    let number: HashMap<&str, usize> = names.iter().enumerate().map(|(number, &name)| (name, number)).collect();
    let folds: Vec<String> = names.iter().map(|name| fold::name(name)).collect();
    let forms: Vec<Option<Form>> = folds.iter().map(|fold| Form::of(fold)).collect();
    let score = |a: usize, b: usize| -> Option<f32> {
        if folds[a] == folds[b] {
            return Some(1.0);
        }
        match rules::judge(forms[a].as_ref()?, forms[b].as_ref()?) {
            Verdict::Ask { score, .. } => Some(score),
            Verdict::Same => Some(1.0),
            Verdict::Different => None,
        }
    };
    let mut proposals: Vec<(f32, usize, usize)> = pairs
        .iter()
        .map(|(a, b)| (number[a].min(number[b]), number[a].max(number[b])))
        .filter_map(|(a, b)| Some((score(a, b)?, a, b)))
        .collect();
    proposals.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let mut of: Vec<usize> = (0..names.len()).collect();
    let mut members: Vec<Vec<usize>> = (0..names.len()).map(|number| vec![number]).collect();
    for (_, a, b) in proposals {
        let (a, b) = (of[a].min(of[b]), of[a].max(of[b]));
        if a != b
            && members[a]
                .iter()
                .all(|&x| members[b].iter().all(|&y| score(x, y).is_some()))
        {
            let joined = std::mem::take(&mut members[b]);
            for &member in &joined {
                of[member] = a;
            }
            members[a].extend(joined);
        }
    }
    let mut groups: Vec<Vec<&str>> = members
        .into_iter()
        .filter(|members| members.len() > 1)
        .map(|mut members| {
            members.sort_unstable();
            members.into_iter().map(|number| names[number]).collect()
        })
        .collect();
    groups.sort_unstable();
    groups
}

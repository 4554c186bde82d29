//! The pairs of many names that are worth a question.

use super::{BLOCK, Verdict, compare, keys};

/// Two names that may be one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Their numbers, the lower first.
    pub names: (u32, u32),
    pub score: f32,
    pub reason: &'static str,
}

/// Candidates that are kept before those that came twice are taken out.
const HELD: usize = 1 << 22;

/// The pairs of `names` that [`compare`] asks about with a score of at least `least`, by number; and how many keys were passed over, since more
/// than [`BLOCK`] names share them. At most 4 billion names.
///
/// Only names that share a key are compared: time grows with their number, not with its square. `tick` is called once for each name.
pub fn pairs(names: &[&str], least: f32, tick: &mut dyn FnMut()) -> (Vec<Pair>, usize) {
    let mut entries: Vec<(u64, u32)> = vec![];
    for (at, name) in names.iter().enumerate() {
        tick();
        entries.extend(keys(name).into_iter().map(|key| (key, at as u32)));
    }
    entries.sort_unstable();
    let (mut candidates, mut passed_over) = (Vec::<(u32, u32)>::new(), 0);
    for block in entries.chunk_by(|a, b| a.0 == b.0) {
        if block.len() > BLOCK {
            passed_over += 1;
            continue;
        }
        for (at, &(_, a)) in block.iter().enumerate() {
            candidates.extend(block[at + 1..].iter().map(|&(_, b)| (a, b)));
        }
        if candidates.len() > HELD {
            tick();
            candidates.sort_unstable();
            candidates.dedup();
        }
    }
    candidates.sort_unstable();
    candidates.dedup();
    let mut found = vec![];
    for (a, b) in candidates {
        tick();
        if let Verdict::Ask { score, reason } = compare(names[a as usize], names[b as usize])
            && score >= least
        {
            found.push(Pair {
                names: (a, b),
                score,
                reason,
            });
        }
    }
    (found, passed_over)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_those_that_comparing_all_would_find() {
        let names: Vec<&str> = include_str!("pairs.tsv")
            .lines()
            .filter(|line| !line.starts_with('#'))
            .flat_map(|line| line.split('\t').skip(2).take(2))
            .collect();
        let (found, _) = pairs(&names, 0.6, &mut || ());
        let mut all = vec![];
        for (a, one) in names.iter().enumerate() {
            for (b, other) in names.iter().enumerate().skip(a + 1) {
                match compare(one, other) {
                    Verdict::Ask { score, .. } if score >= 0.6 => all.push((a as u32, b as u32)),
                    _ => {}
                }
            }
        }
        let found: Vec<(u32, u32)> = found.iter().map(|pair| pair.names).collect();
        assert!(all.len() > 100, "{}", all.len());
        assert_eq!(found, all);
    }

    #[test]
    fn what_many_share_is_passed_over() {
        let names: Vec<String> = (0..500)
            .map(|i| {
                format!(
                    "Ward {} of Mill",
                    char::from(b'a' + (i % 26) as u8).to_string().repeat(i / 26 + 1)
                )
            })
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (found, passed_over) = pairs(&names, 0.5, &mut || ());
        assert!(passed_over > 0 && found.len() < names.len() * BLOCK);
    }
}

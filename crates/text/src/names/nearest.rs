//! What a name that is not known may mean.

use super::LONGEST;
use super::edit::distance;
use crate::fold;

/// The `n` of the folded names `candidates` that are most like `wanted`, best first, then by name; fewer if fewer are
/// somewhat like it.
///
/// Likeness is the best of: one begins the other; one stands in the other as whole words; words they share (Dice); letters
/// changed (at most a fourth of the longer name, and four), as in `Lovelase` for `Lovelace`. The time is linear in the
/// length of all candidates.
pub fn nearest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>, n: usize) -> Vec<&'a str> {
    let wanted = fold::name(wanted);
    let wanted = Wanted {
        chars: wanted.chars().take(LONGEST).collect(),
        words: wanted.split(' ').take(LONGEST).collect(),
        text: &wanted,
    };
    let mut found: Vec<(f32, &str)> = Vec::new();
    for candidate in candidates {
        let likeness = wanted.likeness(candidate);
        if likeness >= LEAST {
            found.push((likeness, candidate));
        }
        // Kept short on the way.
        if found.len() > 1000.max(n.saturating_mul(4)) {
            cut(&mut found, n);
        }
    }
    cut(&mut found, n);
    found.into_iter().map(|(_, name)| name).collect()
}

/// A likeness that is worth a hint.
const LEAST: f32 = 0.4;

fn cut(found: &mut Vec<(f32, &str)>, n: usize) {
    found.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    found.dedup();
    found.truncate(n);
}

struct Wanted<'a> {
    text: &'a str,
    chars: Vec<char>,
    words: Vec<&'a str>,
}

impl Wanted<'_> {
    fn likeness(&self, candidate: &str) -> f32 {
        if self.text == candidate {
            return 1.0;
        }
        let chars: Vec<char> = candidate.chars().take(LONGEST).collect();
        let (n, m) = (self.chars.len(), chars.len());
        if n == 0 || m == 0 {
            return 0.0;
        }
        let (short, long) = if n < m {
            (self.text, candidate)
        } else {
            (candidate, self.text)
        };
        let share = n.min(m) as f32 / n.max(m) as f32;
        let mut best: f32 = 0.0;
        if n.min(m) > 1 && long.starts_with(short) {
            best = 0.6 + 0.35 * share;
        } else if short.len() > 2 && holds(long, short) {
            best = 0.55 + 0.35 * share;
        }
        let words = candidate.split(' ').take(LONGEST);
        let shared = words.clone().filter(|word| self.words.contains(word)).count();
        best = best.max(0.9 * 2.0 * shared.min(self.words.len()) as f32 / (self.words.len() + words.count()) as f32);
        let most = (n.max(m) / 4).clamp(1, 4);
        if let Some(distance) = distance(&self.chars, &chars, most) {
            best = best.max(1.0 - distance as f32 / n.max(m) as f32);
        }
        best
    }
}

/// Whether `part` stands in `text` as whole words, or in a text without spaces.
fn holds(text: &str, part: &str) -> bool {
    let edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() || fold::is_spaceless(c));
    text.match_indices(part)
        .any(|(at, _)| edge(text[..at].chars().next_back()) && edge(text[at + part.len()..].chars().next()))
}

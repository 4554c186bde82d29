//! Edit distances.

use super::latin::{class, is_light};

/// The most that [`cost`] may be for two spellings of one name.
pub const MOST: u32 = 3;

/// The [`cost`] that a word of so many letters bears: short words are soon other words.
pub fn budget(letters: usize) -> u32 {
    match letters {
        0..=3 => 0,
        4..=5 => 1,
        6..=9 => 2,
        _ => MOST,
    }
}

/// What it costs to write `a` as `b`.
///
/// Optimal string alignment (Damerau 1964: letters inserted, left out, replaced, neighbours swapped) with weights: 1 for a
/// swap, a vowel, or a consonant for one that sounds like it; 2 for a consonant too many and for a vowel changed at the
/// end; 3 for a consonant changed and for a letter more at the end (`Niger`, `Nigeria`; `Iran`, `Iraq`). Words with other
/// first sounds are told apart by more than [`MOST`].
pub fn cost(a: &[char], b: &[char]) -> u32 {
    let (n, m) = (a.len(), b.len());
    if n.abs_diff(m) > MOST as usize || a.first().map(|&c| class(c)) != b.first().map(|&c| class(c)) {
        return MOST + 1;
    }
    let mut before = vec![0; m + 1];
    let mut above: Vec<u32> = vec![0; m + 1];
    for j in 0..m {
        above[j + 1] = above[j] + gap(b[j], n == 0);
    }
    for i in 0..n {
        let mut row = vec![above[0] + gap(a[i], m == 0); m + 1];
        for j in 0..m {
            let (last_a, last_b) = (i + 1 == n, j + 1 == m);
            let mut least = above[j] + replaced(a[i], b[j], last_a && last_b);
            least = least.min(above[j + 1] + gap(a[i], last_b));
            least = least.min(row[j] + gap(b[j], last_a));
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                least = least.min(before[j - 1] + 1);
            }
            row[j + 1] = least;
        }
        before = std::mem::replace(&mut above, row);
    }
    above[m]
}

fn gap(c: char, at_end: bool) -> u32 {
    match c {
        'h' | 'ー' => 1,
        _ if at_end => 3,
        _ if is_light(c) => 1,
        _ => 2,
    }
}

fn replaced(a: char, b: char, last: bool) -> u32 {
    match (is_light(a), is_light(b)) {
        _ if a == b => 0,
        (true, true) => 1 + u32::from(last),
        (false, false) if class(a) == class(b) => 1 + u32::from(last && class(a) != 's'),
        _ => 3,
    }
}

/// The number of letters inserted, left out, replaced or swapped between `a` and `b`, if it is no more than `most`.
///
/// Only the diagonals that can hold such a result are looked at (Ukkonen 1985): the time is the length times `most`.
pub fn distance(a: &[char], b: &[char], most: usize) -> Option<usize> {
    let (n, m) = (a.len(), b.len());
    if n.abs_diff(m) > most {
        return None;
    }
    let far = most + 1;
    let mut before = vec![far; m + 1];
    let mut above: Vec<usize> = (0..=m).map(|j| j.min(far)).collect();
    let mut row = vec![far; m + 1];
    for i in 1..=n {
        let (from, to) = (i.saturating_sub(most).max(1), (i + most).min(m));
        row[from - 1] = if from == 1 { i.min(far) } else { far };
        let mut least = row[from - 1];
        for j in from..=to {
            let mut here = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            here = here.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                here = here.min(before[j - 2] + 1);
            }
            row[j] = here.min(far);
            least = least.min(row[j]);
        }
        if to < m {
            row[to + 1] = far;
        }
        if least == far {
            return None;
        }
        std::mem::swap(&mut before, &mut above);
        std::mem::swap(&mut above, &mut row);
    }
    (above[m] <= most).then_some(above[m])
}

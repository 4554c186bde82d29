//! The rules of [`compare`](super::compare), on names taken apart.

use super::form::{Form, Word, is_unspaced};
use super::{CONTAINED, INITIALS, ORDER, PLURAL, SPELLING, TITLE, TRANSLITERATION, Verdict, edit, lists};
use std::borrow::Cow;

type Found = Option<(f32, &'static str)>;

/// What two names say that do not fold alike.
pub fn judge(a: &Form, b: &Form) -> Verdict {
    let han = |form: &Form| !form.han_numbers.is_empty();
    if a.numbers != b.numbers
        || a.signs != b.signs
        || a.siblings != b.siblings
        || han(a) && han(b) && a.han_numbers != b.han_numbers
        || opposed(a, b)
    {
        return Verdict::Different;
    }
    // The shorter one first; what is said does not depend on which of the two is `a`.
    let words = |form: &Form| form.words.iter().map(|word| word.plain.clone()).collect::<Vec<_>>();
    let before = a.words.len().cmp(&b.words.len()).then_with(|| words(a).cmp(&words(b)));
    let (a, b) = if before.is_gt() { (b, a) } else { (a, b) };
    let found = letters(a, b)
        .or_else(|| order(a, b))
        .or_else(|| plural(a, b))
        .or_else(|| initials(a, b))
        .or_else(|| acronym(a, b).or_else(|| acronym(b, a)))
        .or_else(|| spelling(a, b))
        .or_else(|| contained(a, b));
    let Some((mut score, reason)) = found else {
        return Verdict::Different;
    };
    let differ = !a.forms.is_empty() && !b.forms.is_empty() && a.forms != b.forms
        || !a.titles.is_empty() && !b.titles.is_empty() && a.titles != b.titles;
    if differ {
        score = score.min(0.8);
    }
    Verdict::Ask { score, reason }
}

/// The words of each name that the other has not.
fn unmatched<'a>(a: &'a Form, b: &'a Form) -> [Vec<&'a str>; 2] {
    [(a, b), (b, a)].map(|(here, there)| {
        let words = |form: &'a Form| form.words.iter().map(|word| &word.plain).chain(&form.titles);
        let only = words(here).filter(|word| !words(there).any(|other| other == *word));
        only.map(String::as_str).collect()
    })
}

/// Whether a word of one stands against a word of the other.
fn opposed(a: &Form, b: &Form) -> bool {
    let [a, b] = unmatched(a, b);
    let turned = |x: &str, y: &str| {
        lists::PREFIXES.iter().any(|(one, other)| {
            let rest = x.strip_prefix(one).zip(y.strip_prefix(other));
            rest.is_some_and(|(x, y)| x == y && x.len() > 2)
        })
    };
    let ended = |x: &str, y: &str| {
        let split = |word: &str| {
            word.len()
                .checked_sub(3)
                .filter(|&at| at > 2 && word.is_char_boundary(at))
        };
        split(x).zip(split(y)).is_some_and(|(in_x, in_y)| {
            let both = |group: &&str| lists::has(group, &x[in_x..]) && lists::has(group, &y[in_y..]);
            x[..in_x] == y[..in_y] && lists::ENDINGS.iter().any(both)
        })
    };
    a.iter().any(|x| {
        b.iter().any(|y| {
            let group = lists::OPPOSED.iter().find(|group| lists::has(group, x));
            group.is_some_and(|group| lists::has(group, y)) || turned(x, y) || turned(y, x) || ended(x, y)
        })
    })
}

/// The same letters: what differs is a title, a legal form, an article, a script, an accent, a hyphen or a space.
fn letters(a: &Form, b: &Form) -> Found {
    if a.compact() != b.compact() {
        return None;
    }
    Some(if a.titles != b.titles {
        (if a.words.len() > 1 { 0.95 } else { 0.75 }, TITLE)
    } else if a.forms != b.forms {
        (0.95, CONTAINED)
    } else if a.article != b.article {
        (0.93, CONTAINED)
    } else if a.turned != b.turned {
        (0.95, ORDER)
    } else if a.scripts != b.scripts {
        (0.92, TRANSLITERATION)
    } else {
        let words = |form: &Form| -> Vec<String> { form.words.iter().map(|word| word.skeleton.clone()).collect() };
        (if words(a) == words(b) { 0.97 } else { 0.93 }, SPELLING)
    })
}

/// Two or three words turned round, none of which joins others (`Paris to London` is no `London to Paris`).
fn order(a: &Form, b: &Form) -> Found {
    let count = a.words.len();
    let join = |form: &Form| form.words.iter().any(Word::is_function);
    let turned = |by: usize| (0..count).all(|at| a.words[(at + by) % count].skeleton == b.words[at].skeleton);
    let fits = matches!(count, 2..=3) && b.words.len() == count && !join(a) && !join(b);
    (fits && (1..count).any(turned)).then_some((0.9, ORDER))
}

/// The same words, some in the plural.
fn plural(a: &Form, b: &Form) -> Found {
    let alike = |(x, y): (&Word, &Word)| x.skeleton == y.skeleton || singular(&x.skeleton) == singular(&y.skeleton);
    let fits = a.words.len() == b.words.len() && a.words.iter().zip(&b.words).all(alike);
    let short = a.words.len() == 1 && a.words[0].skeleton.len() < 6;
    fits.then_some((if short { 0.85 } else { 0.92 }, PLURAL))
}

/// A word of Latin letters without the plural's `s`, `es` or `ies`.
pub fn singular(word: &str) -> Cow<'_, str> {
    if let Some(stem) = word.strip_suffix("ies").filter(|stem| stem.len() > 2) {
        return format!("{stem}y").into();
    }
    let hissing = |stem: &&str| ["s", "sh", "ch", "x", "z"].iter().any(|end| stem.ends_with(end));
    if let Some(stem) = word.strip_suffix("es").filter(|stem| stem.len() > 2).filter(hissing) {
        return stem.into();
    }
    let stem = word
        .strip_suffix('s')
        .filter(|stem| stem.len() > 3 && !stem.ends_with(['s', 'u', 'i']));
    stem.unwrap_or(word).into()
}

/// `J. R. Tolkien`, `John Ronald Tolkien`: the family name is the same, and the given names of the one are, in order and
/// from the first on, among the other's or their initials.
fn initials(a: &Form, b: &Form) -> Found {
    let (last_a, given_a) = a.words.split_last()?;
    let (last_b, given_b) = b.words.split_last()?;
    if given_a.is_empty() || last_a.skeleton != last_b.skeleton || last_a.is_letter() {
        return None;
    }
    let mut used = 0;
    let mut rest = given_b.iter();
    for (number, x) in given_a.iter().enumerate() {
        loop {
            let y = rest.next()?;
            if x.skeleton == y.skeleton {
                break;
            }
            if initial(x, y) || initial(y, x) {
                used += 1;
                break;
            }
            if number == 0 {
                return None;
            }
        }
    }
    let score = match (given_a.len(), given_a.len() == given_b.len()) {
        (1, true) => 0.8,
        (_, true) => 0.92,
        _ => 0.75,
    };
    (used > 0).then_some((score, INITIALS))
}

fn initial(x: &Word, y: &Word) -> bool {
    x.is_letter() && !y.number && !y.is_function() && y.plain.starts_with(&x.plain)
}

/// The first letters of `words`.
pub fn first_letters<'a>(words: impl IntoIterator<Item = &'a Word>) -> String {
    words.into_iter().filter_map(|word| word.plain.chars().next()).collect()
}

/// A word of a few letters (or as many single ones) for the first letters of several words, at the beginning or the end
/// of names that are else the same; or every second character of a Han or Hangul name.
fn acronym(a: &Form, b: &Form) -> Found {
    let same = |(x, y): &(&Word, &Word)| x.skeleton == y.skeleton;
    let before = a.words.iter().zip(&b.words).take_while(same).count();
    let (rest_a, rest_b) = (&a.words[before..], &b.words[before..]);
    let after = rest_a.iter().rev().zip(rest_b.iter().rev()).take_while(same).count();
    if before > 0 && after > 0 {
        return None;
    }
    let (rest_a, rest_b) = (&rest_a[..rest_a.len() - after], &rest_b[..rest_b.len() - after]);
    let short = match rest_a {
        [word] if before + after == 0 || word.plain.chars().count() < 5 => word.plain.clone(),
        _ if rest_a.iter().all(Word::is_letter) && before + after == 0 => first_letters(rest_a),
        _ => return None,
    };
    let count = short.chars().count();
    if let ([x], [y]) = (rest_a, rest_b) {
        let every = |long: &Word, short: &Word| halves(&long.plain).is_some_and(|halves| halves == short.plain);
        return (before + after == 0 && (every(x, y) || every(y, x))).then_some((0.7, INITIALS));
    }
    if !matches!(count, 2..=6) || rest_b.len() < 2 || rest_a.iter().chain(rest_b).any(|word| word.number) {
        return None;
    }
    let fits = first_letters(rest_b.iter().filter(|word| !word.is_function())) == short
        || before + after == 0 && first_letters(rest_b) == short;
    fits.then_some((if count > 2 { 0.9 } else { 0.75 }, INITIALS))
}

/// Every second character of a name of four or six Han or Hangul characters: `北大` of `北京大学`.
pub fn halves(plain: &str) -> Option<String> {
    let count = plain.chars().count();
    let fits = matches!(count, 4 | 6)
        && plain
            .chars()
            .all(|c| matches!(c, '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}'));
    fits.then(|| plain.chars().step_by(2).collect())
}

/// All words of the one begin or end the other, or are the other's first and last.
fn contained(a: &Form, b: &Form) -> Found {
    if let ([x], [y]) = (&a.words[..], &b.words[..]) {
        return part(&x.plain, &y.plain).or_else(|| part(&y.plain, &x.plain));
    }
    let (n, m) = (a.words.len(), b.words.len());
    let same = |x: &[Word], y: &[Word]| x.iter().zip(y).all(|(x, y)| x.skeleton == y.skeleton);
    let least = if a.words.iter().any(|word| word.plain.chars().any(is_unspaced)) {
        2
    } else {
        3
    };
    if n == m || a.words.iter().map(|word| word.skeleton.chars().count()).sum::<usize>() < least {
        return None;
    }
    let begins = same(&a.words, &b.words[..n]) && !lists::has(lists::AND, &b.words[n].plain);
    let ends = same(&a.words, &b.words[m - n..]) && !is_another(&b.words[..m - n]);
    let mut rest = b.words.iter();
    let ends_meet = n > 1 && same(&a.words[..1], &b.words[..1]) && same(&a.words[n - 1..], &b.words[m - 1..]);
    let between = ends_meet && a.words.iter().all(|x| rest.any(|y| x.skeleton == y.skeleton));
    let letters = |form: &Form| form.compact().chars().count() as f32;
    let share = letters(a) / letters(b);
    if (begins || ends) && (n == 1 || n + 1 == m) || between {
        Some((0.5 + 0.4 * share, CONTAINED))
    } else {
        (begins || ends).then_some((0.45, CONTAINED))
    }
}

/// Whether what stands before a name makes it another: `Bank of` China, `Romeo and` Juliet; but `Republic of` France.
fn is_another(before: &[Word]) -> bool {
    let Some((last, rest)) = before.split_last() else {
        return false;
    };
    let (last, rest) = match rest.split_last() {
        Some((of, rest)) if lists::has(lists::ARTICLES, &last.plain) => (of, rest),
        _ => (last, rest),
    };
    let is_of = lists::has(lists::OF, &last.plain) && !rest.iter().all(|word| lists::has(lists::STATES, &word.plain));
    is_of && !rest.is_empty() || lists::has(lists::AND, &last.plain)
}

/// The [`contained`] of names that are one word each, of a script without spaces.
fn part(short: &str, long: &str) -> Found {
    let (n, m) = (short.chars().count(), long.chars().count());
    let fits = n > 1 && n < m && long.chars().all(is_unspaced) && (long.starts_with(short) || long.ends_with(short));
    let near = n == 2 || n + 2 >= m;
    fits.then_some((if near { 0.5 + 0.4 * n as f32 / m as f32 } else { 0.45 }, CONTAINED))
}

/// The number of letters of `word`, doubled ones counted once: writing a letter twice makes no longer word.
fn undoubled(word: &str) -> usize {
    let mut last = None;
    word.chars().filter(|&c| last.replace(c) != Some(c)).count()
}

/// The same words but for a few letters: each within the [budget](edit::budget) of its length, all within [`edit::MOST`].
fn spelling(a: &Form, b: &Form) -> Found {
    if a.words.len() != b.words.len() || a.han_numbers != b.han_numbers {
        return None;
    }
    let cross = a.scripts != b.scripts;
    let (mut total, mut letters) = (0, 0);
    for (x, y) in a.words.iter().zip(&b.words) {
        if x.skeleton == y.skeleton {
            continue;
        }
        let [p, q] = [x, y].map(|word| word.sound.chars().collect::<Vec<char>>());
        if [x, y]
            .iter()
            .any(|word| word.number || word.skeleton.contains(char::is_numeric))
            || p.len().max(q.len()) > 64
        {
            return None;
        }
        let length = [x, y].map(|word| undoubled(&word.skeleton)).into_iter().max()?;
        // Another way to write a sound counts as one letter, except from script to script.
        let cost = edit::cost(&p, &q).max(u32::from(!cross));
        if cost > edit::budget(length) {
            return None;
        }
        total += cost;
        letters += length;
    }
    if total > edit::MOST || letters == 0 {
        return None;
    }
    let loss = 0.6 * total as f32 / letters as f32;
    Some(if cross {
        (0.92 - loss, TRANSLITERATION)
    } else {
        (1.0 - loss, SPELLING)
    })
}

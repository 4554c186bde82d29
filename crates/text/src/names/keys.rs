//! Blocking keys: which names are worth comparing.

use super::form::{Form, is_unspaced};
use super::{latin, rules};
use crate::fold;

/// Keys that more names than this share are to be passed over: such a block holds a common word (`University`, `Smith`),
/// whose pairs would be asked about with a low score at best.
pub const BLOCK: usize = 64;

/// The blocking keys of `name`, sorted, the same on every machine: names that [`compare`](super::compare) asks about with
/// a score of at least 0.5 share one. Few names have more than a dozen.
///
/// The keys are hashes (FNV-1a) of
/// - the name's consonants by their sound, sorted: blind to vowels, doubled letters, swaps, spaces and the order of the
///   words; the same in the singular, and with each consonant of a longer word left out (symmetric deletion, as in
///   SymSpell by W. Garbe), for the one that may differ;
/// - the family name with the first initial, for names of several words;
/// - the initials, and a short word that may be initials itself;
/// - the whole name, its first and its last word, and the name without either, for one that is contained in another.
///
/// No key is of a common word alone but the last kind's; see [`BLOCK`].
pub fn keys(name: &str) -> Vec<u64> {
    let Some(form) = Form::of(&fold::name(name)) else {
        return Vec::new();
    };
    let mut keys = Vec::new();
    consonants(&form, &mut keys);
    acronyms(&form, &mut keys);
    parts(&form, &mut keys);
    if let (Some(first), Some(last)) = (form.words.first(), form.words.last())
        && form.words.len() > 1
    {
        let initial = first.skeleton.chars().next().map(String::from).unwrap_or_default();
        keys.push(key('i', &[&initial, &last.skeleton]));
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn consonants(form: &Form, keys: &mut Vec<u64>) {
    let list = |sounds: &mut dyn Iterator<Item = String>| -> Vec<char> {
        let text: String = sounds.collect();
        let mut list: Vec<char> = text
            .chars()
            .filter(|&c| !latin::is_light(c))
            .map(latin::class)
            .collect();
        list.sort_unstable();
        list
    };
    let mut push = |list: &[char]| keys.push(key('k', &[&list.iter().collect::<String>()]));
    let all = list(&mut form.words.iter().map(|word| word.sound.clone()));
    push(&all);
    push(&list(&mut std::iter::once(latin::sound(&form.compact()))));
    let singular = |word: &super::form::Word| latin::sound(&rules::singular(&word.skeleton));
    push(&list(&mut form.words.iter().map(singular)));
    let long = form
        .words
        .iter()
        .filter(|word| !word.number && word.skeleton.chars().nth(4).is_some());
    let mut loose = list(&mut long.map(|word| word.sound.clone()));
    loose.dedup();
    for c in loose.into_iter().filter(|c| !c.is_numeric()) {
        if let Ok(at) = all.binary_search(&c) {
            let mut less = all.clone();
            less.remove(at);
            push(&less);
        }
    }
}

fn acronyms(form: &Form, keys: &mut Vec<u64>) {
    let words = &form.words;
    let short = |at: usize| words[at].plain.chars().count() <= 4;
    let mut push = |text: &str| keys.push(key('a', &[text]));
    if let [word] = &words[..] {
        if matches!(word.plain.chars().count(), 2..=6) && !word.plain.chars().any(fold::is_spaceless) {
            push(&word.plain);
        }
        return;
    }
    let content = |word: &&super::form::Word| !word.is_function();
    push(&rules::first_letters(words));
    push(&rules::first_letters(words.iter().filter(content)));
    if short(0) {
        push(&(words[0].plain.clone() + &rules::first_letters(words[1..].iter().filter(content))));
    }
    if short(words.len() - 1) && words.len() > 1 {
        let (last, rest) = (&words[words.len() - 1], &words[..words.len() - 1]);
        push(&(rules::first_letters(rest.iter().filter(content)) + &last.plain));
    }
}

fn parts(form: &Form, keys: &mut Vec<u64>) {
    let mut push = |text: &[&str]| keys.push(key('c', text));
    let skeletons: Vec<&str> = form.words.iter().map(|word| word.skeleton.as_str()).collect();
    push(&skeletons);
    if let [first, .., last] = skeletons[..] {
        push(&[first]);
        push(&[last]);
        push(&skeletons[1..]);
        push(&skeletons[..skeletons.len() - 1]);
        return;
    }
    let plain: Vec<char> = form.words[0].plain.chars().collect();
    if plain.len() < 3 || !plain.iter().all(|&c| is_unspaced(c)) {
        return;
    }
    for length in [2, plain.len() - 1, plain.len() - 2] {
        if length > 1 {
            for part in [&plain[..length], &plain[plain.len() - length..]] {
                push(&[&latin::skeleton(&part.iter().collect::<String>())]);
            }
        }
    }
    if let Some(halves) = rules::halves(&form.words[0].plain) {
        push(&[&halves]);
    }
}

/// FNV-1a of a kind and text.
fn key(kind: char, text: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut eat = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    eat(kind as u8);
    text.iter().flat_map(|text| text.bytes()).for_each(&mut eat);
    hash
}

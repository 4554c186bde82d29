//! Concepts by repetition: runs of content words that a block uses twice, in scripts with and without spaces.

use super::lists::{HAN_CUTS, is_adverb, is_common, is_known_verb, is_time};
use super::scan::{Gap, Sentence, Shape, Token};
use super::table::Table;
use super::{CONCEPT, NAME, is_stop};
use crate::stop::{self, StopWords};
use std::collections::{BTreeMap, HashMap};
use unicode_segmentation::UnicodeSegmentation;

/// The longest concept, in words and in characters of a script without spaces.
const WORDS: usize = 4;
const GRAPHEMES: usize = 12;

#[derive(Default)]
struct Phrase {
    count: u32,
    /// How many words it has.
    words: usize,
    /// Whether it stands once behind a word that can stand before a noun phrase, and once before one that can follow it.
    left: bool,
    right: bool,
}

/// Enters the repeated runs of two to four content words that no entity of `table` covers.
pub(super) fn words(sentences: &[Sentence], stop: &StopWords, table: &mut Table, tick: &mut dyn FnMut()) {
    let mut phrases: HashMap<String, Phrase> = HashMap::new();
    for sentence in sentences {
        tick();
        let tokens = &sentence.tokens;
        let mut free: Vec<bool> = tokens.iter().map(|token| is_content(token, stop)).collect();
        for occurrence in table.occurrences(sentence) {
            free[occurrence.tokens].fill(false);
        }
        for at in (0..tokens.len()).filter(|&at| free[at]) {
            let mut key = String::new();
            for end in at + 1..=(at + WORDS).min(tokens.len()) {
                let token = &tokens[end - 1];
                if !free[end - 1] || (end > at + 1 && token.gap != Gap::Space) {
                    break;
                }
                if end > at + 1 {
                    key.push(' ');
                }
                key.push_str(&token.fold);
                if end == at + 1 && token.shape != Shape::Uncased {
                    continue;
                }
                let phrase = phrases.entry(key.clone()).or_default();
                phrase.count += 1;
                phrase.words = end - at;
                phrase.left |= opens(tokens, at, stop);
                phrase.right |= closes(tokens, end, stop);
            }
        }
    }
    let good = |key: &str, phrase: &Phrase| {
        let cased = key.starts_with(char::is_lowercase);
        let edge = |word: Option<&str>| word.is_some_and(|word| is_known_verb(word) || is_adverb(word));
        let ends_alike = key.split(' ').next() == key.split(' ').next_back();
        let noun = phrase.left && phrase.right && !edge(key.split(' ').next()) && !edge(key.split(' ').next_back());
        let tail = key.ends_with("ed") || key.ends_with("ing") && phrase.count < 3;
        match phrase.words {
            1 => phrase.count > 2 && key.chars().count() > 2,
            _ => phrase.count > 1 && !ends_alike && (!cased || (noun && !tail)),
        }
    };
    let mut kept: Vec<(&String, &Phrase)> = phrases.iter().filter(|(key, phrase)| good(key, phrase)).collect();
    kept.sort_unstable_by(|(a, x), (b, y)| y.words.cmp(&x.words).then(a.cmp(b)));
    // The most that a longer phrase which holds a shorter one occurs.
    let mut longer: HashMap<String, u32> = HashMap::new();
    for (key, phrase) in kept {
        if longer.get(key).is_none_or(|&count| count < phrase.count) {
            table.enter(key, CONCEPT);
        }
        let parts: Vec<&str> = key.split(' ').collect();
        for (from, to) in (0..parts.len()).flat_map(|from| (from + 1..=parts.len()).map(move |to| (from, to))) {
            let count = longer.entry(parts[from..to].join(" ")).or_default();
            *count = (*count).max(phrase.count);
        }
    }
}

fn is_content(token: &Token, stop: &StopWords) -> bool {
    let spelled = matches!(token.shape, Shape::Lower | Shape::Capital | Shape::Uncased);
    let letters = token
        .fold
        .chars()
        .all(|c| c.is_alphabetic() || matches!(c, '-' | '\'') || !c.is_ascii());
    spelled
        && letters
        && token.fold.chars().count() > 2
        && !is_stop(token, stop)
        && !is_common(&token.fold)
        && !is_time(&token.fold)
}

/// Whether what stands before token `at` lets a noun phrase start there.
fn opens(tokens: &[Token], at: usize, stop: &StopWords) -> bool {
    const BEFORE_VERBS: [&str; 26] = [
        "to", "i", "you", "we", "they", "he", "she", "it", "who", "which", "that", "can", "will", "would", "could",
        "should", "must", "may", "not", "there", "don't", "doesn't", "cannot", "can't", "didn't", "zu",
    ];
    match tokens[at].gap {
        Gap::Break => true,
        Gap::Start => false,
        Gap::Space | Gap::Adjacent => at.checked_sub(1).is_some_and(|before| {
            let before = &tokens[before];
            !BEFORE_VERBS.contains(&before.fold.as_str())
                && (is_stop(before, stop) || is_common(&before.fold) || before.shape == Shape::Number)
        }),
    }
}

/// Whether the last token before `end` is no verb: it has no `s`, or what follows is not what a verb acts on.
fn closes(tokens: &[Token], end: usize, stop: &StopWords) -> bool {
    const BEFORE_NOUNS: [&str; 22] = [
        "the", "a", "an", "each", "every", "all", "any", "its", "their", "our", "your", "his", "her", "this", "these",
        "those", "it", "them", "us", "you", "more", "no",
    ];
    let fold = &tokens[end - 1].fold;
    if !fold.ends_with('s') || fold.ends_with("ss") {
        return true;
    }
    tokens.get(end).is_none_or(|next| {
        next.gap != Gap::Space || (is_stop(next, stop) && !BEFORE_NOUNS.contains(&next.fold.as_str()))
    })
}

#[derive(Default)]
struct Gram<'a> {
    count: u32,
    left: Side<'a>,
    right: Side<'a>,
}

/// What stands beside a sequence of characters wherever it stands.
#[derive(Default, PartialEq)]
enum Side<'a> {
    #[default]
    Unseen,
    Always(&'a str),
    /// Different characters, or once the end of the stretch: the sequence ends there.
    Free,
}

impl<'a> Side<'a> {
    fn see(&mut self, beside: Option<&'a str>) {
        *self = match (&*self, beside) {
            (Side::Unseen, Some(beside)) => Side::Always(beside),
            (Side::Always(before), Some(beside)) if *before == beside => return,
            _ => Side::Free,
        };
    }
}

/// Enters the repeated sequences of characters in scripts without spaces, and what stands between title quotes.
pub(super) fn characters(text: &str, sentences: &[Sentence], table: &mut Table, tick: &mut dyn FnMut()) {
    let mut pieces: Vec<Vec<&str>> = Vec::new();
    for token in sentences
        .iter()
        .flat_map(|sentence| &sentence.tokens)
        .filter(|token| token.shape == Shape::Spaceless)
    {
        tick();
        let quoted = text[..token.start].ends_with(['《', '「', '『', '〈'])
            && text[token.end()..].starts_with(['》', '」', '』', '〉']);
        if quoted && (2..=30).contains(&token.text.chars().count()) {
            table.enter_spaceless(token.text, NAME);
        }
        pieces.extend(cut(token.text).into_iter().map(|piece| piece.graphemes(true).collect()));
    }
    // Sequences of n characters are counted only where both of their parts of n - 1 are repeated.
    let mut repeated: BTreeMap<String, (usize, u32)> = BTreeMap::new();
    let mut shorter: Option<HashMap<String, Gram>> = None;
    for length in 2..=GRAPHEMES {
        let mut grams: HashMap<String, Gram> = HashMap::new();
        for piece in &pieces {
            tick();
            for (at, window) in piece.windows(length).enumerate() {
                if at.is_multiple_of(1000) {
                    tick();
                }
                if let Some(shorter) = &shorter
                    && !(shorter.contains_key(&window[1..].concat())
                        && shorter.contains_key(&window[..length - 1].concat()))
                {
                    continue;
                }
                let gram = grams.entry(window.concat()).or_default();
                gram.count += 1;
                gram.left.see(at.checked_sub(1).map(|before| piece[before]));
                gram.right.see(piece.get(at + length).copied());
            }
        }
        grams.retain(|_, gram| gram.count > 1);
        if grams.is_empty() {
            break;
        }
        let free = grams.iter().filter(|(key, gram)| {
            gram.left == Side::Free && gram.right == Side::Free && is_long(key, length, gram.count)
        });
        repeated.extend(free.map(|(key, gram)| (key.clone(), (length, gram.count))));
        shorter = Some(grams);
    }
    let mut longest: Vec<(String, (usize, u32))> = repeated.into_iter().collect();
    longest.sort_by_key(|(_, (length, _))| std::cmp::Reverse(*length));
    let mut longer: HashMap<String, u32> = HashMap::new();
    for (key, (_, count)) in longest {
        tick();
        if longer.get(&key).is_none_or(|&most| most < count) {
            table.enter_spaceless(&key, CONCEPT);
        }
        let parts: Vec<&str> = key.graphemes(true).collect();
        for (from, to) in (0..parts.len()).flat_map(|from| (from + 2..=parts.len()).map(move |to| (from, to))) {
            let most = longer.entry(parts[from..to].concat()).or_default();
            *most = (*most).max(count);
        }
    }
}

/// Whether a sequence is long enough to be a word of its script, and not one of the stop words.
fn is_long(key: &str, length: usize, count: u32) -> bool {
    let first = key.chars().next().unwrap_or_default();
    let (enough, language) = match first {
        '\u{3040}'..='\u{30FF}' => (length > 2, "japanese"),
        _ if crate::fold::is_spaceless(first) => (length > 2 || count > 2, "chinese"),
        _ => (length > 3, "thai"),
    };
    enough && !stop::words(language).contains(key)
}

/// The pieces of a stretch between function words: particles in kana, a few words in Han, none in other scripts.
fn cut(stretch: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut from, mut at) = (0, 0);
    while let Some(c) = stretch[at..].chars().next() {
        let rest = &stretch[at..];
        let length = match c {
            '\u{3040}'..='\u{309F}' => c.len_utf8(),
            _ => HAN_CUTS
                .iter()
                .find(|word| rest.starts_with(**word))
                .map_or(0, |word| word.len()),
        };
        if length > 0 {
            pieces.push(&stretch[from..at]);
            from = at + length;
        }
        at += length.max(c.len_utf8());
    }
    pieces.push(&stretch[from..]);
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

//! Where names and quotes stand in a text.

use std::ops::Range;

use graphrag_text::{fold, sentences};

use crate::pg::tick;

/// Where a quote stands in a text: as it is written; else with white space, case and kinds of quotation marks and dashes left
/// out of account, as models copy them.
pub fn quote(text: &str, quote: &str) -> Option<Range<usize>> {
    let quote = quote.trim();
    if quote.is_empty() {
        return None;
    }
    if let Some(at) = text.find(quote) {
        return Some(at..at + quote.len());
    }
    let (folded, places) = loosened(text);
    let (wanted, _) = loosened(quote);
    if wanted.is_empty() {
        return None;
    }
    let at = folded.find(&wanted)?;
    let end = at + wanted.len();
    Some(places[at].start..places[end - 1].end)
}

/// The letters of a text in lower case, marks made alike, without white space; and where each byte comes from.
fn loosened(text: &str) -> (String, Vec<Range<usize>>) {
    let (mut folded, mut places) = (String::with_capacity(text.len()), Vec::with_capacity(text.len()));
    for (at, c) in text.char_indices() {
        let plain = match c {
            _ if c.is_whitespace() => continue,
            '‘' | '’' | '‚' | '`' => '\'',
            '“' | '”' | '„' | '«' | '»' => '"',
            '‐'..='―' | '−' => '-',
            _ => c,
        };
        for lower in plain.to_lowercase() {
            folded.push(lower);
            places.resize(folded.len(), at..at + c.len_utf8());
        }
    }
    (folded, places)
}

/// The first sentence of a text that holds both names, which are folded.
pub fn sentence(text: &str, names: [&str; 2]) -> Option<Range<usize>> {
    sentences::sentences(text).into_iter().find(|range| {
        tick();
        let sentence = fold::name(&text[range.clone()]);
        names.iter().all(|name| has_name(&sentence, name))
    })
}

/// Whether a folded sentence holds a folded name as whole words. Where words are not parted by spaces any place will do.
fn has_name(sentence: &str, name: &str) -> bool {
    let in_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() && c < '\u{2E80}');
    sentence.match_indices(name).any(|(at, _)| {
        let (before, after) = (
            sentence[..at].chars().next_back(),
            sentence[at + name.len()..].chars().next(),
        );
        let cut_before = in_word(before) && in_word(name.chars().next());
        let cut_after = in_word(after) && in_word(name.chars().next_back());
        !cut_before && !cut_after
    })
}

/// A range of bytes without the white space at its ends, as the text and its place in characters.
pub fn trimmed(text: &str, range: Range<usize>) -> (String, i32, i32) {
    let part = text[range.clone()].trim();
    let at = range.start + text[range].find(part).unwrap_or(0);
    let start = text[..at].chars().count() as i32;
    (part.to_owned(), start, start + part.chars().count() as i32)
}

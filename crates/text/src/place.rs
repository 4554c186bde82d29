//! Where names and quotes stand in a text.

use std::ops::Range;

use crate::{fold, sentences};

/// The least share of a quote that must stand in a text in one piece, for the place of that piece to be the quote's.
const SHARE: f64 = 0.6;

/// Bytes of the quote times those of the text, above which no piece is looked for.
const MOST_WORK: usize = 20_000_000;

/// The least length of such a piece, in bytes without white space.
const PIECE: usize = 16;

/// Where a quote stands in a text: as it is written; else with white space, case and kinds of quotation marks and dashes left
/// out of account, as models copy them; else the longest piece of it that stands there, if that is most of it.
pub fn quote(text: &str, quote: &str) -> Option<Range<usize>> {
    let quote = quote.trim();
    if quote.is_empty() {
        return None;
    }
    if let Some(at) = text.find(quote) {
        return Some(at..at + quote.len());
    }
    let wanted = Loose::new(quote, "").text;
    let loose = Loose::new(text, "");
    if wanted.is_empty() {
        return None;
    }
    if let Some(at) = loose.text.find(&wanted) {
        return Some(loose.origin(at..at + wanted.len()));
    }
    if wanted.len().saturating_mul(loose.text.len()) > MOST_WORK {
        return None;
    }
    let piece = longest_common(&wanted, &loose.text);
    (piece.len() >= PIECE && piece.len() as f64 >= SHARE * wanted.len() as f64)
        .then(|| uncut(text, loose.origin(piece)))
}

/// A part of a text without the words that its ends go through.
fn uncut(text: &str, mut range: Range<usize>) -> Range<usize> {
    let in_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() && c < '\u{2E80}');
    let goes_through = |at: usize| in_word(text[..at].chars().next_back()) && in_word(text[at..].chars().next());
    while range.start < range.end && goes_through(range.start) {
        range.start = text.ceil_char_boundary(range.start + 1);
    }
    while range.start < range.end && goes_through(range.end) {
        range.end = text.floor_char_boundary(range.end - 1);
    }
    range
}

/// Where `text` holds the longest part of `wanted`, the first of equal ones; in time of the product of their lengths.
fn longest_common(wanted: &str, text: &str) -> Range<usize> {
    // The length of the common part that ends before each byte of `wanted`, and at the byte of `text` that is looked at.
    let mut lengths = vec![0usize; wanted.len() + 1];
    let mut best = 0..0;
    for (end, byte) in text.bytes().enumerate() {
        let mut before = 0;
        for (at, other) in wanted.bytes().enumerate() {
            let length = if byte == other { before + 1 } else { 0 };
            before = std::mem::replace(&mut lengths[at + 1], length);
            if length > best.len() {
                best = end + 1 - length..end + 1;
            }
        }
    }
    // Letters are not cut.
    best.start = text.ceil_char_boundary(best.start);
    best.end = text.floor_char_boundary(best.end).max(best.start);
    best
}

/// Where a name stands in a text as whole words, first as it is written, then in any case and spacing.
pub fn name(text: &str, name: &str) -> Option<Range<usize>> {
    let name = name.trim();
    if name.is_empty() {
        return None;
    }
    if let Some(at) = whole_words(text, name) {
        return Some(at..at + name.len());
    }
    let wanted = Loose::new(name, " ").text;
    let text = Loose::new(text, " ");
    let at = whole_words(&text.text, &wanted)?;
    Some(text.origin(at..at + wanted.len()))
}

/// A text in lower case, marks made alike, each stretch of white space replaced.
struct Loose {
    text: String,
    /// Where each byte comes from.
    origins: Vec<Range<usize>>,
}

impl Loose {
    fn new(text: &str, space: &str) -> Loose {
        let mut loose = Loose {
            text: String::with_capacity(text.len()),
            origins: Vec::with_capacity(text.len()),
        };
        let mut spaced = false;
        for (at, c) in text.char_indices() {
            let origin = at..at + c.len_utf8();
            if c.is_whitespace() {
                if !spaced {
                    loose.push(space, origin);
                }
                spaced = true;
                continue;
            }
            spaced = false;
            let plain = match c {
                '‘' | '’' | '‚' | '`' => '\'',
                '“' | '”' | '„' | '«' | '»' => '"',
                '‐'..='―' | '−' => '-',
                _ => c,
            };
            for lower in plain.to_lowercase() {
                loose.push(lower.encode_utf8(&mut [0; 4]), origin.clone());
            }
        }
        loose
    }

    fn push(&mut self, part: &str, origin: Range<usize>) {
        self.text.push_str(part);
        self.origins.resize(self.text.len(), origin);
    }

    /// The part of the original text behind a part of this one, which is not empty.
    fn origin(&self, part: Range<usize>) -> Range<usize> {
        self.origins[part.start].start..self.origins[part.end - 1].end
    }
}

/// The first sentence of a text that holds both names, which are folded.
pub fn sentence(text: &str, names: [&str; 2], tick: &mut dyn FnMut()) -> Option<Range<usize>> {
    Sentences::new(text, tick).with(&names, tick)
}

/// The sentences of a text, folded once for many names.
pub struct Sentences {
    folded: Vec<(Range<usize>, String)>,
}

impl Sentences {
    pub fn new(text: &str, tick: &mut dyn FnMut()) -> Sentences {
        let fold = |range: Range<usize>| {
            tick();
            let folded = fold::name(&text[range.clone()]);
            (range, folded)
        };
        Sentences {
            folded: sentences::sentences(text).into_iter().map(fold).collect(),
        }
    }

    /// The first sentence that holds all of the names, which are folded.
    pub fn with(&self, names: &[&str], tick: &mut dyn FnMut()) -> Option<Range<usize>> {
        let found = self.folded.iter().find(|(_, sentence)| {
            tick();
            names.iter().all(|name| whole_words(sentence, name).is_some())
        });
        found.map(|(range, _)| range.clone())
    }
}

/// Where a text holds a name as whole words. Where words are not parted by spaces any place will do.
fn whole_words(text: &str, name: &str) -> Option<usize> {
    let in_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() && c < '\u{2E80}');
    let mut places = text.match_indices(name).map(|(at, _)| at);
    places.find(|&at| {
        let (before, after) = (text[..at].chars().next_back(), text[at + name.len()..].chars().next());
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(text: &str, range: Option<Range<usize>>) -> Option<&str> {
        range.map(|range| &text[range])
    }

    #[test]
    fn quotes_are_found_as_models_copy_them() {
        let text = "Ada said:\n“It’s  the – ENGINE” and left. İt was.";
        for (copied, original) in [
            ("and left", Some("and left")),
            ("\"it's the - engine\"", Some("“It’s  the – ENGINE”")),
            ("ada   SAID: ", Some("Ada said:")),
            ("i\u{307}t was", Some("İt was")),
            ("and stayed", None),
            ("  ", None),
            ("", None),
        ] {
            assert_eq!(found(text, quote(text, copied)), original, "{copied:?}");
        }
    }

    #[test]
    fn most_of_a_quote_will_do() {
        let text = "Ada founded the college in the spring of 1901, and left it in the autumn.";
        for (copied, original) in [
            (
                "Ada founded the college in the spring of 1902",
                Some("Ada founded the college in the spring of "),
            ),
            (
                "She founded the College in the spring of 1901",
                Some("founded the college in the spring of 1901"),
            ),
            ("founded the college ... and left it", None),
            ("in the autumn of next year she came back", None),
            ("Éda founded the collége in the", None),
        ] {
            assert_eq!(found(text, quote(text, copied)), original, "{copied:?}");
        }
    }

    #[test]
    fn names_are_found_as_whole_words() {
        let text = "Adams met ADA  LOVELACE, and Ada; 東京都は大きい。";
        for (wanted, original) in [
            ("Ada", Some("Ada")),
            ("ada lovelace", Some("ADA  LOVELACE")),
            ("Adam", None),
            ("東京", Some("東京")),
            (" ", None),
        ] {
            assert_eq!(found(text, name(text, wanted)), original, "{wanted:?}");
        }
        assert_eq!(name(text, "Ada"), Some(29..32));
    }

    #[test]
    fn a_sentence_holds_both_names() {
        let text = "Ada wrote. Ada met Charles in London. Charles left.";
        let names = ["ada", "charles"];
        assert_eq!(
            found(text, sentence(text, names, &mut || ())).map(str::trim),
            Some("Ada met Charles in London.")
        );
        assert_eq!(sentence(text, ["ada", "bergen"], &mut || ()), None);
        assert_eq!(trimmed("é  ab ", 2..7), ("ab".to_owned(), 3, 5));
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_was_asked_for(text in "\\PC{0,40}", wanted in "\\PC{0,8}") {
            for range in [quote(&text, &wanted), name(&text, &wanted)].into_iter().flatten() {
                prop_assert_eq!(Loose::new(&text[range], "").text, Loose::new(wanted.trim(), "").text);
            }
        }

        #[test]
        fn every_part_of_a_text_is_found(text in "[a-zß İ.“”]{1,30}", from in 0usize..30, length in 1usize..10) {
            let part: String = text.chars().skip(from).take(length).collect();
            prop_assert!(part.trim().is_empty() || quote(&text, &part).is_some());
        }
    }
}

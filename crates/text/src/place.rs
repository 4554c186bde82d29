//! Where names and quotes stand in a text.

use std::ops::Range;

use crate::{fold, sentences};

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
    let wanted = Loose::new(quote, "").text;
    let text = Loose::new(text, "");
    let at = (!wanted.is_empty()).then(|| text.text.find(&wanted))??;
    Some(text.origin(at..at + wanted.len()))
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

//! What one text says that others have said already, sentence by sentence.

use std::ops::Range;

use crate::lines::units;
use crate::sentences::sentences;

/// A text as its sentences, for comparing what texts say.
pub struct Said {
    /// Each sentence with one space before, between and behind its words, so that it is found at its edges alone.
    text: String,
    sentences: Vec<Range<usize>>,
}

impl Said {
    /// Reads a text as the extractive summary does: without Markdown marks, and with every white space a single space.
    pub fn new(text: &str) -> Said {
        let mut said = Said {
            text: String::with_capacity(text.len() + 2),
            sentences: Vec::new(),
        };
        said.text.push(' ');
        for (_, unit) in units(text) {
            let unit = &text[unit];
            for sentence in sentences(unit) {
                let start = said.text.len() - 1;
                for word in unit[sentence].split_whitespace() {
                    said.text.push_str(word);
                    said.text.push(' ');
                }
                if said.text.len() > start + 1 {
                    said.sentences.push(start..said.text.len());
                }
            }
        }
        said
    }

    /// Whether each of its sentences stands in one of `others`, word for word. Never of a text without a sentence.
    pub fn is_said_by(&self, others: &[&Said]) -> bool {
        !self.sentences.is_empty()
            && self.sentences.iter().all(|sentence| {
                let sentence = &self.text[sentence.clone()];
                others.iter().any(|other| other.text.contains(sentence))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::Said;
    use crate::stop::words;
    use crate::summary::frequency;
    use proptest::prelude::*;

    fn said(text: &str, others: &[&str]) -> bool {
        let others: Vec<Said> = others.iter().map(|other| Said::new(other)).collect();
        Said::new(text).is_said_by(&others.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_text_is_said_if_all_its_sentences_are() {
        let (one, two) = ("The ferry leaves at ten. It is blue.", "Isla commands it.");
        assert!(said(one, &[one]));
        assert!(said("It is blue.", &[two, one]));
        assert!(said("Isla commands it. The ferry leaves at ten.", &[one, two]));
        assert!(!said("Isla commands it. The ferry leaves at ten.", &[one]));
        assert!(!said(one, &["It is blue."]));
        assert!(!said("It is blue.", &[]));
    }

    #[test]
    fn marks_and_white_space_do_not_count_and_all_else_does() {
        assert!(said(
            "# The ferry\n\n- It is\n  blue.\n\n> So!",
            &["The ferry It is blue. So!"]
        ));
        assert!(said("The ferry It is blue.", &["# The ferry\n\nIt   is\nblue."]));
        assert!(said("b。", &["a。b。c。"]));
        for (text, other) in [
            ("It is blue.", "it is blue."),
            ("It is blue.", "It is blue"),
            ("It is blue.", "It is blue.1"),
            ("cat.", "A blackcat."),
            ("x < 0", "x > 0"),
            ("Use C.", "Use C++."),
        ] {
            assert!(!said(text, &[other]), "{text} / {other}");
        }
    }

    #[test]
    fn what_says_nothing_repeats_nothing() {
        for text in ["", " \n ", "---", "```\n```"] {
            assert!(!said(text, &[text, "It is blue."]), "{text:?}");
        }
    }

    #[test]
    fn an_extractive_summary_says_nothing_of_its_own() {
        let texts = [
            "# Ships\n\nThe ferry leaves Port Ellen at ten. Isla Brodie commands it, as\nshe has for years.",
            "- Glen Depot stores grain.\n- Ron Weir drives it there, e.g. on Mondays.",
        ];
        let summary = frequency(&texts, 200, words("english"), &mut || {});
        assert!(summary.contains("Ron Weir"));
        assert!(said(&summary, &texts), "{summary}");
    }

    proptest! {
        #[test]
        fn any_text_with_a_sentence_says_itself(text in "([a-zA-Z.!?。#>|*` -]|\n){0,60}") {
            let this = Said::new(&text);
            prop_assert_eq!(this.is_said_by(&[&this]), !this.sentences.is_empty());
        }
    }
}

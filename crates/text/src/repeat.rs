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

    /// Its sentences, each as its words with one space before, between and behind them.
    pub fn sentences(&self) -> impl Iterator<Item = &str> {
        self.sentences.iter().map(|sentence| &self.text[sentence.clone()])
    }

    /// Which share of it, by length, is sentences that stand in one of `others` word for word: 1 if all do. 0 for a text
    /// without a sentence.
    pub fn share_said_by(&self, others: &[&Said]) -> f64 {
        let (mut said, mut all) = (0, 0);
        for sentence in self.sentences() {
            all += sentence.len();
            if others.iter().any(|other| other.text.contains(sentence)) {
                said += sentence.len();
            }
        }
        said as f64 / all.max(1) as f64
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
        Said::new(text).share_said_by(&others.iter().collect::<Vec<_>>()) == 1.0
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
    fn shares_go_by_length() {
        let (this, other) = (Said::new("It is so. It is not so at all."), Said::new("It is so!"));
        assert_eq!(this.share_said_by(&[&other]), 0.0);
        let other = Said::new("No. It is so.");
        assert!((0.3..0.4).contains(&this.share_said_by(&[&other])));
        assert!((0.6..0.8).contains(&other.share_said_by(&[&this])));
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
            prop_assert_eq!(this.share_said_by(&[&this]), f64::from(!this.sentences.is_empty()));
        }
    }
}

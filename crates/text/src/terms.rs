//! Terms: what lexical search and latent semantic analysis count, before the dictionaries of a language have seen it.

use unicode_normalization::{UnicodeNormalization, is_nfkc};
use unicode_segmentation::UnicodeSegmentation;

/// Longer words are noise: keys, hashes, encoded data.
const LONGEST_WORD: usize = 255;
/// Bytes of a code like `SR-2023-052`.
const LONGEST_CODE: usize = 64;

/// Bytes of a text that is looked through in one go.
const SHORT: usize = 1 << 16;

/// A term of a text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Term {
    /// A word in lower case, for the dictionaries: they drop it, or answer the lexemes that stand for it.
    Word(String),
    /// A term as it is: a code, or two neighbouring characters of a script that is written without spaces.
    Whole(String),
}

/// The terms of `text`, in no particular order, as often as they occur.
///
/// Words are those of Unicode's segmentation (UAX #29) after compatibility folding (NFKC), split at underscores. A run of
/// Han, Kana, Thai, Lao, Khmer or Burmese characters, which has no spaces between words, gives each pair of neighbours. What
/// joins words and digits by `-`, `_`, `.`, `/` or `:` without a space, as part numbers, dates and versions do, is a term as
/// a whole, too, beside its words. Words of more than 255 bytes and codes of more than 64 are left out.
/// `tick` is called now and then.
pub fn terms(text: &str, tick: &mut dyn FnMut(), mut each: impl FnMut(Term)) {
    let folded: String;
    let text = if text.is_ascii() || text.len() < SHORT && is_nfkc(text) {
        text
    } else {
        folded = fold(text, tick);
        &folded
    };
    let mut run: Vec<&str> = Vec::new();
    let mut end = 0;
    for (number, (at, word)) in text.unicode_word_indices().enumerate() {
        if number.is_multiple_of(1000) {
            tick();
        }
        if at != end {
            pairs(&mut run, &mut each);
        }
        end = at + word.len();
        if word.chars().next().is_some_and(is_unspaced) {
            run.extend(word.graphemes(true));
            continue;
        }
        pairs(&mut run, &mut each);
        for part in word.split('_') {
            if part.len() <= LONGEST_WORD && part.chars().any(char::is_alphanumeric) {
                each(Term::Word(part.to_lowercase().replace('’', "'")));
            }
        }
    }
    pairs(&mut run, &mut each);
    for (number, token) in text.split_whitespace().enumerate() {
        if number.is_multiple_of(1000) {
            tick();
        }
        if let Some(code) = code(token) {
            each(Term::Whole(code));
        }
    }
}

/// The most words of a text that are looked through for names.
const MOST_WORDS: usize = 500;

/// Each run of up to `longest` words of a text, without a possessive at its end, with the places of its words: the longest first, then as they
/// stand. Of a longer text the first 500 words.
pub fn grams(text: &str, longest: usize) -> Vec<(std::ops::Range<usize>, &str)> {
    let words: Vec<(usize, &str)> = text.unicode_word_indices().take(MOST_WORDS).collect();
    let mut grams = Vec::new();
    for count in (1..=longest.min(words.len())).rev() {
        for at in 0..=words.len() - count {
            let (last, word) = words[at + count - 1];
            let gram = &text[words[at].0..last + word.len()];
            let bare = ["'s", "’s", "'S", "’S"].iter().find_map(|end| gram.strip_suffix(end));
            grams.push((at..at + count, bare.unwrap_or(gram)));
        }
    }
    grams
}

/// A text in compatibility form; `tick` is called every thousand characters.
fn fold(text: &str, tick: &mut dyn FnMut()) -> String {
    let mut folded = String::with_capacity(text.len());
    for (number, c) in text.nfkc().enumerate() {
        if number.is_multiple_of(1000) {
            tick();
        }
        folded.push(c);
    }
    folded
}

/// Each two neighbours of a run, or the one that stands alone.
fn pairs(run: &mut Vec<&str>, each: &mut impl FnMut(Term)) {
    // A character under thousands of marks is noise.
    run.retain(|cluster| cluster.len() <= LONGEST_WORD);
    if let [alone] = run[..] {
        each(Term::Whole(alone.to_owned()));
    }
    for pair in run.windows(2) {
        each(Term::Whole(pair.concat()));
    }
    run.clear();
}

/// The code that stands between spaces, in lower case, without the punctuation around it.
fn code(token: &str) -> Option<String> {
    let code = token.trim_matches(|c: char| !c.is_alphanumeric());
    let joins = |c: char| matches!(c, '-' | '_' | '.' | '/' | ':');
    let fits = code.len() <= LONGEST_CODE
        && code.chars().any(|c| c.is_ascii_digit())
        && code.chars().any(joins)
        && code.chars().all(|c| joins(c) || c.is_alphanumeric() && !is_unspaced(c));
    // One word of the segmentation, like 3.14, is a term already.
    (fits && code.unicode_words().flat_map(|word| word.split('_')).nth(1).is_some()).then(|| code.to_lowercase())
}

/// Whether the script of a character puts no spaces between words.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{19e0}'..='\u{19ff}')
        || crate::fold::is_spaceless(c)
}

#[cfg(test)]
mod tests {
    use super::{Term, grams, terms};
    use proptest::prelude::*;

    #[test]
    fn grams_are_runs_of_words_the_longest_first() {
        let texts = |text, longest| grams(text, longest).into_iter().map(|gram| gram.1).collect::<Vec<_>>();
        assert_eq!(
            texts("Who is Ada Brandt's heir?", 2),
            [
                "Who is",
                "is Ada",
                "Ada Brandt",
                "Brandt's heir",
                "Who",
                "is",
                "Ada",
                "Brandt",
                "heir"
            ]
        );
        assert_eq!(texts("東京都", 3), ["東京都", "東京", "京都", "東", "京", "都"]);
        assert_eq!(grams("a b", 9).first(), Some(&(0..2, "a b")));
        assert!(texts("", 3).is_empty() && texts("?!", 3).is_empty());
        assert_eq!(grams(&"x ".repeat(2000), 1).len(), 500);
    }

    /// Words as they are, whole terms in brackets.
    fn list(text: &str) -> Vec<String> {
        let mut list = Vec::new();
        terms(text, &mut || (), |term| {
            list.push(match term {
                Term::Word(word) => word,
                Term::Whole(term) => format!("[{term}]"),
            });
        });
        list
    }

    #[test]
    fn words_in_lower_case_split_at_underscores() {
        assert_eq!(list("Fraud_model, isn't ÉCOLE!"), ["fraud", "model", "isn't", "école"]);
        assert_eq!(list("it’s"), ["it's"], "an apostrophe as typesetters have it");
        assert_eq!(list("… — !? ___ 🦀"), [""; 0]);
    }

    #[test]
    fn codes_are_terms_beside_their_words() {
        assert_eq!(list("(SR-2023-052)"), ["sr", "2023", "052", "[sr-2023-052]"]);
        assert_eq!(list("see POL_003."), ["see", "pol", "003", "[pol_003]"]);
        assert_eq!(list("3.14 v1.2.3"), ["3.14", "v1.2.3"]);
        assert_eq!(list("2023-05-01"), ["2023", "05", "01", "[2023-05-01]"]);
        assert_eq!(list("well-known"), ["well", "known"]);
        assert_eq!(list("a b-1"), ["a", "b", "1", "[b-1]"]);
    }

    #[test]
    fn scripts_without_spaces_give_pairs() {
        assert_eq!(list("知识图谱"), ["[知识]", "[识图]", "[图谱]"]);
        assert_eq!(list("猫, 犬 and データ"), ["[猫]", "[犬]", "and", "[デー]", "[ータ]"]);
        assert_eq!(
            list("これはテスト2023年"),
            ["[これ]", "[れは]", "[はテ]", "[テス]", "[スト]", "2023", "[年]"]
        );
        assert_eq!(list("ภาษาไทย").len(), list("ภาษาไทย ").len());
        assert!(list("ภาษาไทย").iter().all(|term| term.starts_with('[')));
    }

    #[test]
    fn width_and_compatibility_forms_are_one() {
        assert_eq!(list("ＳＲ－２０２３ ﬁle"), list("SR-2023 file"));
    }

    #[test]
    fn a_long_text_ticks_while_it_is_folded() {
        let mut ticks = 0;
        // One word, and no space.
        terms(&"é".repeat(200_000), &mut || ticks += 1, |_| ());
        assert!(ticks > 100, "{ticks}");
    }

    #[test]
    fn noise_is_left_out() {
        assert_eq!(list(&"x".repeat(256)), [""; 0]);
        assert_eq!(list(&"x".repeat(255)).len(), 1);
        assert_eq!(list(&format!("知{}識", "\u{300}".repeat(3000))), ["[識]"]);
        assert_eq!(list(&format!("{}-1", "x".repeat(70))).len(), 2);
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "\\PC{0,200}") {
            for term in list(&text) {
                prop_assert!(!term.is_empty());
                prop_assert!(term.len() <= 3 * super::LONGEST_WORD);
            }
        }

        #[test]
        fn joined_texts_have_the_terms_of_both(a in "[a-z0-9知識 .-]{0,40}", b in "[a-z0-9知識 .-]{0,40}") {
            let mut both = [list(&a), list(&b)].concat();
            let mut joined = list(&format!("{a}\n{b}"));
            both.sort();
            joined.sort();
            prop_assert_eq!(joined, both);
        }
    }
}

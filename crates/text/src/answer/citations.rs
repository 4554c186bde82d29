//! Citations in an answer: tags in square brackets, such as `[1]`, `[P1]` or `[P1, G2]`.

use crate::sentences::sentences;

/// An answer whose citations were checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cited {
    /// The answer without the tags that do not exist.
    pub text: String,
    /// Tags that exist, each once, as they come.
    pub tags: Vec<String>,
    /// Those that do not.
    pub unknown: Vec<String>,
    /// Whether every sentence has one that exists, inside or right behind it.
    pub grounded: bool,
}

/// Checks the citations of an answer. Brackets that hold anything but tags are left as they are.
pub fn citations(answer: &str, exists: impl Fn(&str) -> bool) -> Cited {
    let mut checked = Cited::default();
    let mut rest = answer;
    while let Some(open) = rest.find('[') {
        let inside = rest[open + 1..].split_once(']').map(|(inside, _)| inside);
        let tags = inside.and_then(tags_of);
        let (Some(inside), Some(tags)) = (inside, tags) else {
            checked.text.push_str(&rest[..=open]);
            rest = &rest[open + 1..];
            continue;
        };
        let (known, unknown): (Vec<&str>, Vec<&str>) = tags.into_iter().partition(|tag| exists(tag));
        let before = &rest[..open];
        match known.is_empty() {
            true => checked.text.push_str(before.trim_end_matches(' ')),
            false => checked.text.push_str(&format!("{before}[{}]", known.join(", "))),
        }
        for (from, to) in [(known, &mut checked.tags), (unknown, &mut checked.unknown)] {
            for tag in from {
                if !to.iter().any(|other| other == tag) {
                    to.push(tag.to_owned());
                }
            }
        }
        rest = &rest[open + inside.len() + 2..];
    }
    checked.text.push_str(rest);
    checked.grounded = is_grounded(&checked.text);
    checked
}

/// The tags of a bracket, if it holds nothing else: a capital letter or none, and up to six digits.
fn tags_of(inside: &str) -> Option<Vec<&str>> {
    let tags: Vec<&str> = inside.split([',', ';']).map(str::trim).collect();
    let is_tag = |tag: &&str| {
        let digits = tag.strip_prefix(|c: char| c.is_ascii_uppercase()).unwrap_or(tag);
        (1..=6).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit())
    };
    tags.iter().all(is_tag).then_some(tags)
}

/// Whether every sentence has a tag; all that are left exist.
fn is_grounded(text: &str) -> bool {
    let mut grounded: Vec<bool> = Vec::new();
    for sentence in sentences(text) {
        let mut rest = text[sentence].trim_start();
        // A tag behind the full stop belongs to the sentence before it.
        while let Some((tags, behind)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'))
            && tags_of(tags).is_some()
        {
            match grounded.last_mut() {
                Some(last) => *last = true,
                None => break,
            }
            rest = behind.trim_start_matches(['.', ' ', '\n']);
        }
        if rest.chars().any(char::is_alphanumeric) {
            let has = rest
                .split('[')
                .skip(1)
                .any(|part| part.split_once(']').is_some_and(|(tags, _)| tags_of(tags).is_some()));
            grounded.push(has);
        }
    }
    !grounded.is_empty() && grounded.into_iter().all(|has| has)
}

#[cfg(test)]
mod tests {
    use super::citations;
    use proptest::prelude::*;

    fn checked(answer: &str) -> (String, String, String, bool) {
        let found = citations(answer, |tag| ["P1", "P2", "G1", "1", "2"].contains(&tag));
        (
            found.text,
            found.tags.join(" "),
            found.unknown.join(" "),
            found.grounded,
        )
    }

    fn is(answer: &str, text: &str, tags: &str, unknown: &str, grounded: bool) {
        assert_eq!(
            checked(answer),
            (text.to_owned(), tags.to_owned(), unknown.to_owned(), grounded),
            "{answer}"
        );
    }

    #[test]
    fn tags_that_do_not_exist_go() {
        is("It is red [P1].", "It is red [P1].", "P1", "", true);
        is("It is red [P9].", "It is red.", "", "P9", false);
        is(
            "Red [P1, P9; G1]. Blue [7][P1].",
            "Red [P1, G1]. Blue[P1].",
            "P1 G1",
            "P9 7",
            true,
        );
        is("He said [sic] so [2].", "He said [sic] so [2].", "2", "", true);
        is("No end [P1", "No end [P1", "", "", false);
        is("", "", "", "", false);
    }

    #[test]
    fn every_sentence_needs_one() {
        is("It is red [1]. It is old.", "It is red [1]. It is old.", "1", "", false);
        is(
            "It is red. [1] It is old. [2]",
            "It is red. [1] It is old. [2]",
            "1 2",
            "",
            true,
        );
        is(
            "It is red.[1]\n\nIt is old.[2]",
            "It is red.[1]\n\nIt is old.[2]",
            "1 2",
            "",
            true,
        );
        is("- red [1]\n- old [2]\n", "- red [1]\n- old [2]\n", "1 2", "", true);
    }

    proptest! {
        #[test]
        fn nothing_but_tags_is_lost(answer in "[a-zP0-9\\[\\], .;é]{0,60}") {
            let found = citations(&answer, |_| true);
            let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
            prop_assert_eq!(letters(&found.text), letters(&answer));
            prop_assert!(found.unknown.is_empty());
            let none = citations(&answer, |_| false);
            prop_assert!(none.tags.is_empty() && !none.grounded);
            prop_assert_eq!(citations(&none.text, |_| false).text, none.text);
        }
    }
}

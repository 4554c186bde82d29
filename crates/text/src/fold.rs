//! Folding: when two spellings are one name.

use caseless::default_case_fold_str;
use unicode_normalization::UnicodeNormalization;

/// The identity of the entity called `name`; empty if nothing is left of it.
///
/// Two spellings are one entity if they fold alike. Folded away are: compatibility forms and width (NFKC), case (Unicode's
/// full case folding, so that `ß` is `ss`, a final sigma a sigma, and `İ` an `i`), kinds of white space and runs of it,
/// underscores (which are spaces), spaces between Han or Kana characters, quotes around the name, a trailing possessive,
/// kinds of apostrophe, inner quotes and dashes (the Hebrew and Armenian ones too), invisible and control characters, the
/// Arabic stroke that only stretches a word, and trade mark signs. Digits, other punctuation and accents stay: `v1` is not
/// `v2`. The result folds to itself.
///
/// Source: Unicode Standard 3.13, `toNFKC_Casefold`, with the rules above added.
pub fn name(name: &str) -> String {
    // They have one form each, and extraction folds every piece of a text in them.
    if name
        .chars()
        .all(|c| matches!(c, '\u{4E00}'..='\u{9FFF}' | '\u{3041}'..='\u{3096}' | '\u{30A1}'..='\u{30FA}'))
    {
        return name.to_owned();
    }
    let mut folded = once(name);
    // Dropping one thing may bring the next to the edge or next to a combining mark; two rounds settle almost any name.
    for _ in 0..8 {
        let next = once(&folded);
        if next == folded {
            break;
        }
        folded = next;
    }
    folded
}

/// The identity of the predicate `p`: folded as a [`name`], and space, `_` and `-` are alike.
pub fn predicate(p: &str) -> String {
    name(&name(p).replace('-', " "))
}

fn once(text: &str) -> String {
    if text.is_ascii() {
        return ascii(text);
    }
    let visible: String = text
        .chars()
        .filter(|&c| !is_invisible(c) && !matches!(c, '™' | '®' | '℠'))
        // NFKC would make a space and an accent of it.
        .map(|c| if c == '´' { '\'' } else { c })
        .collect();
    let compatible: String = visible.nfkc().collect();
    let lower: String = default_case_fold_str(&compatible).nfkc().collect();
    let mut folded = String::with_capacity(lower.len());
    let mut space = false;
    for c in lower.chars().map(plain).filter(|&c| !is_invisible(c)) {
        if c == ' ' {
            space = true;
            continue;
        }
        let last = folded.chars().next_back();
        if c == '\u{307}' && last == Some('i') && !space {
            continue;
        }
        if space && last.is_some_and(|last| !(is_spaceless(last) && is_spaceless(c))) {
            folded.push(' ');
        }
        space = false;
        folded.push(c);
    }
    bare(&folded).to_owned()
}

/// The same for ASCII, which has no other forms: most names, and extraction folds a few hundred pieces of each block.
fn ascii(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    let mut space = false;
    for c in text.chars().map(plain).filter(|&c| !is_invisible(c)) {
        if c == ' ' {
            space = true;
            continue;
        }
        if space && !folded.is_empty() {
            folded.push(' ');
        }
        space = false;
        folded.push(c.to_ascii_lowercase());
    }
    if bare(&folded).len() == folded.len() {
        return folded;
    }
    bare(&folded).to_owned()
}

/// `text` without the quotes and spaces around it and without the possessive behind it.
fn bare(text: &str) -> &str {
    let mut rest = text;
    loop {
        let quoted = |c: char| c == ' ' || is_quote(c);
        let next = rest.strip_suffix("'s").unwrap_or(rest).trim_matches(quoted);
        if next.len() == rest.len() {
            return rest;
        }
        rest = next;
    }
}

/// One spelling for each kind of space, apostrophe, quote and dash.
fn plain(c: char) -> char {
    match c {
        '_' => ' ',
        _ if c.is_whitespace() => ' ',
        '‘' | '’' | '‚' | '‛' | 'ʼ' | 'ʻ' | '′' | '`' | '׳' | '՚' | 'ꞌ' => '\'',
        '“' | '”' | '„' | '‟' | '″' | '״' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{2043}' | '\u{5BE}' | '\u{58A}' => '-',
        _ => c,
    }
}

/// Whether `c` is a quotation mark that may stand around a name.
pub(crate) fn is_quote(c: char) -> bool {
    matches!(
        c,
        '"' | '\'' | '`' | '«' | '»' | '‹' | '›' | '‘' | '’' | '‚' | '‛' | '“' | '”' | '„' | '‟'
    ) || matches!(
        c,
        '「' | '」' | '『' | '』' | '《' | '》' | '〈' | '〉' | '〝' | '〞' | '〟'
    )
}

/// Whether `c` shows nothing: control characters that are no space, zero-width and direction marks, soft hyphens,
/// variation selectors, the kashida.
fn is_invisible(c: char) -> bool {
    (c.is_control() && !c.is_whitespace())
        || matches!(c, '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{640}' | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{FEFF}')
        || matches!(c, '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FE00}'..='\u{FE0F}' | '\u{E0000}'..='\u{E0FFF}')
}

/// Whether `c` is of a script that is written without spaces and in which a space inside a name means nothing.
pub(crate) fn is_spaceless(c: char) -> bool {
    matches!(c, '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}')
        || matches!(c, '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

#[cfg(test)]
mod tests {
    use super::{name, predicate};
    use proptest::prelude::*;

    #[test]
    fn spellings_of_one_name() {
        for (spellings, folded) in [
            (
                &[
                    "fraud_model",
                    "Fraud Model",
                    " fraud \t\n model ",
                    "FRAUD__MODEL",
                    "“fraud model’s”",
                ][..],
                "fraud model",
            ),
            (&["Straße", "STRASSE", "strasse"], "strasse"),
            (&["ΟΔΟΣ", "οδος", "οδοσ"], "οδοσ"),
            (&["İstanbul", "Istanbul", "istanbul"], "istanbul"),
            (&["Ｐａｙｍｅｎｔｓ", "payments"], "payments"),
            (
                &[
                    "O’Neill Labs",
                    "O'Neill Labs",
                    "O´Neill Labs",
                    "O`Neill Labs",
                    "o'neill labs's",
                ],
                "o'neill labs",
            ),
            (&["צה״ל", "צה\"ל"], "צה\"ל"),
            (&["תל־אביב", "תל-אביב"], "תל-אביב"),
            (&["محـــمد", "محمد"], "محمد"),
            (&["Hawaiʻi", "Hawai’i"], "hawai'i"),
            (&["ᲗᲑᲘᲚᲘᲡᲘ"], "თბილისი"),
            (&["«Ада Лавлейс»", "ада лавлейс"], "ада лавлейс"),
            (&["「知识 图谱」", "知识图谱", "《知识图谱》"], "知识图谱"),
            (&["東京 タワー", "東京タワー"], "東京タワー"),
            (
                &["SR–2023—052", "sr-2023-052", "SR\u{2011}2023\u{2212}052"],
                "sr-2023-052",
            ),
            (&["Acme™", "ACME®", "a\u{200B}c\u{AD}me"], "acme"),
            (&["Joneses'", "Joneses"], "joneses"),
            (&["cafe\u{301}", "CAFÉ"], "café"),
            (&["ﬁle", "File"], "file"),
        ] {
            for spelling in spellings {
                assert_eq!(name(spelling), folded, "{spelling:?}");
            }
        }
    }

    #[test]
    fn different_names_stay_different() {
        for (a, b) in [
            ("v1", "v2"),
            ("GPT-4", "GPT-5"),
            ("Model 1.0", "Model 10"),
            ("C", "C++"),
            ("cafe", "café"),
            ("知识 a", "知识a"),
        ] {
            assert_ne!(name(a), name(b));
        }
    }

    #[test]
    fn nothing_left() {
        for empty in ["", " ", "_", "''", "\u{0}\u{7}", "'s", "’s", "「」", "\u{200B}"] {
            assert_eq!(name(empty), "", "{empty:?}");
            assert_eq!(predicate(empty), "");
        }
    }

    #[test]
    fn predicates_ignore_separators() {
        for p in ["is_owned_by", "Is Owned By", "is-owned-by", "IS—OWNED BY"] {
            assert_eq!(predicate(p), "is owned by");
        }
    }

    #[test]
    fn a_long_name_takes_one_pass() {
        assert_eq!(name(&format!("Bank{}", "'s ".repeat(300_000))), "bank");
    }

    proptest! {
        #[test]
        fn folding_is_idempotent(text in "\\PC{0,20}|[\\s_'’s\"「」iİI\u{307}ßς\u{345}\u{300}ﬁ知 識\u{200B}-]{0,12}|.{0,12}") {
            let folded = name(&text);
            prop_assert_eq!(&name(&folded), &folded);
            let folded = predicate(&text);
            prop_assert_eq!(&predicate(&folded), &folded);
        }

        #[test]
        fn ascii_is_folded_as_other_text_is(text in "[\\x00-\\x7F]{0,16}|[a-z_'\"` \t]{0,12}") {
            // A letter that is no ASCII takes the long way and folds to itself.
            let long = name(&format!("{text}ж"));
            let (short, rest) = (name(&text), long.strip_suffix('ж').unwrap_or(&long));
            prop_assert_eq!(super::bare(rest.trim_end()), short);
        }

        #[test]
        fn han_and_kana_are_folded_as_in_other_text(text in "[\u{4E00}-\u{9FFF}\u{3041}-\u{3096}\u{30A1}-\u{30FA}]{0,12}") {
            prop_assert_eq!(name(&format!("{text}ж")), name(&text) + "ж");
        }

        #[test]
        fn case_of_ascii_does_not_matter(text in "[a-zA-Z0-9 _.-]{0,20}") {
            prop_assert_eq!(name(&text.to_uppercase()), name(&text.to_lowercase()));
        }
    }
}

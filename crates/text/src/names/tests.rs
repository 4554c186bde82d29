//! The table of pairs, and what holds of any names.

use super::*;
use proptest::prelude::*;
use std::time::Instant;

struct Pair<'a> {
    verdict: &'a str,
    script: &'a str,
    a: &'a str,
    b: &'a str,
    reason: Option<&'a str>,
}

fn table() -> Vec<Pair<'static>> {
    let lines = include_str!("pairs.tsv").lines().filter(|line| !line.starts_with('#'));
    let pair = |line: &'static str| {
        let mut fields = line.split('\t');
        let mut next = || fields.next().unwrap_or_else(|| panic!("{line:?}"));
        let (verdict, script, a, b) = (next(), next(), next(), next());
        Pair {
            verdict,
            script,
            a,
            b,
            reason: fields.next(),
        }
    };
    lines.map(pair).collect()
}

fn share(a: &str, b: &str) -> bool {
    let other = keys(b);
    keys(a).iter().any(|key| other.contains(key))
}

#[test]
fn pairs_are_told_as_the_table_has_them() {
    let mut wrong = Vec::new();
    for Pair {
        verdict, a, b, reason, ..
    } in table()
    {
        let said = compare(a, b);
        let right = match (verdict, said) {
            ("same", Verdict::Same) | ("different" | "most", Verdict::Different) => true,
            ("ask", Verdict::Ask { reason: said, .. }) => reason == Some(said),
            ("most", Verdict::Ask { score, .. }) => score < 0.9,
            _ => false,
        };
        if !right || said != compare(b, a) {
            wrong.push(format!("{verdict} {a} | {b}: {said:?}, {:?}", compare(b, a)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_table_is_broad() {
    let table = table();
    let mut scripts: Vec<&str> = table.iter().map(|pair| pair.script).collect();
    scripts.sort_unstable();
    scripts.dedup();
    assert!(table.len() >= 150 && scripts.len() >= 8, "{} {scripts:?}", table.len());
    for reason in REASONS {
        assert!(table.iter().any(|pair| pair.reason == Some(reason)), "{reason}");
    }
}

#[test]
fn who_is_asked_about_shares_a_key() {
    let mut apart = Vec::new();
    let (mut count, mut names) = (0, 0);
    for Pair { a, b, .. } in table() {
        if matches!(compare(a, b), Verdict::Ask { score, .. } if score >= 0.5) && !share(a, b) {
            apart.push(format!("{a} | {b}: {:?}", compare(a, b)));
        }
        count += keys(a).len() + keys(b).len();
        names += 2;
    }
    assert!(apart.is_empty(), "{}", apart.join("\n"));
    assert!(count <= 12 * names, "{count} keys of {names} names");
}

#[test]
fn all_names_of_the_table_among_themselves() {
    let table = table();
    let names: Vec<&str> = table.iter().flat_map(|pair| [pair.a, pair.b]).collect();
    let keys: Vec<Vec<u64>> = names.iter().map(|name| keys(name)).collect();
    for (x, a) in names.iter().enumerate() {
        for (y, b) in names.iter().enumerate().take(x) {
            if let Verdict::Ask { score, reason } = compare(a, b) {
                assert!((0.0..=1.0).contains(&score) && REASONS.contains(&reason));
                assert!(
                    score < 0.5 || keys[x].iter().any(|key| keys[y].contains(key)),
                    "{a} | {b} {score} {reason}"
                );
            }
        }
    }
}

#[test]
fn nearest_likes_beginnings_words_and_small_changes() {
    let known = [
        "ada lovelace",
        "ada lovelace institute",
        "charles babbage",
        "analytical engine",
        "lovelace",
        "night ferry",
    ];
    assert_eq!(nearest("Ada Lovelase", known, 1), ["ada lovelace"]);
    assert_eq!(nearest("ada", known, 2), ["ada lovelace", "ada lovelace institute"]);
    assert_eq!(nearest("Ferry", known, 3), ["night ferry"]);
    assert_eq!(nearest("Babbage, Charles", known, 1), ["charles babbage"]);
    assert_eq!(nearest("Lovelace", known, 2), ["lovelace", "ada lovelace"]);
    assert!(nearest("知识图谱", known, 3).is_empty());
    assert!(nearest("", known, 3).is_empty());
    assert!(nearest("ada", known, 0).is_empty());
    assert_eq!(nearest("图谱", ["知识图谱", "红楼梦"], 3), ["知识图谱"]);
}

#[test]
fn a_chain_is_no_group() {
    let chain = [
        ("Anna Berg", "A. Berg"),
        ("A. Berg", "Otto Berg"),
        ("A. Berg", "Agnes Berg"),
    ];
    let mut turned = chain.map(|(a, b)| (b, a));
    turned.reverse();
    assert_eq!(groups(&chain), groups(&turned));
    for group in groups(&chain) {
        assert_eq!(group.len(), 2, "{group:?}");
    }
    let same = [
        ("Ada Lovelace", "Lovelace, Ada"),
        ("ADA LOVELACE", "Ada Lovelace"),
        ("Dr. Ada Lovelace", "Lovelace, Ada"),
    ];
    assert_eq!(
        groups(&same),
        [["ADA LOVELACE", "Ada Lovelace", "Dr. Ada Lovelace", "Lovelace, Ada"]]
    );
    assert!(groups(&[("World War I", "World War II")]).is_empty());
    assert!(groups(&[]).is_empty());
}

#[test]
fn long_names_take_a_moment() {
    let start = Instant::now();
    for unit in ["a ", "a. ", "ab", "知", "ii ", "'s ", "株式会社", "the ", ", "] {
        let (long, longer) = (unit.repeat(20_000), unit.repeat(20_001));
        compare(&long, &longer);
        keys(&long);
        nearest(&long, [longer.as_str()], 1);
        let (full, less) = (
            unit.repeat(256 / unit.chars().count()),
            unit.repeat(250 / unit.chars().count()),
        );
        compare(&full, &less);
        keys(&full);
    }
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

/// Names made of what the rules look at.
fn any_name() -> impl Strategy<Value = String> {
    let word = "[a-zA-Zéüßłİı]{1,12}|[A-Z]\\.|[IVXLC]{1,4}|Dr\\.|Inc\\.|S\\.A\\.|the|of|and|[0-9]{1,3}|[а-яё]{2,8}|[知識北京大学]{1,6}|[가-힣]{2,4}\
        |株式会社|様|\\+|&|ー|'s|\"";
    prop_oneof![
        "\\PC{0,20}",
        ".{0,12}",
        (prop::collection::vec(word, 0..5), "[ ,.'-]").prop_map(|(words, between)| words.join(&between)),
    ]
}

/// A name, and the same with a small change.
fn varied() -> impl Strategy<Value = (String, String)> {
    let words = prop::collection::vec("[A-Z][a-z]{2,12}", 1..4);
    (words, 0..12u8, any::<prop::sample::Index>(), "[a-z]").prop_map(|(words, change, at, letter)| {
        let name = words.join(" ");
        let at = at.index(name.len());
        let (before, after) = name.split_at(at);
        let changed = match change {
            0 => format!("{before}{letter}{after}"),
            1 => format!("{before}{}", &after[1..]),
            2 => format!("{before}{letter}{}", &after[1..]),
            3 if after.len() > 1 => format!("{before}{}{}{}", &after[1..2], &after[..1], &after[2..]),
            4 => words.iter().rev().cloned().collect::<Vec<_>>().join(" "),
            5 => format!("{}. {}", &words[0][..1], words.last().unwrap()),
            6 => words.iter().map(|word| &word[..1]).collect(),
            7 => words[1..].join(" "),
            8 => format!("Dr. {name}, Inc."),
            9 => format!("{name}s"),
            10 => words.concat(),
            _ => words
                .iter()
                .map(|word| format!("{word}s"))
                .collect::<Vec<_>>()
                .join("-"),
        };
        (name, changed)
    })
}

proptest! {
    #[test]
    fn blind_to_order_and_to_folding(a in any_name(), b in any_name()) {
        let said = compare(&a, &b);
        prop_assert_eq!(said, compare(&b, &a));
        prop_assert_eq!(said, compare(&crate::fold::name(&a), &b));
        prop_assert_eq!(said == Verdict::Same, crate::fold::name(&a) == crate::fold::name(&b));
        prop_assert_eq!(compare(&a, &a), Verdict::Same);
        prop_assert_eq!(keys(&a), keys(&crate::fold::name(&a)));
        if matches!(said, Verdict::Ask { score, .. } if score >= 0.5) {
            prop_assert!(share(&a, &b), "{} | {}: {:?}", a, b, said);
        }
    }

    #[test]
    fn small_changes_share_a_key((a, b) in varied()) {
        let said = compare(&a, &b);
        prop_assert_eq!(said, compare(&b, &a));
        if matches!(said, Verdict::Ask { score, .. } if score >= 0.5) {
            prop_assert!(share(&a, &b), "{} | {}: {:?}", a, b, said);
        }
    }

    #[test]
    fn names_of_the_table_with_a_change_share_a_key(pick in 0usize..1000, changes in prop::collection::vec((0..4u8, any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..4)) {
        let table = table();
        let a = table[pick % table.len()].a;
        let mut chars: Vec<char> = a.chars().collect();
        for (kind, at, from) in changes {
            let (at, letter) = (at.index(chars.len()), chars[from.index(chars.len())]);
            match kind {
                0 => chars.insert(at, letter),
                1 if chars.len() > 1 => drop(chars.remove(at)),
                2 => chars[at] = letter,
                _ => chars[at.saturating_sub(1)..=at].reverse(),
            }
        }
        let b: String = chars.into_iter().collect();
        let said = compare(a, &b);
        prop_assert_eq!(said, compare(&b, a));
        if matches!(said, Verdict::Ask { score, .. } if score >= 0.5) {
            prop_assert!(share(a, &b), "{} | {}: {:?}", a, b, said);
        }
    }

    #[test]
    fn a_digit_changed_is_another_name(name in "[A-Z][a-z]{1,8}( [A-Z][a-z]{1,8}){0,2}", one in 0..1000u32, other in 0..1000u32) {
        prop_assume!(one != other);
        for sign in [" ", "-", ""] {
            prop_assert_eq!(compare(&format!("{name}{sign}{one}"), &format!("{name}{sign}{other}")), Verdict::Different);
        }
    }

    #[test]
    fn distances_are_those_without_a_band(a in "[abc]{0,9}", b in "[abc]{0,9}", most in 1usize..5) {
        let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
        let whole = edit::distance(&a, &b, 20).unwrap();
        prop_assert_eq!(edit::distance(&a, &b, most), (whole <= most).then_some(whole));
        prop_assert_eq!(edit::cost(&a, &b), edit::cost(&b, &a));
    }

    #[test]
    fn no_group_holds_different_names(picks in prop::collection::vec((0usize..400, 0usize..400), 1..30)) {
        let table = table();
        let names: Vec<&str> = table.iter().flat_map(|pair| [pair.a, pair.b]).collect();
        let pairs: Vec<(&str, &str)> = picks.iter().map(|&(a, b)| (names[a % names.len()], names[(a + b % 4) % names.len()])).collect();
        let found = groups(&pairs);
        let mut other: Vec<(&str, &str)> = pairs.iter().map(|&(a, b)| (b, a)).collect();
        other.sort_unstable();
        prop_assert_eq!(&found, &groups(&other));
        for group in &found {
            for (at, a) in group.iter().enumerate() {
                for b in &group[..at] {
                    prop_assert_ne!(compare(a, b), Verdict::Different);
                }
            }
        }
    }
}

//! Relations: pairs of entities in a sentence, and the words that link them.

use super::lists::{is_adverb, is_article, is_organization, is_side_by_side, is_verb};
use super::scan::{Gap, Sentence, Shape};
use super::table::Occurrence;
use super::{RELATED, is_stop};
use crate::stop::{StopWords, words};
use std::collections::{BTreeMap, HashSet};

/// The most entities of a sentence in which each is related to each.
const EACH: usize = 4;
/// The most entities of a sentence in which neighbours are related without a linking word.
const LIST: usize = 12;
/// The most words of a predicate, and the most characters in scripts without spaces.
const LINK: usize = 5;
const LINK_CHARACTERS: usize = 6;

/// The triples of `sentence` as (subject, predicate, object) of mentions; `who[i]` is the mention of `occurrences[i]`.
pub(super) fn relate(
    text: &str,
    sentence: &Sentence,
    occurrences: &[Occurrence],
    who: &[usize],
    stop: &StopWords,
) -> Vec<(usize, String, usize)> {
    let mut entities: Vec<(usize, usize)> = Vec::new();
    let mut seen = HashSet::new();
    for (at, &mention) in who.iter().enumerate() {
        if seen.insert(mention) {
            entities.push((at, mention));
        }
    }
    // By the places of subject and object.
    let mut found: BTreeMap<(usize, usize), String> = BTreeMap::new();
    let mut linked = HashSet::new();
    for at in 1..who.len() {
        if who[at - 1] == who[at] {
            continue;
        }
        if let Some(predicate) = link(text, sentence, &occurrences[at - 1], &occurrences[at], stop) {
            linked.insert((who[at - 1], who[at]));
            found.insert((at - 1, at), predicate);
        } else if entities.len() <= LIST {
            found.insert((at - 1, at), RELATED.to_owned());
        }
    }
    if entities.len() <= EACH {
        for (nth, &(at, _)) in entities.iter().enumerate() {
            for &(other, _) in &entities[nth + 1..] {
                found.entry((at, other)).or_insert_with(|| RELATED.to_owned());
            }
        }
    }
    // What a sentence says in words it need not say without, in either direction.
    let mut given = HashSet::new();
    found
        .into_iter()
        .map(|((subject, object), predicate)| (who[subject], predicate, who[object]))
        .filter(|(s, p, o)| p != RELATED || !(linked.contains(&(*s, *o)) || linked.contains(&(*o, *s))))
        .filter(|(s, p, o)| {
            if p == RELATED {
                given.insert((*s.min(o), p.clone(), *s.max(o)))
            } else {
                given.insert((*s, p.clone(), *o))
            }
        })
        .collect()
}

/// The words between two neighbours, if they link them.
fn link(text: &str, sentence: &Sentence, a: &Occurrence, b: &Occurrence, stop: &StopWords) -> Option<String> {
    let tokens = &sentence.tokens;
    let beside_spaceless = [&tokens[a.tokens.end - 1], &tokens[b.tokens.start]]
        .iter()
        .any(|t| t.shape == Shape::Spaceless);
    if beside_spaceless {
        return link_spaceless(text.get(a.bytes.end..b.bytes.start)?);
    }
    let mut words = &tokens[a.tokens.end..b.tokens.start];
    // Words behind a comma say something of what stands before it only if they start with a pronoun.
    let relative = words
        .first()
        .is_some_and(|t| matches!(t.fold.as_str(), "who" | "which" | "that"));
    if relative {
        words = &words[1..];
    } else if words.first().is_some_and(|t| t.gap != Gap::Space) {
        return None;
    }
    let broken = words.iter().skip(usize::from(relative)).any(|t| t.gap != Gap::Space)
        || tokens[b.tokens.start].gap != Gap::Space;
    if broken || words.len() > LINK + 1 {
        return None;
    }
    while words.last().is_some_and(|t| is_article(&t.fold)) {
        words = &words[..words.len() - 1];
    }
    let first = words.first()?;
    if words.len() > LINK || words.iter().any(|t| is_side_by_side(&t.fold)) {
        return None;
    }
    let english = stop.contains("which") || stop.is_empty();
    let content = words.iter().any(|t| !is_stop(t, stop));
    // Adverbs may stand before the verb.
    let verb = words.iter().position(|t| {
        !(is_adverb(&t.fold) || matches!(t.fold.as_str(), "also" | "then" | "now" | "still" | "often"))
    })?;
    let next = words.get(verb + 1).map(|t| t.fold.as_str());
    let verb = &words[verb].fold;
    let preposition = words.len() == 1
        && matches!(
            first.fold.as_str(),
            "in" | "at" | "of" | "from" | "for" | "with" | "by" | "on" | "under"
        );
    let says = if english {
        is_verb(verb, next)
    } else {
        content && words.len() <= 3 && !is_organization(&first.fold)
    };
    let lower =
        |t: &super::scan::Token| t.shape == Shape::Lower || t.shape == Shape::Uncased || t.shape == Shape::Number;
    if !(says || preposition) || !words.iter().all(lower) {
        return None;
    }
    let link: Vec<String> = words.iter().map(|t| t.text.to_lowercase()).collect();
    Some(link.join(" "))
}

/// The characters between two neighbours, if they are few, no mark and no function word.
fn link_spaceless(between: &str) -> Option<String> {
    let link = between.trim().trim_end_matches(['了', '着', '过', '的']);
    let short = (1..=LINK_CHARACTERS).contains(&link.chars().count());
    let kana = link.chars().all(|c| ('\u{3040}'..='\u{30FF}').contains(&c));
    let beside = ["和", "与", "及", "或", "以及", "的", "、", "而", "并", "同"].contains(&link);
    let function = link.starts_with('的') || (link.chars().count() == 1 && words("chinese").contains(link));
    (short && !kana && !beside && !function && link.chars().all(char::is_alphanumeric)).then(|| link.to_lowercase())
}

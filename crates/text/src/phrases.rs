//! Entities and relations without a model: noun phrases by their spelling and repetition, related if one sentence holds both.

mod lists;
mod names;
mod relate;
mod repeated;
mod scan;
mod table;

use crate::fold;
use crate::stop::{self, StopWords};
use scan::{Shape, Token, scan};
use std::collections::HashMap;
use std::ops::Range;
use table::{Occurrence, Table};

/// The kinds of entities.
pub const NAME: &str = "name";
pub const PERSON: &str = "person";
pub const ORGANIZATION: &str = "organization";
pub const CODE: &str = "code";
pub const CONCEPT: &str = "concept";

/// The predicate of a relation whose words the sentence does not say.
pub const RELATED: &str = "related_to";

/// What [`cooccurrence`] finds in a block.
#[derive(Debug, Default, PartialEq)]
pub struct Extraction {
    /// Each entity once, in the order of first occurrence.
    pub mentions: Vec<Mention>,
    /// In the order of the sentences; within one, of subject and object.
    pub relations: Vec<Relation>,
}

/// An entity, where it stands first.
#[derive(Debug, PartialEq)]
pub struct Mention {
    /// As it is spelled there, with single spaces.
    pub name: String,
    /// [`NAME`], [`PERSON`], [`ORGANIZATION`], [`CODE`] or [`CONCEPT`].
    pub kind: &'static str,
    /// Its place in characters of the block.
    pub start_char: usize,
    pub end_char: usize,
    /// Its place in bytes of the block.
    pub bytes: Range<usize>,
}

/// Two entities that one sentence holds.
#[derive(Debug, PartialEq)]
pub struct Relation {
    /// The entity that stands first, as the sentence spells it.
    pub subject: String,
    /// The words between them, in small letters, or [`RELATED`].
    pub predicate: String,
    pub object: String,
    /// The bytes of the sentence, without white space around it: the verbatim evidence.
    pub quote: Range<usize>,
    /// The same place in characters of the block.
    pub start_char: usize,
    pub end_char: usize,
}

/// The entities and relations of `text`, a block of about a thousand tokens.
///
/// Entities are names (capitals that their place in the sentence does not explain, acronyms, codes), identifiers
/// (`snake_case`, CamelCase, code in backticks), runs of two to four content words that the block repeats, and repeated
/// sequences or quoted titles in scripts without capitals and spaces. `stop` are the stop words of the text's language. Names that fold
/// alike ([`fold::name`]) are one entity, under the first spelling. Code blocks, links and addresses are left out.
///
/// Two entities are related if a sentence holds both: each with the next one, and each with each if there are at most
/// four. The predicate is the linking verb phrase of up to five words between them, else [`RELATED`], which a sentence
/// of more than twelve entities (a list) doesn't give. A triple is given once per sentence.
///
/// `tick` is called at least once a sentence and a thousand words.
pub fn cooccurrence(text: &str, stop: &StopWords, tick: &mut dyn FnMut()) -> Extraction {
    let sentences = scan(text, stop, tick);
    let mut table = Table::default();
    names::find(&sentences, stop, &mut table, tick);
    repeated::words(&sentences, stop, &mut table, tick);
    repeated::characters(text, &sentences, &mut table, tick);
    let chars = Chars::of(text);
    let mut found = Extraction::default();
    let mut by_fold: HashMap<String, usize> = HashMap::new();
    let mut by_key: HashMap<String, usize> = HashMap::new();
    for sentence in &sentences {
        tick();
        let occurrences = table.occurrences(sentence);
        let mut who = Vec::with_capacity(occurrences.len());
        for Occurrence { key, kind, bytes, .. } in &occurrences {
            let at = *by_key.entry(key.clone()).or_insert_with(|| {
                let name = spelling(&text[bytes.clone()]);
                *by_fold.entry(fold::name(&name)).or_insert_with(|| {
                    let (start_char, end_char) = (chars.before(bytes.start), chars.before(bytes.end));
                    found.mentions.push(Mention {
                        name,
                        kind,
                        start_char,
                        end_char,
                        bytes: bytes.clone(),
                    });
                    found.mentions.len() - 1
                })
            });
            who.push(at);
        }
        let (start_char, end_char) = (chars.before(sentence.bytes.start), chars.before(sentence.bytes.end));
        // As this sentence spells it, unless that would be another name.
        let spelled = |mention: usize| {
            let known = &found.mentions[mention].name;
            let here = who
                .iter()
                .position(|&at| at == mention)
                .map(|at| spelling(&text[occurrences[at].bytes.clone()]));
            here.filter(|here| fold::name(here) == fold::name(known))
                .unwrap_or_else(|| known.clone())
        };
        for (subject, predicate, object) in relate::relate(text, sentence, &occurrences, &who, stop) {
            found.relations.push(Relation {
                subject: spelled(subject),
                predicate,
                object: spelled(object),
                quote: sentence.bytes.clone(),
                start_char,
                end_char,
            });
        }
    }
    found
}

/// A name without its line breaks.
fn spelling(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether `token` is a stop word: of the text's language, or of its script's if that has no capitals.
fn is_stop(token: &Token, stop: &StopWords) -> bool {
    const ARTICLES: [&str; 16] = [
        "the", "a", "an", "der", "die", "das", "le", "la", "les", "el", "los", "las", "il", "lo", "o", "os",
    ];
    if stop.contains(&token.fold) || ARTICLES.contains(&token.fold.as_str()) {
        return true;
    }
    let language = match token.fold.chars().next() {
        Some('\u{590}'..='\u{5FF}') => "hebrew",
        Some('\u{600}'..='\u{77F}') => "arabic",
        Some('\u{900}'..='\u{97F}') => "hindi",
        Some('\u{1100}'..='\u{11FF}' | '\u{AC00}'..='\u{D7AF}') => "korean",
        _ => return false,
    };
    token.shape == Shape::Uncased && stop::words(language).contains(&token.fold)
}

/// Characters before a byte, found in constant time: how many there are before every 64th.
struct Chars<'a> {
    bytes: &'a [u8],
    before: Vec<usize>,
}

impl<'a> Chars<'a> {
    fn of(text: &'a str) -> Chars<'a> {
        let count = |chunk: &[u8]| chunk.iter().filter(|&&b| !is_continuation(b)).count();
        let before = std::iter::once(0)
            .chain(text.as_bytes().chunks(64).scan(0, |sum, chunk| {
                *sum += count(chunk);
                Some(*sum)
            }))
            .collect();
        Chars {
            bytes: text.as_bytes(),
            before,
        }
    }

    fn before(&self, byte: usize) -> usize {
        let chunk = byte / 64;
        self.before[chunk]
            + self.bytes[chunk * 64..byte]
                .iter()
                .filter(|&&b| !is_continuation(b))
                .count()
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

#[cfg(test)]
mod tests;

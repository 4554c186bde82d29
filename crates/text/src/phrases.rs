//! Entities and relations without a model: titles of documents, and noun phrases by their spelling and repetition, related if
//! one sentence holds both.

mod lists;
mod names;
mod relate;
mod repeated;
mod scan;
mod table;
mod titles;

pub use titles::{Form, Title, hash, hashes, title};

use crate::fold;
use crate::stop::{self, StopWords};
use names::Names;
use scan::{Sentence, Shape, Token, scan};
use std::collections::{HashMap, HashSet};
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
    Reading::of(text, stop, tick).extract(&HashSet::new(), None, tick)
}

/// A block that was cut into sentences, so that titles can be looked up between the two steps of its extraction.
pub struct Reading<'a> {
    text: &'a str,
    stop: &'a StopWords,
    sentences: Vec<Sentence<'a>>,
}

impl<'a> Reading<'a> {
    pub fn of(text: &'a str, stop: &'a StopWords, tick: &mut dyn FnMut()) -> Reading<'a> {
        let sentences = scan(text, stop, tick);
        Reading { text, stop, sentences }
    }

    /// Calls `visit` with each folded name that the block may use and that may be the title of a document.
    pub fn candidates(&self, tick: &mut dyn FnMut(), visit: &mut dyn FnMut(String)) {
        let names = Names::of(&self.sentences);
        for sentence in &self.sentences {
            tick();
            titles::visit(self.text, sentence, &names, self.stop, tick, &mut |_, _, key| {
                visit(key);
                false
            });
            titles::visit_spaceless(sentence, tick, &mut |piece| visit(fold::name(piece)));
        }
    }

    /// What [`cooccurrence`] finds, and beside it the `titles` of documents (folded): they are names wherever the block uses
    /// one, and `own`, the title of the block's own document, is related to each of the others. `own` is not among the
    /// mentions unless the text has it.
    pub fn extract(mut self, titles: &HashSet<String>, own: Option<&Form>, tick: &mut dyn FnMut()) -> Extraction {
        let mut table = Table::default();
        self.place_titles(titles, &mut table, tick);
        let Reading { text, stop, sentences } = self;
        names::find(&sentences, &Names::of(&sentences), stop, &mut table, tick);
        found(text, &sentences, stop, table, own, tick)
    }

    fn place_titles(&mut self, titles: &HashSet<String>, table: &mut Table, tick: &mut dyn FnMut()) {
        if titles.is_empty() {
            return;
        }
        let names = Names::of(&self.sentences);
        let mut placed: Vec<Vec<titles::Span>> = Vec::with_capacity(self.sentences.len());
        for sentence in &self.sentences {
            tick();
            let mut spans = Vec::new();
            titles::visit(
                self.text,
                sentence,
                &names,
                self.stop,
                tick,
                &mut |tokens, bytes, key| {
                    let known = titles.contains(&key);
                    if known {
                        let words: Vec<&Token> = sentence.tokens[tokens.clone()].iter().collect();
                        let kind = titles::kind(&words, self.stop);
                        spans.push(titles::Span {
                            tokens,
                            bytes,
                            key,
                            kind,
                        });
                    }
                    known
                },
            );
            titles::visit_spaceless(sentence, tick, &mut |piece| {
                if titles.contains(&fold::name(piece)) {
                    table.enter_title(piece);
                }
            });
            placed.push(spans);
        }
        drop(names);
        for (sentence, spans) in self.sentences.iter_mut().zip(placed) {
            sentence.titles = spans;
        }
    }
}

fn found(
    text: &str,
    sentences: &[Sentence],
    stop: &StopWords,
    mut table: Table,
    own: Option<&Form>,
    tick: &mut dyn FnMut(),
) -> Extraction {
    repeated::words(sentences, stop, &mut table, tick);
    repeated::characters(text, sentences, &mut table, tick);
    let chars = Chars::of(text);
    let mut found = Extraction::default();
    let mut by_fold: HashMap<String, usize> = HashMap::new();
    let mut by_key: HashMap<String, usize> = HashMap::new();
    // The titles of other documents, each where it stands first.
    let mut others: Vec<(usize, &Sentence)> = Vec::new();
    for sentence in sentences {
        tick();
        let occurrences = table.occurrences(sentence);
        let mut who = Vec::with_capacity(occurrences.len());
        for Occurrence {
            key,
            kind,
            bytes,
            titled,
            ..
        } in &occurrences
        {
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
            let is_other = *titled && own.is_some_and(|own| own.key != fold::name(&found.mentions[at].name));
            if is_other && others.iter().all(|(other, _)| *other != at) {
                others.push((at, sentence));
            }
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
    if let Some(own) = own {
        relate_own(&mut found, own, &others, &chars);
    }
    found
}

/// Relates the document's own title to the `others`, unless a sentence relates them.
fn relate_own(found: &mut Extraction, own: &Form, others: &[(usize, &Sentence)], chars: &Chars) {
    let here = found
        .mentions
        .iter()
        .find(|mention| fold::name(&mention.name) == own.key);
    let subject = here.map_or(&own.name, |mention| &mention.name).clone();
    let mut related: HashSet<String> = HashSet::new();
    for relation in &found.relations {
        let ends = [fold::name(&relation.subject), fold::name(&relation.object)];
        if ends.contains(&own.key) {
            related.extend(ends);
        }
    }
    for (at, sentence) in others {
        let object = found.mentions[*at].name.clone();
        if related.insert(fold::name(&object)) {
            found.relations.push(Relation {
                subject: subject.clone(),
                predicate: RELATED.to_owned(),
                object,
                quote: sentence.bytes.clone(),
                start_char: chars.before(sentence.bytes.start),
                end_char: chars.before(sentence.bytes.end),
            });
        }
    }
}

/// A name without its line breaks.
fn spelling(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether `token` is a stop word: of the text's language, or of its script's if that has no capitals.
fn is_stop(token: &Token, stop: &StopWords) -> bool {
    const ARTICLES: [&str; 6] = ["the", "a", "an", "der", "die", "das"];
    // In texts of other languages they begin names: `Los Angeles`, `Le Monde`.
    const ROMANCE: [&str; 10] = ["le", "la", "les", "el", "los", "las", "il", "lo", "o", "os"];
    let word = token.fold.as_str();
    if stop.contains(word) || ARTICLES.contains(&word) || stop.is_empty() && ROMANCE.contains(&word) {
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

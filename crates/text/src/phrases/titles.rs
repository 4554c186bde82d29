//! Titles as names: which title names a thing, and where a text uses such a name.

use super::lists::{is_adverb, is_common, is_label, is_organization, is_time};
use super::names::{Names, Place};
use super::scan::{Gap, Sentence, Shape, Token, scan};
use super::{CODE, CONCEPT, NAME, ORGANIZATION, is_stop};
use crate::fold;
use crate::stop::StopWords;
use sha2::{Digest, Sha256};
use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation;

/// The most words of a title that names a thing: a longer one is a sentence, which no other text repeats.
const LONGEST: usize = 10;
/// The most characters of one in a script without spaces.
const GRAPHEMES: usize = 12;
/// The most words in front of the comma or behind it, where what is in front may stand alone.
const QUALIFIER: usize = 3;

/// What a document is about, if its title is a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Title {
    /// The whole title, without an article in front and punctuation around it.
    pub full: Form,
    /// What stands before `(qualifier)` or `, Qualifier`.
    pub short: Option<Form>,
}

/// One way to write a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    pub name: String,
    /// The folded name.
    pub key: String,
    pub kind: &'static str,
}

/// The place of a title in a sentence.
#[derive(Debug)]
pub(super) struct Span {
    pub tokens: Range<usize>,
    pub bytes: Range<usize>,
    pub key: String,
    pub kind: &'static str,
}

/// A number that equal keys share, for an index: the first eight bytes of the SHA-256.
pub fn hash(key: &str) -> i64 {
    let digest = Sha256::digest(key);
    i64::from_be_bytes(std::array::from_fn(|at| digest[at]))
}

/// The numbers of the forms of `title`, whether or not they are names: those stand in an index, where no stop words are known.
pub fn hashes(title: &str) -> (Option<i64>, Option<i64>) {
    let empty = StopWords::default();
    let (full, short) = forms(title, &empty);
    let number = |form: Option<Form>| form.map(|form| hash(&form.key));
    (number(full), number(short))
}

/// What `title` names; nothing if it labels a text ("Introduction", "Release notes"), is one word in small letters (which
/// the word itself cannot be told from), a number, or a whole sentence.
pub fn title(title: &str, stop: &StopWords) -> Option<Title> {
    let (full, short) = forms(title, stop);
    let named = |form: &Form| is_name(&form.name, stop);
    let full = full.filter(|form| named(form))?;
    Some(Title {
        full,
        short: short.filter(|form| named(form)),
    })
}

fn forms(title: &str, stop: &StopWords) -> (Option<Form>, Option<Form>) {
    let mut tick = || ();
    let whole = title.trim();
    let parenthesis = whole.strip_suffix(')').and_then(|open| open.rsplit_once('('));
    let comma = || {
        let (front, behind) = whole.split_once(',')?;
        let words: Vec<&str> = behind.split_whitespace().collect();
        let named = words.iter().all(|word| word.starts_with(char::is_uppercase));
        // One word before a comma is what the rest tells from others: "Paris, Texas".
        let alone = front.split_whitespace().count() > 1;
        (alone && named && (1..=QUALIFIER).contains(&words.len()) && !behind.contains(',')).then_some(front)
    };
    let short = match parenthesis {
        Some((front, _)) => Some(front),
        None => comma(),
    };
    let mut form = |text: &str| -> Option<Form> {
        let sentences = scan(text, stop, &mut tick);
        let mut tokens: Vec<&Token> = sentences.iter().flat_map(|sentence| &sentence.tokens).collect();
        if tokens.len() > 1 && tokens[0].fold == "the" {
            tokens.remove(0);
        }
        let (first, last) = (tokens.first()?, tokens.last()?);
        let bytes = whole_of(text, first.start..last.end());
        let name = super::spelling(&text[bytes]);
        let key = fold::name(&name);
        let kind = kind(&tokens, stop);
        (!key.is_empty()).then_some(Form { name, key, kind })
    };
    let (full, short) = (form(whole), short.and_then(&mut form));
    let differs = |short: &Form| full.as_ref().is_some_and(|full| full.key != short.key);
    let short = short.filter(differs);
    (full, short)
}

/// The kind of the entity that these words name.
pub(super) fn kind(tokens: &[&Token], stop: &StopWords) -> &'static str {
    let small = |t: &&Token| t.shape == Shape::Lower || is_stop(t, stop);
    match () {
        () if tokens.iter().any(|t| is_organization(&t.fold)) => ORGANIZATION,
        () if tokens.len() == 1 && tokens[0].shape == Shape::Identifier => CODE,
        () if tokens.iter().all(small) => CONCEPT,
        () => NAME,
    }
}

fn is_name(name: &str, stop: &StopWords) -> bool {
    let sentences = scan(name, stop, &mut || ());
    let tokens: Vec<&Token> = sentences.iter().flat_map(|sentence| &sentence.tokens).collect();
    match tokens[..] {
        [] => false,
        [token] => match token.shape {
            Shape::Spaceless => (2..=30).contains(&token.text.chars().count()),
            _ => tells(token, stop) && is_spelled_as_name(token) && token.text.chars().count() > 1,
        },
        _ => tokens.len() <= LONGEST && tokens.iter().any(|token| tells(token, stop)),
    }
}

/// Whether a word says which thing a title names.
fn tells(token: &Token, stop: &StopWords) -> bool {
    !(is_stop(token, stop)
        || is_common(&token.fold)
        || is_time(&token.fold)
        || is_label(&token.fold)
        || token.shape == Shape::Number)
}

/// Whether a word by itself looks like a name.
fn is_spelled_as_name(token: &Token) -> bool {
    matches!(
        token.shape,
        Shape::Capital | Shape::Acronym | Shape::Mixed | Shape::Identifier
    ) || token.text.contains(|c: char| c.is_ascii_digit())
}

/// The bytes of a name with the parenthesis or the full stop that closes it: `Mercury (planet)`, `Washington, D.C.`
fn whole_of(text: &str, bytes: Range<usize>) -> Range<usize> {
    let name = &text[bytes.clone()];
    let rest = &text[bytes.end..];
    let count = |c: char| name.matches(c).count();
    let word = name.rsplit(char::is_whitespace).next().unwrap_or_default();
    let initials = word.contains('.') && word.split('.').all(|part| part.chars().count() == 1);
    let closes = (count('(') > count(')') && rest.starts_with(')')) || (initials && rest.starts_with('.'));
    bytes.start..bytes.end + usize::from(closes)
}

/// Calls `visit` with each place in `sentence` where the text may use a title as a name, the longest first at each word:
/// its tokens, bytes and folded name. If it answers true, the place is taken and the next one starts behind it.
pub(super) fn visit(
    text: &str,
    sentence: &Sentence,
    names: &Names,
    stop: &StopWords,
    tick: &mut dyn FnMut(),
    visit: &mut dyn FnMut(Range<usize>, Range<usize>, String) -> bool,
) {
    let tokens = &sentence.tokens;
    if tokens.iter().all(|t| t.shape == Shape::Spaceless) {
        return;
    }
    let uses = Uses::of(sentence, names, stop);
    let mut at = 0;
    while at < tokens.len() {
        if at.is_multiple_of(100) {
            tick();
        }
        let first = &tokens[at];
        let capital = !matches!(first.shape, Shape::Lower | Shape::Uncased | Shape::Number);
        let starts = !is_stop(first, stop) || (capital && first.gap != Gap::Start && first.fold != "the");
        let mut next = at + 1;
        if starts && first.shape != Shape::Spaceless {
            let most = tokens.len().min(at + LONGEST);
            for end in (at + 1..=most).rev() {
                if !uses.hold(at..end) {
                    continue;
                }
                let bytes = whole_of(text, first.start..tokens[end - 1].end());
                let key = fold::name(&text[bytes.clone()]);
                if !key.is_empty() && visit(at..end, bytes, key) {
                    next = end;
                    break;
                }
            }
        }
        at = next;
    }
}

/// The pieces of stretches without spaces that may be names.
pub(super) fn visit_spaceless(sentence: &Sentence, tick: &mut dyn FnMut(), visit: &mut dyn FnMut(&str)) {
    for token in sentence.tokens.iter().filter(|t| t.shape == Shape::Spaceless) {
        let bounds: Vec<usize> = token
            .text
            .grapheme_indices(true)
            .map(|(at, _)| at)
            .chain([token.text.len()])
            .collect();
        for from in 0..bounds.len() {
            if from.is_multiple_of(100) {
                tick();
            }
            for to in from + 2..bounds.len().min(from + GRAPHEMES + 1) {
                visit(&token.text[bounds[from]..bounds[to]]);
            }
        }
    }
}

/// What tells names from other words in a sentence, looked up once a word.
struct Uses<'a> {
    tokens: &'a [Token<'a>],
    /// Words that say which thing a name is of; those that are also spelled as names; those that are names alone.
    tells: Vec<bool>,
    spelled: Vec<bool>,
    alone: Vec<bool>,
    /// For each word the stretch around it that is spelled as one name.
    covers: Vec<Option<Range<usize>>>,
}

impl<'a> Uses<'a> {
    fn of(sentence: &'a Sentence, names: &Names, stop: &StopWords) -> Uses<'a> {
        let tokens = &sentence.tokens;
        let tells: Vec<bool> = tokens.iter().map(|t| tells(t, stop)).collect();
        let spelled = tokens
            .iter()
            .zip(&tells)
            .map(|(t, tells)| *tells && is_spelled_as_name(t));
        let spelled: Vec<bool> = spelled.collect();
        let inside = |t: &Token| t.shape != Shape::Capital || (names.stands_inside(t) && !sentence.titled);
        let alone = tokens
            .iter()
            .zip(&spelled)
            .map(|(t, spelled)| *spelled && inside(t))
            .collect();
        let mut covers = vec![None; tokens.len()];
        for cover in names.sequences(tokens, stop) {
            covers[cover.clone()].fill(Some(cover));
        }
        Uses {
            tokens,
            tells,
            spelled,
            alone,
            covers,
        }
    }

    /// Whether `range` of the tokens is spelled as a name and is no part of a longer one.
    fn hold(&self, range: Range<usize>) -> bool {
        let tokens = self.tokens;
        if tokens[range.clone()].iter().any(|t| t.shape == Shape::Spaceless) {
            return false;
        }
        let good = if range.len() == 1 {
            // `Apollo 11` is not `Apollo`.
            let numbered = tokens
                .get(range.end)
                .is_some_and(|next| next.gap == Gap::Space && next.shape == Shape::Number && next.text.len() <= 3);
            self.alone[range.start] && !numbered
        } else {
            // In small letters two words have to say that it is the same: `the fraud model`, but not `in the air`.
            let content = self.tells[range.clone()].iter().filter(|tells| **tells).count();
            content > 1 || self.spelled[range.clone()].contains(&true)
        };
        let cover = self.covers[range.start].as_ref();
        good && cover.is_none_or(|cover| {
            let longer = range.end <= cover.end && cover.len() > range.len();
            // `Director Ada Lovelace` holds `Ada Lovelace`, but `University of Georgia` does not hold `Georgia`.
            let before = range.start.checked_sub(1).map(|at| &tokens[at]);
            let behind_word = before.is_some_and(|t| t.shape != Shape::Lower && !is_initial(t));
            !longer || (range.end == cover.end && range.len() > 1 && behind_word)
        })
    }
}

fn is_initial(token: &Token) -> bool {
    token.text.chars().count() == 1
}

impl Names<'_> {
    /// The stretches that are spelled as one name, without the word in front whose capital only starts the sentence.
    fn sequences(&self, tokens: &[Token], stop: &StopWords) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            let end = self.sequence(tokens, at, stop);
            if end == at {
                at += 1;
                continue;
            }
            let due =
                |t: &Token| is_common(&t.fold) || is_adverb(&t.fold) || is_time(&t.fold) || t.fold.ends_with("ed");
            let first = &tokens[at];
            let start = match self.place(tokens, at) {
                Place::Start if due(first) => at + 1,
                _ if super::scan::is_title(&first.fold) => at + 1,
                _ => at,
            };
            found.push(start..end);
            at = end;
        }
        found
    }
}

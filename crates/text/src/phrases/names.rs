//! Names by their spelling: capitals, acronyms, codes and identifiers.

use super::lists::{is_adverb, is_common, is_inside, is_organization, is_time, is_verb};
use super::scan::{Gap, Sentence, Shape, Token, is_title};
use super::table::Table;
use super::{CODE, NAME, ORGANIZATION, PERSON, is_stop};
use crate::stop::StopWords;
use std::collections::{HashMap, HashSet};

/// The longest name, in words.
const LONGEST: usize = 8;

/// What the block says of the spelling of a word, under its folded text.
pub(super) struct Names<'a> {
    /// How often it stands in small letters.
    small: HashMap<&'a str, u32>,
    /// How often with a capital.
    capital: HashMap<&'a str, u32>,
    /// Which stand with a capital where none is due.
    inside: HashSet<&'a str>,
    /// How often it stands between backticks.
    code: HashMap<&'a str, u32>,
    /// Whether every noun has a capital, as in German.
    nouns: bool,
}

/// Whether a capital means something where a word stands.
pub(super) enum Place {
    Start,
    Inside,
}

/// Enters the names of `sentences` into `table`.
pub(super) fn find(
    sentences: &[Sentence],
    spelling: &Names,
    stop: &StopWords,
    table: &mut Table,
    tick: &mut dyn FnMut(),
) {
    // Names in the middle of a sentence first: they tell what a capital at its start means.
    for at_start in [false, true] {
        for sentence in sentences {
            tick();
            let tokens = &sentence.tokens;
            let mut at = 0;
            while at < tokens.len() {
                let end = sequence(tokens, at, spelling, stop);
                if end == at {
                    at += 1;
                    continue;
                }
                if is_start(tokens, at) == at_start {
                    enter(sentence, at, end, spelling, stop, table);
                }
                at = end;
            }
        }
    }
}

impl<'a> Names<'a> {
    pub fn of(sentences: &'a [Sentence]) -> Names<'a> {
        let [mut small, mut capital, mut code]: [HashMap<&str, u32>; 3] = Default::default();
        let mut inside = HashSet::new();
        let (mut german, mut all) = (0_usize, 0_usize);
        for sentence in sentences {
            for (at, token) in sentence.tokens.iter().enumerate() {
                all += 1;
                german += usize::from(matches!(
                    token.fold.as_str(),
                    "der" | "die" | "das" | "und" | "ist" | "nicht" | "mit" | "ein" | "eine"
                ));
                match token.shape {
                    Shape::Lower => *small.entry(&token.fold).or_default() += 1,
                    Shape::Capital | Shape::Acronym | Shape::Mixed if !sentence.titled => {
                        *capital.entry(&token.fold).or_default() += 1;
                        if !is_start(&sentence.tokens, at) {
                            inside.insert(token.fold.as_str());
                        }
                    }
                    Shape::Identifier => *code.entry(&token.fold).or_default() += 1,
                    _ => {}
                }
            }
        }
        Names {
            small,
            capital,
            inside,
            code,
            nouns: german * 20 > all,
        }
    }

    fn small(&self, token: &Token) -> u32 {
        self.small.get(token.fold.as_str()).copied().unwrap_or(0)
    }

    fn capital(&self, token: &Token) -> u32 {
        self.capital.get(token.fold.as_str()).copied().unwrap_or(0)
    }

    /// Whether the block has the word with a capital that its place does not explain.
    pub fn stands_inside(&self, token: &Token) -> bool {
        self.inside.contains(token.fold.as_str())
    }

    pub fn place(&self, tokens: &[Token], at: usize) -> Place {
        match is_start(tokens, at) {
            true => Place::Start,
            false => Place::Inside,
        }
    }

    /// The end of the name that starts at token `at`; `at` if none does.
    pub fn sequence(&self, tokens: &[Token], at: usize, stop: &StopWords) -> usize {
        sequence(tokens, at, self, stop)
    }
}

/// Whether a capital of token `at` may be due to its place alone.
fn is_start(tokens: &[Token], at: usize) -> bool {
    let before_spaceless = tokens.get(at + 1).is_some_and(|next| next.shape == Shape::Spaceless);
    tokens[at].gap == Gap::Start && !before_spaceless
}

fn is_part(token: &Token, stop: &StopWords) -> bool {
    matches!(token.shape, Shape::Capital | Shape::Acronym | Shape::Mixed) && !is_stop(token, stop)
}

/// Whether token `at` is a letter that stands for a name. `A`, `I` and `O` are words, too, unless a full stop stands behind.
fn is_initial(tokens: &[Token], at: usize) -> bool {
    let token = &tokens[at];
    let abbreviated = || {
        let next = tokens.get(at + 1);
        next.is_some_and(|next| next.gap == Gap::Space && next.start > token.end() + 1)
    };
    token.shape == Shape::Capital
        && token.text.chars().count() == 1
        && (!matches!(token.text, "A" | "I" | "O") || abbreviated())
}

/// The end of the name that starts at token `at`; `at` if none does.
fn sequence(tokens: &[Token], at: usize, spelling: &Names, stop: &StopWords) -> usize {
    let joined = |at: usize| tokens.get(at).filter(|next| next.gap == Gap::Space);
    let first = &tokens[at];
    if first.shape == Shape::Identifier || (first.shape == Shape::Mixed && first.text.starts_with(char::is_lowercase)) {
        return at + 1;
    }
    // An initial in front has a full stop: otherwise it is a word of one letter.
    let opens = is_initial(tokens, at)
        && joined(at + 1)
            .is_some_and(|next| next.start > first.end() + 1 && (is_part(next, stop) || is_initial(tokens, at + 1)));
    if !is_part(first, stop) && !opens {
        return at;
    }
    let mut end = at + 1;
    while end - at < LONGEST {
        let Some(next) = joined(end) else { break };
        if is_part(next, stop) || is_initial(tokens, end) {
            end += 1;
        } else if next.shape == Shape::Number {
            // `Apollo 11`, but not `in Berlin 300 people`.
            let numbered = next.text.len() <= 3 || next.text.contains('.');
            let alone = joined(end + 1).is_none_or(|after| is_stop(after, stop) || is_verb(&after.fold, None));
            end += usize::from(numbered && alone);
            break;
        } else if next.shape == Shape::Lower && is_inside(&next.fold) {
            let is_office = tokens[end - 1].shape == Shape::Acronym && tokens[end - 1].text.len() <= 3;
            let second = usize::from(joined(end + 1).is_some_and(|t| t.shape == Shape::Lower && is_inside(&t.fold)));
            let goes_on = joined(end + 1 + second).is_some_and(|t| is_part(t, stop));
            let genitive = spelling.nouns && matches!(next.fold.as_str(), "der" | "des" | "den" | "das");
            if next.fold == "the" || genitive || is_office || !goes_on {
                break;
            }
            end += second + 2;
        } else {
            break;
        }
    }
    end
}

/// Enters the name of tokens `at..end` if the block bears it out.
fn enter(sentence: &Sentence, mut at: usize, end: usize, spelling: &Names, stop: &StopWords, table: &mut Table) {
    let tokens = &sentence.tokens;
    let mut starts = is_start(tokens, at);
    let mut kind = NAME;
    while at < end && is_title(&tokens[at].fold) {
        at += 1;
        starts = false;
        kind = PERSON;
    }
    while at < end {
        let name = &tokens[at..end];
        let first = &name[0];
        if first.shape == Shape::Identifier || (name.len() == 1 && first.shape == Shape::Mixed) {
            // A plain word between backticks may be anything.
            let shaped = first.text.contains(|c: char| !c.is_alphanumeric())
                || first.text.chars().skip(1).any(char::is_uppercase);
            let repeated = spelling.code.get(first.fold.as_str()).is_some_and(|&count| count > 1);
            if (shaped || repeated) && !is_common(&first.fold) && !is_stop(first, stop) {
                table.enter(&first.fold, if first.shape == Shape::Identifier { CODE } else { NAME });
            }
            return;
        }
        if sentence.titled
            || name
                .iter()
                .all(|t| is_time(&t.fold) || t.shape == Shape::Number || is_roman(t.text))
        {
            return;
        }
        if name.len() == 1 {
            if is_name_alone(tokens, at, starts, kind, spelling) {
                table.enter(&first.fold, kind);
            }
            return;
        }
        if starts && !is_initial(tokens, at) && is_capital_due(name, spelling, table) {
            // What is left stands in the middle of the sentence.
            at += 1;
            starts = false;
            if !is_part(&tokens[at], stop) {
                return;
            }
            continue;
        }
        let is_group = name.iter().any(|t| is_organization(&t.fold));
        table.enter(&key(name), if is_group { ORGANIZATION } else { kind });
        return;
    }
}

/// Whether the first word of `name`, at the start of a sentence, has its capital from there and does not belong to the name.
fn is_capital_due(name: &[Token], spelling: &Names, table: &Table) -> bool {
    let first = &name[0];
    first.shape == Shape::Capital
        && !table.holds(&key(name))
        && (is_common(&first.fold)
            || first.fold.ends_with("ed")
            || is_adverb(&first.fold)
            || spelling.small(first) > 0
            || (spelling.nouns && !spelling.inside.contains(first.fold.as_str()))
            || table.holds(&key(&name[1..])))
}

/// Whether token `at`, which has a capital and no neighbour that has one, is a name.
fn is_name_alone(tokens: &[Token], at: usize, starts: bool, kind: &str, spelling: &Names) -> bool {
    let token = &tokens[at];
    if is_common(&token.fold) || is_time(&token.fold) || is_initial(tokens, at) {
        return false;
    }
    if kind == PERSON {
        return true;
    }
    let after_number = at > 0 && token.gap != Gap::Break && tokens[at - 1].shape == Shape::Number;
    if token.shape == Shape::Acronym {
        return spelling.small(token) == 0 && !(after_number && token.text.len() <= 3);
    }
    if token.text.chars().count() < 3 && !token.text.contains(['+', '#']) {
        return false;
    }
    // A word with a digit is a code wherever it stands.
    let coded = token.text.contains(|c: char| c.is_ascii_digit());
    let inside = spelling.inside.contains(token.fold.as_str());
    if coded {
        return true;
    }
    if spelling.nouns {
        return inside && spelling.capital(token) > 1 && spelling.small(token) == 0;
    }
    if inside {
        return spelling.small(token) < spelling.capital(token) && !(starts && spelling.small(token) > 0);
    }
    let acts = tokens.get(at + 1).is_some_and(|next| {
        next.gap == Gap::Space
            && next.shape == Shape::Lower
            && is_verb(&next.fold, tokens.get(at + 2).map(|t| t.fold.as_str()))
    });
    starts
        && acts
        && spelling.small(token) == 0
        && spelling.capital(token) > 1
        && !token.fold.ends_with('s')
        && !token.fold.ends_with("ing")
}

fn is_roman(text: &str) -> bool {
    text.chars().all(|c| matches!(c, 'I' | 'V' | 'X'))
}

/// The folded text of several tokens.
pub(super) fn key(tokens: &[Token]) -> String {
    let folds: Vec<&str> = tokens.iter().map(|token| token.fold.as_str()).collect();
    folds.join(" ")
}

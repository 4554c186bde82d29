//! Answers of a judge of one answer: how relevant texts are, and which statements they support.

use super::extraction::{key, text_of};
use super::query::{DEEPEST, SCORE, member, score, unnumbered};
use super::{Repairs, Unreadable, bare, cleaned, json, number};
use serde_json::{Map, Value};

/// What numbered texts score.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    /// From 0 to 10, of each text that is scored.
    pub scores: Vec<Option<f64>>,
    pub repairs: Repairs,
}

/// The number of a text, where it is given, and its score, where it can be read.
type Given = (Option<usize>, Option<f64>);

/// Which statements of an answer are supported.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Support {
    pub statements: Vec<Statement>,
    pub repairs: Repairs,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub text: String,
    pub is_supported: bool,
}

const LISTS: [&str; 6] = ["scores", "ratings", "relevances", "texts", "results", "list"];
const NUMBER: [&str; 9] = [
    "n", "number", "index", "id", "text", "passage", "report", "relation", "source",
];
const STATEMENTS: [&str; 6] = ["statements", "claims", "sentences", "verdicts", "results", "list"];
const STATEMENT: [&str; 4] = ["statement", "claim", "sentence", "text"];
const SUPPORTED: [&str; 8] = [
    "supported",
    "issupported",
    "grounded",
    "isgrounded",
    "entailed",
    "verdict",
    "label",
    "support",
];
const YES: [&str; 6] = ["yes", "y", "true", "supported", "fully", "entailed"];
const NO: [&str; 13] = [
    "no",
    "n",
    "false",
    "not",
    "none",
    "unsupported",
    "partly",
    "partial",
    "partially",
    "contradicted",
    "refuted",
    "neutral",
    "unknown",
];

/// The scores of so many numbered texts: JSON of records, of numbers alone or by number, or lines. Numbers alone are read if there
/// are as many.
pub fn scores(reply: &str, count: usize) -> Result<Scores, Unreadable> {
    let (text, repairs) = cleaned(reply)?;
    let placed = |given: Vec<Given>, repairs| {
        let in_order = given.len() == count && given.iter().all(|(number, _)| number.is_none());
        let mut scores = vec![None; count];
        for (at, (number, score)) in given.into_iter().enumerate() {
            let at = number.map_or(in_order.then_some(at), |number| number.checked_sub(1));
            if let Some(place) = at.and_then(|at| scores.get_mut(at)) {
                *place = place.or(score);
            }
        }
        let is_any = scores.iter().any(Option::is_some);
        is_any.then_some(Scores { scores, repairs })
    };
    let found = json::find(&text).and_then(|found| placed(scored(&found.value, DEEPEST)?, found.repairs(repairs)));
    found
        .or_else(|| placed(text.lines().flat_map(of_line).collect(), repairs))
        .ok_or(Unreadable::NoRating)
}

/// The scores at most as `deep` in `value`; a lone one is a list.
fn scored(value: &Value, deep: usize) -> Option<Vec<Given>> {
    let inner = |value: &Value| scored(value, deep.checked_sub(1)?);
    match value {
        Value::Array(items) => {
            let given: Vec<Given> = items.iter().map(of_item).collect();
            match given.iter().any(|(_, score)| score.is_some()) {
                true => Some(given),
                false => items.iter().find_map(inner),
            }
        }
        Value::Object(members) => {
            let listed = member(members, &LISTS).filter(|list| list.is_array() || list.is_object());
            let numbered = || {
                let by_number = members.iter().filter_map(|(name, value)| {
                    let score = of_item(value).1;
                    Some((Some(place(name)?), score))
                });
                Some(by_number.collect()).filter(|given: &Vec<Given>| !given.is_empty())
            };
            let lone = || Some(vec![of_item(value)]).filter(|given| given[0].1.is_some());
            listed
                .and_then(inner)
                .or_else(numbered)
                .or_else(lone)
                .or_else(|| members.values().find_map(inner))
        }
        _ => None,
    }
}

fn of_item(item: &Value) -> Given {
    match item {
        Value::Object(members) => {
            let number = NUMBER
                .iter()
                .find_map(|name| place(&text_of(member(members, &[name])?)?));
            (number, member(members, &SCORE).and_then(|value| score(value, 10.0)))
        }
        Value::Array(pair) => match pair.as_slice() {
            [number, value] => match text_of(number).and_then(|text| place(&text)) {
                Some(number) => (Some(number), score(value, 10.0)),
                None => (None, None),
            },
            _ => (None, None),
        },
        value => (None, score(value, 10.0)),
    }
}

/// The number of a text, alone or behind a word or a letter.
fn place(text: &str) -> Option<usize> {
    let is_mark = |c: char| "[]()#*.: ".contains(c);
    let text = bare(text).trim_matches(is_mark);
    let word = match text.split_once(' ') {
        Some((word, number)) if word.chars().all(char::is_alphabetic) => number.trim_matches(is_mark),
        _ => text,
    };
    let digits = word.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let digits = digits.strip_suffix(".0").unwrap_or(digits);
    digits.parse().ok().filter(|number| *number > 0)
}

/// The scores of a line: of a text by its number, or of several texts.
fn of_line(line: &str) -> Vec<Given> {
    let line = line.trim().trim_start_matches(['-', '*', '•']).trim();
    let of_text = [": ", ":", "=", "|", "] ", ") ", ". "]
        .iter()
        .filter_map(|mark| line.split_once(mark))
        .find_map(|(text, behind)| {
            let behind = Value::String(behind.trim_matches(['*', ' ', '|']).to_owned());
            Some((Some(place(text)?), Some(score(&behind, 10.0)?)))
        });
    if let Some(given) = of_text {
        return vec![given];
    }
    let numbers = line.trim_matches(['[', ']', '*']).split(',');
    let scores: Vec<Given> = numbers
        .map(|part| (None, score(&Value::String(part.to_owned()), 10.0)))
        .collect();
    // Words among them are prose.
    match scores.iter().all(|(_, score)| score.is_some()) && line.split_whitespace().count() <= scores.len() {
        true => scores,
        false => Vec::new(),
    }
}

/// Which statements of an answer are supported: JSON of records or by statement, or lines that end with the verdict. A list that
/// is there and empty says that the answer states nothing.
pub fn support(reply: &str) -> Result<Support, Unreadable> {
    let (text, repairs) = cleaned(reply)?;
    if let Some(found) = json::find(&text)
        && let Some(statements) = stated(&found.value, DEEPEST)
    {
        let repairs = found.repairs(repairs);
        return Ok(Support { statements, repairs });
    }
    let lines = text.lines().filter_map(|line| {
        let line = unnumbered(line)?;
        let (text, verdict) = line.rsplit_once([':', '|', '—', '–'])?;
        statement(text, &Value::String(verdict.to_owned()))
    });
    let statements: Vec<Statement> = lines.collect();
    match statements.is_empty() {
        true => Err(Unreadable::NoStatement),
        false => Ok(Support { statements, repairs }),
    }
}

/// The statements at most as `deep` in `value`; a lone record is a list.
fn stated(value: &Value, deep: usize) -> Option<Vec<Statement>> {
    let inner = |value: &Value| stated(value, deep.checked_sub(1)?);
    match value {
        Value::Array(items) => {
            let found: Vec<Statement> = items.iter().filter_map(|item| record(item.as_object()?)).collect();
            match !found.is_empty() || items.is_empty() {
                true => Some(found),
                false => items.iter().find_map(inner),
            }
        }
        Value::Object(members) => match member(members, &STATEMENTS) {
            Some(Value::Null) => Some(Vec::new()),
            Some(list @ Value::Array(_)) => inner(list),
            Some(Value::Object(of)) => match record(of) {
                Some(one) => Some(vec![one]),
                None => Some(of.iter().filter_map(|(text, value)| statement(text, value)).collect())
                    .filter(|found: &Vec<Statement>| !found.is_empty() || of.is_empty()),
            },
            _ => match record(members) {
                Some(one) => Some(vec![one]),
                None => members
                    .values()
                    .filter(|value| value.is_object() || value.is_array())
                    .find_map(inner),
            },
        },
        _ => None,
    }
}

fn record(members: &Map<String, Value>) -> Option<Statement> {
    let text = member(members, &STATEMENT).and_then(text_of)?;
    statement(&text, member(members, &SUPPORTED)?)
}

fn statement(text: &str, verdict: &Value) -> Option<Statement> {
    let text = bare(text).trim_end_matches(['*', ' ']);
    let is_named = !text.is_empty() && !SUPPORTED.contains(&key(text).as_str());
    Some(Statement {
        text: text.to_owned(),
        is_supported: is_yes(verdict)?,
    })
    .filter(|_| is_named)
}

/// Whether a verdict is yes. What is supported in part is not.
fn is_yes(verdict: &Value) -> Option<bool> {
    if let Value::Bool(verdict) = verdict {
        return Some(*verdict);
    }
    let text = text_of(verdict)?.to_lowercase();
    let text = text.trim_matches(|c: char| !c.is_alphanumeric());
    if let Some(number) = number(text) {
        return [(0.0, false), (1.0, true)]
            .into_iter()
            .find_map(|(of, is)| (number == of).then_some(is));
    }
    let word = text.split(|c: char| !c.is_alphanumeric()).next()?;
    match (YES.contains(&word), NO.contains(&word)) {
        (false, false) => None,
        (is_yes, _) => Some(is_yes),
    }
}

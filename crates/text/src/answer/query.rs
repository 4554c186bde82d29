//! Answers to what a search asks a model on its way.

use super::extraction::{key, text_of, texts_of};
use super::{Repairs, Unreadable, bare, cleaned, json, number, reason};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashSet};

/// What reports say about a question.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Points {
    pub points: Vec<Point>,
    /// How many points were dropped, by one of [`reason::REASONS`].
    pub dropped: BTreeMap<&'static str, usize>,
    pub repairs: Repairs,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    pub text: String,
    /// From 0 to 100; 0 without one that can be read.
    pub score: f64,
}

/// The words to search for: of the whole and of the details.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Keywords {
    pub high: Vec<String>,
    pub low: Vec<String>,
    pub repairs: Repairs,
}

/// How well a text answers a question, or an answer does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Relevance {
    /// From 0 to 5, of a grade to 10.
    pub rating: f64,
    pub reason: Option<String>,
    pub repairs: Repairs,
}

/// A first answer, and what to ask next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Primer {
    pub answer: String,
    /// From 0 to 100.
    pub score: Option<f64>,
    pub queries: Vec<String>,
    pub repairs: Repairs,
}

const POINTS: [&str; 5] = ["points", "keypoints", "answers", "results", "findings"];
const POINT: [&str; 6] = ["description", "answer", "point", "text", "summary", "content"];
pub(super) const SCORE: [&str; 6] = [
    "score",
    "rating",
    "importance",
    "importancescore",
    "weight",
    "relevance",
];
const HIGH: [&str; 4] = ["highlevelkeywords", "highlevel", "high", "hlkeywords"];
const LOW: [&str; 4] = ["lowlevelkeywords", "lowlevel", "low", "llkeywords"];
const RATING: [&str; 7] = [
    "rating",
    "score",
    "relevance",
    "relevancy",
    "relevancerating",
    "correctness",
    "grade",
];
pub(super) const REASON: [&str; 4] = ["reason", "explanation", "rationale", "reasoning"];
const ANSWER: [&str; 4] = ["intermediateanswer", "answer", "response", "text"];
const QUERIES: [&str; 6] = [
    "followupqueries",
    "followupquestions",
    "followups",
    "queries",
    "questions",
    "followup",
];

/// How deep an answer may be wrapped.
pub(super) const DEEPEST: usize = 3;

/// Points with their scores: JSON of a list of these, or an object with one.
pub fn points(reply: &str) -> Result<Points, Unreadable> {
    let (text, repairs) = cleaned(reply)?;
    let found = json::find(&text).ok_or(Unreadable::NoJson)?;
    let items = listed(&found.value, DEEPEST).ok_or(Unreadable::NoPoints)?;
    let mut read = Points {
        repairs: found.repairs(repairs),
        ..Points::default()
    };
    for item in items {
        let text = item
            .as_object()
            .map(|members| member(members, &POINT).and_then(text_of));
        let reason = match text {
            Some(Some(text)) => {
                let score = item
                    .as_object()
                    .and_then(|members| score(member(members, &SCORE)?, 100.0));
                let score = score.unwrap_or_default();
                read.points.push(Point { text, score });
                continue;
            }
            Some(None) => reason::TOO_FEW,
            None => reason::NOT_A_RECORD,
        };
        *read.dropped.entry(reason).or_default() += 1;
    }
    Ok(read)
}

/// The list of points at most as `deep` in `value`; a lone point is one.
fn listed(value: &Value, deep: usize) -> Option<&[Value]> {
    match value {
        Value::Array(items) => Some(items),
        Value::Object(members) => match member(members, &POINTS) {
            Some(Value::Array(items)) => Some(items),
            Some(Value::Null) => Some(&[]),
            Some(point @ Value::Object(_)) => Some(std::slice::from_ref(point)),
            _ if member(members, &POINT).is_some_and(Value::is_string) => Some(std::slice::from_ref(value)),
            _ => members
                .values()
                .filter(|value| value.is_object())
                .find_map(|value| listed(value, deep.checked_sub(1)?)),
        },
        _ => None,
    }
}

/// The keywords of a question: JSON of lists or of texts with commas. What is missing is empty.
pub fn keywords(reply: &str) -> Result<Keywords, Unreadable> {
    let (found, repairs) = object(reply)?;
    let members = with(&found, &[&HIGH, &LOW], DEEPEST).ok_or(Unreadable::NoKeywords)?;
    let words = |names: &[&str]| {
        let mut seen = HashSet::new();
        let texts = member(members, names).map(texts_of).unwrap_or_default();
        let words = texts
            .iter()
            .flat_map(|text| text.split([',', '，', '、', ';', '；', '\n']));
        let words = words
            .map(bare)
            .filter(|word| !word.is_empty() && seen.insert(word.to_lowercase()));
        words.map(str::to_owned).collect()
    };
    Ok(Keywords {
        high: words(&HIGH),
        low: words(&LOW),
        repairs,
    })
}

/// The rating of a text for a question from 0 to 5: JSON, or only a number.
pub fn relevance(reply: &str) -> Result<Relevance, Unreadable> {
    rated(reply, 5.0)
}

/// The grade of an answer from 0 to 10: JSON, or only a number.
pub fn grade(reply: &str) -> Result<Relevance, Unreadable> {
    rated(reply, 10.0)
}

fn rated(reply: &str, most: f64) -> Result<Relevance, Unreadable> {
    let (text, repairs) = cleaned(reply)?;
    let Ok((found, repairs)) = object(reply) else {
        let lone = text.trim().trim_matches('*');
        let lone = lone
            .rsplit_once(':')
            .map_or(lone, |(_, behind)| behind.trim_start_matches('*'));
        let rating = score(&Value::String(lone.to_owned()), most);
        return Ok(Relevance {
            rating: rating.ok_or(Unreadable::NoRating)?,
            repairs,
            ..Relevance::default()
        });
    };
    let members = with(&found, &[&RATING], DEEPEST).ok_or(Unreadable::NoRating)?;
    let rating = member(members, &RATING).and_then(|value| score(value, most));
    Ok(Relevance {
        rating: rating.ok_or(Unreadable::NoRating)?,
        reason: member(members, &REASON).and_then(text_of),
        repairs,
    })
}

/// A first answer with the questions that follow: JSON. Questions may be lines of one text, numbered or not. An answer that is there
/// and empty says that nothing helps.
pub fn primer(reply: &str) -> Result<Primer, Unreadable> {
    let (found, repairs) = object(reply)?;
    let members = with(&found, &[&ANSWER], DEEPEST).ok_or(Unreadable::NoAnswer)?;
    let queries = match member(members, &QUERIES) {
        Some(Value::Array(items)) => items.iter().filter_map(question).collect(),
        Some(Value::String(text)) => text.lines().filter_map(unnumbered).collect(),
        _ => Vec::new(),
    };
    Ok(Primer {
        answer: member(members, &ANSWER).and_then(text_of).unwrap_or_default(),
        score: member(members, &SCORE).and_then(|value| score(value, 100.0)),
        queries,
        repairs,
    })
}

fn question(item: &Value) -> Option<String> {
    match item {
        Value::Object(members) => member(members, &["query", "question", "text"]).and_then(text_of),
        item => text_of(item),
    }
}

/// A line without its bullet or its number.
pub(super) fn unnumbered(line: &str) -> Option<String> {
    let line = line.trim();
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = match digits.len() < line.len() {
        true => digits.strip_prefix(['.', ')']).unwrap_or(line),
        false => line.trim_start_matches(['-', '*', '•']),
    };
    Some(bare(rest).to_owned()).filter(|text| !text.is_empty())
}

/// Whether a reply says yes: its first word does, or the first letter of that alone.
pub fn yes(reply: &str) -> Result<bool, Unreadable> {
    let (text, _) = cleaned(reply)?;
    let text = text.trim_start_matches(|c: char| !c.is_alphanumeric());
    let word: String = text.chars().take(4).take_while(|c| c.is_alphanumeric()).collect();
    match word.to_lowercase().as_str() {
        "y" | "yes" => Ok(true),
        "n" | "no" => Ok(false),
        _ => Err(Unreadable::NeitherYesNorNo),
    }
}

pub(super) fn object(reply: &str) -> Result<(Value, Repairs), Unreadable> {
    let (value, repairs) = json(reply)?;
    match value.is_object() || value.is_array() {
        true => Ok((value, repairs)),
        false => Err(Unreadable::NoJson),
    }
}

/// The object with one of the members, at most as `deep` in `value`.
pub(super) fn with<'a>(value: &'a Value, names: &[&[&str]], deep: usize) -> Option<&'a Map<String, Value>> {
    let inner = |value: &'a Value| with(value, names, deep.checked_sub(1)?);
    match value {
        Value::Object(members) if names.iter().any(|names| member(members, names).is_some()) => Some(members),
        Value::Object(members) => members.values().find_map(inner),
        Value::Array(items) => items.iter().find_map(inner),
        _ => None,
    }
}

pub(super) fn member<'a>(members: &'a Map<String, Value>, names: &[&str]) -> Option<&'a Value> {
    let places = members.iter().filter_map(|(name, value)| {
        let name = key(name);
        Some((names.iter().position(|other| *other == name)?, value))
    });
    places.min_by_key(|(place, _)| *place).map(|(_, value)| value)
}

/// A number from 0 to `most`; `4/5`, `80/100` and `80%` are the same.
pub(super) fn score(value: &Value, most: f64) -> Option<f64> {
    let text = text_of(value)?;
    let text = bare(&text);
    let score = number(text.trim_end_matches('%'))?;
    let percent = text.ends_with('%').then_some(100.0);
    let whole = text.split_once('/').and_then(|(_, whole)| number(whole)).or(percent);
    let whole = whole.filter(|whole| *whole > 0.0).unwrap_or(most);
    Some((score * most / whole).clamp(0.0, most))
}

//! Answers of an evaluation: which of two answers is better, and what somebody would ask.

use super::extraction::{text_of, texts_of};
use super::query::{DEEPEST, REASON, member, object, unnumbered, with};
use super::{Repairs, Unreadable, cleaned};
use serde_json::{Map, Value};

/// The better one of two answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Winner {
    First,
    Second,
    Neither,
}

/// Which of two answers is better, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub winner: Winner,
    pub reason: Option<String>,
    pub repairs: Repairs,
}

/// A list of personas, tasks or questions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    /// What the whole is about.
    pub description: Option<String>,
    /// Each on one line.
    pub items: Vec<String>,
    pub repairs: Repairs,
}

const WINNER: [&str; 9] = [
    "winner",
    "winninganswer",
    "betteranswer",
    "better",
    "preferred",
    "verdict",
    "choice",
    "answer",
    "result",
];
const FIRST: [&str; 4] = ["1", "first", "1st", "answer1"];
const SECOND: [&str; 4] = ["2", "second", "2nd", "answer2"];
const NEITHER: [&str; 10] = [
    "0", "tie", "tied", "draw", "both", "neither", "none", "equal", "equally", "same",
];
const LISTS: [&str; 5] = ["personas", "tasks", "questions", "items", "list"];
const TITLE: [&str; 8] = ["persona", "task", "question", "query", "name", "title", "role", "text"];
const DETAIL: [&str; 3] = ["description", "details", "background"];
const ABOUT: [&str; 4] = ["description", "corpus", "about", "summary"];

/// The better one of two answers: JSON, or a word or two.
pub fn verdict(reply: &str) -> Result<Verdict, Unreadable> {
    let (text, repairs) = cleaned(reply)?;
    let read = object(reply).ok();
    let members = read
        .as_ref()
        .and_then(|(found, repairs)| Some((innermost(found)?, *repairs)));
    let Some((members, repairs)) = members else {
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let named = lines.clone().find(|line| line.to_lowercase().contains("winner"));
        let line = named.or(lines.next()).unwrap_or_default();
        return Ok(Verdict {
            winner: winner(line).ok_or(Unreadable::NoWinner)?,
            reason: None,
            repairs,
        });
    };
    let found = match member(members, &WINNER) {
        Some(Value::Null) => Some(Winner::Neither),
        Some(value) => winner(&texts_of(value).join(" ")),
        None => None,
    };
    Ok(Verdict {
        winner: found.ok_or(Unreadable::NoWinner)?,
        reason: member(members, &REASON).and_then(text_of),
        repairs,
    })
}

/// The object that names a winner, which may be wrapped in what is named like one.
fn innermost(value: &Value) -> Option<&Map<String, Value>> {
    let members = with(value, &[&WINNER], DEEPEST)?;
    let inner = member(members, &WINNER).filter(|inner| inner.is_object());
    Some(inner.and_then(innermost).unwrap_or(members))
}

/// What a few words say, unless they name both without a word that neither is better.
fn winner(text: &str) -> Option<Winner> {
    let text = text.to_lowercase();
    if let Ok(number) = text.trim().parse::<f64>() {
        let places = [Winner::Neither, Winner::First, Winner::Second];
        let place = (0..3).find(|place| f64::from(*place) == number)?;
        return Some(places[place as usize]);
    }
    let has = |names: &[&str]| {
        text.split(|c: char| !c.is_alphanumeric())
            .any(|word| names.contains(&word))
    };
    match (has(&FIRST), has(&SECOND), has(&NEITHER)) {
        (true, false, false) => Some(Winner::First),
        (false, true, false) => Some(Winner::Second),
        (first, second, true) if first == second => Some(Winner::Neither),
        _ => None,
    }
}

/// A list: JSON, or lines with bullets or numbers, or without.
pub fn draft(reply: &str) -> Result<Draft, Unreadable> {
    let (text, repairs) = cleaned(reply)?;
    let read = object(reply).ok();
    let found = read
        .as_ref()
        .and_then(|(found, repairs)| Some((found, items(found, DEEPEST)?, *repairs)));
    let lines = lines(&text);
    // A bracket in one of them would be JSON.
    if let Some((value, items, repairs)) = found.filter(|(_, items, _)| items.len() >= lines.len()) {
        let description = value.as_object().and_then(|members| member(members, &ABOUT));
        return Ok(Draft {
            description: description.and_then(text_of),
            items,
            repairs,
        });
    }
    let items = match lines.len() {
        0 => text.lines().filter_map(unnumbered).collect(),
        _ => lines,
    };
    match items.len() {
        // A sentence is no list.
        0 | 1 if text.lines().all(|line| !is_marked(line)) => Err(Unreadable::NoList),
        _ => Ok(Draft {
            description: None,
            items,
            repairs,
        }),
    }
}

/// The lines with bullets or numbers.
fn lines(text: &str) -> Vec<String> {
    let marked = text.lines().filter(|line| is_marked(line));
    marked.filter_map(unnumbered).collect()
}

fn is_marked(line: &str) -> bool {
    line.trim_start()
        .starts_with(|c: char| c.is_ascii_digit() || "-*•".contains(c))
}

/// The list at most as `deep` in `value`; a lone record is one.
fn items(value: &Value, deep: usize) -> Option<Vec<String>> {
    match value {
        Value::Array(list) => {
            let items: Vec<String> = list.iter().filter_map(item).collect();
            Some(items).filter(|items| !items.is_empty() || list.is_empty())
        }
        Value::Object(members) => match member(members, &LISTS) {
            Some(Value::String(text)) => Some(text.lines().filter_map(unnumbered).collect()),
            Some(list @ Value::Array(_)) => items(list, deep),
            _ if member(members, &TITLE).is_some_and(Value::is_string) => Some(item(value).into_iter().collect()),
            _ => members.values().find_map(|value| items(value, deep.checked_sub(1)?)),
        },
        _ => None,
    }
}

fn item(value: &Value) -> Option<String> {
    let text = match value {
        Value::Object(members) => {
            let of = |names: &[&str]| member(members, names).and_then(text_of);
            let parts: Vec<String> = [of(&TITLE), of(&DETAIL)].into_iter().flatten().collect();
            Some(parts.join(": ")).filter(|text| !text.is_empty())
        }
        Value::String(_) => text_of(value),
        // The number of a citation is none.
        _ => None,
    };
    text.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
}

//! Answers of a model: what it meant, out of what it wrote around it and what it broke.

mod citations;
mod clean;
mod evaluation;
mod extraction;
mod format;
mod json;
mod judgement;
mod prose;
mod query;
pub mod reason;
mod report;
mod tags;
mod tuple;

pub use citations::{Cited, citations};
pub use clean::clean;
pub use evaluation::{Draft, Verdict, Winner, draft, verdict};
pub use extraction::{
    Claim, Community, CommunityReport, Entity, Extraction, Origin, Passage, Relation, extraction, extraction_value,
};
pub use format::{Format, read, read_value, recognise};
pub use json::json;
pub use judgement::{Scores, Statement, Support, scores, support};
pub use prose::prose;
pub use query::{Keywords, Point, Points, Primer, Relevance, grade, keywords, points, primer, relevance, yes};
pub use report::{Finding, Report, report};

use std::fmt;

/// What was done to read a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// Reasoning was left out.
    pub reasoning: bool,
    /// Fences or prose around the answer were left out.
    pub fence: bool,
    /// JSON or records were repaired, or a cut reply was completed.
    pub broken: bool,
}

impl Repairs {
    pub fn names(self) -> Vec<&'static str> {
        [
            (self.reasoning, "reasoning"),
            (self.fence, "fence"),
            (self.broken, "broken"),
        ]
        .into_iter()
        .filter_map(|(done, name)| done.then_some(name))
        .collect()
    }
}

/// Why a reply could not be read. Says nothing of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    Empty,
    /// The model thought until it had no tokens left.
    OnlyReasoning,
    NoJson,
    NoRecords,
    NoReport,
    NoPoints,
    NoKeywords,
    NoRating,
    NoAnswer,
    NeitherYesNorNo,
    NoWinner,
    NoList,
    NoStatement,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Unreadable::Empty => "the reply is empty",
            Unreadable::OnlyReasoning => "the reply is reasoning without an answer",
            Unreadable::NoJson => "the reply holds no JSON",
            Unreadable::NoRecords => "the reply holds no entities and no relations",
            Unreadable::NoReport => "the reply holds no report",
            Unreadable::NoPoints => "the reply holds no points",
            Unreadable::NoKeywords => "the reply holds no keywords",
            Unreadable::NoRating => "the reply holds no rating",
            Unreadable::NoAnswer => "the reply holds no answer",
            Unreadable::NeitherYesNorNo => "the reply says neither yes nor no",
            Unreadable::NoWinner => "the reply names no better answer",
            Unreadable::NoList => "the reply holds no list",
            Unreadable::NoStatement => "the reply says of no statement whether it is supported",
        })
    }
}

impl std::error::Error for Unreadable {}

/// The cleaned reply, if anything is left of it.
fn cleaned(reply: &str) -> Result<(std::borrow::Cow<'_, str>, Repairs), Unreadable> {
    let (text, repairs) = clean(reply);
    match (text.trim().is_empty(), repairs.reasoning) {
        (false, _) => Ok((text, repairs)),
        (true, false) => Err(Unreadable::Empty),
        (true, true) => Err(Unreadable::OnlyReasoning),
    }
}

/// The number at the start of `text`, with a decimal point or comma, unless a word or another number goes on with it.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let length = text
        .bytes()
        .take_while(|b| b.is_ascii_digit() || b"+-.,eE".contains(b))
        .count();
    let number = text[..length].trim_end_matches(['.', ',']);
    if text[length..].starts_with(char::is_alphanumeric) {
        return None;
    }
    number
        .replace(',', ".")
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite())
}

/// `text` without the white space and the quotes around it.
fn bare(text: &str) -> &str {
    let mut rest = text.trim();
    loop {
        let next = unquoted(rest).trim();
        if next.len() == rest.len() {
            return rest;
        }
        rest = next;
    }
}

fn unquoted(text: &str) -> &str {
    let is_quote = crate::fold::is_quote;
    let mut chars = text.chars();
    match (chars.next(), chars.next_back()) {
        (Some(first), Some(last)) if is_quote(first) && is_quote(last) => {
            let inner = chars.as_str();
            // "A" and "B" are two quotations; "he said "A"" is one.
            let mut before = None;
            for c in inner.chars() {
                if c == last && before.is_some_and(|b: char| !b.is_whitespace() && b != '(') {
                    return text;
                }
                if c == first {
                    break;
                }
                before = Some(c);
            }
            inner
        }
        (Some(c), None) if is_quote(c) => "",
        (Some('"' | '“' | '”' | '„'), _) => &text[text.ceil_char_boundary(1)..],
        (Some(_), Some(last @ ('"' | '“' | '”'))) => {
            let inner = &text[..text.len() - last.len_utf8()];
            if inner.contains(['"', '“', '”', '„']) {
                text
            } else {
                inner
            }
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests;

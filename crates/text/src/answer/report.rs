use super::extraction::{key, text_of};
use super::{Repairs, Unreadable, bare, cleaned, json, number, prose, tags};
use crate::sentences::sentences;
use serde_json::{Map, Value};

/// One insight of a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finding {
    pub summary: String,
    pub explanation: Option<String>,
}

/// The report on a community.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub title: String,
    pub summary: String,
    /// From 0 to 10.
    pub rating: Option<f64>,
    pub rating_explanation: Option<String>,
    pub findings: Vec<Finding>,
    pub repairs: Repairs,
}

const TITLE: [&str; 4] = ["title", "name", "heading", "headline"];
const SUMMARY: [&str; 5] = ["summary", "description", "overview", "abstract", "report"];
const RATING: [&str; 5] = ["rating", "score", "impact", "importance", "rank"];
const RATING_EXPLANATION: [&str; 3] = ["ratingexplanation", "ratingreason", "impactexplanation"];
const FINDINGS: [&str; 4] = ["findings", "keyfindings", "insights", "keyinsights"];
const INSIGHT: [&str; 7] = ["summary", "title", "finding", "insight", "point", "name", "heading"];
const EXPLANATION: [&str; 6] = ["explanation", "description", "details", "detail", "text", "evidence"];

/// The longest title that is taken from prose, in characters.
const LONGEST_TITLE: usize = 100;

/// How deep a report may be wrapped.
const DEEPEST: usize = 3;

/// The report of a reply: JSON or XML as GraphRAG and R2R ask for it, else the whole reply under its heading or its first
/// sentence.
pub fn report(reply: &str) -> Result<Report, Unreadable> {
    let (text, repairs) = cleaned(reply)?;
    let found = json::find(&text);
    let read = found.and_then(|found| {
        let repairs = found.repairs(repairs);
        let report = from_members(members(&found.value, DEEPEST)?)?;
        Some(Report { repairs, ..report })
    });
    if let Some(report) = read.or_else(|| from_tags(&text, repairs)) {
        return Ok(report);
    }
    let start = text.trim_start().trim_start_matches('`').trim_start();
    let data = start.strip_prefix("json").unwrap_or(start).trim_start();
    if data.starts_with('{')
        || data
            .strip_prefix('[')
            .is_some_and(|rest| rest.trim_start().starts_with(['{', '"']))
    {
        return Err(Unreadable::NoReport);
    }
    from_prose(reply)
}

/// The object with the members of a report, at most as `deep` in `value`.
fn members(value: &Value, deep: usize) -> Option<&Map<String, Value>> {
    match value {
        Value::Object(members) => {
            let is_known = |name: &String| {
                let name = key(name);
                [&TITLE[..1], &SUMMARY[..1], &FINDINGS[..]]
                    .iter()
                    .any(|names| names.contains(&name.as_str()))
            };
            let known = members.keys().any(is_known);
            let inner = || {
                members
                    .values()
                    .find_map(|value| self::members(value, deep.checked_sub(1)?))
            };
            known.then_some(members).or_else(inner)
        }
        Value::Array(items) => items.iter().find_map(|value| members(value, deep.checked_sub(1)?)),
        _ => None,
    }
}

fn member<'a>(members: &'a Map<String, Value>, names: &[&str]) -> Option<&'a Value> {
    names.iter().find_map(|name| {
        members
            .iter()
            .find_map(|(other, value)| (key(other) == *name).then_some(value))
    })
}

fn member_text(members: &Map<String, Value>, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| text_of(member(members, &[name])?))
}

pub(super) fn from_members(members: &Map<String, Value>) -> Option<Report> {
    let findings: Vec<Finding> = match member(members, &FINDINGS) {
        Some(Value::Array(items)) => items.iter().filter_map(finding).collect(),
        Some(Value::String(text)) if text.trim_start().starts_with('[') => {
            match json::find(text).map(|found| found.value) {
                Some(Value::Array(items)) => items.iter().filter_map(finding).collect(),
                _ => Vec::new(),
            }
        }
        Some(value) => finding(value).into_iter().collect(),
        None => Vec::new(),
    };
    let title = member_text(members, &TITLE).map(|title| bare(&title).to_owned());
    let title = title.filter(|title| !title.is_empty());
    let listed = || {
        findings
            .iter()
            .map(|finding| finding.summary.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let summary = member_text(members, &SUMMARY).unwrap_or_else(listed);
    let summary = if summary.is_empty() { title.clone()? } else { summary };
    Some(Report {
        title: title.unwrap_or_else(|| first_title(&summary).0),
        summary,
        rating: member_text(members, &RATING).and_then(|text| rating(&text)),
        rating_explanation: member_text(members, &RATING_EXPLANATION),
        findings,
        repairs: Repairs::default(),
    })
}

fn finding(value: &Value) -> Option<Finding> {
    let Value::Object(members) = value else {
        let summary = text_of(value)?;
        return Some(Finding {
            summary,
            explanation: None,
        });
    };
    let explanation = member_text(members, &EXPLANATION);
    match member_text(members, &INSIGHT) {
        Some(summary) => Some(Finding { summary, explanation }),
        None => Some(Finding {
            summary: explanation?,
            explanation: None,
        }),
    }
}

/// `7.5`, `7.5/10` and `75/100` are the same.
fn rating(text: &str) -> Option<f64> {
    let value = number(bare(text))?;
    let whole = text
        .split_once('/')
        .and_then(|(_, whole)| number(whole))
        .filter(|whole| *whole > 0.0);
    Some((value * 10.0 / whole.unwrap_or(10.0)).clamp(0.0, 10.0))
}

fn from_tags(text: &str, repairs: Repairs) -> Option<Report> {
    let (records, mut members) = tags::records(text, &["finding"]);
    let whole = records.iter().all(|record| record.whole);
    let findings = records.into_iter().filter(|record| record.whole).map(|mut record| {
        let own = record.fields.shift_remove("");
        if record.fields.is_empty() {
            own.unwrap_or_default()
        } else {
            Value::Object(record.fields)
        }
    });
    let findings: Vec<Value> = findings.collect();
    if !members.contains_key("summary") && findings.is_empty() {
        return None;
    }
    members.insert("findings".to_owned(), Value::Array(findings));
    let report = from_members(&members)?;
    let around = !(text.trim().starts_with('<') && text.trim().ends_with('>'));
    let repairs = Repairs {
        fence: repairs.fence | around,
        broken: !whole,
        ..repairs
    };
    Some(Report { repairs, ..report })
}

fn from_prose(reply: &str) -> Result<Report, Unreadable> {
    let (text, repairs) = prose(reply, false)?;
    let (line, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let (line, rest) = (line.trim(), rest.trim());
    let is_heading = line.starts_with('#') || line.starts_with("**") && line.ends_with("**");
    let heading = line.trim_matches(|c: char| c.is_whitespace() || "#*_:".contains(c));
    let heading = heading.strip_prefix("Title:").unwrap_or(heading).trim();
    let (title, summary) = if (is_heading || line.starts_with("Title:")) && !heading.is_empty() {
        let title = bare(heading).to_owned();
        (title, if rest.is_empty() { heading } else { rest }.to_owned())
    } else {
        let (title, end) = first_title(&text);
        let rest = text[end..].trim();
        (title, if rest.is_empty() { text.trim() } else { rest }.to_owned())
    };
    match title.is_empty() {
        true => Err(Unreadable::NoReport),
        false => Ok(Report {
            title,
            summary,
            repairs,
            ..Report::default()
        }),
    }
}

/// The first sentence of `text` and where it ends; of a longer one the first words, and the start of the text.
fn first_title(text: &str) -> (String, usize) {
    let end = sentences(text).first().map_or(0, |first| first.end);
    let sentence = text[..end].trim();
    match sentence.char_indices().nth(LONGEST_TITLE) {
        None => (sentence.to_owned(), end),
        Some((cut, _)) => {
            let words = sentence[..cut].rfind(char::is_whitespace).unwrap_or(cut);
            (sentence[..words].trim_end().to_owned(), 0)
        }
    }
}

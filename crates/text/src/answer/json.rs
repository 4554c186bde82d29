mod reader;

use super::{Repairs, Unreadable, cleaned};
use reader::{Read, Reader};
use serde::de::IgnoredAny;
use serde_json::Value;

/// How often JSON may be written into a string of JSON.
const WRAPPINGS: usize = 2;

/// How often the search goes back behind a bracket of the prose, which a quote behind it made look like JSON to the end.
const RETURNS: usize = 16;

/// The JSON object or array of a reply.
///
/// Left out is what stands around it: reasoning, fences, prose; of several values the longest is taken, and values that
/// only white space, commas and fences part are one array. Repaired are quotes of other kinds and quotes inside strings
/// that lack their backslash, commas too many or too few, comments, words of Python, brackets that are missing, and JSON
/// in a string. A cut reply ends at its last whole record: what is open is closed, without an element of a list that
/// the cut went through, unless this holds records itself. NUL is removed.
pub fn json(reply: &str) -> Result<(Value, Repairs), Unreadable> {
    let (text, repairs) = cleaned(reply)?;
    let found = find(&text).ok_or(Unreadable::NoJson)?;
    let repairs = found.repairs(repairs);
    Ok((found.value, repairs))
}

/// JSON in a text.
pub(super) struct Found {
    pub value: Value,
    /// Whether `value` is a lone value that the cut went through.
    pub open: bool,
    fence: bool,
    broken: bool,
}

impl Found {
    pub fn repairs(&self, repairs: Repairs) -> Repairs {
        Repairs {
            fence: repairs.fence | self.fence,
            broken: repairs.broken | self.broken,
            ..repairs
        }
    }
}

pub(super) fn find(text: &str) -> Option<Found> {
    let mut found = read(text, WRAPPINGS)?;
    remove_nul(&mut found.value);
    Some(found)
}

fn read(text: &str, wrappings: usize) -> Option<Found> {
    let text = text.trim();
    match serde_json::from_str(text) {
        Ok(Value::String(inner)) if wrappings > 0 => {
            return read(&inner, wrappings - 1).map(|found| Found { broken: true, ..found });
        }
        Ok(value @ (Value::Object(_) | Value::Array(_))) => {
            return Some(Found {
                value,
                open: false,
                fence: false,
                broken: false,
            });
        }
        Ok(_) => return None,
        Err(_) => {}
    }
    // As a string, or as if it were in one.
    let quoted = match text.strip_prefix('"') {
        Some(rest) => rest.trim_start().starts_with(['{', '[', '\\']),
        None => text
            .strip_prefix(['{', '['])
            .is_some_and(|rest| rest.trim_start().starts_with('\\')),
    };
    if !quoted && let Some(found) = search(text) {
        return Some(found);
    }
    if wrappings == 0 || !text.contains("\\\"") {
        return None;
    }
    let inner = reader::unescaped(text.trim_matches('"'));
    read(&inner, wrappings - 1).map(|found| Found { broken: true, ..found })
}

/// Values that stand side by side.
struct Group {
    values: Vec<Value>,
    start: usize,
    end: usize,
    open: bool,
    broken: bool,
}

/// The longest group of objects and arrays in `text`.
fn search(text: &str) -> Option<Found> {
    let mut best: Option<Group> = None;
    let mut last: Option<Group> = None;
    let (mut at, mut returns) = (0, 0);
    while let Some(found) = text[at..].find(['{', '[']) {
        let start = at + found;
        let mut reader = Reader::new(text, start);
        let read = reader.value();
        at = reader.at.max(start + 1);
        let (value, open) = match read {
            Read::Whole(value) => (value, false),
            Read::Part(value) if is_blank(&value) => {
                if returns < RETURNS {
                    returns += 1;
                    at = start + 1;
                }
                continue;
            }
            Read::Part(value) => (value, true),
            Read::Cut | Read::Not => continue,
        };
        if is_citation(&value) {
            continue;
        }
        let broken = open || serde_json::from_str::<IgnoredAny>(&text[start..at]).is_err();
        match &mut last {
            Some(group) if is_between(&text[group.end..start]) => {
                // The cut went through the last of several records.
                if !open || reader::holds_records(&value) {
                    group.values.push(value);
                }
                group.end = at;
                group.broken |= broken;
            }
            _ => {
                best = longer(best, last.take());
                last = Some(Group {
                    values: vec![value],
                    start,
                    end: at,
                    open,
                    broken,
                });
            }
        }
    }
    let mut group = longer(best, last)?;
    let lone = group.values.len() == 1;
    let value = match lone {
        true => group.values.pop()?,
        false => Value::Array(group.values),
    };
    Some(Found {
        value,
        open: group.open,
        fence: group.end - group.start < text.len(),
        broken: group.broken,
    })
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

fn longer(a: Option<Group>, b: Option<Group>) -> Option<Group> {
    let length = |group: &Option<Group>| group.as_ref().map_or(0, |group| group.end - group.start);
    if length(&b) > length(&a) { b } else { a }
}

/// Whether `value` is like `[1, 2]`, which stands in prose.
fn is_citation(value: &Value) -> bool {
    matches!(value, Value::Array(items) if !items.is_empty() && items.iter().all(Value::is_number))
}

fn is_between(text: &str) -> bool {
    let rest = text.trim_matches(|c: char| c.is_whitespace() || ",;`".contains(c));
    rest.is_empty() || rest.eq_ignore_ascii_case("json")
}

fn remove_nul(value: &mut Value) {
    match value {
        Value::String(text) => text.retain(|c| c != '\0'),
        Value::Array(items) => items.iter_mut().for_each(remove_nul),
        Value::Object(members) => {
            members.values_mut().for_each(remove_nul);
            if members.keys().any(|key| key.contains('\0')) {
                let taken = std::mem::take(members);
                members.extend(taken.into_iter().map(|(key, value)| (key.replace('\0', ""), value)));
            }
        }
        _ => {}
    }
}

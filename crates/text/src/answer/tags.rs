//! Records in tags, as far as models write XML.

use serde_json::{Map, Value};

/// An element that is a record.
pub(super) struct Record {
    pub name: String,
    /// Its attributes and the elements in it; its own text under an empty name.
    pub fields: Map<String, Value>,
    /// Whether it was closed.
    pub whole: bool,
}

/// The elements of `text` called one of `names`, and the fields outside of them.
pub(super) fn records(text: &str, names: &[&str]) -> (Vec<Record>, Map<String, Value>) {
    let mut records = Vec::new();
    let mut outside = Map::new();
    let mut record: Option<Record> = None;
    let mut field: Option<(String, String)> = None;
    let mut own = String::new();
    let mut at = 0;
    while let Some(tag) = next_tag(text, at) {
        let before = &text[at..tag.begin];
        field.as_mut().map_or(&mut own, |(_, text)| text).push_str(before);
        at = tag.end;
        let starts = names.contains(&tag.name.as_str())
            && (record.is_none() || record.as_ref().is_some_and(|r| r.name == tag.name));
        if tag.closes {
            if let Some((name, text)) = field.take_if(|(name, _)| *name == tag.name) {
                put(
                    record.as_mut().map_or(&mut outside, |record| &mut record.fields),
                    &name,
                    &text,
                );
            } else if record.as_ref().is_some_and(|record| record.name == tag.name) {
                finish(&mut records, &mut record, &mut own, true);
                field = None;
            }
        } else if starts {
            finish(&mut records, &mut record, &mut own, true);
            field = None;
            let mut fields = Map::new();
            for (name, value) in tag.attributes {
                put(&mut fields, &name, &value);
            }
            let whole = tag.empty;
            record = Some(Record {
                name: tag.name,
                fields,
                whole,
            });
            if whole {
                finish(&mut records, &mut record, &mut own, true);
            }
        } else if !tag.empty && field.as_ref().is_none_or(|(_, text)| text.trim().is_empty()) {
            field = Some((tag.name, String::new()));
        }
    }
    finish(&mut records, &mut record, &mut own, false);
    (records, outside)
}

fn finish(records: &mut Vec<Record>, record: &mut Option<Record>, own: &mut String, whole: bool) {
    if let Some(mut record) = record.take() {
        put(&mut record.fields, "", own);
        records.push(Record { whole, ..record });
    }
    own.clear();
}

fn put(fields: &mut Map<String, Value>, name: &str, text: &str) {
    let text = unescaped(text.trim());
    if !text.is_empty() && !fields.contains_key(name) {
        fields.insert(name.to_owned(), Value::String(text));
    }
}

struct Tag {
    begin: usize,
    end: usize,
    name: String,
    closes: bool,
    empty: bool,
    attributes: Vec<(String, String)>,
}

fn next_tag(text: &str, mut at: usize) -> Option<Tag> {
    loop {
        let begin = at + text[at..].find('<')?;
        at = begin + 1;
        let inner = &text[at..];
        // No `<` stands in a tag, so that each is looked at once.
        let length = inner.find(['<', '>'])?;
        let closes = inner.starts_with('/');
        let body = inner[..length].trim_start_matches('/');
        let name_length = body
            .bytes()
            .take_while(|b| b.is_ascii_alphanumeric() || b"_-".contains(b))
            .count();
        let rest = &body[name_length..];
        let sound = rest.is_empty() || rest.starts_with(char::is_whitespace) || rest == "/";
        if inner[length..].starts_with('>') && body.starts_with(|c: char| c.is_ascii_alphabetic()) && sound {
            return Some(Tag {
                begin,
                end: at + length + 1,
                name: body[..name_length].to_ascii_lowercase(),
                closes,
                empty: rest.ends_with('/'),
                attributes: attributes(rest),
            });
        }
    }
}

fn attributes(mut text: &str) -> Vec<(String, String)> {
    let mut attributes = Vec::new();
    while let Some((name, rest)) = text.split_once('=') {
        let rest = rest.trim_start();
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\'' | '“' | '”'));
        let (value, next) = match quote {
            Some('"') => rest[1..].split_once('"'),
            Some('\'') => rest[1..].split_once('\''),
            Some(quote) => rest[quote.len_utf8()..].split_once(['”', '“', '"']),
            None => rest.split_once(char::is_whitespace),
        }
        .unwrap_or((rest, ""));
        let name = name.split_whitespace().last().unwrap_or_default();
        attributes.push((name.to_ascii_lowercase(), value.to_owned()));
        text = next;
    }
    attributes
}

fn unescaped(text: &str) -> String {
    let mut meant = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        meant.push_str(&rest[..at]);
        rest = &rest[at..];
        let (c, length) = character(rest).unwrap_or(('&', 1));
        meant.push(c);
        rest = &rest[length..];
    }
    meant + rest
}

/// The character that a reference stands for, and the length of that.
fn character(text: &str) -> Option<(char, usize)> {
    let end = text.bytes().take(12).position(|b| b == b';')?;
    let name = &text[1..end];
    let c = match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?).filter(|&c| c != '\0')?
        }
    };
    Some((c, end + 1))
}

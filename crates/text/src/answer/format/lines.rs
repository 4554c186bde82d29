//! Lines of fields that commas, semicolons, tabs or bars part.

use super::LONGEST_KEY;
use crate::answer::extraction::{Extraction, Walk, key};
use crate::answer::{Format, prose, reason};
use csv::{ReaderBuilder, StringRecord};
use serde_json::{Map, Value};

const DELIMITERS: [u8; 4] = *b",\t;|";
/// The names of columns that make a line a heading: of relations two of these, of entities one and another column.
const ENDS: [&[&str]; 2] = [
    &["subject", "source", "src", "head", "from", "start"],
    &["object", "target", "tgt", "tail", "to", "end"],
];
const NAMES: [&str; 4] = ["name", "entity", "entityname", "title"];
const OTHERS: [&str; 5] = ["type", "entitytype", "kind", "description", "desc"];

fn records(text: &str, delimiter: u8) -> impl Iterator<Item = StringRecord> {
    let mut builder = ReaderBuilder::new();
    builder.has_headers(false).flexible(true).delimiter(delimiter);
    builder.from_reader(text.as_bytes()).into_records().flatten()
}

/// The lines without what stands around them, and what parts their fields: what gives the first line most of them.
fn opened(text: &str) -> (&str, u8) {
    let text = prose::unfenced(text.trim()).unwrap_or(text).trim();
    let line = text.lines().next().unwrap_or_default();
    let fields = |delimiter: &u8| records(line, *delimiter).next().map_or(0, |record| record.len());
    let most = DELIMITERS.iter().rev().max_by_key(|delimiter| fields(delimiter));
    (text, *most.unwrap_or(&b','))
}

fn is_heading(record: &StringRecord) -> bool {
    let keys: Vec<String> = record.iter().map(key).collect();
    let has = |names: &[&str]| keys.iter().any(|key| names.contains(&key.as_str()));
    ENDS.iter().all(|names| has(names)) || has(&NAMES) && has(&OTHERS)
}

/// Whether `text` can be nothing but lines of fields: below a heading, or triples none of whose fields starts as the
/// words behind a comma of prose do.
pub(super) fn is_lines(text: &str) -> bool {
    let (text, delimiter) = opened(text);
    let Some(first) = records(text, delimiter).next() else {
        return false;
    };
    let sound = |record: &StringRecord| {
        record.len() == first.len() && record.iter().all(|field| !field.starts_with(char::is_whitespace))
    };
    is_heading(&first) || matches!(first.len(), 3 | 4) && records(text, delimiter).all(|record| sound(&record))
}

pub(super) fn read(text: &str) -> Option<Extraction> {
    let (inner, delimiter) = opened(text);
    let mut walk = Walk::new(Some(Format::Csv));
    let mut lines = records(inner, delimiter).peekable();
    let heading = lines.next_if(is_heading);
    let names: Vec<&str> = match &heading {
        Some(heading) => {
            let short = |name: &str| name.floor_char_boundary(LONGEST_KEY);
            heading.iter().map(|name| &name[..short(name)]).collect()
        }
        None => vec!["subject", "predicate", "object", "source_key"],
    };
    let relations = ENDS[0].iter().any(|end| names.iter().any(|name| key(name) == *end));
    walk.listed = heading.is_some();
    for record in lines {
        if record.iter().all(|field| field.trim().is_empty()) {
            continue;
        }
        if record.len() > names.len() {
            walk.out.drop(reason::TOO_MANY);
        } else if heading.is_none() && record.len() < 3 {
            walk.out.drop(reason::TOO_FEW);
        } else {
            let fields = names.iter().zip(&record).filter(|(_, value)| !value.trim().is_empty());
            let fields = fields.map(|(name, value)| ((*name).to_owned(), Value::String(value.to_owned())));
            let fields: Map<String, Value> = fields.collect();
            walk.line(&fields, relations);
        }
    }
    let mut read = walk.finish(false)?;
    read.repairs.fence = inner.len() < text.trim().len();
    (!read.is_empty() || heading.is_some()).then_some(read)
}

//! Lines of fields that commas, semicolons, tabs or bars part.

use super::LONGEST_KEY;
use crate::answer::extraction::{Extraction, Walk, key};
use crate::answer::{Format, prose, reason};
use csv::{Reader, ReaderBuilder, StringRecord};
use serde_json::Value;

const DELIMITERS: [u8; 4] = *b",\t;|";
/// The names of columns that make a line a heading: of relations two of these, of entities one and another column.
const ENDS: [&[&str]; 2] = [
    &["subject", "source", "src", "head", "from", "start"],
    &["object", "target", "tgt", "tail", "to", "end"],
];
const NAMES: [&str; 4] = ["name", "entity", "entityname", "title"];
const OTHERS: [&str; 5] = ["type", "entitytype", "kind", "description", "desc"];

fn reader(text: &str, delimiter: u8) -> Reader<&[u8]> {
    let mut builder = ReaderBuilder::new();
    builder.has_headers(false).flexible(true).delimiter(delimiter);
    builder.from_reader(text.as_bytes())
}

/// Reads the next line into `record`, which keeps its room: a copy of each would be as large as the longest.
fn next(reader: &mut Reader<&[u8]>, record: &mut StringRecord) -> bool {
    reader.read_record(record).unwrap_or(false)
}

/// The lines without what stands around them, and what parts their fields: what gives the first line most of them.
fn opened(text: &str) -> (&str, u8) {
    let text = prose::unfenced(text.trim()).unwrap_or(text).trim();
    let line = text.lines().next().unwrap_or_default();
    let fields = |delimiter: &u8| {
        let mut record = StringRecord::new();
        next(&mut reader(line, *delimiter), &mut record);
        record.len()
    };
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
    let mut reader = reader(text, delimiter);
    let mut record = StringRecord::new();
    if !next(&mut reader, &mut record) || is_heading(&record) {
        return is_heading(&record);
    }
    let count = record.len();
    let mut sound = matches!(count, 3 | 4);
    while sound {
        sound = record.len() == count && record.iter().all(|field| !field.starts_with(char::is_whitespace));
        if !next(&mut reader, &mut record) {
            break;
        }
    }
    sound
}

pub(super) fn read(text: &str) -> Option<Extraction> {
    let (inner, delimiter) = opened(text);
    let mut walk = Walk::new(Some(Format::Csv));
    let mut reader = reader(inner, delimiter);
    let mut record = StringRecord::new();
    let mut more = next(&mut reader, &mut record);
    let heading = is_heading(&record).then(|| record.clone());
    if heading.is_some() {
        more = next(&mut reader, &mut record);
    }
    let names: Vec<&str> = match &heading {
        Some(heading) => {
            let short = |name: &str| name.floor_char_boundary(LONGEST_KEY);
            heading.iter().map(|name| &name[..short(name)]).collect()
        }
        None => vec!["subject", "predicate", "object", "source_key"],
    };
    let relations = ENDS[0].iter().any(|end| names.iter().any(|name| key(name) == *end));
    walk.listed = heading.is_some();
    while more {
        if record.iter().all(|field| field.trim().is_empty()) {
            // An empty line.
        } else if record.len() > names.len() {
            walk.out.drop(reason::TOO_MANY);
        } else if heading.is_none() && record.len() < 3 {
            walk.out.drop(reason::TOO_FEW);
        } else {
            let fields = names.iter().zip(&record).filter(|(_, value)| !value.trim().is_empty());
            let fields = fields.map(|(name, value)| ((*name).to_owned(), Value::String(value.to_owned())));
            walk.line(&fields.collect(), relations);
        }
        more = next(&mut reader, &mut record);
    }
    let mut read = walk.finish(false)?;
    read.repairs.fence = inner.len() < text.trim().len();
    (!read.is_empty() || heading.is_some()).then_some(read)
}

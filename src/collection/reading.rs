//! What a model is told of the graph that is wanted, and what becomes of answers that keep to something else.

use std::collections::{BTreeMap, HashSet};

use graphrag_text::{answer, fold};
use serde_json::{Map, Value};

use super::quoted;
use crate::error::{Error, Result};

/// The settings of this room.
pub const KEYS: [&str; 6] = [TYPES, PREDICATES, LANGUAGE, EXAMPLES, CLAIMS, UNGROUNDED];

const TYPES: &str = "entity_types";
const PREDICATES: &str = "predicates";
const LANGUAGE: &str = "extract_language";
const EXAMPLES: &str = "extract_examples";
const CLAIMS: &str = "extract_claims";
/// What is done with what a model has extracted where the block does not bear it out.
const UNGROUNDED: &str = "ungrounded";

/// More of a kind would not be read by a model either.
const MOST: usize = 200;
const MAX_NAME_BYTES: usize = 200;
const MAX_EXAMPLE_BYTES: usize = 20_000;

/// How blocks are to be read by a model.
#[derive(Default)]
pub struct Reading {
    /// The types and predicates that are wanted, by their folded forms; any if there are none.
    pub types: BTreeMap<String, String>,
    pub predicates: BTreeMap<String, String>,
    /// The language of descriptions; that of the passage if there is none.
    pub language: Option<String>,
    /// Passages, and what should be answered to them.
    pub examples: Vec<(String, Value)>,
    /// The folded names of the examples' answers.
    pub example_names: HashSet<String>,
    pub claims: bool,
    pub drop_ungrounded: bool,
}

impl Reading {
    pub fn parse(map: &Map<String, Value>) -> Result<Reading> {
        let set = |key: &str| map.get(key).filter(|value| !value.is_null());
        let examples = match set(EXAMPLES) {
            None => Vec::new(),
            Some(value) => examples(value)?,
        };
        let mut example_names = HashSet::new();
        for (_, reply) in &examples {
            let found = answer::extraction_value(reply).unwrap_or_default();
            let ends = found
                .relations
                .iter()
                .flat_map(|relation| [&relation.subject, &relation.object]);
            example_names.extend(
                found
                    .entities
                    .iter()
                    .map(|entity| &entity.name)
                    .chain(ends)
                    .map(|name| fold::name(name)),
            );
        }
        Ok(Reading {
            types: set(TYPES).map_or(Ok(BTreeMap::new()), |value| names(TYPES, value, fold::name))?,
            predicates: set(PREDICATES)
                .map_or(Ok(BTreeMap::new()), |value| names(PREDICATES, value, fold::predicate))?,
            language: match set(LANGUAGE) {
                None => None,
                Some(Value::String(text)) if !text.trim().is_empty() && text.len() <= MAX_NAME_BYTES => {
                    Some(text.clone())
                }
                Some(other) => return Err(wrong(LANGUAGE, "a text such as \"German\"", other)),
            },
            examples,
            example_names,
            claims: match set(CLAIMS) {
                None => false,
                Some(Value::Bool(wanted)) => *wanted,
                Some(other) => return Err(wrong(CLAIMS, "true or false", other)),
            },
            drop_ungrounded: match set(UNGROUNDED) {
                None => false,
                Some(Value::String(text)) if text == "flag" || text == "drop" => text == "drop",
                Some(other) => return Err(wrong(UNGROUNDED, "\"flag\" or \"drop\"", other)),
            },
        })
    }
}

fn wrong(key: &str, wanted: &str, value: &Value) -> Error {
    Error::invalid(format!("setting {} must be {wanted}", quoted(key))).detail(format!("It is {value}."))
}

/// Names by their folded forms.
fn names(key: &str, value: &Value, folded: fn(&str) -> String) -> Result<BTreeMap<String, String>> {
    let wanted = format!("an array of at most {MOST} texts of at most {MAX_NAME_BYTES} bytes");
    let wrong = || wrong(key, &wanted, value);
    let list = value.as_array().filter(|list| list.len() <= MOST).ok_or_else(wrong)?;
    let mut names = BTreeMap::new();
    for name in list {
        let name = name.as_str().map(str::trim).filter(|name| name.len() <= MAX_NAME_BYTES);
        let name = name.filter(|name| !folded(name).is_empty()).ok_or_else(wrong)?;
        names.entry(folded(name)).or_insert_with(|| name.to_owned());
    }
    Ok(names)
}

fn examples(value: &Value) -> Result<Vec<(String, Value)>> {
    let wanted = "an array of objects with a passage, and as answer an object of entities and relations";
    let wrong = || wrong(EXAMPLES, wanted, value);
    if value.to_string().len() > MAX_EXAMPLE_BYTES {
        return Err(Error::invalid(format!(
            "setting {} has more than {MAX_EXAMPLE_BYTES} bytes",
            quoted(EXAMPLES)
        )));
    }
    let mut examples = Vec::new();
    for example in value.as_array().ok_or_else(wrong)? {
        let passage = example["passage"].as_str().filter(|text| !text.trim().is_empty());
        let answer = example.get("answer").filter(|answer| answer.is_object());
        let (Some(passage), Some(answer)) = (passage, answer) else {
            return Err(wrong());
        };
        if answer::extraction_value(answer).is_err() {
            return Err(wrong());
        }
        examples.push((passage.to_owned(), answer.clone()));
    }
    Ok(examples)
}

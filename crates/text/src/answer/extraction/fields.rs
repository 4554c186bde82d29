//! The fields of a record, under whatever name.

use crate::answer::{bare, json, number};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::HashMap;

const NAME: [&str; 5] = ["name", "entityname", "entity", "title", "text"];
const KIND: [&str; 6] = ["type", "entitytype", "kind", "category", "label", "labels"];
const DESCRIPTION: [&str; 8] = [
    "description",
    "desc",
    "summary",
    "fact",
    "entitydescription",
    "relationshipdescription",
    "explanation",
    "details",
];
const SUBJECT: [&str; 12] = [
    "source",
    "src",
    "sourceentity",
    "sourceentityname",
    "head",
    "headentity",
    "subject",
    "start",
    "from",
    "srcid",
    "sourcenode",
    "startnode",
];
const OBJECT: [&str; 13] = [
    "target",
    "tgt",
    "targetentity",
    "targetentityname",
    "tail",
    "tailentity",
    "object",
    "end",
    "to",
    "tgtid",
    "targetnode",
    "endnode",
    "dst",
];
const SUBJECT_ID: [&str; 5] = ["startnodeid", "sourceid", "sourcenodeid", "sourceentityid", "fromid"];
const OBJECT_ID: [&str; 5] = ["endnodeid", "targetid", "targetnodeid", "targetentityid", "toid"];
const PREDICATE: [&str; 9] = [
    "relation",
    "predicate",
    "relationtype",
    "relationship",
    "relationshiptype",
    "relationname",
    "rel",
    "type",
    "label",
];
const KEYWORDS: [&str; 2] = ["keywords", "relationshipkeywords"];
const QUOTE: [&str; 4] = ["quote", "evidence", "sourcetext", "span"];
const STRENGTH: [&str; 4] = ["weight", "strength", "score", "relationshipstrength"];

/// The members of an object, by their [`key`]; the first of each.
pub(super) struct Fields<'a> {
    members: HashMap<String, &'a Value>,
    /// Further properties of a node or an edge.
    properties: Option<Cow<'a, Value>>,
}

/// A name of a field without its case and its separators.
pub(in crate::answer) fn key(name: &str) -> String {
    let letters = name.chars().filter(|c| c.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

/// The text that `value` is or holds first.
pub(in crate::answer) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim().replace('\0', "")).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(items) => items
            .iter()
            .find(|item| !item.is_array() && !item.is_object())
            .and_then(text),
        Value::Object(members) => {
            let name = |name: &str| members.get(name).filter(|value| value.is_string());
            NAME.iter().chain(&["id"]).find_map(|key| name(key)).and_then(text)
        }
        _ => None,
    }
}

impl<'a> Fields<'a> {
    pub fn new(object: &'a Map<String, Value>) -> Self {
        let mut members = HashMap::with_capacity(object.len());
        for (name, value) in object {
            members.entry(key(name)).or_insert(value);
        }
        let properties = match members.get("properties").or_else(|| members.get("attributes")) {
            Some(value @ Value::Object(_)) => Some(Cow::Borrowed(*value)),
            Some(Value::String(text)) => json::find(text)
                .filter(|found| found.value.is_object())
                .map(|found| Cow::Owned(found.value)),
            _ => None,
        };
        Fields { members, properties }
    }

    fn member(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| text(self.members.get(*name)?))
    }

    fn property(&self, names: &[&str]) -> Option<String> {
        let properties = self.properties.as_deref()?.as_object()?;
        names.iter().find_map(|name| {
            let (_, value) = properties.iter().find(|(other, _)| key(other) == *name)?;
            text(value)
        })
    }

    fn either(&self, names: &[&str]) -> Option<String> {
        self.member(names).or_else(|| self.property(names))
    }

    fn has(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.members.contains_key(*name))
    }

    pub fn is_relation(&self) -> bool {
        (self.has(&SUBJECT) || self.has(&SUBJECT_ID)) && (self.has(&OBJECT) || self.has(&OBJECT_ID))
    }

    /// The name; else an id that is more than a number.
    pub fn name(&self) -> Option<String> {
        let id = || self.id().filter(|id| id.parse::<f64>().is_err());
        self.either(&NAME).or_else(id)
    }

    pub fn id(&self) -> Option<String> {
        self.member(&["id"])
    }

    pub fn kind(&self) -> Option<String> {
        self.either(&KIND)
            .map(|kind| bare(&kind).to_owned())
            .filter(|kind| !kind.is_empty())
    }

    pub fn description(&self) -> Option<String> {
        self.either(&DESCRIPTION)
    }

    /// Subject, object, and whether these are ids.
    pub fn ends(&self) -> (Option<String>, Option<String>, bool) {
        match (self.member(&SUBJECT), self.member(&OBJECT)) {
            (None, None) => (self.member(&SUBJECT_ID), self.member(&OBJECT_ID), true),
            (subject, object) => (subject, object, false),
        }
    }

    pub fn predicate(&self) -> Option<String> {
        let keyword = || self.member(&KEYWORDS).and_then(|words| first_keyword(&words));
        let predicate = self.member(&PREDICATE).or_else(keyword)?;
        Some(bare(&predicate).to_owned()).filter(|predicate| !predicate.is_empty())
    }

    pub fn quote(&self) -> Option<String> {
        self.either(&QUOTE)
    }

    pub fn strength(&self) -> Option<f64> {
        number(&self.either(&STRENGTH)?)
    }
}

pub(in crate::answer) fn first_keyword(words: &str) -> Option<String> {
    let mut words = words.split([',', '，', '、', ';', '；']).map(bare);
    words.find(|word| !word.is_empty()).map(str::to_owned)
}

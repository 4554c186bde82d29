//! The fields of a record, under whatever name.

use super::{LONGEST_NAME, Origin};
use crate::answer::{bare, json, number, reason};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

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
/// Of a node of a graph, whose label may be its name.
const NODE_KIND: [&str; 5] = ["type", "entitytype", "kind", "category", "labels"];
const NODE_NAME: [&str; 5] = ["name", "entityname", "entity", "title", "entityid"];
const SOURCE_KEY: [&str; 1] = ["sourcekey"];
const BLOCK: [&str; 1] = ["blockid"];
const SOURCES: [&str; 7] = [
    "textunitids",
    "textunitid",
    "sourceids",
    "sourceid",
    "chunkids",
    "chunkid",
    "sources",
];

/// The fields of an object, by their [`key`]; the first of each.
pub(super) struct Fields<'a> {
    object: &'a Map<String, Value>,
    all: Vec<(Cow<'a, str>, Cow<'a, Value>)>,
    members: HashMap<String, usize>,
    /// Further properties of a node or an edge.
    properties: HashMap<String, usize>,
    /// Which of them were read.
    used: RefCell<HashSet<usize>>,
    /// Why values could not be read.
    lost: RefCell<Vec<&'static str>>,
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

/// The texts that `value` is or holds, also as an array of PostgreSQL or as LightRAG joins them.
pub(in crate::answer) fn texts(value: &Value) -> Vec<String> {
    let Value::String(whole) = value else {
        return match value {
            Value::Array(items) => items.iter().filter_map(text).collect(),
            _ => text(value).into_iter().collect(),
        };
    };
    let whole = whole.trim();
    if let Ok(Value::Array(items)) = serde_json::from_str(whole) {
        return items.iter().filter_map(text).collect();
    }
    let inner = whole.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let parts: Vec<&str> = match inner {
        Some(inner) => inner.split(',').map(bare).collect(),
        None => whole.split("<SEP>").map(str::trim).collect(),
    };
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.map(|part| part.replace('\0', "")).collect()
}

/// Whether `id` is a number, maybe behind a letter, and thus no name.
pub(super) fn is_code(id: &str) -> bool {
    let digits = id.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    id.parse::<f64>().is_ok() || id.len() <= digits.len() + 1 && digits.parse::<u64>().is_ok()
}

impl<'a> Fields<'a> {
    pub fn new(object: &'a Map<String, Value>) -> Self {
        let mut all: Vec<(Cow<str>, Cow<Value>)> = Vec::with_capacity(object.len());
        let mut members = HashMap::with_capacity(object.len());
        for (name, value) in object {
            members.entry(key(name)).or_insert(all.len());
            all.push((name.as_str().into(), Cow::Borrowed(value)));
        }
        let mut fields = Fields {
            object,
            all,
            members,
            properties: HashMap::new(),
            used: RefCell::default(),
            lost: RefCell::default(),
        };
        for name in ["properties", "attributes"] {
            if let Some(&at) = fields.members.get(name) {
                fields.add_properties(at);
                break;
            }
        }
        fields
    }

    pub fn object(&self) -> &'a Map<String, Value> {
        self.object
    }

    fn add_properties(&mut self, at: usize) {
        let found: Vec<(Cow<str>, Cow<Value>)> = match &self.all[at].1 {
            Cow::Borrowed(Value::Object(inner)) => {
                let each = inner.iter();
                each.map(|(name, value)| (name.as_str().into(), Cow::Borrowed(value)))
                    .collect()
            }
            value => match value.as_str().and_then(json::find).map(|found| found.value) {
                Some(Value::Object(inner)) => {
                    let each = inner.into_iter();
                    each.map(|(name, value)| (name.into(), Cow::Owned(value))).collect()
                }
                _ => return,
            },
        };
        self.used.get_mut().insert(at);
        for (name, value) in found {
            self.properties.entry(key(&name)).or_insert(self.all.len());
            self.all.push((name, value));
        }
    }

    fn read<T>(&self, from: &HashMap<String, usize>, names: &[&str], read: impl Fn(&Value) -> Option<T>) -> Option<T> {
        names.iter().find_map(|name| {
            let at = *from.get(*name)?;
            let found = read(&self.all[at].1)?;
            self.used.borrow_mut().insert(at);
            Some(found)
        })
    }

    pub fn member(&self, names: &[&str]) -> Option<String> {
        self.read(&self.members, names, text)
    }

    pub fn either(&self, names: &[&str]) -> Option<String> {
        self.member(names).or_else(|| self.read(&self.properties, names, text))
    }

    /// The place of the first member of these names that is not null.
    fn place(&self, names: &[&str]) -> Option<usize> {
        let mut places = names.iter().filter_map(|name| self.members.get(*name));
        places.find(|at| !self.all[**at].1.is_null()).copied()
    }

    /// The first member of these names, which does not count as read.
    pub fn peek(&self, names: &[&str]) -> Option<&Value> {
        Some(&self.all[self.place(names)?].1)
    }

    pub fn value(&self, names: &[&str]) -> Option<&Value> {
        let at = self.place(names)?;
        self.used.borrow_mut().insert(at);
        Some(&self.all[at].1)
    }

    pub fn has(&self, names: &[&str]) -> bool {
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

    /// The name of a row, whose id never is one.
    pub fn title(&self) -> Option<String> {
        self.either(&NAME)
    }

    pub fn id(&self) -> Option<String> {
        self.member(&["id"])
    }

    pub fn kind(&self) -> Option<String> {
        full(self.either(&KIND)?)
    }

    /// The name and the kind of a node; its label is the one or the other.
    pub fn node(&self) -> (Option<String>, Option<String>) {
        let kind = self.either(&NODE_KIND);
        let label = || self.member(&["label"]);
        let name = self.either(&NODE_NAME).or_else(|| match self.id() {
            Some(id) if kind.is_none() && !is_code(&id) => Some(id),
            id => label().or(id),
        });
        let label = || label().filter(|label| Some(label) != name.as_ref());
        let kind = kind.or_else(label);
        let kind = kind.and_then(|kind| full(kind.trim_start_matches(':').to_owned()));
        (name, kind)
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

    /// The predicate; else the first of the keywords, which stay a property.
    pub fn predicate(&self) -> Option<String> {
        let keyword = || first_keyword(&text(self.peek(&KEYWORDS)?)?);
        full(self.member(&PREDICATE).or_else(keyword)?)
    }

    pub fn quote(&self) -> Option<String> {
        self.either(&QUOTE)
    }

    pub fn strength(&self) -> Option<f64> {
        self.counted(number(&self.either(&STRENGTH)?), reason::BAD_NUMBER)
    }

    /// Where the record comes from. Asked for behind the ends, which may have the same names.
    pub fn origin(&self) -> Origin {
        let source_key = self
            .either(&SOURCE_KEY)
            .and_then(|key| self.counted(Some(key).filter(|key| key.len() <= LONGEST_NAME), reason::TOO_LONG));
        let block_id = self
            .either(&BLOCK)
            .and_then(|id| self.counted(bare(&id).parse().ok(), reason::BAD_NUMBER));
        let unused = |name: &&&str| {
            let at = self.members.get(**name);
            at.is_some_and(|at| !self.used.borrow().contains(at))
        };
        let mut sources = Vec::new();
        for name in SOURCES.iter().filter(unused) {
            if let Some(value) = self.value(&[name]) {
                sources.extend(texts(value));
            }
        }
        Origin {
            source_key,
            block_id,
            sources,
        }
    }

    fn counted<T>(&self, value: Option<T>, reason: &'static str) -> Option<T> {
        if value.is_none() {
            self.lost.borrow_mut().push(reason);
        }
        value
    }

    /// Why values could not be read so far.
    pub fn lost(&self) -> Vec<&'static str> {
        self.lost.take()
    }

    /// What was not read so far, without the id.
    pub fn others(&self) -> Map<String, Value> {
        let used = self.used.borrow();
        let id = self.members.get("id");
        let mut others = Map::new();
        for (at, (name, value)) in self.all.iter().enumerate() {
            let empty = value.is_null() || value.as_str() == Some("");
            if !used.contains(&at) && id != Some(&at) && !empty && !others.contains_key(name.as_ref()) {
                others.insert(name.to_string(), value.as_ref().clone());
            }
        }
        others
    }
}

fn full(text: String) -> Option<String> {
    Some(bare(&text).to_owned()).filter(|text| !text.is_empty())
}

pub(in crate::answer) fn first_keyword(words: &str) -> Option<String> {
    let mut words = words.split([',', '，', '、', ';', '；']).map(bare);
    words.find(|word| !word.is_empty()).map(str::to_owned)
}

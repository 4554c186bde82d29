//! A walk through JSON.

use super::fields::{self, Fields};
use super::{Community, Entity, Extraction, Origin, Relation, json, reason};
use crate::answer::Format;
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// The lists of a reply, in the spelling of [`fields::key`].
const ENTITIES: [&str; 5] = ["entities", "nodes", "extractedentities", "namedentities", "vertices"];
const RELATIONS: [&str; 9] = [
    "relationships",
    "otherrelationships",
    "relations",
    "edges",
    "links",
    "triples",
    "triplets",
    "extractedtriples",
    "facts",
];
const CLAIMS: [&str; 2] = ["claims", "covariates"];
/// Those of ready data.
const PASSAGES: [&str; 3] = ["textunits", "chunks", "passages"];
const COMMUNITIES: [&str; 1] = ["communities"];
const REPORTS: [&str; 2] = ["communityreports", "reports"];

/// How deep lists may be wrapped.
const DEEPEST: usize = 4;

pub(in crate::answer) struct Walk {
    pub out: Extraction,
    /// The format of ready data; none in a reply of a model.
    format: Option<Format>,
    /// Relations, with whether their ends are ids.
    relations: Vec<(Relation, bool)>,
    /// Communities, with the ids of their entities.
    pub(super) communities: Vec<(Community, Vec<String>)>,
    /// The places of entities by their ids.
    ids: HashMap<String, usize>,
    /// How many nodes of a graph there were, which an id may count.
    nodes: usize,
    /// Where the records of the open object come from.
    origin: Origin,
    /// Whether a list of four strings is a triple and the key of its source.
    keyed: bool,
    /// Whether a list of records was seen, or that there are none.
    pub listed: bool,
}

impl Walk {
    pub fn new(format: Option<Format>) -> Self {
        Walk {
            out: Extraction::default(),
            format,
            relations: Vec::new(),
            communities: Vec::new(),
            ids: HashMap::new(),
            nodes: 0,
            origin: Origin::default(),
            keyed: format.is_some_and(|format| format != Format::Hipporag),
            listed: false,
        }
    }

    fn is_graph(&self) -> bool {
        matches!(self.format, Some(Format::Networkx | Format::Graphml))
    }

    pub fn top(&mut self, value: &Value) {
        match value {
            Value::Array(items)
                if (items.len() == 3 || self.keyed && items.len() == 4) && items.iter().all(Value::is_string) =>
            {
                self.triple(items);
            }
            _ => self.value(value, 0),
        }
    }

    fn value(&mut self, value: &Value, depth: usize) {
        match value {
            Value::Array(items) => {
                self.listed =
                    items.is_empty() || self.listed | items.iter().any(|item| item.is_object() || item.is_array());
                for item in items {
                    match item {
                        Value::Array(items) if items.iter().any(Value::is_object) && depth < DEEPEST => {
                            self.value(item, depth + 1);
                        }
                        Value::Array(items) => self.triple(items),
                        Value::Object(members) => self.object(members, depth),
                        _ => self.out.drop(reason::NOT_A_RECORD),
                    }
                }
            }
            Value::Object(members) => self.object(members, depth),
            _ => self.out.drop(reason::NOT_A_RECORD),
        }
    }

    fn object(&mut self, members: &Map<String, Value>, depth: usize) {
        let fields = Fields::new(members);
        if fields.is_claim() {
            return self.claim_record(&fields);
        }
        if fields.is_relation() {
            return self.relation_record(&fields);
        }
        let keys: HashSet<String> = members.keys().map(|name| list_of(name)).collect();
        let has = |names: &[&str]| names.iter().any(|name| keys.contains(*name));
        let ready = self.format.is_some() && has(&[&PASSAGES[..], &COMMUNITIES, &REPORTS].concat());
        if ready || has(&ENTITIES) || has(&RELATIONS) || has(&CLAIMS) {
            return self.lists(members, &fields, has(&["namedentities", "extractedentities"]));
        }
        let tables = matches!(
            self.format,
            Some(Format::Graphrag | Format::Lightrag | Format::Hipporag)
        );
        if tables && self.row(&fields) {
            return;
        }
        if fields.name().is_some() {
            return self.entity_record(&fields);
        }
        let nested = |value: &Value| match value {
            Value::Object(_) => true,
            Value::Array(items) => items.iter().any(|item| item.is_object() || item.is_array()),
            Value::String(text) => text.trim_start().starts_with(['{', '[']),
            _ => false,
        };
        let mut wrapped = members.values().filter(|value| nested(value)).peekable();
        if members.is_empty() {
            self.listed |= depth == 0;
        } else if depth == DEEPEST || wrapped.peek().is_none() {
            self.out.drop(reason::NOT_A_RECORD);
        } else {
            wrapped.for_each(|value| match value {
                Value::String(text) => match json::find(text) {
                    Some(found) if !found.open => self.value(&found.value, depth + 1),
                    _ => self.out.drop(reason::NOT_A_RECORD),
                },
                _ => self.value(value, depth + 1),
            });
        }
    }

    /// The lists of an object; if `named`, it is of HippoRAG, whose triples have no key.
    fn lists(&mut self, members: &Map<String, Value>, fields: &Fields, named: bool) {
        let mut origin = fields.origin();
        self.lose(fields);
        if self.format.is_some() && fields.has(&["passage"]) {
            origin.sources.extend(self.passage(fields));
        }
        let outer = (self.inherited(origin), self.keyed);
        let outer = (
            std::mem::replace(&mut self.origin, outer.0),
            std::mem::replace(&mut self.keyed, outer.1 && !named),
        );
        for (name, value) in members {
            let name = list_of(name);
            let name = name.as_str();
            if ENTITIES.contains(&name) {
                self.entities(value);
            } else if RELATIONS.contains(&name) {
                self.relations(value);
            } else if CLAIMS.contains(&name) {
                self.rows(value, Self::claim_record);
            } else if self.format.is_none() {
                continue;
            } else if PASSAGES.contains(&name) {
                self.rows(value, Self::passage_record);
            } else if COMMUNITIES.contains(&name) {
                self.rows(value, Self::community_record);
            } else if REPORTS.contains(&name) {
                self.rows(value, Self::report_record);
            }
        }
        (self.origin, self.keyed) = outer;
    }

    /// `origin`, and what the open object says of it.
    pub(super) fn inherited(&self, mut origin: Origin) -> Origin {
        origin.source_key = origin.source_key.or_else(|| self.origin.source_key.clone());
        origin.block_id = origin.block_id.or(self.origin.block_id);
        if origin.sources.is_empty() {
            origin.sources.clone_from(&self.origin.sources);
        }
        origin
    }

    pub(super) fn lose(&mut self, fields: &Fields) {
        fields.lost().into_iter().for_each(|reason| self.out.lose(reason));
    }

    fn entities(&mut self, value: &Value) {
        match value {
            Value::Array(items) => {
                self.listed = true;
                items.iter().for_each(|item| self.entity(item));
            }
            Value::Object(members) => {
                let fields = Fields::new(members);
                if fields.name().is_some() {
                    return self.entity_record(&fields);
                }
                for (name, value) in members {
                    let mut members = value.as_object().cloned().unwrap_or_default();
                    if let Some(kind) = value.as_str() {
                        members.insert("type".to_owned(), kind.into());
                    }
                    members.insert("name".to_owned(), name.as_str().into());
                    self.entity_record(&Fields::new(&members));
                }
            }
            Value::String(text) => match json::find(text) {
                Some(found) if found.value.is_array() => self.entities(&found.value),
                _ => self.out.drop(reason::NOT_A_RECORD),
            },
            Value::Null => {}
            _ => self.out.drop(reason::NOT_A_RECORD),
        }
    }

    fn entity(&mut self, item: &Value) {
        let origin = self.inherited(Origin::default());
        match item {
            Value::String(name) => {
                self.out.add_entity(Entity {
                    name: name.clone(),
                    origin,
                    ..Entity::default()
                });
            }
            Value::Array(parts) => {
                let part = |at: usize| parts.get(at).and_then(fields::text);
                self.out.add_entity(Entity {
                    name: part(0).unwrap_or_default(),
                    kind: part(1),
                    description: part(2),
                    origin,
                    ..Entity::default()
                });
            }
            Value::Object(members) => {
                let fields = Fields::new(members);
                match fields.is_relation() && fields.name().is_none() {
                    true => self.relation_record(&fields),
                    false => self.entity_record(&fields),
                }
            }
            _ => self.out.drop(reason::NOT_A_RECORD),
        }
    }

    pub(super) fn entity_record(&mut self, fields: &Fields) {
        let (name, kind) = match self.format {
            Some(Format::Networkx | Format::Graphml) => fields.node(),
            Some(Format::Graphrag | Format::Lightrag) => (fields.title(), fields.kind()),
            _ => (fields.name(), fields.kind()),
        };
        let entity = Entity {
            name: name.unwrap_or_default(),
            kind,
            description: self.joined(fields.description()),
            quote: fields.quote(),
            origin: self.inherited(fields.origin()),
            properties: fields.others(),
        };
        self.lose(fields);
        let count = self.nodes;
        self.nodes += 1;
        let id = fields.id().or_else(|| self.is_graph().then(|| count.to_string()));
        let place = self.out.entities.len();
        if self.out.add_entity(entity)
            && let Some(id) = id
        {
            self.ids.entry(id).or_insert(place);
        }
    }

    /// The parts of a description of ready data, which LightRAG joins by a mark, in lines.
    fn joined(&self, description: Option<String>) -> Option<String> {
        match self.format {
            Some(_) => description.map(|text| text.replace("<SEP>", "\n")),
            None => description,
        }
    }

    fn relations(&mut self, value: &Value) {
        match value {
            Value::Array(items) => {
                self.listed = true;
                for item in items {
                    match item {
                        Value::Array(parts) => self.triple(parts),
                        Value::Object(members) => self.relation_record(&Fields::new(members)),
                        _ => self.out.drop(reason::NOT_A_TRIPLE),
                    }
                }
            }
            Value::Object(members) => self.relation_record(&Fields::new(members)),
            Value::String(text) => match json::find(text) {
                Some(found) if found.value.is_array() => self.relations(&found.value),
                _ => self.out.drop(reason::NOT_A_TRIPLE),
            },
            Value::Null => {}
            _ => self.out.drop(reason::NOT_A_TRIPLE),
        }
    }

    fn triple(&mut self, parts: &[Value]) {
        let (subject, predicate, object, source) = match parts {
            [subject, predicate, object] => (subject, predicate, object, &Value::Null),
            [subject, predicate, object, source] if self.keyed && !source.is_array() && !source.is_object() => {
                (subject, predicate, object, source)
            }
            _ => return self.out.drop(reason::NOT_A_TRIPLE),
        };
        let mut source_key = fields::text(source);
        if source_key.as_ref().is_some_and(|key| key.len() > super::LONGEST_NAME) {
            source_key = None;
            self.out.lose(reason::TOO_LONG);
        }
        let origin = Origin {
            source_key,
            ..Origin::default()
        };
        let relation = Relation {
            subject: fields::text(subject).unwrap_or_default(),
            predicate: fields::text(predicate),
            object: fields::text(object).unwrap_or_default(),
            origin: self.inherited(origin),
            ..Relation::default()
        };
        self.relations.push((relation, false));
    }

    /// Reads the fields of a line, which are of a relation or of an entity.
    pub fn line(&mut self, members: &Map<String, Value>, relation: bool) {
        let fields = Fields::new(members);
        match relation {
            true => self.relation_record(&fields),
            false => self.entity_record(&fields),
        }
    }

    pub(super) fn relation_record(&mut self, fields: &Fields) {
        let (subject, object, by_id) = fields.ends();
        let (strength, weight) = match self.format {
            None | Some(Format::Json) => (fields.strength(), None),
            Some(_) => (None, fields.strength()),
        };
        let relation = Relation {
            subject: subject.unwrap_or_default(),
            predicate: fields.predicate(),
            object: object.unwrap_or_default(),
            description: self.joined(fields.description()),
            quote: fields.quote(),
            strength,
            weight,
            origin: self.inherited(fields.origin()),
            properties: fields.others(),
        };
        self.lose(fields);
        self.relations.push((relation, by_id));
    }

    /// What was read, unless it is nothing and the reply does not say so. If the reply is `open`, only lists count.
    pub fn finish(mut self, open: bool) -> Option<Extraction> {
        let graph = self.is_graph();
        let named: HashSet<&str> = self.out.entities.iter().map(|entity| entity.name.as_str()).collect();
        let entities = &self.out.entities;
        let name = |end: &str, by_id: bool| match self.ids.get(end) {
            Some(&at) if by_id || !named.contains(end) => Some(entities[at].name.clone()),
            _ => None,
        };
        let mut known = Vec::with_capacity(self.relations.len());
        for (relation, by_id) in &mut self.relations {
            let mut sound = true;
            for end in [&mut relation.subject, &mut relation.object] {
                match name(end, *by_id || graph) {
                    Some(name) => *end = name,
                    None => sound &= end.is_empty() || !(*by_id || graph && fields::is_code(end)),
                }
            }
            known.push(sound);
        }
        for claim in &mut self.out.claims {
            for end in std::iter::once(&mut claim.subject).chain(&mut claim.object) {
                if let Some(name) = name(end, false) {
                    *end = name;
                }
            }
        }
        for (sound, (relation, _)) in known.into_iter().zip(self.relations) {
            match sound {
                true => self.out.add_relation(relation),
                false => self.out.drop(reason::UNKNOWN_ID),
            }
        }
        for (mut community, members) in self.communities {
            for id in members {
                match self.ids.get(&id) {
                    Some(&at) => community.entities.push(at),
                    None => self.out.lose(reason::UNKNOWN_ID),
                }
            }
            self.out.communities.push(community);
        }
        self.out.format = self.format.unwrap_or(Format::Json);
        let sound = match self.out.is_empty() {
            true => self.listed && !open,
            false => self.listed || !open,
        };
        sound.then_some(self.out)
    }
}

/// The name of a list, as the tables of GraphRAG were once called too.
fn list_of(name: &str) -> String {
    let name = fields::key(name);
    let short = name.strip_prefix("create").unwrap_or(&name);
    short.strip_prefix("final").unwrap_or(short).to_owned()
}

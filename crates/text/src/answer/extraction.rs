mod fields;

use super::{Repairs, Unreadable, bare, cleaned, json, tags, tuple};
use fields::Fields;
pub(super) use fields::{first_keyword, key, text as text_of};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap, HashSet};

/// An entity as the model named it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entity {
    pub name: String,
    pub kind: Option<String>,
    pub description: Option<String>,
}

/// A relation; its ends need not be among the entities.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Relation {
    pub subject: String,
    pub predicate: Option<String>,
    pub object: String,
    pub description: Option<String>,
    /// The words of the text that say it.
    pub quote: Option<String>,
    pub strength: Option<f64>,
}

/// What a model extracted, in the order of its reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extraction {
    pub entities: Vec<Entity>,
    pub relations: Vec<Relation>,
    /// How many records were dropped, by the reason.
    pub dropped: BTreeMap<&'static str, usize>,
    pub repairs: Repairs,
}

impl Extraction {
    pub(super) fn is_empty(&self) -> bool {
        self.entities.is_empty() && self.relations.is_empty()
    }

    pub(super) fn drop(&mut self, reason: &'static str) {
        *self.dropped.entry(reason).or_default() += 1;
    }

    pub(super) fn add_entity(&mut self, entity: Entity) {
        let name = bare(&entity.name).to_owned();
        match name.is_empty() {
            true => self.drop("no name"),
            false => self.entities.push(Entity { name, ..entity }),
        }
    }

    pub(super) fn add_relation(&mut self, relation: Relation) {
        let subject = bare(&relation.subject).to_owned();
        let object = bare(&relation.object).to_owned();
        match subject.is_empty() || object.is_empty() {
            true => self.drop("no name"),
            false => self.relations.push(Relation {
                subject,
                object,
                ..relation
            }),
        }
    }
}

/// The lists of a reply, in the spelling of [`fields::key`].
const ENTITIES: [&str; 5] = ["entities", "nodes", "extractedentities", "namedentities", "vertices"];
const RELATIONS: [&str; 7] = [
    "relationships",
    "otherrelationships",
    "relations",
    "edges",
    "triples",
    "triplets",
    "facts",
];

/// How deep lists may be wrapped.
const DEEPEST: usize = 4;

/// The entities and relations of a reply.
///
/// Read are the tuples of GraphRAG and LightRAG; JSON of lists of entities (nodes) and relations (edges, triples), of
/// records or bare triples, under the names of fields that GraphRAG, LightRAG, fast-graphrag, Neo4j, HippoRAG and graphiti
/// use; and the XML of R2R. Errs if there is no record, unless the reply is sound and says that there is none.
pub fn extraction(reply: &str) -> Result<Extraction, Unreadable> {
    let (text, repairs) = cleaned(reply)?;
    let tuples = || tuple::read(&text);
    let data = || json::find(&text).and_then(|found| from_json(&found, Repairs::default()));
    let start = text.trim_start().trim_start_matches('`').trim_start();
    let is_data = start
        .strip_prefix("json")
        .unwrap_or(start)
        .trim_start()
        .starts_with(['{', '[']);
    let read = match is_data {
        true => data().or_else(tuples).or_else(|| from_tags(&text)),
        false => tuples().or_else(|| from_tags(&text)).or_else(data),
    };
    let mut read = read.ok_or(Unreadable::NoRecords)?;
    read.repairs.reasoning = repairs.reasoning;
    Ok(read)
}

/// The entities and relations of JSON that is parsed already.
pub fn extraction_value(value: &Value) -> Result<Extraction, Unreadable> {
    if let Value::String(text) = value {
        return extraction(text);
    }
    let mut walk = Walk::default();
    walk.top(value);
    walk.finish(false).ok_or(Unreadable::NoRecords)
}

fn from_json(found: &json::Found, repairs: Repairs) -> Option<Extraction> {
    let mut walk = Walk::default();
    walk.top(&found.value);
    let mut read = walk.finish(found.open)?;
    read.repairs = found.repairs(repairs);
    Some(read)
}

fn from_tags(text: &str) -> Option<Extraction> {
    let (records, _) = tags::records(text, &["entity", "relationship", "relation"]);
    let mut walk = Walk::default();
    for mut record in records {
        if !record.whole {
            walk.out.drop("cut");
            walk.out.repairs.broken = true;
            continue;
        }
        let own = record.fields.shift_remove("");
        let is_entity = record.name == "entity";
        if let Some(own) = own.filter(|_| is_entity && !record.fields.contains_key("name")) {
            record.fields.insert("name".to_owned(), own);
        }
        let fields = Fields::new(&record.fields);
        match is_entity {
            true => walk.entity_record(&fields),
            false => walk.relation_record(&fields),
        }
    }
    let mut read = walk.finish(false)?;
    read.repairs.fence = !text.trim_start().starts_with('<');
    (!read.is_empty()).then_some(read)
}

/// A walk through JSON.
#[derive(Default)]
struct Walk {
    out: Extraction,
    /// Relations, with whether their ends are ids.
    relations: Vec<(Relation, bool)>,
    /// The names of entities by their ids.
    ids: HashMap<String, String>,
    /// Whether a list of records was seen, or that there are none.
    listed: bool,
}

impl Walk {
    fn top(&mut self, value: &Value) {
        match value {
            Value::Array(items) if items.len() == 3 && items.iter().all(Value::is_string) => self.triple(items),
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
                        _ => self.out.drop("not a record"),
                    }
                }
            }
            Value::Object(members) => self.object(members, depth),
            _ => self.out.drop("not a record"),
        }
    }

    fn object(&mut self, members: &Map<String, Value>, depth: usize) {
        let fields = Fields::new(members);
        if fields.is_relation() {
            return self.relation_record(&fields);
        }
        let mut lists = false;
        for (key, value) in members {
            let key = fields::key(key);
            if ENTITIES.contains(&key.as_str()) {
                self.entities(value);
            } else if RELATIONS.contains(&key.as_str()) {
                self.relations(value);
            } else {
                continue;
            }
            lists = true;
        }
        if lists {
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
            self.out.drop("not a record");
        } else {
            wrapped.for_each(|value| match value {
                Value::String(text) => match json::find(text) {
                    Some(found) if !found.open => self.value(&found.value, depth + 1),
                    _ => self.out.drop("not a record"),
                },
                _ => self.value(value, depth + 1),
            });
        }
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
                _ => self.out.drop("not a record"),
            },
            Value::Null => {}
            _ => self.out.drop("not a record"),
        }
    }

    fn entity(&mut self, item: &Value) {
        match item {
            Value::String(name) => self.out.add_entity(Entity {
                name: name.clone(),
                ..Entity::default()
            }),
            Value::Array(parts) => {
                let part = |at: usize| parts.get(at).and_then(fields::text);
                self.out.add_entity(Entity {
                    name: part(0).unwrap_or_default(),
                    kind: part(1),
                    description: part(2),
                });
            }
            Value::Object(members) => {
                let fields = Fields::new(members);
                match fields.is_relation() && fields.name().is_none() {
                    true => self.relation_record(&fields),
                    false => self.entity_record(&fields),
                }
            }
            _ => self.out.drop("not a record"),
        }
    }

    fn entity_record(&mut self, fields: &Fields) {
        let entity = Entity {
            name: fields.name().unwrap_or_default(),
            kind: fields.kind(),
            description: fields.description(),
        };
        if let Some(id) = fields.id() {
            self.ids.entry(id).or_insert_with(|| bare(&entity.name).to_owned());
        }
        self.out.add_entity(entity);
    }

    fn relations(&mut self, value: &Value) {
        match value {
            Value::Array(items) => {
                self.listed = true;
                for item in items {
                    match item {
                        Value::Array(parts) => self.triple(parts),
                        Value::Object(members) => self.relation_record(&Fields::new(members)),
                        _ => self.out.drop("not a triple"),
                    }
                }
            }
            Value::Object(members) => self.relation_record(&Fields::new(members)),
            Value::String(text) => match json::find(text) {
                Some(found) if found.value.is_array() => self.relations(&found.value),
                _ => self.out.drop("not a triple"),
            },
            Value::Null => {}
            _ => self.out.drop("not a triple"),
        }
    }

    fn triple(&mut self, parts: &[Value]) {
        let [subject, predicate, object] = parts else {
            return self.out.drop("not a triple");
        };
        let relation = Relation {
            subject: fields::text(subject).unwrap_or_default(),
            predicate: fields::text(predicate),
            object: fields::text(object).unwrap_or_default(),
            ..Relation::default()
        };
        self.relations.push((relation, false));
    }

    fn relation_record(&mut self, fields: &Fields) {
        let (subject, object, by_id) = fields.ends();
        let relation = Relation {
            subject: subject.unwrap_or_default(),
            predicate: fields.predicate(),
            object: object.unwrap_or_default(),
            description: fields.description(),
            quote: fields.quote(),
            strength: fields.strength(),
        };
        self.relations.push((relation, by_id));
    }

    /// What was read, unless it is nothing and the reply does not say so. If the reply is `open`, only lists count.
    fn finish(mut self, open: bool) -> Option<Extraction> {
        let names: HashSet<String> = self.out.entities.iter().map(|entity| entity.name.clone()).collect();
        for (mut relation, by_id) in std::mem::take(&mut self.relations) {
            let mut known = true;
            for end in [&mut relation.subject, &mut relation.object] {
                match self.ids.get(end.as_str()) {
                    Some(name) if by_id || !names.contains(end.as_str()) => name.clone_into(end),
                    _ => known &= !by_id || end.is_empty(),
                }
            }
            match known {
                true => self.out.add_relation(relation),
                false => self.out.drop("unknown id"),
            }
        }
        let sound = match self.out.is_empty() {
            true => self.listed && !open,
            false => self.listed || !open,
        };
        sound.then_some(self.out)
    }
}

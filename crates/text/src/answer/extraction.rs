mod claims;
mod fields;
mod rows;
mod walk;

use super::{Format, Repairs, Report, Unreadable, bare, cleaned, json, reason, tags, tuple};
pub(super) use claims::has_status;
use fields::Fields;
pub(super) use fields::{first_keyword, key, text as text_of, texts as texts_of};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
pub(super) use walk::Walk;

/// The longest name or key that is kept, in bytes. What refers to it by a short id gets a copy.
const LONGEST_NAME: usize = 2000;

/// Where a record comes from, as far as it says so.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origin {
    /// The key of a row of the source.
    pub source_key: Option<String>,
    pub block_id: Option<i64>,
    /// The keys of passages: text units, chunks, documents.
    pub sources: Vec<String>,
}

/// An entity as the model named it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entity {
    pub name: String,
    pub kind: Option<String>,
    pub description: Option<String>,
    /// The words of the text that name it.
    pub quote: Option<String>,
    pub origin: Origin,
    /// Its further fields.
    pub properties: Map<String, Value>,
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
    /// How strong the model took it to be.
    pub strength: Option<f64>,
    /// The weight of an edge of a ready graph, which may be a sum over many passages.
    pub weight: Option<f64>,
    pub origin: Origin,
    /// Its further fields.
    pub properties: Map<String, Value>,
}

/// A claim about an entity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claim {
    pub subject: String,
    pub object: Option<String>,
    pub kind: Option<String>,
    /// `TRUE`, `FALSE` or `SUSPECTED`.
    pub status: Option<String>,
    /// A date of ISO 8601, as it was given: a year, a month, a day or a time.
    pub start: Option<String>,
    pub end: Option<String>,
    pub description: Option<String>,
    /// The words of the text that say it.
    pub quotes: Vec<String>,
    pub origin: Origin,
}

/// A text unit, a chunk or a document that ready data brings along; [`Origin::sources`] may refer to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Passage {
    pub key: String,
    pub text: String,
}

/// A community of ready data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Community {
    pub id: String,
    pub level: Option<i64>,
    pub parent: Option<String>,
    pub title: Option<String>,
    /// Places in [`Extraction::entities`].
    pub entities: Vec<usize>,
    pub sources: Vec<String>,
}

/// The report of ready data on the community of this id.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommunityReport {
    pub community: String,
    pub level: Option<i64>,
    pub report: Report,
    /// All of it as one text.
    pub text: Option<String>,
}

/// What a model extracted or ready data holds, in the order of the payload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extraction {
    pub entities: Vec<Entity>,
    pub relations: Vec<Relation>,
    pub claims: Vec<Claim>,
    pub passages: Vec<Passage>,
    pub communities: Vec<Community>,
    pub reports: Vec<CommunityReport>,
    /// How many records were dropped, by one of [`reason::REASONS`].
    pub dropped: BTreeMap<&'static str, usize>,
    /// How many values of kept records were left out, by one of them.
    pub lost: BTreeMap<&'static str, usize>,
    pub repairs: Repairs,
    /// The format that was read.
    pub format: Format,
}

impl Extraction {
    /// How many records were kept.
    pub fn kept(&self) -> usize {
        self.entities.len()
            + self.relations.len()
            + self.claims.len()
            + self.passages.len()
            + self.communities.len()
            + self.reports.len()
    }

    /// Adds the records of a further answer to the same text, and counts what it dropped.
    pub fn extend(&mut self, more: Extraction) {
        self.entities.extend(more.entities);
        self.relations.extend(more.relations);
        self.claims.extend(more.claims);
        for (sum, counts) in [(&mut self.dropped, more.dropped), (&mut self.lost, more.lost)] {
            for (reason, count) in counts {
                *sum.entry(reason).or_default() += count;
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept() == 0
    }

    pub(super) fn drop(&mut self, reason: &'static str) {
        *self.dropped.entry(reason).or_default() += 1;
    }

    pub(super) fn lose(&mut self, reason: &'static str) {
        *self.lost.entry(reason).or_default() += 1;
    }

    /// The bare `names`, unless one of them is none, for which a record is dropped.
    fn names<const N: usize>(&mut self, names: [&str; N]) -> Option<[String; N]> {
        let names = names.map(bare);
        if names.iter().any(|name| name.is_empty()) {
            self.drop(reason::NO_NAME);
            return None;
        }
        if names.iter().any(|name| name.len() > LONGEST_NAME) {
            self.drop(reason::TOO_LONG);
            return None;
        }
        Some(names.map(str::to_owned))
    }

    /// Whether it was added.
    pub(super) fn add_entity(&mut self, entity: Entity) -> bool {
        let Some([name]) = self.names([&entity.name]) else {
            return false;
        };
        self.entities.push(Entity { name, ..entity });
        true
    }

    pub(super) fn add_relation(&mut self, relation: Relation) {
        if let Some([subject, object]) = self.names([&relation.subject, &relation.object]) {
            self.relations.push(Relation {
                subject,
                object,
                ..relation
            });
        }
    }
}

/// The entities, relations and claims of a reply.
///
/// Read are the tuples of GraphRAG and LightRAG; JSON of lists of entities (nodes), relations (edges, triples) and claims,
/// of records or bare triples, under the names of fields that GraphRAG, LightRAG, fast-graphrag, Neo4j, HippoRAG and
/// graphiti use; and the XML of R2R. Errs if there is no record, unless the reply is sound and says that there is none.
pub fn extraction(reply: &str) -> Result<Extraction, Unreadable> {
    let (text, repairs) = cleaned(reply)?;
    let tuples = || tuple::read(&text);
    let data = || json::find(&text).and_then(|found| from_json(&found, None));
    let read = match is_data(&text) {
        true => data().or_else(tuples).or_else(|| from_tags(&text)),
        false => tuples().or_else(|| from_tags(&text)).or_else(data),
    };
    let mut read = read.ok_or(Unreadable::NoRecords)?;
    read.repairs.reasoning = repairs.reasoning;
    Ok(read)
}

/// The entities, relations and claims of JSON that is parsed already.
pub fn extraction_value(value: &Value) -> Result<Extraction, Unreadable> {
    if let Value::String(text) = value {
        return extraction(text);
    }
    from_value(value, None)
}

pub(super) fn from_value(value: &Value, format: Option<Format>) -> Result<Extraction, Unreadable> {
    let mut walk = Walk::new(format);
    walk.top(value);
    walk.finish(false).ok_or(Unreadable::NoRecords)
}

/// Whether `text` starts as JSON does.
pub(super) fn is_data(text: &str) -> bool {
    let start = text.trim_start().trim_start_matches('`').trim_start();
    let start = start.strip_prefix("json").unwrap_or(start);
    start.trim_start().starts_with(['{', '['])
}

/// What JSON holds: of ready data if it has a format, else of a model.
pub(super) fn from_json(found: &json::Found, format: Option<Format>) -> Option<Extraction> {
    let mut walk = Walk::new(format);
    walk.top(&found.value);
    let mut read = walk.finish(found.open)?;
    read.repairs = found.repairs(Repairs::default());
    Some(read)
}

pub(super) fn from_tags(text: &str) -> Option<Extraction> {
    let (records, _) = tags::records(text, &["entity", "relationship", "relation"]);
    let mut walk = Walk::new(None);
    for mut record in records {
        if !record.whole {
            walk.out.drop(reason::CUT);
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
    read.format = Format::Xml;
    read.repairs.fence = !text.trim_start().starts_with('<');
    (!read.is_empty()).then_some(read)
}

//! What was found in blocks, as rows: by the built-in extractor or by a model.

use std::collections::BTreeMap;

use graphrag_text::{fold, phrases};

use super::claim::Claims;

/// Names longer than this are no names.
pub const MAX_KEY_BYTES: usize = 2000;

/// What a relation is called that has no name.
pub const UNNAMED: &str = "related_to";

/// A block as extraction reads it.
pub struct Block {
    pub id: i64,
    pub document: i64,
    pub start: i32,
    pub text: String,
    /// The rows of `change` that want it read.
    pub changes: Vec<i64>,
}

#[derive(Default)]
pub struct Mentions {
    pub key: Vec<String>,
    pub name: Vec<String>,
    pub kind: Vec<Option<String>>,
    pub description: Vec<Option<String>>,
    pub block: Vec<Option<i64>>,
    pub document: Vec<i64>,
    pub start: Vec<Option<i32>>,
    pub end: Vec<Option<i32>>,
}

#[derive(Default)]
pub struct Evidence {
    pub subject_key: Vec<String>,
    pub subject: Vec<String>,
    pub predicate_key: Vec<String>,
    pub predicate: Vec<String>,
    pub object_key: Vec<String>,
    pub object: Vec<String>,
    pub block: Vec<Option<i64>>,
    pub document: Vec<i64>,
    pub quote: Vec<Option<String>>,
    pub start: Vec<Option<i32>>,
    pub end: Vec<Option<i32>>,
    pub description: Vec<Option<String>>,
    pub strength: Vec<Option<f64>>,
    /// JSON objects as texts.
    pub properties: Vec<Option<String>>,
}

/// The rows of some blocks.
#[derive(Default)]
pub struct Found {
    pub mentions: Mentions,
    pub evidence: Evidence,
    pub claims: Claims,
    /// Folded name to the name as first written; sorted, so that two sessions take the rows in the same order.
    pub names: BTreeMap<String, String>,
    /// How many records were dropped or flagged, by reason.
    pub reasons: BTreeMap<&'static str, i64>,
}

/// A quote does not stand in the text: another place is taken.
pub const NO_QUOTE: &str = "quote not found";
/// A name does not stand in the text.
pub const NO_PLACE: &str = "name not found";

/// Where something is said: a block, or only its document is known.
#[derive(Clone, Copy)]
pub struct Spot {
    pub block: Option<i64>,
    pub document: i64,
    /// Where the block starts in its document, in characters.
    pub start: i32,
}

impl Spot {
    pub fn of(block: &Block) -> Spot {
        Spot {
            block: Some(block.id),
            document: block.document,
            start: block.start,
        }
    }
}

/// One name in a block; its place is in characters of it.
pub struct Mention {
    pub name: String,
    pub kind: Option<String>,
    pub description: Option<String>,
    pub place: Option<(i32, i32)>,
}

/// One relation in a block.
pub struct Stated {
    pub subject: String,
    pub predicate: String,
    pub object: String,
    pub description: Option<String>,
    pub strength: Option<f64>,
    pub quote: Option<(String, i32, i32)>,
}

pub fn usable(key: &str) -> bool {
    !key.is_empty() && key.len() <= MAX_KEY_BYTES
}

impl Found {
    /// Adds what the built-in extractor has found. Each block of a document mentions its title, `own`, in the text or not.
    pub fn add_built_in(&mut self, block: &Block, found: phrases::Extraction, own: Option<&phrases::Form>) {
        if let Some(own) = own.filter(|own| found.mentions.iter().all(|m| fold::name(&m.name) != own.key)) {
            self.mention(
                block,
                Mention {
                    name: own.name.clone(),
                    kind: Some(own.kind.to_owned()),
                    description: None,
                    place: None,
                },
            );
        }
        for mention in found.mentions {
            let place = Some((mention.start_char as i32, mention.end_char as i32));
            let kind = Some(mention.kind.to_owned());
            self.mention(
                block,
                Mention {
                    name: mention.name,
                    kind,
                    description: None,
                    place,
                },
            );
        }
        for relation in found.relations {
            let quote = (
                block.text[relation.quote].to_owned(),
                relation.start_char as i32,
                relation.end_char as i32,
            );
            self.relation(
                block,
                Stated {
                    subject: relation.subject,
                    predicate: relation.predicate,
                    object: relation.object,
                    description: None,
                    strength: None,
                    quote: Some(quote),
                },
            );
        }
    }

    pub fn count(&mut self, reason: &'static str) {
        *self.reasons.entry(reason).or_default() += 1;
    }

    pub fn mention(&mut self, block: &Block, mention: Mention) {
        self.mention_at(Spot::of(block), mention);
    }

    pub fn relation(&mut self, block: &Block, stated: Stated) {
        self.relation_at(Spot::of(block), stated, None);
    }

    /// Adds a mention, unless its name is none.
    pub fn mention_at(&mut self, spot: Spot, mention: Mention) {
        let key = fold::name(&mention.name);
        if !usable(&key) {
            return;
        }
        self.names.entry(key.clone()).or_insert_with(|| mention.name.clone());
        let rows = &mut self.mentions;
        rows.key.push(key);
        rows.name.push(mention.name);
        rows.kind.push(mention.kind);
        rows.description.push(mention.description);
        rows.block.push(spot.block);
        rows.document.push(spot.document);
        rows.start.push(mention.place.map(|(start, _)| spot.start + start));
        rows.end.push(mention.place.map(|(_, end)| spot.start + end));
    }

    /// Adds a relation between two names that are mentioned, with `properties`, a JSON object.
    pub fn relation_at(&mut self, spot: Spot, stated: Stated, properties: Option<String>) {
        let (subject, object) = (fold::name(&stated.subject), fold::name(&stated.object));
        let predicate = fold::predicate(&stated.predicate);
        if !usable(&predicate) || !self.names.contains_key(&subject) || !self.names.contains_key(&object) {
            return;
        }
        let rows = &mut self.evidence;
        rows.subject_key.push(subject);
        rows.subject.push(stated.subject);
        rows.predicate_key.push(predicate);
        rows.predicate.push(stated.predicate);
        rows.object_key.push(object);
        rows.object.push(stated.object);
        rows.block.push(spot.block);
        rows.document.push(spot.document);
        rows.properties.push(properties);
        rows.description.push(stated.description);
        rows.strength
            .push(stated.strength.filter(|strength| strength.is_finite()));
        let (quote, place) = match stated.quote {
            Some((quote, start, end)) => (Some(quote), Some((start, end))),
            None => (None, None),
        };
        rows.quote.push(quote);
        rows.start.push(place.map(|(start, _)| spot.start + start));
        rows.end.push(place.map(|(_, end)| spot.start + end));
    }
}

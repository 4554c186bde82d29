//! What documents say, with its place there.

use std::collections::{HashMap, HashSet};

use graphrag_text::answer::{Claim, Entity, Extraction, Relation};
use graphrag_text::{fold, place};

use super::{Import, Record, json_object, predicate};
use crate::error::Result;
use crate::graph::found::{Found, Mention, NO_PLACE, NO_QUOTE, Spot, Stated};
use crate::graph::merge::Touched;
use crate::graph::write::write;
use crate::pg::tick;

/// Documents whose blocks are in memory at once.
const BATCH: usize = 200;

impl Import<'_> {
    /// Writes what documents say, with its place there.
    pub fn in_documents(&mut self, read: &Extraction, touched: &mut Touched) -> Result<()> {
        let said: Vec<(i64, Vec<(Record, Option<i64>)>)> = std::mem::take(&mut self.said).into_iter().collect();
        for batch in said.chunks(BATCH) {
            let ids: Vec<i64> = batch.iter().map(|(document, _)| *document).collect();
            let mut texts: HashMap<i64, Vec<Text>> = HashMap::new();
            let sql = "SELECT id, document_id, start_char, text FROM {s}.block WHERE document_id = ANY ($1) ORDER BY document_id, ordinal";
            self.collection.stream(sql, &[ids.into()], |row| {
                let text: String = row.need(4)?;
                texts.entry(row.need(2)?).or_default().push(Text {
                    spot: Spot {
                        block: Some(row.need(1)?),
                        document: row.need(2)?,
                        start: row.need(3)?,
                    },
                    sentences: place::Sentences::new(&text, &mut tick),
                    folded: fold::name(&text),
                    text,
                });
                Ok(())
            })?;
            let mut found = Said::default();
            for (document, records) in batch {
                let texts = texts.remove(document).unwrap_or_default();
                for &(record, block) in records {
                    let within: Vec<&Text> = texts
                        .iter()
                        .filter(|text| block.is_none() || text.spot.block == block)
                        .collect();
                    match record {
                        Record::Entity(at) => self.entity(&mut found, &within, *document, &read.entities[at]),
                        Record::Relation(at) => self.relation(&mut found, &within, *document, &read.relations[at]),
                        Record::Claim(at) => self.claim(&mut found, &within, *document, &read.claims[at]),
                    }
                    tick();
                }
            }
            write(self.collection, found.found, true, touched)?;
        }
        Ok(())
    }

    fn entity(&mut self, found: &mut Said, texts: &[&Text], document: i64, entity: &Entity) {
        let at = texts
            .iter()
            .find_map(|text| Some((text, place::name(&text.text, &entity.name)?)));
        if at.is_none() {
            self.count(NO_PLACE);
        }
        let spot = at
            .as_ref()
            .map_or_else(|| first(texts, document), |(text, _)| text.spot);
        let place = at.map(|(text, range)| {
            let (_, start, end) = place::trimmed(&text.text, range);
            (start, end)
        });
        found.mention(
            spot,
            Mention {
                name: entity.name.clone(),
                kind: entity.kind.clone(),
                description: entity.description.clone(),
                place,
            },
        );
    }

    fn relation(&mut self, found: &mut Said, texts: &[&Text], document: i64, relation: &Relation) {
        let keys = [fold::name(&relation.subject), fold::name(&relation.object)];
        let names = [keys[0].as_str(), keys[1].as_str()];
        let by_quote = relation.quote.as_deref().and_then(|quote| {
            texts
                .iter()
                .find_map(|text| Some((*text, place::quote(&text.text, quote)?)))
        });
        if relation.quote.is_some() && by_quote.is_none() {
            self.count(NO_QUOTE);
        }
        let by_sentence = || {
            texts
                .iter()
                .find_map(|text| Some((*text, text.sentences.with(&names, &mut tick)?)))
        };
        let at = by_quote.or_else(by_sentence);
        let holds =
            |text: &&&Text, count: usize| names.iter().filter(|name| text.folded.contains(*name)).count() >= count;
        let held = || {
            let both = texts.iter().find(|text| holds(text, 2));
            both.or_else(|| texts.iter().find(|text| holds(text, 1)))
        };
        let spot = match &at {
            Some((text, _)) => text.spot,
            None => held().map_or_else(|| first(texts, document), |text| text.spot),
        };
        if !names
            .iter()
            .all(|name| texts.iter().any(|text| text.folded.contains(name)))
        {
            self.count(NO_PLACE);
        }
        for name in [&relation.subject, &relation.object] {
            let text = texts.iter().find(|text| text.spot.block == spot.block);
            let place = text.and_then(|text| {
                let (_, start, end) = place::trimmed(&text.text, place::name(&text.text, name)?);
                Some((start, end))
            });
            found.mention(
                spot,
                Mention {
                    name: name.clone(),
                    kind: None,
                    description: None,
                    place,
                },
            );
        }
        let mut more = relation.properties.clone();
        if let Some(weight) = relation.weight {
            more.insert("weight".into(), weight.into());
        }
        let properties = (!more.is_empty()).then(|| json_object(more));
        let (shown, key) = predicate(relation);
        let quote = at.map(|(text, range)| place::trimmed(&text.text, range));
        let same = (
            keys,
            key,
            spot.block,
            quote.as_ref().map(|quote| quote.1),
            relation.description.clone(),
            spot.document,
        );
        if found.stated.insert(same) {
            found.found.relation_at(
                spot,
                Stated {
                    subject: relation.subject.clone(),
                    predicate: shown,
                    object: relation.object.clone(),
                    description: relation.description.clone(),
                    strength: relation.strength,
                    quote,
                },
                properties,
            );
        }
    }

    fn claim(&mut self, found: &mut Said, texts: &[&Text], document: i64, claim: &Claim) {
        let at = claim.quotes.iter().find_map(|quote| {
            texts
                .iter()
                .find_map(|text| Some((*text, place::quote(&text.text, quote)?)))
        });
        if at.is_none() && !claim.quotes.is_empty() {
            self.count(NO_QUOTE);
        }
        let spot = at
            .as_ref()
            .map_or_else(|| first(texts, document), |(text, _)| text.spot);
        let quote = at.map(|(text, range)| place::trimmed(&text.text, range));
        found.found.claims.add(spot, claim.clone(), quote);
    }
}

/// A block, read once for all that is said of it.
struct Text {
    spot: Spot,
    text: String,
    folded: String,
    sentences: place::Sentences,
}

/// What the documents of a batch say, each thing once.
#[derive(Default)]
struct Said {
    found: Found,
    mentioned: HashSet<(String, Option<i64>, i64, Option<String>, Option<String>)>,
    stated: HashSet<([String; 2], String, Option<i64>, Option<i32>, Option<String>, i64)>,
}

impl Said {
    fn mention(&mut self, spot: Spot, mention: Mention) {
        let key = fold::name(&mention.name);
        if self.mentioned.insert((
            key,
            spot.block,
            spot.document,
            mention.kind.clone(),
            mention.description.clone(),
        )) {
            self.found.mention_at(spot, mention);
        }
    }
}

/// The first block of a document, if it has one.
fn first(texts: &[&Text], document: i64) -> Spot {
    texts.first().map_or(
        Spot {
            block: None,
            document,
            start: 0,
        },
        |text| text.spot,
    )
}

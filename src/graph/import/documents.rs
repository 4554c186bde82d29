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
                        Record::Claim(at) => self.claim(&within, *document, &read.claims[at])?,
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

    fn claim(&mut self, texts: &[&Text], document: i64, claim: &Claim) -> Result<()> {
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
        let quote = at.map(|(text, range)| text.text[range].trim().to_owned());
        let sql = "INSERT INTO {s}.claim (subject_key, object_key, type, status, description, valid_from, valid_to, block_id, document_id, quote) \
                   SELECT $1, $2, $3, $4, $5, $6::timestamptz, $7::timestamptz, $8, $9, $10 \
                   WHERE NOT EXISTS (SELECT FROM {s}.claim c WHERE c.document_id = $9 AND c.subject_key = $1 \
                     AND c.object_key IS NOT DISTINCT FROM $2 AND c.type IS NOT DISTINCT FROM $3 AND c.description IS NOT DISTINCT FROM $5 \
                     AND c.block_id IS NOT DISTINCT FROM $8 AND c.status IS NOT DISTINCT FROM $4 AND c.quote IS NOT DISTINCT FROM $10 \
                     AND c.valid_from IS NOT DISTINCT FROM $6::timestamptz AND c.valid_to IS NOT DISTINCT FROM $7::timestamptz)";
        let args = [
            fold::name(&claim.subject).into(),
            claim.object.as_deref().map(fold::name).into(),
            claim.kind.clone().into(),
            claim.status.clone().into(),
            claim.description.clone().into(),
            claim.start.as_deref().map(moment).into(),
            claim.end.as_deref().map(moment).into(),
            spot.block.into(),
            document.into(),
            quote.into(),
        ];
        self.collection.execute(sql, &args)?;
        Ok(())
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

/// A date of ISO 8601 as PostgreSQL reads it: a year or a month begins with its first day; of a time hours, minutes and seconds count, in UTC unless an offset stands behind.
fn moment(text: &str) -> String {
    let (date, time) = text.split_at(text.len().min(10));
    let date = format!("{date}{}", &"0000-01-01"[date.len()..]);
    let digits = |part: &str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
    let clock: Vec<&str> = time.get(1..9.min(time.len())).unwrap_or_default().split(':').collect();
    let clock = match clock[..] {
        [hour, minute, second] if [hour, minute, second].into_iter().all(digits) => format!("{hour}:{minute}:{second}"),
        [hour, minute, ..] if digits(hour) && minute.get(..2).is_some_and(digits) => format!("{hour}:{}", &minute[..2]),
        _ => "00:00".to_owned(),
    };
    let offset = match time.rfind(['+', '-']).map(|at| &time[at..]) {
        Some(offset) if offset.len() == 6 && digits(&offset[1..3]) && digits(&offset[4..]) => offset,
        _ => "+00:00",
    };
    format!("{date} {clock}{offset}")
}

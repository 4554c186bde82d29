//! What a model has answered to a block, checked against the block and the settings.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use graphrag_text::answer::{Claim, Extraction, Relation};
use graphrag_text::{fold, place};

use super::found::{Block, Found, Mention, NO_PLACE, NO_QUOTE, Spot, Stated, UNNAMED};
use crate::collection::Reading;
use crate::pg::tick;

/// The setting entity_types does not hold the type; the entity has none.
const OTHER_TYPE: &str = "type not listed";
/// The setting predicates does not hold the predicate; the relation has none.
const OTHER_PREDICATE: &str = "predicate not listed";
/// A name that only an example of the prompt has: the record is left out.
const OF_EXAMPLE: &str = "name of an example";

/// The folded ends and predicate of a relation, with its place.
type Triple = ([String; 2], String, Option<Range<usize>>);

/// A block, and which of the names stand in it.
struct Page<'a> {
    block: &'a Block,
    reading: &'a Reading,
    /// Folded names that do not stand in the block.
    absent: HashSet<String>,
}

impl Page<'_> {
    fn quote(&self, quote: &str) -> Option<Range<usize>> {
        place::quote(&self.block.text, quote)
    }

    /// Whether a record on these names is left out.
    fn refuses(&self, keys: &[String]) -> bool {
        keys.iter()
            .any(|key| self.absent.contains(key) && (self.reading.drop_ungrounded || self.is_leaked(key)))
    }

    fn is_leaked(&self, key: &str) -> bool {
        self.reading.example_names.contains(key)
    }
}

impl Found {
    /// Adds what a model has answered. A relation whose quote does not stand in the block gets the first sentence that holds
    /// both names; its ends are mentioned if the model has not listed them. What the block does not bear out (a name that does
    /// not stand there, a quote that cannot be found) is counted, and left out if `reading` says so.
    pub fn add_answer(&mut self, block: &Block, found: Extraction, reading: &Reading) {
        for (&reason, &count) in found.dropped.iter().chain(&found.lost) {
            *self.reasons.entry(reason).or_default() += count as i64;
        }
        let mut page = Page {
            block,
            reading,
            absent: HashSet::new(),
        };
        for mention in self.listed(&found, reading) {
            self.add_mention(&mut page, mention);
        }
        let mut stated = HashSet::new();
        for relation in found.relations {
            self.add_relation(&page, relation, &mut stated);
        }
        for claim in found.claims {
            self.add_claim(&mut page, claim);
        }
    }

    /// Each entity once, with the ends of relations: of several answers the first type and the longest description.
    fn listed(&mut self, found: &Extraction, reading: &Reading) -> Vec<Mention> {
        let mut mentions: Vec<Mention> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        let mut list = |name: &str| -> usize {
            *known.entry(fold::name(name)).or_insert_with(|| {
                mentions.push(Mention {
                    name: name.to_owned(),
                    kind: None,
                    description: None,
                    place: None,
                });
                mentions.len() - 1
            })
        };
        let at: Vec<usize> = found.entities.iter().map(|entity| list(&entity.name)).collect();
        for relation in &found.relations {
            list(&relation.subject);
            list(&relation.object);
        }
        for (entity, at) in found.entities.iter().zip(at) {
            let mention = &mut mentions[at];
            let kind = entity.kind.as_ref().and_then(|kind| match reading.types.is_empty() {
                true => Some(kind.clone()),
                false => {
                    let listed = reading.types.get(&fold::name(kind)).cloned();
                    if listed.is_none() {
                        self.count(OTHER_TYPE);
                    }
                    listed
                }
            });
            mention.kind = mention.kind.take().or(kind);
            let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
            if length(&entity.description) > length(&mention.description) {
                mention.description.clone_from(&entity.description);
            }
        }
        mentions
    }

    fn add_mention(&mut self, page: &mut Page, mention: Mention) {
        let place = place::name(&page.block.text, &mention.name).map(|range| {
            let (_, start, end) = place::trimmed(&page.block.text, range);
            (start, end)
        });
        if place.is_none() {
            let key = fold::name(&mention.name);
            self.count(if page.is_leaked(&key) { OF_EXAMPLE } else { NO_PLACE });
            page.absent.insert(key.clone());
            if page.refuses(&[key]) {
                return;
            }
        }
        self.mention(page.block, Mention { place, ..mention });
    }

    fn add_relation(&mut self, page: &Page, relation: Relation, stated: &mut HashSet<Triple>) {
        let keys = [fold::name(&relation.subject), fold::name(&relation.object)];
        let by_quote = relation.quote.as_deref().and_then(|quote| page.quote(quote));
        let is_lost = relation.quote.is_some() && by_quote.is_none();
        if is_lost {
            self.count(NO_QUOTE);
        }
        if page.refuses(&keys) || is_lost && page.reading.drop_ungrounded {
            return;
        }
        let range = by_quote.or_else(|| place::sentence(&page.block.text, [&keys[0], &keys[1]], &mut tick));
        let named = relation.predicate.filter(|name| !fold::predicate(name).is_empty());
        let predicate = named.and_then(|name| match page.reading.predicates.is_empty() {
            true => Some(name),
            false => {
                let listed = page.reading.predicates.get(&fold::predicate(&name)).cloned();
                if listed.is_none() {
                    self.count(OTHER_PREDICATE);
                }
                listed
            }
        });
        let predicate = predicate.unwrap_or_else(|| UNNAMED.to_owned());
        if stated.insert((keys, fold::predicate(&predicate), range.clone())) {
            self.relation(
                page.block,
                Stated {
                    subject: relation.subject,
                    predicate,
                    object: relation.object,
                    description: relation.description,
                    strength: relation.strength,
                    quote: range.map(|range| place::trimmed(&page.block.text, range)),
                },
            );
        }
    }

    fn add_claim(&mut self, page: &mut Page, claim: Claim) {
        let key = fold::name(&claim.subject);
        if !page.absent.contains(&key) && place::name(&page.block.text, &claim.subject).is_none() {
            self.count(if page.is_leaked(&key) { OF_EXAMPLE } else { NO_PLACE });
            page.absent.insert(key.clone());
        }
        let at = claim.quotes.iter().find_map(|quote| page.quote(quote));
        let is_lost = at.is_none() && !claim.quotes.is_empty();
        if is_lost {
            self.count(NO_QUOTE);
        }
        if page.refuses(&[key]) || is_lost && page.reading.drop_ungrounded {
            return;
        }
        let quote = at.map(|range| place::trimmed(&page.block.text, range));
        self.claims.add(Spot::of(page.block), claim, quote);
    }
}

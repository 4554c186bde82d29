//! Blocks are put to a model: once, and then as often as the settings say for what it has missed.

use std::collections::HashSet;

use graphrag_text::answer::{self, Extraction};
use graphrag_text::fold;

use super::found::Block;
use crate::collection::Collection;
use crate::error::Result;
use crate::model::{Answer, Form, Item, Ledger, prompts};
use crate::pg::tick;

/// A block with the place where it stands.
pub struct Passage {
    pub block: Block,
    pub title: Option<String>,
    pub partition: String,
    pub section: Vec<String>,
}

/// What became of a block.
pub enum Heard {
    /// What was answered; `missed` says that a later question failed.
    Read {
        found: Box<Extraction>,
        missed: bool,
    },
    Failed,
    /// An answer is missing.
    Waiting,
}

/// How often a block is put to the model of a collection, at most.
pub fn rounds(collection: &Collection) -> i64 {
    match collection.options.extractor.form {
        // A function reads a text; what was found before is no part of what it gets.
        Form::BuiltIn | Form::Function(_) => 1,
        _ => 1 + collection.options.gleanings,
    }
}

/// Asks for each block, and again with what was answered until nothing new comes or the rounds are over. Each question is a call of its own in the
/// ledger, whose answer stays when a later one fails.
pub fn ask(collection: &Collection, ledger: &mut Ledger, passages: &[Passage]) -> Result<Vec<Heard>> {
    let options = &collection.options;
    let mut heard: Vec<Heard> = passages.iter().map(|_| Heard::Waiting).collect();
    let mut open: Vec<usize> = (0..passages.len()).collect();
    for round in 0..rounds(collection) {
        let items: Vec<Item> = open
            .iter()
            .map(|&at| {
                let Passage {
                    block, title, section, ..
                } = &passages[at];
                let before = match &heard[at] {
                    Heard::Read { found, .. } => Some(&**found),
                    _ => None,
                };
                let request = prompts::extract(
                    &options.extractor,
                    options,
                    title.as_deref(),
                    section,
                    &block.text,
                    before,
                );
                Item::new(request, vec![block.document])
            })
            .collect();
        let answers = ledger.want(&options.extractor, &items)?;
        let mut next = Vec::new();
        for (at, answer) in open.into_iter().zip(answers) {
            match answer {
                Some(Answer::Text(reply)) => {
                    // It was read when it came in; a reply that cannot be read any more says nothing.
                    let more = answer::extraction(&reply).unwrap_or_default();
                    match &mut heard[at] {
                        Heard::Read { found, .. } => {
                            if adds(found, &more) {
                                next.push(at);
                            }
                            found.extend(more);
                        }
                        first => {
                            *first = Heard::Read {
                                found: Box::new(more),
                                missed: false,
                            };
                            next.push(at);
                        }
                    }
                }
                Some(_) => match &mut heard[at] {
                    Heard::Read { missed, .. } => *missed = true,
                    first => *first = Heard::Failed,
                },
                None if round > 0 => heard[at] = Heard::Waiting,
                None => {}
            }
            tick();
        }
        open = next;
    }
    Ok(heard)
}

/// Whether an answer holds a name, a relation or a claim that was not found before.
fn adds(found: &Extraction, more: &Extraction) -> bool {
    let names: HashSet<String> = found.entities.iter().map(|entity| fold::name(&entity.name)).collect();
    let triple = |relation: &answer::Relation| {
        let predicate = relation.predicate.as_deref().map(fold::predicate);
        (fold::name(&relation.subject), predicate, fold::name(&relation.object))
    };
    let triples: HashSet<_> = found.relations.iter().map(triple).collect();
    more.entities
        .iter()
        .any(|entity| !names.contains(&fold::name(&entity.name)))
        || more
            .relations
            .iter()
            .any(|relation| !triples.contains(&triple(relation)))
        || more.claims.iter().any(|claim| {
            found
                .claims
                .iter()
                .all(|known| known.subject != claim.subject || known.description != claim.description)
        })
}

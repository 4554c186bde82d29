//! What an answerer reads: reports and passages, each with a number, and the documents behind it.

use std::collections::{BTreeMap, BTreeSet};

use graphrag_text::answer::citations;
use serde_json::{Value, json};

use crate::collection::Collection;
use crate::error::Result;
use crate::model::ledger;
use crate::pg::tick;

/// Ids of documents that a citation shows.
const SHOWN: usize = 1000;

/// A text that is read.
pub struct Source {
    pub origin: Origin,
    pub text: String,
    /// The documents behind it, ascending.
    pub documents: Vec<i64>,
}

pub enum Origin {
    Report(Report),
    /// A leaf or a summary, with title and key of a leaf's document.
    Node(i64, Option<String>, Option<String>),
    /// A block, with title and key of its document.
    Block(i64, Option<String>, Option<String>),
    /// A relation, with what its documents were when it was read.
    Relation(i64, Vec<Vec<u8>>),
}

/// The report on a community.
pub struct Report {
    pub id: i64,
    pub level: i32,
    pub title: String,
    pub rating: f64,
    /// A model will write it when somebody reads it.
    pub lazy: bool,
    /// Of a digest that stands nowhere, made from what documents in scope say: what these were when it was made.
    pub body_hashes: Option<Vec<Vec<u8>>>,
}

impl Source {
    pub fn kind(&self) -> &'static str {
        match self.origin {
            Origin::Report(_) => "report",
            Origin::Relation(..) => "relation",
            _ => "passage",
        }
    }

    /// How much it matters beside others.
    pub fn rating(&self) -> f64 {
        match &self.origin {
            Origin::Report(report) => report.rating,
            _ => 0.0,
        }
    }

    pub fn report(&self) -> Option<&Report> {
        match &self.origin {
            Origin::Report(report) => Some(report),
            _ => None,
        }
    }

    /// How it is cited by its number or tag.
    pub fn citation(&self, n: Value) -> Value {
        let passage = |key: &str, id: &i64, title: &Option<String>, source_key: &Option<String>| json!({"n": n, key: id, "title": title, "source_key": source_key});
        match &self.origin {
            Origin::Relation(id, _) => {
                json!({"n": n, "relation_id": id, "text": self.text, "document_ids": &self.documents[..self.documents.len().min(SHOWN)]})
            }
            Origin::Node(id, title, source_key) => passage("node_id", id, title, source_key),
            Origin::Block(id, title, source_key) => passage("block_id", id, title, source_key),
            Origin::Report(report) => json!({
                "n": n, "community_id": report.id, "level": report.level, "title": report.title,
                "documents": self.documents.len(), "document_ids": &self.documents[..self.documents.len().min(SHOWN)],
            }),
        }
    }
}

/// The documents behind sources, ascending.
pub fn documents<'a>(sources: impl Iterator<Item = &'a Source>) -> Vec<i64> {
    let all: BTreeSet<i64> = sources.flat_map(|source| source.documents.iter().copied()).collect();
    all.into_iter().collect()
}

/// An answer whose citations were checked.
pub struct Checked {
    pub answer: String,
    /// The sources that it cites, in their order.
    pub citations: Vec<Value>,
    /// What it cites and is not there.
    pub unknown: Vec<String>,
    /// Whether every sentence cites something.
    pub grounded: bool,
}

/// Checks the citations of an answer, which are the numbers of sources.
pub fn check(answer: &str, sources: &[Source]) -> Checked {
    let number = |tag: &str| tag.parse().ok().filter(|n| (1..=sources.len()).contains(n));
    checked(answer, sources, number, |n| json!(n))
}

/// The same with tags.
pub fn check_tags(answer: &str, sources: &[Source], tags: &[String]) -> Checked {
    let number = |tag: &str| tags.iter().position(|known| known == tag).map(|at| at + 1);
    checked(answer, sources, number, |n| json!(tags[n - 1]))
}

fn checked(
    answer: &str,
    sources: &[Source],
    number: impl Fn(&str) -> Option<usize>,
    tag: impl Fn(usize) -> Value,
) -> Checked {
    let found = citations(answer, |tag| number(tag).is_some());
    let cited: BTreeSet<usize> = found.tags.iter().filter_map(|tag| number(tag)).collect();
    Checked {
        answer: found.text,
        citations: cited.into_iter().map(|n| sources[n - 1].citation(tag(n))).collect(),
        unknown: found.unknown,
        grounded: found.grounded,
    }
}

/// What was read for several questions, each once.
#[derive(Default)]
pub struct Read(BTreeMap<(u8, i64), Source>);

impl Read {
    pub fn add(&mut self, sources: Vec<Source>) {
        for mut source in sources {
            let key = match &source.origin {
                Origin::Report(report) => (0, report.id),
                Origin::Node(id, ..) => (1, *id),
                Origin::Block(id, ..) => (2, *id),
                Origin::Relation(id, ..) => (3, *id),
            };
            // Whether others have changed is seen by their ids.
            if source.report().is_none() {
                source.text = String::new();
            }
            self.0.entry(key).or_insert(source);
            tick();
        }
    }

    pub fn forget_what_changed(self, collection: &Collection) -> Result<()> {
        let sources: Vec<Source> = self.0.into_values().collect();
        forget_what_changed(collection, &sources)
    }
}

/// The numbers from 1 to `last` that a text gives in square brackets, each once, ascending.
pub fn cited(text: &str, last: usize) -> Vec<usize> {
    let mut cited: Vec<usize> = text
        .split('[')
        .skip(1)
        .filter_map(|rest| rest.split_once(']'))
        .flat_map(|(inside, _)| inside.split(','))
        .filter_map(|number| number.trim().parse().ok())
        .filter(|number| (1..=last).contains(number))
        .collect();
    cited.sort_unstable();
    cited.dedup();
    cited
}

/// Forgets the answers at once if something that was read has changed or gone meanwhile: whoever did that could not see them.
pub fn forget_what_changed(collection: &Collection, read: &[Source]) -> Result<()> {
    if read.is_empty() {
        return Ok(());
    }
    // Locked, so that they stay as they are until this is committed and seen. A changed document has other blocks and nodes.
    let all = documents(read.iter());
    let sql = "SELECT id FROM {s}.document WHERE id = ANY ($1) ORDER BY id FOR SHARE";
    let mut stands = collection.returning(sql, &[all.clone().into()], |_| Ok(()))?.len() == all.len();
    let (mut nodes, mut blocks) = (Vec::new(), Vec::new());
    let (mut ids, mut texts) = (Vec::new(), Vec::new());
    let (mut digested, mut hashes) = (Vec::new(), Vec::new());
    for source in read {
        match &source.origin {
            Origin::Node(id, ..) => nodes.push(*id),
            Origin::Block(id, ..) => blocks.push(*id),
            Origin::Relation(_, of_documents) => {
                digested.extend_from_slice(&source.documents);
                hashes.extend_from_slice(of_documents);
            }
            Origin::Report(report) => match &report.body_hashes {
                None => {
                    ids.push(report.id);
                    texts.push(source.text.clone());
                }
                Some(of_documents) => {
                    digested.extend_from_slice(&source.documents);
                    hashes.extend_from_slice(of_documents);
                }
            },
        }
    }
    for (table, mut rows) in [("node", nodes), ("block", blocks)] {
        rows.sort_unstable();
        rows.dedup();
        let sql = format!("SELECT id FROM {{s}}.{table} WHERE id = ANY ($1) ORDER BY id FOR KEY SHARE");
        let count = rows.len();
        stands &= count == 0 || collection.returning(&sql, &[rows.into()], |_| Ok(()))?.len() == count;
    }
    if !ids.is_empty() {
        let count = ids.len() as i64;
        let sql = "SELECT c.id FROM {s}.community c WHERE c.id = ANY ($1) ORDER BY c.id FOR SHARE";
        collection.returning(sql, &[ids.clone().into()], |_| Ok(()))?;
        let sql = "SELECT count(*) FROM {s}.community c JOIN unnest($1::bigint[], $2::text[]) AS u (id, text) ON u.id = c.id AND u.text = c.text";
        stands &= collection.returning(sql, &[ids.into(), texts.into()], |row| row.need::<i64>(1))? == [count];
    }
    if !digested.is_empty() {
        let count = digested.len() as i64;
        let sql = "SELECT count(*) FROM {s}.document d JOIN unnest($1::bigint[], $2::bytea[]) AS u (id, hash) ON u.id = d.id AND u.hash = d.body_hash";
        stands &= collection.returning(sql, &[digested.into(), hashes.into()], |row| row.need::<i64>(1))? == [count];
    }
    if !stands {
        ledger::forget_questions(collection, &all)?;
    }
    Ok(())
}

//! A question about the whole corpus, by map and reduce over the reports on its communities, or over its text: each batch gives points,
//! and the points give the answer. Edge et al., 2024, "From Local to Global: A Graph RAG Approach to Query-Focused Summarization".

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Instant;

use graphrag_text::answer::points;
use graphrag_text::tokens;
use serde_json::{Value, json};

use super::select::{Selection, select};
use super::source::{Origin, Source, check, cited, documents};
use super::{Answered, Wanted, answered, plain, prompts, texts};
use crate::collection::Collection;
use crate::error::Result;
use crate::model::{Asking, Item, Ledger, Model};
use crate::pg::vector::Vector;
use crate::pg::{memory, tick};
use crate::search::{Scope, TYPES};

/// What is answered when nothing helps.
pub const NOTHING: &str = "The corpus does not answer this question.";
/// Communities that were not read which an answer names.
const NAMED: usize = 100;

/// A statement that helps, with a score from 0 to 100.
pub struct Point {
    pub text: String,
    pub score: f64,
}

pub fn ask(collection: &Collection, answerer: &Model, wanted: &Wanted, scope: &Scope) -> Result<Answered> {
    let started = Instant::now();
    let options = &collection.options;
    let Selection { sources, rated, calls } = match wanted.mode {
        "text" => Selection {
            sources: blocks(collection, scope)?,
            rated: None,
            calls: 0,
        },
        _ => select(collection, answerer, wanted, scope)?,
    };
    let retrieved = started.elapsed();
    let budget = options.report_tokens as usize;
    let batches = batches(&sources, budget);

    let mut map = Ledger::resume(collection, "map", Asking::Now);
    let items: Vec<Item> = batches
        .iter()
        .map(|batch| {
            let texts = numbered(batch, &sources);
            let request = prompts::map(answerer, options, wanted.question, &texts);
            Item::new(request, documents(batch.iter().map(|&at| &sources[at])))
        })
        .collect();
    let answers = map.want(answerer, &items)?;
    let replies = texts(&map, answerer, answers)?;
    let (mut found, mut read) = (Vec::new(), BTreeSet::new());
    for (batch, reply) in batches.iter().zip(replies) {
        let Some(reply) = reply else { continue };
        read.extend(batch.iter().copied());
        let of_batch = points(&reply).unwrap_or_default().points;
        found.extend(of_batch.into_iter().map(|point| Point {
            text: point.text,
            score: point.score,
        }));
    }
    let mapped = started.elapsed();

    // What the points say was read in all of the texts.
    let behind = documents(read.iter().map(|&at| &sources[at]));
    let mut reduced = reduce(collection, answerer, wanted.question, found, behind)?;
    let checked = check(&reduced.answer, &sources);
    let used: BTreeSet<usize> = reduced
        .points
        .iter()
        .flat_map(|point| cited(&point.text, sources.len()))
        .map(|number| number - 1)
        .collect();
    let used = documents(used.iter().map(|&at| &sources[at]));
    let mut coverage = json!({
        "documents": in_scope(collection, scope)?,
        "documents_read": documents(read.iter().map(|&at| &sources[at])).len(),
        "documents_in_points": used.len(),
    });
    beside_nearest(collection, wanted.question, scope, &used, &mut coverage)?;
    if wanted.mode == "global" {
        communities(collection, &sources, &read, scope, &mut coverage)?;
    }
    if let Some(rated) = rated {
        coverage["communities_rated"] = json!(rated);
    }
    let shown = json!({
        "answer": checked.answer,
        "grounded": checked.grounded,
        "citations": checked.citations,
        "unknown_citations": checked.unknown,
        "points": reduced.shown(),
        "points_left_out": reduced.left,
        "coverage": coverage,
        "calls": calls + map.calls + reduced.calls,
        "timings_ms": {
            "retrieve": retrieved.as_millis() as u64,
            "map": (mapped - retrieved).as_millis() as u64,
            "answer": (started.elapsed() - mapped).as_millis() as u64,
        },
    });
    Ok(Answered {
        shown,
        tags: (1..=sources.len()).map(|n| n.to_string()).collect(),
        sources,
    })
}

/// The texts of a batch as they stand in a prompt.
pub fn numbered<'a>(batch: &[usize], sources: &'a [Source]) -> Vec<(String, &'static str, &'a str)> {
    batch
        .iter()
        .map(|&at| ((at + 1).to_string(), sources[at].kind(), sources[at].text.as_str()))
        .collect()
}

/// An answer, and what it was made from.
pub struct Reduced {
    pub answer: String,
    /// Those that fit, the best first, and how many do not.
    pub points: Vec<Point>,
    pub left: usize,
    pub calls: i64,
}

impl Reduced {
    pub fn shown(&mut self) -> Value {
        let points = self.points.iter();
        points
            .map(|point| json!({"score": point.score, "text": point.text}))
            .collect()
    }
}

/// The answer that points give: those without a score are dropped, and where none is left nobody is asked.
pub fn reduce(
    collection: &Collection,
    answerer: &Model,
    question: &str,
    mut points: Vec<Point>,
    documents: Vec<i64>,
) -> Result<Reduced> {
    points.retain(|point| point.score > 0.0);
    // Of equal ones the first: they stand in an order that has nothing to do with them.
    points.sort_by(|a, b| b.score.total_cmp(&a.score));
    let (all, budget, mut spent) = (points.len(), collection.options.report_tokens as usize, 0);
    points.retain(|point| {
        let tokens = tokens::count(&point.text);
        let fits = spent + tokens <= budget;
        spent += if fits { tokens } else { 0 };
        fits
    });
    let mut ledger = Ledger::resume(collection, "ask", Asking::Now);
    let answer = match points.is_empty() {
        true => NOTHING.to_owned(),
        false => {
            let lines: Vec<(f64, &str)> = points.iter().map(|point| (point.score, point.text.as_str())).collect();
            let request = prompts::reduce(answerer, &collection.options, question, &lines);
            let reply = ledger.want(answerer, &[Item::new(request, documents)])?.pop().flatten();
            answered(&ledger, answerer, reply)?
        }
    };
    Ok(Reduced {
        answer,
        left: all - points.len(),
        points,
        calls: ledger.calls,
    })
}

/// All blocks of documents in scope, in an order that has nothing to do with their content and is always the same.
fn blocks(collection: &Collection, scope: &Scope) -> Result<Vec<Source>> {
    let sql = format!(
        "SELECT b.id, b.text, d.id, d.title, d.source_key FROM {{s}}.block b JOIN {{s}}.document d ON d.id = b.document_id \
         WHERE {} AND {TYPES} ORDER BY b.text_hash, d.body_hash, d.source_key COLLATE \"C\", b.ordinal, b.id",
        scope.on_document()
    );
    let args = [None::<Vector>.into(), scope.filter(), scope.documents()];
    let mut bytes = 0;
    collection.query(&sql, &args, |row| {
        let text: String = row.need(2)?;
        bytes += text.len();
        memory::check_or(bytes, "reading all text", "narrow it by filter or documents")?;
        tick();
        Ok(Source {
            origin: Origin::Block(row.need(1)?, row.get(4)?, row.get(5)?),
            text,
            documents: vec![row.need(3)?],
        })
    })
}

/// Sources in batches of at most so many tokens, but at least one each; inside a batch the highest rated first.
pub fn batches(sources: &[Source], budget: usize) -> Vec<Vec<usize>> {
    let mut batches: Vec<Vec<usize>> = Vec::new();
    let mut spent = 0;
    for (at, source) in sources.iter().enumerate() {
        let tokens = tokens::count(&source.text);
        match batches.last_mut() {
            Some(batch) if spent + tokens <= budget => batch.push(at),
            _ => {
                batches.push(vec![at]);
                spent = 0;
            }
        }
        spent += tokens;
        tick();
    }
    for batch in &mut batches {
        batch.sort_by(|&a, &b| sources[b].rating().total_cmp(&sources[a].rating()));
    }
    batches
}

/// The number of documents in scope.
fn in_scope(collection: &Collection, scope: &Scope) -> Result<i64> {
    let sql = format!(
        "SELECT count(*) FROM {{s}}.document d WHERE {} AND {TYPES}",
        scope.on_document()
    );
    let args = [None::<Vector>.into(), scope.filter(), scope.documents()];
    collection.query_one(&sql, &args, |row| row.need(1))
}

/// How many of the documents behind the points the nearest passages would have reached, and could have at most.
fn beside_nearest(
    collection: &Collection,
    question: &str,
    scope: &Scope,
    used: &[i64],
    coverage: &mut Value,
) -> Result<()> {
    // Nobody can wait for the vector of the question.
    if collection.options.embedder.is_queue() {
        return Ok(());
    }
    let passages = plain::nearest(collection, question, plain::PASSAGES, scope)?;
    let reached = documents(passages.iter());
    let reached = reached.iter().filter(|id| used.binary_search(id).is_ok()).count();
    coverage["documents_in_nearest"] = json!(reached);
    coverage["nearest_at_most"] = json!(used.len().min(plain::PASSAGES));
    Ok(())
}

/// How much of the graph the answer has seen: of the communities in scope that do not divide, those that a report is about which was
/// read, or the digest of one.
fn communities(
    collection: &Collection,
    sources: &[Source],
    read: &BTreeSet<usize>,
    scope: &Scope,
    coverage: &mut Value,
) -> Result<()> {
    let scoped = match scope.is_everything() {
        true => "true".to_owned(),
        false => format!(
            "EXISTS (SELECT FROM {{s}}.community_source s JOIN {{s}}.document d ON d.id = s.document_id WHERE s.community_id = c.id AND {})",
            scope.on_document()
        ),
    };
    let sql = format!(
        "SELECT id, parent_id, NOT EXISTS (SELECT FROM {{s}}.community d WHERE d.parent_id = c.id AND d.size > 1) AND {scoped} \
         FROM {{s}}.community c WHERE size > 1 AND {TYPES} ORDER BY id"
    );
    let args = [None::<Vector>.into(), scope.filter(), scope.documents()];
    let mut parent_of: HashMap<i64, Option<i64>> = HashMap::new();
    let mut leaves = Vec::new();
    collection.stream(&sql, &args, |row| {
        let id = row.need(1)?;
        parent_of.insert(id, row.get(2)?);
        if row.need(3)? {
            leaves.push(id);
        }
        Ok(())
    })?;
    let reports = || read.iter().filter_map(|&at| sources[at].report());
    let ids: HashSet<i64> = reports().map(|report| report.id).collect();
    let is_read = |leaf: &i64| {
        std::iter::successors(Some(*leaf), |id| parent_of.get(id).copied().flatten()).any(|id| ids.contains(&id))
    };
    let left: Vec<i64> = leaves.iter().copied().filter(|leaf| !is_read(leaf)).collect();
    coverage["communities"] = json!(leaves.len());
    coverage["communities_read"] = json!(leaves.len() - left.len());
    coverage["communities_left"] = json!(&left[..left.len().min(NAMED)]);
    coverage["digests"] = json!(reports().filter(|report| report.body_hashes.is_some()).count());
    Ok(())
}

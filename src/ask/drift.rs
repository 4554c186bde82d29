//! From the reports nearest to a question down to passages, by questions that follow from what was read: after DRIFT (dynamic reasoning
//! and inference with flexible traversal) of Microsoft's GraphRAG, but in an order of its own that is the same each time.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use graphrag_text::answer::{Primer, primer};
use graphrag_text::fold;
use serde_json::json;

use super::mapped::{Point, batches, numbered, reduce};
use super::plain::{self, PASSAGES};
use super::select::{Selection, at_level, nearest, write};
use super::source::{Origin, check, documents};
use super::{Answered, Wanted, prompts, replies, texts, unasked};
use crate::collection::Collection;
use crate::error::Result;
use crate::model::{Asking, Item, Ledger, Model};
use crate::search::Scope;

/// Reports that are read first.
const REPORTS: i64 = 20;
/// Rounds of questions that follow.
const HOPS: i32 = 2;
/// Questions of a round.
const FOLLOWED: usize = 5;
/// Batches of the reports that are read first, so that they are seen from more than one side.
const FOLDS: usize = 5;

/// A question that somebody would ask next.
struct Open {
    question: String,
    /// Of the answer that it came from.
    score: f64,
}

pub fn ask(collection: &Collection, answerer: &Model, wanted: &Wanted, scope: &Scope) -> Result<Answered> {
    let started = Instant::now();
    let options = &collection.options;
    let k = wanted.k.unwrap_or(REPORTS);
    let mut first = Selection {
        sources: nearest(collection, wanted.question, k, wanted.level, scope)?,
        rated: None,
        calls: 0,
    };
    if first.sources.is_empty() && !scope.is_everything() {
        // No report draws on documents in scope alone: what these say in each community is read in its place.
        first.sources = at_level(collection, wanted.level.unwrap_or(0), scope)?;
        first.sources.truncate(k as usize);
    }
    write(collection, &mut first)?;
    let mut sources = first.sources;
    let mut ledger = Ledger::resume(collection, "explore", Asking::Now);
    let (mut points, mut open) = (Vec::new(), Vec::new());
    let mut asked: HashSet<String> = HashSet::from([fold::name(wanted.question)]);
    let mut take = |read: Primer, open: &mut Vec<Open>, points: &mut Vec<Point>| {
        let score = read.score.unwrap_or_default();
        open.extend(unasked(read.queries, &mut asked).map(|question| Open { question, score }));
        if !read.answer.is_empty() {
            let text = read.answer;
            points.push(Point { text, score });
        }
        score
    };

    let whole: usize = sources
        .iter()
        .map(|source| graphrag_text::tokens::count(&source.text))
        .sum();
    let folds = batches(&sources, (options.report_tokens as usize).min(whole.div_ceil(FOLDS)));
    let items: Vec<Item> = folds
        .iter()
        .map(|fold| {
            let request = prompts::explore(answerer, options, wanted.question, None, &numbered(fold, &sources));
            Item::new(request, documents(fold.iter().map(|&at| &sources[at])))
        })
        .collect();
    let answers = ledger.want(answerer, &items)?;
    for reply in texts(&ledger, answerer, answers)?.into_iter().flatten() {
        if let Ok(read) = primer(&reply) {
            take(read, &mut open, &mut points);
        }
    }
    // Without reports the question itself is looked up.
    if sources.is_empty() {
        open.push(Open {
            question: wanted.question.to_owned(),
            score: 0.0,
        });
    }
    let primed = started.elapsed();

    let mut place_of: HashMap<i64, usize> = HashMap::new();
    let mut followed = Vec::new();
    for hop in 1..=wanted.max_hops.unwrap_or(HOPS) {
        open.sort_by(|a, b| b.score.total_cmp(&a.score));
        let round: Vec<Open> = open.drain(..open.len().min(FOLLOWED)).collect();
        let mut items = Vec::new();
        let mut looked_up = Vec::new();
        for question in round {
            let mut at = Vec::new();
            for passage in plain::nearest(collection, &question.question, PASSAGES, scope)? {
                let Origin::Node(id, ..) = passage.origin else { continue };
                let place = *place_of.entry(id).or_insert(sources.len());
                if place == sources.len() {
                    sources.push(passage);
                }
                at.push(place);
            }
            if at.is_empty() {
                continue;
            }
            let part = Some(question.question.as_str());
            let request = prompts::explore(answerer, options, wanted.question, part, &numbered(&at, &sources));
            items.push(Item::new(request, documents(at.iter().map(|&at| &sources[at]))));
            looked_up.push(question);
        }
        let answers = ledger.want(answerer, &items)?;
        let replies = match points.is_empty() {
            true => texts(&ledger, answerer, answers)?,
            false => replies(answers),
        };
        for (question, reply) in looked_up.into_iter().zip(replies) {
            let read = reply.and_then(|reply| primer(&reply).ok());
            let score = read.map(|read| take(read, &mut open, &mut points));
            followed.push(json!({"question": question.question, "hop": hop, "score": score}));
        }
    }

    let behind = documents(sources.iter());
    let mut reduced = reduce(collection, answerer, wanted.question, points, behind)?;
    let checked = check(&reduced.answer, &sources);
    let shown = json!({
        "answer": checked.answer,
        "grounded": checked.grounded,
        "citations": checked.citations,
        "unknown_citations": checked.unknown,
        "points": reduced.shown(),
        "points_left_out": reduced.left,
        "follow_ups": followed,
        "follow_ups_left": open.len(),
        "reports_read": folds.iter().map(Vec::len).sum::<usize>(),
        "passages_read": place_of.len(),
        "calls": first.calls + ledger.calls + reduced.calls,
        "timings_ms": {
            "primer": primed.as_millis() as u64,
            "answer": (started.elapsed() - primed).as_millis() as u64,
        },
    });
    Ok(Answered {
        shown,
        tags: (1..=sources.len()).map(|n| n.to_string()).collect(),
        sources,
    })
}

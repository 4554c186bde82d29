//! An answer from the passages nearest to a question, with the numbers of those that it rests on.

use std::time::Instant;

use serde_json::{Value, json};

use super::mapped::numbered;
use super::source::{Origin, Source, check, documents};
use super::{Answered, Wanted, answered, prompts};
use crate::collection::Collection;
use crate::error::Result;
use crate::model::{Asking, Item, Ledger, Model};
use crate::retrieve::help::order;
use crate::search::{Scope, query_vector, rank, tell_if_unembedded};

/// Passages that the answerer reads.
pub const PASSAGES: usize = 8;
/// Passages that a reranker chooses from.
pub const CANDIDATES: usize = 50;

pub fn ask(collection: &Collection, answerer: &Model, wanted: &Wanted, scope: &Scope) -> Result<Answered> {
    let question = wanted.question;
    let mut ledger = Ledger::resume(collection, "ask", Asking::Now);
    let started = Instant::now();
    let k = match collection.options.reranker {
        Some(_) => CANDIDATES,
        None => PASSAGES,
    };
    let mut passages = nearest(collection, question, k, scope)?;
    let mut rest = Vec::new();
    if let Some(reranker) = &collection.options.reranker {
        passages = rerank(&mut ledger, reranker, question, passages)?;
        rest = passages.split_off(passages.len().min(PASSAGES));
    }
    let retrieved = started.elapsed();
    let tags: Vec<String> = (1..=passages.len()).map(|n| n.to_string()).collect();
    let mut answer = None;
    if passages.is_empty() {
        tell_if_unembedded(collection)?;
    } else {
        wanted.tell_sources(&passages, &tags);
        let all: Vec<usize> = (0..passages.len()).collect();
        let texts = numbered(&all, &passages);
        let request = prompts::answer(answerer, &collection.options, question, &texts);
        answer = Some(one(&mut ledger, answerer, request, &passages)?);
    }
    let checked = check(answer.as_deref().unwrap_or_default(), &passages);
    passages.append(&mut rest);
    let shown = json!({
        "answer": answer.map(|_| checked.answer),
        "grounded": checked.grounded,
        "citations": checked.citations,
        "unknown_citations": checked.unknown,
        "calls": ledger.calls,
        "timings_ms": {
            "retrieve": retrieved.as_millis() as u64,
            "answer": (started.elapsed() - retrieved).as_millis() as u64,
        },
    });
    Ok(Answered {
        shown,
        sources: passages,
        tags,
    })
}

/// The one answer to a request that reads some passages.
fn one(ledger: &mut Ledger, model: &Model, request: Value, passages: &[Source]) -> Result<String> {
    let item = Item::new(request, documents(passages.iter()));
    let answer = ledger.want(model, &[item])?.pop().flatten();
    answered(ledger, model, answer)
}

/// The `k` nodes nearest to a question.
pub fn nearest(collection: &Collection, question: &str, k: usize, scope: &Scope) -> Result<Vec<Source>> {
    let Some(vector) = query_vector(collection, Some(question), None)? else {
        return Ok(Vec::new());
    };
    let ids: Vec<i64> = rank(collection, "node", &vector, k as i64, scope, "true")?
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    nodes(collection, ids)
}

/// Nodes by their ids, in the order of these.
pub fn nodes(collection: &Collection, ids: Vec<i64>) -> Result<Vec<Source>> {
    let sql = "SELECT n.id, n.text, CASE WHEN n.level = 0 THEN ARRAY[n.document_id] \
                 ELSE ARRAY(SELECT s.document_id FROM {s}.node_source s WHERE s.node_id = n.id ORDER BY 1) END, d.title, d.source_key \
               FROM unnest($1::bigint[]) WITH ORDINALITY AS u (id, n) JOIN {s}.node n ON n.id = u.id \
               LEFT JOIN {s}.document d ON d.id = n.document_id ORDER BY u.n";
    collection.query(sql, &[ids.into()], |row| {
        Ok(Source {
            origin: Origin::Node(row.need(1)?, row.get(4)?, row.get(5)?),
            text: row.need(2)?,
            documents: row.need(3)?,
        })
    })
}

/// The passages in the order of the reranker's scores; those of equal score stay as they were.
fn rerank(ledger: &mut Ledger, model: &Model, question: &str, passages: Vec<Source>) -> Result<Vec<Source>> {
    let texts: Vec<&str> = passages.iter().map(|passage| passage.text.as_str()).collect();
    let order = order(ledger, model, question, &texts, documents(passages.iter()))?;
    let mut passages: Vec<Option<Source>> = passages.into_iter().map(Some).collect();
    Ok(order.into_iter().filter_map(|(at, _)| passages[at].take()).collect())
}

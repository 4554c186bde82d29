//! An answer from the passages nearest to a question, with the numbers of those that it rests on.

use std::time::Instant;

use serde_json::{Value, json};

use super::{answered, cited};
use crate::collection::Collection;
use crate::error::{Error, Result};
use crate::model::{Asking, Item, Ledger, Model, ledger, prompts};
use crate::search::{Scope, query_vector, rank, tell_if_unembedded};

/// Passages that the answerer reads.
const PASSAGES: usize = 8;
/// Passages that a reranker chooses from.
const CANDIDATES: usize = 50;

/// A node that may hold the answer.
struct Passage {
    node: i64,
    text: String,
    documents: Vec<i64>,
    title: Option<String>,
    source_key: Option<String>,
}

pub fn ask(collection: &Collection, answerer: &Model, question: &str, scope: &Scope) -> Result<Value> {
    let mut ledger = Ledger::resume(collection, "ask", Asking::Now);
    let started = Instant::now();
    let mut passages = retrieve(collection, question, scope)?;
    let read = Read::of(&passages);
    if let Some(reranker) = &collection.options.reranker {
        passages = rerank(&mut ledger, reranker, question, passages)?;
    }
    passages.truncate(PASSAGES);
    let retrieved = started.elapsed();
    let mut answer = None;
    if passages.is_empty() {
        tell_if_unembedded(collection)?;
    }
    if !passages.is_empty() {
        let texts: Vec<&str> = passages.iter().map(|passage| passage.text.as_str()).collect();
        let request = prompts::answer(answerer, &collection.options, question, &texts);
        answer = Some(one(&mut ledger, answerer, request, &passages)?);
    }
    read.forget_what_changed(collection)?;
    let citations = citations(answer.as_deref().unwrap_or_default(), &passages);
    Ok(json!({
        "answer": answer,
        "grounded": !citations.is_empty(),
        "citations": citations,
        "calls": ledger.calls,
        "timings_ms": {
            "retrieve": retrieved.as_millis() as u64,
            "answer": (started.elapsed() - retrieved).as_millis() as u64,
        },
    }))
}

/// What models have read for an answer.
struct Read {
    nodes: Vec<i64>,
    documents: Vec<i64>,
}

impl Read {
    fn of(passages: &[Passage]) -> Read {
        let mut documents: Vec<i64> = passages
            .iter()
            .flat_map(|passage| passage.documents.iter().copied())
            .collect();
        documents.sort_unstable();
        documents.dedup();
        Read {
            nodes: passages.iter().map(|passage| passage.node).collect(),
            documents,
        }
    }

    /// Forgets the answer at once if a document was changed or deleted meanwhile: whoever did that could not see it.
    fn forget_what_changed(&self, collection: &Collection) -> Result<()> {
        // Locked, so that they stay as they are until this is committed and seen. A changed text has other nodes.
        let sql = "SELECT id FROM {s}.document WHERE id = ANY ($1) ORDER BY id FOR SHARE";
        let standing = collection.returning(sql, &[self.documents.clone().into()], |_| Ok(()))?;
        let sql = "SELECT id FROM {s}.node WHERE id = ANY ($1) FOR KEY SHARE";
        let read = collection.returning(sql, &[self.nodes.clone().into()], |_| Ok(()))?;
        if standing.len() < self.documents.len() || read.len() < self.nodes.len() {
            ledger::forget_questions(collection, &self.documents)?;
        }
        Ok(())
    }
}

/// The one answer to a request that reads some passages.
fn one(ledger: &mut Ledger, model: &Model, request: Value, passages: &[Passage]) -> Result<String> {
    let item = Item::new(request, Read::of(passages).documents);
    let answer = ledger.want(model, &[item])?.pop().flatten();
    answered(ledger, model, answer)
}

fn retrieve(collection: &Collection, question: &str, scope: &Scope) -> Result<Vec<Passage>> {
    let Some(vector) = query_vector(collection, Some(question), None)? else {
        return Ok(Vec::new());
    };
    let k = if collection.options.reranker.is_some() {
        CANDIDATES
    } else {
        PASSAGES
    };
    let ids: Vec<i64> = rank(collection, "node", &vector, k as i64, scope, "true")?
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    let sql = "SELECT n.id, n.text, CASE WHEN n.level = 0 THEN ARRAY[n.document_id] \
                 ELSE ARRAY(SELECT s.document_id FROM {s}.node_source s WHERE s.node_id = n.id ORDER BY 1) END, d.title, d.source_key \
               FROM unnest($1::bigint[]) WITH ORDINALITY AS u (id, n) JOIN {s}.node n ON n.id = u.id \
               LEFT JOIN {s}.document d ON d.id = n.document_id ORDER BY u.n";
    collection.query(sql, &[ids.into()], |row| {
        Ok(Passage {
            node: row.need(1)?,
            text: row.need(2)?,
            documents: row.need(3)?,
            title: row.get(4)?,
            source_key: row.get(5)?,
        })
    })
}

/// The passages in the order of the reranker's scores; those of equal score stay as they were.
fn rerank(ledger: &mut Ledger, model: &Model, question: &str, passages: Vec<Passage>) -> Result<Vec<Passage>> {
    if passages.len() < 2 {
        return Ok(passages);
    }
    let texts: Vec<&str> = passages.iter().map(|passage| passage.text.as_str()).collect();
    let reply = one(ledger, model, prompts::rerank(question, &texts), &passages)?;
    let scores: Vec<f64> = serde_json::from_str(&reply).map_err(|_| Error::internal("scores that are no numbers"))?;
    let mut scored: Vec<(f64, Passage)> = scores.into_iter().zip(passages).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    Ok(scored.into_iter().map(|(_, passage)| passage).collect())
}

/// The passages whose numbers an answer gives in square brackets, each once, in order of number.
fn citations(answer: &str, passages: &[Passage]) -> Vec<Value> {
    cited(answer, passages.len())
        .into_iter()
        .map(|number| {
            let passage = &passages[number - 1];
            json!({"n": number, "node_id": passage.node, "title": passage.title, "source_key": passage.source_key})
        })
        .collect()
}

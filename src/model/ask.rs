//! rag_ask: an answer from the passages nearest to a question, with the numbers of those that it rests on.

use std::time::Instant;

use pgrx::PgSqlErrorCode;
use pgrx::prelude::*;
use serde_json::{Value, json};

use super::{Answer, Asking, Item, Ledger, Model, ledger, prompts};
use crate::collection::{Collection, literal, quoted};
use crate::error::{Error, Result, capital, required, sql};
use crate::pg::json::Json;
use crate::search::{Scope, query_vector, rank, tell_if_unembedded};

/// Passages that the answerer reads.
const PASSAGES: usize = 8;
/// Passages that a reranker chooses from.
const CANDIDATES: usize = 50;

/// SQL: `rag_ask(collection, question, filter, documents)`.
#[pg_extern(sql = false)]
fn rag_ask(
    collection: Option<&str>,
    question: Option<&str>,
    filter: Option<Json>,
    documents: Option<Vec<Option<i64>>>,
) -> sql::Result<Json> {
    Ok(ask(collection, question, &Scope::new(filter, documents)?)?)
}

/// A node that may hold the answer.
struct Passage {
    node: i64,
    text: String,
    documents: Vec<i64>,
    title: Option<String>,
    source_key: Option<String>,
}

fn ask(name: Option<&str>, question: Option<&str>, scope: &Scope) -> Result<Json> {
    let question = required(question, "question")?;
    let collection = Collection::write(name)?;
    let Some(answerer) = &collection.options.answerer else {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("collection {} has no answerer", quoted(&collection.name)),
        )
        .hint(format!(
            "SELECT rag_alter({}, '{{\"answerer\": \"server:name\"}}'), or function:schema.name.",
            literal(&collection.name)
        )));
    };
    // What failed before is asked again: somebody waits for it.
    collection.execute(
        "DELETE FROM {s}.model_call WHERE step = 'ask' AND status = 'failed'",
        &[],
    )?;
    let mut ledger = Ledger::resume(&collection, "ask", Asking::Now);
    let started = Instant::now();
    let mut passages = retrieve(&collection, question, scope)?;
    let read = Read::of(&passages);
    if let Some(reranker) = &collection.options.reranker {
        passages = rerank(&mut ledger, reranker, question, passages)?;
    }
    passages.truncate(PASSAGES);
    let retrieved = started.elapsed();
    let mut answer = None;
    if passages.is_empty() {
        tell_if_unembedded(&collection)?;
    }
    if !passages.is_empty() {
        let texts: Vec<&str> = passages.iter().map(|passage| passage.text.as_str()).collect();
        let request = prompts::answer(answerer, &collection.options, question, &texts);
        answer = Some(one(&mut ledger, answerer, request, &passages)?);
    }
    read.forget_what_changed(&collection)?;
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
    })
    .into())
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
    match ledger
        .want(model, &[Item::new(request, Read::of(passages).documents)])?
        .pop()
    {
        Some(Some(Answer::Text(text))) => Ok(text),
        _ => {
            let reason = ledger.last_failure()?.unwrap_or_else(|| "it gave no answer".to_owned());
            Err(Error::new(
                PgSqlErrorCode::ERRCODE_EXTERNAL_ROUTINE_EXCEPTION,
                format!("the {} {} has failed", model.role.name(), model.text),
            )
            .detail(format!("{}.", capital(&reason))))
        }
    }
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
    let mut cited: Vec<usize> = answer
        .split('[')
        .skip(1)
        .filter_map(|rest| rest.split_once(']'))
        .flat_map(|(inside, _)| inside.split(','))
        .filter_map(|number| number.trim().parse().ok())
        .filter(|number| (1..=passages.len()).contains(number))
        .collect();
    cited.sort_unstable();
    cited.dedup();
    cited
        .into_iter()
        .map(|number| {
            let passage = &passages[number - 1];
            json!({"n": number, "node_id": passage.node, "title": passage.title, "source_key": passage.source_key})
        })
        .collect()
}

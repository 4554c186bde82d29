//! rag_context: what a model should read for a question, packed into a budget of tokens.

use graphrag_rank::budget::Budget;
use graphrag_text::tokens;
use pgrx::prelude::*;

use super::pack::Hit;
use super::{Asked, find};
use crate::collection::Collection;
use crate::error::{Result, in_range, required, sql};
use crate::graph;
use crate::pg::json::Json;
use crate::pg::tick;
use crate::search::Scope;

/// Passages that are looked at.
const PASSAGES: i32 = 100;
/// Relations that are looked at.
const FACTS: i64 = 50;

/// A text with the tag by which an answer cites it.
pub struct Cited {
    /// `P1` for a passage or a summary, `G1` for a relation; nothing for what did not fit.
    pub citation: Option<String>,
    pub kind: &'static str,
    /// Of `node` or of `relation`.
    pub id: i64,
    pub text: String,
    /// Of the text behind its tag.
    pub tokens: i32,
    pub title: Option<String>,
    pub source_key: Option<String>,
    pub section: Option<Vec<String>>,
    pub start: Option<i32>,
    pub end: Option<i32>,
    pub documents: Vec<i64>,
}

/// SQL: `rag_context(collection, query, max_tokens, filter, methods, expand, graph_share, documents, rewrite, rerank, left_out)`.
#[pg_extern(sql = false)]
#[allow(clippy::too_many_arguments, reason = "the arguments of the SQL function")]
fn rag_context(
    collection: Option<&str>,
    query: Option<&str>,
    max_tokens: Option<i32>,
    filter: Option<Json>,
    methods: Option<Vec<Option<String>>>,
    expand: Option<&str>,
    graph_share: Option<f64>,
    documents: Option<Vec<Option<i64>>>,
    rewrite: Option<Vec<Option<String>>>,
    rerank: Option<i32>,
    left_out: Option<bool>,
) -> sql::Result<
    TableIterator<
        'static,
        (
            name!(citation, Option<String>),
            name!(kind, String),
            name!(id, i64),
            name!(text, String),
            name!(token_count, i32),
            name!(title, Option<String>),
            name!(source_key, Option<String>),
            name!(section_path, Option<Vec<String>>),
            name!(start_char, Option<i32>),
            name!(end_char, Option<i32>),
            name!(document_ids, Vec<i64>),
        ),
    >,
> {
    let query = required(query, "query")?;
    let budget = in_range(max_tokens, "max_tokens", 1..=i32::MAX)?;
    let share = in_range(graph_share, "graph_share", 0.0..=1.0)?;
    let passages = rerank.filter(|rows| *rows > 0).unwrap_or(PASSAGES);
    let asked = Asked::new(Some(passages), methods, expand, None, Some("rrf"), None, None)?.helped(rewrite, rerank)?;
    let scope = Scope::new(filter, documents)?;
    let collection = asked.open(collection)?;
    let found = find(&collection, query, &asked, scope.clone())?;
    let rows = pack(&collection, query, found, budget as u64, share, &scope)?;
    let left_out = required(left_out, "left_out")?;
    let rows = rows.into_iter().filter(move |row| left_out || row.citation.is_some());
    Ok(TableIterator::new(rows.map(|row| {
        (
            row.citation,
            row.kind.to_owned(),
            row.id,
            row.text,
            row.tokens,
            row.title,
            row.source_key,
            row.section,
            row.start,
            row.end,
            row.documents,
        )
    })))
}

/// Of the passages that were found, and of what the graph says of the entities that the question names, what fits into `budget` tokens with
/// tags, and behind it what does not. The graph gets up to `share` of it, and what passages leave; these get what the graph leaves.
pub fn pack(
    collection: &Collection,
    query: &str,
    found: Vec<Hit>,
    budget: u64,
    share: f64,
    scope: &Scope,
) -> Result<Vec<Cited>> {
    let mut all = Budget::new(Some(budget));
    let mut of_passages = Budget::new(Some((budget as f64 * (1.0 - share)).round() as u64));
    let (mut passages, mut rest) = (Vec::new(), Vec::new());
    for passage in found {
        let cited = cited_as("P", passages.len(), &passage.text);
        match of_passages.take(cited) && all.take(cited) {
            true => passages.push(passage),
            false => rest.push(passage),
        }
        tick();
    }
    let (mut facts, mut other_facts) = (Vec::new(), Vec::new());
    if share > 0.0 {
        for fact in graph::facts(collection, query, FACTS, scope)? {
            // What a passage says is not read twice.
            let is_read = |quote: &str| passages.iter().any(|passage: &Hit| passage.text.contains(quote));
            if fact.quote.as_deref().is_some_and(is_read) {
                continue;
            }
            match all.take(cited_as("G", facts.len(), &fact.text)) {
                true => facts.push(fact),
                false => other_facts.push(fact),
            }
        }
    }
    let mut other_passages = Vec::new();
    for passage in rest {
        match all.take(cited_as("P", passages.len(), &passage.text)) {
            true => passages.push(passage),
            false => other_passages.push(passage),
        }
    }
    let (cited_passages, cited_facts) = (passages.len(), facts.len());
    passages.append(&mut other_passages);
    facts.append(&mut other_facts);
    let documents: Vec<i64> = passages.iter().filter_map(Hit::document).collect();
    let sql = "SELECT id, title, source_key FROM {s}.document WHERE id = ANY ($1)";
    let mut of_document = std::collections::HashMap::new();
    collection.stream(sql, &[documents.into()], |row| {
        of_document.insert(row.need::<i64>(1)?, (row.get::<String>(2)?, row.get::<String>(3)?));
        Ok(())
    })?;
    let mut rows: Vec<Cited> = Vec::with_capacity(passages.len() + facts.len());
    for (at, passage) in passages.into_iter().enumerate() {
        let document = passage.document();
        let (title, source_key) = document
            .and_then(|id| of_document.get(&id).cloned())
            .unwrap_or_default();
        rows.push(Cited {
            citation: (at < cited_passages).then(|| format!("P{}", at + 1)),
            kind: if passage.level == 0 { "passage" } else { "summary" },
            id: passage.node,
            tokens: cited_as("P", at, &passage.text) as i32,
            text: passage.text,
            title,
            source_key,
            section: passage.section,
            start: passage.start,
            end: passage.end,
            documents: passage.document_ids,
        });
    }
    for (at, fact) in facts.into_iter().enumerate() {
        rows.push(Cited {
            citation: (at < cited_facts).then(|| format!("G{}", at + 1)),
            kind: "relation",
            id: fact.relation,
            tokens: cited_as("G", at, &fact.text) as i32,
            text: fact.text,
            title: None,
            source_key: None,
            section: None,
            start: None,
            end: None,
            documents: fact.documents,
        });
    }
    // What did not fit comes last.
    rows.sort_by_key(|row| row.citation.is_none());
    Ok(rows)
}

/// Tokens of a text behind its tag.
fn cited_as(kind: &str, at: usize, text: &str) -> u64 {
    tokens::count(&format!("[{kind}{}] {text}", at + 1)) as u64
}

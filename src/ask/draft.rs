//! rag_questions: questions about the whole corpus, drafted from who would use it and for what, as the evaluation in Edge et al., 2024,
//! "From Local to Global: A Graph RAG Approach to Query-Focused Summarization" does.

use std::collections::HashSet;

use graphrag_text::answer::{Draft, draft};
use graphrag_text::{fold, tokens};
use pgrx::prelude::*;
use serde_json::Value;

use super::mapped::numbered;
use super::source::{Source, documents, forget_what_changed};
use super::{answerer, open, plain, prompts, select, texts};
use crate::collection::Collection;
use crate::error::{Result, in_range, sql};
use crate::model::{Asking, Item, Ledger, Model};
use crate::pg::json::Json;
use crate::pg::vector::Vector;
use crate::search::{Scope, TYPES};

/// The most that is drafted of one kind.
const MOST: i32 = 100;

/// SQL: `rag_questions(collection, personas, tasks, questions, filter, documents)`.
#[pg_extern(sql = false)]
fn rag_questions(
    collection: Option<&str>,
    personas: Option<i32>,
    tasks: Option<i32>,
    questions: Option<i32>,
    filter: Option<Json>,
    documents: Option<Vec<Option<i64>>>,
) -> sql::Result<TableIterator<'static, (name!(persona, String), name!(task, String), name!(question, String))>> {
    let scope = Scope::new(filter, documents)?;
    let count = |value, argument| in_range(value, argument, 1..=MOST).map(|count| count as usize);
    let counts = [
        count(personas, "personas")?,
        count(tasks, "tasks")?,
        count(questions, "questions")?,
    ];
    Ok(TableIterator::new(questions_of(collection, counts, &scope)?))
}

fn questions_of(
    name: Option<&str>,
    [personas, tasks, questions]: [usize; 3],
    scope: &Scope,
) -> Result<Vec<(String, String, String)>> {
    let collection = open(name, false)?;
    let (answerer, options) = (answerer(&collection)?, &collection.options);
    let sources = coarse(&collection, scope)?;
    if sources.is_empty() {
        return Ok(Vec::new());
    }
    let mut drafts = Drafts {
        ledger: Ledger::resume(&collection, "draft", Asking::Now),
        answerer,
        documents: documents(sources.iter()),
    };

    let all: Vec<usize> = (0..sources.len()).collect();
    let read = numbered(&all, &sources);
    let request = prompts::personas(answerer, options, personas, &read);
    let first = drafts.ask(vec![request])?.pop().flatten().unwrap_or_default();
    let corpus = match first.description {
        Some(description) => description,
        None => sources
            .iter()
            .map(|source| source.text.as_str())
            .collect::<Vec<_>>()
            .join("\n\n"),
    };
    let people = distinct(first.items, personas, &mut HashSet::new());

    let requests = people
        .iter()
        .map(|persona| prompts::tasks(answerer, options, tasks, &corpus, persona));
    let of_people = drafts.ask(requests.collect())?;
    let pairs: Vec<(&String, String)> = people
        .iter()
        .zip(of_people)
        .flat_map(|(persona, draft)| {
            let items = draft.unwrap_or_default().items;
            distinct(items, tasks, &mut HashSet::new())
                .into_iter()
                .map(move |task| (persona, task))
        })
        .collect();

    let requests = pairs
        .iter()
        .map(|(persona, task)| prompts::questions(answerer, options, questions, &corpus, persona, task));
    let of_pairs = drafts.ask(requests.collect())?;
    let (mut rows, mut seen) = (Vec::new(), HashSet::new());
    for ((persona, task), draft) in pairs.iter().zip(of_pairs) {
        for question in distinct(draft.unwrap_or_default().items, questions, &mut seen) {
            rows.push(((*persona).clone(), task.clone(), question));
        }
    }
    forget_what_changed(&collection, &sources)?;
    Ok(rows)
}

/// What the answerer drafts from some documents.
struct Drafts<'a> {
    ledger: Ledger<'a>,
    answerer: &'a Model,
    documents: Vec<i64>,
}

impl Drafts<'_> {
    fn ask(&mut self, requests: Vec<Value>) -> Result<Vec<Option<Draft>>> {
        let items: Vec<Item> = requests
            .into_iter()
            .map(|request| Item::new(request, self.documents.clone()))
            .collect();
        let replies = self.ledger.want(self.answerer, &items)?;
        let replies = texts(&self.ledger, self.answerer, replies)?;
        Ok(replies
            .into_iter()
            .map(|reply| reply.and_then(|reply| draft(&reply).ok()))
            .collect())
    }
}

/// The first `most` that were not seen before.
fn distinct(texts: Vec<String>, most: usize, seen: &mut HashSet<String>) -> Vec<String> {
    let new = texts.into_iter().filter(|text| {
        let key = fold::name(text);
        !key.is_empty() && seen.insert(key)
    });
    new.take(most).collect()
}

/// What stands for the corpus within the budget of a report: the reports on its coarsest communities, the highest rated first, or
/// where there are none the roots of its tree.
fn coarse(collection: &Collection, scope: &Scope) -> Result<Vec<Source>> {
    let budget = collection.options.report_tokens;
    let mut sources = select::coarsest(collection, scope)?;
    if sources.is_empty() {
        sources = roots(collection, scope, budget)?;
    }
    sources.sort_by(|a, b| b.rating().total_cmp(&a.rating()));
    let mut spent = 0;
    sources.retain(|source| {
        let tokens = tokens::count(&source.text);
        let fits = spent == 0 || spent + tokens <= budget as usize;
        spent += if fits { tokens } else { 0 };
        fits
    });
    Ok(sources)
}

/// Nodes in scope that nothing in scope stands above: without a tree the leaves, the first ones of their documents first.
fn roots(collection: &Collection, scope: &Scope, most: i64) -> Result<Vec<Source>> {
    let sql = format!(
        "WITH pass AS (SELECT n.id FROM {{s}}.node n WHERE n.text <> '' AND {} AND {TYPES}) \
         SELECT n.id FROM pass JOIN {{s}}.node n USING (id) LEFT JOIN {{s}}.document d ON d.id = n.document_id \
         WHERE NOT EXISTS (SELECT FROM {{s}}.node_child c JOIN pass p ON p.id = c.parent_id WHERE c.child_id = n.id) \
         ORDER BY n.level DESC, n.ordinal, n.text_hash, d.body_hash, d.source_key COLLATE \"C\", n.id LIMIT $4",
        scope.on_row("node")
    );
    let args = [None::<Vector>.into(), scope.filter(), scope.documents(), most.into()];
    let ids = collection.query(&sql, &args, |row| row.need::<i64>(1))?;
    plain::nodes(collection, ids)
}

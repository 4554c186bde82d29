//! rag_evaluate_answers: each answer judged by itself, by the answerer: whether what was read is relevant to the question, whether that
//! supports the answer, and whether the answer addresses the question; known as the RAG triad of TruLens. That support is asked
//! statement by statement is after Es et al., 2023, "RAGAS: Automated Evaluation of Retrieval Augmented Generation".

use std::collections::HashSet;

use graphrag_text::answer::{grade, scores, support};
use graphrag_text::tokens;
use pgrx::pg_sys;
use pgrx::prelude::*;
use serde_json::Value;

use super::mapped::{batches, numbered};
use super::source::{Read, Source, documents};
use super::{Answered, Wanted, answer, answerer, open, prompts, reads_reports, replies, unless_failed};
use crate::collection::{Collection, quoted};
use crate::error::{Error, Result, required, sql};
use crate::model::{Asking, Item, Ledger, Model};
use crate::pg::json::Json;
use crate::pg::memory;
use crate::retrieve::evaluate::golden::{self, Expected};
use crate::search::Scope;

type Regclass = pg_sys::Oid;

/// The best score of a judge.
const BEST: f64 = 10.0;

type Row = (
    String,
    String,
    Option<f64>,
    Option<f64>,
    Option<f64>,
    Option<f64>,
    Option<String>,
    Option<Vec<String>>,
    i64,
    i64,
);

/// SQL: `rag_evaluate_answers(collection, golden, modes, filter, documents)`.
#[pg_extern(sql = false)]
fn rag_evaluate_answers(
    collection: Option<&str>,
    golden: Option<Regclass>,
    modes: Option<Vec<Option<String>>>,
    filter: Option<Json>,
    documents: Option<Vec<Option<i64>>>,
) -> sql::Result<
    TableIterator<
        'static,
        (
            name!(question, String),
            name!(mode, String),
            name!(context_relevance, Option<f64>),
            name!(groundedness, Option<f64>),
            name!(answer_relevance, Option<f64>),
            name!(correctness, Option<f64>),
            name!(answer, Option<String>),
            name!(unsupported, Option<Vec<String>>),
            name!(calls, i64),
            name!(failed, i64),
        ),
    >,
> {
    let scope = Scope::new(filter, documents)?;
    let golden = required(golden, "golden")?;
    let modes = modes_of(modes)?;
    Ok(TableIterator::new(evaluate(collection, golden, &modes, &scope)?))
}

fn modes_of(modes: Option<Vec<Option<String>>>) -> Result<Vec<String>> {
    let mut all: Vec<String> = Vec::new();
    for mode in required(modes, "modes")? {
        let mode = required(mode, "a mode")?;
        wanted("", &mode).check()?;
        if all.contains(&mode) {
            return Err(Error::invalid(format!("mode {} is given twice", quoted(&mode))));
        }
        all.push(mode);
    }
    match all.is_empty() {
        true => Err(Error::invalid("modes must not be empty")),
        false => Ok(all),
    }
}

fn wanted<'a>(question: &'a str, mode: &'a str) -> Wanted<'a> {
    Wanted {
        question,
        mode,
        level: None,
        k: None,
        dynamic: false,
        max_hops: None,
        events: false,
    }
}

fn evaluate(name: Option<&str>, golden: Regclass, modes: &[String], scope: &Scope) -> Result<Vec<Row>> {
    // Refused before a table is read.
    drop(Collection::write(name)?);
    let questions = golden::read_answers(golden)?;
    let collection = open(name, modes.iter().any(|mode| reads_reports(mode)))?;
    let mut judge = Judge {
        answerer: answerer(&collection)?,
        ledger: Ledger::resume(&collection, "judge", Asking::Now),
        collection: &collection,
    };
    let mut read = Read::default();
    let (mut rows, mut failure, mut bytes) = (Vec::new(), None, 0);
    for expected in &questions {
        let question = expected.question.as_str();
        // In all modes or in none, so that their means are over the same questions.
        let answers: Result<Vec<Answered>> = modes
            .iter()
            .map(|mode| answer(&collection, &wanted(question, mode), scope))
            .collect();
        let answers = unless_failed(question, answers, &mut failure)?.unwrap_or_default();
        for (mode, answered) in modes.iter().zip(answers) {
            let row = judge.row(expected, mode, &answered)?;
            let texts = [&row.0, &row.1].into_iter().chain(&row.6).chain(row.7.iter().flatten());
            bytes += texts.map(|text| text.len() + 32).sum::<usize>() + 200;
            memory::check_or(bytes, "the rows of this evaluation", "evaluate fewer questions at once")?;
            rows.push(row);
            read.add(answered.sources);
        }
    }
    if let Some(error) = failure.filter(|_| rows.is_empty()) {
        return Err(error);
    }
    read.forget_what_changed(&collection)?;
    Ok(rows)
}

/// Who judges the answers.
struct Judge<'a> {
    collection: &'a Collection,
    answerer: &'a Model,
    ledger: Ledger<'a>,
}

impl Judge<'_> {
    /// Judges an answer by all that it can be judged by, at once.
    fn row(&mut self, expected: &Expected, mode: &str, answered: &Answered) -> Result<Row> {
        let (model, options) = (self.answerer, &self.collection.options);
        let question = expected.question.as_str();
        let sources = &answered.sources[..answered.tags.len()];
        let batches = batches(sources, options.report_tokens as usize);
        let behind = documents(answered.sources.iter());
        let mut items: Vec<Item> = batches
            .iter()
            .map(|batch| {
                let mut texts = numbered(batch, sources);
                for (at, (number, ..)) in texts.iter_mut().enumerate() {
                    *number = (at + 1).to_string();
                }
                let request = prompts::context(model, options, question, &texts);
                Item::new(request, documents(batch.iter().map(|&at| &sources[at])))
            })
            .collect();
        if let Some(answer) = answered.text() {
            let texts = behind_answer(answered, sources, options.report_tokens as usize);
            let mut requests = vec![
                prompts::grounded(model, options, question, answer, &texts),
                prompts::relevance(model, options, question, answer),
            ];
            if let Some(expected) = &expected.answer {
                requests.push(prompts::correct(model, options, question, answer, expected));
            }
            items.extend(requests.into_iter().map(|request| Item::new(request, behind.clone())));
        }
        let before = self.ledger.calls;
        let answers = self.ledger.want(model, &items)?;
        let mut replies = replies(answers).into_iter();
        let mut failed = 0;

        let mut scored = Vec::new();
        for batch in &batches {
            match replies.next().flatten().map(|reply| scores(&reply, batch.len())) {
                Some(Ok(read)) => scored.extend(read.scores.into_iter().flatten()),
                _ => failed += 1,
            }
        }
        let context_relevance = (!scored.is_empty()).then(|| scored.iter().sum::<f64>() / BEST / scored.len() as f64);
        let (mut groundedness, mut unsupported, mut relevance, mut correctness) = (None, None, None, None);
        if answered.text().is_some() {
            match replies.next().flatten().and_then(|reply| support(&reply).ok()) {
                // An answer that states nothing is not grounded, nor is it not.
                Some(read) if read.statements.is_empty() => {}
                Some(read) => {
                    let (kept, lost): (Vec<_>, Vec<_>) = read.statements.into_iter().partition(|of| of.is_supported);
                    groundedness = Some(kept.len() as f64 / (kept.len() + lost.len()) as f64);
                    unsupported = Some(lost.into_iter().map(|of| of.text).collect());
                }
                None => failed += 1,
            }
            let mut graded = || {
                let grade = replies.next().flatten().and_then(|reply| grade(&reply).ok());
                failed += i64::from(grade.is_none());
                grade.map(|grade| grade.rating / BEST)
            };
            relevance = graded();
            correctness = expected.answer.as_ref().and_then(|_| graded());
        } else if expected.answer.is_some() {
            // No answer says nothing of the expected one.
            correctness = Some(0.0);
        }
        Ok((
            expected.question.clone(),
            mode.to_owned(),
            context_relevance,
            groundedness,
            relevance,
            correctness,
            answered.shown["answer"].as_str().map(str::to_owned),
            unsupported,
            answered.shown["calls"].as_i64().unwrap_or_default() + self.ledger.calls - before,
            failed,
        ))
    }
}

/// The texts that an answer is checked against, with their tags: those that it cites, then the others, as far as they fit.
fn behind_answer<'a>(
    answered: &'a Answered,
    sources: &'a [Source],
    budget: usize,
) -> Vec<(String, &'static str, &'a str)> {
    let cited: HashSet<String> = answered.shown["citations"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|citation| match &citation["n"] {
            Value::String(tag) => tag.clone(),
            number => number.to_string(),
        })
        .collect();
    let mut order: Vec<usize> = (0..sources.len()).collect();
    order.sort_by_key(|&at| !cited.contains(&answered.tags[at]));
    let mut spent = 0;
    order.retain(|&at| {
        let tokens = tokens::count(&sources[at].text);
        let fits = spent == 0 || spent + tokens <= budget;
        spent += if fits { tokens } else { 0 };
        fits
    });
    order.sort_unstable();
    order
        .into_iter()
        .map(|at| (answered.tags[at].clone(), sources[at].kind(), sources[at].text.as_str()))
        .collect()
}

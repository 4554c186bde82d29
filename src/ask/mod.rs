//! rag_ask: a question answered from passages, or from reports on the whole corpus; and its evaluation.

mod auto;
mod draft;
mod drift;
mod judge;
mod local;
mod mapped;
mod plain;
mod prompts;
mod select;
pub mod source;
mod triad;

use std::collections::HashSet;

use graphrag_text::fold;
use mapped::NOTHING;
use pgrx::PgSqlErrorCode;
use pgrx::prelude::*;
use serde_json::{Value, json};
use source::{Source, forget_what_changed};

use crate::collection::{Collection, literal, quoted};
use crate::error::{Error, Result, capital, in_range, notice_of, notice_with, required, sql};
use crate::model::{Answer, Ledger, Model, ledger};
use crate::pg::json::Json;
use crate::search::Scope;

const MODES: [&str; 6] = ["auto", "local", "plain", "global", "drift", "text"];

/// What is asked, and how it is to be answered.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    pub question: &'a str,
    pub mode: &'a str,
    /// The level whose reports are read, or the deepest one.
    pub level: Option<i32>,
    /// Only so many reports, the nearest.
    pub k: Option<i64>,
    /// Reports are rated from the coarsest level down.
    pub dynamic: bool,
    /// Rounds of retrieval, or of questions that follow.
    pub max_hops: Option<i32>,
    /// Each step is told at once.
    pub events: bool,
}

/// SQL: `rag_ask(collection, question, mode, level, k, filter, documents, dynamic, max_hops, events)`.
#[pg_extern(sql = false)]
#[allow(clippy::too_many_arguments, reason = "the arguments of the SQL function")]
fn rag_ask(
    collection: Option<&str>,
    question: Option<&str>,
    mode: Option<&str>,
    level: Option<i32>,
    k: Option<i32>,
    filter: Option<Json>,
    documents: Option<Vec<Option<i64>>>,
    dynamic: Option<bool>,
    max_hops: Option<i32>,
    events: Option<bool>,
) -> sql::Result<Json> {
    let scope = Scope::new(filter, documents)?;
    let wanted = Wanted {
        question: required(question, "question")?,
        mode: required(mode, "mode")?,
        level,
        k: k.map(i64::from),
        dynamic: required(dynamic, "dynamic")?,
        max_hops,
        events: required(events, "events")?,
    };
    Ok(ask(collection, &wanted, &scope)?.into())
}

impl Answered {
    /// The answer itself, unless it says that there is none.
    fn text(&self) -> Option<&str> {
        self.shown["answer"].as_str().filter(|text| *text != NOTHING)
    }
}

impl Wanted<'_> {
    /// Tells a step, if somebody listens: a NOTICE reaches the client at once, the JSON is its DETAIL.
    fn tell(&self, event: &str, more: impl FnOnce() -> Value) {
        if self.events {
            notice_with(
                format!("rag_ask: {event}"),
                json!({"event": event, "data": more()}).to_string(),
            );
        }
    }

    /// Tells what the answer will be made from: passages, and what the graph says.
    fn tell_sources(&self, sources: &[Source], tags: &[String]) {
        let of = |relations: bool| {
            let all = sources.iter().zip(tags);
            let some = all.filter(|(source, _)| (source.kind() == "relation") == relations);
            some.map(|(source, tag)| source.citation(json!(tag))).collect::<Value>()
        };
        self.tell("sources", || of(false));
        if sources.iter().any(|source| source.kind() == "relation") {
            self.tell("graph", || of(true));
        }
    }

    fn check(&self) -> Result<()> {
        if !MODES.contains(&self.mode) {
            return Err(Error::invalid(format!("unknown mode {}", quoted(self.mode)))
                .hint(format!("Modes are '{}'.", MODES.join("', '"))));
        }
        for (argument, is_given, modes) in [
            ("level", self.level.is_some(), &["global", "drift"][..]),
            ("k", self.k.is_some(), &["global", "drift"]),
            ("dynamic", self.dynamic, &["global"]),
            ("max_hops", self.max_hops.is_some(), &["drift", "local", "auto"]),
        ] {
            if is_given && !modes.contains(&self.mode) {
                return Err(Error::invalid(format!(
                    "{argument} is for the mode '{}' alone",
                    modes.join("' or '")
                )));
            }
        }
        if self.dynamic && self.k.is_some() {
            return Err(Error::invalid("k and dynamic exclude each other")
                .detail("Reports are either chosen by their vectors or rated by the answerer."));
        }
        self.level
            .map(|level| in_range(Some(level), "level", 0..=1000))
            .transpose()?;
        self.k
            .map(|k| in_range(Some(k), "k", 1..=i64::from(i32::MAX)))
            .transpose()?;
        self.max_hops
            .map(|hops| in_range(Some(hops), "max_hops", i32::from(self.mode != "drift")..=10))
            .transpose()?;
        Ok(())
    }
}

/// An answer.
struct Answered {
    /// What rag_ask shows.
    shown: Value,
    /// What was read for it.
    sources: Vec<Source>,
    /// The tags of the first ones, which the answerer has read; the others only a reranker.
    tags: Vec<String>,
}

/// Answers a question.
pub fn ask(name: Option<&str>, wanted: &Wanted, scope: &Scope) -> Result<Value> {
    wanted.check()?;
    let collection = open(name, reads_reports(wanted.mode))?;
    let answered = answer(&collection, wanted, scope)?;
    forget_what_changed(&collection, &answered.sources)?;
    wanted.tell("done", || answered.shown.clone());
    Ok(answered.shown)
}

fn reads_reports(mode: &str) -> bool {
    !matches!(mode, "plain" | "local")
}

/// Opens a collection for questions; those that read reports may have to write them.
fn open(name: Option<&str>, reads_reports: bool) -> Result<Collection> {
    let mut collection = Collection::write(name)?;
    if reads_reports && select::may_write(&collection)? {
        // The locks of a builder come before all others.
        drop(collection);
        collection = Collection::build_with_models(name, false)?;
    }
    ledger::retry_questions(&collection)?;
    Ok(collection)
}

fn answer(collection: &Collection, wanted: &Wanted, scope: &Scope) -> Result<Answered> {
    if wanted.mode == "auto" {
        let (mode, why) = auto::choose(collection, wanted.question, scope)?;
        let k = (mode == "global").then_some(auto::REPORTS);
        let max_hops = wanted.max_hops.filter(|_| mode == "local");
        wanted.tell("status", || json!({"mode": mode, "why": why}));
        let chosen = Wanted {
            mode,
            k,
            max_hops,
            ..*wanted
        };
        let mut answered = answer(collection, &chosen, scope)?;
        answered.shown["mode"] = json!(mode);
        answered.shown["why"] = json!(why);
        return Ok(answered);
    }
    if wanted.mode == "local" {
        return local::ask(collection, collection.options.answerer.as_ref(), wanted, scope);
    }
    let answerer = answerer(collection)?;
    match wanted.mode {
        "global" | "text" => mapped::ask(collection, answerer, wanted, scope),
        "drift" => drift::ask(collection, answerer, wanted, scope),
        _ => plain::ask(collection, answerer, wanted, scope),
    }
}

/// The answerer of a collection, which has to have one.
pub fn answerer(collection: &Collection) -> Result<&Model> {
    collection.options.answerer.as_ref().ok_or_else(|| {
        Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("collection {} has no answerer", quoted(&collection.name)),
        )
        .hint(format!(
            "SELECT rag_alter({}, '{{\"answerer\": \"server:name\"}}'), or function:schema.name.",
            literal(&collection.name)
        ))
    })
}

/// Nothing for a question that cannot be answered now, which does not spoil the others: it is told, and the reason kept.
fn unless_failed<T>(question: &str, answer: Result<T>, failure: &mut Option<Error>) -> Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is(PgSqlErrorCode::ERRCODE_EXTERNAL_ROUTINE_EXCEPTION) => {
            notice_of(
                format!("a question is left out, since {error}"),
                format!("It is {}.", quoted(question)),
                "The next call asks it again.".to_owned(),
            );
            *failure = Some(error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The one answer that was wanted, or why there is none.
pub fn answered(ledger: &Ledger, model: &Model, answer: Option<Answer>) -> Result<String> {
    match answer {
        Some(Answer::Text(text)) => Ok(text),
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

/// The questions that have not been asked yet, each of which counts as asked once it is taken.
fn unasked(questions: Vec<String>, asked: &mut HashSet<String>) -> impl Iterator<Item = String> {
    // A question that says nothing has no key.
    questions.into_iter().filter(|question| {
        let key = fold::name(question);
        !key.is_empty() && asked.insert(key)
    })
}

/// The answers of those that gave one; an error if none did.
fn texts(ledger: &Ledger, model: &Model, answers: Vec<Option<Answer>>) -> Result<Vec<Option<String>>> {
    if !answers.is_empty() && !answers.iter().any(|answer| matches!(answer, Some(Answer::Text(_)))) {
        answered(ledger, model, None)?;
    }
    Ok(replies(answers))
}

/// The texts of the answers that have one.
pub fn replies(answers: Vec<Option<Answer>>) -> Vec<Option<String>> {
    answers
        .into_iter()
        .map(|answer| match answer {
            Some(Answer::Text(text)) => Some(text),
            _ => None,
        })
        .collect()
}

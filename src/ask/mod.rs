//! rag_ask: a question answered from passages, or from reports on the whole corpus.

mod plain;
mod whole;

use pgrx::PgSqlErrorCode;
use pgrx::prelude::*;
use serde_json::Value;

use crate::collection::{Collection, literal, quoted};
use crate::error::{Error, Result, capital, in_range, required, sql};
use crate::model::{Answer, Ledger, Model};
use crate::pg::json::Json;
use crate::search::Scope;

const MODES: [&str; 2] = ["plain", "global"];

/// SQL: `rag_ask(collection, question, mode, level, k, filter, documents)`.
#[pg_extern(sql = false)]
fn rag_ask(
    collection: Option<&str>,
    question: Option<&str>,
    mode: Option<&str>,
    level: Option<i32>,
    k: Option<i32>,
    filter: Option<Json>,
    documents: Option<Vec<Option<i64>>>,
) -> sql::Result<Json> {
    let scope = Scope::new(filter, documents)?;
    Ok(ask(collection, question, mode, level, k, &scope)?)
}

fn ask(
    name: Option<&str>,
    question: Option<&str>,
    mode: Option<&str>,
    level: Option<i32>,
    k: Option<i32>,
    scope: &Scope,
) -> Result<Json> {
    let question = required(question, "question")?;
    let mode = required(mode, "mode")?;
    if !MODES.contains(&mode) {
        return Err(
            Error::invalid(format!("unknown mode \"{mode}\"")).hint(format!("Modes are '{}'.", MODES.join("', '")))
        );
    }
    for (argument, is_given) in [("level", level.is_some()), ("k", k.is_some())] {
        if is_given && mode != "global" {
            return Err(Error::invalid(format!("{argument} is for the mode 'global' alone")));
        }
    }
    let level = level
        .map(|level| in_range(Some(level), "level", 0..=1000))
        .transpose()?;
    let k = k.map(|k| in_range(Some(k), "k", 1..=i32::MAX)).transpose()?;
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
        "DELETE FROM {s}.model_call WHERE step IN ('ask', 'map') AND status = 'failed'",
        &[],
    )?;
    let answer: Value = match mode {
        "global" => whole::ask(&collection, answerer, question, level.unwrap_or(0), k, scope)?,
        _ => plain::ask(&collection, answerer, question, scope)?,
    };
    Ok(answer.into())
}

/// The one answer that was wanted, or why there is none.
fn answered(ledger: &Ledger, model: &Model, answer: Option<Answer>) -> Result<String> {
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

/// The numbers from 1 to `last` that an answer gives in square brackets, each once, ascending.
fn cited(answer: &str, last: usize) -> Vec<usize> {
    let mut cited: Vec<usize> = answer
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

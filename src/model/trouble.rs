//! What to say when a model does not answer.

use graphrag_provider::{FailureKind, Stop};
use pgrx::PgSqlErrorCode;

use super::{Part, Server};
use crate::collection::{Collection, quoted};
use crate::error::{Error, Result, capital, notice_of};

/// 22000 for a model that does not fit the collection: that is no item's fault.
pub fn check_dimensions(collection: &Collection, part: &Part, vector: &[f32]) -> Result<()> {
    let (has, wants) = (vector.len(), part.dimensions);
    if has == wants {
        return Ok(());
    }
    let whole = collection.options.dimensions;
    let (of, hint) = match wants == whole {
        true => (
            format!("collection {} has {wants}", quoted(&collection.name)),
            format!("Make the collection with dimensions => {has}, or take a model of {wants}"),
        ),
        false => (
            format!("its part of collection {} has {wants}", quoted(&collection.name)),
            format!(
                "Write {}({has}) in the embedder of a collection whose dimensions => {}",
                part.model.text,
                whole - wants + has
            ),
        ),
    };
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_DATA_EXCEPTION,
        format!("the embedder answers vectors of {has} dimensions, {of}"),
    )
    .hint(format!(
        "{hint}; some can be asked for another size by the option embedding_dimensions."
    )))
}

/// The error for a server that cannot be used.
pub fn stopped(server: &Server, stop: &Stop) -> Error {
    let code = match stop {
        Stop::Unreachable { .. } => PgSqlErrorCode::ERRCODE_FDW_UNABLE_TO_ESTABLISH_CONNECTION,
        Stop::Limited { .. } => PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
        _ => PgSqlErrorCode::ERRCODE_FDW_ERROR,
    };
    let hint = match stop {
        Stop::Unreachable {
            reason: FailureKind::TimedOut(_) | FailureKind::Status { .. },
        } => "Try again later; rag_refresh keeps what was answered before.",
        Stop::Unreachable { .. } => {
            "Look at base_url, and whether the service is up; rag_refresh keeps what was answered before."
        }
        Stop::Refused { status: 404, .. } => {
            "There is no such address or no such model; base_url ends before /chat/completions, most often in /v1."
        }
        Stop::Refused { status: 401 | 403, .. } => {
            "Its key is not good, or not for this model: the user mapping, api_key_file or api_key_env."
        }
        Stop::Refused { status: 300..=399, .. } => {
            "It redirects, which is not followed: base_url has to be the address itself."
        }
        Stop::Refused { .. } => "The account may have no credit left.",
        Stop::Limited { .. } => "Go on when the limit is over; the option requests_per_minute keeps below it.",
        _ => "ALTER SERVER sets its options.",
    };
    let settings = &server.settings;
    let models = [&settings.chat_model, &settings.embedding_model, &settings.rerank_model];
    let models: Vec<&str> = models.into_iter().flatten().map(String::as_str).collect();
    Error::new(code, format!("server {}: {stop}", quoted(&server.name)))
        .detail(format!(
            "Its base_url is {}, its models are {}.",
            settings.base_url,
            models.join(", ")
        ))
        .hint(hint)
}

/// The reason why most calls of a step have failed, from the ledger.
pub fn reason(collection: &Collection, step: &str) -> Result<Option<String>> {
    let sql = "SELECT error FROM {s}.model_call WHERE step = $1 AND status = 'failed' AND error IS NOT NULL \
               GROUP BY 1 ORDER BY count(*) DESC, error COLLATE \"C\" LIMIT 1";
    let found = collection.returning(sql, &[step.into()], |row| row.need(1))?;
    Ok(found.into_iter().next())
}

/// Says what a step has come to in which calls have failed, and why.
pub fn tell_failures(collection: &Collection, step: &str, what: String) -> Result<()> {
    let reason = reason(collection, step)?.unwrap_or_default();
    let stand_in = match step {
        "tree" | "describe" | "reports" => " The built-in summarizer stands in.",
        _ => "",
    };
    let sql = "SELECT EXISTS (SELECT FROM {s}.model_call WHERE step = $1 AND status = 'failed' AND attempts < $2)";
    let args = [step.into(), collection.options.max_attempts.into()];
    let is_tried_again: bool = collection.query_one(sql, &args, |row| row.need(1))?;
    let hint = match () {
        () if !is_tried_again => format!(
            "They have had max_attempts; UPDATE {}.model_call SET attempts = 0 WHERE status = 'failed' has them tried again.",
            collection.schema
        ),
        () if reason.starts_with("status 4") => {
            "Not all services know structured_output, token_limit, temperature and embedding_dimensions: options of the server.".to_owned()
        }
        () => format!(
            "Every reason stands in {}.model_call; the next refresh tries them again, up to max_attempts.",
            collection.schema
        ),
    };
    notice_of(what, format!("Most often: {}.{stand_in}", capital(&reason)), hint);
    Ok(())
}

/// The error for a model with which nothing works.
pub fn hopeless(collection: &Collection, step: &str, failed: i64) -> Result<Error> {
    let reason = reason(collection, step)?.unwrap_or_default();
    Ok(Error::new(
        PgSqlErrorCode::ERRCODE_EXTERNAL_ROUTINE_EXCEPTION,
        format!("{step}: the first {failed} calls have all failed"),
    )
    .detail(format!("Most often: {}.", capital(&reason)))
    .hint("They are pending again. Look at rag_health, the options of the server, or the function."))
}

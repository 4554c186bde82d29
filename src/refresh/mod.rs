//! CALL rag_refresh: everything that is pending in a collection, in short transactions.
//!
//! The procedure calls one round after another and commits each. A round either plans (reads documents, writes what can be
//! written, leaves pending calls in the ledger) or flies (sends calls, writes answers). What a run knows from round to round, and
//! the calls in the air, stand in the session; any abort lets go of both.

mod reembed;
mod run;
mod work;

use std::cell::RefCell;

use pgrx::PgSqlErrorCode;
use pgrx::prelude::*;

use crate::collection::{Collection, literal, quoted};
use crate::error::{Error, Result, at_least, required, sql};
use crate::pg::{lock, session};
pub use reembed::{learn_at_once, learn_if_due};
use run::Run;
use work::STEPS;
pub use work::{REEMBED, needs_tree};

thread_local! {
    static RUN: RefCell<Option<Run>> = const { RefCell::new(None) };
}

/// Ends what is in the air; called when a transaction aborts, too.
fn forget_run() {
    RUN.with(|run| {
        if let Ok(mut run) = run.try_borrow_mut() {
            *run = None;
        }
    });
}

/// SQL: `_refresh_start(collection, max_calls, steps)`, the first thing that rag_refresh does.
#[pg_extern(sql = false)]
fn _refresh_start(
    collection: Option<&str>,
    max_calls: Option<i64>,
    steps: Option<Vec<Option<String>>>,
) -> sql::Result<()> {
    Ok(start(collection, max_calls, steps)?)
}

fn start(name: Option<&str>, max_calls: Option<i64>, steps: Option<Vec<Option<String>>>) -> Result<()> {
    if !session::may_commit() {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_INVALID_TRANSACTION_TERMINATION,
            "rag_refresh cannot run inside a transaction block or a function",
        )
        .detail("It commits what it has done, step by step.")
        .hint("CALL it by itself; raptor_build, graph_extract, graph_communities and graph_summarize work within a transaction."));
    }
    let steps = steps
        .map(|steps| steps.into_iter().map(check_step).collect::<Result<Vec<_>>>())
        .transpose()?;
    let max_calls = max_calls
        .map(|calls| at_least(Some(calls), "max_calls", 1))
        .transpose()?;
    forget_run();
    let key = {
        let collection = Collection::write(name)?;
        collection.must_derive()?;
        u32::from(collection.oid).cast_signed()
    };
    session::hold(lock::ASK_CLASS, key, forget_run);
    session::touch();
    // Looked at again behind the lock: another refresh may just have finished.
    let collection = Collection::write(name)?;
    let run = Run::new(&collection, max_calls, steps)?;
    RUN.replace(Some(run));
    Ok(())
}

fn check_step(step: Option<String>) -> Result<&'static str> {
    let step = required(step, "a step")?;
    STEPS.into_iter().find(|known| *known == step).ok_or_else(|| {
        let known: Vec<String> = STEPS.iter().map(|step| literal(step)).collect();
        Error::invalid(format!("unknown step {}", quoted(&step))).hint(format!("Steps are {}.", known.join(", ")))
    })
}

/// SQL: `_refresh_round(collection)`: one short piece of work; answers whether there is more.
#[pg_extern(sql = false)]
fn _refresh_round(collection: Option<&str>) -> sql::Result<bool> {
    Ok(round(collection)?)
}

fn round(name: Option<&str>) -> Result<bool> {
    let name = required(name, "collection")?;
    // Out of its place while it works: if an ERROR unwinds from here, it is dropped with all that is in the air.
    let run = RUN.take().filter(|run| run.collection == name && session::may_commit());
    session::touch();
    let mut run = run.ok_or_else(|| {
        session::release();
        Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "no refresh of this collection is running in this session",
        )
        .hint(format!("CALL rag_refresh({})", literal(name)))
    })?;
    let more = run.round()?;
    if more {
        RUN.replace(Some(run));
    } else {
        session::release();
    }
    Ok(more)
}

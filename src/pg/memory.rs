//! The memory budget of builds. A failed Rust allocation would take the whole server down, so ask first.

use pgrx::{PgMemoryContexts, PgSqlErrorCode};

use crate::error::{Error, Result};
use crate::settings;

/// An error if `bytes` are more than `graphrag.build_memory` allows.
pub fn check(bytes: usize, what: &str) -> Result<()> {
    check_or(bytes, what, "build by partition")
}

/// The same, with what may be done `instead`.
pub fn check_or(bytes: usize, what: &str, instead: &str) -> Result<()> {
    let budget = settings::build_memory();
    if bytes <= budget {
        return Ok(());
    }
    let mib = |b: usize| b.div_ceil(1 << 20);
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY,
        format!("{what} needs more memory than graphrag.build_memory"),
    )
    .detail(format!(
        "It needs about {} MB, the budget is {} MB.",
        mib(bytes),
        mib(budget)
    ))
    .hint(format!(
        "SET graphrag.build_memory = '{}MB', or {instead}.",
        mib(bytes) + 1
    )))
}

/// Makes room for `more` values, with an error in place of a crash where there is none.
pub fn reserve<T>(values: &mut Vec<T>, more: usize) -> Result<()> {
    values
        .try_reserve_exact(more)
        .map_err(|_| Error::new(PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY, "out of memory"))
}

/// Runs a piece of work that is done many times in one statement, and then frees what PostgreSQL allocated for it.
pub fn scratch<T>(work: impl FnOnce() -> T) -> T {
    let mut context = PgMemoryContexts::new("graphrag scratch");
    // SAFETY: values that come out of PostgreSQL are copied into Rust's own memory, so that nothing points into the context.
    unsafe { context.switch_to(|_| work()) }
}

//! What may fail without the transaction failing with it.

use std::panic::AssertUnwindSafe;

use pgrx::pg_sys::panic::CaughtError;
use pgrx::{PgSqlErrorCode, PgTryBuilder, pg_sys};

use crate::error::{Result, raise};

/// The error that ended an attempt.
#[derive(Debug)]
pub struct Caught {
    pub message: String,
    pub hint: Option<String>,
    /// A name was not found: of a function, a type, a table, a column or a schema.
    pub is_undefined: bool,
}

/// Runs `f` in a subtransaction of its own; if it fails, what it wrote is rolled back and the transaction goes on.
///
/// As with WHEN OTHERS in PL/pgSQL, a cancel (which a time-out is, too) and a failed assertion are not caught; nor is a panic
/// of Rust code, which is one. Settings, user, snapshots and SPI connections are what they were, however it ends.
pub fn attempt<T>(f: impl FnOnce() -> Result<T>) -> std::result::Result<T, Caught> {
    let open = Subtransaction::begin();
    let ended = PgTryBuilder::new(AssertUnwindSafe(|| {
        let value = raise(f());
        open.release();
        Ok(value)
    }))
    .catch_others(Err)
    .execute();
    ended.map_err(|cause: CaughtError| {
        // Before the error goes on, too: whoever catches it ends one subtransaction, and means his own.
        open.roll_back();
        match &cause {
            CaughtError::PostgresError(report) | CaughtError::ErrorReport(report)
                if !matches!(
                    report.sql_error_code(),
                    PgSqlErrorCode::ERRCODE_QUERY_CANCELED | PgSqlErrorCode::ERRCODE_ASSERT_FAILURE
                ) =>
            {
                Caught {
                    message: report.message().to_owned(),
                    hint: report.hint().map(str::to_owned),
                    is_undefined: matches!(
                        report.sql_error_code(),
                        PgSqlErrorCode::ERRCODE_UNDEFINED_FUNCTION
                            | PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT
                            | PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE
                            | PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN
                            | PgSqlErrorCode::ERRCODE_INVALID_SCHEMA_NAME
                    ),
                }
            }
            _ => cause.rethrow(),
        }
    })
}

/// An open subtransaction, and what was current before it.
struct Subtransaction {
    memory: pg_sys::MemoryContext,
    owner: pg_sys::ResourceOwner,
    has_snapshot: bool,
}

impl Subtransaction {
    fn begin() -> Subtransaction {
        // SAFETY: called inside a transaction on the backend's own thread. The memory context of before stays current, so that
        // results outlive the subtransaction, as in PL/pgSQL.
        unsafe {
            let before = Subtransaction {
                memory: pg_sys::CurrentMemoryContext,
                owner: pg_sys::CurrentResourceOwner,
                has_snapshot: pg_sys::GetTopTransactionIdIfAny() != pg_sys::InvalidTransactionId,
            };
            pg_sys::BeginInternalSubTransaction(std::ptr::null());
            pg_sys::MemoryContextSwitchTo(before.memory);
            if before.has_snapshot {
                // pgrx takes a new subtransaction for one that has not written, and would read with the snapshot of the calling
                // statement, which does not see what this transaction has written since.
                pg_sys::CommandCounterIncrement();
                pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
            }
            before
        }
    }

    fn release(&self) {
        // SAFETY: the subtransaction is the innermost one, since everything opened inside it has ended.
        unsafe {
            if self.has_snapshot {
                pg_sys::PopActiveSnapshot();
            }
            pg_sys::ReleaseCurrentSubTransaction();
            self.restore();
        }
    }

    fn roll_back(&self) {
        // SAFETY: an error has unwound everything inside the subtransaction; its abort pops its snapshots, closes its SPI
        // connections and restores user and settings.
        unsafe {
            pg_sys::RollbackAndReleaseCurrentSubTransaction();
            self.restore();
        }
    }

    /// # Safety
    /// The memory context and the resource owner belong to an outer level, which must still be open.
    unsafe fn restore(&self) {
        // SAFETY: see above.
        unsafe {
            pg_sys::MemoryContextSwitchTo(self.memory);
            pg_sys::CurrentResourceOwner = self.owner;
        }
    }
}

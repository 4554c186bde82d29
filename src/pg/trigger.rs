//! What a trigger function sees: the transition tables of its statement.

use pgrx::PgSqlErrorCode;
use pgrx::pg_sys;
use pgrx::prelude::*;

use super::spi::{Arg, Row};
use crate::error::{Error, Result};

/// `old_rows` and `new_rows` of the statement that fired a trigger, readable by the statements run through it.
pub struct Transition<'a>(pub &'a PgTrigger<'a>);

impl Transition<'_> {
    fn register(&self) -> Result<()> {
        // SAFETY: SPI is connected (the callers below connect first) and the trigger data outlives the connection.
        let code = unsafe { pg_sys::SPI_register_trigger_data(std::ptr::from_ref(self.0.trigger_data()).cast_mut()) };
        if code < 0 {
            return Err(Error::internal(format!(
                "transition tables could not be registered ({code})"
            )));
        }
        Ok(())
    }

    pub fn query<T>(&self, sql: &str, args: &[Arg], mut read: impl FnMut(&Row) -> Result<T>) -> Result<Vec<T>> {
        Spi::connect(|client| {
            self.register()?;
            client
                .select(sql, None, args)?
                .map(|row| read(&Row::new(row)))
                .collect()
        })
    }
}

/// 39P01: a trigger function of a collection on something else.
pub fn misplaced() -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
        "this trigger function serves the tables of a collection only",
    )
    .hint("rag_create makes the triggers that a collection needs.")
}

/// The owner of the table that fired the trigger.
pub fn table_owner(trigger: &PgTrigger) -> Result<pg_sys::Oid> {
    let relation = trigger.relation().map_err(|e| Error::internal(e.to_string()))?;
    // SAFETY: the relation is open while its trigger runs, and rd_rel is always set for an open relation.
    Ok(unsafe { (*relation.rd_rel).relowner })
}

/// The schema of the table that fired the trigger.
pub fn table_schema(trigger: &PgTrigger) -> Result<pg_sys::Oid> {
    let relation = trigger.relation().map_err(|e| Error::internal(e.to_string()))?;
    Ok(relation.namespace_oid())
}

//! Locks of one collection, held until the transaction ends (a session lock would outlive an error).

use pgrx::pg_sys;

use super::spi;
use super::subtransaction::attempt;
use crate::collection::Collection;
use crate::error::Result;

/// First key of the advisory locks: "grag". The second is the oid of the collection's schema.
const CLASS: i32 = 0x6772_6167;

/// "grak", for those who ask models.
pub const ASK_CLASS: i32 = 0x6772_616b;

/// For functions that derive rows from documents: waits for, and then keeps out, other builds and changes of documents.
///
/// Without it a document could be deleted while a summary of it is being written by another transaction, which the
/// deletion cannot see.
pub fn build(schema: pg_sys::Oid) -> Result<()> {
    let key = u32::from(schema).cast_signed();
    take("SELECT pg_catalog.pg_advisory_xact_lock($1, $2)", key)
}

/// For UPDATE, DELETE and TRUNCATE of documents: they do not wait for each other, only for builds.
pub fn change(schema: pg_sys::Oid) -> Result<()> {
    let key = u32::from(schema).cast_signed();
    take("SELECT pg_catalog.pg_advisory_xact_lock_shared($1, $2)", key)
}

/// For functions that ask models of a collection: one at a time, so that nothing is asked twice. Taken before [`build`].
pub fn ask(schema: pg_sys::Oid) -> Result<()> {
    let key = u32::from(schema).cast_signed();
    let taken = spi::returning(
        "SELECT pg_catalog.pg_try_advisory_xact_lock($1, $2)",
        &[ASK_CLASS.into(), key.into()],
        |row| row.need::<bool>(1),
    )?;
    if taken == [true] {
        return Ok(());
    }
    tell_waiting();
    let sql = "SELECT pg_catalog.pg_advisory_xact_lock($1, $2)";
    spi::returning(sql, &[ASK_CLASS.into(), key.into()], |_| Ok(()))?;
    Ok(())
}

/// Keeps out builds and other writers of leaves, if there are none at work: what a trigger may do, which must not wait while
/// it holds what they wait for. A later statement of the transaction waits for nobody either.
pub fn try_alone(collection: &Collection) -> Result<bool> {
    let key = u32::from(collection.oid).cast_signed();
    let sql = "SELECT pg_catalog.pg_try_advisory_xact_lock($1, $2)";
    if spi::returning(sql, &[CLASS.into(), key.into()], |row| row.need::<bool>(1))? != [true] {
        return Ok(false);
    }
    let lock = || {
        collection
            .execute("LOCK TABLE {s}.node IN SHARE ROW EXCLUSIVE MODE NOWAIT", &[])
            .map(drop)
    };
    Ok(attempt(lock).is_ok())
}

/// Says for whom [`ask`] waits.
pub fn tell_waiting() {
    pgrx::notice!("waiting for another session that asks models for this collection");
}

/// Run as a statement that writes: from then on pgrx gives every statement of the transaction a snapshot of its own, which
/// sees what others committed while this one waited.
fn take(sql: &str, key: i32) -> Result<()> {
    spi::returning(sql, &[CLASS.into(), key.into()], |_| Ok(()))?;
    Ok(())
}

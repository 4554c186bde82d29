//! The only room with `unsafe`: what touches Postgres' memory, user, settings and triggers, behind safe functions.

pub mod frame;
pub mod json;
pub mod lock;
pub mod memory;
pub mod session;
pub mod spi;
pub mod subtransaction;
pub mod threads;
pub mod trigger;
pub mod tsvector;
pub mod vector;

use std::time::Duration;

/// Ends the statement if a cancel, a time-out or a shutdown is asked for. Long loops of the pure crates call it.
pub fn tick() {
    pgrx::check_for_interrupts!();
}

/// When the statement of the client began: what tells one statement of a session from the next.
pub fn statement() -> i64 {
    // SAFETY: a plain read of backend state.
    unsafe { pgrx::pg_sys::GetCurrentStatementStartTimestamp() }
}

/// What this backend with its threads has used of the processor until now.
pub fn cpu_time() -> Duration {
    let mut used = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `used` is a plain value that the call fills.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut used) };
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}

/// Makes `graphrag.*` refuse parameters that do not exist.
pub fn reserve_prefix() {
    // SAFETY: called once from _PG_init; the string is static.
    unsafe { pgrx::pg_sys::MarkGUCPrefixReserved(c"graphrag".as_ptr()) }
}

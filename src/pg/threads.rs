//! Helper threads: what must be true of a thread of a backend that knows nothing of Postgres.

use std::num::NonZero;

use graphrag_linear::Crew;

use super::spi;
use crate::error::Result;

/// The threads that work for one build: as many as PostgreSQL would take to build an index, and as there are processors.
pub fn crew() -> Result<Crew> {
    let sql = "SELECT setting::int FROM pg_catalog.pg_settings WHERE name OPERATOR(pg_catalog.=) 'max_parallel_maintenance_workers'";
    let helpers: i32 = spi::query(sql, &[], |row| row.need(1))?.pop().unwrap_or(0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = NonZero::new((helpers.max(0) as usize + 1).min(cores)).unwrap_or(NonZero::<usize>::MIN);
    Ok(Crew {
        threads,
        spawning: |spawn| without_signals(spawn),
    })
}

/// Runs `spawn`, which starts threads, with all signals blocked: the threads inherit that, so that a signal for the backend
/// is never handled on one of them.
pub fn without_signals<T>(spawn: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are plain values that the calls fill; the mask of this thread is restored before anything else runs.
    let before = unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        before
    };
    let result = spawn();
    // SAFETY: `before` was filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    result
}

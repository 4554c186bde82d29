//! Helper threads: what must be true of a thread of a backend that knows nothing of Postgres.

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

//! What a session keeps over several transactions: a lock, and something that must be let go when any of them aborts.

use std::cell::Cell;

use pgrx::pg_sys;

thread_local! {
    static HELD: Cell<Option<pg_sys::LOCKTAG>> = const { Cell::new(None) };
    static TOUCHED: Cell<bool> = const { Cell::new(false) };
    static ON_ABORT: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// Says that this transaction goes on with what the lock is for: if one commits that does not, the lock is let go.
pub fn touch() {
    TOUCHED.set(true);
}

/// PostgreSQL's mark of advisory locks with two keys of four bytes.
const TWO_KEYS: u16 = 2;
/// DEFAULT_LOCKMETHOD is for tables and rows, this one for advisory locks.
const USER_LOCKMETHOD: u8 = 2;

/// Waits for the advisory lock of two keys and holds it until [`release`], or until a transaction of this session aborts
/// or commits without [`touch`]; `on_abort` is called then, too. A plain session lock would outlive the error.
pub fn hold(class: i32, key: i32, on_abort: fn()) {
    let tag = pg_sys::LOCKTAG {
        // SAFETY: a plain read of backend state.
        locktag_field1: u32::from(unsafe { pg_sys::MyDatabaseId }),
        locktag_field2: class.cast_unsigned(),
        locktag_field3: key.cast_unsigned(),
        locktag_field4: TWO_KEYS,
        locktag_type: pg_sys::LockTagType::LOCKTAG_ADVISORY as u8,
        locktag_lockmethodid: USER_LOCKMETHOD,
    };
    if ON_ABORT.get().is_none() {
        // SAFETY: the callback is a static function that lives as long as the library, which is never unloaded.
        unsafe { pg_sys::RegisterXactCallback(Some(at_end), std::ptr::null_mut()) };
    }
    ON_ABORT.set(Some(on_abort));
    release();
    // SAFETY: the tag lives through the call; the wait ends with an ERROR if the statement is cancelled.
    let acquire = |dont_wait| unsafe { pg_sys::LockAcquire(&tag, pg_sys::ExclusiveLock as i32, true, dont_wait) };
    if acquire(true) == pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL {
        super::lock::tell_waiting();
        acquire(false);
    }
    HELD.set(Some(tag));
}

/// Lets the lock go, if nobody else has (DISCARD ALL does).
pub fn release() {
    if let Some(tag) = HELD.take() {
        // SAFETY: both look at the locks of this session; allowed while a transaction aborts, too.
        unsafe {
            if is_held(&tag) {
                pg_sys::LockRelease(&tag, pg_sys::ExclusiveLock as i32, true);
            }
        }
    }
}

/// # Safety
/// To be called on the backend's own thread.
#[cfg(any(feature = "pg15", feature = "pg16"))]
unsafe fn is_held(tag: &pg_sys::LOCKTAG) -> bool {
    // SAFETY: the tag lives through the call.
    unsafe { pg_sys::LockHeldByMe(tag, pg_sys::ExclusiveLock as i32) }
}

/// # Safety
/// To be called on the backend's own thread.
#[cfg(not(any(feature = "pg15", feature = "pg16")))]
unsafe fn is_held(tag: &pg_sys::LOCKTAG) -> bool {
    // SAFETY: the tag lives through the call.
    unsafe { pg_sys::LockHeldByMe(tag, pg_sys::ExclusiveLock as i32, false) }
}

/// Called by PostgreSQL at the end of each transaction.
#[pgrx::pg_guard]
unsafe extern "C-unwind" fn at_end(event: pg_sys::XactEvent::Type, _nothing: *mut std::ffi::c_void) {
    let left = match event {
        pg_sys::XactEvent::XACT_EVENT_ABORT => true,
        pg_sys::XactEvent::XACT_EVENT_COMMIT => !TOUCHED.take(),
        _ => false,
    };
    if left && HELD.get().is_some() {
        if let Some(on_abort) = ON_ABORT.get() {
            on_abort();
        }
        release();
    }
}

/// Whether the caller is a procedure that may commit.
pub fn may_commit() -> bool {
    // SAFETY: plain looks at the stacks of SPI and of subtransactions, in one of which (a block with EXCEPTION) nothing commits.
    unsafe { pg_sys::SPI_inside_nonatomic_context() && pg_sys::GetCurrentTransactionNestLevel() == 1 }
}

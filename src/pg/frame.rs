//! The frame in which the extension's own statements run: a pinned search_path, further settings, another user.
//!
//! With `search_path = pg_catalog, pg_temp` every unqualified operator and function is PostgreSQL's own, whatever the
//! caller has set. A GUC nest level is used because SET is not allowed in a STABLE function, and a SET clause on a
//! function would stop it from being inlined.

use std::ffi::CString;

use pgrx::pg_sys;

use crate::error::{Error, Result};

/// Settings that hold until it is dropped.
pub struct Frame {
    level: i32,
}

impl Frame {
    /// Pins the search_path, how literals are read and how names are written.
    pub fn enter() -> Result<Frame> {
        // SAFETY: called inside a transaction on the backend's own thread.
        let frame = Frame {
            level: unsafe { pg_sys::NewGUCNestLevel() },
        };
        frame.set("search_path", "pg_catalog, pg_temp")?;
        frame.set("standard_conforming_strings", "on")?;
        frame.set("quote_all_identifiers", "off")?;
        Ok(frame)
    }

    /// Sets one more parameter for the life of the frame.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        let c_string = |s: &str| CString::new(s).map_err(|_| Error::internal("zero byte in a setting"));
        let (c_name, c_value) = (c_string(name)?, c_string(value)?);
        // SAFETY: both strings live through the call, which copies them. GUC_ACTION_SAVE undoes it at the nest level.
        unsafe {
            pg_sys::set_config_option(
                c_name.as_ptr(),
                c_value.as_ptr(),
                pg_sys::GucContext::PGC_USERSET,
                pg_sys::GucSource::PGC_S_SESSION,
                pg_sys::GucAction::GUC_ACTION_SAVE,
                true,
                0,
                false,
            );
        }
        Ok(())
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        // While an ERROR unwinds, the abort of the (sub)transaction restores the settings itself.
        if !std::thread::panicking() {
            // SAFETY: the level was opened by enter(), and frames are dropped in reverse order.
            unsafe { pg_sys::AtEOXact_GUC(true, self.level) }
        }
    }
}

/// Another current user until it is dropped, in a security-restricted operation, as CREATE INDEX does for expressions.
pub struct AsUser {
    user: pg_sys::Oid,
    context: i32,
}

impl AsUser {
    /// Whoever is that user already goes on as before: there is nobody to protect from whom.
    pub fn switch(user: pg_sys::Oid) -> AsUser {
        let before = AsUser::current();
        if user != before.user {
            before.restrict(user);
        }
        before
    }

    /// Restricted even for whoever is that user already: what runs then must not depend on who calls.
    pub fn restricted(user: pg_sys::Oid) -> AsUser {
        let before = AsUser::current();
        before.restrict(user);
        before
    }

    fn current() -> AsUser {
        let mut now = AsUser {
            user: pg_sys::Oid::INVALID,
            context: 0,
        };
        // SAFETY: plain reads of backend state.
        unsafe { pg_sys::GetUserIdAndSecContext(&mut now.user, &mut now.context) }
        now
    }

    fn restrict(&self, user: pg_sys::Oid) {
        let restricted = pg_sys::SECURITY_LOCAL_USERID_CHANGE | pg_sys::SECURITY_RESTRICTED_OPERATION;
        // SAFETY: plain writes of backend state; the abort of a (sub)transaction restores it if an ERROR unwinds.
        unsafe { pg_sys::SetUserIdAndSecContext(user, self.context | restricted as i32) }
    }
}

impl Drop for AsUser {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: restores what current() found.
            unsafe { pg_sys::SetUserIdAndSecContext(self.user, self.context) }
        }
    }
}

/// Whether nothing may be written: in a read-only transaction, and on a standby.
pub fn is_read_only() -> bool {
    // SAFETY: a plain read of backend state.
    unsafe { pg_sys::XactReadOnly }
}

/// Whether the current user is a member of `role`, directly or not, or a superuser.
pub fn is_member_of(role: pg_sys::Oid) -> bool {
    // SAFETY: catalogue lookups on the backend's own thread.
    unsafe { pg_sys::has_privs_of_role(pg_sys::GetUserId(), role) }
}

/// Whether the current user is a superuser.
pub fn is_superuser() -> bool {
    // SAFETY: a catalogue lookup on the backend's own thread.
    unsafe { pg_sys::superuser() }
}

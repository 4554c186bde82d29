//! A word now and then from what takes long.

use std::time::{Duration, Instant};

use pgrx::notice;

const EVERY: Duration = Duration::from_secs(10);

/// Says how far a build is, at most every ten seconds.
pub struct Progress(Instant);

impl Progress {
    pub fn start() -> Progress {
        Progress(Instant::now())
    }

    pub fn say(&mut self, what: impl FnOnce() -> String) {
        if self.0.elapsed() >= EVERY {
            notice!("{}", what());
            self.0 = Instant::now();
        }
    }
}

/// A number and what is counted: `1 block`, `2 blocks`.
pub fn count(number: i64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

//! When a request may start: the pace that is set, and the waits that the service asks for, which hold for all requests.

use crate::{MAX_WAIT, Settings, Stop};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Starts that timers let slip are caught up with if they were due within this time.
const CATCH_UP: Duration = Duration::from_millis(20);

/// The shortest wait after a request that the rate limit turned away.
const MIN_WAIT: Duration = Duration::from_millis(100);

/// Replies in a row that say that there are too many requests, from which on their waits are added up.
const MANY_LIMITED: u32 = 20;

pub(crate) struct Limits {
    /// Between two starts.
    interval: Duration,
    state: Mutex<State>,
}

struct State {
    next_start: Instant,
    /// No request starts before.
    pause_until: Instant,
    /// When the last pause was made: a request sent before tells nothing about the time after it.
    paused_at: Option<Instant>,
    /// Pauses of a length that the service did not set, since it last took a request.
    pauses: u32,
    /// Requests turned away since then, and when the first one was.
    limited: u32,
    limited_since: Instant,
}

impl Limits {
    pub(crate) fn new(settings: &Settings) -> Self {
        let now = Instant::now();
        let per_minute = settings.requests_per_minute;
        Self {
            interval: per_minute.map_or(Duration::ZERO, |count| Duration::from_secs(60) / count.max(1)),
            state: Mutex::new(State {
                next_start: now,
                pause_until: now,
                paused_at: None,
                pauses: 0,
                limited: 0,
                limited_since: now,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a request may start, and counts it.
    pub(crate) async fn turn(&self) {
        while let Err(time) = self.try_start(Instant::now()) {
            sleep_until(time).await;
        }
    }

    /// Counts a start, or tells when to ask again.
    fn try_start(&self, now: Instant) -> Result<(), Instant> {
        let mut state = self.state();
        let time = state.next_start.max(state.pause_until);
        if now < time {
            return Err(time);
        }
        let due = now.checked_sub(CATCH_UP).map_or(now, |past| state.next_start.max(past));
        state.next_start = due + self.interval;
        Ok(())
    }

    /// The service took a request, whatever came of it.
    pub(crate) fn let_through(&self) {
        let mut state = self.state();
        (state.pauses, state.limited) = (0, 0);
    }

    /// Holds back all requests for as long as the service asks.
    pub(crate) fn pause(&self, wait: Duration) -> Result<(), Stop> {
        if wait > MAX_WAIT {
            return Err(Stop::Limited { wait });
        }
        let mut state = self.state();
        let now = Instant::now();
        state.paused_at = Some(now);
        state.pause_until = state.pause_until.max(now + wait);
        Ok(())
    }

    /// The request sent at `sent` was turned away, with the wait that the service asks for if it asks for one.
    pub(crate) fn limited(&self, sent: Instant, wait: Option<Duration>) -> Result<(), Stop> {
        let wait = {
            let mut state = self.state();
            let now = Instant::now();
            if state.limited == 0 {
                state.limited_since = now;
            }
            state.limited += 1;
            let wait = match wait {
                Some(wait) => wait,
                None if state.paused_at.is_some_and(|time| sent <= time) => return Ok(()),
                None => {
                    state.pauses += 1;
                    backoff(Duration::from_secs(1), Duration::from_secs(60), state.pauses)
                }
            };
            if state.limited >= MANY_LIMITED && now - state.limited_since > MAX_WAIT {
                return Err(Stop::Limited { wait });
            }
            wait
        };
        self.pause(wait.max(MIN_WAIT))
    }
}

/// The wait before the `nth` new try, from 1: between none and `base`, doubled for each try up to `cap`.
///
/// The whole of it is drawn, so that requests that failed together are not all sent again together.
pub(crate) fn backoff(base: Duration, cap: Duration, nth: u32) -> Duration {
    let most = base.saturating_mul(1 << nth.saturating_sub(1).min(16)).min(cap);
    // Each `RandomState` has other keys.
    let draw = RandomState::new().build_hasher().finish();
    most.mul_f64(draw as f64 / u64::MAX as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Api;

    fn limits(per_minute: Option<u32>) -> Limits {
        let mut settings = Settings::new(Api::OpenAi, "http://localhost/v1");
        settings.requests_per_minute = per_minute;
        Limits::new(&settings)
    }

    #[test]
    fn starts_are_spread_over_the_minute() {
        let limits = limits(Some(600));
        let begin = limits.state().next_start;
        let mut now = begin;
        for _ in 0..1000 {
            while let Err(time) = limits.try_start(now) {
                // A timer that is late by a millisecond.
                now = time + Duration::from_millis(1);
            }
        }
        let took = now - begin;
        assert!(
            took >= Duration::from_millis(99_900) && took < Duration::from_millis(99_910),
            "{took:?}"
        );

        // An hour without requests saves up none of them.
        now += Duration::from_secs(3600);
        assert_eq!(limits.try_start(now), Ok(()));
        assert!(limits.try_start(now).is_err());
    }

    #[test]
    fn a_pause_holds_for_all_and_a_longer_one_wins() {
        let limits = limits(None);
        let now = Instant::now();
        limits.limited(now, Some(Duration::from_secs(30))).unwrap();
        limits.limited(now, Some(Duration::from_secs(2))).unwrap();
        let time = limits.try_start(Instant::now()).unwrap_err();
        assert!(time >= now + Duration::from_secs(30));
        limits.let_through();
        assert!(limits.try_start(Instant::now()).is_err());
        assert_eq!(limits.try_start(time), Ok(()));
    }

    #[test]
    fn requests_turned_away_together_are_one_pause() {
        let limits = limits(None);
        let sent = Instant::now();
        for _ in 0..16 {
            limits.limited(sent, None).unwrap();
        }
        assert_eq!(limits.state().limited, 16);
        assert_eq!(limits.state().pauses, 1);
        limits.limited(Instant::now() + Duration::from_millis(1), None).unwrap();
        assert_eq!(limits.state().pauses, 2);
    }

    #[test]
    fn too_long_waits_are_the_end() {
        let limits = limits(None);
        let wait = MAX_WAIT + Duration::from_secs(1);
        assert_eq!(limits.limited(Instant::now(), Some(wait)), Err(Stop::Limited { wait }));

        let limits = self::limits(None);
        for _ in 0..MANY_LIMITED {
            limits.limited(Instant::now(), Some(Duration::from_secs(60))).unwrap();
        }
        let past = Instant::now().checked_sub(MAX_WAIT + Duration::from_secs(1));
        limits.state().limited_since = past.expect("a machine that has been up for ten minutes");
        let wait = Duration::from_secs(60);
        assert_eq!(limits.limited(Instant::now(), Some(wait)), Err(Stop::Limited { wait }));
        limits.let_through();
        assert_eq!(limits.limited(Instant::now(), Some(wait)), Ok(()));
    }

    #[test]
    fn backoff_doubles_up_to_its_cap() {
        let (base, cap) = (Duration::from_millis(500), Duration::from_secs(30));
        for (nth, most) in [(1, 500), (2, 1000), (5, 8000), (7, 30_000), (u32::MAX, 30_000)] {
            let draws: Vec<Duration> = (0..200).map(|_| backoff(base, cap, nth)).collect();
            assert!(draws.iter().all(|&draw| draw <= Duration::from_millis(most)));
            assert!(draws.iter().any(|&draw| draw > Duration::from_millis(most / 2)));
            assert!(draws.iter().any(|&draw| draw < Duration::from_millis(most / 2)));
        }
    }
}

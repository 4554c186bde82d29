//! Work that is shared by threads.

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder, Thread};
use std::time::Duration;

/// Multiplications between two calls of `tick`, a millisecond or two of work.
const WORK_PER_TICK: usize = 1 << 22;

/// Time between two calls of `tick` while the calling thread waits for the others.
const WAIT: Duration = Duration::from_millis(10);

/// How many threads share the work, and what is called to start them.
#[derive(Clone, Copy, Debug)]
pub struct Crew {
    pub threads: NonZero<usize>,
    pub spawning: fn(&mut dyn FnMut()),
}

/// The calling thread has unwound: what the others do is of no use.
pub struct Stopped;

/// Counts the work of one thread, and lets it be interrupted.
pub struct Pace<'a> {
    /// Only the calling thread's.
    tick: Option<&'a mut dyn FnMut()>,
    stop: &'a AtomicBool,
    work: usize,
}

impl<'a> Pace<'a> {
    fn new(tick: Option<&'a mut dyn FnMut()>, stop: &'a AtomicBool) -> Self {
        Self { tick, stop, work: 0 }
    }

    /// To be called before each `work` of multiplications, which should be much fewer than [`WORK_PER_TICK`].
    pub fn step(&mut self, work: usize) -> Result<(), Stopped> {
        self.work += work;
        if self.work < WORK_PER_TICK {
            return Ok(());
        }
        self.work = 0;
        match &mut self.tick {
            Some(tick) => tick(),
            None if self.stop.load(Ordering::Relaxed) => return Err(Stopped),
            None => {}
        }
        Ok(())
    }
}

/// Says that a helper has ended, also when it unwinds.
struct Ended<'a> {
    running: &'a AtomicUsize,
    caller: &'a Thread,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Ordering::Release);
        self.caller.unpark();
    }
}

impl Crew {
    /// Does each of `tasks` once, with a `state` made for each thread. The calling thread works too, and only it calls `tick`.
    ///
    /// When `tick` unwinds, so does this, after the other threads have stopped. A thread that can't be started is done without.
    pub fn share<T: Send, S>(
        &self,
        tick: &mut dyn FnMut(),
        tasks: impl ExactSizeIterator<Item = T> + Send,
        state: impl Fn() -> S + Sync,
        work: impl Fn(&mut S, T, &mut Pace) -> Result<(), Stopped> + Sync,
    ) {
        let helpers = self.threads.get().min(tasks.len()).saturating_sub(1);
        let (stop, running) = (AtomicBool::new(false), AtomicUsize::new(0));
        let tasks = Mutex::new(tasks);
        let run = |pace: &mut Pace| {
            let mut state = state();
            loop {
                let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
                match task {
                    Some(task) => work(&mut state, task, pace)?,
                    None => return Ok(()),
                }
            }
        };
        let caller = thread::current();
        thread::scope(|scope| {
            let help = || {
                let _ended = Ended {
                    running: &running,
                    caller: &caller,
                };
                // What stopped it unwinds in the calling thread.
                let _: Result<(), Stopped> = run(&mut Pace::new(None, &stop));
            };
            let mut spawn = || {
                for _ in 0..helpers {
                    running.fetch_add(1, Ordering::Relaxed);
                    if Builder::new()
                        .name("graphrag".into())
                        .spawn_scoped(scope, help)
                        .is_err()
                    {
                        running.fetch_sub(1, Ordering::Relaxed);
                    }
                }
            };
            if helpers > 0 {
                (self.spawning)(&mut spawn);
            }
            let main = AssertUnwindSafe(|| {
                let _: Result<(), Stopped> = run(&mut Pace::new(Some(tick), &stop));
                while running.load(Ordering::Acquire) > 0 {
                    tick();
                    thread::park_timeout(WAIT);
                }
            });
            if let Err(panic) = catch_unwind(main) {
                stop.store(true, Ordering::Relaxed);
                resume_unwind(panic);
            }
        });
    }
}

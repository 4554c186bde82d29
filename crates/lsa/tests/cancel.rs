//! How the work is interrupted.

use graphrag_lsa::{Counts, Learner, Options};
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

static SPAWNED: AtomicUsize = AtomicUsize::new(0);

fn sample(texts: u32, terms: u32) -> Counts {
    let mut counts = Counts::new();
    for text in 0..texts {
        let term = |i: u32| (text.wrapping_mul(2_654_435_761).rotate_left(i) % terms, 1);
        counts.push(&(0..32).map(term).collect::<Vec<_>>());
    }
    counts
}

fn learner(threads: usize, tick: &mut dyn FnMut()) -> Learner {
    let mut options = Options::new(NonZero::new(128).unwrap());
    options.threads = NonZero::new(threads).unwrap();
    options.spawning = |spawn| {
        SPAWNED.fetch_add(1, Ordering::Relaxed);
        spawn();
    };
    Learner::new(&sample(6000, 5000), &[1.0; 5000], options, tick).unwrap()
}

/// Threads of this process.
fn running() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

#[test]
fn ticks_are_frequent_and_a_panic_in_one_stops_all_threads() {
    let (caller, threads) = (thread::current().id(), running());
    let mut ticks = 0;
    let mut tick = || {
        assert_eq!(thread::current().id(), caller);
        ticks += 1;
    };
    learner(2, &mut tick).run(&mut tick);
    assert!(ticks > 300, "{ticks} ticks");
    assert!(SPAWNED.load(Ordering::Relaxed) >= 12);

    for at in [1, 5, 50, 150, 300] {
        let mut ticks = 0;
        let mut tick = || {
            ticks += 1;
            if ticks == at {
                std::panic::resume_unwind(Box::new("cancelled"));
            }
        };
        let panic = catch_unwind(AssertUnwindSafe(|| learner(3, &mut tick).run(&mut tick)))
            .err()
            .unwrap();
        assert_eq!(panic.downcast_ref(), Some(&"cancelled"));
        assert_eq!(ticks, at);
        // A thread that has been joined may be seen for a moment yet.
        let start = Instant::now();
        while running() > threads && start.elapsed() < Duration::from_secs(5) {
            thread::yield_now();
        }
        assert!(running() <= threads);
    }
}

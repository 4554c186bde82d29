//! Whether the stated memory is what is taken.

use graphrag_lsa::{Counts, Learner, Options, bytes_needed};
use std::alloc::{GlobalAlloc, Layout, System};
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn the_memory_is_what_was_said() {
    let mut options = Options::new(NonZero::new(100).unwrap());
    for (texts, terms, held, threads) in [
        (3000, 4000, 30, 1),
        (3000, 4000, 30, 3),
        (300, 50_000, 100, 2),
        (8000, 300, 10, 2),
        (400, 1_000_000, 3, 1),
    ] {
        options.threads = NonZero::new(threads).unwrap();
        let mut counts = Counts::new();
        for text in 0..texts {
            let term = |i: u32| ((text * held + i).wrapping_mul(2_654_435_761) % terms, 1 + i % 3);
            counts.push(&(0..held).map(term).collect::<Vec<_>>());
        }
        let weights = vec![1.0; terms as usize];
        let before = HELD.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        let learned = Learner::new(&counts, &weights, options, &mut || ())
            .unwrap()
            .run(&mut || ());
        let taken = PEAK.load(Ordering::Relaxed) - before;
        let said = bytes_needed(counts.len(), weights.len(), counts.nonzeros(), &options);
        assert!(
            taken <= said && said < taken * 2,
            "{texts} texts: {taken} bytes, said {said}"
        );
        let kept = HELD.load(Ordering::Relaxed) - before;
        assert!(kept <= learned.bytes() + 64, "{kept} kept, said {}", learned.bytes());
    }
}

#[test]
fn sizes_beyond_all_bounds_do_not_overflow() {
    let options = Options::new(NonZero::new(usize::MAX).unwrap());
    assert_eq!(bytes_needed(usize::MAX, usize::MAX, usize::MAX, &options), usize::MAX);
    assert!(bytes_needed(0, 0, 0, &options) < 1 << 20);
}

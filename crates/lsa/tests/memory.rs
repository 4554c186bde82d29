//! Whether the stated memory is what is taken.

use graphrag_lsa::{Counts, Learner, Options, bytes_needed};
use peak_alloc::PeakAlloc;
use std::num::NonZero;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

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
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        let learned = Learner::new(&counts, &weights, options, &mut || ())
            .unwrap()
            .run(&mut || ());
        let taken = MEMORY.peak_usage() - before;
        let said = bytes_needed(counts.len(), weights.len(), counts.nonzeros(), &options);
        assert!(
            taken <= said && said < taken * 2,
            "{texts} texts: {taken} bytes, said {said}"
        );
        let kept = MEMORY.current_usage() - before;
        assert!(kept <= learned.bytes() + 64, "{kept} kept, said {}", learned.bytes());
    }
}

#[test]
fn sizes_beyond_all_bounds_do_not_overflow() {
    let options = Options::new(NonZero::new(usize::MAX).unwrap());
    assert_eq!(bytes_needed(usize::MAX, usize::MAX, usize::MAX, &options), usize::MAX);
    assert!(bytes_needed(0, 0, 0, &options) < 1 << 20);
}

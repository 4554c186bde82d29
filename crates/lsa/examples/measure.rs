//! Times the decomposition of random texts: `cargo run -p graphrag-lsa --example measure -- [TEXTS…]`.
//!
//! The frequencies of the 60,000 terms follow Zipf's law, and each text holds about 80 terms; half of them are drawn from the terms of its topic.

use graphrag_lsa::{Counts, Learner, Options, bytes_needed, idf};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::time::Instant;

const TERMS: usize = 60_000;
const DRAWS: usize = 110;
const TOPICS: u64 = 500;

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A rank from 0 up to [`TERMS`], each with a probability of about 1 / (rank + 1).
fn zipf(state: &mut u64) -> u64 {
    let uniform = (splitmix64(state) >> 11) as f64 / (1u64 << 53) as f64;
    ((TERMS as f64).powf(uniform) as u64).min(TERMS as u64) - 1
}

fn corpus(texts: usize) -> Counts {
    let mut state = 384;
    let mut counts = Counts::new();
    for _ in 0..texts {
        let topic = splitmix64(&mut state) % TOPICS;
        let row: Vec<(u32, u32)> = (0..DRAWS)
            .map(|draw| {
                let rank = zipf(&mut state);
                // The terms of a topic are common terms in an order of its own.
                let mut shuffle = rank * TOPICS + topic;
                let term = if draw % 2 == 0 {
                    rank
                } else {
                    splitmix64(&mut shuffle) % TERMS as u64
                };
                (term as u32, 1)
            })
            .collect();
        counts.push(&row);
    }
    counts
}

/// Seconds of work of all threads of this process.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2);
    ticks.filter_map(|x| x.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn measure(counts: &Counts, threads: usize) {
    let mut holding = vec![0u64; TERMS];
    for text in 0..counts.len() {
        counts.row(text).for_each(|(term, _)| holding[term as usize] += 1);
    }
    let weights: Vec<f64> = holding.iter().map(|&n| idf(counts.len() as u64, n)).collect();
    let mut options = Options::new(NonZero::new(384).expect("not 0"));
    options.threads = NonZero::new(threads).expect("not 0");

    let mut ticked = Instant::now();
    let mut longest = 0.0f64;
    let mut ticks = 0;
    let mut tick = || {
        longest = longest.max(ticked.elapsed().as_secs_f64());
        ticked = Instant::now();
        ticks += 1;
    };
    let (begin, cpu_begin) = (Instant::now(), cpu_seconds());
    let learner = Learner::new(counts, &weights, options, &mut tick);
    let mut learner = learner.expect("all terms have weights");
    let mut parts = vec![begin.elapsed().as_secs_f64()];
    let learned = loop {
        let start = Instant::now();
        let step = learner.step(&mut tick);
        parts.push(start.elapsed().as_secs_f64());
        match step {
            ControlFlow::Continue(next) => learner = next,
            ControlFlow::Break(learned) => break learned,
        }
    };
    println!(
        "{} texts, {} counts, {threads} threads: {:.2} s, {:.2} CPU s, {} MB; {ticks} ticks, {:.0} ms apart at the most",
        counts.len(),
        counts.nonzeros(),
        begin.elapsed().as_secs_f64(),
        cpu_seconds() - cpu_begin,
        bytes_needed(counts.len(), TERMS, counts.nonzeros(), &options) >> 20,
        longest * 1e3,
    );
    let parts: Vec<String> = parts.iter().map(|seconds| format!("{seconds:.2}")).collect();
    let values = &learned.singular_values;
    println!(
        "  seconds of the parts: {}; singular values {:.2} to {:.2}",
        parts.join(" "),
        values.first().unwrap_or(&0.0),
        values.last().unwrap_or(&0.0),
    );
}

fn main() {
    let mut sizes: Vec<usize> = std::env::args().skip(1).filter_map(|n| n.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![1_000, 10_000, 20_000];
    }
    for texts in sizes {
        let counts = corpus(texts);
        for threads in [1, 2] {
            measure(&counts, threads);
        }
    }
}

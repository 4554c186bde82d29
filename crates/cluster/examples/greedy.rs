//! Times greedy grouping: `cargo run --release -p graphrag-cluster --example greedy -- ROWS [mixed]`.
//!
//! The vectors (384 dimensions) are drawn around one centre for every 20 rows. Rows of one centre stand together, as leaves of one document do;
//! with `mixed` they are spread over the whole range.

use graphrag_cluster::{Vectors, greedy};
use std::time::Instant;

const DIM: usize = 384;
const CLUSTER_SIZE: usize = 8;
const PER_CENTRE: usize = 20;

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A value from -1 up to 1.
fn uniform(state: &mut u64) -> f32 {
    (splitmix64(state) >> 40) as f32 / (1u64 << 23) as f32 - 1.0
}

fn main() {
    let mut args = std::env::args().skip(1);
    let rows: usize = args.next().and_then(|n| n.parse().ok()).unwrap_or(10_000);
    let mixed = args.next().is_some_and(|order| order == "mixed");
    let centres = rows.div_ceil(PER_CENTRE);
    let mut state = 224;
    let centre: Vec<f32> = (0..centres * DIM).map(|_| uniform(&mut state)).collect();
    let mut data = Vec::with_capacity(rows * DIM);
    let centre_of = |row: usize| {
        if mixed { row % centres } else { row / PER_CENTRE }
    };
    for row in 0..rows {
        let start = centre_of(row) * DIM;
        data.extend(centre[start..start + DIM].iter().map(|x| x + uniform(&mut state)));
    }
    let vectors = Vectors::new(DIM, data, &mut || ()).expect("whole rows");

    let mut ticks = 0u64;
    let start = Instant::now();
    let clusters = greedy(&vectors, CLUSTER_SIZE, &mut || ticks += 1);
    let seconds = start.elapsed().as_secs_f64();
    let pure = clusters
        .iter()
        .filter(|c| c.iter().all(|&r| centre_of(r as usize) == centre_of(c[0] as usize)))
        .count();
    println!(
        "{rows} rows of {DIM}: {seconds:.2} s, {} clusters, {pure} of one centre, {ticks} ticks",
        clusters.len()
    );
}

//! Dense linear algebra whose results are the same, to the bit, on every processor and with every number of threads.
#![forbid(unsafe_code)]

mod crew;
mod dense;
mod eigen;
mod square;

pub use crew::{Crew, Pace, Stopped};
pub use dense::{Blocks, Chunk, LANES, Lane, ZERO, products};
pub use eigen::eigen;
pub use square::Square;

/// One round of splitmix64: a number that looks random, the same for the same `x`.
pub fn splitmix64(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

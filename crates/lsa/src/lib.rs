//! Latent semantic analysis, without Postgres: learns one vector per term from the terms' counts in texts.
//! A text is the weighted sum of its terms' vectors at unit length.
//!
//! [`Counts`] holds the sample, [`Learner`] decomposes it a piece at a time, [`Learned`] answers the terms' vectors, and [`Sum`] makes texts of them.
//! The results are the same, to the bit, on every processor and with every number of threads.
#![forbid(unsafe_code)]

mod counts;
mod crew;
mod dense;
mod eigen;
mod folding;
mod learner;
mod sparse;
mod square;
mod text;

pub use counts::Counts;
pub use folding::Folding;
pub use learner::{LearnError, Learned, Learner, Options, bytes_needed};
pub use text::{Sum, idf, signed_hash};

/// One round of splitmix64: a number that looks random, the same for the same `x`.
fn splitmix64(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

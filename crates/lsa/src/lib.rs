//! Latent semantic analysis, without Postgres: learns one vector per term from the terms' counts in texts.
//! A text is the weighted sum of its terms' vectors at unit length.
//!
//! [`Counts`] holds the sample, [`Learner`] decomposes it a piece at a time, [`Learned`] answers the terms' vectors, and [`Sum`] makes texts of them.
//! The results are the same, to the bit, on every processor and with every number of threads.
#![forbid(unsafe_code)]

mod counts;
mod folding;
mod learner;
mod sparse;
mod text;

pub use counts::Counts;
pub use folding::Folding;
pub use learner::{LearnError, Learned, Learner, Options, bytes_needed};
pub use text::{Sum, idf, signed_hash};

//! Groups vectors and builds the tree of summaries over them, as RAPTOR does, without Postgres and without a model.
//!
//! [`Vectors`] holds the rows of one level, [`bisect()`], [`mixture()`] or [`greedy()`] groups them, and [`build`] repeats grouping and summarising until one root is left.
#![forbid(unsafe_code)]

pub mod bisect;
pub mod greedy;
mod groups;
mod halve;
pub mod keep;
pub mod limits;
pub mod mixture;
mod near;
mod seeds;
mod soft;
mod space;
mod start;
pub mod tree;
pub mod vectors;

pub use bisect::bisect;
pub use greedy::greedy;
pub use keep::{Before, Kept, keep_up};
pub use limits::{Cluster, Limits, Member};
pub use mixture::mixture;
pub use tree::{BuildError, Child, Method, Options, Parent, Summarize, Written, build, bytes_needed};
pub use vectors::{ShapeError, Vectors};

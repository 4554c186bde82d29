//! RAPTOR: a tree of summaries over the leaves, and the search in leaves and summaries alike.

mod build;
pub mod foretell;
mod plan;
mod roots;
mod search;
mod tree;
mod write;
mod written;

pub use build::Shape;

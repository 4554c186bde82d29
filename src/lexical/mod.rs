//! Lexical search: which terms stand in a leaf, and leaves ranked by BM25.
//!
//! The table `posting` has a row a leaf: its terms as a tsvector, whose only position of a lexeme says how often it occurs. One row
//! a term and leaf would take six times the room and ten times as long to write. How many leaves there are, how long they are and
//! how many hold a term is counted when it is asked for, so that it is exact whatever has happened to the rows.

mod lexemes;
mod posting;
mod search;

pub use lexemes::{Lexemes, Row};
pub use posting::{Postings, quote};
pub use search::{holds_any, rank};

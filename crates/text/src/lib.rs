//! Text work for retrieval, without Postgres: from a document to its leaves, from words to vectors, sentences and names.
#![forbid(unsafe_code)]

pub mod answer;
pub mod chunk;
pub mod convert;
pub mod fold;
pub mod hash;
mod lines;
mod markdown;
pub mod names;
pub mod phrases;
pub mod place;
pub mod repeat;
pub mod rows;
pub mod sentences;
pub mod shape;
pub mod stop;
pub mod summary;
pub mod terms;
pub mod tokens;
pub mod words;

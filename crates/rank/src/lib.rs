//! Ranking without Postgres: [`bm25`], the [`fusion`] of several rankings into one, packing to a token [`budget`], and
//! [`measure`]s of what was retrieved with their uncertainty ([`compare`]).
#![forbid(unsafe_code)]

pub mod bm25;
pub mod budget;
pub mod compare;
pub mod fusion;
pub mod measure;

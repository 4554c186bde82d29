//! The knowledge graph: extraction with evidence, merging, communities, reports, and the two searches over them.

mod add;
mod alias;
mod answered;
mod bind;
mod claim;
mod communities;
mod context;
mod decide;
mod describe;
mod divide;
mod extract;
mod found;
mod global;
mod identity;
mod import;
mod local;
mod merge;
mod prune;
mod report;
mod resolve;
mod rounds;
mod search;
mod statements;
mod titles;
mod trigger;
mod unknown;
mod write;

pub use add::check_length;
pub use communities::{find_again, needs_communities};
pub use describe::Descriptions;
pub use extract::{Blocks, finish as finish_extraction};
pub use global::stands;
pub use merge::{lock_rows, reattach, recount, settle_communities, touched_by, touched_by_all};
pub use report::{Reports, digests};
pub use rounds::rounds;
pub use titles::{extracted, retitle};

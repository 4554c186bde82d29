//! pg_graphrag: RAPTOR, GraphRAG and LightRAG retrieval inside PostgreSQL.
//!
//! This crate reads rows, calls the pure crates under `crates/`, and writes rows. The SQL stands in `sql/`.

// SQL functions have the arguments and columns that they have, and pgrx's error is large.
#![allow(clippy::too_many_arguments, clippy::type_complexity, clippy::result_large_err)]

use pgrx::prelude::*;

mod ask;
mod collection;
mod error;
mod graph;
mod ingest;
mod lexical;
mod model;
mod pg;
mod progress;
mod raptor;
mod refresh;
mod retrieve;
mod search;
mod settings;

::pgrx::pg_module_magic!(name, version);

#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    settings::register();
}

// For cargo-pgrx; `make install` concatenates the same files in the same order.
extension_sql_file!("../sql/model_functions.sql", name = "model_functions", bootstrap);
extension_sql_file!(
    "../sql/collection_functions.sql",
    name = "collection_functions",
    requires = ["model_functions"]
);
extension_sql_file!(
    "../sql/document_functions.sql",
    name = "document_functions",
    requires = ["collection_functions"]
);
extension_sql_file!(
    "../sql/raptor_functions.sql",
    name = "raptor_functions",
    requires = ["document_functions"]
);
extension_sql_file!(
    "../sql/search_functions.sql",
    name = "search_functions",
    requires = ["raptor_functions"]
);
extension_sql_file!(
    "../sql/graph_functions.sql",
    name = "graph_functions",
    requires = ["search_functions"]
);
extension_sql_file!(
    "../sql/refresh_functions.sql",
    name = "refresh_functions",
    requires = ["graph_functions"]
);
extension_sql_file!("../sql/grants.sql", name = "grants", requires = ["refresh_functions"]);
extension_sql_file!("../sql/comments.sql", name = "comments", finalize);

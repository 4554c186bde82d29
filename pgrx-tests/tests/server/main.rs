//! Everything that needs a server. One program, so that the cluster is started once.

mod choices;
mod collections;
mod concurrency;
mod documents;
mod forgetting;
mod formats;
mod golden;
mod graph;
mod graph_add;
mod graph_communities;
mod graph_local;
mod input;
mod large;
mod lifecycle;
mod operations;
mod partitions;
mod raptor;
mod raptor_index;
mod raptor_search;
mod rights;
mod sessions;
mod signatures;
mod support;
mod textbook;
mod traces;
mod unusual;

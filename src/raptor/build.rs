//! raptor_build.

use std::collections::BTreeMap;

use graphrag_cluster::Method;
use pgrx::prelude::*;
use serde_json::json;

use super::plan::{self, Plan};
use super::write;
use crate::collection::Collection;
use crate::error::{Error, Result, in_range, required, sql};
use crate::model::{Asking, Ledger, lsa};
use crate::{ingest, refresh, search};

/// SQL: `raptor_build(collection, method, max_levels, cluster_size)`.
#[pg_extern(sql = false)]
fn raptor_build(
    collection: Option<&str>,
    method: Option<&str>,
    max_levels: Option<i32>,
    cluster_size: Option<i32>,
) -> sql::Result<TableIterator<'static, (name!(level, i32), name!(nodes, i64), name!(calls, i64))>> {
    Ok(TableIterator::new(raptor(
        collection,
        method,
        max_levels,
        cluster_size,
    )?))
}

fn raptor(
    name: Option<&str>,
    method: Option<&str>,
    max_levels: Option<i32>,
    cluster_size: Option<i32>,
) -> Result<Vec<(i32, i64, i64)>> {
    match required(method, "method")? {
        "greedy" => {}
        other => {
            return Err(
                Error::invalid(format!("unknown method \"{other}\"")).hint("The method of this version is 'greedy'.")
            );
        }
    }
    let max_levels = max_levels
        .map(|levels| in_range(Some(levels), "max_levels", 1..=64))
        .transpose()?;
    let cluster_size = cluster_size
        .map(|size| in_range(Some(size), "cluster_size", 2..=1000))
        .transpose()?;
    let learns = lsa::may_learn(&Collection::write(name)?)?;
    let collection = Collection::build_with_models(name, learns)?;
    ingest::take_up(&collection)?;
    if learns {
        refresh::learn_if_due(&collection)?;
    }
    let leaf_calls = ingest::embed_all_leaves(&collection)?;
    collection.analyze(&["node"])?;
    let shape = Shape {
        max_levels,
        cluster_size,
    };
    let built = shape.build(&collection, Ledger::begin(&collection, "tree", Asking::Now)?)?;
    if built.waiting > 0 {
        ingest::tell_waiting(&collection, built.waiting, "the tree is built");
    }
    let sql = "SELECT level, count(*) FROM {s}.node GROUP BY 1 ORDER BY 1";
    let levels: Vec<(i32, i64)> = collection.query(sql, &[], |row| Ok((row.need(1)?, row.need(2)?)))?;
    let calls = |level: i32| match level {
        0 => leaf_calls,
        _ => built.calls.get(&level).copied().unwrap_or(0),
    };
    Ok(levels
        .into_iter()
        .map(|(level, nodes)| (level, nodes, calls(level)))
        .collect())
}

/// The arguments of a build that shape the tree; kept in the settings, so that a refresh builds it alike.
#[derive(Clone, Copy, Default)]
pub struct Shape {
    pub max_levels: Option<i32>,
    /// Nothing takes the setting.
    pub cluster_size: Option<i32>,
}

/// What a build has come to.
pub struct Built {
    /// Answers that are missing; nothing was written if there are any.
    pub waiting: i64,
    /// Calls by level.
    pub calls: BTreeMap<i32, i64>,
}

impl Shape {
    /// The shape of the last build.
    pub fn of_last(collection: &Collection) -> Result<Shape> {
        let sql = "SELECT (value ->> 'max_levels')::int, (value ->> 'cluster_size')::int FROM {s}.setting WHERE key = 'step.tree'";
        let found = collection.query(sql, &[], |row| {
            Ok(Shape {
                max_levels: row.get(1)?,
                cluster_size: row.get(2)?,
            })
        })?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    /// Plans the trees of all partitions and, if no answer is missing, puts them in the place of the old ones.
    pub fn build(&self, collection: &Collection, mut ledger: Ledger) -> Result<Built> {
        let options = graphrag_cluster::Options {
            method: Method::Greedy,
            cluster_size: self
                .cluster_size
                .map_or(collection.options.cluster_size as usize, |size| size as usize),
            max_levels: self.max_levels.map(|levels| levels as u32),
        };
        let sql = "SELECT partition, count(*) FROM {s}.node WHERE level = 0 AND embedding IS NOT NULL \
                   GROUP BY 1 ORDER BY partition COLLATE \"C\"";
        let partitions: Vec<(String, i64)> = collection.query(sql, &[], |row| Ok((row.need(1)?, row.need(2)?)))?;
        plan::check_memory(collection, &partitions, &options)?;
        let mut calls = BTreeMap::new();
        let mut plans: Vec<(String, Plan)> = Vec::new();
        for (partition, leaves) in partitions {
            let plan = plan::plan(
                collection,
                &mut ledger,
                &mut calls,
                &partition,
                leaves as usize,
                &options,
            )?;
            plans.extend(plan.map(|plan| (partition, plan)));
        }
        let waiting = ledger.waiting;
        if waiting == 0 {
            collection.execute("DELETE FROM {s}.node WHERE level > 0", &[])?;
            for (partition, plan) in plans {
                write::write(collection, &partition, plan)?;
            }
            ledger.finish()?;
            search::ensure_index(collection, "node")?;
            collection.analyze(&["node", "node_child", "node_source"])?;
            let shape = json!({"max_levels": self.max_levels, "cluster_size": self.cluster_size});
            collection.note_step("tree", Some(&collection.options.summarizer.text), shape)?;
        } else {
            ledger.drop_unwanted()?;
        }
        Ok(Built { waiting, calls })
    }
}

//! raptor_build.

use std::collections::BTreeMap;

use graphrag_cluster::{Limits, Method};
use pgrx::prelude::*;
use serde_json::json;

use super::plan::{self, Plan, Size};
use super::{write, written};
use crate::collection::Collection;
use crate::error::{Error, Result, in_range, required, sql};
use crate::model::{Asking, Ledger, lsa, trouble};
use crate::pg::threads;
use crate::progress::{count, step_ends};
use crate::{ingest, refresh, search};

/// SQL: `raptor_build(collection, method, max_levels, cluster_size, seed)`.
#[pg_extern(sql = false)]
fn raptor_build(
    collection: Option<&str>,
    method: Option<&str>,
    max_levels: Option<i32>,
    cluster_size: Option<i32>,
    seed: Option<i64>,
) -> sql::Result<TableIterator<'static, (name!(level, i32), name!(nodes, i64), name!(calls, i64))>> {
    Ok(TableIterator::new(raptor(
        collection,
        method,
        max_levels,
        cluster_size,
        seed,
    )?))
}

fn raptor(
    name: Option<&str>,
    method: Option<&str>,
    max_levels: Option<i32>,
    cluster_size: Option<i32>,
    seed: Option<i64>,
) -> Result<Vec<(i32, i64, i64)>> {
    let method = required(method, "method")?;
    let method = method_of(method).ok_or_else(|| {
        Error::invalid(format!("unknown method \"{method}\"")).hint("Methods are 'bisect', 'mixture' and 'greedy'.")
    })?;
    let seed = required(seed, "seed")?;
    let max_levels = max_levels
        .map(|levels| in_range(Some(levels), "max_levels", 1..=64))
        .transpose()?;
    let cluster_size = cluster_size
        .map(|size| in_range(Some(size), "cluster_size", 2..=1000))
        .transpose()?;
    let learns = lsa::may_learn(&Collection::write(name)?)?;
    let collection = Collection::build_with_models(name, learns)?;
    step_ends("begin");
    ingest::take_up(&collection)?;
    step_ends("cut");
    if learns {
        refresh::learn_if_due(&collection)?;
    }
    let leaf_calls = ingest::embed_all_leaves(&collection)?;
    collection.analyze(&["node"])?;
    step_ends("learn");
    let shape = Shape {
        method,
        max_levels,
        cluster_size,
        seed,
    };
    let built = shape.build(&collection, Ledger::begin(&collection, "tree", Asking::Now)?, false)?;
    if built.waiting > 0 {
        ingest::tell_waiting(&collection, built.waiting, "the tree is built");
    }
    let sql = "SELECT count(*) FROM {s}.node WHERE level > 0 AND stale AND text <> ''";
    let failed: i64 = collection.query_one(sql, &[], |row| row.need(1))?;
    if failed > 0 && built.waiting == 0 {
        let summaries = count(failed, "summary", "summaries");
        trouble::tell_failures(&collection, "tree", format!("the model failed on {summaries}"))?;
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
    pub method: Method,
    pub max_levels: Option<i32>,
    /// Nothing takes the setting.
    pub cluster_size: Option<i32>,
    pub seed: i64,
}

const METHODS: [(&str, Method); 3] = [
    ("bisect", Method::Bisect),
    ("mixture", Method::Mixture),
    ("greedy", Method::Greedy),
];

fn method_of(name: &str) -> Option<Method> {
    METHODS.iter().find(|method| method.0 == name).map(|method| method.1)
}

/// Members of a cluster where nobody has said how many.
const GREEDY: i64 = 8;
const ANY: i64 = 1_000;

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
        let sql = "SELECT (value ->> 'max_levels')::int, (value ->> 'cluster_size')::int, value ->> 'method', (value ->> 'seed')::bigint \
                   FROM {s}.setting WHERE key = 'step.tree'";
        let found = collection.query(sql, &[], |row| {
            Ok(Shape {
                max_levels: row.get(1)?,
                cluster_size: row.get(2)?,
                method: row
                    .get::<String>(3)?
                    .and_then(|name| method_of(&name))
                    .unwrap_or_default(),
                seed: row.get(4)?.unwrap_or_default(),
            })
        })?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    /// What a cluster may hold at most.
    pub fn limits(&self, collection: &Collection) -> Limits {
        let options = &collection.options;
        let members = self.cluster_size.map(i64::from).or(options.cluster_size);
        Limits {
            tokens: options.cluster_tokens as u32,
            members: members.unwrap_or(match self.method {
                Method::Greedy => GREEDY,
                _ => ANY,
            }) as usize,
        }
    }

    /// Plans the trees of all partitions and, if no answer is missing, puts them in the place of the old ones.
    ///
    /// With `keep`, clusters stay as they are but for leaves that have come and gone, unless the summarizer or its limits have changed.
    pub fn build(&self, collection: &Collection, mut ledger: Ledger, keep: bool) -> Result<Built> {
        let options = graphrag_cluster::Options {
            method: self.method,
            limits: self.limits(collection),
            max_levels: self.max_levels.map(|levels| levels as u32),
            seed: self.seed as u64,
            crew: threads::crew()?,
        };
        let sql = "SELECT partition, count(*), sum(token_count) FROM {s}.node WHERE level = 0 AND embedding IS NOT NULL \
                   GROUP BY 1 ORDER BY partition COLLATE \"C\"";
        let partitions: Vec<Size> = collection.query(sql, &[], |row| {
            Ok(Size {
                partition: row.need(1)?,
                leaves: row.need(2)?,
                tokens: row.need(3)?,
            })
        })?;
        // Where all is written anew, nothing is saved by clusters that stay.
        let keep = keep && written::is_alike(collection)?;
        plan::check_memory(collection, &partitions, &options, keep)?;
        let mut calls = BTreeMap::new();
        let mut plans: Vec<(String, Plan)> = Vec::new();
        for size in partitions {
            let plan = plan::plan(collection, &mut ledger, &mut calls, &size, &options, keep)?;
            plans.extend(plan.map(|plan| (size.partition, plan)));
        }
        let waiting = ledger.waiting;
        if waiting == 0 {
            let trees: Vec<String> = plans.iter().map(|(partition, _)| partition.clone()).collect();
            let sql = "DELETE FROM {s}.node WHERE level > 0 AND NOT partition = ANY ($1)";
            collection.execute(sql, &[trees.into()])?;
            for (partition, plan) in plans {
                write::write(collection, &partition, plan)?;
            }
            ledger.finish()?;
            // What a program has answered is taken up now.
            let sql = "UPDATE {s}.model_call SET finished_at = clock_timestamp() \
                       WHERE step = 'tree' AND status = 'done' AND finished_at IS NULL";
            collection.execute(sql, &[])?;
            step_ends("write");
            search::ensure_index(collection, "node")?;
            step_ends("index");
            collection.analyze(&["node", "node_child", "node_source"])?;
            let method = METHODS
                .iter()
                .find(|method| method.1 == self.method)
                .map(|method| method.0);
            let shape = json!({
                "method": method, "max_levels": self.max_levels, "cluster_size": self.cluster_size, "seed": self.seed,
                "cluster_tokens": options.limits.tokens, "cluster_members": options.limits.members,
                "written_by": written::hex(written::identity(collection)?),
            });
            collection.note_step("tree", Some(&collection.options.summarizer.text), shape)?;
        } else {
            ledger.drop_unwanted()?;
        }
        Ok(Built { waiting, calls })
    }
}

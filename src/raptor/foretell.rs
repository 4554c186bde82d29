//! How many summaries the next refresh will ask for, level by level, before it does.
//!
//! No vector is read: how texts group is foretold from how many and how long they are, and from the tree that stands, whose clusters a refresh
//! keeps as far as it can.

use std::collections::HashMap;

use graphrag_cluster::{Limits, Method};

use super::build::Shape;
use super::written;
use crate::collection::Collection;
use crate::error::Result;
use crate::ingest::WAITING;
use crate::model::lsa;

/// Levels that are looked at: each has at most half as many items as the one below.
const LEVELS: usize = 64;

/// Clusters that an item belongs to where it may belong to several: about, and at most of a few of them together.
const BELONGINGS: f64 = 1.3;
const MOST_BELONGINGS: f64 = 1.5;

/// Clusters for each that the limits make necessary: about, if they hold many; by how much fewer, times what they hold, if they hold few; at most.
const GROUPS: f64 = 1.5;
const FULLER: f64 = 1.3;
const MOST_GROUPS: f64 = 2.5;

/// The rows of a part of a mixture: about, and at least.
const MIXED: f64 = 25.0;
const LEAST_MIXED: f64 = 11.0;

/// The share of new rows above which a level is clustered anew, as in `keep_up`, and clusters that are divided anew together.
const NEW: f64 = 0.25;
const REGION: f64 = 4.0;

/// Changed clusters for each region that is divided anew, at least.
const STEADY: f64 = 20.0;

/// How much longer than it should be a summary may come out.
const LONGER: f64 = 2.0;

/// What one level will ask for.
#[derive(Clone, Copy, Default)]
pub struct Level {
    pub summaries: f64,
    /// At most.
    pub most: f64,
    /// Nodes that are read for `summaries`, and their tokens.
    pub children: f64,
    pub tokens: f64,
    /// Tokens of `summaries`.
    pub written: f64,
}

/// Texts that wait to be cut, by partition: their hashes and tokens.
pub type Texts = HashMap<String, HashMap<[u8; 32], i64>>;

/// A partition's leaves by their texts, and the summaries over them.
#[derive(Default)]
struct Tree {
    texts: i64,
    /// As many as the limits count.
    tokens: i64,
    /// Texts that are in no cluster.
    new: i64,
    leaves: i64,
    /// Summaries of each level, and those of them that are to be written anew.
    levels: Vec<(f64, f64)>,
}

/// How summaries are to be expected.
pub struct Expected {
    /// Tokens of one, as seen so far.
    seen: Option<f64>,
    /// As it should be.
    told: f64,
    /// At most.
    most: f64,
    /// Whether those that stand would be written alike today.
    is_current: bool,
}

impl Expected {
    /// From the summaries that there are, or else from `answered`.
    pub fn of(collection: &Collection, answered: Option<f64>) -> Result<Expected> {
        let options = &collection.options;
        let sql = "SELECT avg(token_count)::float8 FROM {s}.node WHERE level > 0 AND text <> ''";
        let is_current = is_current(collection)?;
        let standing: Option<f64> = match is_current {
            true => collection.query_one(sql, &[], |row| row.get(1))?,
            false => None,
        };
        let seen = standing.or(answered);
        let told = options.summary_tokens as f64;
        Ok(Expected {
            seen,
            told,
            most: match options.summarizer.is_built_in() {
                true => told,
                false => LONGER * seen.unwrap_or(told).max(told),
            },
            is_current,
        })
    }
}

/// Whether the last tree was written by the summarizer that there will be, told the same, in clusters that are within the limits.
fn is_current(collection: &Collection) -> Result<bool> {
    let learns = collection.options.summarizer.is_built_in() && lsa::is_due(collection)?.is_some();
    Ok(!learns && written::is_alike(collection)?)
}

/// What the next refresh asks for at each level, from 1 on, when the texts of `uncut` are leaves.
pub fn foretell(collection: &Collection, uncut: &Texts, expected: &Expected) -> Result<Vec<Level>> {
    let shape = Shape::of_last(collection)?;
    let limits = shape.limits(collection);
    let mut trees = read(collection, &limits)?;
    let is_waiting = format!("SELECT EXISTS ({WAITING})");
    let waits: bool = collection.query_one(&is_waiting, &[], |row| row.need(1))?;
    add(collection, &mut trees, uncut, &limits)?;
    if !waits && trees.values().all(|tree| tree.new == 0 || tree.leaves < 2) && !crate::refresh::needs_tree(collection)?
    {
        return Ok(Vec::new());
    }
    let mut levels = Vec::new();
    for tree in trees.values_mut() {
        if !expected.is_current {
            tree.levels.clear();
        }
        let guess = |most| Guess {
            method: shape.method,
            limits,
            levels: shape.max_levels.map_or(LEVELS, |levels| levels as usize),
            most,
            expected,
        };
        guess(false).add(tree, &mut levels);
        guess(true).add(tree, &mut levels);
    }
    let last = levels.iter().rposition(|level| level.most > 0.0);
    levels.truncate(last.map_or(0, |last| last + 1));
    Ok(levels)
}

/// The trees that stand.
fn read(collection: &Collection, limits: &Limits) -> Result<HashMap<String, Tree>> {
    let mut trees: HashMap<String, Tree> = HashMap::new();
    // Whether there is a vector shows without reading it. Joins go on where there is no memory for what waits; NOT IN would look through all of it
    // for each leaf.
    let sql = format!(
        "SELECT partition, count(*), sum(tokens)::bigint, count(*) FILTER (WHERE NOT is_in), sum(leaves)::bigint FROM \
           (SELECT partition, text_hash, greatest(least(max(token_count), $1), 1) AS tokens, count(*) AS leaves, \
                   bool_or(EXISTS (SELECT FROM {{s}}.node_child c WHERE c.child_id = n.id)) AS is_in \
            FROM {{s}}.node n LEFT JOIN (SELECT DISTINCT key::bigint AS id FROM {{s}}.change WHERE \"table\" = 'node') v USING (id) \
            WHERE level = 0 AND (embedding IS NOT NULL OR v.id IS NOT NULL) \
              AND NOT EXISTS (SELECT FROM ({WAITING}) w (id) WHERE w.id = n.document_id) \
            GROUP BY 1, 2) t GROUP BY 1"
    );
    collection.stream(&sql, &[(limits.tokens as i32 / 2).into()], |row| {
        let tree = Tree {
            texts: row.need(2)?,
            tokens: row.need(3)?,
            new: row.need(4)?,
            leaves: row.need(5)?,
            levels: Vec::new(),
        };
        trees.insert(row.need(1)?, tree);
        Ok(())
    })?;
    // A summary that is written anew reads as another one to those above it.
    let sql = format!(
        "WITH RECURSIVE anew (id) AS (SELECT id FROM {{s}}.node WHERE level > 0 AND stale \
             UNION SELECT node_id FROM {{s}}.node_source WHERE document_id IN ({WAITING}) \
             UNION SELECT c.parent_id FROM anew a JOIN {{s}}.node_child c ON c.child_id = a.id) \
         SELECT partition, level, count(*), count(a.id) FROM {{s}}.node n LEFT JOIN anew a USING (id) \
         WHERE level BETWEEN 1 AND {LEVELS} GROUP BY 1, 2"
    );
    collection.stream(&sql, &[], |row| {
        if let Some(tree) = trees.get_mut(&row.need::<String>(1)?) {
            let level = row.need::<i32>(2)? as usize;
            tree.levels.resize(tree.levels.len().max(level), (0.0, 0.0));
            tree.levels[level - 1] = (row.need::<i64>(3)? as f64, row.need::<i64>(4)? as f64);
        }
        Ok(())
    })?;
    Ok(trees)
}

/// Adds the texts that wait to be cut, but for those that other leaves have, too.
fn add(collection: &Collection, trees: &mut HashMap<String, Tree>, uncut: &Texts, limits: &Limits) -> Result<()> {
    for (partition, texts) in uncut {
        let tree = trees.entry(partition.clone()).or_default();
        let mut known = 0;
        let mut tokens: i64 = texts.values().map(|&size| limits.counted(size as u32) as i64).sum();
        if tree.texts > 0 {
            let hashes: Vec<Vec<u8>> = texts.keys().map(|hash| hash.to_vec()).collect();
            let sql = format!(
                "SELECT DISTINCT text_hash FROM {{s}}.node n WHERE level = 0 AND text_hash = ANY ($1) AND partition = $2 \
                   AND NOT EXISTS (SELECT FROM ({WAITING}) w (id) WHERE w.id = n.document_id)"
            );
            collection.stream(&sql, &[hashes.into(), partition.as_str().into()], |row| {
                let hash: Vec<u8> = row.need(1)?;
                let size = <[u8; 32]>::try_from(hash.as_slice())
                    .ok()
                    .and_then(|hash| texts.get(&hash));
                known += 1;
                tokens -= size.map_or(0, |&size| limits.counted(size as u32) as i64);
                Ok(())
            })?;
        }
        let new = texts.len() as i64 - known;
        tree.texts += new;
        tree.new += new;
        tree.tokens += tokens;
        tree.leaves += texts.len() as i64;
    }
    Ok(())
}

/// The rows of a level, on the way up.
struct Rows {
    count: f64,
    /// Tokens that each counts.
    size: f64,
    /// Those that are in no cluster.
    new: f64,
    /// Those that are in one and will have changed.
    changed: f64,
}

/// Either what is to be expected or what there is at most.
struct Guess<'a> {
    method: Method,
    limits: Limits,
    levels: usize,
    most: bool,
    expected: &'a Expected,
}

impl Guess<'_> {
    /// Adds what a tree asks for to `levels`.
    fn add(&self, tree: &Tree, levels: &mut Vec<Level>) {
        let mut rows = Rows {
            count: tree.texts as f64,
            size: tree.tokens as f64 / tree.texts.max(1) as f64,
            new: tree.new as f64,
            changed: 0.0,
        };
        let is_busy = tree.new > 0 || tree.levels.is_empty() || tree.levels.iter().any(|level| level.1 > 0.0);
        for at in 0..self.levels {
            let (standing, anew) = tree.levels.get(at).copied().unwrap_or_default();
            let clusters = self.clusters(&rows);
            let belongings = match self.method {
                Method::Greedy => 1.0,
                _ if clusters.max(standing) < 2.0 => 1.0,
                _ => BELONGINGS,
            };
            // A text that several leaves have is summarised even where it is the only one.
            let whole = match rows.count < 2.0 {
                true => f64::from(at == 0 && rows.count == 1.0 && tree.leaves > 1),
                false => clusters.min((rows.count / 2.0).floor()),
            };
            let is_afresh = standing == 0.0 || rows.new > NEW * rows.count || self.method == Method::Greedy && is_busy;
            let mut kept = self.kept(at, &rows, (standing, anew), clusters);
            // What is left of a tree that has shrunk is bound by its rows as any.
            let bound = if rows.count < 2.0 {
                whole
            } else {
                (rows.count / 2.0).floor()
            };
            kept.0 = kept.0.min(bound);
            kept.1.count = kept.1.count.min((rows.count / 2.0).ceil());
            let (asked, next) = match is_afresh {
                true if self.most => (whole.max(kept.0), clusters.max(kept.1.count)),
                true => (whole, clusters),
                false => (kept.0, kept.1.count),
            };
            if asked == 0.0 && standing == 0.0 {
                return;
            }
            levels.resize(levels.len().max(at + 1), Level::default());
            let share = asked / clusters.max(standing).max(1.0);
            let children = rows.count * belongings * share;
            let length = self.length(rows.count * rows.size * belongings / next.max(1.0));
            match self.most {
                true => levels[at].most += asked,
                false => {
                    levels[at].summaries += asked;
                    levels[at].children += children;
                    levels[at].tokens += children * rows.size;
                    levels[at].written += asked * length;
                }
            }
            rows = Rows {
                count: next,
                size: length.clamp(1.0, f64::from(self.limits.tokens / 2)),
                new: if is_afresh { next } else { kept.1.new },
                changed: kept.1.changed,
            };
        }
    }

    /// Tokens of a summary of so many.
    fn length(&self, read: f64) -> f64 {
        match self.most {
            true => self.expected.most,
            // One that has not been seen is taken to be as long as it should be, but no longer than what it is written from.
            false => self.expected.seen.unwrap_or(self.expected.told.min(read)),
        }
    }

    /// Clusters that rows make, with one of a single row.
    fn clusters(&self, rows: &Rows) -> f64 {
        let members = self.limits.members as f64;
        let room = (f64::from(self.limits.tokens) / rows.size.max(1.0))
            .min(members)
            .max(2.0);
        let needed = rows.count / room;
        let clusters = match self.method {
            Method::Greedy => rows.count / members,
            method => {
                let by_limits = match needed <= 1.0 {
                    true => 1.0,
                    false if self.most => MOST_GROUPS * needed,
                    false => (GROUPS - FULLER / room) * needed,
                };
                let mixed = if self.most { LEAST_MIXED } else { MIXED };
                match method {
                    // As many as what belongs together lets them, and as the limits make of these.
                    Method::Mixture if self.most => by_limits + (rows.count / mixed).floor(),
                    Method::Mixture => by_limits.max((rows.count / mixed).floor()),
                    _ => by_limits,
                }
            }
        };
        clusters.ceil().min((rows.count / 2.0).ceil())
    }

    /// What is asked where clusters are kept, and the rows of the next level.
    fn kept(&self, at: usize, rows: &Rows, (standing, anew): (f64, f64), clusters: f64) -> (f64, Rows) {
        let (changed, cut) = match self.most {
            true => {
                // Each row that comes may bring its cluster over the limits, one that goes may leave another alone.
                let changed =
                    standing.min(anew + (anew / 4.0).ceil() + rows.new + (MOST_BELONGINGS * rows.changed).ceil());
                // Summaries move less than leaves come and go: few are cut, and fewer are divided anew.
                let calm = if at == 0 { 1.0 } else { 0.5 };
                let cut = rows.new.min(changed) + REGION * (changed / STEADY).ceil();
                (changed, (calm * cut).ceil())
            }
            false => {
                // A changed text comes back to where it was, which is written anew all the same. Of others, several may come to one cluster.
                let others = (rows.new - anew).max(0.0) + BELONGINGS * rows.changed;
                let hit = match standing > 0.0 {
                    true => (standing - anew) * (1.0 - (-others / standing).exp()),
                    false => 0.0,
                };
                (anew + hit, rows.new * standing / rows.count.max(1.0))
            }
        };
        let asked = match self.most {
            true => (changed + cut).min(clusters.max(standing)),
            false => changed + cut,
        };
        let next = Rows {
            count: standing + cut,
            size: 0.0,
            new: cut,
            changed: changed - anew,
        };
        (asked, next)
    }
}

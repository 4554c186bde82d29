//! Plans a tree in memory: clusters, summaries and their vectors, before a row of the old tree is touched.

use std::collections::BTreeMap;

use graphrag_cluster::{BuildError, Options, Summarize, Vectors, build, bytes_needed};
use graphrag_text::tokens;
use sha2::{Digest, Sha256};

use crate::collection::Collection;
use crate::error::{Error, Result};
use crate::model::embed::{self, Text};
use crate::model::{self, Answer, Item, Ledger, prompts};
use crate::pg::{memory, tick, vector};
use crate::progress::Progress;

/// What a leaf costs beside its vector: its id, and its document in the lists of the levels above.
const BYTES_PER_LEAF: usize = 128;
/// Bytes of a token of a summary, generously.
const BYTES_PER_TOKEN: usize = 8;
/// Clusters whose texts are in memory at once, and are asked for at once.
const BATCH: usize = 1_000;

/// A tree that waits to be written.
pub struct Plan {
    /// Node ids of the leaves.
    pub leaves: Vec<i64>,
    /// The summaries, which have the numbers after the leaves.
    pub summaries: Vec<Summary>,
}

pub struct Summary {
    pub level: u32,
    /// Numbers of the nodes summarised.
    pub children: Vec<u32>,
    /// Documents under it, sorted.
    pub documents: Vec<i64>,
    pub text: String,
    pub hash: Vec<u8>,
    pub tokens: i32,
    pub embedding: Option<Vec<f32>>,
    /// The model has failed: the text is the built-in summariser's, or there is no vector.
    pub stale: bool,
}

/// 53200 if a partition's tree does not fit the budget.
pub fn check_memory(collection: &Collection, partitions: &[(String, i64)], options: &Options) -> Result<()> {
    let dimensions = collection.options.dimensions;
    let text = collection.options.summary_tokens as usize * BYTES_PER_TOKEN;
    let mut kept = 0;
    for (_, leaves) in partitions {
        let leaves = *leaves as usize;
        // Each level has at most half of the nodes of the one below, and all their summaries are kept until they are written.
        kept += 2 * leaves.div_ceil(options.cluster_size) * (4 * dimensions + text) + leaves * BYTES_PER_LEAF;
        memory::check(
            bytes_needed(leaves, dimensions, options.cluster_size) + kept,
            "the tree of this collection",
        )?;
    }
    Ok(())
}

/// The tree of one partition; nothing if answers are missing, which are planned in the ledger then.
pub fn plan(
    collection: &Collection,
    ledger: &mut Ledger,
    calls: &mut BTreeMap<i32, i64>,
    partition: &str,
    leaves: usize,
    options: &Options,
) -> Result<Option<Plan>> {
    let dimensions = collection.options.dimensions;
    let mut planner = Planner {
        collection,
        ledger,
        calls,
        plan: Plan {
            leaves: Vec::new(),
            summaries: Vec::new(),
        },
        documents: Vec::new(),
        progress: Progress::start(),
    };
    let mut data = Vec::new();
    memory::reserve(&mut data, leaves * dimensions)?;
    let sql = "SELECT n.id, n.document_id, n.embedding FROM {s}.node n JOIN {s}.document d ON d.id = n.document_id \
               WHERE n.level = 0 AND n.embedding IS NOT NULL AND n.partition = $1 \
               ORDER BY d.body_hash, d.source_key COLLATE \"C\", n.ordinal, n.id";
    collection.stream(sql, &[partition.into()], |row| {
        planner.plan.leaves.push(row.need(1)?);
        planner.documents.push(row.need(2)?);
        data.extend_from_slice(&row.need::<vector::Vector>(3)?.0);
        Ok(())
    })?;
    let leaves = Vectors::new(dimensions, data, &mut tick).map_err(|e| Error::internal(e.to_string()))?;
    let count = leaves.len();
    let mut grouping = Progress::start();
    let mut tick = || {
        tick();
        grouping.say(|| format!("grouping {count} leaves"));
    };
    match build(leaves, options, &mut planner, &mut tick) {
        Ok(_) => Ok(Some(planner.plan)),
        Err(BuildError::Summarize(Stop::Waiting)) => Ok(None),
        Err(BuildError::Summarize(Stop::Error(error))) => Err(error),
        Err(error) => Err(Error::internal(error.to_string())),
    }
}

/// Why planning does not go on.
#[derive(Debug)]
enum Stop {
    /// Answers of this level are missing.
    Waiting,
    Error(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Error(error)
    }
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stop::Waiting => f.write_str("answers are missing"),
            Stop::Error(error) => error.fmt(f),
        }
    }
}

struct Planner<'a, 'b> {
    collection: &'a Collection,
    ledger: &'a mut Ledger<'b>,
    calls: &'a mut BTreeMap<i32, i64>,
    plan: Plan,
    /// The documents of the leaves.
    documents: Vec<i64>,
    progress: Progress,
}

impl Summarize for Planner<'_, '_> {
    type Error = Stop;

    fn summarize(&mut self, level: u32, clusters: &[Vec<u32>]) -> std::result::Result<Vec<Option<Vec<f32>>>, Stop> {
        let before = self.ledger.calls;
        let waiting = self.ledger.waiting;
        let mut summaries = Vec::with_capacity(clusters.len());
        for part in clusters.chunks(BATCH) {
            summaries.extend(self.write(level, part)?);
            self.progress.say(|| {
                format!(
                    "level {level}: {} of {} summaries written",
                    summaries.len(),
                    clusters.len()
                )
            });
            tick();
        }
        if self.ledger.waiting > waiting {
            return Err(Stop::Waiting);
        }
        for part in summaries.chunks_mut(BATCH) {
            self.embed(part)?;
        }
        *self.calls.entry(level as i32).or_default() += self.ledger.calls - before;
        if self.ledger.waiting > waiting {
            return Err(Stop::Waiting);
        }
        let vectors = summaries.iter().map(|summary| summary.embedding.clone()).collect();
        self.plan.summaries.extend(summaries);
        Ok(vectors)
    }
}

impl Planner<'_, '_> {
    /// The summaries of some clusters; those that the model has not answered yet have no text.
    fn write(&mut self, level: u32, clusters: &[Vec<u32>]) -> Result<Vec<Summary>> {
        let options = &self.collection.options;
        let model = &options.summarizer;
        let texts = self.texts(clusters)?;
        let mut rest = &texts[..];
        let mut summaries = Vec::with_capacity(clusters.len());
        let mut items = Vec::new();
        let mut own = Vec::new();
        for cluster in clusters {
            let (texts, others) = rest.split_at(cluster.len());
            rest = others;
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let documents = self.documents(cluster);
            if !model.is_built_in() {
                items.push(Item::new(prompts::summarize(model, options, &texts), documents.clone()));
            }
            own.push(texts);
            summaries.push(Summary {
                level,
                children: cluster.clone(),
                documents,
                text: String::new(),
                hash: Vec::new(),
                tokens: 0,
                embedding: None,
                stale: false,
            });
        }
        let answers = self.ledger.want(model, &items)?;
        let is_own = |i: usize| !matches!(answers.get(i), Some(None | Some(Answer::Text(_))));
        let unanswered: Vec<&[&str]> = (0..own.len()).filter(|&i| is_own(i)).map(|i| &own[i][..]).collect();
        let mut built_in = model::summary::summarize(self.collection, &unanswered)?.into_iter();
        for (i, summary) in summaries.iter_mut().enumerate() {
            summary.text = match answers.get(i) {
                Some(Some(Answer::Text(text))) => text.clone(),
                Some(None) => continue,
                failed => {
                    summary.stale = failed.is_some();
                    built_in.next().unwrap_or_default()
                }
            };
            summary.hash = Sha256::digest(&summary.text).to_vec();
            summary.tokens = tokens::count(&summary.text) as i32;
        }
        Ok(summaries)
    }

    fn embed(&mut self, summaries: &mut [Summary]) -> Result<()> {
        let texts: Vec<Text> = summaries
            .iter()
            .map(|summary| Text {
                text: &summary.text,
                hash: summary.hash.clone(),
                documents: summary.documents.clone(),
            })
            .collect();
        let vectors = embed::vectors(self.ledger, self.collection, &texts)?;
        for (summary, vector) in summaries.iter_mut().zip(vectors) {
            match vector {
                Some(Answer::Vector(vector)) => summary.embedding = vector,
                Some(_) => summary.stale = true,
                None => {}
            }
        }
        Ok(())
    }

    /// The documents under a cluster, sorted.
    fn documents(&self, cluster: &[u32]) -> Vec<i64> {
        let leaves = self.documents.len();
        let mut documents: Vec<i64> = Vec::new();
        for &child in cluster {
            match self.documents.get(child as usize) {
                Some(document) => documents.push(*document),
                None => documents.extend_from_slice(&self.plan.summaries[child as usize - leaves].documents),
            }
        }
        documents.sort_unstable();
        documents.dedup();
        documents
    }

    /// The texts of all members of the clusters, in their order.
    fn texts(&self, clusters: &[Vec<u32>]) -> Result<Vec<String>> {
        let leaves = self.plan.leaves.len();
        let members = || clusters.iter().flatten().map(|&child| child as usize);
        let ids: Vec<i64> = members()
            .filter_map(|child| self.plan.leaves.get(child).copied())
            .collect();
        let sql = "SELECT n.text FROM unnest($1::bigint[]) WITH ORDINALITY AS u (id, n) JOIN {s}.node n ON n.id = u.id ORDER BY u.n";
        let mut of_leaves = self
            .collection
            .query(sql, &[ids.into()], |row| row.need::<String>(1))?
            .into_iter();
        members()
            .map(|child| match child.checked_sub(leaves) {
                Some(summary) => Ok(self.plan.summaries[summary].text.clone()),
                None => of_leaves.next().ok_or_else(|| Error::internal("a leaf is gone")),
            })
            .collect()
    }
}

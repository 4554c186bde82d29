//! Plans a tree in memory: clusters, summaries and their vectors, before a row of the old tree is touched.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use graphrag_cluster::{
    Before, BuildError, Child, Limits, Member, Method, Options, Summarize, Vectors, Written, build, bytes_needed,
};
use graphrag_text::tokens;
use sha2::{Digest, Sha256};

use super::written;
use crate::collection::Collection;
use crate::error::{Error, Result};
use crate::model::embed::{self, Text};
use crate::model::{self, Answer, Item, Ledger, prompts};
use crate::pg::{memory, tick, vector};
use crate::progress::{Progress, step_ends};

/// What a leaf costs beside its vector: its id and hash, and its document in the lists of the levels above.
const BYTES_PER_LEAF: usize = 250;
/// Bytes of a token of a summary, generously.
const BYTES_PER_TOKEN: usize = 8;
/// Clusters whose texts are in memory at once, and are asked for at once.
const BATCH: usize = 1_000;

/// Groups for each one that the limits make necessary, about.
const GROUPS: f64 = 1.6;

/// A tree that waits to be written.
pub struct Plan {
    /// The leaves by their texts.
    pub leaves: Vec<Leaf>,
    /// The summaries, which have the numbers after the leaves.
    pub summaries: Vec<Summary>,
}

/// A text, which is clustered once however many leaves have it.
pub struct Leaf {
    /// The first of its nodes, and that one's document.
    pub id: i64,
    pub document: i64,
    hash: [u8; 32],
    /// The other nodes and their documents.
    pub copies: Vec<(i64, i64)>,
}

impl Plan {
    fn is_new(&self, number: u32) -> bool {
        let summary = (number as usize).checked_sub(self.leaves.len());
        summary.is_some_and(|at| self.summaries[at].kept.is_none())
    }
}

pub struct Summary {
    /// The node that has this summary already.
    pub kept: Option<i64>,
    pub level: u32,
    /// The nodes summarised.
    pub children: Vec<Child>,
    /// What it was written from: the summarizer and the texts of the children.
    pub member_hash: Vec<u8>,
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
pub fn check_memory(collection: &Collection, partitions: &[Size], options: &Options, keep: bool) -> Result<()> {
    let dimensions = collection.options.dimensions;
    let text = collection.options.summary_tokens as usize * BYTES_PER_TOKEN;
    let mut kept = 0;
    for size in partitions {
        let (leaves, clusters) = (size.leaves as usize, size.clusters(options.method, &options.limits));
        // Each level has at most half of the nodes of the one below, and all their summaries are kept until they are written.
        kept += 2 * clusters * (4 * dimensions + text) + leaves * BYTES_PER_LEAF;
        memory::check(
            bytes_needed(leaves, dimensions, clusters, options, keep) + kept,
            "the tree of this collection",
        )?;
    }
    Ok(())
}

/// A partition's leaves that have a vector.
pub struct Size {
    pub partition: String,
    pub leaves: i64,
    pub tokens: i64,
}

impl Size {
    /// About how many clusters its leaves make.
    pub fn clusters(&self, method: Method, limits: &Limits) -> usize {
        let by_tokens = self.tokens as f64 / f64::from(limits.tokens);
        let by_members = self.leaves as f64 / limits.members as f64;
        let clusters = match method {
            Method::Greedy => by_members,
            _ => GROUPS * by_tokens.max(by_members),
        };
        (clusters.ceil() as usize).min(self.leaves as usize / 2)
    }
}

/// The tree of one partition; nothing if answers are missing, which are planned in the ledger then.
pub fn plan(
    collection: &Collection,
    ledger: &mut Ledger,
    calls: &mut BTreeMap<i32, i64>,
    size: &Size,
    options: &Options,
    keep: bool,
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
        partition: &size.partition,
        limit: options.limits.tokens as usize,
        identity: written::identity(collection)?,
        numbers: keep.then(HashMap::new),
        before: Vec::new(),
        progress: Progress::start(),
    };
    let mut data = Vec::new();
    memory::reserve(&mut data, size.leaves as usize * dimensions)?;
    let (mut sizes, mut known) = (Vec::new(), HashMap::new());
    let sql = "SELECT n.id, n.document_id, n.text_hash, n.token_count, n.embedding FROM {s}.node n JOIN {s}.document d ON d.id = n.document_id \
               WHERE n.level = 0 AND n.embedding IS NOT NULL AND n.partition = $1 \
               ORDER BY d.body_hash, d.source_key COLLATE \"C\", n.ordinal, n.id";
    let leaves = &mut planner.plan.leaves;
    let numbers = &mut planner.numbers;
    collection.stream(sql, &[size.partition.as_str().into()], |row| {
        let (id, document) = (row.need(1)?, row.need(2)?);
        let hash = <[u8; 32]>::try_from(row.need::<Vec<u8>>(3)?.as_slice())
            .map_err(|_| Error::internal("a text_hash is no SHA-256"))?;
        if let Some(numbers) = numbers {
            let number = known.get(&hash).copied().unwrap_or(leaves.len());
            numbers.insert(id, number as u32);
        }
        match known.entry(hash) {
            Entry::Occupied(first) => {
                let first: &usize = first.get();
                leaves[*first].copies.push((id, document));
            }
            Entry::Vacant(place) => {
                place.insert(leaves.len());
                leaves.push(Leaf {
                    id,
                    document,
                    hash,
                    copies: Vec::new(),
                });
                sizes.push(row.need::<i32>(4)?.max(0) as u32);
                data.extend_from_slice(&row.need::<vector::Vector>(5)?.0);
            }
        }
        Ok(())
    })?;
    drop(known);
    let leaves = Vectors::new(dimensions, data, &mut tick).map_err(|e| Error::internal(e.to_string()))?;
    let count = leaves.len();
    step_ends("read");
    let mut grouping = Progress::start();
    let mut tick = || {
        tick();
        grouping.say(|| format!("grouping {count} leaves"));
    };
    // One text that several leaves have: a root over them, all the same.
    let built = match planner.plan.leaves.as_slice() {
        [Leaf { copies, .. }] if !copies.is_empty() => {
            let only = Child { node: 0, weight: 1.0 };
            planner
                .summarize(1, &[vec![only]], &[None])
                .map(drop)
                .map_err(BuildError::Summarize)
        }
        _ => build(leaves, sizes, options, &mut planner, &mut tick).map(drop),
    };
    match built {
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
    partition: &'a str,
    /// Tokens of a cluster at most. Of a text no more than half of that is read.
    limit: usize,
    /// The summarizer, as far as a summary depends on it.
    identity: Vec<u8>,
    /// The numbers of the nodes that there are, or of those that go on from them; nothing in a build that does not look at the tree that there is.
    numbers: Option<HashMap<i64, u32>>,
    /// The parents that there are on the level that is being clustered.
    before: Vec<i64>,
    progress: Progress,
}

impl Summarize for Planner<'_, '_> {
    type Error = Stop;

    fn before(&mut self, level: u32, items: &[u32]) -> std::result::Result<Vec<Before>, Stop> {
        self.before.clear();
        let Some(numbers) = &self.numbers else {
            return Ok(vec![]);
        };
        let rows: HashMap<u32, u32> = (0..).zip(items).map(|(row, &item)| (item, row)).collect();
        let (ids, plan) = (&mut self.before, &self.plan);
        let mut before = Vec::new();
        let sql = "SELECT p.id, p.stale, array_agg(c.child_id), array_agg(c.weight) FROM {s}.node p \
                   LEFT JOIN {s}.node_child c ON c.parent_id = p.id WHERE p.level = $1 AND p.partition = $2 GROUP BY p.id ORDER BY p.id";
        let args = [(level as i32).into(), self.partition.into()];
        self.collection.stream(sql, &args, |row| {
            let children: Vec<Option<i64>> = row.need(3)?;
            let weights: Vec<Option<f64>> = row.need(4)?;
            let mut changed: bool = row.need(2)?;
            let mut members = BTreeMap::new();
            for (child, weight) in children.into_iter().zip(weights) {
                let number = child.and_then(|id| numbers.get(&id));
                let row = number.and_then(|number| rows.get(number));
                // A child that is written anew may have moved.
                changed |= row.is_none() || number.is_some_and(|&number| plan.is_new(number));
                if let (Some(&row), Some(weight)) = (row, weight) {
                    let known: &mut f64 = members.entry(row).or_insert(weight);
                    *known = known.max(weight);
                }
            }
            let member = |(row, weight): (u32, f64)| Member {
                row,
                weight: (weight as f32).clamp(f32::MIN_POSITIVE, 1.0),
            };
            ids.push(row.need(1)?);
            before.push(Before {
                cluster: members.into_iter().map(member).collect(),
                changed,
            });
            Ok(())
        })?;
        Ok(before)
    }

    fn summarize(
        &mut self,
        level: u32,
        clusters: &[Vec<Child>],
        was: &[Option<u32>],
    ) -> std::result::Result<Vec<Written>, Stop> {
        step_ends("cluster");
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
            let mut new: Vec<&mut Summary> = part.iter_mut().filter(|summary| summary.kept.is_none()).collect();
            self.embed(&mut new)?;
        }
        step_ends("embed");
        *self.calls.entry(level as i32).or_default() += self.ledger.calls - before;
        if self.ledger.waiting > waiting {
            return Err(Stop::Waiting);
        }
        let first = (self.plan.leaves.len() + self.plan.summaries.len()) as u32;
        for (number, was) in (first..).zip(was) {
            if let (Some(numbers), Some(was)) = (&mut self.numbers, was) {
                numbers.insert(self.before[*was as usize], number);
            }
        }
        let written = |summary: &Summary| Written {
            vector: summary.embedding.clone(),
            tokens: summary.tokens as u32,
        };
        let written = summaries.iter().map(written).collect();
        self.plan.summaries.extend(summaries);
        Ok(written)
    }
}

impl Planner<'_, '_> {
    /// The summaries of some clusters: those that there are, and those that are written now, which have no text if the model
    /// has not answered yet.
    fn write(&mut self, level: u32, clusters: &[Vec<Child>]) -> Result<Vec<Summary>> {
        let mut summaries: Vec<Summary> = clusters
            .iter()
            .map(|children| Summary {
                kept: None,
                level,
                children: children.clone(),
                member_hash: self.member_hash(children),
                documents: self.documents(children),
                text: String::new(),
                hash: Vec::new(),
                tokens: 0,
                embedding: None,
                stale: false,
            })
            .collect();
        self.keep(level, &mut summaries)?;
        let mut new: Vec<&mut Summary> = summaries.iter_mut().filter(|summary| summary.kept.is_none()).collect();
        self.write_new(&mut new)?;
        step_ends("summarise");
        Ok(summaries)
    }

    /// Takes over the nodes that were written from the same texts by the same summarizer.
    fn keep(&self, level: u32, summaries: &mut [Summary]) -> Result<()> {
        let hashes: Vec<Vec<u8>> = summaries.iter().map(|summary| summary.member_hash.clone()).collect();
        let sql = "SELECT DISTINCT ON (n.member_hash) n.member_hash, n.id, n.text, n.text_hash, n.token_count, n.embedding \
                   FROM {s}.node n WHERE n.member_hash = ANY ($1) AND n.level = $2 AND n.partition = $3 AND NOT n.stale \
                   AND n.embedding IS NOT NULL ORDER BY n.member_hash, n.id";
        let args = [hashes.into(), (level as i32).into(), self.partition.into()];
        let mut found: HashMap<Vec<u8>, (i64, String, Vec<u8>, i32, Vec<f32>)> = HashMap::new();
        self.collection.stream(sql, &args, |row| {
            let node = (
                row.need(2)?,
                row.need(3)?,
                row.need(4)?,
                row.need(5)?,
                row.need::<vector::Vector>(6)?.0,
            );
            found.insert(row.need(1)?, node);
            Ok(())
        })?;
        for summary in summaries {
            if let Some((id, text, hash, tokens, embedding)) = found.remove(&summary.member_hash) {
                summary.kept = Some(id);
                (summary.text, summary.hash, summary.tokens) = (text, hash, tokens);
                summary.embedding = Some(embedding);
            }
        }
        Ok(())
    }

    fn write_new(&mut self, summaries: &mut [&mut Summary]) -> Result<()> {
        let options = &self.collection.options;
        let model = &options.summarizer;
        let texts = self.texts(summaries.iter().flat_map(|summary| &summary.children))?;
        step_ends("read");
        let mut rest = &texts[..];
        let mut items = Vec::new();
        let mut own = Vec::new();
        for summary in summaries.iter() {
            let (texts, others) = rest.split_at(summary.children.len());
            rest = others;
            let texts: Vec<&str> = texts.iter().map(|text| tokens::head(text, self.limit / 2)).collect();
            if !model.is_built_in() {
                items.push(Item::new(
                    prompts::summarize(model, options, &texts),
                    summary.documents.clone(),
                ));
            }
            own.push(texts);
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
        Ok(())
    }

    fn embed(&mut self, summaries: &mut [&mut Summary]) -> Result<()> {
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

    /// What a summary of `children` is written from.
    fn member_hash(&self, children: &[Child]) -> Vec<u8> {
        let mut hash = Sha256::new_with_prefix(&self.identity);
        for child in children {
            match self.plan.leaves.get(child.node as usize) {
                Some(leaf) => hash.update(leaf.hash),
                None => hash.update(&self.summary(child).hash),
            }
        }
        hash.finalize().to_vec()
    }

    fn summary(&self, child: &Child) -> &Summary {
        &self.plan.summaries[child.node as usize - self.plan.leaves.len()]
    }

    /// The documents under a cluster, sorted.
    fn documents(&self, children: &[Child]) -> Vec<i64> {
        let mut documents: Vec<i64> = Vec::new();
        for child in children {
            match self.plan.leaves.get(child.node as usize) {
                Some(leaf) => {
                    documents.push(leaf.document);
                    documents.extend(leaf.copies.iter().map(|(_, document)| document));
                }
                None => documents.extend_from_slice(&self.summary(child).documents),
            }
        }
        documents.sort_unstable();
        documents.dedup();
        documents
    }

    /// The texts of nodes, in their order.
    fn texts<'c>(&self, children: impl Iterator<Item = &'c Child> + Clone) -> Result<Vec<String>> {
        let leaf = |child: &Child| self.plan.leaves.get(child.node as usize).map(|leaf| leaf.id);
        let ids: Vec<i64> = children.clone().filter_map(leaf).collect();
        let sql = "SELECT n.text FROM unnest($1::bigint[]) WITH ORDINALITY AS u (id, n) JOIN {s}.node n ON n.id = u.id ORDER BY u.n";
        let mut of_leaves = self
            .collection
            .query(sql, &[ids.into()], |row| row.need::<String>(1))?
            .into_iter();
        children
            .map(|child| match leaf(child) {
                None => Ok(self.summary(child).text.clone()),
                Some(_) => of_leaves.next().ok_or_else(|| Error::internal("a leaf is gone")),
            })
            .collect()
    }
}

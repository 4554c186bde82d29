//! From a ranking to its result: what repeats is left out, what does not fit is skipped, the rest is read.

use std::collections::{HashMap, HashSet};

use graphrag_rank::budget::Budget;
use graphrag_text::repeat::Said;

use crate::collection::Collection;
use crate::error::Result;
use crate::pg::{json::Json, memory, tick};

/// Nodes that are read at once, at most.
const BATCH: usize = 1_000;
/// The share of a text from which on it repeats more than it adds.
const HALF: f64 = 0.5;
/// What a hit costs beside its text.
const BYTES_PER_HIT: usize = 500;
/// What a sentence costs beside its bytes.
const BYTES_PER_SENTENCE: usize = 80;

/// A row of a result.
pub struct Hit {
    pub node: i64,
    pub level: i32,
    pub score: f64,
    pub text: String,
    pub tokens: i32,
    pub metadata: Json,
    /// At most 1,000 of the documents that it draws on.
    pub document_ids: Vec<i64>,
    /// Their number.
    pub documents: i64,
    /// Where a leaf, or its block if that is shown, stands.
    pub block: Option<i64>,
    pub section: Option<Vec<String>>,
    pub start: Option<i32>,
    pub end: Option<i32>,
    /// The text of the leaf for which its block is shown.
    pub matched: Option<String>,
    hash: Vec<u8>,
}

impl Hit {
    /// The document of a leaf.
    pub fn document(&self) -> Option<i64> {
        match self.level {
            0 => self.document_ids.first().copied(),
            _ => None,
        }
    }
}

/// What is shown of a ranking.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Rows at most.
    pub k: i64,
    /// Tokens at most.
    pub budget: Option<i64>,
    pub overlap: Overlap,
    pub show: Show,
    /// The share of a text, in whole sentences, from which on it is left out where one better row says it.
    pub repeats: Option<f64>,
}

/// What is shown for a leaf.
#[derive(Clone, Copy, PartialEq)]
pub enum Show {
    /// Itself, even where another has the same text.
    Each,
    /// Itself, and each text once, with the place where it stands.
    Leaf,
    /// Its block, each once.
    Block,
}

impl Show {
    /// What is read of a node `n`: text, tokens, block, its section, start and end, the matched text, and the hash of the text.
    fn columns(self) -> &'static str {
        match self {
            Show::Each => {
                "n.text, n.token_count, NULL::bigint, NULL::text[], NULL::int, NULL::int, NULL::text, n.text_hash"
            }
            Show::Leaf => {
                "n.text, n.token_count, n.block_id, b.section_path, n.start_char, n.end_char, NULL::text, n.text_hash"
            }
            // A block that row security hides leaves the leaf.
            Show::Block => {
                "coalesce(b.text, n.text), coalesce(b.token_count, n.token_count), n.block_id, b.section_path, \
                 coalesce(b.start_char, n.start_char), coalesce(b.end_char, n.end_char), \
                 CASE WHEN b.id IS NOT NULL THEN n.text END, coalesce(b.text_hash, n.text_hash)"
            }
        }
    }

    fn joins(self) -> &'static str {
        match self {
            Show::Each => "",
            Show::Leaf | Show::Block => "LEFT JOIN {s}.block b ON b.id = n.block_id",
        }
    }
}

/// What becomes of a node that stands above or below a better one and repeats it.
#[derive(Clone, Copy, PartialEq)]
pub enum Overlap {
    /// It is left out if at least half of it is said by better ones, or if it says all that one of them says.
    Skip,
    /// It is left out if all of it is said by better ones.
    Extend,
    Keep,
}

/// What became of a node of a ranking.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    Shown,
    /// It says what this node says.
    Repeats(i64),
    /// It has more tokens than were left.
    TooLarge,
}

/// Goes down a ranking and takes what is shown.
pub struct Packer<'a> {
    collection: &'a Collection,
    limits: Limits,
    budget: Budget,
    pub hits: Vec<Hit>,
    /// How many of the ranking repeated nothing, whether they fitted or not: at most `k`.
    pub ranked: i64,
    /// What became of the nodes of the ranking, down to the one that filled the result.
    pub outcomes: Vec<(i64, Outcome)>,
    bytes: usize,
    /// Hashes of the texts, and the blocks, that have had their place, and by which node.
    texts: HashMap<Vec<u8>, i64>,
    blocks: HashMap<i64, i64>,
    /// Where a node taken stands in `hits`.
    taken: HashMap<i64, usize>,
    /// Which nodes taken stand below a node.
    below: HashMap<i64, Vec<usize>>,
    /// What nodes taken say, as soon as it is asked for.
    said: HashMap<usize, Said>,
    /// Which nodes taken say a sentence.
    sentences: HashMap<String, Vec<i64>>,
}

impl<'a> Packer<'a> {
    pub fn new(collection: &'a Collection, limits: Limits) -> Packer<'a> {
        Packer {
            collection,
            limits,
            budget: Budget::new(limits.budget.map(|tokens| tokens as u64)),
            hits: Vec::new(),
            ranked: 0,
            outcomes: Vec::new(),
            bytes: 0,
            texts: HashMap::new(),
            blocks: HashMap::new(),
            taken: HashMap::new(),
            below: HashMap::new(),
            said: HashMap::new(),
            sentences: HashMap::new(),
        }
    }

    /// Takes of a ranking, (id, score), what is shown.
    pub fn pack(&mut self, ranking: &[(i64, f64)]) -> Result<()> {
        let all: HashSet<i64> = match self.limits.overlap {
            Overlap::Keep => HashSet::new(),
            _ => ranking.iter().map(|(id, _)| *id).collect(),
        };
        // Of a long ranking few are shown.
        let batch = usize::try_from(2 * self.limits.k + 10).map_or(BATCH, |batch| batch.min(BATCH));
        for part in ranking.chunks(batch) {
            if self.ranked == self.limits.k {
                break;
            }
            let mut above = self.above(part, &all)?;
            for hit in self.read(part)? {
                if self.ranked == self.limits.k {
                    break;
                }
                tick();
                let above = above.remove(&hit.node).unwrap_or_default();
                let said = self.limits.repeats.map(|_| Said::new(&hit.text));
                let other = self.same(&hit).or_else(|| self.said_by_one(said.as_ref()?));
                if let Some(other) = other.or_else(|| self.repeated(&hit, &above)) {
                    self.outcomes.push((hit.node, Outcome::Repeats(other)));
                    continue;
                }
                self.note(&hit);
                self.ranked += 1;
                if self.budget.take(hit.tokens.max(0) as u64) {
                    self.outcomes.push((hit.node, Outcome::Shown));
                    for sentence in said.iter().flat_map(Said::sentences) {
                        self.bytes += sentence.len() + BYTES_PER_SENTENCE;
                        self.sentences.entry(sentence.to_owned()).or_default().push(hit.node);
                    }
                    self.take(hit, above);
                } else {
                    self.outcomes.push((hit.node, Outcome::TooLarge));
                }
            }
            memory::check(self.bytes, "the result of this search")?;
        }
        Ok(())
    }

    fn read(&self, part: &[(i64, f64)]) -> Result<Vec<Hit>> {
        let (ids, scores): (Vec<i64>, Vec<f64>) = part.iter().copied().unzip();
        let sql = format!(
            "SELECT n.id, n.level, u.score, n.metadata, \
               CASE WHEN n.level = 0 THEN ARRAY[n.document_id] ELSE ARRAY(SELECT s.document_id FROM {{s}}.node_source s \
                    WHERE s.node_id = n.id ORDER BY 1 LIMIT 1000) END, \
               n.source_count::bigint, {} \
             FROM unnest($1::bigint[], $2::float8[]) WITH ORDINALITY AS u (id, score, n) \
             JOIN {{s}}.node n ON n.id = u.id {} ORDER BY u.n",
            self.limits.show.columns(),
            self.limits.show.joins()
        );
        self.collection.lookup(&sql, &[ids.into(), scores.into()], |row| {
            Ok(Hit {
                node: row.need(1)?,
                level: row.need(2)?,
                score: row.need(3)?,
                metadata: row.need(4)?,
                document_ids: row.need(5)?,
                documents: row.need(6)?,
                text: row.need(7)?,
                tokens: row.need(8)?,
                block: row.get(9)?,
                section: row.get(10)?,
                start: row.get(11)?,
                end: row.get(12)?,
                matched: row.get(13)?,
                hash: row.need(14)?,
            })
        })
    }

    /// Which of `all` stand above each of some nodes, however far.
    fn above(&self, part: &[(i64, f64)], all: &HashSet<i64>) -> Result<HashMap<i64, Vec<i64>>> {
        let mut above: HashMap<i64, Vec<i64>> = HashMap::new();
        if self.limits.overlap == Overlap::Keep {
            return Ok(above);
        }
        let ids: Vec<i64> = part.iter().map(|(id, _)| *id).collect();
        // UNION, since a node has several ways up, and lest rows written by hand that go in a circle have no end.
        let sql = "WITH RECURSIVE above (id, ancestor) AS ( \
                     SELECT c.child_id, c.parent_id FROM {s}.node_child c WHERE c.child_id = ANY ($1) \
                     UNION SELECT a.id, c.parent_id FROM above a JOIN {s}.node_child c ON c.child_id = a.ancestor) \
                   SELECT id, ancestor FROM above";
        self.collection.stream(sql, &[ids.into()], |row| {
            let ancestor = row.need(2)?;
            if all.contains(&ancestor) {
                above.entry(row.need(1)?).or_default().push(ancestor);
            }
            Ok(())
        })?;
        Ok(above)
    }

    /// The node by which its text, or its block, has had its place.
    fn same(&self, hit: &Hit) -> Option<i64> {
        let block = hit.block.filter(|_| self.limits.show == Show::Block);
        let text = self.texts.get(&hit.hash);
        text.or_else(|| self.blocks.get(&block?)).copied()
    }

    /// The node taken that says most of a text, if that is enough of it.
    fn said_by_one(&self, said: &Said) -> Option<i64> {
        let mut by: HashMap<i64, usize> = HashMap::new();
        for sentence in said.sentences() {
            // A text may say a sentence twice.
            let mut last = None;
            for &node in self.sentences.get(sentence).into_iter().flatten() {
                if last.replace(node) != Some(node) {
                    *by.entry(node).or_default() += sentence.len();
                }
            }
        }
        let all: usize = said.sentences().map(str::len).sum();
        let (node, most) = by
            .into_iter()
            .max_by_key(|(node, most)| (*most, std::cmp::Reverse(*node)))?;
        (most as f64 >= self.limits.repeats? * all as f64).then_some(node)
    }

    fn note(&mut self, hit: &Hit) {
        if self.limits.show != Show::Each {
            self.texts.insert(hit.hash.clone(), hit.node);
            self.blocks.extend(hit.block.map(|block| (block, hit.node)));
        }
    }

    /// Of the nodes taken that stand above or below a node and that it repeats, the one that says most of it.
    fn repeated(&mut self, hit: &Hit, above: &[i64]) -> Option<i64> {
        let mut related: Vec<usize> = above.iter().filter_map(|id| self.taken.get(id).copied()).collect();
        related.extend(self.below.get(&hit.node).into_iter().flatten());
        if related.is_empty() {
            return None;
        }
        for &at in &related {
            let hits = &self.hits;
            let bytes = &mut self.bytes;
            self.said.entry(at).or_insert_with(|| {
                *bytes += hits[at].text.len();
                Said::new(&hits[at].text)
            });
        }
        let said: Vec<&Said> = related.iter().map(|at| &self.said[at]).collect();
        let this = Said::new(&hit.text);
        let share = this.share_said_by(&said);
        let whole = || said.iter().position(|other| other.share_said_by(&[&this]) == 1.0);
        let most = || {
            let shares = said.iter().map(|other| this.share_said_by(&[other]));
            shares
                .enumerate()
                .rev()
                .max_by(|a, b| a.1.total_cmp(&b.1))
                .map(|most| most.0)
        };
        let at = match self.limits.overlap {
            Overlap::Skip if share >= HALF => most(),
            Overlap::Skip => whole(),
            Overlap::Extend if share == 1.0 => most(),
            Overlap::Extend | Overlap::Keep => None,
        };
        at.map(|at| self.hits[related[at]].node)
    }

    fn take(&mut self, hit: Hit, above: Vec<i64>) {
        let at = self.hits.len();
        self.bytes += hit.text.len() + hit.matched.as_ref().map_or(0, String::len) + BYTES_PER_HIT + above.len() * 32;
        self.taken.insert(hit.node, at);
        for ancestor in above {
            self.below.entry(ancestor).or_default().push(at);
        }
        self.hits.push(hit);
    }
}

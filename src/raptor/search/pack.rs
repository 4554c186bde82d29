//! From a ranking to its result: what repeats is left out, what does not fit is skipped, the rest is read.

use std::collections::{HashMap, HashSet};

use graphrag_text::repeat::Said;

use super::Asked;
use crate::collection::Collection;
use crate::error::Result;
use crate::pg::{json::Json, memory, tick};

/// Nodes that are read at once.
const BATCH: usize = 1_000;
/// The share of a text from which on it repeats more than it adds.
const HALF: f64 = 0.5;
/// What a hit costs beside its text.
const BYTES_PER_HIT: usize = 500;

pub type Hit = (i64, i32, f64, String, i32, Json, Vec<i64>, i64);

/// What becomes of a node that stands above or below a better one and repeats it.
#[derive(Clone, Copy, PartialEq)]
pub enum Overlap {
    /// It is left out if at least half of it is said by better ones, or if it says all that one of them says.
    Skip,
    /// It is left out if all of it is said by better ones.
    Extend,
    Keep,
}

/// Goes down a ranking and takes what is shown.
pub struct Packer<'a> {
    collection: &'a Collection,
    asked: &'a Asked,
    pub hits: Vec<Hit>,
    /// How many of the ranking repeated nothing, whether they fitted or not: at most `k`.
    pub ranked: i64,
    tokens: i64,
    bytes: usize,
    /// Where a node taken stands in `hits`.
    taken: HashMap<i64, usize>,
    /// Which nodes taken stand below a node.
    below: HashMap<i64, Vec<usize>>,
    /// What nodes taken say, as soon as it is asked for.
    said: HashMap<usize, Said>,
}

impl<'a> Packer<'a> {
    pub fn new(collection: &'a Collection, asked: &'a Asked) -> Packer<'a> {
        Packer {
            collection,
            asked,
            hits: Vec::new(),
            ranked: 0,
            tokens: 0,
            bytes: 0,
            taken: HashMap::new(),
            below: HashMap::new(),
            said: HashMap::new(),
        }
    }

    /// Takes of a ranking, (id, cosine), what is shown.
    pub fn pack(&mut self, ranking: &[(i64, f64)]) -> Result<()> {
        let all: HashSet<i64> = match self.asked.overlap {
            Overlap::Keep => HashSet::new(),
            _ => ranking.iter().map(|(id, _)| *id).collect(),
        };
        for part in ranking.chunks(BATCH) {
            if self.ranked == self.asked.k {
                break;
            }
            let mut above = self.above(part, &all)?;
            for hit in self.read(part)? {
                if self.ranked == self.asked.k {
                    break;
                }
                tick();
                let above = above.remove(&hit.0).unwrap_or_default();
                if self.repeats(&hit, &above) {
                    continue;
                }
                self.ranked += 1;
                let tokens = self.tokens + i64::from(hit.4);
                if self.asked.budget.is_some_and(|budget| tokens > budget) {
                    continue;
                }
                self.tokens = tokens;
                self.take(hit, above);
            }
            memory::check(self.bytes, "the result of this search")?;
        }
        Ok(())
    }

    fn read(&self, part: &[(i64, f64)]) -> Result<Vec<Hit>> {
        let (ids, scores): (Vec<i64>, Vec<f64>) = part.iter().copied().unzip();
        let sql = "SELECT n.id, n.level, u.score, n.text, n.token_count, n.metadata, \
                     CASE WHEN n.level = 0 THEN ARRAY[n.document_id] ELSE ARRAY(SELECT s.document_id FROM {s}.node_source s \
                          WHERE s.node_id = n.id ORDER BY 1 LIMIT 1000) END, \
                     n.source_count::bigint \
                   FROM unnest($1::bigint[], $2::float8[]) WITH ORDINALITY AS u (id, score, n) \
                   JOIN {s}.node n ON n.id = u.id ORDER BY u.n";
        self.collection.query(sql, &[ids.into(), scores.into()], |row| {
            Ok((
                row.need(1)?,
                row.need(2)?,
                row.need(3)?,
                row.need(4)?,
                row.need(5)?,
                row.need(6)?,
                row.need(7)?,
                row.need(8)?,
            ))
        })
    }

    /// Which of `all` stand above each of some nodes, however far.
    fn above(&self, part: &[(i64, f64)], all: &HashSet<i64>) -> Result<HashMap<i64, Vec<i64>>> {
        let mut above: HashMap<i64, Vec<i64>> = HashMap::new();
        if self.asked.overlap == Overlap::Keep {
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

    /// Whether a node repeats nodes taken that stand above or below it.
    fn repeats(&mut self, hit: &Hit, above: &[i64]) -> bool {
        let mut related: Vec<usize> = above.iter().filter_map(|id| self.taken.get(id).copied()).collect();
        related.extend(self.below.get(&hit.0).into_iter().flatten());
        if related.is_empty() {
            return false;
        }
        for &at in &related {
            let hits = &self.hits;
            let bytes = &mut self.bytes;
            self.said.entry(at).or_insert_with(|| {
                *bytes += hits[at].3.len();
                Said::new(&hits[at].3)
            });
        }
        let said: Vec<&Said> = related.iter().map(|at| &self.said[at]).collect();
        let this = Said::new(&hit.3);
        let share = this.share_said_by(&said);
        match self.asked.overlap {
            Overlap::Skip => share >= HALF || said.iter().any(|other| other.share_said_by(&[&this]) == 1.0),
            Overlap::Extend => share == 1.0,
            Overlap::Keep => false,
        }
    }

    fn take(&mut self, hit: Hit, above: Vec<i64>) {
        let at = self.hits.len();
        self.bytes += hit.3.len() + BYTES_PER_HIT + above.len() * 32;
        self.taken.insert(hit.0, at);
        for ancestor in above {
            self.below.entry(ancestor).or_default().push(at);
        }
        self.hits.push(hit);
    }
}

//! Learning: the terms' vectors from the leaves of the collection, a piece at a time.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use graphrag_lsa::{Counts, Folding, Learned, Learner, Options, bytes_needed, idf};

use super::State;
use super::space::{Space, Term};
use crate::collection::Collection;
use crate::error::{Error, Result, notice};
use crate::lexical::{Lexemes, Row};
use crate::pg::{spi, threads, tick, vector};
use crate::progress::count;
use crate::settings;

/// Leaves that are learned from, if there are more.
const SAMPLE: usize = 20_000;
/// Leaves that are read at once.
const BATCH: i64 = 1_000;
/// The share of the budget, one in so many, for what the dictionaries have answered.
const WORDS: usize = 8;
/// How long a piece takes, about.
const PIECE: Duration = Duration::from_millis(300);
/// Terms that are written at once, and the bytes of their vectors.
const WRITE: usize = 5_000;
const WRITE_BYTES: usize = 32 << 20;

/// The decomposition of a collection, at work.
pub struct Learning {
    dimensions: usize,
    lexemes: Lexemes,
    /// How many leaves hold each term.
    holding: Vec<u64>,
    leaves: u64,
    occurrences: u64,
    /// The text hash up to which leaves are in the sample; nothing if all are.
    bound: Option<Vec<u8>>,
    /// The greatest beginning of a text hash in the sample, which is halved as long as memory is short.
    limit: u64,
    sample: Vec<(Vec<u8>, Row)>,
    sample_bytes: usize,
    /// Whether leaves are left out for want of memory, though not for their number.
    left_out: bool,
    rank: usize,
    /// The last leaf read.
    at: i64,
    stage: Stage,
}

enum Stage {
    Read,
    Learn(Box<Learner>, Vec<u32>),
    /// Gives terms outside of the sample the vectors of the leaves that hold them.
    Fold(Box<Space>, Box<Folding>),
    Done(Box<Space>),
    /// Between two stages.
    Nothing,
}

impl Learning {
    pub fn new(collection: &Collection, dimensions: usize) -> Result<Learning> {
        let mut learning = Learning {
            dimensions,
            lexemes: Lexemes::default(),
            holding: Vec::new(),
            leaves: 0,
            occurrences: 0,
            bound: None,
            limit: u64::MAX,
            sample: Vec::new(),
            sample_bytes: 0,
            left_out: false,
            rank: 0,
            at: 0,
            stage: Stage::Read,
        };
        learning.bound = Self::bound_of(collection, SAMPLE)?;
        Ok(learning)
    }

    /// The hash of the last of so many leaves. Hashes fall as by chance, and do not depend on the order of insertion.
    fn bound_of(collection: &Collection, size: usize) -> Result<Option<Vec<u8>>> {
        let sql = "SELECT text_hash FROM {s}.node WHERE level = 0 ORDER BY text_hash OFFSET $1 LIMIT 1";
        Ok(collection
            .query(sql, &[(size as i64 - 1).into()], |row| row.need(1))?
            .pop())
    }

    pub fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done(_))
    }

    /// A short piece of the work.
    pub fn step(&mut self, collection: &Collection) -> Result<()> {
        let started = Instant::now();
        while started.elapsed() < PIECE && !self.is_done() {
            self.stage = match std::mem::replace(&mut self.stage, Stage::Nothing) {
                Stage::Read => self.read(collection)?,
                Stage::Learn(learner, terms) => match learner.step(&mut tick) {
                    ControlFlow::Continue(learner) => Stage::Learn(Box::new(learner), terms),
                    ControlFlow::Break(learned) => self.learned(learned, &terms),
                },
                Stage::Fold(space, folding) => self.fold(collection, space, folding)?,
                done => done,
            };
        }
        Ok(())
    }

    /// The texts of the next leaves, with their hashes.
    fn next(&mut self, collection: &Collection) -> Result<Vec<(Vec<u8>, String)>> {
        let sql = "SELECT id, text_hash, text FROM {s}.node WHERE level = 0 AND id > $1 ORDER BY id LIMIT $2";
        let leaves = collection.returning(sql, &[self.at.into(), BATCH.into()], |row| {
            Ok((row.need::<i64>(1)?, row.need(2)?, row.need(3)?))
        })?;
        self.at = leaves.last().map_or(self.at, |leaf| leaf.0);
        Ok(leaves.into_iter().map(|(_, hash, text)| (hash, text)).collect())
    }

    fn read(&mut self, collection: &Collection) -> Result<Stage> {
        let leaves = self.next(collection)?;
        if leaves.is_empty() {
            return self.begin(collection);
        }
        let texts: Vec<&str> = leaves.iter().map(|(_, text)| text.as_str()).collect();
        let rows = self.lexemes.rows(collection, &texts)?;
        self.holding.resize(self.lexemes.len(), 0);
        for ((hash, _), row) in leaves.into_iter().zip(rows) {
            self.leaves += 1;
            for &(term, count) in &row {
                self.holding[term as usize] += 1;
                self.occurrences += u64::from(count);
            }
            if start_of(&hash) <= self.limit && self.bound.as_ref().is_none_or(|bound| hash <= *bound) {
                self.sample_bytes += bytes_of(&row);
                self.sample.push((hash, row));
            }
        }
        self.lexemes.forget_words(settings::build_memory() / WORDS);
        // By the beginning of the hash, so that the order of reading does not count.
        while self.sample_bytes > self.room() && self.limit > 0 {
            self.limit /= 2;
            self.sample.retain(|(hash, _)| start_of(hash) <= self.limit);
            self.sample_bytes = self.sample.iter().map(|(_, row)| bytes_of(row)).sum();
            self.left_out = true;
        }
        Ok(Stage::Read)
    }

    /// The bytes that the terms leave for the sample, and for learning from it: some of the budget at least.
    fn room(&self) -> usize {
        let budget = settings::build_memory();
        budget - budget / WORDS - self.lexemes.bytes().min(budget / 2)
    }

    /// Lays the sample out in canonical order: rows by the hashes of their texts, which stand once, terms by their names.
    fn begin(&mut self, collection: &Collection) -> Result<Stage> {
        let mut sample = std::mem::take(&mut self.sample);
        sample.sort_unstable();
        sample.dedup_by(|a, b| a.0 == b.0);
        tick();
        let options = self.options()?;
        let room = self.room();
        let (mut counts, mut terms) = self.matrix(&sample);
        loop {
            let rows: usize = sample.iter().map(|(_, row)| bytes_of(row)).sum();
            let needed = bytes_needed(counts.len(), terms.len(), counts.nonzeros(), &options);
            if needed.max(rows) + counts.bytes() <= room || sample.len() <= 1 {
                break;
            }
            sample.truncate(sample.len() / 2);
            self.left_out = true;
            (counts, terms) = self.matrix(&sample);
            tick();
        }
        if self.left_out {
            notice(
                format!(
                    "the embedder learns from {} of {} leaves, for which graphrag.build_memory is enough",
                    sample.len(),
                    self.leaves.min(SAMPLE as u64)
                ),
                format!("SET graphrag.build_memory to more; {}.", super::to_learn(collection)),
            );
        }
        drop(sample);
        let weights: Vec<f64> = terms.iter().map(|&term| self.weight(term)).collect();
        let learner =
            Learner::new(&counts, &weights, options, &mut tick).map_err(|e| Error::internal(e.to_string()))?;
        Ok(Stage::Learn(Box::new(learner), terms))
    }

    fn options(&self) -> Result<Options> {
        let dimensions = self
            .dimensions
            .try_into()
            .map_err(|_| Error::internal("no dimensions"))?;
        let crew = threads::crew()?;
        Ok(Options {
            threads: crew.threads,
            spawning: crew.spawning,
            ..Options::new(dimensions)
        })
    }

    fn weight(&self, term: u32) -> f64 {
        idf(self.leaves, self.holding[term as usize])
    }

    /// The counts of a sample, in which terms are numbered by their names, and these terms.
    fn matrix(&self, sample: &[(Vec<u8>, Row)]) -> (Counts, Vec<u32>) {
        let mut terms: Vec<u32> = sample
            .iter()
            .flat_map(|(_, row)| row.iter().map(|(term, _)| *term))
            .collect();
        terms.sort_unstable();
        terms.dedup();
        tick();
        terms.sort_unstable_by(|&a, &b| self.lexemes.name(a).cmp(self.lexemes.name(b)));
        tick();
        let mut place = vec![0; self.lexemes.len()];
        for (number, &term) in terms.iter().enumerate() {
            place[term as usize] = number as u32;
        }
        let mut counts = Counts::new();
        for (_, row) in sample {
            let row: Vec<(u32, u32)> = row.iter().map(|&(term, count)| (place[term as usize], count)).collect();
            counts.push(&row);
        }
        (counts, terms)
    }

    /// The space of what is learned; terms outside of the sample come into it by the leaves that hold them.
    fn learned(&mut self, learned: Learned, of: &[u32]) -> Stage {
        self.rank = learned.rank;
        let lexemes = std::mem::take(&mut self.lexemes);
        let mut terms: Vec<Option<Term>> = (0..lexemes.len() as u32)
            .map(|term| {
                Some(Term {
                    weight: self.weight(term),
                    vector: None,
                })
            })
            .collect();
        for (number, &term) in of.iter().enumerate() {
            if let Some(Some(entry)) = terms.get_mut(term as usize) {
                entry.vector = learned.vector(number, lexemes.name(term)).map(Vec::into_boxed_slice);
            }
        }
        drop(learned);
        let space = Box::new(Space::new(self.dimensions, self.leaves, lexemes, terms));
        if !self.left_out && self.bound.is_none() {
            return Stage::Done(space);
        }
        let mut outside: Vec<u32> = (0..space.terms.len() as u32)
            .filter(|&term| matches!(&space.terms[term as usize], Some(Term { vector: None, .. })))
            .collect();
        // The commonest first, as many as the memory is enough for.
        outside.sort_unstable_by(|&a, &b| {
            let holding = |term: u32| self.holding[term as usize];
            holding(b)
                .cmp(&holding(a))
                .then_with(|| space.lexemes.name(a).cmp(space.lexemes.name(b)))
        });
        let size = 4 * self.dimensions + 64;
        let standing = of.len() * size + space.lexemes.bytes();
        outside.truncate(settings::build_memory().saturating_sub(standing) / (2 * size));
        self.at = 0;
        Stage::Fold(space, Box::new(Folding::new(self.dimensions, &outside)))
    }

    fn fold(&mut self, collection: &Collection, mut space: Box<Space>, mut folding: Box<Folding>) -> Result<Stage> {
        let leaves = self.next(collection)?;
        let texts: Vec<&str> = leaves.iter().map(|(_, text)| text.as_str()).collect();
        for row in space.lexemes.rows(collection, &texts)? {
            let known: Row = row
                .iter()
                .copied()
                .filter(|(term, _)| {
                    matches!(
                        space.terms.get(*term as usize),
                        Some(Some(Term { vector: Some(_), .. }))
                    )
                })
                .collect();
            if known.len() < row.len()
                && let Some(vector) = space.sum(&known)
            {
                row.iter().for_each(|&(term, count)| folding.add(term, count, &vector));
            }
        }
        if !leaves.is_empty() {
            return Ok(Stage::Fold(space, folding));
        }
        for term in folding.terms() {
            let vector = folding.vector(term, space.lexemes.name(term));
            if let Some(Some(entry)) = space.terms.get_mut(term as usize) {
                entry.vector = vector.map(Vec::into_boxed_slice);
            }
        }
        Ok(Stage::Done(space))
    }

    /// Ends with the space that is learned, and what is left to do when all leaves are embedded by it.
    pub fn finish(self) -> Result<(Space, Taught)> {
        match self.stage {
            Stage::Done(space) => Ok((
                *space,
                Taught {
                    leaves: self.leaves,
                    occurrences: self.occurrences,
                    rank: self.rank,
                    holding: Vec::new(),
                    last_node: 0,
                    last_document: 0,
                },
            )),
            _ => Err(Error::internal("learning is not done")),
        }
    }
}

/// The beginning of a hash.
fn start_of(hash: &[u8]) -> u64 {
    hash.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// About how many bytes a row of the sample takes, with its hash.
fn bytes_of(row: &Row) -> usize {
    128 + size_of_val(row.as_slice())
}

/// What the leaves hold that the learned space is written for.
pub struct Taught {
    /// Those that the weights are of.
    leaves: u64,
    occurrences: u64,
    rank: usize,
    /// How many documents hold each term, and the last of them.
    holding: Vec<(i64, i64)>,
    last_node: i64,
    last_document: i64,
}

impl Taught {
    /// Counts a leaf in. The leaves of a document come one after the other.
    pub fn count(&mut self, document: i64, node: i64, row: &Row) {
        self.last_document = self.last_document.max(document);
        self.last_node = self.last_node.max(node);
        for &(term, _) in row {
            let term = term as usize;
            if term >= self.holding.len() {
                self.holding.resize(term + 1, (0, 0));
            }
            let (count, last) = &mut self.holding[term];
            if *count == 0 || *last != document {
                (*count, *last) = (*count + 1, document);
            }
        }
    }

    /// Puts the space in the place of the one before.
    pub fn write(&self, collection: &Collection, space: &Space) -> Result<()> {
        collection.execute("DELETE FROM {s}.term", &[])?;
        collection.execute("DELETE FROM {s}.change WHERE \"table\" = 'term'", &[])?;
        let mut terms: Vec<u32> = (0..self.holding.len() as u32)
            .filter(|&term| self.holding[term as usize].0 > 0)
            .collect();
        terms.sort_unstable_by(|&a, &b| space.lexemes.name(a).cmp(space.lexemes.name(b)));
        let batch = WRITE.min(WRITE_BYTES / (4 * space.dimensions)).max(1);
        for part in terms.chunks(batch) {
            let mut vectors = Vec::with_capacity(part.len());
            let mut weights = Vec::with_capacity(part.len());
            for &term in part {
                let entry = space.terms.get(term as usize).and_then(Option::as_ref);
                weights.push(entry.map_or(space.unknown, |entry| entry.weight));
                vectors.push(entry.and_then(|entry| entry.vector.as_deref()));
            }
            let args: [spi::Arg; 4] = [
                part.iter()
                    .map(|&term| space.lexemes.name(term).to_owned())
                    .collect::<Vec<String>>()
                    .into(),
                part.iter()
                    .map(|&term| self.holding[term as usize].0)
                    .collect::<Vec<i64>>()
                    .into(),
                weights.into(),
                vector::Vectors(vectors).into(),
            ];
            let sql = "INSERT INTO {s}.term (lexeme, document_count, weight, vector) \
                       SELECT * FROM unnest($1::text[], $2::bigint[], $3::float8[], $4::{v}.vector[])";
            collection.execute(sql, &args)?;
            tick();
        }
        let before = State::load(collection)?;
        State {
            version: before.version.saturating_add(1),
            leaves: self.leaves as i64,
            occurrences: self.occurrences as i64,
            rank: self.rank as i64,
            last_node: self.last_node,
            last_document: self.last_document,
        }
        .save(collection)?;
        collection.analyze(&["term"])
    }
}

/// Says what a collection has learned.
pub fn describe(state: &State, terms: i64) -> String {
    format!(
        "version {}, learned from {}, {} of rank {}",
        state.version,
        count(state.leaves, "leaf", "leaves"),
        count(terms, "term", "terms"),
        state.rank
    )
}

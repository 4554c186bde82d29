//! The decomposition: a truncated singular value decomposition by randomised subspace iteration.

use crate::Counts;
use crate::sparse::{NOWHERE, Prepared, Sparse};
use crate::text::signed_hash;
use graphrag_linear::Crew;
use graphrag_linear::Square;
use graphrag_linear::splitmix64;
use graphrag_linear::{Blocks, Chunk, LANES};
use std::fmt;
use std::num::NonZero;
use std::ops::ControlFlow;

/// Columns that are iterated beyond the rank that is wanted: they make the last singular vectors converge.
const SURPLUS: usize = 10;

/// Singular values less than this, relative to the greatest, are zero.
const ZERO_VALUE: f64 = 1e-6;

/// A term whose learned part is less than this, relative to its column, has only what rounding left of it.
const ZERO_TERM: f64 = 1e-5;

/// How far the products of orthonormal columns may be from 1 and 0.
const ORTHONORMAL: f64 = 1e-5;

/// Tries to make columns orthonormal; each replaces those that depend on others, which chance alone can make depend again.
const MAX_PASSES: usize = 6;

/// The parts that the learned direction and the signed hash have in a term's vector.
const LEARNED_PART: f32 = 0.8;
const HASH_PART: f32 = 0.2;

/// What is to be learned, and how.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Numbers of a term's vector.
    pub dimensions: NonZero<usize>,
    /// Times that the columns are multiplied by A Aᵀ.
    pub iterations: usize,
    /// The same seed makes the same vectors.
    pub seed: u64,
    /// Threads that share the work; the results don't depend on it.
    pub threads: NonZero<usize>,
    /// Calls what starts the other threads, at the beginning of each product: the place to block signals, which threads inherit.
    pub spawning: fn(&mut dyn FnMut()),
}

impl Options {
    /// Four iterations on the calling thread alone.
    pub fn new(dimensions: NonZero<usize>) -> Self {
        Self {
            dimensions,
            iterations: 4,
            seed: 0,
            threads: NonZero::<usize>::MIN,
            spawning: |spawn| spawn(),
        }
    }

    /// The rank that is wanted: no more than a third of the texts.
    fn rank(&self, texts: usize) -> usize {
        self.dimensions.get().min(texts / 3)
    }

    /// The columns that are iterated; whole blocks if there are enough texts.
    fn columns(&self, texts: usize) -> usize {
        let wanted = self.rank(texts).saturating_add(SURPLUS);
        wanted.div_ceil(LANES).saturating_mul(LANES).min(texts)
    }
}

/// A sample that can't be learned from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearnError {
    /// A text holds a term that has no weight.
    Term { text: usize, term: u32 },
    /// A weight is negative, not a number or beyond the greatest `f32`.
    Weight { term: usize },
    /// There are texts or terms beyond the numbers of 32 bits.
    Size,
}

impl fmt::Display for LearnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Term { text, term } => write!(f, "text {text} holds term {term}, which has no weight"),
            Self::Weight { term } => write!(f, "the weight of term {term} is not a number that is at least 0"),
            Self::Size => write!(f, "there are more texts or terms than 32 bits can number"),
        }
    }
}

impl std::error::Error for LearnError {}

/// The most memory that a [`Learner`] holds at once, in bytes, beside the sample and the weights.
///
/// `texts`, `terms` and `nonzeros` are [`Counts::len`], the number of weights and [`Counts::nonzeros`].
pub fn bytes_needed(texts: usize, terms: usize, nonzeros: usize, options: &Options) -> usize {
    let columns = options.columns(texts);
    let threads = options.threads.get();
    let held = terms.min(nonzeros);
    let sparse = Sparse::bytes(texts, terms, nonzeros);
    let q = Blocks::bytes(texts, columns);
    let z = Blocks::bytes(held, columns);
    let small = Square::bytes(columns);
    let of_threads = Blocks::bytes(held, LANES)
        .max(columns.saturating_mul(256))
        .saturating_add(1 << 16)
        .saturating_mul(threads);
    // The columns are iterated, then multiplied out beside the matrix, then taken apart without it.
    let iterated = q.saturating_add(small.max(z)).saturating_add(sparse);
    let taken_apart = z.saturating_add(small);
    iterated.max(taken_apart).saturating_add(of_threads)
}

/// What the next step does.
enum Stage {
    Multiply,
    Orthonormalize { pass: usize },
    Project,
    TakeApart,
}

/// The decomposition at work, a piece at a time: the caller may do something else between two pieces.
///
/// With A the weighted counts (a row for each text, at unit length): from columns of random numbers Q, `iterations` times Q becomes
/// A Aᵀ Q with orthonormal columns (Cholesky QR). In the end the eigenvectors W and eigenvalues σ² of QᵀA AᵀQ
/// make the right singular vectors AᵀQ W σ⁻¹. After Halko, Martinsson and Tropp, Finding structure with randomness (2011).
pub struct Learner {
    options: Options,
    places: Vec<u32>,
    matrix: Sparse,
    column_squares: Vec<f64>,
    stage: Stage,
    iterations_left: usize,
    /// The columns of Q that are not padding.
    columns: usize,
    rank: usize,
    q: Blocks,
    /// AᵀQ, once it is made.
    z: Blocks,
}

impl Learner {
    /// Weighs `sample`. `weights` has one weight per term, by [`crate::idf`]: the counts that it comes from may be of more texts than the sample.
    ///
    /// Terms that no text holds get no learned direction, and none has one if there are less than three texts. Memory: [`bytes_needed`].
    pub fn new(sample: &Counts, weights: &[f64], options: Options, tick: &mut dyn FnMut()) -> Result<Self, LearnError> {
        if sample.len().max(weights.len()) >= NOWHERE as usize {
            return Err(LearnError::Size);
        }
        let Prepared {
            matrix,
            places,
            keys,
            squares,
        } = Prepared::new(sample, weights, options.seed, tick)?;
        let rank = options.rank(sample.len());
        let columns = if rank == 0 { 0 } else { options.columns(sample.len()) };
        let mut q = Blocks::zeros(sample.len(), columns);
        for (b, block) in q.blocks.iter_mut().enumerate() {
            tick();
            for (lane, &key) in block.iter_mut().zip(&keys) {
                for (column, x) in (b * LANES..columns).zip(&mut lane.0) {
                    *x = random(key, column);
                }
            }
        }
        let mut learner = Self {
            options,
            places,
            column_squares: squares,
            matrix,
            stage: Stage::Multiply,
            iterations_left: options.iterations,
            columns,
            rank,
            q,
            z: Blocks::zeros(0, 0),
        };
        if options.iterations == 0 {
            learner.stage = Stage::Orthonormalize { pass: 0 };
        }
        Ok(learner)
    }

    /// One piece of the work, at the most about a third of it: goes on with what is left, or ends with the result.
    ///
    /// `tick` is called every few milliseconds. To cancel, it may unwind.
    pub fn step(mut self, tick: &mut dyn FnMut()) -> ControlFlow<Learned, Self> {
        let crew = self.crew();
        match self.stage {
            _ if self.rank == 0 => return ControlFlow::Break(Learned::nothing(self.options, self.places)),
            Stage::Multiply => {
                self.matrix.multiply_twice(&mut self.q, &crew, tick);
                self.iterations_left -= 1;
                self.stage = Stage::Orthonormalize { pass: 0 };
            }
            Stage::Orthonormalize { pass } => self.orthonormalize(pass, tick),
            Stage::Project => {
                self.z = self.matrix.project(&self.q, &crew, tick);
                self.matrix = Sparse::default();
                self.q = Blocks::zeros(0, 0);
                self.stage = Stage::TakeApart;
            }
            Stage::TakeApart => return ControlFlow::Break(self.take_apart(tick)),
        }
        ControlFlow::Continue(self)
    }

    /// All pieces.
    pub fn run(mut self, tick: &mut dyn FnMut()) -> Learned {
        loop {
            match self.step(tick) {
                ControlFlow::Continue(learner) => self = learner,
                ControlFlow::Break(learned) => return learned,
            }
        }
    }

    fn crew(&self) -> Crew {
        Crew {
            threads: self.options.threads,
            spawning: self.options.spawning,
        }
    }

    /// Makes the columns of Q orthonormal: nearly, as long as they are multiplied again, and well in the end.
    ///
    /// Columns that depend on others are replaced by random ones, so that Q always has all its columns; a further pass makes those orthogonal.
    fn orthonormalize(&mut self, pass: usize, tick: &mut dyn FnMut()) {
        let crew = self.crew();
        let last = self.iterations_left == 0;
        let next = if last { Stage::Project } else { Stage::Multiply };
        let gram = self.q.gram(self.columns, &crew, tick);
        if pass == MAX_PASSES || last && gram.distance_from_unit() < ORTHONORMAL {
            self.stage = next;
            return;
        }
        let (orthonormalizer, dependent) = gram.orthonormalizer(tick);
        let factor = orthonormalizer.factor(self.columns, |_| 1.0);
        let seed = splitmix64(self.options.seed ^ (pass as u64 + 1));
        let size = (3.0 / self.q.rows as f32).sqrt();
        self.q.multiply(&factor, true, &crew, tick, |first, chunk| {
            for &column in &dependent {
                for (row, lane) in (first..).zip(chunk[column / LANES].iter_mut()) {
                    lane.0[column % LANES] = size * random(splitmix64(seed ^ row as u64), column);
                }
            }
        });
        self.stage = if last || !dependent.is_empty() {
            Stage::Orthonormalize { pass: pass + 1 }
        } else {
            next
        };
    }

    /// The sum of the rows of AᵀQ, each by a random number of its term.
    ///
    /// It settles the signs of singular vectors, which could be one or the other by chance, but make a difference beside the hashes:
    /// a sum without random numbers would be zero where terms are alike.
    fn signature(&self, tick: &mut dyn FnMut()) -> Vec<f64> {
        let mut sums = vec![];
        for block in &self.z.blocks {
            tick();
            let mut sum = [0.0; LANES];
            for (place, lane) in block.iter().enumerate() {
                let factor = f64::from(random(place as u64, 0));
                for (sum, &x) in sum.iter_mut().zip(&lane.0) {
                    *sum += factor * f64::from(x);
                }
            }
            sums.extend(sum);
        }
        sums
    }

    /// Makes the terms' directions of AᵀQ.
    fn take_apart(mut self, tick: &mut dyn FnMut()) -> Learned {
        let crew = self.crew();
        let (squares, vectors) = self.z.gram(self.columns, &crew, tick).eigen(tick);
        let values: Vec<f64> = squares.iter().map(|x| x.max(0.0).sqrt()).collect();
        let zero = values[0] * ZERO_VALUE;
        let rank = values[..self.rank].iter().take_while(|&&value| value > zero).count();
        if rank == 0 {
            return Learned::nothing(self.options, self.places);
        }
        let values = &values[..rank];
        let signs = vectors.multiplied_by(&self.signature(tick));
        let factor = vectors.factor(rank, |i| 1f64.copysign(signs[i]) / values[i].sqrt());
        let squares = &self.column_squares;
        self.z.multiply(&factor, false, &crew, tick, |first, chunk| {
            scale_rows(chunk, values, &squares[first..]);
        });
        Learned {
            rank,
            singular_values: values.iter().map(|&value| value as f32).collect(),
            dimensions: self.options.dimensions.get(),
            places: self.places,
            directions: self.z,
        }
    }
}

/// A number from -1 up to 1 that looks random, the same for the same row and column.
fn random(row: u64, column: usize) -> f32 {
    let bits = splitmix64(row ^ splitmix64(column as u64));
    (bits >> 40) as f32 / (1u64 << 23) as f32 - 1.0
}

/// Scales each row to unit length, or to zero if it is only what rounding left of a column; `column_squares` are the squares of the columns' lengths.
fn scale_rows(chunk: &mut Chunk, values: &[f64], column_squares: &[f64]) {
    let rows = chunk.first().map_or(0, |block| block.len());
    for (r, column_square) in (0..rows).zip(column_squares) {
        // The row has been divided by the roots of the singular values, and its column not.
        let (mut square, mut learned) = (0.0, 0.0);
        for (block, values) in chunk.iter().zip(values.chunks(LANES)) {
            for (&x, value) in block[r].0.iter().zip(values) {
                square += f64::from(x).powi(2);
                learned += f64::from(x).powi(2) * value;
            }
        }
        let scale = if learned > ZERO_TERM * ZERO_TERM * column_square {
            1.0 / square.sqrt()
        } else {
            0.0
        };
        for block in chunk.iter_mut() {
            block[r].0.iter_mut().for_each(|x| *x = (f64::from(*x) * scale) as f32);
        }
    }
}

/// The vector of a term called `name` with a direction.
pub(crate) fn blend(mut direction: Vec<f32>, dimensions: usize, name: &str) -> Vec<f32> {
    direction.iter_mut().for_each(|x| *x *= LEARNED_PART);
    direction.resize(dimensions, 0.0);
    let (bucket, sign) = signed_hash(name, dimensions);
    direction[bucket] += HASH_PART * sign;
    direction
}

/// The terms' directions.
pub struct Learned {
    /// Numbers of a direction.
    pub rank: usize,
    /// The greatest first, `rank` of them.
    pub singular_values: Vec<f32>,
    dimensions: usize,
    places: Vec<u32>,
    directions: Blocks,
}

impl Learned {
    fn nothing(options: Options, places: Vec<u32>) -> Self {
        Self {
            rank: 0,
            singular_values: vec![],
            dimensions: options.dimensions.get(),
            places,
            directions: Blocks::zeros(0, 0),
        }
    }

    /// The learned direction of a term, `rank` numbers of unit length; `None` if it has none.
    pub fn direction(&self, term: usize) -> Option<Vec<f32>> {
        let place = *self.places.get(term)?;
        if place == NOWHERE || self.rank == 0 {
            return None;
        }
        let direction: Vec<f32> = self.directions.row(place as usize, self.rank).collect();
        direction.iter().any(|&x| x != 0.0).then_some(direction)
    }

    /// The vector of the term called `name`, as many numbers as there are dimensions: 0.8 of its direction and 0.2 of its signed hash;
    /// `None` if it has no direction.
    pub fn vector(&self, term: usize, name: &str) -> Option<Vec<f32>> {
        Some(blend(self.direction(term)?, self.dimensions, name))
    }

    /// Bytes held on the heap.
    pub fn bytes(&self) -> usize {
        let values = self.singular_values.len() + self.places.len();
        values * size_of::<f32>() + Blocks::bytes(self.directions.rows, self.rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the terms of a text.
    type Kind = fn(u32) -> Vec<(u32, u32)>;

    #[test]
    fn columns_are_orthonormal_in_the_end() {
        let kinds: [Kind; 4] = [
            |text| {
                (0..9)
                    .map(|i| ((90.0 * random(u64::from(text), i).abs()) as u32, 1))
                    .collect()
            },
            |text| vec![(text % 3, 1), (3, 2)],
            |text| if text == 7 { vec![(5, u32::MAX)] } else { vec![] },
            |text| vec![(text, 1), (text / 2, 1 + text)],
        ];
        for kind in kinds {
            for texts in [3, 11, 40, 200] {
                let mut counts = Counts::new();
                (0..texts).for_each(|text| counts.push(&kind(text)));
                let options = Options::new(NonZero::new(24).unwrap());
                let mut learner = Learner::new(&counts, &[1.0; 200], options, &mut || ()).unwrap();
                while !matches!(learner.stage, Stage::Project) {
                    learner = learner.step(&mut || ()).continue_value().unwrap();
                }
                let gram = learner.q.gram(learner.columns, &learner.crew(), &mut || ());
                assert!(gram.distance_from_unit() < ORTHONORMAL);
            }
        }
    }
}

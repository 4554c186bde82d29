//! The sample as a sparse matrix of weights: a row for each text, a column for each term that a text holds.

use crate::Counts;
use crate::learner::LearnError;
use crate::text::damped;
use graphrag_linear::splitmix64;
use graphrag_linear::{Blocks, LANES, Lane, ZERO};
use graphrag_linear::{Crew, Pace, Stopped};

/// The column of a term that no text holds.
pub const NOWHERE: u32 = u32::MAX;

/// Values between two calls of `tick` while the matrix is made, about a millisecond of work.
const VALUES_PER_TICK: usize = 1 << 15;

/// Products that are summed in f32 before they are added to the sum of all.
const RUN: usize = 256;

/// Lists of (row or column, weight), one after another.
#[derive(Default)]
struct Lists {
    /// Where each list starts, and the end of the last.
    starts: Vec<usize>,
    entries: Vec<(u32, f32)>,
}

impl Lists {
    /// For each list the sum of its entries' rows in `from`.
    fn multiply(&self, from: &[Lane], to: &mut [Lane], pace: &mut Pace) -> Result<(), Stopped> {
        for (bounds, out) in self.starts.windows(2).zip(to) {
            let list = &self.entries[bounds[0]..bounds[1]];
            *out = ZERO;
            for run in list.chunks(RUN) {
                pace.step(run.len() * LANES)?;
                let mut sum = [0.0f32; LANES];
                for &(i, weight) in run {
                    let lane = &from[i as usize].0;
                    for l in 0..LANES {
                        sum[l] += weight * lane[l];
                    }
                }
                for (total, sum) in out.0.iter_mut().zip(&sum) {
                    *total += sum;
                }
            }
        }
        Ok(())
    }
}

#[derive(Default)]
pub struct Sparse {
    rows: Lists,
    columns: Lists,
}

/// What is made of a sample.
pub struct Prepared {
    pub matrix: Sparse,
    /// The column of each term, or [`NOWHERE`].
    pub places: Vec<u32>,
    /// A number for each row that depends on what it holds, not on where it stands.
    pub keys: Vec<u64>,
    /// The square of the length of each column.
    pub squares: Vec<f64>,
}

impl Prepared {
    /// Weighs the counts, and scales each row to unit length. Terms of weight 0 have no column.
    pub fn new(sample: &Counts, weights: &[f64], seed: u64, tick: &mut dyn FnMut()) -> Result<Self, LearnError> {
        if let Some(term) = weights.iter().position(|w| !(0.0..=f64::from(f32::MAX)).contains(w)) {
            return Err(LearnError::Weight { term });
        }
        let mut work = 0;
        let mut pace = |values| {
            work += values;
            if work >= VALUES_PER_TICK {
                work = 0;
                tick();
            }
        };
        let mut holding = vec![0u32; weights.len()];
        for text in 0..sample.len() {
            for (term, _) in sample.row(text) {
                pace(1);
                let Some(&weight) = weights.get(term as usize) else {
                    return Err(LearnError::Term { text, term });
                };
                holding[term as usize] += u32::from(weight > 0.0);
            }
        }
        let mut starts = vec![0];
        let mut places = holding;
        for place in &mut places {
            let held = *place as usize;
            *place = if held == 0 { NOWHERE } else { starts.len() as u32 - 1 };
            if held > 0 {
                starts.push(starts[starts.len() - 1] + held);
            }
        }

        let mut rows = Lists {
            starts: Vec::with_capacity(sample.len() + 1),
            entries: Vec::with_capacity(starts[starts.len() - 1]),
        };
        rows.starts.push(0);
        let mut keys = Vec::with_capacity(sample.len());
        let mut weighed = vec![];
        for text in 0..sample.len() {
            weighed.clear();
            let mut key = splitmix64(seed);
            for (term, count) in sample.row(text) {
                key = splitmix64(key ^ (u64::from(term) << 32 | u64::from(count)));
                let place = places[term as usize];
                if place != NOWHERE {
                    weighed.push((place, damped(count) * weights[term as usize]));
                }
            }
            pace(weighed.len());
            let norm = weighed.iter().map(|(_, w)| w * w).sum::<f64>().sqrt();
            // Only weights that are next to nothing leave no length.
            let scale = if norm > 0.0 { 1.0 / norm } else { 0.0 };
            rows.entries
                .extend(weighed.iter().map(|&(place, w)| (place, (w * scale) as f32)));
            rows.starts.push(rows.entries.len());
            keys.push(key);
        }

        let mut columns = Lists {
            entries: vec![(0, 0.0); rows.entries.len()],
            starts,
        };
        let mut squares = vec![0.0; columns.starts.len() - 1];
        let mut next = columns.starts.clone();
        for (text, bounds) in rows.starts.windows(2).enumerate() {
            let row = &rows.entries[bounds[0]..bounds[1]];
            pace(row.len());
            for &(place, weight) in row {
                let next = &mut next[place as usize];
                columns.entries[*next] = (text as u32, weight);
                *next += 1;
                squares[place as usize] += f64::from(weight).powi(2);
            }
        }
        Ok(Self {
            matrix: Sparse { rows, columns },
            places,
            keys,
            squares,
        })
    }
}

impl Sparse {
    /// Bytes of the matrix, of what is made with it, and of what is needed to make it.
    pub fn bytes(texts: usize, terms: usize, nonzeros: usize) -> usize {
        let columns = terms.min(nonzeros);
        let entries = nonzeros.saturating_mul(2 * size_of::<(u32, f32)>());
        // Starts and key of each row; starts, a vector of them that grew by doubling, and square of each column.
        let lists = texts.saturating_mul(16).saturating_add(columns.saturating_mul(32));
        entries
            .saturating_add(lists)
            .saturating_add(terms.saturating_mul(size_of::<u32>()))
            .saturating_add(1 << 16)
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns.starts.len() - 1
    }

    /// Makes A Aᵀ Q of Q: a block of columns at a time, so that what is gathered stays in the cache, and only a block of AᵀQ is in memory.
    pub fn multiply_twice(&self, q: &mut Blocks, crew: &Crew, tick: &mut dyn FnMut()) {
        let state = || vec![ZERO; self.columns()];
        crew.share(tick, q.blocks.iter_mut(), state, |between, block, pace| {
            self.columns.multiply(block, between, pace)?;
            self.rows.multiply(between, block, pace)
        });
    }

    /// AᵀQ.
    pub fn project(&self, q: &Blocks, crew: &Crew, tick: &mut dyn FnMut()) -> Blocks {
        let mut z = Blocks {
            rows: self.columns(),
            blocks: vec![vec![]; q.blocks.len()],
        };
        let tasks = q.blocks.iter().zip(z.blocks.iter_mut());
        let state = || ();
        crew.share(tick, tasks, state, |(), (from, to), pace| {
            // A block at a time: filling all of them at once would take a while.
            *to = vec![ZERO; self.columns()];
            self.columns.multiply(from, to, pace)
        });
        z
    }
}

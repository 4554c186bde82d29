//! A space of few dimensions in which rows and centres are compared before they are compared in full.

use crate::vectors::Vectors;
use graphrag_linear::{Blocks, Crew, LANES, products, splitmix64};

/// Dimensions of the space.
pub const DIMS: usize = 64;

/// Rows that the space is learned from, at most.
const SAMPLE: usize = 2048;

/// Times that the directions are turned towards where the rows differ most.
const TURNS: usize = 3;

/// Rows that are projected by one task.
const CHUNK: usize = 256;

/// Rows in the space of their [`DIMS`] strongest directions, or as they are if they have no more dimensions.
pub struct Space<'a> {
    vectors: &'a Vectors,
    projected: Option<(Blocks, Vec<f32>)>,
}

impl<'a> Space<'a> {
    /// Finds the directions by subspace iteration (Halko, Martinsson and Tropp 2011) on a sample of `rows`, which are in the space afterwards.
    pub fn new(vectors: &'a Vectors, rows: &[u32], seed: u64, crew: &Crew, tick: &mut dyn FnMut()) -> Self {
        if vectors.dim() <= DIMS {
            return Self {
                vectors,
                projected: None,
            };
        }
        let basis = directions(vectors, rows, seed, crew, tick);
        let mut values = vec![0.0; vectors.len() * DIMS];
        let tasks = values.chunks_mut(CHUNK * DIMS).zip((0..).step_by(CHUNK));
        crew.share(
            tick,
            tasks.collect::<Vec<_>>().into_iter(),
            || (),
            |(), (values, first), pace| {
                for (row, values) in (first..).zip(values.chunks_exact_mut(DIMS)) {
                    pace.step(vectors.dim() * DIMS)?;
                    project(vectors.row(row), &basis, values);
                }
                Ok(())
            },
        );
        Self {
            vectors,
            projected: Some((basis, values)),
        }
    }

    /// Bytes beside the vectors for `rows` of `dim` dimensions.
    pub fn bytes(rows: usize, dim: usize) -> usize {
        if dim <= DIMS {
            return 0;
        }
        let learning = Blocks::bytes(SAMPLE, dim) + 3 * Blocks::bytes(dim, dim);
        rows.saturating_mul(DIMS * size_of::<f32>()).saturating_add(learning)
    }

    pub fn dim(&self) -> usize {
        self.vectors.dim().min(DIMS)
    }

    /// The values of a row.
    pub fn row(&self, row: u32) -> &[f32] {
        match &self.projected {
            Some((_, values)) => &values[row as usize * DIMS..][..DIMS],
            None => self.vectors.row(row),
        }
    }

    /// The values of another vector, at unit length.
    pub fn project(&self, vector: &[f32]) -> Vec<f32> {
        let mut values = match &self.projected {
            Some((basis, _)) => {
                let mut values = vec![0.0; DIMS];
                project(vector, basis, &mut values);
                values
            }
            None => vector.to_vec(),
        };
        let norm = values.iter().map(|x| x * x).sum::<f32>().sqrt();
        if norm > 0.0 {
            values.iter_mut().for_each(|x| *x /= norm);
        }
        values
    }
}

fn project(vector: &[f32], basis: &Blocks, values: &mut [f32]) {
    for (blocks, values) in basis.blocks.chunks_exact(2).zip(values.chunks_exact_mut(2 * LANES)) {
        let [found] = products([vector], [&blocks[0], &blocks[1]]);
        values[..LANES].copy_from_slice(&found[0].0);
        values[LANES..].copy_from_slice(&found[1].0);
    }
}

/// Orthonormal columns: where rows differ most from zero.
fn directions(vectors: &Vectors, rows: &[u32], seed: u64, crew: &Crew, tick: &mut dyn FnMut()) -> Blocks {
    let dim = vectors.dim();
    let size = SAMPLE.min(rows.len());
    let mut sample = Blocks::zeros(size, dim);
    for i in 0..size {
        let row = vectors.row(rows[i * rows.len() / size]);
        for (block, values) in sample.blocks.iter_mut().zip(row.chunks(LANES)) {
            block[i].0[..values.len()].copy_from_slice(values);
        }
    }
    let gram = sample.gram(dim, crew, tick).factor(dim, |_| 1.0);
    drop(sample);
    let mut random = seed;
    let mut basis = Blocks::zeros(dim, DIMS);
    for block in &mut basis.blocks {
        for x in block.iter_mut().flat_map(|lane| &mut lane.0) {
            random = splitmix64(random);
            *x = (random >> 40) as f32 - (1u32 << 23) as f32;
        }
    }
    for turn in 0..=TURNS {
        let (right, _) = basis.gram(DIMS, crew, tick).orthonormalizer(tick);
        basis.multiply(&right.factor(DIMS, |_| 1.0), true, crew, tick, |_, _| ());
        if turn < TURNS {
            let mut turned = gram.clone();
            turned.multiply(&basis, false, crew, tick, |_, _| ());
            basis = turned;
        }
    }
    basis
}

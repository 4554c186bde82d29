//! Dense matrices of many rows and few columns, and their products with small ones.
//!
//! Plain loops over arrays of a fixed length, which the compiler turns into the vector instructions that every processor has.
//! Each sum is made by one thread in a fixed order.

use crate::crew::{Crew, Pace, Stopped};
use crate::square::Square;
use std::slice::ChunksMut;

/// Columns that stand together: a cache line.
pub const LANES: usize = 16;

/// Rows that are worked on together, so that they stay in the nearest cache. A multiple of [`GROUP`].
const ROWS: usize = 64;

/// Rows, or columns, of a product whose sums are kept in registers together.
const GROUP: usize = 4;

/// Half a lane, whose sums over [`GROUP`] rows fill half of the registers.
const HALF: usize = LANES / 2;

#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Lane(pub [f32; LANES]);

pub const ZERO: Lane = Lane([0.0; LANES]);

type Tile = [[f64; LANES]; LANES];

/// A matrix in blocks of [`LANES`] columns; each block is in one piece, row after row.
#[derive(Clone)]
pub struct Blocks {
    pub blocks: Vec<Vec<Lane>>,
    pub rows: usize,
}

/// The same rows of every block.
pub type Chunk<'a> = Vec<&'a mut [Lane]>;

impl Blocks {
    /// A matrix of zeros with at least `columns` columns.
    pub fn zeros(rows: usize, columns: usize) -> Self {
        let blocks = (0..columns.div_ceil(LANES)).map(|_| vec![ZERO; rows]).collect();
        Self { blocks, rows }
    }

    /// The first `columns` values of a row.
    pub fn row(&self, row: usize, columns: usize) -> impl Iterator<Item = f32> + '_ {
        self.blocks.iter().flat_map(move |block| block[row].0).take(columns)
    }

    /// Bytes of a matrix of that size.
    pub fn bytes(rows: usize, columns: usize) -> usize {
        let block = rows.saturating_mul(size_of::<Lane>());
        let chunks = rows.div_ceil(ROWS).saturating_mul(size_of::<&mut [Lane]>());
        columns.div_ceil(LANES).saturating_mul(block.saturating_add(chunks))
    }

    /// The products of each two of the first `size` columns.
    pub fn gram(&self, size: usize, crew: &Crew, tick: &mut dyn FnMut()) -> Square {
        let pairs: Vec<(usize, usize)> = (0..size.div_ceil(LANES))
            .flat_map(|j| (0..=j).map(move |i| (i, j)))
            .collect();
        let mut tiles: Vec<Tile> = vec![[[0.0; LANES]; LANES]; pairs.len()];
        let tasks = pairs.iter().zip(&mut tiles);
        let state = || Box::new([[[0.0; LANES]; ROWS]; 2]);
        crew.share(tick, tasks, state, |packed, (&(i, j), tile), pace| {
            gram_tile(&self.blocks[i], &self.blocks[j], packed, tile, pace)
        });
        let mut gram = Square::zeros(size);
        for (&(i, j), tile) in pairs.iter().zip(&tiles) {
            for (x, row) in (i * LANES..size).zip(tile) {
                for (y, &value) in (j * LANES..size).zip(row) {
                    gram.row_mut(x)[y] = value;
                    gram.row_mut(y)[x] = value;
                }
            }
        }
        gram
    }

    /// Multiplies each row by `factor`, whose rows are this matrix's columns, and calls `after` with the first row and the rows of each chunk.
    ///
    /// With `upper`, what is below the diagonal of `factor` is zero and not looked at, but for the block that the diagonal crosses.
    pub fn multiply(
        &mut self,
        factor: &Blocks,
        upper: bool,
        crew: &Crew,
        tick: &mut dyn FnMut(),
        after: impl Fn(usize, &mut Chunk) + Sync,
    ) {
        let width = self.blocks.len() * LANES;
        let state = || vec![[0.0f32; GROUP]; ROWS / GROUP * width];
        crew.share(tick, self.chunks(), state, |packed, (first, mut chunk), pace| {
            for (b, block) in chunk.iter().enumerate() {
                for (r, lane) in block.iter().enumerate() {
                    let at = r / GROUP * width + b * LANES;
                    for (to, &x) in packed[at..at + LANES].iter_mut().zip(&lane.0) {
                        to[r % GROUP] = x;
                    }
                }
            }
            for (b, (out, columns)) in chunk.iter_mut().zip(&factor.blocks).enumerate() {
                pace.step(ROWS * width * LANES)?;
                let depth = if upper { (b + 1) * LANES } else { width };
                let depth = depth.min(columns.len());
                for (rows, out) in packed.chunks(width).zip(out.chunks_mut(GROUP)) {
                    multiply_group(&rows[..depth], &columns[..depth], out);
                }
            }
            after(first, &mut chunk);
            Ok(())
        });
        self.blocks.truncate(factor.blocks.len());
    }

    /// The rows in chunks, each with the number of its first row.
    fn chunks(&mut self) -> impl ExactSizeIterator<Item = (usize, Chunk<'_>)> + Send {
        let chunks = 0..self.rows.div_ceil(ROWS);
        let mut blocks: Vec<ChunksMut<Lane>> = self.blocks.iter_mut().map(|block| block.chunks_mut(ROWS)).collect();
        chunks.map(move |i| {
            let chunk = blocks.iter_mut().filter_map(Iterator::next).collect();
            (i * ROWS, chunk)
        })
    }
}

/// The products of the columns of two blocks.
fn gram_tile(
    a: &[Lane],
    b: &[Lane],
    packed: &mut [[[f64; LANES]; ROWS]; 2],
    tile: &mut Tile,
    pace: &mut Pace,
) -> Result<(), Stopped> {
    let [left, right] = packed;
    for (a, b) in a.chunks(ROWS).zip(b.chunks(ROWS)) {
        pace.step(ROWS * LANES * LANES)?;
        let rows = a.len();
        for (from, to) in [(a, &mut *left), (b, &mut *right)] {
            for (from, to) in from.iter().zip(to) {
                *to = from.0.map(f64::from);
            }
        }
        for i in (0..LANES).step_by(GROUP) {
            for j in (0..LANES).step_by(GROUP) {
                let mut sums = [[0.0; GROUP]; GROUP];
                for (x, y) in left[..rows].iter().zip(&right[..rows]) {
                    for p in 0..GROUP {
                        for q in 0..GROUP {
                            sums[p][q] += x[i + p] * y[j + q];
                        }
                    }
                }
                for (p, sums) in sums.iter().enumerate() {
                    for (q, sum) in sums.iter().enumerate() {
                        tile[i + p][j + q] += sum;
                    }
                }
            }
        }
    }
    Ok(())
}

/// The products of rows with columns, of which each lane has [`LANES`] of a value for each dimension of the rows.
pub fn products<const R: usize, const C: usize>(rows: [&[f32]; R], columns: [&[Lane]; C]) -> [[Lane; C]; R] {
    let dim = rows.iter().map(|row| row.len()).min().unwrap_or_default();
    let (rows, columns) = (rows.map(|row| &row[..dim]), columns.map(|lanes| &lanes[..dim]));
    let mut sums = [[ZERO; C]; R];
    for i in 0..dim {
        for (sums, row) in sums.iter_mut().zip(rows) {
            for (sums, columns) in sums.iter_mut().zip(columns) {
                for (sum, y) in sums.0.iter_mut().zip(&columns[i].0) {
                    *sum += row[i] * y;
                }
            }
        }
    }
    sums
}

/// The products of up to [`GROUP`] rows with a block of columns.
fn multiply_group(rows: &[[f32; GROUP]], columns: &[Lane], out: &mut [Lane]) {
    for half in (0..LANES).step_by(HALF) {
        let mut sums = [[0.0f32; HALF]; GROUP];
        for (x, y) in rows.iter().zip(columns) {
            for (sums, x) in sums.iter_mut().zip(x) {
                for (sum, y) in sums.iter_mut().zip(&y.0[half..half + HALF]) {
                    *sum += x * y;
                }
            }
        }
        for (out, sums) in out.iter_mut().zip(&sums) {
            out.0[half..half + HALF].copy_from_slice(sums);
        }
    }
}

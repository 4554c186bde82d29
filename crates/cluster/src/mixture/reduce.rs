//! The principal components of rows.
//!
//! Randomised subspace iteration (Halko, Martinsson and Tropp, 2011, "Finding structure with randomness"): what is found are the
//! directions themselves, so that any row can be projected on them.

use super::gauss::{D, Point};
use crate::vectors::Vectors;
use graphrag_linear::{Pace, Stopped, eigen, splitmix64};

/// Directions that are iterated: the more of them above [`D`], the fewer passes.
const COLUMNS: usize = 16;

/// Passes over the rows, of which the last finds the components in the space that the others have found.
const PASSES: usize = 4;

/// Rows that are multiplied together, so that each value of the directions is loaded once for all.
const TOGETHER: usize = 4;

/// What is left of a column when those before it are taken out, relative to it: less is the rounding of its f32 values.
const DEPENDENT: f64 = 1e-5;

/// A value for each direction.
type Columns = [f32; COLUMNS];

/// The mean of rows and the directions in which they differ most, the first most of all.
pub struct Reduction {
    mean: Vec<f32>,
    /// One for each dimension of the rows; the columns from [`D`] on are 0.
    directions: Vec<Columns>,
}

impl Reduction {
    /// Finds the components of `rows`, of which there is at least one.
    pub fn new(vectors: &Vectors, rows: &[u32], seed: u64, pace: &mut Pace) -> Result<Self, Stopped> {
        let dim = vectors.dim();
        let mut sums = vec![0.0f64; dim];
        for &row in rows {
            pace.step(dim)?;
            for (sum, &x) in sums.iter_mut().zip(vectors.row(row)) {
                *sum += f64::from(x);
            }
        }
        let mean: Vec<f32> = sums.iter().map(|sum| (sum / rows.len() as f64) as f32).collect();

        let mut random = seed;
        let mut directions = vec![[0.0; COLUMNS]; dim];
        for x in directions.as_flattened_mut() {
            random = splitmix64(random);
            *x = (random >> 40) as f32 - (1u32 << 23) as f32;
        }
        orthonormalize(&mut directions);
        for _ in 1..PASSES {
            let mut images = vec![[0.0; COLUMNS]; dim];
            for rows in rows.chunks(TOGETHER) {
                pace.step(2 * TOGETHER * COLUMNS * dim)?;
                let rows = together(vectors, rows, &mean);
                let products = products(&rows, &mean, &directions);
                for (i, (image, mean)) in images.iter_mut().zip(&mean).enumerate() {
                    for (row, product) in rows.iter().zip(&products) {
                        let x = row[i] - mean;
                        image.iter_mut().zip(product).for_each(|(sum, y)| *sum += x * y);
                    }
                }
            }
            orthonormalize(&mut images);
            directions = images;
        }

        let mut gram = vec![0.0; COLUMNS * COLUMNS];
        for rows in rows.chunks(TOGETHER) {
            pace.step(TOGETHER * COLUMNS * dim)?;
            for product in products(&together(vectors, rows, &mean), &mean, &directions) {
                for (sums, x) in gram.chunks_exact_mut(COLUMNS).zip(product) {
                    for (sum, y) in sums.iter_mut().zip(product) {
                        *sum += f64::from(x) * f64::from(y);
                    }
                }
            }
        }
        let (values, eigenvectors) = eigen(gram, COLUMNS, &mut || ());
        let mut order: Vec<usize> = (0..COLUMNS).collect();
        order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
        for direction in &mut directions {
            let old = direction.map(f64::from);
            *direction = [0.0; COLUMNS];
            for (x, &from) in direction.iter_mut().zip(&order[..D]) {
                let factors = &eigenvectors[from * COLUMNS..(from + 1) * COLUMNS];
                *x = old.iter().zip(factors).map(|(x, factor)| x * factor).sum::<f64>() as f32;
            }
        }
        Ok(Self { mean, directions })
    }

    /// Bytes that are needed at once to find the components of rows of `dim` dimensions: directions, their images, and these in f64.
    pub fn bytes(dim: usize) -> usize {
        dim.saturating_mul(COLUMNS * (2 * size_of::<f32>() + size_of::<f64>()) + size_of::<f64>())
    }

    /// The components of each of `rows`.
    pub fn project(
        &self,
        vectors: &Vectors,
        rows: impl Iterator<Item = u32>,
        pace: &mut Pace,
    ) -> Result<Vec<Point>, Stopped> {
        let rows: Vec<u32> = rows.collect();
        let mut points = Vec::with_capacity(rows.len().next_multiple_of(TOGETHER));
        for rows in rows.chunks(TOGETHER) {
            pace.step(TOGETHER * COLUMNS * vectors.dim())?;
            let products = products(&together(vectors, rows, &self.mean), &self.mean, &self.directions);
            points.extend(products.map(|product| std::array::from_fn::<_, D, _>(|i| f64::from(product[i]))));
        }
        points.truncate(rows.len());
        Ok(points)
    }
}

/// The values of up to [`TOGETHER`] rows; the mean, which is nothing when centred, stands for those missing.
fn together<'a>(vectors: &'a Vectors, rows: &[u32], mean: &'a [f32]) -> [&'a [f32]; TOGETHER] {
    std::array::from_fn(|i| rows.get(i).map_or(mean, |&row| vectors.row(row)))
}

/// The products of rows, centred, with the directions.
fn products(rows: &[&[f32]; TOGETHER], mean: &[f32], directions: &[Columns]) -> [Columns; TOGETHER] {
    let mut sums = [[0.0; COLUMNS]; TOGETHER];
    let rows = rows.map(|row| &row[..mean.len()]);
    for (i, (mean, direction)) in mean.iter().zip(directions).enumerate() {
        for (sums, row) in sums.iter_mut().zip(rows) {
            let x = row[i] - mean;
            sums.iter_mut().zip(direction).for_each(|(sum, y)| *sum += x * y);
        }
    }
    sums
}

/// Makes the columns orthonormal, and those zero that depend on the ones before them (Gram and Schmidt, twice, which is enough).
fn orthonormalize(rows: &mut [Columns]) {
    let mut columns: Vec<Vec<f64>> = (0..COLUMNS)
        .map(|j| rows.iter().map(|row| f64::from(row[j])).collect())
        .collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    for j in 0..COLUMNS {
        let (done, rest) = columns.split_at_mut(j);
        let column = &mut rest[0];
        let before = dot(column, column);
        for _ in 0..2 {
            for other in done.iter() {
                let along = dot(column, other);
                column.iter_mut().zip(other).for_each(|(x, y)| *x -= along * y);
            }
        }
        let left = dot(column, column);
        let scale = if left > before * DEPENDENT * DEPENDENT {
            1.0 / left.sqrt()
        } else {
            0.0
        };
        column.iter_mut().for_each(|x| *x *= scale);
    }
    for (i, row) in rows.iter_mut().enumerate() {
        for (x, column) in row.iter_mut().zip(&columns) {
            *x = column[i] as f32;
        }
    }
}

//! Small symmetric matrices, in f64.

use crate::dense::{Blocks, LANES};
use nalgebra::DMatrix;

/// What is left of the square of a column when the columns before it are taken out, relative to the column: if it is less than this,
/// it is mostly the rounding of its f32 values.
const DEPENDENT: f64 = 1e-8;

/// A square matrix, row after row.
pub struct Square {
    size: usize,
    data: Vec<f64>,
}

impl Square {
    pub fn zeros(size: usize) -> Self {
        Self {
            size,
            data: vec![0.0; size * size],
        }
    }

    /// Bytes that are needed at once to make a matrix and take it apart: itself, the tiles it is made from, what it is turned to
    /// and the copies that the decomposition makes.
    pub fn bytes(size: usize) -> usize {
        let padded = size.next_multiple_of(LANES) + LANES;
        padded.saturating_mul(padded).saturating_mul(5 * size_of::<f64>())
    }

    fn row(&self, i: usize) -> &[f64] {
        &self.data[i * self.size..(i + 1) * self.size]
    }

    pub fn row_mut(&mut self, i: usize) -> &mut [f64] {
        &mut self.data[i * self.size..(i + 1) * self.size]
    }

    /// The greatest difference from the unit matrix.
    pub fn distance_from_unit(&self) -> f64 {
        let unit = |at: usize| if at.is_multiple_of(self.size + 1) { 1.0 } else { 0.0 };
        let differences = self.data.iter().enumerate().map(|(at, x)| (x - unit(at)).abs());
        differences.fold(0.0, f64::max)
    }

    /// For the products of columns: the upper triangular matrix that makes orthonormal columns of them, and the columns that depend
    /// on those before them, which it makes zero.
    ///
    /// The inverse of the Cholesky factor (Cholesky QR), by outer products of rows.
    pub fn orthonormalizer(mut self, tick: &mut dyn FnMut()) -> (Self, Vec<usize>) {
        let squares: Vec<f64> = (0..self.size).map(|i| self.row(i)[i]).collect();
        let mut dependent = vec![];
        for i in 0..self.size {
            tick();
            let (done, below) = self.data.split_at_mut((i + 1) * self.size);
            let pivot_row = &mut done[i * self.size + i..];
            let pivot = pivot_row[0];
            if pivot <= squares[i] * DEPENDENT || pivot < f64::MIN_POSITIVE {
                dependent.push(i);
                pivot_row.fill(0.0);
                continue;
            }
            let scale = 1.0 / pivot.sqrt();
            pivot_row.iter_mut().for_each(|x| *x *= scale);
            for (below, row) in below.chunks_exact_mut(self.size).enumerate() {
                let j = below + 1;
                let factor = pivot_row[j];
                for (x, y) in row[i + j..].iter_mut().zip(&pivot_row[j..]) {
                    *x -= factor * y;
                }
            }
        }
        let mut inverse = Self::zeros(self.size);
        for i in (0..self.size).rev() {
            tick();
            let (before, after) = inverse.data.split_at_mut((i + 1) * self.size);
            let out = &mut before[i * self.size..];
            let row = self.row(i);
            if row[i] == 0.0 {
                continue;
            }
            out[i] = 1.0;
            for (l, solved) in (i + 1..).zip(after.chunks_exact(self.size)) {
                for (x, y) in out[l..].iter_mut().zip(&solved[l..]) {
                    *x -= row[l] * y;
                }
            }
            out[i..].iter_mut().for_each(|x| *x /= row[i]);
        }
        (inverse, dependent)
    }

    /// The eigenvalues, the greatest first, and in the columns of the second matrix the eigenvectors.
    pub fn eigen(self) -> (Vec<f64>, Self) {
        let size = self.size;
        let eigen = DMatrix::from_vec(size, size, self.data).symmetric_eigen();
        let mut order: Vec<usize> = (0..size).collect();
        order.sort_by(|&a, &b| eigen.eigenvalues[b].total_cmp(&eigen.eigenvalues[a]));
        let mut vectors = Self::zeros(size);
        for i in 0..size {
            for (x, &from) in vectors.row_mut(i).iter_mut().zip(&order) {
                *x = eigen.eigenvectors[(i, from)];
            }
        }
        (order.iter().map(|&i| eigen.eigenvalues[i]).collect(), vectors)
    }

    /// The first `columns` columns as a factor of [`Blocks::multiply`], each multiplied by its number in `scales`.
    pub fn factor(&self, columns: usize, scales: impl Fn(usize) -> f64) -> Blocks {
        let mut factor = Blocks::zeros(self.size, columns);
        for i in 0..self.size {
            for (j, &x) in self.row(i)[..columns].iter().enumerate() {
                factor.blocks[j / LANES][i].0[j % LANES] = (x * scales(j)) as f32;
            }
        }
        factor
    }
}

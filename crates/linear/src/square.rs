//! Small symmetric matrices, in f64.

use crate::dense::{Blocks, LANES};
use crate::eigen::eigen;

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
    pub fn eigen(self, tick: &mut dyn FnMut()) -> (Vec<f64>, Self) {
        let size = self.size;
        let (values, rows) = eigen(self.data, size, tick);
        let mut order: Vec<usize> = (0..size).collect();
        order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
        let mut vectors = Self::zeros(size);
        for (j, &from) in order.iter().enumerate() {
            for (i, &x) in rows[from * size..(from + 1) * size].iter().enumerate() {
                vectors.data[i * size + j] = x;
            }
        }
        (order.iter().map(|&i| values[i]).collect(), vectors)
    }

    /// The product of a row, of which only the numbers that the matrix has rows for count, with the matrix.
    pub fn multiplied_by(&self, row: &[f64]) -> Vec<f64> {
        let mut product = vec![0.0; self.size];
        for (i, factor) in (0..self.size).zip(row) {
            for (sum, x) in product.iter_mut().zip(self.row(i)) {
                *sum += factor * x;
            }
        }
        product
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The products of columns of small whole numbers, of which `zeros` in ten are 0: many are equal or depend on others.
    fn gram(size: usize, rows: usize, zeros: i8, values: &mut dyn FnMut() -> i8) -> Square {
        let mut value = || {
            let x = values();
            if x.rem_euclid(10) < zeros {
                0.0
            } else {
                f64::from(x % 4)
            }
        };
        let columns: Vec<Vec<f64>> = (0..size).map(|_| (0..rows).map(|_| value()).collect()).collect();
        let mut gram = Square::zeros(size);
        for (i, x) in columns.iter().enumerate() {
            for (j, y) in columns.iter().enumerate() {
                gram.row_mut(i)[j] = x.iter().zip(y).map(|(x, y)| x * y).sum();
            }
        }
        gram
    }

    fn product(a: &Square, b: &Square) -> Square {
        let mut product = Square::zeros(a.size);
        for i in 0..a.size {
            product.row_mut(i).copy_from_slice(&b.multiplied_by(a.row(i)));
        }
        product
    }

    fn transposed(a: &Square) -> Square {
        let mut transposed = Square::zeros(a.size);
        for i in 0..a.size {
            for j in 0..a.size {
                transposed.row_mut(i)[j] = a.row(j)[i];
            }
        }
        transposed
    }

    fn clone(a: &Square) -> Square {
        Square {
            size: a.size,
            data: a.data.clone(),
        }
    }

    fn check_eigen(a: Square) {
        let (values, vectors) = clone(&a).eigen(&mut || ());
        let norm = a.data.iter().map(|x| x * x).sum::<f64>().sqrt();
        assert!(product(&transposed(&vectors), &vectors).distance_from_unit() < 1e-10);
        assert!(values.is_sorted_by(|a, b| a >= b));
        let product = product(&a, &vectors);
        for i in 0..a.size {
            for ((x, y), value) in product.row(i).iter().zip(vectors.row(i)).zip(&values) {
                assert!(
                    (x - y * value).abs() <= 1e-10 * norm,
                    "{x}, not {}, of {norm}",
                    y * value
                );
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn eigenvectors_are_those_of_the_matrix(
            size in 1usize..24,
            rows in 1usize..24,
            zeros in 0i8..11,
            values in prop::collection::vec(any::<i8>(), 24 * 24),
        ) {
            let mut values = values.into_iter();
            check_eigen(gram(size, rows, zeros, &mut || values.next().unwrap()));
        }

        #[test]
        fn independent_columns_become_orthonormal_and_the_others_zero(
            size in 1usize..24,
            rows in 1usize..24,
            zeros in 0i8..11,
            values in prop::collection::vec(any::<i8>(), 24 * 24),
        ) {
            let mut values = values.into_iter();
            let gram = gram(size, rows, zeros, &mut || values.next().unwrap());
            let (factor, dependent) = clone(&gram).orthonormalizer(&mut || ());
            prop_assert!((0..size).all(|i| factor.row(i)[..i].iter().all(|&x| x == 0.0)));
            // Columns that depend on others nearly leave roundings, which only a further pass finds out.
            if (0..size).any(|i| factor.row(i)[i].powi(2) * gram.row(i)[i] > 1e4) {
                return Ok(());
            }
            prop_assert!(size - dependent.len() <= rows);
            let mut unit = product(&transposed(&factor), &product(&gram, &factor));
            for column in dependent {
                prop_assert_eq!(unit.row(column)[column], 0.0);
                unit.row_mut(column)[column] = 1.0;
            }
            prop_assert!(unit.distance_from_unit() < 1e-6);
        }
    }

    #[test]
    fn columns_that_depend_on_others_are_found() {
        let columns = [
            [1.0, 2.0, 0.0],
            [2.0, 4.0, 0.0],
            [0.0; 3],
            [0.0, 1.0, 1.0],
            [1.0, 3.0, 1.0],
            [1.0, 0.0, 0.0],
            [3.0, 2.0, 1.0],
        ];
        let mut gram = Square::zeros(7);
        for (i, x) in columns.iter().enumerate() {
            for (j, y) in columns.iter().enumerate() {
                gram.row_mut(i)[j] = x.iter().zip(y).map(|(x, y)| x * y).sum();
            }
        }
        assert_eq!(gram.orthonormalizer(&mut || ()).1, [1, 2, 4, 6]);
    }

    #[test]
    fn matrices_of_every_scale_are_taken_apart() {
        for scale in [0.0, 1e-100, 1e-20, 1.0, 1e100] {
            let mut a = Square::zeros(40);
            for i in 0..40 {
                for j in 0..40 {
                    a.row_mut(i)[j] = scale * (0.7f64.powi((i + j) as i32) + if i == j { 1e-9 } else { 0.0 });
                }
            }
            check_eigen(a);
        }
    }
}

//! The rows that are grouped: unit vectors, one after another in one buffer.

use std::fmt;

/// More rows than this are refused, so that a tree over them, which has fewer than twice as many nodes, can number its nodes in 32 bits.
pub const MAX_ROWS: usize = (u32::MAX / 2) as usize;

/// Rows of equal length, each of unit length or all zero. The order of the rows is the order in which ties are broken.
#[derive(Clone, Debug, PartialEq)]
pub struct Vectors {
    dim: usize,
    data: Vec<f32>,
}

/// The values given do not make up whole rows, or there are more than [`MAX_ROWS`] of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapeError {
    pub dim: usize,
    pub values: usize,
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} values do not make up at most {MAX_ROWS} vectors of {} dimensions",
            self.values, self.dim
        )
    }
}

impl std::error::Error for ShapeError {}

impl Vectors {
    /// Takes `data`, row after row of `dim` values, and scales each row to unit length in place.
    ///
    /// A row that has no direction (all zero, or with a value that is not finite) becomes all zero: its cosine with every row is 0.
    pub fn new(dim: usize, mut data: Vec<f32>, tick: &mut dyn FnMut()) -> Result<Self, ShapeError> {
        if dim == 0 || !data.len().is_multiple_of(dim) || data.len() / dim > MAX_ROWS {
            return Err(ShapeError {
                dim,
                values: data.len(),
            });
        }
        for (i, row) in data.chunks_exact_mut(dim).enumerate() {
            if i.is_multiple_of(256) {
                tick();
            }
            // The square of no f32 overflows or vanishes in f64.
            let norm = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
            if norm.is_finite() && norm > 0.0 {
                row.iter_mut().for_each(|x| *x = (f64::from(*x) / norm) as f32);
            } else {
                row.fill(0.0);
            }
        }
        Ok(Self { dim, data })
    }

    /// Values per row, at least 1.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.data.len() / self.dim
    }

    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// The values of row `row`, which must be below [`Self::len`].
    pub fn row(&self, row: u32) -> &[f32] {
        let start = row as usize * self.dim;
        &self.data[start..start + self.dim]
    }

    /// Whether row `row` is a unit vector rather than all zero.
    pub fn has_direction(&self, row: u32) -> bool {
        self.row(row).iter().any(|&x| x != 0.0)
    }
}

/// The dot product, which for unit vectors is the cosine.
///
/// Sixteen sums run side by side and are added in a fixed order, so that the compiler can use vector instructions
/// and the result has the same bits on every processor.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut sums = [0.0f32; LANES];
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    for (x, y) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    for (sum, (x, y)) in sums.iter_mut().zip(a_rest.iter().zip(b_rest)) {
        *sum += x * y;
    }
    sums.iter().sum()
}

/// Adds `row` to `sum`.
pub fn add(sum: &mut [f32], row: &[f32]) {
    sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
}

/// Which of `centers` has the greatest product with `row`, the first of equals, and the product.
pub fn nearest(row: &[f32], centers: &[Vec<f32>]) -> (usize, f32) {
    let mut found = (0, f32::NEG_INFINITY);
    for (at, center) in centers.iter().enumerate() {
        let product = dot(row, center);
        if product > found.1 {
            found = (at, product);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_scaled_to_unit_length() {
        let v = Vectors::new(2, vec![3.0, 4.0, 0.0, -2.0], &mut || ()).unwrap();
        assert_eq!((v.len(), v.dim()), (2, 2));
        assert_eq!(v.row(0), [0.6, 0.8]);
        assert_eq!(v.row(1), [0.0, -1.0]);
    }

    #[test]
    fn rows_without_a_direction_become_zero() {
        let data = vec![f32::NAN, 1.0, f32::INFINITY, 1.0, 0.0, -0.0];
        let v = Vectors::new(2, data, &mut || ()).unwrap();
        for row in 0..3 {
            assert_eq!(v.row(row), [0.0, 0.0]);
            assert!(!v.has_direction(row));
        }
    }

    #[test]
    fn extreme_values_keep_their_direction() {
        let least = f32::from_bits(1);
        let v = Vectors::new(2, vec![f32::MAX, f32::MAX, least, 0.0], &mut || ()).unwrap();
        assert_eq!(v.row(0), [std::f32::consts::FRAC_1_SQRT_2; 2]);
        assert_eq!(v.row(1), [1.0, 0.0]);
    }

    #[test]
    fn values_that_are_not_whole_rows_are_refused() {
        assert_eq!(
            Vectors::new(2, vec![1.0; 3], &mut || ()),
            Err(ShapeError { dim: 2, values: 3 })
        );
        assert_eq!(
            Vectors::new(0, vec![], &mut || ()),
            Err(ShapeError { dim: 0, values: 0 })
        );
        assert!(Vectors::new(2, vec![], &mut || ()).unwrap().is_empty());
    }

    #[test]
    fn dot_sums_every_value_at_any_length() {
        for len in 0..70u16 {
            let a: Vec<f32> = (0..len).map(f32::from).collect();
            let b = vec![2.0; usize::from(len)];
            assert_eq!(dot(&a, &b), f32::from(len) * (f32::from(len) - 1.0));
        }
    }
}

//! The eigenvalues and eigenvectors of symmetric matrices.
//!
//! Householder's reduction to a tridiagonal matrix, and QL iterations with implicit shifts on that: the algorithms TRED2 and TQL2
//! of Wilkinson and Reinsch, Handbook for Automatic Computation II (1971). What is changed often lies in rows, one after another.

/// Iterations for one eigenvalue: two or three are usual.
const MAX_ITERATIONS: usize = 60;

/// The eigenvalues of the symmetric matrix `a` (row after row, `size` rows), in no order, and their eigenvectors of unit length as rows.
///
/// Each eigenvalue is right to about 1e-15 of the greatest. `a` must be finite, without squares that overflow.
pub fn eigen(mut a: Vec<f64>, size: usize, tick: &mut dyn FnMut()) -> (Vec<f64>, Vec<f64>) {
    let (mut diagonal, mut beside) = tridiagonalize(&mut a, size, tick);
    let mut vectors = reflected(&a, size, tick);
    drop(a);
    iterate(&mut diagonal, &mut beside, &mut vectors, tick);
    (diagonal, vectors)
}

/// Answers the diagonal of QᵀAQ and what is beside it (and a 0 at the end). Q is a product of reflections, whose unit vectors
/// (or zeros for none) replace the rows of `a` right of the diagonal.
fn tridiagonalize(a: &mut [f64], size: usize, tick: &mut dyn FnMut()) -> (Vec<f64>, Vec<f64>) {
    let (mut diagonal, mut beside) = (vec![0.0; size], vec![0.0; size]);
    for i in 0..size {
        tick();
        let (done, below) = a.split_at_mut((i + 1) * size);
        diagonal[i] = done[i * size + i];
        let v = &mut done[i * size + i + 1..];
        let Some(&first) = v.first() else {
            break;
        };
        if dot(&v[1..], &v[1..]) < f64::MIN_POSITIVE {
            beside[i] = first;
            v.fill(0.0);
            continue;
        }
        beside[i] = -dot(v, v).sqrt().copysign(first);
        v[0] -= beside[i];
        let norm = dot(v, v).sqrt();
        v.iter_mut().for_each(|x| *x /= norm);

        // (I - 2 v vᵀ) B (I - 2 v vᵀ) = B - 2 (v wᵀ + w vᵀ) with w = B v - (vᵀ B v) v.
        let mut w: Vec<f64> = below.chunks_exact(size).map(|row| dot(&row[i + 1..], v)).collect();
        let along = dot(&w, v);
        w.iter_mut().zip(v.iter()).for_each(|(w, v)| *w -= along * v);
        for (j, row) in below.chunks_exact_mut(size).enumerate() {
            let (v_j, w_j) = (2.0 * v[j], 2.0 * w[j]);
            for ((x, v), w) in row[i + 1..].iter_mut().zip(v.iter()).zip(&w) {
                *x -= v_j * w + w_j * v;
            }
        }
    }
    (diagonal, beside)
}

/// Qᵀ of the reflections that [`tridiagonalize`] left.
fn reflected(a: &[f64], size: usize, tick: &mut dyn FnMut()) -> Vec<f64> {
    let mut q = vec![0.0; size * size];
    q.iter_mut().step_by(size + 1).for_each(|x| *x = 1.0);
    for i in (0..size).rev() {
        tick();
        let v = &a[i * size + i + 1..(i + 1) * size];
        // The rows before are those of the unit matrix yet.
        for row in q.chunks_exact_mut(size).skip(i + 1) {
            let along = 2.0 * dot(&row[i + 1..], v);
            row[i + 1..].iter_mut().zip(v).for_each(|(x, v)| *x -= along * v);
        }
    }
    q
}

/// Makes eigenvalues of the tridiagonal matrix, and rotates the rows of `vectors` along.
fn iterate(diagonal: &mut [f64], beside: &mut [f64], vectors: &mut [f64], tick: &mut dyn FnMut()) {
    let size = diagonal.len();
    let sums = diagonal.iter().zip(beside.iter()).map(|(d, e)| d.abs() + e.abs());
    let negligible = f64::EPSILON * sums.fold(0.0, f64::max);
    for l in 0..size {
        for _ in 0..MAX_ITERATIONS {
            // What is beside the last value is 0.
            let m = (l..size).find(|&m| beside[m].abs() <= negligible).unwrap_or(size - 1);
            if m == l {
                break;
            }
            tick();
            let half = (diagonal[l + 1] - diagonal[l]) / (2.0 * beside[l]);
            let shift = beside[l] / (half + libm::hypot(half, 1.0).copysign(half));
            let mut g = diagonal[m] - diagonal[l] + shift;
            let (mut sin, mut cos, mut p) = (1.0, 1.0, 0.0);
            let mut split = false;
            for i in (l..m).rev() {
                let (f, b) = (sin * beside[i], cos * beside[i]);
                let r = libm::hypot(f, g);
                beside[i + 1] = r;
                if r == 0.0 {
                    diagonal[i + 1] -= p;
                    split = true;
                    break;
                }
                (sin, cos) = (f / r, g / r);
                g = diagonal[i + 1] - p;
                let r = (diagonal[i] - g) * sin + 2.0 * cos * b;
                p = sin * r;
                diagonal[i + 1] = g + p;
                g = cos * r - b;
                let (row, next) = vectors[i * size..(i + 2) * size].split_at_mut(size);
                for (x, y) in row.iter_mut().zip(next) {
                    (*x, *y) = (cos * *x - sin * *y, sin * *x + cos * *y);
                }
            }
            beside[m] = 0.0;
            if !split {
                diagonal[l] -= p;
                beside[l] = g;
            }
        }
    }
}

/// Eight sums side by side, added in a fixed order: see the products of dense matrices.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    const SUMS: usize = 8;
    let mut sums = [0.0; SUMS];
    let (a_chunks, a_rest) = a.as_chunks::<SUMS>();
    let (b_chunks, b_rest) = b.as_chunks::<SUMS>();
    for (x, y) in a_chunks.iter().zip(b_chunks) {
        for l in 0..SUMS {
            sums[l] += x[l] * y[l];
        }
    }
    for (sum, (x, y)) in sums.iter_mut().zip(a_rest.iter().zip(b_rest)) {
        *sum += x * y;
    }
    sums.iter().sum()
}

//! Mixtures of Gaussian distributions with full covariance, fitted by expectation and maximisation from clusters of k-means.

use graphrag_linear::{Pace, Stopped, splitmix64};
use std::f64::consts::TAU;

/// Dimensions to which vectors are reduced.
pub const D: usize = 10;

/// A reduced vector; what it has fewer dimensions than [`D`] is 0.
pub type Point = [f64; D];

/// Points that are worked on together.
pub const EIGHT: usize = 8;

/// Added to every variance: unit vectors that differ by a thousandth are as good as equal. This and the next two are scikit-learn's
/// for `GaussianMixture`.
const REGULARIZATION: f64 = 1e-6;

/// A mean log-likelihood that grows by less is as good as it gets.
const TOLERANCE: f64 = 1e-3;

const MAX_ITERATIONS: usize = 100;

/// Components at most, as RAPTOR has it.
const MAX_COMPONENTS: usize = 49;

/// Passes of k-means that a start is given.
const START_PASSES: usize = 10;

/// Numbers of components that are tried beyond the best. On planted topics the least BIC of all numbers made no purer clusters.
const PATIENCE: usize = 3;

/// A component whose logarithm is so much below the greatest has no share: e^-16 is the precision of the values, which are f32.
const NOTHING: f64 = -16.0;

/// Sums over points, each times its share.
#[derive(Clone)]
struct Moments {
    shares: f64,
    values: Point,
    /// Of each value with each.
    products: [Point; D],
}

const NO_POINTS: Moments = Moments {
    shares: 0.0,
    values: [0.0; D],
    products: [[0.0; D]; D],
};

struct Component {
    /// The logarithm of the density at the mean, times the weight.
    peak: f64,
    /// The inverse of the Cholesky factor of the covariance.
    whiten: [Point; D],
    /// The mean, whitened.
    mean: Point,
}

pub struct Gaussians(Vec<Component>);

impl Gaussians {
    /// Fits mixtures of k = 1, 2, … components to n points and answers that of the least BIC = p ln n − 2 ln L with
    /// p = k (d + d (d + 1) / 2) + k − 1; the d first `dimensions` of the points count, the others are 0.
    ///
    /// A component has more than d points on average: of fewer, the covariance is that of the regularisation in some direction, and so
    /// is the likelihood, which makes the BIC favour clusters of a few points.
    pub fn fit(points: &[Point], dimensions: usize, seed: u64, pace: &mut Pace) -> Result<Self, Stopped> {
        let n = points.len() as f64;
        let most = (points.len() / (dimensions + 1)).min(MAX_COMPONENTS);
        let mut seeds = Seeds::new(points, seed);
        let (mut least, mut best) = (f64::INFINITY, Self(vec![]));
        for k in 1..=most {
            if k > best.len() + PATIENCE || !seeds.draw(points, pace)? {
                break;
            }
            let (likelihood, mixture) = Self::start(points, &seeds.drawn, pace)?.refine(points, pace)?;
            let parameters = k * (dimensions + dimensions * (dimensions + 1) / 2) + k - 1;
            let bic = parameters as f64 * libm::log(n) - 2.0 * n * likelihood;
            if bic < least {
                (least, best) = (bic, mixture);
            }
        }
        Ok(best)
    }

    /// The number of components.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Leaves out the components for which `keep`, one for each, says no.
    pub fn retain(&mut self, keep: Vec<bool>) {
        let mut keep = keep.into_iter();
        self.0.retain(|_| keep.next() == Some(true));
    }

    /// A mixture of k-means clusters that start from `means`.
    fn start(points: &[Point], means: &[Point], pace: &mut Pace) -> Result<Self, Stopped> {
        let mut means = means.to_vec();
        let mut clusters = vec![0; points.len()];
        for _ in 0..START_PASSES {
            let mut sums = vec![(0.0, [0.0; D]); means.len()];
            for (cluster, point) in clusters.iter_mut().zip(points) {
                pace.step(means.len() * D)?;
                let distances = means.iter().map(|mean| distance(point, mean)).enumerate();
                let farther = |least: (usize, f64), other: (usize, f64)| if other.1 < least.1 { other } else { least };
                (*cluster, _) = distances.fold((0, f64::INFINITY), farther);
                let (count, sum) = &mut sums[*cluster];
                *count += 1.0;
                sum.iter_mut().zip(point).for_each(|(sum, x)| *sum += x);
            }
            let before = means.clone();
            for (mean, (count, sum)) in means.iter_mut().zip(&sums) {
                if *count > 0.0 {
                    *mean = sum.map(|sum| sum / count);
                }
            }
            if means == before {
                break;
            }
        }
        let mut moments = vec![NO_POINTS; means.len()];
        for (&cluster, point) in clusters.iter().zip(points) {
            pace.step(D * D)?;
            moments[cluster].add(1.0, point);
        }
        Ok(Self::new(&moments, points.len()))
    }

    /// The components of `n` points that have these moments.
    fn new(moments: &[Moments], n: usize) -> Self {
        Self(moments.iter().map(|moments| Component::new(moments, n)).collect())
    }

    /// Changes the mixture until it no longer becomes more likely, and answers its mean log-likelihood too.
    fn refine(mut self, points: &[Point], pace: &mut Pace) -> Result<(f64, Self), Stopped> {
        let mut before = f64::NEG_INFINITY;
        let mut shares = vec![[0.0; EIGHT]; self.len()];
        let mut iterations = 0;
        loop {
            let mut moments = vec![NO_POINTS; self.len()];
            let mut likelihood = 0.0;
            for eight in points.chunks(EIGHT) {
                let likelihoods = self.shares(eight, &mut shares, pace)?;
                for (i, point) in eight.iter().enumerate() {
                    likelihood += likelihoods[i];
                    for (moments, shares) in moments.iter_mut().zip(&shares) {
                        if shares[i] > 0.0 {
                            moments.add(shares[i], point);
                        }
                    }
                }
            }
            likelihood /= points.len() as f64;
            if likelihood - before < TOLERANCE || iterations == MAX_ITERATIONS {
                return Ok((likelihood, self));
            }
            (before, iterations) = (likelihood, iterations + 1);
            self = Self::new(&moments, points.len());
        }
    }

    /// For up to eight points, the probability with which each belongs to each component, and the logarithms of their densities.
    pub fn shares(
        &self,
        points: &[Point],
        shares: &mut [[f64; EIGHT]],
        pace: &mut Pace,
    ) -> Result<[f64; EIGHT], Stopped> {
        pace.step(self.len() * EIGHT * (D * D + 2 * D))?;
        let mut values = [[0.0; EIGHT]; D];
        for (i, point) in points.iter().enumerate() {
            for (values, x) in values.iter_mut().zip(point) {
                values[i] = *x;
            }
        }
        let mut greatest = [f64::NEG_INFINITY; EIGHT];
        for (logs, component) in shares.iter_mut().zip(&self.0) {
            *logs = component.log_densities(&values);
            for (greatest, log) in greatest.iter_mut().zip(logs) {
                *greatest = greatest.max(*log);
            }
        }
        let mut sums = [0.0; EIGHT];
        for share in &mut *shares {
            for i in 0..EIGHT {
                let log = share[i] - greatest[i];
                share[i] = if log < NOTHING { 0.0 } else { libm::exp(log) };
                sums[i] += share[i];
            }
        }
        for share in shares {
            share.iter_mut().zip(&sums).for_each(|(share, sum)| *share /= sum);
        }
        Ok(std::array::from_fn(|i| greatest[i] + libm::log(sums[i])))
    }
}

impl Moments {
    fn add(&mut self, share: f64, point: &Point) {
        self.shares += share;
        for ((value, products), x) in self.values.iter_mut().zip(&mut self.products).zip(point) {
            let x = share * x;
            *value += x;
            products.iter_mut().zip(point).for_each(|(sum, y)| *sum += x * y);
        }
    }
}

impl Component {
    fn new(moments: &Moments, n: usize) -> Self {
        let count = moments.shares + 10.0 * f64::EPSILON;
        let means = moments.values.map(|sum| sum / count);
        let mut factor = [[0.0; D]; D];
        for i in 0..D {
            for j in 0..=i {
                let variance = if i == j { REGULARIZATION } else { 0.0 };
                let mut x = moments.products[i][j] / count - means[i] * means[j] + variance;
                x -= (0..j).map(|l| factor[i][l] * factor[j][l]).sum::<f64>();
                factor[i][j] = if i == j { x.sqrt() } else { x / factor[j][j] };
            }
        }
        let mut whiten = [[0.0; D]; D];
        for (i, factors) in factor.iter().enumerate() {
            let mut row = [0.0; D];
            row[i] = 1.0;
            for (factor, known) in factors.iter().zip(&whiten[..i]) {
                row.iter_mut().zip(known).for_each(|(x, y)| *x -= factor * y);
            }
            whiten[i] = row.map(|x| x / factors[i]);
        }
        let log_factor: f64 = (0..D).map(|i| libm::log(factor[i][i])).sum();
        Self {
            peak: libm::log(count / n as f64) - log_factor - D as f64 / 2.0 * libm::log(TAU),
            whiten,
            mean: whiten.map(|row| row.iter().zip(&means).map(|(x, y)| x * y).sum()),
        }
    }

    fn log_densities(&self, values: &[[f64; EIGHT]; D]) -> [f64; EIGHT] {
        let mut squares = [0.0; EIGHT];
        for (i, row) in self.whiten.iter().enumerate() {
            let mut sums = [-self.mean[i]; EIGHT];
            for (factor, values) in row[..=i].iter().zip(values) {
                for (sum, x) in sums.iter_mut().zip(values) {
                    *sum += factor * x;
                }
            }
            for (square, sum) in squares.iter_mut().zip(&sums) {
                *square += sum * sum;
            }
        }
        squares.map(|square| self.peak - square / 2.0)
    }
}

/// Points to start from, drawn with the square of the distance to those drawn before (k-means++, Arthur and Vassilvitskii, 2007).
struct Seeds {
    random: u64,
    drawn: Vec<Point>,
    distances: Vec<f64>,
}

impl Seeds {
    fn new(points: &[Point], seed: u64) -> Self {
        Self {
            random: seed,
            drawn: vec![],
            distances: vec![1.0; points.len()],
        }
    }

    /// Draws one more, unless the points differ from those drawn by less than the regularisation.
    fn draw(&mut self, points: &[Point], pace: &mut Pace) -> Result<bool, Stopped> {
        let total: f64 = self.distances.iter().sum();
        if total <= points.len() as f64 * REGULARIZATION {
            return Ok(false);
        }
        self.random = splitmix64(self.random);
        let mut left = (self.random >> 11) as f64 / (1u64 << 53) as f64 * total;
        let passed = |distance: &f64| {
            left -= distance;
            left < 0.0
        };
        let drawn = points[self.distances.iter().position(passed).unwrap_or(points.len() - 1)];
        let first = self.drawn.is_empty();
        for (least, point) in self.distances.iter_mut().zip(points) {
            pace.step(D)?;
            let distance = distance(point, &drawn);
            *least = if first { distance } else { least.min(distance) };
        }
        self.drawn.push(drawn);
        Ok(true)
    }
}

fn distance(a: &Point, b: &Point) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum()
}

//! Terms that no text of the sample holds.

use std::collections::BTreeMap;

use crate::learner::blend;
use crate::text::damped;

/// Vectors of terms outside of the sample, from those of the texts that hold them.
///
/// A term's direction is that of the sum of the texts' vectors, each weighted by 1 + ln of how often the term stands there: in the
/// space that is learned, what a text says without the term is the best guess of what the term says.
pub struct Folding {
    dimensions: usize,
    places: BTreeMap<u32, usize>,
    sums: Vec<f32>,
}

impl Folding {
    /// Of `terms`; others are left alone. Holds `dimensions` numbers of 4 bytes for each.
    pub fn new(dimensions: usize, terms: &[u32]) -> Self {
        let places: BTreeMap<u32, usize> = terms.iter().enumerate().map(|(place, &term)| (term, place)).collect();
        Self {
            dimensions,
            sums: vec![0.0; terms.len() * dimensions],
            places,
        }
    }

    /// Adds that a text with `vector` (as many numbers as there are dimensions) holds `term` `count` times.
    pub fn add(&mut self, term: u32, count: u32, vector: &[f32]) {
        if let Some(&place) = self.places.get(&term) {
            let weight = damped(count) as f32;
            let start = place * self.dimensions;
            for (sum, x) in self.sums[start..start + self.dimensions].iter_mut().zip(vector) {
                *sum += weight * x;
            }
        }
    }

    /// The terms, in ascending order.
    pub fn terms(&self) -> impl Iterator<Item = u32> + '_ {
        self.places.keys().copied()
    }

    /// The vector of `term`, called `name`: 0.8 of its direction and 0.2 of its signed hash; `None` if no text was added for it.
    pub fn vector(&self, term: u32, name: &str) -> Option<Vec<f32>> {
        let start = self.places.get(&term)? * self.dimensions;
        let sum = &self.sums[start..start + self.dimensions];
        let norm = sum.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        (norm > 0.0 && norm.is_finite()).then(|| {
            let direction = sum.iter().map(|&x| (f64::from(x) / norm) as f32).collect();
            blend(direction, self.dimensions, name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signed_hash;

    #[test]
    fn a_term_goes_where_its_texts_are() {
        let mut folding = Folding::new(4, &[7, 3]);
        folding.add(7, 1, &[0.6, 0.8, 0.0, 0.0]);
        folding.add(7, 1, &[0.6, -0.8, 0.0, 0.0]);
        folding.add(5, 1, &[1.0, 0.0, 0.0, 0.0]);
        assert_eq!(folding.terms().collect::<Vec<_>>(), [3, 7]);
        let mut expected = vec![0.8, 0.0, 0.0, 0.0];
        let (bucket, sign) = signed_hash("seven", 4);
        expected[bucket] += 0.2 * sign;
        assert_eq!(folding.vector(7, "seven"), Some(expected));
        assert_eq!((folding.vector(3, "three"), folding.vector(5, "five")), (None, None));
    }

    #[test]
    fn a_term_that_stands_often_in_a_text_is_nearer_to_it() {
        let mut folding = Folding::new(2, &[0]);
        folding.add(0, 20, &[1.0, 0.0]);
        folding.add(0, 1, &[0.0, 1.0]);
        let vector = folding.vector(0, "x").unwrap();
        let (bucket, sign) = signed_hash("x", 2);
        let mut bare = vector;
        bare[bucket] -= 0.2 * sign;
        assert!((bare[0] / bare[1] - (1.0 + 20f32.ln())).abs() < 1e-3);
    }
}

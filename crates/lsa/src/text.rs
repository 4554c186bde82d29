//! The weights of terms, and texts as sums of their terms' vectors.

use sha2::{Digest, Sha256};

/// The weight of a term that `holding` of `texts` texts hold: ln((1 + `texts`) / (1 + `holding`)) + 1, which is at least 1.
pub fn idf(texts: u64, holding: u64) -> f64 {
    let ratio = (1.0 + texts as f64) / (1.0 + holding.min(texts) as f64);
    libm::log(ratio) + 1.0
}

/// How much a term counts that stands `count` times in a text: 1 + ln `count`, and 0 for none.
pub(crate) fn damped(count: u32) -> f64 {
    if count == 0 {
        0.0
    } else {
        1.0 + libm::log(f64::from(count))
    }
}

/// The signed hash of a term: which of `dimensions` numbers (at least 1) it adds to, and 1 or -1.
///
/// The first 8 bytes of the SHA-256 of the term, as a big-endian number, modulo `dimensions`; the highest bit is the sign.
pub fn signed_hash(term: &str, dimensions: usize) -> (usize, f32) {
    let digest = Sha256::digest(term.as_bytes());
    let hash = digest[..8].iter().fold(0u64, |hash, &byte| hash << 8 | u64::from(byte));
    let sign = if hash >> 63 == 1 { 1.0 } else { -1.0 };
    ((hash % dimensions as u64) as usize, sign)
}

/// A text in the making: the weighted sum of its terms' vectors.
///
/// The same terms in the same order make the same bytes; in another order they may differ by rounding.
#[derive(Clone, Debug)]
pub struct Sum(Vec<f64>);

impl Sum {
    /// A text of `dimensions` numbers (at least 1) without terms.
    pub fn new(dimensions: usize) -> Self {
        Self(vec![0.0; dimensions])
    }

    /// Adds a term that stands `count` times in the text. `weight` is its [`idf`], `vector` as many numbers as the sum has.
    pub fn add(&mut self, count: u32, weight: f64, vector: &[f32]) {
        assert_eq!(self.0.len(), vector.len(), "a vector of other dimensions than the sum");
        let weight = damped(count) * weight;
        for (sum, &x) in self.0.iter_mut().zip(vector) {
            *sum += weight * f64::from(x);
        }
    }

    /// Adds a term that has no learned vector: its signed hash alone, at unit length.
    pub fn add_unknown(&mut self, count: u32, weight: f64, term: &str) {
        let (bucket, sign) = signed_hash(term, self.0.len());
        self.0[bucket] += damped(count) * weight * f64::from(sign);
    }

    /// The text at unit length; `None` if it has no direction (nothing was added, or all of it cancelled out or was not finite).
    pub fn unit(self) -> Option<Vec<f32>> {
        let norm = self.0.iter().map(|x| x * x).sum::<f64>().sqrt();
        (norm > 0.0 && norm.is_finite()).then(|| self.0.iter().map(|x| (x / norm) as f32).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_by_definition() {
        assert_eq!(idf(9, 9), 1.0);
        assert!((idf(99, 9) - (10f64.ln() + 1.0)).abs() < 1e-12);
        assert_eq!(idf(0, 0), 1.0);
        assert_eq!(idf(3, u64::MAX), 1.0);
        assert!(idf(u64::MAX, 0).is_finite());
        assert_eq!((damped(0), damped(1)), (0.0, 1.0));
        assert!((damped(u32::MAX) - 23.18).abs() < 0.01);
    }

    #[test]
    fn hashes_are_those_of_sha256() {
        // sha256("abc") starts with ba7816bf 8f01cfea.
        let hash = 0xba78_16bf_8f01_cfea_u64;
        assert_eq!(signed_hash("abc", 384), ((hash % 384) as usize, 1.0));
        // sha256("hello") starts with 2cf24dba 5fb0a30e.
        assert_eq!(signed_hash("hello", 7).1, -1.0);
        assert_eq!(signed_hash("", 1).0, 0);
    }

    #[test]
    fn a_sum_has_unit_length() {
        let mut sum = Sum::new(2);
        sum.add(1, 2.0, &[1.5, 0.0]);
        sum.add(1, 1.0, &[0.0, 4.0]);
        assert_eq!(sum.unit(), Some(vec![0.6, 0.8]));
    }

    #[test]
    fn a_sum_of_nothing_has_no_direction() {
        assert_eq!(Sum::new(3).unit(), None);
        let mut sum = Sum::new(1);
        sum.add_unknown(0, 1.0, "absent");
        assert_eq!(sum.clone().unit(), None);
        sum.add(1, 1.0, &[0.5]);
        sum.add(1, 1.0, &[-0.5]);
        assert_eq!(sum.clone().unit(), None);
        sum.add_unknown(u32::MAX, f64::INFINITY, "too much");
        assert_eq!(sum.unit(), None);
    }

    #[test]
    fn unknown_terms_are_their_hash() {
        let mut sum = Sum::new(8);
        sum.add_unknown(3, 1.5, "abc");
        let (bucket, sign) = signed_hash("abc", 8);
        let mut expected = vec![0.0; 8];
        expected[bucket] = sign;
        assert_eq!(sum.unit(), Some(expected));
    }
}

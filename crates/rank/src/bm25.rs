//! Okapi BM25 (Robertson and Zaragoza, *The Probabilistic Relevance Framework: BM25 and Beyond*, 2009), with the usual k1 of 1.2
//! and b of 0.75, and an idf that is never negative.

/// How soon further occurrences of a term in a text count no more.
pub const K1: f64 = 1.2;
/// How much long texts are held to account for their length: 0 not at all, 1 in full.
pub const B: f64 = 0.75;

/// What a text is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Corpus {
    pub texts: u64,
    /// Occurrences of terms, summed over the texts.
    pub length: u64,
}

impl Corpus {
    /// How much a term says that `holding` of the texts hold: ln(1 + (N - n + 0.5) / (n + 0.5)), above 0.
    pub fn idf(&self, holding: u64) -> f64 {
        let (all, holding) = (self.texts as f64, holding.min(self.texts) as f64);
        ((all - holding + 0.5) / (holding + 0.5)).ln_1p()
    }

    /// What a term adds that occurs `count` times in a text of `length` occurrences, at its `idf`.
    pub fn gain(&self, idf: f64, count: u32, length: u32) -> f64 {
        let mean = self.length as f64 / self.texts.max(1) as f64;
        let relative = if mean > 0.0 { f64::from(length) / mean } else { 1.0 };
        let count = f64::from(count);
        if count == 0.0 {
            return 0.0;
        }
        idf * count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * relative))
    }

    /// What a term adds to no text more than.
    pub fn bound(idf: f64) -> f64 {
        idf * (K1 + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Corpus;
    use proptest::prelude::*;

    #[test]
    fn values_computed_by_hand() {
        let corpus = Corpus { texts: 10, length: 100 };
        // ln(1 + 8.5 / 2.5)
        assert!((corpus.idf(2) - 4.4f64.ln()).abs() < 1e-12);
        // At the mean length: 2 * 2.2 / (2 + 1.2)
        assert!((corpus.gain(1.0, 2, 10) - 4.4 / 3.2).abs() < 1e-12);
        // At twice the mean length: 2.2 / (1 + 1.2 * 1.75)
        assert!((corpus.gain(1.0, 1, 20) - 2.2 / 3.1).abs() < 1e-12);
    }

    #[test]
    fn nothing_is_odd() {
        let none = Corpus::default();
        assert!(none.idf(0).is_finite() && none.idf(5).is_finite());
        assert_eq!(none.gain(1.0, 0, 0), 0.0);
        assert!(none.gain(1.0, 1, 1).is_finite());
    }

    proptest! {
        #[test]
        fn gains_stay_below_the_bound(
            texts in 1u64..1_000_000, mean in 1u64..1000, holding in 0u64..1_000_000, count in 0u32..20_000, more in 0u32..20_000,
        ) {
            let corpus = Corpus { texts, length: texts * mean };
            let idf = corpus.idf(holding);
            prop_assert!(idf > 0.0);
            prop_assert!(idf >= corpus.idf(holding + 1));
            let gain = corpus.gain(idf, count, count + more);
            prop_assert!((0.0..=Corpus::bound(idf)).contains(&gain));
            prop_assert!(corpus.gain(idf, count + 1, count + more) >= gain);
            prop_assert!(corpus.gain(idf, count, count + more + 1) <= gain);
        }
    }
}

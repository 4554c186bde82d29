//! The embedder that needs no model: words hashed into buckets, counted, and normalised.

use crate::stop::StopWords;
use crate::words::words;
use sha2::{Digest, Sha256};

/// The vector of `text` in `dimensions` dimensions, of length 1; `None` if `text` has no word or `dimensions` is 0.
///
/// Each word's bucket is the first eight bytes of its SHA-256, as a big-endian number, modulo `dimensions`; the vector
/// counts the words of each bucket and is divided by its Euclidean length. Words of `stop` are left out, since they say
/// nothing of what a text is about and would outvote the rest; a text of nothing else keeps them. The vector depends on
/// the words alone, not on their order, and is the same on every machine. The caller bounds `dimensions`: the vector has
/// that many 4-byte numbers.
/// `tick` is called every thousand words.
///
/// Source: feature hashing (Weinberger et al. 2009) without the sign.
pub fn embed(text: &str, dimensions: usize, stop: &StopWords, tick: &mut dyn FnMut()) -> Option<Vec<f32>> {
    if dimensions == 0 {
        return None;
    }
    let mut list = |all: bool| -> Vec<usize> {
        words(text)
            .enumerate()
            .filter_map(|(number, (_, word))| {
                if number.is_multiple_of(1000) {
                    tick();
                }
                (all || !stop.contains(&word)).then(|| bucket(&word, dimensions))
            })
            .collect()
    };
    let mut buckets = list(false);
    if buckets.is_empty() {
        buckets = list(true);
    }
    if buckets.is_empty() {
        return None;
    }
    buckets.sort_unstable();
    // Whole numbers up to the division: no rounding depends on the order of the words.
    let squares: u128 = buckets
        .chunk_by(|a, b| a == b)
        .map(|run| (run.len() as u128).pow(2))
        .sum();
    let length = (squares as f64).sqrt();
    let mut vector = vec![0.0; dimensions];
    for run in buckets.chunk_by(|a, b| a == b) {
        vector[run[0]] = (run.len() as f64 / length) as f32;
    }
    Some(vector)
}

fn bucket(word: &str, dimensions: usize) -> usize {
    let digest = Sha256::digest(word);
    let head = u64::from_be_bytes(std::array::from_fn(|at| digest[at]));
    (head % dimensions as u64) as usize
}

#[cfg(test)]
mod tests {
    use crate::stop::{self, StopWords};
    use proptest::prelude::*;

    fn embed(text: &str, dimensions: usize, stop: &StopWords) -> Option<Vec<f32>> {
        super::embed(text, dimensions, stop, &mut || ())
    }

    #[test]
    fn known_buckets() {
        // sha256("hello") starts with 2cf24dba5fb0a30e, sha256("world") with 486ea46224d1bb4f.
        let vector = embed("Hello, hello world!", 384, stop::words("english")).unwrap();
        let hello = (0x2cf2_4dba_5fb0_a30e_u64 % 384) as usize;
        let world = (0x486e_a462_24d1_bb4f_u64 % 384) as usize;
        let length = 5f64.sqrt();
        for (at, &value) in vector.iter().enumerate() {
            let count = if at == hello {
                2.0
            } else {
                f64::from(u8::from(at == world))
            };
            assert_eq!(value, (count / length) as f32);
        }
    }

    #[test]
    fn no_words_no_vector() {
        assert_eq!(embed("", 384, stop::words("simple")), None);
        assert_eq!(embed(" … — 🦀 ___", 384, stop::words("simple")), None);
        assert_eq!(embed("word", 0, stop::words("simple")), None);
        assert_eq!(embed("any words", 1, stop::words("simple")), Some(vec![1.0]));
    }

    #[test]
    fn stop_words_count_only_where_there_is_nothing_else() {
        let (english, none) = (stop::words("english"), stop::words("simple"));
        assert_eq!(
            embed("who owns the model", 384, english),
            embed("owns model", 384, none)
        );
        assert_eq!(
            embed("to be or not to be", 384, english),
            embed("to be or not to be", 384, none)
        );
        assert_ne!(embed("the model", 384, none), embed("model", 384, none));
    }

    proptest! {
        #[test]
        fn of_length_one_and_blind_to_order(mut list in prop::collection::vec("[a-zé知]{1,6}", 1..40), dimensions in 1usize..2000) {
            let vector = embed(&list.join(" "), dimensions, stop::words("english")).unwrap();
            let length: f64 = vector.iter().map(|&x| f64::from(x).powi(2)).sum();
            prop_assert!((length - 1.0).abs() < 1e-5);
            list.reverse();
            prop_assert_eq!(embed(&list.join("\n"), dimensions, stop::words("english")).unwrap(), vector);
        }
    }
}

//! Whether one method is better than another on the same questions: the mean of the differences with a confidence interval.

/// The mean of paired differences and its interval of confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The mean of what the second has more than the first.
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

/// Resamples of [`difference`].
pub const RESAMPLES: usize = 10_000;

/// The mean difference `second - first` over the same questions, with a percentile bootstrap interval (Efron and Tibshirani
/// 1993) of `confidence`, such as 0.95. The same seed gives the same interval. Nothing without a question, or if the two are not of
/// the same.
///
/// `tick` is called once a resample.
pub fn difference(
    first: &[f64],
    second: &[f64],
    confidence: f64,
    seed: u64,
    tick: &mut dyn FnMut(),
) -> Option<Difference> {
    if first.is_empty() || first.len() != second.len() {
        return None;
    }
    let differences: Vec<f64> = first.iter().zip(second).map(|(a, b)| b - a).collect();
    let count = differences.len();
    let mean = differences.iter().sum::<f64>() / count as f64;
    let mut random = seed;
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            tick();
            let draw = (0..count).map(|_| differences[below(&mut random, count)]);
            draw.sum::<f64>() / count as f64
        })
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - confidence.clamp(0.0, 1.0)) / 2.0;
    let cut = (tail * RESAMPLES as f64) as usize;
    let cut = cut.min((RESAMPLES - 1) / 2);
    Some(Difference {
        mean,
        low: means[cut],
        high: means[RESAMPLES - 1 - cut],
    })
}

/// A number below `count`, by SplitMix64.
fn below(state: &mut u64, count: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    ((u128::from(z) * count as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn a_clear_difference_does_not_touch_zero() {
        let first: Vec<f64> = (0..200).map(|i| f64::from(i % 2)).collect();
        let second: Vec<f64> = first.iter().map(|x| x + 0.5).collect();
        let d = difference(&first, &second, 0.95, 1, &mut || ()).unwrap();
        assert_eq!((d.mean, d.low, d.high), (0.5, 0.5, 0.5));
        // Half of the questions are won, a quarter lost: the standard error of the mean is about 0.055.
        let second: Vec<f64> = (0..200)
            .map(|i| [1.0, 1.0, 1.0, 0.0][i % 4] * 0.5 + first[i] * 0.5)
            .collect();
        let d = difference(&first, &second, 0.95, 1, &mut || ()).unwrap();
        assert!(d.low < d.mean && d.mean < d.high && d.high - d.low < 0.25, "{d:?}");
    }

    #[test]
    fn the_interval_covers_as_often_as_it_says() {
        // A fair coin of ±1: the true mean is 0.
        let mut random = 7;
        let covered = (0..200)
            .filter(|_| {
                let second: Vec<f64> = (0..60).map(|_| [-1.0, 1.0][super::below(&mut random, 2)]).collect();
                let d = difference(&[0.0; 60], &second, 0.9, 3, &mut || ()).unwrap();
                d.low <= 0.0 && 0.0 <= d.high
            })
            .count();
        assert!((164..=196).contains(&covered), "{covered} of 200");
    }

    #[test]
    fn nothing_to_compare() {
        assert_eq!(difference(&[], &[], 0.95, 0, &mut || ()), None);
        assert_eq!(difference(&[1.0], &[], 0.95, 0, &mut || ()), None);
    }
}

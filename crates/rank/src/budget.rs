//! Packing to a token budget: skip and continue, never stop at the first that does not fit.

/// What may still be taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    left: Option<u64>,
    spent: u64,
}

impl Budget {
    /// A budget of so many tokens; none is without limit.
    pub fn new(limit: Option<u64>) -> Budget {
        Budget { left: limit, spent: 0 }
    }

    /// Takes an item of `tokens` if it still fits; answers whether it did.
    pub fn take(&mut self, tokens: u64) -> bool {
        if let Some(left) = &mut self.left {
            match left.checked_sub(tokens) {
                Some(rest) => *left = rest,
                None => return false,
            }
        }
        self.spent = self.spent.saturating_add(tokens);
        true
    }

    pub fn spent(&self) -> u64 {
        self.spent
    }
}

#[cfg(test)]
mod tests {
    use super::Budget;
    use proptest::prelude::*;

    /// Which of the items, best first, are taken of a budget: each that fits into what those before it have left.
    fn pack(tokens: &[u64], limit: Option<u64>) -> Vec<usize> {
        let mut budget = Budget::new(limit);
        (0..tokens.len()).filter(|&item| budget.take(tokens[item])).collect()
    }

    #[test]
    fn what_does_not_fit_is_skipped() {
        assert_eq!(pack(&[5, 9, 3, 0, 3], Some(10)), [0, 2, 3]);
        assert_eq!(pack(&[5, 9], None), [0, 1]);
        let mut budget = Budget::new(None);
        assert!(budget.take(u64::MAX) && budget.take(1));
        assert_eq!(budget.spent(), u64::MAX);
    }

    proptest! {
        #[test]
        fn never_exceeded_and_nothing_left_out_that_fits(tokens in prop::collection::vec(0u64..50, 0..30), limit in 0u64..200) {
            let taken = pack(&tokens, Some(limit));
            let sum: u64 = taken.iter().map(|&item| tokens[item]).sum();
            prop_assert!(sum <= limit);
            for item in (0..tokens.len()).filter(|item| !taken.contains(item)) {
                let before: u64 = taken.iter().filter(|&&other| other < item).map(|&other| tokens[other]).sum();
                prop_assert!(before + tokens[item] > limit);
            }
        }
    }
}

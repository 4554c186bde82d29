//! The sample that is learned from.

/// Counts of terms in texts, compressed row by row; a row is a text, and terms are numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Where each row ends.
    ends: Vec<usize>,
    terms: Vec<u32>,
    counts: Vec<u32>,
}

impl Counts {
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a text of (term, count), in any order. Counts of a term that stands there more than once are added up, and those of 0 left out.
    pub fn push(&mut self, row: &[(u32, u32)]) {
        let start = self.terms.len();
        let mut sorted;
        let row = if row.is_sorted_by(|a, b| a.0 < b.0) {
            row
        } else {
            sorted = row.to_vec();
            sorted.sort_unstable();
            &sorted
        };
        for &(term, count) in row.iter().filter(|&&(_, count)| count > 0) {
            if self.terms.len() > start && self.terms.last() == Some(&term) {
                let last = self.counts.len() - 1;
                self.counts[last] = self.counts[last].saturating_add(count);
            } else {
                self.terms.push(term);
                self.counts.push(count);
            }
        }
        self.ends.push(self.terms.len());
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Number of (term, count) in all texts.
    pub fn nonzeros(&self) -> usize {
        self.terms.len()
    }

    /// The terms of text `i`, which must be below [`Self::len`], in ascending order, each with its count.
    pub fn row(&self, i: usize) -> impl Iterator<Item = (u32, u32)> + '_ {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        let range = start..self.ends[i];
        let counts = self.counts[range.clone()].iter().copied();
        self.terms[range].iter().copied().zip(counts)
    }

    /// Bytes held on the heap.
    pub fn bytes(&self) -> usize {
        self.ends.capacity() * size_of::<usize>() + (self.terms.capacity() + self.counts.capacity()) * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_kept_in_ascending_order() {
        let mut counts = Counts::new();
        assert!(counts.is_empty());
        counts.push(&[(3, 1), (5, 2)]);
        counts.push(&[]);
        counts.push(&[(5, 1), (0, 0), (3, 7), (5, u32::MAX)]);
        let rows: Vec<Vec<_>> = (0..counts.len()).map(|i| counts.row(i).collect()).collect();
        assert_eq!(rows, [vec![(3, 1), (5, 2)], vec![], vec![(3, 7), (5, u32::MAX)]]);
        assert_eq!(counts.nonzeros(), 4);
        assert!(counts.bytes() >= 4 * 8 + 3 * 8);
    }
}

//! What a cluster may hold, and how groups are brought within it.

/// A row of a cluster, and how probable it is that it belongs there: above 0, at most 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Member {
    pub row: u32,
    pub weight: f32,
}

/// The members of a cluster, by row.
pub type Cluster = Vec<Member>;

/// What a cluster may hold at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sum of the members' sizes, in tokens.
    pub tokens: u32,
    /// Number of members, at least 2.
    pub members: usize,
}

impl Limits {
    pub(crate) const NONE: Self = Self {
        tokens: u32::MAX,
        members: usize::MAX,
    };

    /// What a row of `size` tokens counts: at least 1 and at most half of the limit, so that any two rows make a cluster. Of a longer
    /// text no more than that is to be read.
    pub fn counted(&self, size: u32) -> u64 {
        u64::from(size.min(self.tokens / 2).max(1))
    }

    /// Whether so many rows, of so many tokens counted, are within the limits.
    pub fn hold(&self, members: usize, tokens: u64) -> bool {
        members <= self.members && (members <= 2 || tokens <= u64::from(self.tokens))
    }
}

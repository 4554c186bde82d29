//! From groups to clusters: no row stays alone, and one that stands between groups belongs to several.

use crate::groups::Groups;
use crate::limits::{Cluster, Member};
use crate::vectors::dot;
use graphrag_linear::Crew;

/// The least probability with which a row belongs to a second group.
const THRESHOLD: f64 = 0.25;

/// Groups that a row belongs to beside its own, at most.
const SECONDS: usize = 1;

/// Members that a group's mean is drawn to the mean of all with.
const PRIOR: f64 = 4.0;

/// The probabilities of a group's rows in it; and (probability, row, group) of those that belong to a second one.
type Probable = (Vec<f32>, Vec<(f32, u32, u32)>);

/// What is known of a row's closeness to groups.
#[derive(Clone, Copy, Default)]
pub struct Close {
    pub row: u32,
    /// Cosine with the centre that the group has without the row.
    pub own: f32,
}

/// How close the rows of groups are to the others of theirs.
///
/// That is taken to vary about the group's mean by Laplace's distribution, with the mean deviation of all groups. A row that is no farther than the mean
/// is as likely there as can be; beyond, the likelihood falls with e to the power of how many mean deviations it is farther.
pub struct Spread {
    pub close: Vec<Vec<Close>>,
    means: Vec<f64>,
    /// The mean over all rows.
    mean: f64,
    deviation: f64,
}

impl Spread {
    fn new(close: Vec<Vec<Close>>) -> Self {
        let known = |close: &Vec<Close>| close.len() > 1;
        let of = |close: &Vec<Close>| close.iter().map(|close| f64::from(close.own)).sum::<f64>();
        let count = close.iter().filter(|c| known(c)).map(Vec::len).sum::<usize>().max(1) as f64;
        let all = || close.iter().filter(|close| known(close)).flatten();
        let mean = all().map(|close| f64::from(close.own)).sum::<f64>() / count;
        let of_group = |close: &Vec<Close>| match known(close) {
            true => (of(close) + PRIOR * mean) / (close.len() as f64 + PRIOR),
            false => mean,
        };
        let means: Vec<f64> = close.iter().map(of_group).collect();
        let apart = |(close, mean): (&Vec<Close>, &f64)| match known(close) {
            true => close.iter().map(|close| (f64::from(close.own) - mean).abs()).sum(),
            false => 0.0,
        };
        let deviation = (close.iter().zip(&means).map(apart).sum::<f64>() / count).max(1e-3);
        Self {
            close,
            means,
            mean,
            deviation,
        }
    }

    /// Of a row with that cosine with the centre of a group that it is not in or is left out of; 1 at most.
    pub fn likelihood(&self, group: usize, cosine: f32) -> f64 {
        self.about(self.means[group], cosine.into())
    }

    /// The same of rows of a group that is not among these, which are as close to each other as `cosine` in the mean.
    pub fn likelihood_of_other(&self, cosine: f64) -> f64 {
        self.about(self.mean, cosine)
    }

    fn about(&self, mean: f64, cosine: f64) -> f64 {
        libm::exp(-(mean - cosine).max(0.0) / self.deviation)
    }
}

impl Groups<'_> {
    /// Groups of one join the best near group that has room, or are put together in pairs; at most one is left.
    pub fn settle(&mut self, near: &[Vec<u32>], tick: &mut dyn FnMut()) {
        for (group, near) in near.iter().enumerate() {
            let [row] = self.rows[group][..] else { continue };
            tick();
            let others = near.iter().map(|&other| other as usize);
            let best = others
                .filter(|&other| !self.rows[other].is_empty() && self.has_room(other, row))
                .map(|other| (self.gain(other, row), other))
                .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
            if let Some((_, to)) = best {
                self.go(row, group, to);
            }
        }
        let single: Vec<usize> = (0..self.rows.len())
            .filter(|&group| self.rows[group].len() == 1)
            .collect();
        for pair in single.chunks_exact(2) {
            self.go(self.rows[pair[1]][0], pair[1], pair[0]);
        }
    }

    /// The clusters: each group's rows, and rows of near groups that belong to it, too, as far as there is room.
    ///
    /// The probability of a row in a group is its [likelihood](Spread) there over the sum of those in its own and the near groups. Where that is over a quarter in another group,
    /// its best other one, it belongs there, too; the most probable are let in first.
    pub fn soften(self, near: &[Vec<u32>], crew: &Crew, tick: &mut dyn FnMut()) -> Vec<Cluster> {
        let dim = self.vectors.dim();
        let spread = self.spread(crew, tick);
        let Spread { close, .. } = &spread;
        let likelihood = |group: usize, cosine: f32| spread.likelihood(group, cosine);

        let mut found: Vec<Probable> = vec![Default::default(); self.rows.len()];
        crew.share(
            tick,
            found.iter_mut().zip(close).enumerate(),
            || (),
            |(), (group, (found, close)), pace| {
                for of in close {
                    pace.step((near[group].len() + 1) * dim)?;
                    let own = likelihood(group, of.own);
                    let mut others: Vec<(f64, u32)> = near[group]
                        .iter()
                        .filter(|&&other| self.rows[other as usize].len() > 1)
                        .map(|&other| (likelihood(other as usize, self.cosine(other as usize, of.row)), other))
                        .collect();
                    let sum = own + others.iter().map(|other| other.0).sum::<f64>();
                    if sum == 0.0 {
                        found.0.push(1.0);
                        continue;
                    }
                    others.retain(|other| other.0 > THRESHOLD * sum);
                    others.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
                    others.truncate(SECONDS);
                    let own = ((own / sum) as f32).max(f32::MIN_POSITIVE);
                    found.0.push(own);
                    // A row is at home where its weight is greatest: where another group had no room for it, it is told apart by the last bit.
                    let weight = |likelihood: f64| ((likelihood / sum) as f32).min(own.next_down());
                    found.1.extend(
                        others
                            .iter()
                            .map(|&(likelihood, other)| (weight(likelihood), of.row, other)),
                    );
                }
                Ok(())
            },
        );
        let mut clusters: Vec<Cluster> = Vec::with_capacity(self.rows.len());
        let mut wishes = Vec::new();
        for ((weights, seconds), close) in found.into_iter().zip(close) {
            clusters.push(
                close
                    .iter()
                    .zip(weights)
                    .map(|(close, weight)| Member { row: close.row, weight })
                    .collect(),
            );
            wishes.extend(seconds);
        }
        wishes.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        let mut tokens = self.tokens.clone();
        for (i, (weight, row, group)) in wishes.into_iter().enumerate() {
            if i.is_multiple_of(4096) {
                tick();
            }
            let (cluster, tokens) = (&mut clusters[group as usize], &mut tokens[group as usize]);
            let size = self.counted(row);
            if self.limits.hold(cluster.len() + 1, *tokens + size) {
                *tokens += size;
                cluster.push(Member { row, weight });
            }
        }
        for (i, cluster) in clusters.iter_mut().enumerate() {
            if i.is_multiple_of(1024) {
                tick();
            }
            cluster.sort_unstable_by_key(|member| member.row);
        }
        let parts = parts_of_others(clusters.iter().map(|cluster| &cluster[..]), self.vectors.len());
        let mut parts = parts.into_iter();
        clusters.retain(|cluster| !parts.next().unwrap_or_default() && !cluster.is_empty());
        clusters
    }

    /// How close the rows are to the others of their groups.
    pub fn spread(&self, crew: &Crew, tick: &mut dyn FnMut()) -> Spread {
        let dim = self.vectors.dim();
        let mut close: Vec<Vec<Close>> = vec![vec![]; self.rows.len()];
        crew.share(
            tick,
            close.iter_mut().enumerate(),
            || (),
            |(), (group, close), pace| {
                pace.step(self.rows[group].len() * dim)?;
                close.extend(self.rows[group].iter().map(|&row| Close {
                    row,
                    own: self.cosine_without(group, row),
                }));
                Ok(())
            },
        );
        Spread::new(close)
    }

    pub fn cosine(&self, group: usize, row: u32) -> f32 {
        let length = self.squares[group].sqrt();
        if length > 0.0 {
            dot(self.sum(group), self.vectors.row(row)) / length
        } else {
            0.0
        }
    }

    /// The cosine of a member with the centre of the others; 0 without others.
    pub fn cosine_without(&self, group: usize, row: u32) -> f32 {
        let along = dot(self.sum(group), self.vectors.row(row));
        let rest = (self.squares[group] - 2.0 * along + 1.0).max(0.0).sqrt();
        if self.rows[group].len() > 1 && rest > 1e-6 {
            (along - 1.0) / rest
        } else {
            0.0
        }
    }
}

/// Which of `clusters`, of rows below `rows`, have all their rows in another one, too; of equal ones the later.
pub fn parts_of_others<'c>(clusters: impl Iterator<Item = &'c [Member]>, rows: usize) -> Vec<bool> {
    let clusters: Vec<&[Member]> = clusters.collect();
    let mut of_row: Vec<Vec<u32>> = vec![vec![]; rows];
    for (at, cluster) in clusters.iter().enumerate() {
        cluster
            .iter()
            .for_each(|member| of_row[member.row as usize].push(at as u32));
    }
    let mut parts = vec![false; clusters.len()];
    for (at, own) in clusters.iter().enumerate() {
        let Some(first) = own.first() else { continue };
        parts[at] = of_row[first.row as usize].iter().any(|&other| {
            let other = other as usize;
            let cluster = clusters[other];
            let has = |member: &Member| cluster.binary_search_by_key(&member.row, |other| other.row).is_ok();
            other != at
                && (cluster.len() > own.len() || cluster.len() == own.len() && other < at)
                && own.iter().all(has)
        });
    }
    parts
}

//! Soft clustering with mixtures of Gaussian distributions, first of all rows and then inside each cluster.

mod gauss;
mod reduce;
#[cfg(test)]
mod tests;

use crate::limits::{Cluster, Limits, Member};
use crate::vectors::{Vectors, dot};
use gauss::{D, EIGHT, Gaussians, Point};
use graphrag_linear::{Crew, Pace, Stopped, splitmix64};
use reduce::Reduction;

/// A row belongs to each cluster for which it is more probable than this.
const THRESHOLD: f32 = 0.1;

/// Of more rows than these, so many are drawn to find the components and the mixture.
const SAMPLE: usize = 5000;

/// Clusters before and after a row's place in the tree of divisions among which it looks for a new one.
const WINDOW: usize = 8;

/// Multiplications that take about as long as to look up a place in memory.
const SLOT: usize = 32;

/// Groups rows as RAPTOR does (Sarthi et al., 2024, "RAPTOR: Recursive Abstractive Processing for Tree-Organized Retrieval").
///
/// The rows are reduced to 10 dimensions, and a mixture of Gaussians is fitted to them, of as many components (below 50) as make the
/// Bayesian information criterion least; a row belongs to each component whose posterior probability is above 0.1, and to its most
/// probable one. The same is done inside each cluster so found, from the original vectors, and inside each that is over the limits
/// again until none is. At most 11 rows that are within the limits are one cluster.
///
/// * `sizes`: the tokens of each row, as many as there are rows.
/// * `seed`: the same rows, sizes, limits and seed make the same clusters on every processor and with any number of threads.
///
/// What is not RAPTOR's:
///
/// * The reduction is to principal components (of the centred unit vectors) and not UMAP, whose neighbours and gradient steps are not
///   seeded, depend on the order of threads and take minutes, which pulls clusters apart until posteriors are 0 or 1 and no row is in two
///   of them, and which projects no further row in the same way.
/// * The threshold holds for the product of a row's posteriors over the steps, which is a member's weight: a row is in fewer than ten
///   clusters besides its best one, however often clusters are divided.
/// * A mixture has at most one component for 11 rows, and one that is the best of fewer than 11 is left out: a covariance in 10 dimensions
///   has no meaning for fewer. On descriptions of software packages this made half as many clusters, and purer ones than as many made
///   without it. The number of components is looked for until three more haven't made the criterion less.
/// * Of more than 5,000 rows, a sample that depends on the seed finds the mixture, which then takes in all.
/// * Each cluster is the best of two rows or more, but for at most one: so there are at most n / 2 clusters, rounded up.
///   A cluster whose rows are all in another is left out.
/// * A cluster over the limits gives up the least probable of the rows that have their best elsewhere, if that is enough. If a
///   mixture leaves 7/8 of it together, it is cut in two along its first principal component, at the median of tokens.
///
/// The time for a row depends little on their number: the rows are projected, and mixtures fitted, a few times. What is held besides
/// the vectors: see [`bytes_needed`].
///
/// Clusters come by their first row, then the rest. Rows without a direction come last, in row order, as many together as the limits hold.
pub fn mixture(
    vectors: &Vectors,
    sizes: &[u32],
    limits: &Limits,
    seed: u64,
    crew: &Crew,
    tick: &mut dyn FnMut(),
) -> Vec<Cluster> {
    let division = Division {
        vectors,
        sizes,
        limits,
        seed,
    };
    let (directed, undirected): (Vec<u32>, Vec<u32>) = (0..vectors.len() as u32).partition(|&row| {
        if row.is_multiple_of(256) {
            tick();
        }
        vectors.has_direction(row)
    });
    let whole = |rows: Vec<u32>| {
        rows.into_iter()
            .map(|row| Label {
                row,
                weight: 1.0,
                best: true,
            })
            .collect()
    };
    if vectors.len() <= D + 1 {
        let all: Vec<Label> = whole((0..vectors.len() as u32).collect());
        if all.is_empty() {
            return vec![];
        }
        if division.held(&all) {
            return vec![all.iter().map(Label::member).collect()];
        }
    }

    // In the order of the tree of divisions, each with whether it is yet to be divided.
    let mut groups: Vec<(Vec<Label>, bool)> = vec![];
    if !directed.is_empty() {
        groups.push((whole(directed), true));
    }
    let mut global = true;
    while groups.iter().any(|(_, open)| *open) {
        let mut divided: Vec<Vec<(Vec<Label>, bool)>> = vec![vec![]; groups.len()];
        crew.share(
            tick,
            groups.into_iter().zip(&mut divided),
            || (),
            |(), ((labels, open), out), pace| {
                if !open {
                    out.push((labels, false));
                    return Ok(());
                }
                let parts = division.divide(labels, pace)?;
                let local_follows = global && parts.len() > 1;
                for mut part in parts {
                    let open = local_follows || !division.held(&part);
                    if !open {
                        division.trim(&mut part);
                    }
                    out.push((part, open));
                }
                Ok(())
            },
        );
        groups = divided.into_iter().flatten().collect();
        global = false;
    }

    let mut clusters = vec![];
    let groups = groups.into_iter().map(|(labels, _)| labels).collect();
    crew.share(
        tick,
        std::iter::once((groups, undirected, &mut clusters)),
        || (),
        |(), (groups, undirected, clusters), pace| {
            *clusters = division.settle(groups, undirected, pace)?;
            Ok(())
        },
    );
    clusters
}

/// A row in a group.
#[derive(Clone, Copy)]
struct Label {
    row: u32,
    weight: f32,
    /// Whether this is the row's most probable group: each row has one.
    best: bool,
}

impl Label {
    fn member(&self) -> Member {
        Member {
            row: self.row,
            weight: self.weight,
        }
    }
}

struct Division<'a> {
    vectors: &'a Vectors,
    sizes: &'a [u32],
    limits: &'a Limits,
    seed: u64,
}

impl Division<'_> {
    fn tokens(&self, row: u32) -> u64 {
        self.limits.counted(self.sizes[row as usize])
    }

    /// Whether the rows that have their best group here are within the limits.
    fn held(&self, labels: &[Label]) -> bool {
        let best = labels.iter().filter(|label| label.best);
        let tokens = best.clone().map(|label| self.tokens(label.row)).sum();
        self.limits.hold(best.count(), tokens)
    }

    /// Keeps the rows that have their best group here, and the most probable of the others as long as the limits hold.
    fn trim(&self, labels: &mut Vec<Label>) {
        labels.sort_by(|a, b| {
            let by_weight = b.weight.total_cmp(&a.weight);
            b.best.cmp(&a.best).then(by_weight).then(a.row.cmp(&b.row))
        });
        let (mut members, mut tokens) = (0, 0);
        labels.retain(|label| {
            let with = tokens + self.tokens(label.row);
            let kept = label.best || self.limits.hold(members + 1, with);
            if kept {
                (members, tokens) = (members + 1, with);
            }
            kept
        });
        labels.sort_by_key(|label| label.row);
    }

    /// Divides a group by a mixture, or in two if it is over the limits and a mixture doesn't; or else answers the group.
    fn divide(&self, labels: Vec<Label>, pace: &mut Pace) -> Result<Vec<Vec<Label>>, Stopped> {
        if labels.len() <= D + 1 && self.held(&labels) {
            return Ok(vec![labels]);
        }
        let sample = self.sample(&labels);
        let rows: Vec<u32> = sample.iter().map(|&i| labels[i].row).collect();
        let reduction = Reduction::new(self.vectors, &rows, self.seed, pace)?;
        let points = reduction.project(self.vectors, labels.iter().map(|label| label.row), pace)?;
        if labels.len() > D + 1 {
            let sample: Vec<Point> = sample.iter().map(|&i| points[i]).collect();
            let gaussians = Gaussians::fit(&sample, self.vectors.dim().min(D), self.seed, pace)?;
            if let Some(parts) = by_mixture(gaussians, &labels, &points, pace)?
                // Or else a group could be divided row by row.
                && parts.iter().all(|part| part.len() * 8 <= labels.len() * 7)
            {
                return Ok(parts);
            }
        }
        if self.held(&labels) {
            return Ok(vec![labels]);
        }
        Ok(self.cut(&labels, &points))
    }

    /// The numbers of the labels, or of [`SAMPLE`] of them, drawn by their rows.
    fn sample(&self, labels: &[Label]) -> Vec<usize> {
        let mut sample: Vec<usize> = (0..labels.len()).collect();
        if labels.len() > SAMPLE {
            sample.select_nth_unstable_by_key(SAMPLE, |&i| {
                let row = labels[i].row;
                (splitmix64(self.seed ^ u64::from(row)), row)
            });
            sample.truncate(SAMPLE);
            sample.sort_unstable();
        }
        sample
    }

    /// Cuts a group of three or more best rows at the median of their tokens, and so that two or more are on either side if possible.
    fn cut(&self, labels: &[Label], points: &[Point]) -> Vec<Vec<Label>> {
        let mut order: Vec<usize> = (0..labels.len()).collect();
        order.sort_by(|&a, &b| points[a][0].total_cmp(&points[b][0]).then(a.cmp(&b)));
        let best: Vec<usize> = (0..order.len()).filter(|&at| labels[order[at]].best).collect();
        let tokens = |&at: &usize| self.tokens(labels[order[at]].row);
        let all: u64 = best.iter().map(tokens).sum();
        let least = if best.len() < 4 { 1 } else { 2 };
        let mut before: u64 = best[..least - 1].iter().map(tokens).sum();
        let (_, last) = best[least - 1..best.len() - least]
            .iter()
            .map(|at| {
                before += tokens(at);
                ((2 * before).abs_diff(all), *at)
            })
            .min()
            .expect("three or more rows have two sides");
        let (left, right) = order.split_at(last + 1);
        let part = |side: &[usize]| {
            let mut part: Vec<Label> = side.iter().map(|&i| labels[i]).collect();
            part.sort_unstable_by_key(|label| label.row);
            part
        };
        vec![part(left), part(right)]
    }

    /// Makes clusters of the groups, which are within the limits.
    fn settle(&self, groups: Vec<Vec<Label>>, undirected: Vec<u32>, pace: &mut Pace) -> Result<Vec<Cluster>, Stopped> {
        let mut clusters: Vec<Cluster> = vec![];
        let mut single = vec![];
        for labels in groups {
            let mut best = labels.iter().filter(|label| label.best);
            match (best.next(), best.next()) {
                (Some(label), None) => single.push((clusters.len(), label.member())),
                _ => clusters.push(labels.iter().map(Label::member).collect()),
            }
        }
        let mut unplaced = vec![];
        for (place, member) in single {
            if !self.join(member, place, &mut clusters, pace)? {
                unplaced.push(member);
            }
        }
        let mut pairs: Vec<Cluster> = unplaced.chunks(2).map(<[Member]>::to_vec).collect();
        let odd = pairs.pop_if(|pair| pair.len() == 1).unwrap_or_default();
        clusters.extend(pairs);
        let mut last = vec![];
        let mut tokens = 0;
        let undirected = undirected.into_iter().map(|row| Member { row, weight: 1.0 });
        for member in odd.into_iter().chain(undirected) {
            pace.step(SLOT)?;
            tokens += self.tokens(member.row);
            if !self.limits.hold(last.len() + 1, tokens) {
                clusters.push(std::mem::take(&mut last));
                tokens = self.tokens(member.row);
            }
            last.push(member);
        }
        if !last.is_empty() {
            clusters.push(last);
        }
        for cluster in &mut clusters {
            pace.step(SLOT * cluster.len())?;
            cluster.sort_unstable_by_key(|member| member.row);
        }
        let mut clusters = self.without_parts(clusters, pace)?;
        clusters.sort_by_cached_key(|cluster| {
            let directed = cluster.iter().any(|member| self.vectors.has_direction(member.row));
            (!directed, cluster.iter().map(|member| member.row).collect::<Vec<_>>())
        });
        Ok(clusters)
    }

    /// Adds a row to the nearest by mean cosine of the clusters that are near in the tree of divisions and have room.
    fn join(&self, member: Member, place: usize, clusters: &mut [Cluster], pace: &mut Pace) -> Result<bool, Stopped> {
        let mut nearest: Option<(f32, &mut Cluster)> = None;
        let end = clusters.len().min(place + WINDOW);
        for cluster in &mut clusters[place.saturating_sub(WINDOW)..end] {
            if cluster.iter().any(|other| other.row == member.row) {
                return Ok(true);
            }
            let tokens: u64 = cluster.iter().map(|member| self.tokens(member.row)).sum();
            if !self.limits.hold(cluster.len() + 1, tokens + self.tokens(member.row)) {
                continue;
            }
            let mut sum = 0.0;
            for other in cluster.iter() {
                pace.step(self.vectors.dim())?;
                sum += dot(self.vectors.row(member.row), self.vectors.row(other.row));
            }
            let cosine = sum / cluster.len() as f32;
            if nearest.as_ref().is_none_or(|(greatest, _)| cosine > *greatest) {
                nearest = Some((cosine, cluster));
            }
        }
        let joined = nearest.map(|(_, cluster)| cluster.push(member)).is_some();
        Ok(joined)
    }

    /// Leaves out clusters whose rows are all in one other.
    fn without_parts(&self, mut clusters: Vec<Cluster>, pace: &mut Pace) -> Result<Vec<Cluster>, Stopped> {
        let mut holders: Vec<Vec<usize>> = vec![vec![]; self.vectors.len()];
        for (i, cluster) in clusters.iter().enumerate() {
            for member in cluster {
                pace.step(SLOT)?;
                holders[member.row as usize].push(i);
            }
        }
        for i in 0..clusters.len() {
            let mut common: Option<Vec<usize>> = None;
            for member in &clusters[i] {
                pace.step(SLOT)?;
                let holders = &holders[member.row as usize];
                let others = |other: &usize| *other != i && !clusters[*other].is_empty();
                common = Some(match common {
                    None => holders.iter().copied().filter(others).collect(),
                    Some(common) => common.into_iter().filter(|other| holders.contains(other)).collect(),
                });
                if common.as_ref().is_some_and(Vec::is_empty) {
                    break;
                }
            }
            if common.is_some_and(|common| !common.is_empty()) {
                clusters[i].clear();
            }
        }
        clusters.retain(|cluster| !cluster.is_empty());
        Ok(clusters)
    }
}

/// The parts of a group by the components of a mixture, without those that are the best of too few rows for a covariance;
/// if there are two or more.
fn by_mixture(
    mut gaussians: Gaussians,
    labels: &[Label],
    points: &[Point],
    pace: &mut Pace,
) -> Result<Option<Vec<Vec<Label>>>, Stopped> {
    while gaussians.len() > 1 {
        let mut parts = vec![vec![]; gaussians.len()];
        let mut shares = vec![[0.0; EIGHT]; gaussians.len()];
        for (labels, points) in labels.chunks(EIGHT).zip(points.chunks(EIGHT)) {
            gaussians.shares(points, &mut shares, pace)?;
            for (i, label) in labels.iter().enumerate() {
                let greatest = shares.iter().map(|share| share[i]).fold(0.0, f64::max);
                let mut best = label.best;
                for (part, share) in parts.iter_mut().zip(&shares) {
                    let weight = label.weight * share[i] as f32;
                    let here = best && share[i] == greatest;
                    if here || weight > THRESHOLD {
                        best &= !here;
                        part.push(Label {
                            row: label.row,
                            weight: weight.max(f32::MIN_POSITIVE),
                            best: here,
                        });
                    }
                }
            }
        }
        let keep: Vec<bool> = parts
            .iter()
            .map(|part| part.iter().filter(|label| label.best).nth(D).is_some())
            .collect();
        if keep.iter().all(|&keep| keep) {
            return Ok(Some(parts));
        }
        gaussians.retain(keep);
    }
    Ok(None)
}

/// Bytes that [`mixture()`] holds at most besides the vectors and sizes of `rows` rows of `dim` dimensions. It seldom comes near,
/// as hardly a row is in as many clusters as the threshold allows.
pub fn bytes_needed(rows: usize, dim: usize, threads: usize) -> usize {
    // A row is in ten groups, before and after they are divided, with room to grow; and is projected.
    let row = 10 * 3 * size_of::<Label>() + size_of::<Point>() + 4 * size_of::<usize>();
    let thread = rows.min(SAMPLE).saturating_mul(2 * size_of::<Point>());
    let thread = thread.saturating_add(Reduction::bytes(dim));
    rows.saturating_mul(row).saturating_add(threads.saturating_mul(thread))
}

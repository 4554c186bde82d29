//! The default way to cluster: k-means where rows are many, bisection down to what a summarizer can read, and soft membership.

use crate::groups::Groups;
use crate::halve::{Scratch, cut_up};
use crate::limits::{Cluster, Limits, Member};
use crate::seeds::around_seeds;
use crate::space::{DIMS, Space};
use crate::start::start;
use crate::vectors::Vectors;
use graphrag_linear::Crew;

/// First groups for each one that the limits make necessary: those that are larger than the limits are cut up.
const GROUPS: f64 = 0.8;

/// More rows than this have their centres learned from a sample, and are compared in a space of few dimensions.
const FEW: usize = 6000;

/// Groups all rows softly into clusters within `limits`, by closeness of direction.
///
/// Rows first gather around seeds that lie far apart, and move to better groups. Of more than a few thousand rows the seeds are learned by k-means from a sample,
/// and rows are compared with those centres that an inverted file finds in the 64 strongest directions, so that time grows with about n^1.5. Groups over the limits
/// are cut in two by spherical 2-means, from several starts, until all are within; then rows move again, to groups that have room. A cut comes late, since one
/// that is made early goes through the middle of what belongs together. Groups that were cut apart and have room for each other are put together again. A row that stands between groups joins a second one where there is room;
/// the weights are probabilities, by the rule at `soften`.
///
/// `sizes` has the tokens of each row, of which [`Limits::counted`] are counted. Every row is in at least one cluster, all clusters are within the limits,
/// at most one has a single member, and none is part of another. There are at most half as many as rows, rounded up. Rows without a direction make clusters of their own, in row order.
/// Members and clusters are in the order of rows. The result depends on the rows, their order and `seed`, not on the threads of `crew`. Beside the vectors it takes about a tenth of their memory, and 256 bytes a row where rows are many.
///
/// Source: spherical k-means (Dhillon and Modha 2001), bisected (Steinbach, Karypis and Kumar 2000).
pub fn bisect(
    vectors: &Vectors,
    sizes: &[u32],
    limits: &Limits,
    seed: u64,
    crew: &Crew,
    tick: &mut dyn FnMut(),
) -> Vec<Cluster> {
    let (directed, undirected): (Vec<u32>, Vec<u32>) =
        (0..vectors.len() as u32).partition(|&row| vectors.has_direction(row));
    let tokens: u64 = directed.iter().map(|&row| limits.counted(sizes[row as usize])).sum();
    let needed = (tokens.div_ceil(u64::from(limits.tokens))).max(directed.len().div_ceil(limits.members) as u64);
    let count = (needed as f64 * GROUPS).ceil() as usize;
    let space = (directed.len() > FEW).then(|| Space::new(vectors, &directed, seed, crew, tick));
    let rows = match &space {
        Some(space) => start(vectors, space, &directed, count, seed, crew, tick),
        None => {
            let mut rows = vec![];
            let one = std::iter::once(&mut rows);
            crew.share(
                tick,
                one,
                || (),
                |(), rows, pace| {
                    *rows = around_seeds(vectors, &directed, count, seed, pace)?;
                    Ok(())
                },
            );
            rows
        }
    };
    let mut groups = Groups::new(vectors, sizes, &Limits::NONE, rows, crew, tick);
    groups.refine(space.as_ref(), crew, tick);

    let rows = groups.rows;
    let mut parts: Vec<Vec<Vec<u32>>> = vec![vec![]; rows.len()];
    crew.share(
        tick,
        rows.into_iter().zip(&mut parts),
        Scratch::default,
        |scratch, (rows, parts), pace| {
            *parts = cut_up(vectors, sizes, limits, seed, rows, scratch, pace)?;
            Ok(())
        },
    );
    let mut groups = Groups::new(vectors, sizes, limits, parts.concat(), crew, tick);
    let near = groups.refine(space.as_ref(), crew, tick);
    groups.unite(near, tick);
    let near = groups.refine(space.as_ref(), crew, tick);
    groups.settle(&near, tick);
    let mut clusters = groups.soften(&near, crew, tick);
    clusters.extend(in_order(&undirected, sizes, limits));
    join_last(&mut clusters);
    clusters.sort_unstable_by(|a, b| a.iter().map(|m| m.row).cmp(b.iter().map(|m| m.row)));
    clusters
}

/// Bytes for comparing many rows in a space of few dimensions: the rows, and the groups' centres as made and as listed.
pub(crate) fn bytes_beside(rows: usize, dim: usize, clusters: usize) -> usize {
    match rows > FEW {
        true => Space::bytes(rows, dim).saturating_add(clusters.saturating_mul(3 * DIMS * size_of::<f32>())),
        false => 0,
    }
}

/// Clusters of rows one after another, as many as the limits allow.
pub(crate) fn in_order(rows: &[u32], sizes: &[u32], limits: &Limits) -> Vec<Cluster> {
    let (mut clusters, mut tokens) = (Vec::<Cluster>::new(), 0);
    for &row in rows {
        let size = limits.counted(sizes[row as usize]);
        match clusters.last_mut() {
            Some(last) if limits.hold(last.len() + 1, tokens + size) => last.push(Member { row, weight: 1.0 }),
            _ => {
                tokens = 0;
                clusters.push(vec![Member { row, weight: 1.0 }]);
            }
        }
        tokens += size;
    }
    if let [.., before, last] = &mut clusters[..]
        && last.len() == 1
        && before.len() > 2
    {
        last.splice(..0, before.pop());
    }
    clusters
}

/// Puts two clusters of one together: one may be left of the rows with a direction, and one of those without.
fn join_last(clusters: &mut Vec<Cluster>) {
    let mut single = (0..clusters.len()).filter(|&at| clusters[at].len() == 1);
    if let (Some(one), Some(other)) = (single.next(), single.next()) {
        let other = clusters.swap_remove(other);
        clusters[one].extend(other);
        clusters[one].sort_unstable_by_key(|member| member.row);
    }
}

#[cfg(test)]
pub mod tests;

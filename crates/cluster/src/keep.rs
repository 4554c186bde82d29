//! Keeping clusters as they are while rows come and go.

use crate::bisect::{bisect, in_order};
use crate::groups::Groups;
use crate::halve::{Scratch, cut_up};
use crate::limits::{Cluster, Limits, Member};
use crate::seeds::around_seeds;
use crate::soft::parts_of_others;
use crate::vectors::Vectors;
use graphrag_linear::Crew;

/// The share of rows that would rather be elsewhere at which a changed group and those near it are divided anew.
const DRIFT: f32 = 0.5;

/// Groups that are divided anew together.
const REGION: usize = 4;

/// The share of new rows above which all are clustered anew.
const NEW: f64 = 0.25;

/// A cluster, and what it was before.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    pub cluster: Cluster,
    /// Its number among those before, if it goes on from one.
    pub was: Option<u32>,
}

/// Clusters as they were, of the rows that are left of them, and whether anything of theirs has changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Before {
    pub cluster: Cluster,
    pub changed: bool,
}

/// Brings clusters up to date with rows that have come and gone, and leaves those alone that neither touches.
///
/// A row that is in none of `before` joins the cluster that it fits best of those that have room, so that no cluster is cut as long as one near has room. Clusters over the limits let go of second memberships and are cut in two if that is not enough,
/// those with a single row of their own are dissolved into the nearest that has room, and empty ones are left out. Where half of the rows of a changed cluster would rather be in another,
/// it is divided anew with the three nearest to it. If a quarter of the rows are new, all are clustered anew by [`bisect()`], whose promises hold here, too.
///
/// The result depends on the rows, `before`, their orders and `seed`.
pub fn keep_up(
    vectors: &Vectors,
    sizes: &[u32],
    limits: &Limits,
    seed: u64,
    before: &[Before],
    crew: &Crew,
    tick: &mut dyn FnMut(),
) -> Vec<Kept> {
    let mut home: Vec<Option<(u32, f32)>> = vec![None; vectors.len()];
    for (at, before) in before.iter().enumerate() {
        for &Member { row, weight } in &before.cluster {
            let place = &mut home[row as usize];
            if place.is_none_or(|(_, best)| weight > best) {
                *place = Some((at as u32, weight));
            }
        }
    }
    let new: Vec<u32> = (0..vectors.len() as u32)
        .filter(|&row| home[row as usize].is_none())
        .collect();
    if new.len() as f64 > NEW * vectors.len() as f64 {
        let clusters = bisect(vectors, sizes, limits, seed, crew, tick).into_iter();
        return clusters.map(|cluster| Kept { cluster, was: None }).collect();
    }
    let mut own: Vec<Vec<u32>> = vec![vec![]; before.len()];
    for (row, home) in home.iter().enumerate() {
        if let Some((at, _)) = home {
            own[*at as usize].push(row as u32);
        }
    }
    let mut was: Vec<Option<u32>> = (0..before.len() as u32).map(Some).collect();
    let mut changed: Vec<bool> = before.iter().map(|before| before.changed).collect();

    let mut groups = Groups::new(vectors, sizes, limits, own, crew, tick);
    let (directed, undirected): (Vec<u32>, Vec<u32>) = new.iter().partition(|&&row| vectors.has_direction(row));
    for row in directed {
        tick();
        if let Some(to) = groups.fitting(row, None, false) {
            groups.join(row, to);
            changed[to] = true;
        }
    }
    // Groups of one are dissolved before large ones are cut, so that they find room.
    for group in 0..groups.rows.len() {
        if let [row] = groups.rows[group][..] {
            tick();
            if let Some(to) = groups.fitting(row, Some(group), true) {
                groups.go(row, group, to);
                changed[to] = true;
            }
        }
    }
    for group in 0..groups.rows.len() {
        // A row may have grown where none has come.
        let size = |row: &u32| limits.counted(sizes[*row as usize]);
        let fits = limits.hold(groups.rows[group].len(), groups.rows[group].iter().map(size).sum());
        if groups.rows[group].is_empty() || !changed[group] && fits {
            continue;
        }
        let mut rows = std::mem::take(&mut groups.rows[group]);
        rows.sort_unstable();
        let region = groups.drifted(group, &rows, DRIFT, REGION, tick);
        for &other in &region {
            rows.append(&mut groups.rows[other]);
            was[other] = None;
        }
        if !region.is_empty() {
            rows.sort_unstable();
            was[group] = None;
        }
        let mut parts = cut(vectors, sizes, limits, seed, rows, region.len() + 1, crew, tick);
        parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
        let mut parts = parts.into_iter();
        groups.rows[group] = parts.next().unwrap_or_default();
        for part in parts {
            groups.rows.push(part);
            was.push(None);
            changed.push(true);
        }
    }

    let mut clusters = Vec::with_capacity(groups.rows.len());
    for (group, rows) in groups.rows.into_iter().enumerate() {
        if rows.is_empty() {
            continue;
        }
        let weight = |row: u32| match home[row as usize] {
            Some((at, weight)) if was[group] == Some(at) => weight,
            _ => 1.0,
        };
        let mut cluster: Cluster = rows
            .iter()
            .map(|&row| Member {
                row,
                weight: weight(row),
            })
            .collect();
        if let Some(at) = was[group] {
            add_seconds(&mut cluster, &before[at as usize].cluster, sizes, limits);
        }
        cluster.sort_unstable_by_key(|member| member.row);
        clusters.push(Kept {
            cluster,
            was: was[group],
        });
    }
    clusters.extend(
        in_order(&undirected, sizes, limits)
            .into_iter()
            .map(|cluster| Kept { cluster, was: None }),
    );
    pair_single(&mut clusters);
    let drop = parts_of_others(clusters.iter().map(|kept| &kept.cluster[..]), vectors.len());
    let mut drop = drop.into_iter();
    clusters.retain(|_| !drop.next().unwrap_or(false));
    clusters.sort_by(|a, b| a.cluster.iter().map(|m| m.row).cmp(b.cluster.iter().map(|m| m.row)));
    clusters
}

/// Groups of `rows` within the limits, about as many as `count` if that is more than one.
#[allow(clippy::too_many_arguments)]
fn cut(
    vectors: &Vectors,
    sizes: &[u32],
    limits: &Limits,
    seed: u64,
    rows: Vec<u32>,
    count: usize,
    crew: &Crew,
    tick: &mut dyn FnMut(),
) -> Vec<Vec<u32>> {
    let mut parts = vec![];
    crew.share(
        tick,
        [(rows, &mut parts)].into_iter(),
        Scratch::default,
        |scratch, (rows, parts), pace| {
            let seeded = match count {
                1 => vec![rows],
                _ => around_seeds(vectors, &rows, count, seed, pace)?,
            };
            for group in seeded {
                parts.extend(cut_up(vectors, sizes, limits, seed, group, scratch, pace)?);
            }
            Ok(())
        },
    );
    parts
}

/// Adds the members of `before` that have their homes elsewhere, the most probable first, as far as there is room.
fn add_seconds(cluster: &mut Cluster, before: &Cluster, sizes: &[u32], limits: &Limits) {
    let size = |member: &Member| limits.counted(sizes[member.row as usize]);
    let is_in = |row: u32| cluster.iter().any(|member| member.row == row);
    let mut seconds: Vec<Member> = before.iter().filter(|member| !is_in(member.row)).copied().collect();
    seconds.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.row.cmp(&b.row)));
    let mut tokens: u64 = cluster.iter().map(size).sum();
    for member in seconds {
        if limits.hold(cluster.len() + 1, tokens + size(&member)) {
            tokens += size(&member);
            cluster.push(member);
        }
    }
}

/// Puts clusters with a single row together in pairs.
fn pair_single(clusters: &mut Vec<Kept>) {
    let single: Vec<usize> = (0..clusters.len())
        .filter(|&at| clusters[at].cluster.len() == 1)
        .collect();
    for pair in single.chunks_exact(2) {
        let other = std::mem::take(&mut clusters[pair[1]].cluster);
        clusters[pair[0]].cluster.extend(other);
        clusters[pair[0]].cluster.sort_unstable_by_key(|member| member.row);
        clusters[pair[0]].was = None;
    }
    clusters.retain(|kept| !kept.cluster.is_empty());
}

#[cfg(test)]
mod tests;

//! Keeping clusters as they are while rows come and go.

mod apart;
mod renew;

use crate::bisect::in_order;
use crate::groups::Groups;
use crate::limits::{Cluster, Limits, Member};
use crate::soft::parts_of_others;
use crate::tree::{Options, clustered};
use crate::vectors::{Vectors, dot};
use std::cmp::Reverse;

/// The share of new rows above which all are clustered anew.
const NEW: f64 = 0.25;

/// The likelihood below which a row is far from a group: of rows that vary by Laplace's distribution one in a hundred is as far.
const FAR: f64 = 0.02;

/// The best groups for a row in which it may find room.
const FITTING: usize = 8;

/// The groups nearest to one with much room that it may be put together with.
const NEAR: usize = 4;

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
/// A row that is in none of `before` joins the cluster that it fits best, of those that it is not far from and that have room; if all that it is not far from are full, the
/// best, which is divided. It is far where fewer than one in a hundred of the rows there would be as far from the centre, by the rule of [`Spread`](crate::soft::Spread).
/// Rows that are far from all clusters make new ones, with those that stand far from their own in changed clusters or in those that they would go to; what is left goes to
/// the best that has room. For every other new row, changed clusters may draw one from another where it is four times less likely. Changed clusters of at most half the limits are put together with
/// near ones that are alike or, if rows have gone, that theirs are not far from; those with a single row of their own are dissolved into the nearest that has room, and empty ones are left out.
///
/// What is not as good any more as it could be is found by clustering parts on trial: see [`renew`]. If a quarter of the rows are new, all are clustered anew. Where rows are
/// clustered it is by the method of `options`, whose promises hold here, too. The result depends on the rows, `before`, their orders and the seed.
pub fn keep_up(
    vectors: &Vectors,
    sizes: &[u32],
    options: &Options,
    before: &[Before],
    tick: &mut dyn FnMut(),
) -> Vec<Kept> {
    let home = homes(vectors.len(), before.iter().map(|before| &before.cluster));
    let new: Vec<u32> = (0..vectors.len() as u32)
        .filter(|&row| home[row as usize].is_none())
        .collect();
    if new.len() as f64 > NEW * vectors.len() as f64 {
        let clusters = clustered(vectors, sizes, options, tick).into_iter();
        return clusters.map(|cluster| Kept { cluster, was: None }).collect();
    }
    let mut own: Vec<Vec<u32>> = vec![vec![]; before.len()];
    for (row, home) in home.iter().enumerate() {
        if let Some((at, _)) = home {
            own[*at as usize].push(row as u32);
        }
    }
    let known = |(at, before): (u32, &Before)| State {
        was: Some(at),
        changes: before.changed.into(),
        lost: before.changed,
        made: None,
    };
    let mut keeping = Keeping {
        options,
        groups: Groups::new(vectors, sizes, &options.limits, own, &options.crew, tick),
        states: (0..).zip(before).map(known).collect(),
    };
    let (directed, undirected): (Vec<u32>, Vec<u32>) = new.iter().partition(|&&row| vectors.has_direction(row));
    let undirected = keeping.place_undirected(undirected);
    let far = keeping.place(directed, tick);
    let left = keeping.set_apart(far, tick);
    let left = keeping.place(left, tick);
    keeping.place_anyhow(left, tick);
    keeping.draw(new.len() / 2, tick);
    keeping.dissolve(tick);
    keeping.unite(tick);
    keeping.divide(tick);
    keeping.renew(tick);

    let mut clusters = keeping.into_clusters(&home, before);
    let others = in_order(&undirected, sizes, &options.limits).into_iter();
    clusters.extend(others.map(|cluster| Kept { cluster, was: None }));
    pair_single(&mut clusters);
    let drop = parts_of_others(clusters.iter().map(|kept| &kept.cluster[..]), vectors.len());
    let mut drop = drop.into_iter();
    clusters.retain(|_| !drop.next().unwrap_or(false));
    clusters.sort_by(|a, b| a.cluster.iter().map(|m| m.row).cmp(b.cluster.iter().map(|m| m.row)));
    clusters
}

/// For each of so many rows, the cluster in which it is at home, where its weight is greatest, and that weight.
fn homes<'c>(rows: usize, clusters: impl Iterator<Item = &'c Cluster>) -> Vec<Option<(u32, f32)>> {
    let mut home: Vec<Option<(u32, f32)>> = vec![None; rows];
    for (at, cluster) in clusters.enumerate() {
        for &Member { row, weight } in cluster {
            let place = &mut home[row as usize];
            if place.is_none_or(|(_, best)| weight > best) {
                *place = Some((at as u32, weight));
            }
        }
    }
    home
}

/// Groups of the rows that are at home in them, and what becomes of them.
struct Keeping<'a> {
    options: &'a Options,
    groups: Groups<'a>,
    states: Vec<State>,
}

#[derive(Clone, Default)]
struct State {
    was: Option<u32>,
    /// Rows that have come, and whether any have gone.
    changes: usize,
    /// Whether rows have gone.
    lost: bool,
    /// The cluster, if it was made now.
    made: Option<Cluster>,
}

impl Keeping<'_> {
    /// Rows without a direction join others that have none; answers those that do not find room.
    fn place_undirected(&mut self, rows: Vec<u32>) -> Vec<u32> {
        let mut left = vec![];
        for row in rows {
            let groups = &self.groups;
            let is_alike = |group: &usize| {
                groups.rows[*group]
                    .iter()
                    .all(|&other| !groups.vectors.has_direction(other))
            };
            let fits = |group: &usize| !groups.rows[*group].is_empty() && groups.has_room(*group, row);
            let found =
                (0..groups.rows.len()).find(|group| fits(group) && groups.squares[*group] == 0.0 && is_alike(group));
            match found {
                Some(to) => self.join(row, to),
                None => left.push(row),
            }
        }
        left
    }

    /// New rows join the groups that they fit; answers those that are far from all.
    fn place(&mut self, rows: Vec<u32>, tick: &mut dyn FnMut()) -> Vec<u32> {
        if rows.is_empty() {
            return rows;
        }
        let spread = self.groups.spread(&self.options.crew, tick);
        let mut far = vec![];
        for row in rows {
            tick();
            let groups = &self.groups;
            let mut fitting = self.best(row);
            fitting.retain(|&to| spread.likelihood(to, groups.cosine(to, row)) >= FAR);
            let with_room = fitting.iter().find(|&&to| groups.has_room(to, row));
            match with_room.or(fitting.first()) {
                Some(&to) => self.join(row, to),
                None => far.push(row),
            }
        }
        far
    }

    /// Rows join the best groups with room, however far.
    fn place_anyhow(&mut self, rows: Vec<u32>, tick: &mut dyn FnMut()) {
        for row in rows {
            tick();
            if let Some(to) = self.groups.fitting(row, None, false) {
                self.join(row, to);
            }
        }
    }

    /// The groups that gain most by a row, best first.
    fn best(&self, row: u32) -> Vec<usize> {
        let groups = (0..self.groups.rows.len()).filter(|&group| !self.groups.rows[group].is_empty());
        highest(groups, FITTING, |group| self.groups.gain(group, row))
    }

    fn join(&mut self, row: u32, to: usize) {
        self.groups.join(row, to);
        self.states[to].changes += 1;
    }

    /// Groups of one go, so that their rows find room before large groups are divided.
    fn dissolve(&mut self, tick: &mut dyn FnMut()) {
        for group in 0..self.groups.rows.len() {
            if let [row] = self.groups.rows[group][..] {
                tick();
                if let Some(to) = self.groups.fitting(row, Some(group), true) {
                    self.groups.go(row, group, to);
                    self.states[to].changes += 1;
                }
            }
        }
    }

    /// Puts changed groups that are not half full together with near ones that are alike, and those that have lost rows with near ones that these are not far from.
    fn unite(&mut self, tick: &mut dyn FnMut()) {
        let Keeping {
            options,
            groups,
            states,
        } = self;
        let limits = options.limits;
        let count = groups.rows.len();
        let mut near = vec![vec![]; count];
        for (group, near) in near.iter_mut().enumerate() {
            let (rows, tokens) = (groups.rows[group].len(), groups.tokens[group]);
            if states[group].changes == 0 || rows == 0 || !limits.hold(2 * rows, 2 * tokens) {
                continue;
            }
            tick();
            let others = (0..count).filter(|&other| other != group && groups.squares[other] > 0.0);
            let found = highest(others, NEAR, |other| {
                dot(groups.sum(group), groups.sum(other)) / groups.squares[other].sqrt()
            });
            near.extend(found.into_iter().map(|other| other as u32));
        }
        let before: Vec<usize> = groups.rows.iter().map(Vec::len).collect();
        groups.unite(near.clone(), tick);
        let spread = groups.spread(&options.crew, tick);
        for (group, near) in near.iter().enumerate().filter(|(group, _)| states[*group].lost) {
            let (count, tokens) = (groups.rows[group].len(), groups.tokens[group]);
            let fits = |to: &usize| {
                let close = |&row: &u32| groups.cosine(*to, row);
                let mean = groups.rows[group].iter().map(close).sum::<f32>() / count as f32;
                *to != group
                    && !groups.rows[*to].is_empty()
                    && limits.hold(count + groups.rows[*to].len(), tokens + groups.tokens[*to])
                    && spread.likelihood(*to, mean) >= FAR
            };
            let found = near.iter().map(|&to| to as usize).find(fits);
            if let Some(to) = found.filter(|_| limits.hold(2 * count, 2 * tokens)) {
                for row in groups.rows[group].clone() {
                    groups.go(row, group, to);
                }
            }
        }
        for ((rows, before), state) in groups.rows.iter().zip(before).zip(states) {
            state.changes += usize::from(rows.len() > before);
        }
    }

    /// Clusters the rows of groups over the limits.
    fn divide(&mut self, tick: &mut dyn FnMut()) {
        let Keeping { groups, options, .. } = self;
        let over: Vec<usize> = (0..groups.rows.len())
            .filter(|&group| {
                // A row may have grown where none has come.
                let tokens = groups.rows[group].iter().map(|&row| groups.counted(row)).sum();
                !options.limits.hold(groups.rows[group].len(), tokens)
            })
            .collect();
        let mut made = vec![];
        for group in over {
            let clusters = self.clustered(self.groups.rows[group].clone(), tick);
            made.push((vec![group], clusters));
        }
        self.replace(made, tick);
    }

    /// Clusters some rows by the method.
    fn clustered(&self, mut rows: Vec<u32>, tick: &mut dyn FnMut()) -> Vec<Cluster> {
        rows.sort_unstable();
        let Groups { vectors, sizes, .. } = self.groups;
        if rows.len() == vectors.len() {
            return clustered(vectors, sizes, self.options, tick);
        }
        let sizes: Vec<u32> = rows.iter().map(|&row| sizes[row as usize]).collect();
        let mut clusters = clustered(&of_rows(vectors, &rows, tick), &sizes, self.options, tick);
        for member in clusters.iter_mut().flatten() {
            member.row = rows[member.row as usize];
        }
        clusters
    }

    /// Puts clusters in the place of groups, whose rows they hold. One that most of its rows come to from one group goes on from that.
    fn replace(&mut self, made: Vec<(Vec<usize>, Vec<Cluster>)>, tick: &mut dyn FnMut()) {
        if made.is_empty() {
            return;
        }
        let mut of_row: Vec<u32> = vec![0; self.groups.vectors.len()];
        let mut rows = std::mem::take(&mut self.groups.rows);
        for (groups, clusters) in made {
            // What came to all of them came to each about alike.
            let changes: usize = groups.iter().map(|&group| self.states[group].changes).sum();
            let changes = changes.div_ceil(clusters.len().max(1));
            for &group in &groups {
                rows[group].iter().for_each(|&row| of_row[row as usize] = group as u32);
            }
            let mut overlaps: Vec<(usize, usize, usize)> = vec![];
            let owned = owned(&clusters);
            for (at, own) in owned.iter().enumerate() {
                let mut from: Vec<u32> = own.iter().map(|&row| of_row[row as usize]).collect();
                from.sort_unstable();
                overlaps.extend(
                    from.chunk_by(|a, b| a == b)
                        .map(|same| (same.len(), at, same[0] as usize)),
                );
            }
            overlaps.sort_unstable_by_key(|&(count, at, group)| (Reverse(count), at, group));
            let mut was: Vec<Option<u32>> = vec![None; clusters.len()];
            for (count, at, group) in overlaps {
                if was[at].is_none() && 2 * count >= owned[at].len() {
                    was[at] = self.states[group].was.take();
                }
            }
            for &group in &groups {
                rows[group].clear();
                self.states[group] = State::default();
            }
            for ((own, cluster), was) in owned.into_iter().zip(clusters).zip(was) {
                rows.push(own);
                self.states.push(State {
                    was,
                    changes,
                    made: Some(cluster),
                    ..Default::default()
                });
            }
        }
        self.set(rows, tick);
    }

    fn set(&mut self, rows: Vec<Vec<u32>>, tick: &mut dyn FnMut()) {
        let Groups {
            vectors, sizes, limits, ..
        } = self.groups;
        self.groups = Groups::new(vectors, sizes, limits, rows, &self.options.crew, tick);
    }

    fn into_clusters(self, home: &[Option<(u32, f32)>], before: &[Before]) -> Vec<Kept> {
        let mut clusters: Vec<Kept> = Vec::with_capacity(self.states.len());
        let mut now: Vec<(usize, f32)> = vec![(0, 0.0); home.len()];
        for (rows, State { was, made, .. }) in self.groups.rows.into_iter().zip(self.states) {
            if rows.is_empty() {
                continue;
            }
            let weight = |row: u32| match home[row as usize] {
                Some((at, weight)) if was == Some(at) => weight,
                _ => 1.0,
            };
            let mut cluster = made.unwrap_or_else(|| {
                let own = |&row: &u32| Member {
                    row,
                    weight: weight(row),
                };
                let mut cluster = rows.iter().map(own).collect();
                if let Some(at) = was {
                    let is_second = |member: &&Member| home[member.row as usize].is_some_and(|(home, _)| home != at);
                    let seconds = before[at as usize].cluster.iter().filter(is_second);
                    add_seconds(&mut cluster, seconds, self.groups.sizes, &self.options.limits);
                }
                cluster
            });
            cluster.sort_unstable_by_key(|member| member.row);
            for row in rows {
                if let Ok(place) = cluster.binary_search_by_key(&row, |member| member.row) {
                    now[row as usize] = (clusters.len(), cluster[place].weight);
                }
            }
            clusters.push(Kept { cluster, was });
        }
        // A row is at home where its weight is greatest.
        for (at, kept) in clusters.iter_mut().enumerate() {
            for member in &mut kept.cluster {
                let (home, weight) = now[member.row as usize];
                if home != at {
                    member.weight = member.weight.min(weight.next_down());
                }
            }
        }
        clusters
    }
}

/// The rows that are at home in each of some clusters.
fn owned(clusters: &[Cluster]) -> Vec<Vec<u32>> {
    let members = clusters
        .iter()
        .enumerate()
        .flat_map(|(at, cluster)| cluster.iter().map(move |&member| (member, at)));
    let mut members: Vec<(Member, usize)> = members.collect();
    members.sort_by(|(a, _), (b, _)| a.row.cmp(&b.row).then(b.weight.total_cmp(&a.weight)));
    members.dedup_by_key(|(member, _)| member.row);
    let mut owned = vec![vec![]; clusters.len()];
    for (member, at) in members {
        owned[at].push(member.row);
    }
    owned
}

/// The vectors of some rows.
fn of_rows(vectors: &Vectors, rows: &[u32], tick: &mut dyn FnMut()) -> Vectors {
    let data = rows.iter().flat_map(|&row| vectors.row(row)).copied().collect();
    Vectors::new(vectors.dim(), data, tick).expect("rows of vectors are whole and not more than those")
}

/// The `count` of `items` with the highest scores, best first, of equal ones the first.
fn highest(items: impl Iterator<Item = usize>, count: usize, score: impl Fn(usize) -> f32) -> Vec<usize> {
    let mut best: Vec<(f32, usize)> = items.map(|item| (score(item), item)).collect();
    let order = |a: &(f32, usize), b: &(f32, usize)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
    if best.len() > count {
        best.select_nth_unstable_by(count, order);
        best.truncate(count);
    }
    best.sort_unstable_by(order);
    best.into_iter().map(|(_, item)| item).collect()
}

/// Adds members that have their homes elsewhere, the most probable first, as far as there is room.
fn add_seconds<'m>(cluster: &mut Cluster, seconds: impl Iterator<Item = &'m Member>, sizes: &[u32], limits: &Limits) {
    let size = |member: &Member| limits.counted(sizes[member.row as usize]);
    let is_in = |row: u32| cluster.iter().any(|member| member.row == row);
    let mut seconds: Vec<Member> = seconds.filter(|member| !is_in(member.row)).copied().collect();
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
mod quality;
#[cfg(test)]
pub(crate) mod tests;

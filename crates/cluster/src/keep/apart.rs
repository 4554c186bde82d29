//! New groups of rows that are far from all others, and rows that change over to groups that have changed.

use super::{FAR, FITTING, Keeping, State, highest, of_rows, owned};
use crate::groups::Groups;
use crate::limits::Limits;
use crate::tree::{Options, clustered};

/// How likely a row is in its own group where another draws it: less than so large a share of what it is there.
const LESS: f64 = 0.25;

/// Rows that are far from their groups, with how close they would be to those where they stay or go if they stay alone.
type Loose = Vec<(u32, f32)>;

impl Keeping<'_> {
    /// Makes new groups of `far`, rows that are in none, and of rows that stand far from their own in groups that have changed or that `far` would go to.
    ///
    /// A row goes with others if it is closer to the centre of those than to that of the group where it stands or would go. Answers those of `far` that are left.
    pub fn set_apart(&mut self, far: Vec<u32>, tick: &mut dyn FnMut()) -> Vec<u32> {
        let spread = self.groups.spread(&self.options.crew, tick);
        let mut is_open: Vec<bool> = self.states.iter().map(|state| state.changes > 0).collect();
        let mut loose: Loose = vec![];
        for &row in &far {
            tick();
            let best = self.best(row).first().copied();
            loose.push((row, best.map_or(0.0, |group| self.groups.cosine(group, row))));
            best.into_iter().for_each(|group| is_open[group] = true);
        }
        for (group, close) in spread.close.iter().enumerate().filter(|(group, _)| is_open[*group]) {
            let is_far = |own: f32| close.len() > 1 && spread.likelihood(group, own) < FAR;
            loose.extend(
                close
                    .iter()
                    .filter(|close| is_far(close.own))
                    .map(|close| (close.row, close.own)),
            );
        }
        loose.sort_unstable_by_key(|&(row, _)| row);
        let holds = |cosine: f64| spread.likelihood_of_other(cosine) >= FAR;
        let made = self.coherent(&loose, &holds, tick);
        let mut is_made = vec![false; self.groups.vectors.len()];
        made.iter().flatten().for_each(|&row| is_made[row as usize] = true);
        let left = far.into_iter().filter(|&row| !is_made[row as usize]).collect();
        if made.is_empty() {
            return left;
        }
        let mut rows = std::mem::take(&mut self.groups.rows);
        for (rows, state) in rows.iter_mut().zip(&mut self.states) {
            let before = rows.len();
            rows.retain(|&row| !is_made[row as usize]);
            state.changes += before - rows.len();
        }
        for group in made {
            self.states.push(State {
                changes: group.len(),
                ..Default::default()
            });
            rows.push(group);
        }
        self.set(rows, tick);
        left
    }

    /// Changed groups draw rows from others where these are four times less likely, and from which they are not far: at most so many, those first that come closest.
    pub fn draw(&mut self, count: usize, tick: &mut dyn FnMut()) {
        if count == 0 {
            return;
        }
        let spread = self.groups.spread(&self.options.crew, tick);
        let changed: Vec<usize> = (0..self.states.len())
            .filter(|&group| self.states[group].changes > 0 && self.groups.rows[group].len() > 1)
            .collect();
        let mut drawn: Vec<(f32, u32, usize, usize)> = vec![];
        for (from, close) in spread.close.iter().enumerate().filter(|(_, close)| close.len() > 1) {
            tick();
            for of in close {
                let own = spread.likelihood(from, of.own);
                if own > LESS {
                    continue;
                }
                let fits = |to: &&usize| {
                    let cosine = self.groups.cosine(**to, of.row);
                    **to != from && cosine > of.own && spread.likelihood(**to, cosine) * LESS > own.max(FAR)
                };
                let to = changed.iter().filter(fits).copied();
                let best = highest(to, FITTING, |to| self.groups.cosine(to, of.row));
                let with_room = best.iter().find(|&&to| self.groups.has_room(to, of.row));
                drawn.extend(
                    with_room
                        .or(best.first())
                        .map(|&to| (self.groups.cosine(to, of.row) - of.own, of.row, from, to)),
                );
            }
        }
        drawn.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for (_, row, from, to) in drawn.into_iter().take(count) {
            self.groups.go(row, from, to);
            self.states[from].changes += 1;
            self.states[to].changes += 1;
        }
    }

    /// Groups of two rows or more that are no farther from each other than rows elsewhere are; some rows may be in none.
    fn coherent(&self, loose: &Loose, holds: &dyn Fn(f64) -> bool, tick: &mut dyn FnMut()) -> Vec<Vec<u32>> {
        let Groups { vectors, sizes, .. } = self.groups;
        let mut open = vec![loose.clone()];
        let mut made = vec![];
        let mut members = self.options.limits.members;
        // Each time groups may hold half as many, until they hold together.
        while !open.is_empty() && members >= 2 {
            let mut next = vec![];
            for loose in open {
                if loose.len() < 2 {
                    continue;
                }
                let options = Options {
                    limits: Limits {
                        members: members.min(loose.len()),
                        ..self.options.limits
                    },
                    ..*self.options
                };
                let rows: Vec<u32> = loose.iter().map(|&(row, _)| row).collect();
                let of: Vec<u32> = rows.iter().map(|&row| sizes[row as usize]).collect();
                let local = of_rows(vectors, &rows, tick);
                let groups = owned(&clustered(&local, &of, &options, tick));
                let groups = Groups::new(&local, &of, &options.limits, groups, &options.crew, tick);
                for (at, group) in groups.rows.iter().enumerate() {
                    let close = |&row: &u32| f64::from(groups.cosine_without(at, row));
                    let mean = group.iter().map(close).sum::<f64>() / group.len().max(1) as f64;
                    let is_closer = |row: &&u32| groups.cosine_without(at, **row) > loose[**row as usize].1;
                    if holds(mean) {
                        let group = group.iter().filter(is_closer).map(|&row| rows[row as usize]);
                        made.push(group.collect());
                    } else if group.len() > 2 {
                        next.push(group.iter().map(|&row| loose[row as usize]).collect());
                    }
                }
            }
            let longest = next.iter().map(Vec::len).max().unwrap_or(0);
            members = members.min(longest).div_ceil(2);
            open = next;
        }
        made.retain(|group: &Vec<u32>| group.len() > 1);
        made
    }
}

//! Clustering parts anew that have drifted from what a clustering of their rows would be.

use super::{Keeping, owned};
use crate::bisect::bisect;
use crate::groups::Groups;
use crate::limits::{Cluster, Limits};
use crate::vectors::Vectors;

/// Groups of a part at most: first few, which little is written anew for, then many.
const PARTS: [usize; 2] = [4, 16];

/// The drift at which a part is clustered anew, for each unchanged group of it by each row that has come or gone; and the least.
const DRIFT: f64 = 0.02;
const LEAST: f64 = 0.01;

/// What fewer clusters are worth: so much of the share that is saved counts as closeness.
const FEWER: f64 = 0.1;

impl Keeping<'_> {
    /// Clusters anew the parts that have drifted: a few groups whose centres are near to each other, of which any has changed.
    ///
    /// On trial the rows of each such part are clustered by themselves. Its drift is the share by which they would be closer to the centres of the others of their
    /// clusters, in the mean, and a tenth of the share by which the clusters would be fewer. It is measured on what stands, so it adds up however many runs it comes in.
    /// The trial is taken where the drift is over 1 %, and over 2 % times the unchanged groups for each row that has come or gone now, so that what is written anew is in
    /// proportion to what has changed.
    pub fn renew(&mut self, tick: &mut dyn FnMut()) {
        if self.states.iter().all(|state| state.changes == 0) {
            return;
        }
        for size in PARTS {
            self.renew_parts(size, tick);
        }
    }

    fn renew_parts(&mut self, size: usize, tick: &mut dyn FnMut()) {
        let mut made: Vec<(Vec<usize>, Vec<Cluster>)> = vec![];
        for part in self.parts(size, tick) {
            let changes: usize = part.iter().map(|&group| self.states[group].changes).sum();
            if changes == 0 {
                continue;
            }
            let rows: Vec<u32> = part
                .iter()
                .flat_map(|&group| &self.groups.rows[group])
                .copied()
                .collect();
            let stands: f64 = part.iter().map(|&group| closeness(&self.groups, group)).sum();
            let count = part.len() as f64;
            let clusters = self.clustered(rows, tick);
            let Groups {
                vectors, sizes, limits, ..
            } = self.groups;
            let trial = Groups::new(vectors, sizes, limits, owned(&clusters), &self.options.crew, tick);
            let would: f64 = (0..trial.rows.len()).map(|group| closeness(&trial, group)).sum();
            let closer = if would > 0.0 { 1.0 - stands / would } else { 0.0 };
            let drift = closer + FEWER * (1.0 - clusters.len() as f64 / count);
            let more = part.iter().filter(|&&group| self.states[group].changes == 0).count();
            if drift > (DRIFT * more as f64 / changes as f64).max(LEAST) {
                made.push((part, clusters));
            }
        }
        self.replace(made, tick);
    }

    /// The groups in parts whose centres are near.
    fn parts(&self, size: usize, tick: &mut dyn FnMut()) -> Vec<Vec<usize>> {
        let groups: Vec<u32> = (0..self.groups.rows.len() as u32)
            .filter(|&group| !self.groups.rows[group as usize].is_empty())
            .collect();
        let data = groups
            .iter()
            .flat_map(|&group| self.groups.sum(group as usize))
            .copied();
        let centers = Vectors::new(self.groups.vectors.dim(), data.collect(), tick).expect("a sum is a row");
        let limits = Limits {
            tokens: u32::MAX,
            members: size,
        };
        let parts = bisect(
            &centers,
            &vec![1; groups.len()],
            &limits,
            self.options.seed,
            &self.options.crew,
            tick,
        );
        let part = |part: Vec<u32>| part.into_iter().map(|at| groups[at as usize] as usize).collect();
        owned(&parts).into_iter().map(part).collect()
    }
}

/// The sum of the cosines of a group's rows with the centre of the others.
fn closeness(groups: &Groups, group: usize) -> f64 {
    let close = |&row: &u32| f64::from(groups.cosine_without(group, row));
    groups.rows[group].iter().map(close).sum()
}

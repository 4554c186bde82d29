//! Groups that are not yet clusters: moving rows to better ones, filling up, and letting rows belong to several.

use crate::limits::Limits;
use crate::near::{Found, Near};
use crate::space::Space;
use crate::vectors::{Vectors, add, dot};
use graphrag_linear::{Crew, Pace};

/// Groups near to a group that its rows may move to or belong to.
const NEAR: usize = 16;

/// Groups that a row may go to after the first round, its own among them.
const CHOICES: usize = 6;

/// Groups in which a row that comes later may find room.
const FITTING: usize = 8;

/// What a move must gain, against rounding.
const LEAST_GAIN: f32 = 1e-5;

/// Rounds of moving rows at most.
const ROUNDS: usize = 10;

/// How close rows of two groups must be to each other for the groups to be one, relative to rows of the group that is less close.
const ALIKE: f32 = 0.8;

/// Rounds of putting groups together at most.
const UNITING: usize = 8;

/// Where fewer than one in so many rows have moved, the few that would move yet are left where they are.
const FEW: usize = 32;

/// Rows in groups, each row in one.
pub struct Groups<'a> {
    pub vectors: &'a Vectors,
    pub sizes: &'a [u32],
    pub limits: &'a Limits,
    pub rows: Vec<Vec<u32>>,
    pub tokens: Vec<u64>,
    /// Sums of the rows' vectors, and their squared lengths.
    sums: Vec<f32>,
    pub squares: Vec<f32>,
}

impl<'a> Groups<'a> {
    pub fn new(
        vectors: &'a Vectors,
        sizes: &'a [u32],
        limits: &'a Limits,
        rows: Vec<Vec<u32>>,
        crew: &Crew,
        tick: &mut dyn FnMut(),
    ) -> Self {
        let mut sums = vec![0.0; rows.len() * vectors.dim()];
        crew.share(
            tick,
            rows.iter().zip(sums.chunks_mut(vectors.dim())),
            || (),
            |(), (rows, sum), pace| {
                pace.step(rows.len() * vectors.dim())?;
                rows.iter().for_each(|&row| add(sum, vectors.row(row)));
                Ok(())
            },
        );
        let mut groups = Self {
            vectors,
            sizes,
            limits,
            tokens: rows
                .iter()
                .map(|rows| {
                    rows.iter()
                        .map(|&row| limits.counted(sizes.get(row as usize).copied().unwrap_or(0)))
                        .sum()
                })
                .collect(),
            squares: sums.chunks(vectors.dim()).map(|sum| dot(sum, sum)).collect(),
            rows,
            sums,
        };
        groups.rows.shrink_to_fit();
        groups
    }

    pub fn sum(&self, group: usize) -> &[f32] {
        &self.sums[group * self.vectors.dim()..][..self.vectors.dim()]
    }

    pub fn counted(&self, row: u32) -> u64 {
        self.limits.counted(self.sizes[row as usize])
    }

    pub fn has_room(&self, group: usize, row: u32) -> bool {
        self.limits
            .hold(self.rows[group].len() + 1, self.tokens[group] + self.counted(row))
    }

    /// What the length of a group's sum grows by when `row` joins it.
    pub fn gain(&self, group: usize, row: u32) -> f32 {
        let along = dot(self.sum(group), self.vectors.row(row));
        (self.squares[group] + 2.0 * along + 1.0).max(0.0).sqrt() - self.squares[group].sqrt()
    }

    /// What it shrinks by when `row`, a member, leaves it.
    fn loss(&self, group: usize, row: u32) -> f32 {
        let along = dot(self.sum(group), self.vectors.row(row));
        self.squares[group].sqrt() - (self.squares[group] - 2.0 * along + 1.0).max(0.0).sqrt()
    }

    /// The group, but for `but`, that gains most by `row`: of the few best, one that has room; where none has, the best if it need not have room.
    pub fn fitting(&self, row: u32, but: Option<usize>, must_have_room: bool) -> Option<usize> {
        let groups = (0..self.rows.len()).filter(|&group| Some(group) != but && !self.rows[group].is_empty());
        let best = highest(groups.map(|group| group as u32), FITTING, |group| {
            self.gain(group as usize, row)
        });
        let with_room = best.iter().find(|&&group| self.has_room(group as usize, row));
        let found = with_room.or(best.first().filter(|_| !must_have_room));
        found.map(|&group| group as usize)
    }

    /// Adds a row that is in no group.
    pub fn join(&mut self, row: u32, to: usize) {
        self.tokens[to] += self.counted(row);
        self.rows[to].push(row);
        let dim = self.vectors.dim();
        add(&mut self.sums[to * dim..][..dim], self.vectors.row(row));
        self.squares[to] = dot(self.sum(to), self.sum(to));
    }

    /// Moves `row` to another group, at the end of its rows.
    pub fn go(&mut self, row: u32, from: usize, to: usize) {
        let size = self.counted(row);
        self.rows[from].retain(|&other| other != row);
        self.rows[to].push(row);
        self.tokens[from] -= size;
        self.tokens[to] += size;
        let (vectors, dim) = (self.vectors, self.vectors.dim());
        let values = vectors.row(row);
        self.sums[from * dim..][..dim]
            .iter_mut()
            .zip(values)
            .for_each(|(sum, x)| *sum -= x);
        self.sums[to * dim..][..dim]
            .iter_mut()
            .zip(values)
            .for_each(|(sum, x)| *sum += x);
        for group in [from, to] {
            self.squares[group] = dot(self.sum(group), self.sum(group));
        }
    }

    /// An index of the groups' centres.
    pub fn listed(&self, space: &Space, seed: u64, tick: &mut dyn FnMut()) -> Near {
        let center = |group| {
            tick();
            space.project(self.sum(group))
        };
        let centers: Vec<Vec<f32>> = (0..self.rows.len()).map(center).collect();
        Near::new(&centers, seed, tick)
    }

    /// For each group, those whose centres are nearest, without itself; of many rows' groups those that are nearest in the space.
    pub fn near(&self, space: Option<&Space>, crew: &Crew, tick: &mut dyn FnMut()) -> Vec<Vec<u32>> {
        let lists = match space {
            Some(space) => self.listed(space, 0, tick),
            None => Near::all(self.rows.len(), |group| self.center(group)),
        };
        let mut near = vec![vec![]; self.rows.len()];
        crew.share(
            tick,
            near.iter_mut().enumerate(),
            Found::default,
            |found, (group, near), pace| {
                let row = space.map_or_else(|| self.center(group), |space| space.project(self.sum(group)));
                pace.step(lists.work(row.len()))?;
                let best = lists.best(&row, NEAR + 1, found).iter().map(|&(_, other)| other);
                near.extend(best.filter(|&other| other as usize != group).take(NEAR));
                Ok(())
            },
        );
        near
    }

    /// The sum at unit length.
    fn center(&self, group: usize) -> Vec<f32> {
        let scale = match self.squares[group] > 0.0 {
            true => self.squares[group].sqrt().recip(),
            false => 0.0,
        };
        self.sum(group).iter().map(|x| x * scale).collect()
    }

    /// Puts groups together that were cut apart: those with room for each other whose rows are nearly as close to the other's as to their own.
    ///
    /// The closest pairs first, each group once a round, until none is left.
    pub fn unite(&mut self, mut near: Vec<Vec<u32>>, tick: &mut dyn FnMut()) {
        for _ in 0..UNITING {
            // The mean cosine of two different rows of a group.
            let within: Vec<f32> = self
                .rows
                .iter()
                .zip(&self.squares)
                .map(|(rows, square)| {
                    let count = rows.len() as f32;
                    if count > 1.0 {
                        (square - count) / (count * (count - 1.0))
                    } else {
                        f32::INFINITY
                    }
                })
                .collect();
            let mut pairs: Vec<(f32, usize, usize)> = vec![];
            for (one, near) in near.iter().enumerate() {
                tick();
                for other in near
                    .iter()
                    .map(|&other| other as usize)
                    .filter(|&other| other > one || !near.contains(&(one as u32)))
                {
                    let (a, b) = (one.min(other), one.max(other));
                    let (many, more) = (self.rows[a].len(), self.rows[b].len());
                    if many == 0 || more == 0 || !self.limits.hold(many + more, self.tokens[a] + self.tokens[b]) {
                        continue;
                    }
                    let between = dot(self.sum(a), self.sum(b)) / (many * more) as f32;
                    let own = within[a].min(within[b]);
                    if own.is_finite() && own > 0.0 && between >= ALIKE * own {
                        pairs.push((between / own, a, b));
                    }
                }
            }
            pairs.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
            let mut taken = vec![false; self.rows.len()];
            let mut united = 0;
            for (_, a, b) in pairs {
                if !taken[a] && !taken[b] {
                    (taken[a], taken[b]) = (true, true);
                    self.absorb(a, b);
                    let more = std::mem::take(&mut near[b]);
                    near[a].extend(more);
                    near[a].retain(|&other| other as usize != a);
                    near[a].sort_unstable();
                    near[a].dedup();
                    united += 1;
                }
            }
            if united == 0 {
                break;
            }
        }
    }

    /// Moves all rows of `from` to `to`.
    fn absorb(&mut self, to: usize, from: usize) {
        let rows = std::mem::take(&mut self.rows[from]);
        self.rows[to].extend(rows);
        self.tokens[to] += std::mem::take(&mut self.tokens[from]);
        let dim = self.vectors.dim();
        let sum = self.sum(from).to_vec();
        self.sums[from * dim..][..dim].fill(0.0);
        add(&mut self.sums[to * dim..][..dim], &sum);
        self.squares[from] = 0.0;
        self.squares[to] = dot(self.sum(to), self.sum(to));
    }

    /// Moves rows, as long as that brings them closer to the centres of their groups in sum, to groups that have room. No group of two or more loses its second row.
    ///
    /// The first round looks at all near groups of each row, the others at those few that were best then.
    /// Answers the near groups that it has looked at. Source: the exchange rule of Hartigan (1975), for directions.
    pub fn refine(&mut self, space: Option<&Space>, crew: &Crew, tick: &mut dyn FnMut()) -> Vec<Vec<u32>> {
        let near = self.near(space, crew, tick);
        let mut choices: Vec<[u32; CHOICES]> = Vec::new();
        for _ in 0..ROUNDS {
            let wishes = self.wishes(&near, &mut choices, crew, tick);
            let mut moved = 0;
            for (i, Wish { row, from, to, .. }) in wishes.into_iter().enumerate() {
                if i.is_multiple_of(256) {
                    tick();
                }
                let (from, to) = (from as usize, to as usize);
                // Others have moved since.
                if self.rows[from].len() > 2 && self.has_room(to, row) && self.gain(to, row) > self.loss(from, row) {
                    self.go(row, from, to);
                    moved += 1;
                }
            }
            if moved * FEW < self.vectors.len() {
                break;
            }
        }
        near
    }

    /// Where rows would rather be, those that gain most first. Fills `choices`, by row, if it is empty.
    fn wishes(
        &self,
        near: &[Vec<u32>],
        choices: &mut Vec<[u32; CHOICES]>,
        crew: &Crew,
        tick: &mut dyn FnMut(),
    ) -> Vec<Wish> {
        let first = choices.is_empty();
        let mut found: Vec<(Vec<Wish>, Vec<[u32; CHOICES]>)> = vec![Default::default(); self.rows.len()];
        let known = &*choices;
        let work = |group: usize, found: &mut (Vec<Wish>, Vec<[u32; CHOICES]>), pace: &mut Pace| {
            for &row in &self.rows[group] {
                let of_row = match first {
                    true => {
                        pace.step(near[group].len() * self.vectors.dim())?;
                        let best = highest(near[group].iter().copied(), CHOICES - 1, |to| {
                            self.gain(to as usize, row)
                        });
                        // The row's own group fills the places that are left.
                        let mut of_row = [group as u32; CHOICES];
                        of_row[..best.len()].copy_from_slice(&best);
                        found.1.push(of_row);
                        of_row
                    }
                    false => known[row as usize],
                };
                pace.step(CHOICES * self.vectors.dim())?;
                if self.rows[group].len() <= 2 {
                    continue;
                }
                let others = of_row
                    .into_iter()
                    .filter(|&to| to as usize != group && self.has_room(to as usize, row));
                let gains = others.map(|to| (self.gain(to as usize, row), to));
                let best = gains.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
                if let Some((gain, to)) = best.map(|(gain, to)| (gain - self.loss(group, row), to))
                    && gain > LEAST_GAIN
                {
                    found.0.push(Wish {
                        gain,
                        row,
                        from: group as u32,
                        to,
                    });
                }
            }
            Ok(())
        };
        crew.share(
            tick,
            found.iter_mut().enumerate(),
            || (),
            |(), (group, found), pace| work(group, found, pace),
        );
        if first {
            choices.resize(self.vectors.len(), [0; CHOICES]);
            for (rows, (_, of_rows)) in self.rows.iter().zip(&found) {
                rows.iter()
                    .zip(of_rows)
                    .for_each(|(&row, of_row)| choices[row as usize] = *of_row);
            }
        }
        let mut wishes: Vec<Wish> = found.into_iter().flat_map(|found| found.0).collect();
        wishes.sort_unstable_by(|a, b| b.gain.total_cmp(&a.gain).then(a.row.cmp(&b.row)));
        wishes
    }
}

/// A row that would rather be in another group, and what that gains.
#[derive(Clone, Copy)]
struct Wish {
    gain: f32,
    row: u32,
    from: u32,
    to: u32,
}

/// The `count` of `items` with the highest scores, best first, ties by number.
fn highest(items: impl Iterator<Item = u32>, count: usize, score: impl Fn(u32) -> f32) -> Vec<u32> {
    let mut best: Vec<(f32, u32)> = items.map(|item| (score(item), item)).collect();
    let order = |a: &(f32, u32), b: &(f32, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
    if best.len() > count {
        best.select_nth_unstable_by(count, order);
        best.truncate(count);
    }
    best.sort_unstable_by(order);
    best.into_iter().map(|(_, item)| item).collect()
}

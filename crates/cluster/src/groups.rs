//! Groups that are not yet clusters: moving rows to better ones, filling up, and letting rows belong to several.

use crate::limits::Limits;
use crate::vectors::{Vectors, add, dot};
use graphrag_linear::{Crew, Pace};
use std::ops::Range;

/// Groups near to a group that its rows may move to or belong to.
const NEAR: usize = 16;

/// More groups than this are compared only with those of near cells.
const ALL: usize = 768;

/// Cells whose groups are compared, the group's own among them.
const NEAR_CELLS: usize = 5;

/// Groups that a row may go to after the first round, its own among them.
const CHOICES: usize = 6;

/// Groups in which a row that comes later may find room.
const FITTING: usize = 8;

/// How much more a row must be worth to another group than to its own, for its own to have drifted.
const CLEARLY: f32 = 1.1;

/// What a move must gain, against rounding.
const LEAST_GAIN: f32 = 1e-5;

/// Rounds of moving rows at most.
const ROUNDS: usize = 10;

/// Rows in groups, each row in one.
pub struct Groups<'a> {
    pub vectors: &'a Vectors,
    pub sizes: &'a [u32],
    pub limits: &'a Limits,
    pub rows: Vec<Vec<u32>>,
    /// The groups of each cell are one after another.
    pub cells: Vec<Range<usize>>,
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
        cells: Vec<Vec<Vec<u32>>>,
        crew: &Crew,
        tick: &mut dyn FnMut(),
    ) -> Self {
        let mut start = 0;
        let ranges = cells
            .iter()
            .map(|cell| {
                start += cell.len();
                start - cell.len()..start
            })
            .collect();
        let rows = cells.concat();
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
                .map(|rows| rows.iter().map(|&row| limits.counted(sizes[row as usize])).sum())
                .collect(),
            squares: sums.chunks(vectors.dim()).map(|sum| dot(sum, sum)).collect(),
            rows,
            cells: ranges,
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

    /// The `count - 1` groups nearest to `group`, whose rows are `rows`, if as large a share of those as `drift` would clearly rather be in one of the near groups that have room;
    /// nothing of a group of a few rows.
    pub fn drifted(&self, group: usize, rows: &[u32], drift: f32, count: usize, tick: &mut dyn FnMut()) -> Vec<usize> {
        tick();
        if rows.len() < count {
            return vec![];
        }
        let scale = |square: f32| if square > 0.0 { square.sqrt().recip() } else { 0.0 };
        // Those that were made meanwhile have no sums.
        let others = (0..self.squares.len()).filter(|&other| other != group && !self.rows[other].is_empty());
        let near = highest(others.map(|other| other as u32), NEAR, |other| {
            dot(self.sum(group), self.sum(other as usize)) * scale(self.squares[other as usize])
        });
        let moves = |row: &&u32| {
            let loss = self.loss(group, **row);
            let mut rooms = near
                .iter()
                .map(|&to| to as usize)
                .filter(|&to| self.has_room(to, **row));
            rooms.any(|to| self.gain(to, **row) > CLEARLY * loss)
        };
        let moving = rows.iter().filter(moves).count();
        tick();
        match moving as f32 >= drift * rows.len() as f32 {
            true => near.into_iter().take(count - 1).map(|other| other as usize).collect(),
            false => vec![],
        }
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

    /// For each group, those whose centres are nearest, without itself.
    pub fn near(&self, crew: &Crew, tick: &mut dyn FnMut()) -> Vec<Vec<u32>> {
        let dim = self.vectors.dim();
        let scale = |square: f32| if square > 0.0 { square.sqrt().recip() } else { 0.0 };
        let of_cells: Vec<Vec<u32>> = if self.rows.len() <= ALL {
            vec![(0..self.cells.len() as u32).collect(); self.cells.len()]
        } else {
            let mut sums = vec![vec![0.0; dim]; self.cells.len()];
            for (sum, cell) in sums.iter_mut().zip(&self.cells) {
                tick();
                cell.clone().for_each(|group| add(sum, self.sum(group)));
            }
            let scales: Vec<f32> = sums.iter().map(|sum| scale(dot(sum, sum))).collect();
            let mut near = vec![vec![]; self.cells.len()];
            crew.share(
                tick,
                near.iter_mut().enumerate(),
                || (),
                |(), (cell, near), pace| {
                    pace.step(sums.len() * dim)?;
                    // The cell itself comes first, whatever the sums' lengths.
                    let score = |other: usize| match other == cell {
                        true => f32::INFINITY,
                        false => dot(&sums[cell], &sums[other]) * scales[other],
                    };
                    *near = highest(0..sums.len() as u32, NEAR_CELLS, |other| score(other as usize));
                    Ok(())
                },
            );
            near
        };
        let mut near = vec![vec![]; self.rows.len()];
        let mut rest = &mut near[..];
        let mut tasks = Vec::new();
        for (cell, of_cell) in self.cells.iter().zip(&of_cells) {
            let (head, tail) = rest.split_at_mut(cell.len());
            rest = tail;
            tasks.extend(
                head.iter_mut()
                    .zip(cell.clone())
                    .map(|(near, group)| (near, group, of_cell)),
            );
        }
        crew.share(
            tick,
            tasks.into_iter(),
            || (),
            |(), (near, group, cells), pace| {
                let others = || cells.iter().flat_map(|&cell| self.cells[cell as usize].clone());
                pace.step(others().count() * dim)?;
                *near = highest(
                    others().filter(|&other| other != group).map(|group| group as u32),
                    NEAR,
                    |other| dot(self.sum(group), self.sum(other as usize)) * scale(self.squares[other as usize]),
                );
                Ok(())
            },
        );
        near
    }

    /// Moves rows, as long as that brings them closer to the centres of their groups in sum, to groups that have room. No group of two or more loses its second row.
    ///
    /// The first round looks at all near groups of each row, the others at those few that were best then.
    /// Source: the exchange rule of Hartigan (1975), for directions.
    pub fn refine(&mut self, crew: &Crew, tick: &mut dyn FnMut()) {
        let near = self.near(crew, tick);
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
            if moved * 200 < self.vectors.len() {
                break;
            }
        }
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

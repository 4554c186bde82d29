//! Groups that are not yet clusters: moving rows to better ones, filling up, and letting rows belong to several.

use crate::limits::Limits;
use crate::vectors::{Vectors, add, dot};
use graphrag_linear::Crew;
use std::ops::Range;

/// Groups near to a group that its rows may move to or belong to.
const NEAR: usize = 12;

/// More groups than this are compared only with those of near cells.
const ALL: usize = 768;

/// Cells whose groups are compared, the group's own among them.
const NEAR_CELLS: usize = 5;

/// Rounds of moving rows at most.
const ROUNDS: usize = 4;

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
    /// Source: the exchange rule of Hartigan (1975), for directions.
    pub fn refine(&mut self, crew: &Crew, tick: &mut dyn FnMut()) {
        let near = self.near(crew, tick);
        for _ in 0..ROUNDS {
            let mut wishes: Vec<Vec<(f32, u32, u32)>> = vec![vec![]; self.rows.len()];
            let (groups, dim) = (&*self, self.vectors.dim());
            crew.share(
                tick,
                wishes.iter_mut().enumerate(),
                || (),
                |(), (group, wishes), pace| {
                    if groups.rows[group].len() <= 2 {
                        return Ok(());
                    }
                    for &row in &groups.rows[group] {
                        pace.step(near[group].len() * dim)?;
                        let loss = groups.loss(group, row);
                        let best = near[group].iter().filter(|&&to| groups.has_room(to as usize, row));
                        let best = best.map(|&to| (groups.gain(to as usize, row) - loss, to));
                        let best = best.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
                        wishes.extend(best.filter(|best| best.0 > 1e-5).map(|(gain, to)| (gain, row, to)));
                    }
                    Ok(())
                },
            );
            let mut wishes: Vec<(f32, u32, u32, u32)> = wishes
                .into_iter()
                .enumerate()
                .flat_map(|(from, wishes)| {
                    wishes
                        .into_iter()
                        .map(move |(gain, row, to)| (gain, row, from as u32, to))
                })
                .collect();
            wishes.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            let mut moved = 0;
            for (i, (_, row, from, to)) in wishes.into_iter().enumerate() {
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

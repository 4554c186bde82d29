//! Graph algorithms on plain numbers, without Postgres: a weighted undirected [`Graph`] in compressed form, its connected components,
//! and the modularity of a partition.
#![forbid(unsafe_code)]

pub mod components;
pub mod graph;
pub mod hierarchy;
pub mod leiden;
pub mod propagation;
pub mod quality;
mod random;
pub mod walk;

pub use components::components;
pub use graph::{EdgeError, Graph, bytes_needed};
pub use hierarchy::{Before, Community, hierarchy, labels_at};
pub use leiden::{Objective, leiden};
pub use propagation::label_propagation;
pub use quality::modularity;
pub use walk::{Limits, Walked, walk};

/// Calls `tick` each time that a fixed amount of work has been done.
struct Pace<'a> {
    tick: &'a mut dyn FnMut(),
    work: usize,
}

impl<'a> Pace<'a> {
    /// Edges or nodes looked at between two calls, about a millisecond of work.
    const WORK_PER_TICK: usize = 1 << 16;

    fn new(tick: &'a mut dyn FnMut()) -> Self {
        Self { tick, work: 0 }
    }

    fn step(&mut self, work: usize) {
        self.work += work;
        if self.work >= Self::WORK_PER_TICK {
            self.work = 0;
            (self.tick)();
        }
    }
}

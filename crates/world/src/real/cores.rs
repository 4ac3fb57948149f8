//! The cores that threads run on: a shard has one of its own, what it leaves to the thread pool may use all of them.
//!
//! Limit: the polling driver starts threads of the pool for its own reads and writes, too; such a thread stays
//! on the core of its shard until it is given other work.

use std::cell::Cell;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A set of cores.
#[derive(Clone, Copy)]
pub(super) struct Cores(CpuSet);

impl Cores {
    /// Those that the current thread may use; `None` if the system does not say.
    pub fn allowed() -> Option<Cores> {
        sched_getaffinity(None).ok().map(Cores)
    }

    /// The `index`-th of them, counted around.
    pub fn one(&self, index: usize) -> Option<Cores> {
        let cores: Vec<usize> = self.numbers().collect();
        let core = cores.get(index % cores.len().max(1))?;
        let mut one = CpuSet::new();
        one.set(*core);
        Some(Cores(one))
    }

    /// Numbers of the cores, ascending.
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        (0..CpuSet::MAX_CPU).filter(|core| self.0.is_set(*core))
    }

    /// Binds the current thread to these cores. A system that refuses costs speed only.
    pub fn bind_thread(&self) {
        let _ = sched_setaffinity(None, &self.0);
    }

    /// As [`Self::bind_thread`], once for each thread: one that a shard has started was bound to the shard's core.
    pub fn release_thread(&self) {
        thread_local!(static RELEASED: Cell<bool> = const { Cell::new(false) });
        if !RELEASED.replace(true) {
            self.bind_thread();
        }
    }
}

//! The cores that threads run on: a shard has one of its own, what it leaves to the thread pool may use all of them.
//!
//! Shards are bound only if there is one for each allowed core. A quota of processor time limits the shards and
//! leaves every core allowed: two such containers would bind their shards to the same first cores.
//!
//! Limit: the polling driver starts threads of the pool for its own reads and writes, too; such a thread stays
//! on the core of its shard until it is given other work.

use std::cell::Cell;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Set of processor cores.
#[derive(Clone, Copy)]
pub(super) struct Cores(CpuSet);

impl<const N: usize> From<[usize; N]> for Cores {
    fn from(numbers: [usize; N]) -> Cores {
        let mut set = CpuSet::new();
        numbers.into_iter().for_each(|core| set.set(core));
        Cores(set)
    }
}

impl Cores {
    /// Cores that the current thread may use; `None` if the system does not say.
    pub fn allowed() -> Option<Cores> {
        sched_getaffinity(None).ok().map(Cores)
    }

    /// Core of shard `index` of `shards`; `None` if the scheduler chooses.
    pub fn of_shard(&self, index: usize, shards: usize) -> Option<Cores> {
        if self.numbers().count() != shards {
            return None;
        }
        self.numbers().nth(index).map(|core| Cores::from([core]))
    }

    /// Numbers of the cores, ascending.
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        (0..CpuSet::MAX_CPU).filter(|core| self.0.is_set(*core))
    }

    /// Binds the current thread to these cores. False if the system refuses, which only costs speed.
    pub fn bind_thread(&self) -> bool {
        sched_setaffinity(None, &self.0).is_ok()
    }

    /// Binds the current thread to these cores once; a thread that a shard started is bound to the shard's core at
    /// first.
    pub fn release_thread(&self) {
        thread_local!(static RELEASED: Cell<bool> = const { Cell::new(false) });
        if !RELEASED.replace(true) {
            let _ = self.bind_thread();
        }
    }
}

//! The cores that threads run on: a shard has one of its own, what it leaves to the thread pool may use all of them.
//!
//! Limit: the polling driver starts threads of the pool for its own reads and writes, too; such a thread stays
//! on the core of its shard until it is given other work.

use std::cell::Cell;

/// A set of cores.
#[derive(Clone, Copy)]
pub(super) struct Cores(libc::cpu_set_t);

impl Cores {
    /// Those that the current thread may use; `None` if the system does not say.
    pub fn allowed() -> Option<Cores> {
        // SAFETY: `cpu_set_t` is plain data for which all zeros is the empty set, and the call gets its true size.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            (libc::sched_getaffinity(0, size_of_val(&set), &mut set) == 0).then_some(Cores(set))
        }
    }

    /// The `index`-th of them, counted around.
    pub fn one(&self, index: usize) -> Option<Cores> {
        let cores: Vec<usize> = self.numbers().collect();
        let core = cores.get(index % cores.len().max(1))?;
        // SAFETY: as above; the number is one that a set can hold.
        unsafe {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(*core, &mut one);
            Some(Cores(one))
        }
    }

    /// Numbers of the cores, ascending.
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        // SAFETY: the number is below CPU_SETSIZE.
        (0..libc::CPU_SETSIZE as usize).filter(|core| unsafe { libc::CPU_ISSET(*core, &self.0) })
    }

    /// Binds the current thread to these cores. A system that refuses costs speed only.
    pub fn bind_thread(&self) {
        // SAFETY: the call gets the true size of the set.
        unsafe { libc::sched_setaffinity(0, size_of_val(&self.0), &self.0) };
    }

    /// As [`Self::bind_thread`], once for each thread: one that a shard has started was bound to the shard's core.
    pub fn release_thread(&self) {
        thread_local!(static RELEASED: Cell<bool> = const { Cell::new(false) });
        if !RELEASED.replace(true) {
            self.bind_thread();
        }
    }
}

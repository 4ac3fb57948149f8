//! The real world: files on real disks through completion-based I/O (io_uring, or polling where io_uring is refused).
//!
//! Purpose: implement [`Host`](crate::Host) with compio. [`run`] makes a runtime on the current thread; every shard is
//! a thread, pinned to a core, with a runtime of its own.
//!
//! Invariants
//! 1. A buffer given to the kernel stays allocated until the kernel has let go of it: an operation whose future is
//!    dropped is kept and finished, and a runtime ends only after its last operation has.
//! 2. Files are opened unbuffered (`O_DIRECT`) unless [`RealConfig::direct`] says otherwise; there is no silent
//!    fallback.
//! 3. A panic on any thread of a run, in any task, becomes a panic of [`run`]; no thread outlives [`run`].
//! 4. A file is opened only when no other process has it open for writing and the last I/O of one that was killed has
//!    ended.
//! 5. When the main future ends, the run ends: tasks and shards that have not finished are dropped.
//!
//! Limits: Linux. Thread-pool operations (open, rename, list, ...) are not meant for the measured path.
#![allow(clippy::disallowed_methods, reason = "this module is where the operating system's API is wrapped")]

mod cores;
mod failure;
mod file;
mod hold;
mod host;
mod lock;
mod modes;
pub mod names;
mod net;
mod ops;
mod passage;
mod pulse;
mod shard;
mod shared;
mod transfer;
mod usage;

use std::future::Future;

pub use failure::failed;
pub use shared::{Driver, RealConfig};

use crate::{Result, World};

/// Runs `main` on the current thread with a [`World`] on this machine.
///
/// # Errors
/// When no runtime can be made, for example because io_uring was demanded and is refused. When the monotonic
/// clock jumps: timers would end too early, or wait for that much longer, so the run ends at once, as if the
/// program had been killed.
///
/// # Panics
/// When `main`, a spawned task or a shard panics.
pub fn run<T, F>(config: RealConfig, main: impl FnOnce(World) -> F) -> Result<T>
where
    F: Future<Output = T>,
{
    shard::run(config, main)
}

/// Tests whether this process may use io_uring; an error has the system's text. A sandbox may refuse it although the
/// kernel supports it.
pub fn try_io_uring() -> std::result::Result<(), String> {
    shard::try_io_uring().map_err(|cause| cause.to_string())
}

#[cfg(test)]
mod tests;

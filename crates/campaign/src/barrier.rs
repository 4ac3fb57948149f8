//! Keeps the campaigns of several hosts in step: published servers on shared storage were loaded at the same time.
//!
//! Invariant: the hosts of a barrier carry out the same tests, so they come to the same points in the same
//! order. A host that ends early leaves, and the others do not wait for it.

use std::future::ready;

use world::LocalFuture;

/// Barrier between hosts: before each test, when the caches are filled, and before a load ends.
pub trait Barrier {
    /// Waits until every host of the barrier has reached the same point, or no host is waited for any more. In that
    /// case the [`Watcher`](crate::progress::Watcher) says whether the run is to end.
    fn arrive(&self) -> LocalFuture<'static, ()>;
}

/// Barrier of a host that runs alone: it never waits.
pub struct Alone;

impl Barrier for Alone {
    fn arrive(&self) -> LocalFuture<'static, ()> {
        Box::pin(ready(()))
    }
}

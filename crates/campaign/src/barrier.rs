//! Keeps the campaigns of several hosts in step: published servers on shared storage were loaded at the same time.
//!
//! Invariant: the hosts of a barrier carry out the same tests, so they come to the same points in the same
//! order. A host that ends early leaves, and the others do not wait for it.

use std::future::ready;

use world::LocalFuture;

/// Where hosts wait for each other: before each test, when the caches are filled, and before a load is ended.
pub trait Barrier {
    /// Completes when every host of the barrier has come to the same point, or when nobody is waited for any
    /// more: then the [`Watcher`](crate::progress::Watcher) says whether the run is to end.
    fn arrive(&self) -> LocalFuture<'static, ()>;
}

/// A host that runs alone.
pub struct Alone;

impl Barrier for Alone {
    fn arrive(&self) -> LocalFuture<'static, ()> {
        Box::pin(ready(()))
    }
}

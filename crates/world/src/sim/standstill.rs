//! Hosts that stand still for a while: their process is stopped, or the whole host is suspended.
//!
//! Invariants
//! 1. No task of a host that stands still runs. I/O that was issued before completes, and the network delivers.
//! 2. The monotonic clock of a host stands still in a suspend, and in nothing else. The boot time never does.

use std::cell::Cell;

use super::Simulation;
use super::death::Life;
use crate::Time;

/// Suspended times of a host, during which its monotonic clock stood still.
#[derive(Default)]
pub(super) struct Suspends {
    over_ns: Cell<u64>,
    /// Start of the current suspend; `None` if the host runs.
    since: Cell<Option<Time>>,
}

impl Suspends {
    /// Reading of the monotonic clock of a host that was started at `started`.
    pub fn monotonic(&self, now: Time, started: Time) -> Time {
        let now = self.since.get().map_or(now, |since| now.min(since));
        Time { ns: now.ns - started.ns - self.over_ns.get() }
    }

    /// Virtual time at which the monotonic clock reads `at`, without further suspends.
    pub fn virtual_time(&self, at: Time, started: Time) -> Time {
        Time { ns: at.ns.saturating_add(started.ns).saturating_add(self.over_ns.get()) }
    }

    fn end(&self, now: Time) {
        if let Some(since) = self.since.take() {
            self.over_ns.set(self.over_ns.get() + now.ns - since.ns);
        }
    }
}

impl Simulation {
    /// Stops the process of a host, as SIGSTOP does, until [`Self::resume`]. Its clocks go on.
    ///
    /// # Panics
    /// If there is no such host, or it does not run.
    pub fn stop(&self, host: &str) {
        let id = self.known_host(host);
        let is_running = self.core.hosts.borrow()[id as usize].life == Life::Running;
        assert!(is_running, "no process runs on {host}");
        self.core.executor.stop(id);
    }

    /// Suspends a host until [`Self::resume`]: its process stops, and its monotonic clock stands still.
    ///
    /// # Panics
    /// If there is no such host, or it does not run.
    pub fn suspend(&self, host: &str) {
        self.stop(host);
        let id = self.known_host(host);
        self.core.hosts.borrow()[id as usize].suspends.since.set(Some(self.now()));
    }

    /// Resumes a host after [`Self::stop`] or [`Self::suspend`].
    ///
    /// # Panics
    /// If there is no such host.
    pub fn resume(&self, host: &str) {
        let id = self.known_host(host);
        self.core.hosts.borrow()[id as usize].suspends.end(self.now());
        self.core.executor.go_on(id);
    }
}

//! Time as the host sees it: monotonic nanoseconds since it started.

use std::ops::{Add, Sub};
pub use std::time::Duration;

/// A point in monotonic time: nanoseconds since the host started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Time {
    /// Nanoseconds since the host started.
    pub ns: u64,
}

/// Calendar time in UTC; for showing and for file headers only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct WallClock {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub unix_ms: i64,
}

impl Time {
    /// Time passed since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.ns.saturating_sub(earlier.ns))
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, duration: Duration) -> Time {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Time { ns: self.ns.saturating_add(ns) }
    }
}

impl Sub<Time> for Time {
    type Output = Duration;
    fn sub(self, earlier: Time) -> Duration {
        self.since(earlier)
    }
}

//! Time as the host sees it: monotonic nanoseconds since it started.

use std::fmt;
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

/// Longest time without running that is no lapse. On busy hosts threads wait for less.
pub const LAPSE_MIN: Duration = Duration::from_secs(2);

/// Lapse: time in which the program did not run, or a clock jumped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lapse {
    /// Kind of the lapse.
    pub kind: LapseKind,
    /// Time for which the program did not run, or size of the clock's jump.
    pub length: Duration,
}

/// Kind of a lapse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LapseKind {
    /// The program was stopped or got no processor, for longer than [`LAPSE_MIN`].
    Stopped,
    /// The whole host was suspended; the monotonic clock stood still.
    Suspended,
    /// The monotonic clock jumped ahead.
    ClockAhead,
    /// The monotonic clock went back.
    ClockBack,
    /// The wall clock alone was set ahead.
    WallAhead,
    /// The wall clock alone was set back.
    WallBack,
}

impl fmt::Display for Lapse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.length.as_secs_f64();
        match self.kind {
            LapseKind::Stopped => {
                write!(f, "the program did not run for {seconds:.1} s: it was stopped or got no processor")
            }
            LapseKind::Suspended => write!(f, "the host was suspended for {seconds:.1} s"),
            LapseKind::ClockAhead => {
                write!(f, "the host's monotonic clock jumped ahead by {seconds:.1} s")
            }
            LapseKind::ClockBack => write!(f, "the host's monotonic clock went back by {seconds:.1} s"),
            LapseKind::WallAhead => {
                write!(f, "the wall clock was set ahead by {seconds:.1} s; nothing is measured with it")
            }
            LapseKind::WallBack => {
                write!(f, "the wall clock was set back by {seconds:.1} s; nothing is measured with it")
            }
        }
    }
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

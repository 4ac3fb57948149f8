//! Where the tests of a host, on their own threads, meet the agent, which speaks with the controller.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::clock::{Reading, drift_ns};
use crate::message::Point;

/// Agent's clock: ns since its process created it.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Instant);

impl Clock {
    /// Starts the clock.
    #[expect(clippy::new_without_default, reason = "a clock that starts now is not a default value")]
    pub fn new() -> Clock {
        Clock(Instant::now())
    }

    /// Nanoseconds since the start.
    pub fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// Progress of a running test.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostProgress {
    /// Text for people.
    pub text: String,
    /// Finished share of the campaign.
    pub done: f64,
    /// Transactional I/O per second.
    pub iops: f64,
    /// Mean transactional read latency of the test so far, ms.
    pub read_latency_ms: f64,
    /// Mean log write latency of the test so far, ms.
    pub log_write_latency_ms: f64,
    /// Barrier at which the test waits for the other hosts.
    pub waiting_at: Option<Point>,
}

#[derive(Debug, Default)]
struct ControlState {
    progress: HostProgress,
    released: Option<(Point, u64)>,
    stop: Option<String>,
    alone: bool,
    left: Vec<String>,
    calendar: Option<Calendar>,
}

/// Agent's knowledge of the controller's calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calendar {
    /// Host's calendar minus the controller's, ns.
    pub offset_ns: i64,
    /// Largest error of that difference, ns.
    pub uncertainty_ns: u64,
    /// Time of the knowledge by the agent's clock, ns.
    pub known_at_ns: u64,
    /// Controller's calendar at that time, ns.
    pub controller_unix_ns: u64,
}

/// Shared state of agent and tests: barriers and the stop request for the tests, progress for the agent.
#[derive(Debug, Clone)]
pub struct RunControl {
    clock: Clock,
    state: Arc<Mutex<ControlState>>,
}

impl RunControl {
    /// Creates the state without a released barrier.
    pub fn new(clock: Clock) -> RunControl {
        RunControl { clock, state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, ControlState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a host waits at this barrier. Returns the remaining time once it is known; call again until it is
    /// zero.
    pub fn wait_at(&self, point: Point) -> Option<Duration> {
        let mut state = self.state();
        let left = state.released.and_then(|(released, at_ns)| {
            let later_ns = if released > point { 0 } else { at_ns.saturating_sub(self.clock.now_ns()) };
            (released >= point).then(|| Duration::from_nanos(later_ns))
        });
        state.progress.waiting_at = if left == Some(Duration::ZERO) { None } else { Some(point) };
        left
    }

    /// Reason why the tests are to end; `None` if they are not.
    pub fn stop_asked(&self) -> Option<String> {
        self.state().stop.clone()
    }

    /// Whether the tests go on without the controller.
    pub fn is_alone(&self) -> bool {
        self.state().alone
    }

    /// Hosts that have left the run.
    pub fn left(&self) -> Vec<String> {
        self.state().left.clone()
    }

    /// Last known difference between the host's calendar and the controller's.
    pub fn calendar(&self) -> Option<Calendar> {
        self.state().calendar
    }

    /// Controller's calendar now, with its error. It does not depend on the host's own calendar.
    pub fn controller_now(&self) -> Option<Reading> {
        let calendar = self.state().calendar?;
        let since_ns = self.clock.now_ns().saturating_sub(calendar.known_at_ns);
        Some(Reading {
            unix_ns: calendar.controller_unix_ns + since_ns,
            error_ns: calendar.uncertainty_ns + drift_ns(since_ns),
        })
    }

    /// Reports progress of the tests. The finished share never falls.
    pub fn report(&self, progress: HostProgress) {
        let mut state = self.state();
        let (waiting_at, done) = (state.progress.waiting_at, progress.done.max(state.progress.done));
        state.progress = HostProgress { waiting_at, done, ..progress };
    }

    pub(crate) fn know(&self, calendar: Option<Calendar>) {
        self.state().calendar = calendar;
    }

    pub(crate) fn progress(&self) -> HostProgress {
        self.state().progress.clone()
    }

    pub(crate) fn release(&self, point: Point, at_ns: u64, alone: bool) {
        let mut state = self.state();
        state.released = Some((point, at_ns));
        state.alone = alone;
    }

    pub(crate) fn leave(&self, hosts: Vec<String>) {
        self.state().left = hosts;
    }

    pub(crate) fn stop(&self, why: String) {
        self.state().stop.get_or_insert(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_passed_when_it_is_released_and_its_time_has_come() {
        let control = RunControl::new(Clock::new());
        assert_eq!(control.wait_at(Point(2)), None);
        assert_eq!(control.progress().waiting_at, Some(Point(2)));
        control.release(Point(1), 0, false);
        assert_eq!(control.wait_at(Point(2)), None, "an earlier point was released");
        control.release(Point(2), control.clock.now_ns() + 3_600_000_000_000, false);
        assert!(control.wait_at(Point(2)).unwrap() > Duration::from_secs(3_000));
        assert_eq!(control.wait_at(Point(1)), Some(Duration::ZERO), "everyone is past it");
        control.release(Point(2), 0, false);
        assert_eq!(control.wait_at(Point(2)), Some(Duration::ZERO));
        assert_eq!(control.progress().waiting_at, None);
    }

    #[test]
    fn the_share_that_is_done_never_falls() {
        let control = RunControl::new(Clock::new());
        let done = |done: f64| {
            control.report(HostProgress { done, ..HostProgress::default() });
            control.progress().done
        };
        assert_eq!([0.2, 0.5, 0.1, 0.6].map(done), [0.2, 0.5, 0.5, 0.6]);
    }
}

//! Where the tests of a host meet those of the others: at the run control of its agent.
//!
//! Invariant: every place of the campaign is passed only when the run control says so, or when the run is to end.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use campaign::barrier::Barrier;
use campaign::progress::{Progress, Watcher};
use results::{Environment, Event, Row, Severity};
use world::{LocalFuture, World};

use crate::message::Point;
use crate::run_control::{HostProgress, RunControl};

/// Interval at which the run control is asked until the release time of a barrier is known.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// Longest time in which a waiting host notices a request to stop.
const HEAR_EVERY: Duration = Duration::from_millis(100);

/// Record of the barriers that this host has passed.
#[derive(Default)]
pub struct Passed {
    /// Number of each barrier, and the time by this host's calendar.
    places: Vec<(u32, u64)>,
    /// Time since which the host goes on without the others, ms; `None` while it waits for them.
    alone_ms: Option<u64>,
}

impl Passed {
    /// Rows about the barriers for the evidence.
    pub fn rows(&self, host: &str, control: &RunControl, ended_ms: u64) -> Vec<Row> {
        let mut rows = Vec::new();
        if let Some(calendar) = control.calendar() {
            let (offset_ms, error_ms) =
                (calendar.offset_ns as f64 / 1e6, calendar.uncertainty_ns as f64 / 1e6);
            rows.push(
                Environment {
                    host: host.to_owned(),
                    area: "Fleet".into(),
                    name: "Calendar against the controller's".into(),
                    value: format!("{offset_ms:+.1} ms, known to ±{error_ms:.2} ms"),
                    severity: Severity::Info,
                    note: String::new(),
                }
                .into(),
            );
        }
        let mut event = |t_ms: u64, text: String| {
            let (severity, host) = (Severity::Warning, host.to_owned());
            rows.push(Event { t_ms, severity, test: None, host, text }.into());
        };
        if let Some(t_ms) = self.alone_ms {
            event(
                t_ms,
                "the controller was not heard of: went on without waiting for the other hosts".into(),
            );
        }
        if let Some(why) = control.stop_asked() {
            event(ended_ms, format!("asked to end: {why}"));
        }
        rows
    }

    /// Writes the time of each barrier to a file, so that hosts can be compared.
    ///
    /// # Errors
    /// Failed I/O.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        let lines = self.places.iter().map(|(place, unix_ns)| format!("{place},{unix_ns}\n"));
        std::fs::write(folder.join("places.csv"), format!("place,unix_ns\n{}", lines.collect::<String>()))
    }
}

/// Barrier at which a host waits for the others.
pub struct FleetBarrier {
    world: World,
    control: RunControl,
    last: Cell<u32>,
    passed: Rc<RefCell<Passed>>,
}

impl FleetBarrier {
    /// Creates the barrier for a run's beginning. Calls `passed` for each barrier.
    pub fn new(world: &World, control: &RunControl, passed: &Rc<RefCell<Passed>>) -> FleetBarrier {
        FleetBarrier {
            world: world.clone(),
            control: control.clone(),
            last: Cell::new(0),
            passed: passed.clone(),
        }
    }
}

impl Barrier for FleetBarrier {
    fn arrive(&self) -> LocalFuture<'static, ()> {
        self.last.set(self.last.get() + 1);
        let point = Point(self.last.get());
        let (world, control, passed) = (self.world.clone(), self.control.clone(), self.passed.clone());
        Box::pin(async move {
            while control.stop_asked().is_none() {
                match control.wait_at(point) {
                    Some(Duration::ZERO) => break,
                    Some(left) => world.sleep(left.min(HEAR_EVERY)).await,
                    None => world.sleep(ASK_EVERY).await,
                }
            }
            let unix_ns =
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
            let mut passed = passed.borrow_mut();
            passed.places.push((point.0, unix_ns));
            if control.is_alone() {
                passed.alone_ms.get_or_insert(world.now().ns / 1_000_000);
            }
        })
    }
}

/// Watcher that reports the progress of the tests to the run control.
pub struct ProgressWatcher {
    /// Run control of the host.
    pub control: RunControl,
    /// Number of tests in the campaign, a drill included.
    pub tests: usize,
    /// Callback for messages for people.
    pub say: fn(&str),
}

impl Watcher for ProgressWatcher {
    fn progress(&mut self, progress: &Progress) {
        let Progress { test, ordinal, phase, done, rates, .. } = progress;
        let tests = self.tests;
        self.control.report(HostProgress {
            text: format!("[{ordinal}/{tests}] {test}: {phase}"),
            done: (f64::from(ordinal - 1) + done) / tests as f64,
            iops: rates.iops,
            read_latency_ms: rates.read_latency_ms,
            log_write_latency_ms: rates.log_write_latency_ms,
            waiting_at: None,
        });
    }

    fn line(&mut self, text: &str) {
        (self.say)(text);
    }

    fn interrupted(&self) -> bool {
        self.control.stop_asked().is_some()
    }
}

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

/// How often the run control is asked while its time is not known.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// A request to stop is heard within this time of waiting.
const HEAR_EVERY: Duration = Duration::from_millis(100);

/// The places that this host has passed.
#[derive(Default)]
pub struct Passed {
    /// Number of the place, and when by this host's calendar.
    places: Vec<(u32, u64)>,
    /// Since when it has not waited for the others any more.
    alone_ms: Option<u64>,
}

impl Passed {
    /// What the evidence says of it.
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

    /// Keeps when each place was passed, to be compared between hosts.
    ///
    /// # Errors
    /// Failed I/O.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        let lines = self.places.iter().map(|(place, unix_ns)| format!("{place},{unix_ns}\n"));
        std::fs::write(folder.join("places.csv"), format!("place,unix_ns\n{}", lines.collect::<String>()))
    }
}

/// Where a host waits for the others.
pub struct FleetBarrier {
    world: World,
    control: RunControl,
    last: Cell<u32>,
    passed: Rc<RefCell<Passed>>,
}

impl FleetBarrier {
    /// Before the first place. `passed` is told of each one.
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

/// Tells the run control how far the tests are.
pub struct ProgressWatcher {
    /// The run control.
    pub control: RunControl,
    /// Tests in the campaign, a drill included.
    pub tests: usize,
    /// Says what a person wants to read.
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

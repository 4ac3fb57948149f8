//! `[[fault]]`: what goes wrong on purpose, at a time of a test, and what the report says about it.
//!
//! Invariants
//! 1. A fault of a test happens in every test of that kind, one without a test in every test. Times count from
//!    the begin of the measured window; in a test without one from its begin.
//! 2. Each fault is an event of the run at the time when it happens, and another when it ends. At the end of its test a
//!    third one says what users saw: throughput and latency before, during and after it.
//! 3. A fault that passes is over at the end of the measured window at the latest, in a test without one at the
//!    end of that: while users wait for I/O that waits for it, they do not go home. One whose time does not
//!    come before its end does not happen.
//!
//! Limits: a lost disk, a lost controller and a rotten page stay so. Only parts that the array model has can fail.

pub(crate) mod fault_log;
mod judged;
mod plan;
mod reach;

use std::cell::RefCell;
use std::pin::pin;

use array::{RebuildStatus, SharedArray};
use futures_util::future::{Either, join_all, pending, select};
use results::Severity;
use world::sim::Simulation;
use world::{Duration, Time, World};

use crate::merge::Merger;
use fault_log::{End, FaultNumber};
pub use fault_log::{FaultLog, Known};
use plan::Effect;
pub use plan::{PlannedFault, planned};

/// Interval at which the progress of a rebuild is checked.
const LOOK: Duration = Duration::from_secs(1);

/// Access of the faults to the simulation: storage, hosts, clock and fault log.
pub struct FaultWindow<'a, 'b> {
    pub world: &'a World,
    pub simulation: &'a Simulation,
    pub array: Option<&'a SharedArray>,
    pub fault_log: &'a FaultLog,
    pub merger: &'a RefCell<Merger<'b>>,
}

/// Lets the planned faults happen at their times; never returns.
pub async fn happen(faulted: &FaultWindow<'_, '_>, faults: &[PlannedFault]) {
    let each = faults.iter().map(|planned| async move {
        let mut n = 0;
        loop {
            let known = faulted.fault_log.nth(n).await;
            n += 1;
            if planned.fault.test.is_none_or(|kind| kind.name() == known.test.kind) {
                faulted.in_test(planned, &known).await;
            }
        }
    });
    join_all(each).await;
    pending().await
}

impl FaultWindow<'_, '_> {
    /// Waits until `at`; `false` if the test ends before.
    async fn reaches(&self, at: Time, test: u32, end: End) -> bool {
        let (time, end) = (pin!(self.world.sleep_until(at)), pin!(self.fault_log.over(test, end)));
        // At the end of a test both may be due: then it has ended.
        matches!(select(end, time).await, Either::Right(_))
    }

    async fn in_test(&self, planned: &PlannedFault, known: &Known) {
        let test = known.test.ordinal;
        let Some(zero_ms) = known.zero_ms else { return };
        let at = Time { ns: zero_ms * 1_000_000 } + Duration::from_secs_f64(planned.fault.at_s);
        let until = match planned.effect {
            Effect::Passing { .. } | Effect::Cut { .. } => End::OfWindow,
            _ => End::OfTest,
        };
        if !self.reaches(at, test, until).await {
            self.say(
                test,
                planned,
                &format!("expected fault did not happen, the test ended before: {}", planned.what),
            );
            return;
        }
        let note = planned.fault.note.as_ref().map_or(String::new(), |note| format!(" ({note})"));
        self.say(test, planned, &format!("expected fault: {}{note}", planned.what));
        let number = self.fault_log.begins(test, planned, self.now_ms());
        match &planned.effect {
            Effect::Passing { begin, end } => {
                self.passes(planned, at, test, begin, end).await;
                self.fault_log.ends(number, self.now_ms());
                self.say(test, planned, &format!("expected fault over: {}", planned.what));
            }
            Effect::Cut { link, remote_copy } => {
                let (begin, end) =
                    (array::Event::LinkLost { link: *link }, array::Event::LinkRestored { link: *link });
                let is_in_test = self.passes(planned, at, test, &begin, &end).await;
                self.say(test, planned, &format!("expected fault over: {}", planned.what));
                if let Some(array) = self.array.filter(|_| is_in_test) {
                    let status = || array.resync(self.simulation.now(), *remote_copy);
                    self.watch(status, || "in step again".into(), number, planned, test).await;
                } else {
                    self.fault_log.ends(number, self.now_ms());
                }
            }
            Effect::Rot { path, bytes } => {
                let rotten = bytes.iter().all(|byte| self.simulation.rot(&planned.host, path, *byte, 3));
                if !rotten {
                    self.say(test, planned, &format!("{path} has no such page: nothing has rotted"));
                }
            }
            lasting => self.lasts(lasting, number, planned, test).await,
        }
    }

    /// Performs a fault that ends after its duration, or with the window of its test. `false` if the test ended it.
    async fn passes(
        &self,
        planned: &PlannedFault,
        at: Time,
        test: u32,
        begin: &array::Event,
        end: &array::Event,
    ) -> bool {
        self.schedule(begin);
        let over = planned.fault.duration_s.map_or(u64::MAX, |s| (at + Duration::from_secs_f64(s)).ns);
        let is_in_test = self.reaches(Time { ns: over }, test, End::OfWindow).await;
        self.schedule(end);
        is_in_test
    }

    /// Performs a permanent fault, and watches the array's reaction to its end.
    async fn lasts(&self, effect: &Effect, number: FaultNumber, planned: &PlannedFault, test: u32) {
        let Some(array) = self.array else { return };
        let now = || self.simulation.now();
        match effect {
            Effect::Lost { event, drive } => {
                self.schedule(event);
                if let Some(drive) = drive {
                    let status = || array.rebuild(now(), *drive);
                    self.watch(status, || "rebuilt".into(), number, planned, test).await;
                }
            }
            Effect::NodeLost { store, node } => {
                self.schedule(&array::Event::NodeDies { store: *store, node: *node });
                let status = || array.recopying(now(), *store, *node);
                self.watch(status, || "copied".into(), number, planned, test).await;
            }
            Effect::Added { event, group } => {
                self.schedule(event);
                let status = || array.rebalance(now(), *group);
                self.watch(status, || "moved".into(), number, planned, test).await;
            }
            Effect::Cloned { event, thin_pool } => {
                self.schedule(event);
                let look = || array.clone_read(now(), *thin_pool);
                let status = || look().map(|(status, _)| status);
                let done = || {
                    let held_bytes = look().map_or(0, |(_, held_bytes)| held_bytes);
                    format!("read, {:.2} GiB held for it", held_bytes as f64 / f64::from(1 << 30))
                };
                self.watch(status, done, number, planned, test).await;
            }
            Effect::Passing { .. } | Effect::Cut { .. } | Effect::Rot { .. } => {}
        }
    }

    fn schedule(&self, event: &array::Event) {
        if let Some(array) = self.array {
            array.schedule(self.simulation.now(), event.clone());
        }
    }

    /// Reports the progress of a rebuild, a rebalancing or a clone's reading, until it or the test is over.
    async fn watch(
        &self,
        status: impl Fn() -> Option<RebuildStatus>,
        done: impl Fn() -> String,
        number: FaultNumber,
        planned: &PlannedFault,
        test: u32,
    ) {
        let begun = self.simulation.now();
        loop {
            let (text, is_last) = match status() {
                None => ("its data have other copies".to_owned(), true),
                Some(RebuildStatus::Waiting) => ("its rebuild has not begun".to_owned(), false),
                Some(RebuildStatus::NoSpare) => ("no spare is left for a rebuild".to_owned(), true),
                Some(RebuildStatus::Lost) => {
                    let text = "data are lost: too many disks are missing to rebuild it";
                    self.say(test, planned, &format!("{text}: {}", planned.what));
                    (text.to_owned(), true)
                }
                Some(RebuildStatus::UnderWay(share)) => (format!("{:.1} % {}", share * 100.0, done()), false),
                Some(RebuildStatus::Ended(at)) => {
                    let (seconds, done) = (at.since(begun).as_secs_f64(), done());
                    self.fault_log.ends(number, self.now_ms());
                    self.say(test, planned, &format!("{done} after {seconds:.0} s: {}", planned.what));
                    (format!("{done} after {seconds:.0} s"), true)
                }
            };
            self.fault_log.tell(number, text);
            if is_last || !self.reaches(self.world.now() + LOOK, test, End::OfTest).await {
                return;
            }
        }
    }

    fn now_ms(&self) -> u64 {
        self.world.now().ns / 1_000_000
    }

    fn say(&self, test: u32, planned: &PlannedFault, text: &str) {
        self.merger.borrow_mut().event(test, &planned.host, self.now_ms(), text);
    }
}

impl Merger<'_> {
    /// Records an event. If the store has lost data, the campaign's next row says so, too.
    pub(crate) fn event(&mut self, test: u32, host: &str, t_ms: u64, text: &str) {
        let event = results::Event {
            t_ms,
            severity: Severity::Warning,
            test: Some(test),
            host: host.to_owned(),
            text: text.to_owned(),
        };
        let _ = self.recorder().record(event.into());
    }
}

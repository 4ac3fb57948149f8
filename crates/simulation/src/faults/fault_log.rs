//! What users saw of a fault: throughput and latency before, during and after it.

use std::cell::{Cell, Ref, RefCell};

use results::{IoClass, IoTotals, Measure, Sample, Test};
use solution::TestKind;
use world::sync::Notify;

use super::plan::PlannedFault;

/// Record of the tests so far, of the samples of the last one, and of the faults that happened in it.
#[derive(Default)]
pub struct FaultLog {
    /// Whether samples are kept; without faults none are needed.
    keeps: bool,
    tests: RefCell<Vec<Known>>,
    samples: RefCell<Vec<Sample>>,
    faults: RefCell<Vec<Happened>>,
    more: Notify,
}

/// Test with the time from which its faults count, once that is known.
#[derive(Clone)]
pub struct Known {
    pub test: Test,
    pub zero_ms: Option<u64>,
}

/// Fault that happened in a test.
struct Happened {
    test: u32,
    planned: PlannedFault,
    begin_ms: u64,
    end_ms: Cell<Option<u64>>,
    outcome: RefCell<String>,
}

/// Part of a test whose end is waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The whole test.
    OfTest,
    /// The measured window, or the whole test if it has none.
    OfWindow,
}

/// Number of a fault in the fault log.
#[derive(Clone, Copy)]
pub struct FaultNumber(usize);

const CLASSES: [IoClass; 3] = [IoClass::TransactionalRead, IoClass::TransactionalWrite, IoClass::LogWrite];

impl FaultLog {
    pub fn new(keeps: bool) -> FaultLog {
        FaultLog { keeps, ..FaultLog::default() }
    }

    /// Notes a row of a test, all hosts together: its beginning, its window, its end.
    pub fn test(&self, test: &Test) {
        let mut tests = self.tests.borrow_mut();
        let has_window = TestKind::WINDOWED.iter().any(|kind| kind.name() == test.kind);
        let zero_ms = if has_window { test.window_start_ms } else { Some(test.started_ms) };
        let known = Known { test: test.clone(), zero_ms };
        match tests.iter_mut().find(|known| known.test.ordinal == test.ordinal) {
            Some(place) => *place = known,
            None => {
                self.samples.borrow_mut().clear();
                tests.push(known);
            }
        }
        drop(tests);
        self.more.notify_all();
    }

    /// Notes a sample, if it is of the I/O that users wait for.
    pub fn sample(&self, sample: &Sample) {
        let (Measure::Io(class) | Measure::Waiting(class)) = sample.measure else { return };
        if self.keeps && CLASSES.contains(&class) {
            self.samples.borrow_mut().push(sample.clone());
        }
    }

    /// Samples of the last test that lie in its measured window, as far as that is known.
    pub(super) fn window_samples(&self, test: Option<u32>) -> Ref<'_, [Sample]> {
        let tests = self.tests.borrow();
        let window_ms = tests.last().filter(|known| Some(known.test.ordinal) == test);
        let start_ms = window_ms.and_then(|known| known.test.window_start_ms).unwrap_or(u64::MAX);
        Ref::map(self.samples.borrow(), |samples| {
            let first = samples.iter().position(|sample| sample.t_ms >= start_ms).unwrap_or(samples.len());
            &samples[first..]
        })
    }

    /// Time at the mean load of a test's window that asks for as much load as an interval, by its start and length in
    /// ms: the length itself, unless the load follows a day.
    pub(super) fn asked_ms(&self, test: u32) -> impl Fn(u64, u64) -> f64 {
        let tests = self.tests.borrow();
        let row = tests.iter().map(|known| &known.test).find(|row| row.ordinal == test);
        let day = row.and_then(|row| Some((row.day?, row.window_start_ms?, row.window_planned_ms?)));
        move |start_ms, interval_ms| {
            let Some((day, opened_ms, planned_ms)) = day else { return interval_ms as f64 };
            let mean = day.mean_between(0.0, planned_ms as f64 / 1e3);
            let from_s = start_ms.saturating_sub(opened_ms) as f64 / 1e3;
            let length_s = interval_ms as f64 / 1e3;
            interval_ms as f64 * day.mean_between(from_s, from_s + length_s) / mean
        }
    }

    /// Intervals of a test in which expected faults affected a host, as far as they have ended.
    pub(super) fn times(&self, test: u32, host: &str) -> Vec<(u64, u64)> {
        let faults = self.faults.borrow();
        let here = faults.iter().filter(|fault| fault.test == test && fault.planned.felt_by.contains(host));
        here.map(|fault| (fault.begin_ms, fault.end_ms.get().unwrap_or(u64::MAX))).collect()
    }

    /// Waits for the nth test until the time from which its faults count is known, or the test has ended without one.
    pub async fn nth(&self, n: usize) -> Known {
        let ready = |known: &Known| known.zero_ms.is_some() || known.test.ended_ms.is_some();
        loop {
            let wait = self.more.wait();
            if let Some(known) = self.tests.borrow().get(n).filter(|known| ready(known)) {
                return known.clone();
            }
            wait.await;
        }
    }

    /// Waits until this part of the test is over.
    pub async fn over(&self, ordinal: u32, end: End) {
        let is_over = |known: &Known| {
            let Test { window_end_ms, ended_ms, .. } = known.test;
            known.test.ordinal == ordinal
                && (ended_ms.is_some() || (end == End::OfWindow && window_end_ms.is_some()))
        };
        loop {
            let wait = self.more.wait();
            if self.tests.borrow().iter().any(is_over) {
                return;
            }
            wait.await;
        }
    }

    /// Notes that a fault begins now.
    pub fn begins(&self, test: u32, planned: &PlannedFault, now_ms: u64) -> FaultNumber {
        let mut faults = self.faults.borrow_mut();
        faults.push(Happened {
            test,
            planned: planned.clone(),
            begin_ms: now_ms,
            end_ms: Cell::new(None),
            outcome: RefCell::default(),
        });
        FaultNumber(faults.len() - 1)
    }

    /// Notes how far a fault's consequences have come, such as a rebuild.
    pub fn tell(&self, fault: FaultNumber, outcome: String) {
        *self.faults.borrow()[fault.0].outcome.borrow_mut() = outcome;
    }

    /// Notes that a fault is over.
    pub fn ends(&self, fault: FaultNumber, now_ms: u64) {
        self.faults.borrow()[fault.0].end_ms.set(Some(now_ms));
    }

    /// Summaries of the faults of an ended test: host, and the effect on users.
    pub fn summaries(&self, test: &Test) -> Vec<(String, String)> {
        let faults = self.faults.borrow();
        let of_test = faults.iter().filter(|fault| fault.test == test.ordinal);
        of_test.map(|fault| (fault.planned.host.clone(), self.summary(fault, test))).collect()
    }

    fn summary(&self, fault: &Happened, test: &Test) -> String {
        let first_ms = test.window_start_ms.unwrap_or(test.started_ms);
        let last_ms = test.window_end_ms.or(test.ended_ms).unwrap_or(u64::MAX);
        let end_ms = fault.end_ms.get().unwrap_or(last_ms);
        let phases = [
            ("before", first_ms, fault.begin_ms),
            ("during", fault.begin_ms, end_ms),
            ("after", end_ms, last_ms),
        ];
        let mut text = format!("as users saw it: {}", fault.planned.what);
        for (name, from_ms, to_ms) in phases {
            if let Some(phase) = self.phase(&fault.planned.host, from_ms, to_ms) {
                text += &format!("; {name} ({} s): {phase}", (to_ms - from_ms).div_ceil(1000));
            }
        }
        let outcome = fault.outcome.borrow();
        if !outcome.is_empty() {
            text += &format!("; {outcome}");
        }
        text
    }

    /// Totals of the whole samples between two times.
    fn phase(&self, host: &str, from_ms: u64, to_ms: u64) -> Option<String> {
        let samples = self.samples.borrow();
        let is_of_host = |sample: &&Sample| sample.origin.instance.is_none() && sample.origin.host == host;
        let inside: Vec<&Sample> = samples
            .iter()
            .filter(is_of_host)
            .filter(|sample| (from_ms..to_ms).contains(&sample.t_ms))
            .collect();
        let sums = |class: IoClass| {
            let mut sum = IoTotals::default();
            let of_class = inside.iter().filter(|sample| sample.measure == class.into());
            of_class.for_each(|sample| sum.add(sample.totals));
            sum
        };
        let mean_ms = |totals: IoTotals| totals.latency_ms().unwrap_or(0.0);
        let [reads, writes, log_writes] = CLASSES.map(sums);
        let seconds = to_ms.saturating_sub(from_ms) as f64 / 1e3;
        (!inside.is_empty()).then(|| {
            format!(
                "{:.0} IOPS, read {:.2} ms, write {:.2} ms, log write {:.2} ms",
                (reads.count + writes.count) as f64 / seconds,
                mean_ms(reads),
                mean_ms(writes),
                mean_ms(log_writes)
            )
        })
    }
}

//! What the parts of the modelled storage did during the measured window of each test, as rows of the run.

use array::{PartKind, PartReport, SharedArray, SharedMeasured};
use campaign::rule::Rule;
use results::{Comparison, Origin, RecordError, Recorder, StoragePart, Test, Verdict};
use solution::TestKind;
use world::Time;

use crate::hosts::Hosts;

/// Largest share of requests outside of what was probed, percent.
const OUTSIDE_MOST: f64 = 1.0;

/// Storage model, for reading its figures and for injecting faults.
#[derive(Clone)]
pub struct Modelled {
    /// What does the requests of the hosts.
    pub behind: Backing,
    /// Hosts in front of it.
    pub hosts: Hosts,
}

/// What is behind the hosts.
#[derive(Clone)]
pub enum Backing {
    /// Hardware that the solution file describes.
    Array(SharedArray),
    /// A storage that was measured; it has no parts.
    Measured(SharedMeasured),
}

impl Modelled {
    /// The array, if it is one.
    pub fn array(&self) -> Option<&SharedArray> {
        match &self.behind {
            Backing::Array(array) => Some(array),
            Backing::Measured(_) => None,
        }
    }

    /// Begins the statistics anew.
    fn reset(&self, now: Time) {
        self.hosts.reset(now);
        match &self.behind {
            Backing::Array(array) => array.reset_statistics(now),
            Backing::Measured(measured) => measured.reset(),
        }
    }

    /// Verdict on a test whose requests lie outside of what was probed: nothing is extrapolated silently. `None` for
    /// storage that was not measured.
    pub fn probed(&self, test: u32, host: &str) -> Option<Verdict> {
        let Backing::Measured(measured) = &self.behind else { return None };
        let (requests, outside) = measured.unproved();
        let rule = Rule {
            name: "storage_probed",
            text: "requests outside of what was probed".into(),
            comparison: Comparison::AtMost,
            unit: "%",
        };
        let percent = 100.0 * outside as f64 / requests.max(1) as f64;
        Some(rule.require(test, Origin::host(host), percent, OUTSIDE_MOST))
    }
}

/// Recorder that reads the figures of the model at the beginning and end of each window.
pub struct PartsWatch<'a> {
    pub modelled: Modelled,
    /// First host in front of the storage, for verdicts.
    pub host: String,
    /// Clock of the simulation.
    pub now: Box<dyn Fn() -> Time + 'a>,
    /// Current test, and whether its window has begun.
    pub seen: Option<(u32, Seen)>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    Begun,
    WindowOpen,
    Reported,
}

impl PartsWatch<'_> {
    /// Handles a row of a test, all hosts together. Statistics start anew with the test and with its window, and are
    /// stored at the end of the window, or of the test if it has none. Returns the verdict on the storage then.
    pub fn test(&mut self, test: &Test, recorder: &mut dyn Recorder) -> Result<Option<Verdict>, RecordError> {
        let before = self.seen.filter(|(ordinal, _)| *ordinal == test.ordinal).map(|(_, seen)| seen);
        let stage = match (test.window_start_ms, test.window_end_ms.or(test.ended_ms)) {
            (_, Some(_)) => Seen::Reported,
            (Some(_), None) => Seen::WindowOpen,
            (None, None) => Seen::Begun,
        };
        if before >= Some(stage) {
            return Ok(None);
        }
        self.seen = Some((test.ordinal, stage));
        let now = (self.now)();
        if stage == Seen::Reported {
            for part in self.modelled.hosts.report(now, test.ordinal) {
                recorder.record(part.into())?;
            }
            if let Some(array) = self.modelled.array() {
                let report = array.report(now);
                for part in &report.parts {
                    recorder.record(row(part, test.ordinal, report.seconds).into())?;
                }
            }
            let is_judged = test.kind != TestKind::Init.name();
            return Ok(is_judged.then(|| self.modelled.probed(test.ordinal, &self.host)).flatten());
        }
        self.modelled.reset(now);
        Ok(None)
    }
}

fn row(part: &PartReport, test: u32, seconds: f64) -> StoragePart {
    let kind = match part.kind {
        PartKind::Drive => "drive",
        PartKind::Link => "link",
        PartKind::Controller => "controller",
        PartKind::Volume => "volume",
        PartKind::Store => "store",
        PartKind::ReadCache => "read_cache",
        PartKind::Pool => "pool",
    };
    StoragePart {
        test,
        kind: kind.to_owned(),
        name: part.name.clone(),
        seconds,
        busy_share: part.busy_share,
        queue_mean: part.mean_queue,
        reads: part.reads,
        writes: part.writes,
        read_bytes: part.read_bytes,
        write_bytes: part.write_bytes,
        read_latency_ms: part.read_ms,
        write_latency_ms: part.write_ms,
        cache_hits: part.cache_hits,
        cache_misses: part.cache_misses,
        cache_waits: part.write_waits,
        cache_dirty_bytes_max: part.dirty_max_bytes,
        state: part.state.clone(),
    }
}

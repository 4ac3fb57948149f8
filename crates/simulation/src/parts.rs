//! What the parts of the modelled storage did during the measured window of each test, as rows of the run.

use array::{PartKind, PartReport, SharedArray};
use results::{RecordError, Recorder, StoragePart, Test};
use world::Time;

use crate::hosts::Hosts;

/// Storage model, for reading its figures and for injecting faults.
#[derive(Clone)]
pub struct Modelled {
    /// Model of the array.
    pub array: SharedArray,
    /// Hosts in front of the array.
    pub hosts: Hosts,
}

/// Recorder that reads the figures of the model at the beginning and end of each window.
pub struct PartsWatch<'a> {
    pub modelled: Modelled,
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
    /// stored at the end of the window, or of the test if it has none.
    pub fn test(&mut self, test: &Test, recorder: &mut dyn Recorder) -> Result<(), RecordError> {
        let before = self.seen.filter(|(ordinal, _)| *ordinal == test.ordinal).map(|(_, seen)| seen);
        let stage = match (test.window_start_ms, test.window_end_ms.or(test.ended_ms)) {
            (_, Some(_)) => Seen::Reported,
            (Some(_), None) => Seen::WindowOpen,
            (None, None) => Seen::Begun,
        };
        if before >= Some(stage) {
            return Ok(());
        }
        self.seen = Some((test.ordinal, stage));
        let now = (self.now)();
        if stage == Seen::Reported {
            for part in self.modelled.hosts.report(now, test.ordinal) {
                recorder.record(part.into())?;
            }
            let report = self.modelled.array.report(now);
            for part in &report.parts {
                recorder.record(row(part, test.ordinal, report.seconds).into())?;
            }
        } else {
            self.modelled.hosts.reset(now);
            self.modelled.array.reset_statistics(now);
        }
        Ok(())
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

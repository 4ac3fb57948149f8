//! How long a simulation will keep a processor busy, before it begins.
//!
//! Limits: an estimate from the number of I/Os, good to a factor of about two between processors. A closed load is as
//! fast as the modelled storage, so its I/Os cannot be counted beforehand.

use solution::{Deployment, IO_PER_BATCH, LoadMode, TestKind, TestSpec};

use crate::Planned;

/// Processor time of a transactional I/O with its share of log writes, maintenance and array. Measured for windows of
/// 120 s, start included, by I/O of the volumes: 14 us (nimble-cs700), 26 us (lenovo-hx7510), 36 us (dell-md3260) and
/// 69 us (emc-cx3-20c).
const IO_US: f64 = 30.0;
/// Processor time of a sequential read of a database, and its length.
const READ_US: f64 = 15.0;
const READ_BYTES: f64 = 65_536.0;

/// What a simulation asks of the processors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Effort {
    /// Seconds of one processor.
    Known(f64),
    /// A load is as fast as the modelled storage.
    AsFastAsStorage,
}

impl Planned {
    /// What the tests ask of the processors; of the drills nothing is known.
    pub fn effort(&self) -> Effort {
        let of_host = |host: &Deployment| -> Option<f64> {
            self.tests.iter().map(|test| test_us(host, test)).sum::<Option<f64>>()
        };
        match self.deployments.iter().map(of_host).sum::<Option<f64>>() {
            Some(us) => Effort::Known(us / 1e6),
            None => Effort::AsFastAsStorage,
        }
    }
}

/// Microseconds of one processor; `None` if they are not known.
fn test_us(host: &Deployment, test: &TestSpec) -> Option<f64> {
    let databases = host.instances.iter().flat_map(|instance| &instance.databases);
    let bytes = databases.map(|database| database.bytes).sum::<u64>() as f64;
    match test.kind {
        kind if TestKind::WINDOWED.contains(&kind) => {
            Some((test.warmup_limit_s + test.duration_s) * io_per_s(host)? * IO_US)
        }
        TestKind::DatabaseChecksum | TestKind::Backup | TestKind::BackupToDisk | TestKind::Restore => {
            Some(bytes / READ_BYTES * READ_US)
        }
        _ => Some(0.0),
    }
}

fn io_per_s(host: &Deployment) -> Option<f64> {
    match host.load.mode {
        LoadMode::PacedIops { iops } => Some(iops),
        LoadMode::PacedBatches { batches_per_s } => Some(batches_per_s * IO_PER_BATCH),
        LoadMode::Closed { .. } | LoadMode::Tuned => None,
    }
}

//! The solution file resolved for one host: what a run needs, with nothing left to default.

use serde::{Deserialize, Serialize};

use crate::Solution;
use crate::drill::DrillSpec;
use crate::error::Wrong;
use crate::file::{Classes, EngineGeneration, Generation, Mix, TestKind, ThresholdWishes};
use crate::hosts::InstanceSpec;

/// Deployment of one host: everything that its run needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Deployment {
    /// Name of the solution.
    pub solution: String,
    /// Name of the host.
    pub host: String,
    /// Exchange generation from which defaults were taken.
    pub generation: Generation,
    /// Database instances, in the order of the file.
    pub instances: Vec<InstanceSpec>,
    /// Volumes of the instances.
    pub volumes: Vec<VolumeSpec>,
    /// Parameters of the engine.
    pub engine: EngineSpec,
    /// Load on the host.
    pub load: LoadSpec,
    /// Tests in their order.
    pub tests: Vec<TestSpec>,
}

/// A volume under test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeSpec {
    /// Name of the volume.
    pub name: String,
    /// Path of the volume's folder.
    pub dir: String,
}

/// Parameters of the database engine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EngineSpec {
    /// Checkpoint depth: bytes of log that recovery may have to replay.
    pub checkpoint_depth_bytes: u64,
    /// Clean share of the cache below which pages are written out, 0 to 1.
    pub flush_start: f64,
    /// Clean share of the cache at which writing out stops, 0 to 1.
    pub flush_stop: f64,
    /// Whether background maintenance runs during the load.
    pub maintenance: bool,
    /// Whether background maintenance runs during a soft recovery.
    pub recovery_maintenance: bool,
    /// Pause of the maintenance reader after each read, ms.
    pub maintenance_pause_ms: f64,
    /// The pause ends at the next multiple of this, ms.
    pub maintenance_tick_ms: f64,
}

/// Mode of the load: closed, paced or tuned.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum LoadMode {
    /// Closed load: a number of sessions, shared by all databases.
    Closed {
        /// Sessions on the host.
        sessions: u32,
    },
    /// Paced load by transactional I/O per second.
    PacedIops {
        /// Transactional I/O per second on the host.
        iops: f64,
    },
    /// Closed load with the number of sessions that the test `tune` found.
    Tuned,
    /// Paced load by batches per second.
    PacedBatches {
        /// Batches per second on the host.
        batches_per_s: f64,
    },
}

/// The load on a host.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LoadSpec {
    /// Closed or paced.
    pub mode: LoadMode,
    /// Target: transactional I/O per second that a test must reach.
    pub target_iops: Option<f64>,
    /// Rate of each hour of a day in percent of the peak hour; `None` if the load stays at its peak.
    pub hours_percent: Option<[f64; 24]>,
    /// Transactional I/O per second of one mailbox in the planned profile.
    pub iops_per_mailbox: Option<f64>,
    /// Share of the target by which the load may stay below it, 0 to 1.
    pub tolerance: f64,
    /// Rest of a session after a batch, as a multiple of the time the batch took.
    pub idle_factor: f64,
    /// Mix of operations in a batch.
    pub mix: Mix,
    /// Classes of operations instead of the mix.
    pub classes: Option<Classes>,
    /// Generation of the engine whose batches the load imitates.
    pub engine: EngineGeneration,
    /// Number of copies whose log reading is imitated, the active one included.
    pub copies: u32,
}

/// Latency limits of a test, ms; `None` is not judged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Thresholds {
    /// Mean database read latency, ms.
    pub read_avg_ms: Option<f64>,
    /// Worst sample of the database read latency, ms.
    pub read_max_ms: Option<f64>,
    /// Mean log write latency, ms.
    pub log_write_avg_ms: Option<f64>,
    /// Worst sample of the log write latency, ms.
    pub log_write_max_ms: Option<f64>,
}

/// Test with its resolved parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestSpec {
    /// Kind of the test.
    pub kind: TestKind,
    /// Length of the measured window, or time limit, s.
    pub duration_s: f64,
    /// Time limit of a checksum or backup, s; what was read by then counts. `None`: no limit.
    pub limit_s: Option<f64>,
    /// Precision in percent at which a load test ends early; `None`: it never does.
    pub until_percent: Option<f64>,
    /// Longest warm-up, s.
    pub warmup_limit_s: f64,
    /// Number of logs per instance to generate or to verify.
    pub logs: u32,
    /// Folder of the backup; `None`: folder `backup` beside each database.
    pub backup_dir: Option<String>,
    /// Latency limits of the test.
    pub thresholds: Thresholds,
    /// Latency limits of the published programme for a test of this kind and length.
    pub published: Thresholds,
    /// Failures of a drill.
    pub drill: Option<DrillSpec>,
}

impl TestSpec {
    /// Whether the load follows the hours of a day. An estimate ends with a part of the window, so it stays at the
    /// peak.
    pub fn follows_hours(&self) -> bool {
        matches!(self.kind, TestKind::Performance | TestKind::Stress) && self.until_percent.is_none()
    }
}

impl Thresholds {
    /// Latency limits of the published tests: strict up to 6 hours, lenient (`stress`) beyond.
    pub fn published(generation: Generation, stress: bool) -> Thresholds {
        let (log_write_avg, max) = match (generation, stress) {
            (Generation::E2003, _) => (20.0, None),
            (Generation::E2007, _) => (10.0, Some(50.0)),
            (_, false) => (10.0, Some(100.0)),
            (_, true) => (10.0, Some(200.0)),
        };
        Thresholds {
            read_avg_ms: Some(20.0),
            read_max_ms: max,
            log_write_avg_ms: Some(log_write_avg),
            log_write_max_ms: max,
        }
    }

    pub(crate) fn with(self, wishes: Option<ThresholdWishes>) -> Thresholds {
        let wishes = wishes.unwrap_or_default();
        Thresholds {
            read_avg_ms: wishes.read_avg_ms.or(self.read_avg_ms),
            read_max_ms: wishes.read_max_ms.or(self.read_max_ms),
            log_write_avg_ms: wishes.log_write_avg_ms.or(self.log_write_avg_ms),
            log_write_max_ms: wishes.log_write_max_ms.or(self.log_write_max_ms),
        }
    }
}

impl Solution {
    /// Hosts that the tests run on.
    pub fn hosts_under_test(&self) -> Vec<&crate::HostSpec> {
        self.hosts.iter().filter(|host| host.is_under_test).collect()
    }

    /// Tests in their order. The folder of a backup depends on the deployment of the host.
    pub fn tests(&self) -> impl Iterator<Item = &TestSpec> {
        self.tests.iter().map(|test| &test.spec)
    }

    /// Deployment of one host; `None` is allowed when only one host is tested.
    ///
    /// # Errors
    /// A host that is not under test, or one whose instances the file does not describe well enough to run them.
    pub fn deployment(&self, host: Option<&str>) -> crate::Result<Deployment> {
        let tested = self.hosts_under_test();
        let known = || tested.iter().map(|host| host.name.as_str());
        let at = "under_test.hosts";
        let host = match (host, tested.as_slice()) {
            (Some(name), _) => tested.iter().find(|host| host.name == name).ok_or_else(|| {
                self.source.error(Wrong::unknown_name("host under test", name, known(), at))
            })?,
            (None, [only]) => only,
            (None, several) => {
                let message =
                    format!("{} hosts are under test, so one of them has to be named", several.len());
                let names = known().collect::<Vec<_>>().join(", ");
                return Err(self.source.error(Wrong::new(at, message).help(names)));
            }
        };
        let instances = host.instances.clone().map_err(|lack| self.source.error(lack))?;
        let tested = host.volumes.iter().filter(|volume| volume.is_under_test);
        let volumes: Vec<VolumeSpec> = tested
            .filter_map(|volume| Some(VolumeSpec { name: volume.name.clone(), dir: volume.path.clone()? }))
            .collect();
        let tests = self.tests.iter().map(|test| test.on(&volumes)).collect();
        Ok(Deployment {
            solution: self.name.clone(),
            host: host.name.clone(),
            generation: self.generation,
            instances,
            engine: self.engine,
            load: self.load,
            tests,
            volumes,
        })
    }
}

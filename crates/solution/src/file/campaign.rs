//! What is done with it: `[sizing]`, `[under_test]`, `[load]`, `[engine]`, `[thresholds]`, `[[test]]`, `[[fault]]`,
//! `[fleet]`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Drill, Generation};

/// `[sizing]`: size of the test databases; exactly one of the three keys.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sizing {
    /// Size of each database, MiB.
    pub database_mib: Option<u64>,
    /// Share of each volume that its databases fill in the end, in percent; a fifth of it is left for growth.
    pub percent_of_capacity: Option<f64>,
    /// Mailboxes per host; each takes its quota, spread evenly over the databases.
    pub mailboxes: Option<u64>,
}

/// `[under_test]`: the part of the solution that the tests run on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnderTest {
    /// Hosts under test, `*` allowed; all when empty.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Number of database volumes per host that tests use; all when not given.
    pub volumes_per_host: Option<u32>,
    /// Failure whose load is tested: names of lost hosts, enclosures or sites; nothing lost when empty.
    #[serde(default)]
    pub failed: Vec<String>,
}

/// `[load]`: rate of the load. `sessions` (closed), or `iops` or `batches_per_s` (paced); a paced load at
/// `target_iops` when none of them is given; as many sessions as the test `tune` finds when that is missing, too.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Closed load: sessions on a host, shared by all its databases.
    pub sessions: Option<u32>,
    /// Paced load: transactional I/O per second and host.
    pub iops: Option<f64>,
    /// Paced load: batches per second and host.
    pub batches_per_s: Option<f64>,
    /// Transactional I/O per second and host that a test must reach; no target when not given.
    pub target_iops: Option<f64>,
    /// Paced load: rate of each hour of a day, from midnight on, in percent of the peak hour, which is 100. Tests
    /// `performance` and `stress` follow it; they stay at the peak when not given.
    #[schemars(length(equal = 24))]
    pub hours_percent: Option<Vec<f64>>,
    /// Percentage by which the load may stay below the target; 0 when not given.
    pub tolerance_percent: Option<f64>,
    /// Time a session rests after a batch, as a multiple of the time the batch took; 1 (0 for 2003) when not given.
    pub idle_factor: Option<f64>,
    /// Operations of a batch; by generation when not given.
    pub mix: Option<Mix>,
    /// Operations of a batch by classes, instead of all of the mix but its lazy commits; no classes when not given.
    pub classes: Option<Classes>,
    /// Copies of each database whose log reading is imitated, this one included; from `[copies]`, or 1, when not
    /// given.
    pub copies: Option<u32>,
}

/// Operations of a batch, in percent; what is left over is reads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Share of inserts, percent.
    pub insert: u32,
    /// Share of deletes, percent.
    pub delete: u32,
    /// Share of replacements, percent.
    pub replace: u32,
    /// Share of reads, percent.
    pub read: u32,
    /// Share of the commits that are lazy, percent.
    pub lazy: u32,
}

/// `[load.classes]`: operations of a batch in percent, by what they touch. The mix says how many commits are lazy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Classes {
    /// Share of views and logons, percent: the folder, and neighbouring rows among the newest tenth.
    pub view: u32,
    /// Share of message bodies that are read, percent: a row, and its long value.
    pub body: u32,
    /// Share of deliveries, percent: inserts.
    pub delivery: u32,
    /// Share of searches, percent: neighbouring entries of the index.
    pub search: u32,
    /// Share of index updates, percent: an entry is taken out of the index and put back.
    pub index_update: u32,
}

impl Classes {
    /// The shares in this order.
    pub fn shares(&self) -> [u32; 5] {
        [self.view, self.body, self.delivery, self.search, self.index_update]
    }
}

impl Mix {
    /// The mix that the published load generator used for a generation.
    pub fn of(generation: Generation) -> Mix {
        match generation {
            Generation::E2003 | Generation::E2007 => {
                Mix { insert: 17, delete: 5, replace: 68, read: 10, lazy: 90 }
            }
            _ => Mix { insert: 40, delete: 20, replace: 5, read: 35, lazy: 70 },
        }
    }
}

/// Builds of the database engine that the papers tell apart by their I/O per batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EngineGeneration {
    /// Since build 15.00.0712; also in place of every older version.
    #[default]
    #[serde(rename = "2013")]
    E2013,
    /// First builds of Exchange 2013 (15.00.0516): each operation goes to one more row.
    #[serde(rename = "2013-early")]
    E2013Early,
}

/// `[engine]`: parameters of the database engine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Engine {
    /// Builds of the engine whose batches the load imitates.
    pub generation: EngineGeneration,
    /// Smallest page cache per database in MiB: recorded, since published reports print it, and without effect.
    /// When not given it is 32, or `cache_max_mib` if that is smaller.
    pub cache_min_mib: Option<u64>,
    /// Largest page cache per database in MiB.
    pub cache_max_mib: u64,
    /// Log that recovery may have to replay, in MiB.
    pub checkpoint_depth_mib: u64,
    /// MetaCache of each database in MiB, on the host's volumes of role `meta_cache` in turn; none when not given.
    pub meta_cache_mib: Option<u64>,
    /// Clean share of the cache below which pages are written out, in percent.
    pub flush_start_percent: f64,
    /// Clean share of the cache at which writing out stops, in percent.
    pub flush_stop_percent: f64,
    /// Whether background maintenance runs during the load.
    pub maintenance: bool,
    /// Whether background maintenance runs during a soft recovery; as `maintenance` when not given.
    pub recovery_maintenance: Option<bool>,
    /// Pause of the maintenance reader after each read, in ms.
    pub maintenance_pause_ms: f64,
    /// The pause ends at the next multiple of this, in ms.
    pub maintenance_tick_ms: f64,
}

impl Engine {
    /// The smallest page cache per database in MiB, given or not.
    pub fn cache_min_mib(&self) -> u64 {
        self.cache_min_mib.unwrap_or(self.cache_max_mib.min(32))
    }
}

impl Default for Engine {
    fn default() -> Self {
        Engine {
            generation: EngineGeneration::default(),
            cache_min_mib: None,
            cache_max_mib: 256,
            checkpoint_depth_mib: 20,
            meta_cache_mib: None,
            flush_start_percent: 1.0,
            flush_stop_percent: 2.0,
            maintenance: true,
            recovery_maintenance: None,
            maintenance_pause_ms: 100.0,
            maintenance_tick_ms: 15.625,
        }
    }
}

/// `[thresholds]` and `[test.thresholds]`: latencies that must not be exceeded, in ms. What is not given is the
/// default of the kind of test and the generation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThresholdWishes {
    /// Mean database read latency, ms.
    pub read_avg_ms: Option<f64>,
    /// Worst sample of the database read latency, ms.
    pub read_max_ms: Option<f64>,
    /// Mean log write latency, ms.
    pub log_write_avg_ms: Option<f64>,
    /// Worst sample of the log write latency, ms.
    pub log_write_max_ms: Option<f64>,
}

/// Kind of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TestKind {
    /// Creates the databases.
    Init,
    /// Finds the highest load inside the thresholds, or the load for the target.
    Tune,
    /// Load with strict thresholds.
    Performance,
    /// Load with lenient thresholds, for long.
    Stress,
    /// Reads and verifies every page of every database.
    DatabaseChecksum,
    /// Reads and verifies logs.
    LogChecksum,
    /// Streams every database once, without writing.
    Backup,
    /// Copies every database and verifies the copy.
    BackupToDisk,
    /// Copies the backup back and replays the logs since. No test between the two may remove those logs.
    Restore,
    /// Load without circular logging until every instance has this many logs, then an unclean stop.
    LogGeneration,
    /// Replays the logs.
    SoftRecovery,
    /// Lets parts of the deployment fail under load, with all copies of all databases.
    Drill,
    /// Load under which the first volume of MetaCaches of each host is taken away in the middle of the window.
    MetacacheLoss,
}

impl TestKind {
    /// Kinds of tests with a measured window.
    pub const WINDOWED: [TestKind; 3] = [TestKind::Performance, TestKind::Stress, TestKind::MetacacheLoss];

    /// All kinds of tests.
    pub const ALL: [TestKind; 13] = [
        TestKind::Init,
        TestKind::Tune,
        TestKind::Performance,
        TestKind::Stress,
        TestKind::DatabaseChecksum,
        TestKind::LogChecksum,
        TestKind::Backup,
        TestKind::BackupToDisk,
        TestKind::Restore,
        TestKind::LogGeneration,
        TestKind::SoftRecovery,
        TestKind::Drill,
        TestKind::MetacacheLoss,
    ];

    /// Kind of test with this name.
    pub fn of_name(name: &str) -> Option<TestKind> {
        TestKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Name of the kind in the solution file.
    pub fn name(self) -> &'static str {
        match self {
            TestKind::Init => "init",
            TestKind::Tune => "tune",
            TestKind::Performance => "performance",
            TestKind::Stress => "stress",
            TestKind::DatabaseChecksum => "database_checksum",
            TestKind::LogChecksum => "log_checksum",
            TestKind::Backup => "backup",
            TestKind::BackupToDisk => "backup_to_disk",
            TestKind::Restore => "restore",
            TestKind::LogGeneration => "log_generation",
            TestKind::SoftRecovery => "soft_recovery",
            TestKind::Drill => "drill",
            TestKind::MetacacheLoss => "metacache_loss",
        }
    }
}

/// `[[test]]`: one test; the tests run in their order in the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// Kind of the test.
    pub kind: TestKind,
    /// Length of the measured window in seconds (performance 2 h, stress 24 h, drill and metacache_loss 10 min, tune
    /// 10 min at most when not given); the time limit of log generation, and of database checksum and backup (none when
    /// not given).
    pub duration_s: Option<f64>,
    /// Longest wait for a filled cache before the window, in seconds; 1800 when not given.
    pub warmup_limit_s: Option<f64>,
    /// Logs to generate or to verify per instance; 500 (100 for 2003) when not given.
    pub logs: Option<u32>,
    /// Volume that a backup goes to; beside each database when not given. A restore takes that of the backup before
    /// it.
    pub volume: Option<String>,
    /// Thresholds of this test only.
    pub thresholds: Option<ThresholdWishes>,
    /// Failures of a test of kind `drill`.
    pub drill: Option<Drill>,
}

/// Kind of a planned fault as named in the solution file; [`crate::FaultKind`] adds its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultWord {
    /// A disk of a volume fails.
    DiskFails,
    /// Every access of a disk becomes slower.
    DiskSlow,
    /// Disks are added to a dynamic pool.
    DisksAdded,
    /// A clone of a thin pool is taken and read.
    CloneRead,
    /// A link between a host and its storage fails.
    PathLost,
    /// The link to the copy at another site fails.
    RemoteCopyLost,
    /// The battery of a controller's write cache fails.
    CacheUnprotected,
    /// A controller fails.
    ControllerFails,
    /// A host moves to another node of its replicated store.
    HostMoves,
    /// A node of a replicated store fails.
    NodeDies,
    /// Extents of a replicated store fail their checksum.
    ExtentsRot,
    /// Two bits of a database page flip.
    BitRot,
}

/// `[[fault]]`: a planned fault. What it breaks does not fail the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Kind of the fault.
    pub kind: FaultWord,
    /// Test during which it happens; every one but drills when not given.
    pub test: Option<TestKind>,
    /// Host that it happens on; the first that takes part when not given.
    pub host: Option<String>,
    /// Volume that it happens on; the first of the host when not given.
    pub volume: Option<String>,
    /// Disk of the volume that it happens to, from 1; the first when not given. In a replicated store those of
    /// the host's node, disks before flash.
    pub disk: Option<u32>,
    /// Disks that are added to the pool of the volume; 1 when not given.
    pub disks: Option<u32>,
    /// Database that rots; the first on the volume when not given.
    pub database: Option<String>,
    /// Page of the database that rots, from 1; 4096 when not given.
    pub page: Option<u32>,
    /// Node of its replicated store that a host moves to, or that dies, from 1; the one after its own when not given.
    pub node: Option<u32>,
    /// One in this many extents on a disk of a replicated store is bad; 1000 when not given.
    pub one_in: Option<u64>,
    /// How many times as slow a disk becomes; 10 when not given.
    pub factor: Option<f64>,
    /// MiB per second at which a clone of the volume's pool is read at most; no cap when not given.
    pub mib_per_s: Option<f64>,
    /// Seconds after the start of the measured window, or of the test if it has none; at once when not given.
    pub at_s: Option<f64>,
    /// Seconds that it lasts; to the end of the test when not given, for good if it is a loss.
    pub duration_s: Option<f64>,
    /// Note that explains why the fault is expected.
    pub note: Option<String>,
}

/// `[fleet]`: reaction of a run on several hosts to a lost part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Fleet {
    /// What the other hosts do when a host is lost: `finish` without it, or `stop` in good order.
    pub when_host_lost: WhenLost,
    /// What a host does that hears nothing of the controller: `finish` on its own, or `stop` in good order.
    pub when_controller_lost: WhenLost,
    /// Seconds without a word of the controller after which it counts as lost.
    pub controller_lost_after_s: u32,
    /// Seconds that the hosts may take to appear and to be ready.
    pub assemble_limit_s: u32,
}

/// Reaction of the remaining parts of a fleet run to a lost one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhenLost {
    /// Finish without the lost part.
    #[default]
    Finish,
    /// End in order.
    Stop,
}

impl Default for Fleet {
    fn default() -> Self {
        Fleet {
            when_host_lost: WhenLost::Finish,
            when_controller_lost: WhenLost::Finish,
            controller_lost_after_s: 60,
            assemble_limit_s: 300,
        }
    }
}

//! What a run needs of its hosts: room in their directories, memory, growth under load.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use campaign::{database_path, meta_cache_path};
use evidence::report::{bytes, duration, number};
use schemars::JsonSchema;
use serde::Serialize;
use solution::{Deployment, IO_PER_BATCH, InstanceSpec, LoadMode, TestKind, TestSpec};

use crate::schedule::cache_bytes;

/// Growth that a test database is given room for, as a share of its size; the published load generator reserved the
/// same.
const GROWTH: f64 = 0.25;
/// Growth of a database per batch in the published runs, bytes (13,882 to 14,019, `published/`).
const BATCH_GROWTH_BYTES: f64 = 14_000.0;
/// Least number of logs per instance that the space check counts, with checkpoint depth and the next log.
const LOGS_KEPT: u64 = 64;
/// Number of logs per instance that circular logging keeps at most in addition to those of the checkpoint depth.
const LOGS_BESIDE_DEPTH: u64 = 39;
/// Upper bound of the log of a batch, bytes: the published mix writes 31 KiB, other operations up to four times as
/// much.
const BATCH_LOG_BYTES: f64 = 262_144.0;

/// Space and memory that the tests of a host need.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HostNeeds {
    /// Name of the host.
    pub host: String,
    /// Directories that the run writes to, each with its needs.
    pub folders: Vec<FolderNeeds>,
    /// Bytes that the run may still write to all of them, with the reserve for growth. An upper bound where
    /// `growth_bytes` is known.
    pub bytes: u64,
    /// Upper bound of the memory for page caches, bytes.
    pub cache_bytes: u64,
    /// Predicted growth of the databases, bytes; `None` where the storage decides the rate of the load.
    pub growth_bytes: Option<u64>,
    /// Length of all load windows, s.
    pub load_s: f64,
}

/// Space that a run needs in one directory.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FolderNeeds {
    /// Path of the directory.
    pub folder: PathBuf,
    /// Bytes that the run may still write there.
    pub bytes: u64,
}

impl HostNeeds {
    /// Computes the needs of these deployments of one host for their tests. `is_here`: the host is this machine, so
    /// existing files take no more space.
    pub fn of(parts: &[(&Deployment, &[TestSpec])], is_here: bool) -> HostNeeds {
        let there = |path: &Path| match is_here {
            true => std::fs::metadata(path).map_or(0, |file| file.len()),
            false => 0,
        };
        let folders = needs(parts, there).into_iter().map(|(folder, bytes)| FolderNeeds { folder, bytes });
        let folders: Vec<FolderNeeds> = folders.collect();
        let under_load = parts.iter().filter(|(_, tests)| load_seconds(tests) > 0.0);
        let growth_bytes = under_load
            .map(|(deployment, tests)| growth(deployment, load_seconds(tests)))
            .sum::<Option<f64>>();
        HostNeeds {
            host: parts.first().map_or_else(String::new, |(deployment, _)| deployment.host.clone()),
            bytes: folders.iter().map(|folder| folder.bytes).sum(),
            folders,
            cache_bytes: parts.iter().map(|(deployment, _)| cache_bytes(deployment)).max().unwrap_or(0),
            growth_bytes: growth_bytes.map(|bytes| bytes as u64),
            load_s: parts.iter().map(|(_, tests)| load_seconds(tests)).sum(),
        }
    }

    /// Formats the space for people.
    pub(crate) fn space(&self) -> String {
        let mut text = String::new();
        for FolderNeeds { folder, bytes } in &self.folders {
            let _ = writeln!(text, "  {:<40} {} more", folder.display(), self.bound(*bytes));
        }
        let _ = writeln!(text, "in all {} of disk; nothing else is touched", self.bound(self.bytes));
        text + &self.growth()
    }

    /// Formats the space as an upper bound where it is one.
    fn bound(&self, bytes: u64) -> String {
        let is_bound = self.load_s == 0.0 || self.growth_bytes.is_some();
        format!("{} {}", if is_bound { "up to" } else { "at least" }, gib(bytes))
    }

    /// Formats host, directories and memory as one line.
    pub fn line(&self) -> String {
        let dirs: Vec<String> = self.folders.iter().map(|needs| needs.folder.display().to_string()).collect();
        let (space, memory) = (self.bound(self.bytes), bytes(self.cache_bytes as f64));
        format!(
            "{}: below {}; {space} of disk; {memory} of memory for page caches",
            self.host,
            dirs.join(", ")
        )
    }

    fn growth(&self) -> String {
        match (self.load_s, self.growth_bytes) {
            (0.0, _) => String::new(),
            (seconds, Some(bytes)) => {
                format!("databases will grow by about {} in {} of load\n", gib(bytes), duration(seconds))
            }
            (_, None) => {
                "growth of the databases is not predicted, since the load is as fast as the storage; \
                          it ends before a volume is full\n"
                    .to_owned()
            }
        }
    }
}

/// Directories of the deployments with the most bytes that the tests may still write to each. `there` returns the size
/// of an existing file.
fn needs(parts: &[(&Deployment, &[TestSpec])], there: impl Fn(&Path) -> u64) -> Vec<(PathBuf, u64)> {
    let volumes = parts.iter().flat_map(|(deployment, _)| &deployment.volumes);
    let mut needed: BTreeMap<PathBuf, u64> = volumes.map(|volume| (PathBuf::from(&volume.dir), 0)).collect();
    for (path, bytes) in parts.iter().flat_map(|(deployment, tests)| wanted_files(deployment, tests)) {
        // What exists already takes no more space.
        let there = there(Path::new(&path));
        let holder = needed.iter_mut().rfind(|(dir, _)| Path::new(&path).starts_with(dir));
        if let Some((_, total)) = holder {
            *total += bytes.saturating_sub(there);
        }
    }
    needed.into_iter().collect()
}

/// Files that the tests will create, each with its largest size.
fn wanted_files(deployment: &Deployment, tests: &[TestSpec]) -> BTreeMap<String, u64> {
    let of_kind = |kind: TestKind| tests.iter().filter(move |test| test.kind == kind);
    let mut files = BTreeMap::new();
    let databases: usize = deployment.instances.iter().map(|instance| instance.databases.len()).sum();
    let load_s: f64 = load_tests(tests).map(|test| test.warmup_limit_s + test.duration_s).sum();
    let growth = growth(deployment, load_s).unwrap_or(0.0) / databases.max(1) as f64;
    for instance in &deployment.instances {
        let generated =
            of_kind(TestKind::LogGeneration).map(|test| u64::from(test.logs) * 2).max().unwrap_or(0);
        files.insert(
            format!("{}/E00.log", instance.log_dir),
            (logs_kept(deployment, instance, tests) + generated) * instance.log_file_bytes,
        );
        for database in &instance.databases {
            let bytes = database.bytes + growth.max(database.bytes as f64 * GROWTH) as u64;
            let path = database_path(&database.dir, &database.name);
            // While it is written anew it is there twice.
            let pages = bytes / u64::from(instance.page_bytes);
            files.insert(engine::flush_map_path(&path), 2 * engine::flush_map_bytes_max(pages));
            files.insert(path, bytes);
            if let Some(cache) = &database.meta_cache {
                files.insert(meta_cache_path(cache, &database.name), cache.bytes);
            }
            for (kind, end) in [(TestKind::BackupToDisk, "backup.edb"), (TestKind::Restore, "restored.edb")] {
                for test in of_kind(kind) {
                    let folder =
                        test.backup_dir.clone().unwrap_or_else(|| format!("{}/backup", database.dir));
                    files.insert(format!("{folder}/{}.{end}", database.name), bytes);
                }
            }
        }
    }
    files
}

/// Tests that drive the databases with their load.
fn load_tests(tests: &[TestSpec]) -> impl Iterator<Item = &TestSpec> {
    tests.iter().filter(|test| TestKind::WINDOWED.contains(&test.kind))
}

/// Total length of the windows of these tests, s.
fn load_seconds(tests: &[TestSpec]) -> f64 {
    load_tests(tests).map(|test| test.duration_s).sum()
}

/// Growth of all databases together in `load_s` seconds of load with the published shape, bytes. `None` for a closed
/// load, even with a target, because the storage decides its rate.
fn growth(deployment: &Deployment, load_s: f64) -> Option<f64> {
    let load = &deployment.load;
    let batches_per_s = match load.mode {
        LoadMode::PacedBatches { batches_per_s } => batches_per_s,
        LoadMode::PacedIops { iops } => iops / IO_PER_BATCH,
        LoadMode::Tuned | LoadMode::Closed { .. } => return None,
    };
    Some(batches_per_s * load_s * BATCH_GROWTH_BYTES)
}

/// Upper bound of the logs that circular logging keeps per instance: those of the checkpoint depth, which a load may
/// exceed by a quarter before pages are written in haste, but no more than the test writes.
fn logs_kept(deployment: &Deployment, instance: &InstanceSpec, tests: &[TestSpec]) -> u64 {
    let depth_bytes = deployment.engine.checkpoint_depth_bytes as f64 * 1.25;
    let databases: usize = deployment.instances.iter().map(|instance| instance.databases.len()).sum();
    let share = instance.databases.len() as f64 / databases as f64;
    let written = tests.iter().map(|test| log_bytes_written(deployment.load.mode, test)).reduce(f64::max);
    // The part of a host in a drill names no test, and nothing limits its log.
    let written_bytes = written.map_or(f64::INFINITY, |bytes| bytes * share);
    let logs = (depth_bytes.min(written_bytes) / instance.log_file_bytes as f64).ceil();
    LOGS_KEPT.max(logs as u64 + LOGS_BESIDE_DEPTH)
}

/// Upper bound of the log that a test with circular logging writes on all instances, bytes; infinite if it is not
/// known.
fn log_bytes_written(load: LoadMode, test: &TestSpec) -> f64 {
    let batches_per_s = match (test.kind, load) {
        (kind, LoadMode::PacedBatches { batches_per_s }) if TestKind::WINDOWED.contains(&kind) => {
            batches_per_s
        }
        // A batch is an I/O at least, and the load is steered at up to twice its rate.
        (kind, LoadMode::PacedIops { iops }) if TestKind::WINDOWED.contains(&kind) => iops * 2.0,
        (TestKind::Tune, _) => f64::INFINITY,
        (kind, _) if TestKind::WINDOWED.contains(&kind) => f64::INFINITY,
        _ => 0.0,
    };
    batches_per_s * (test.warmup_limit_s + test.duration_s) * BATCH_LOG_BYTES
}

pub(crate) fn gib(bytes: u64) -> String {
    format!("{} GiB", number(bytes as f64 / f64::from(1 << 30), 1))
}

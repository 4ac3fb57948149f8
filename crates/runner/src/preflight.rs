//! What a run checks before it writes anything: whose folders they are, what lies below them, whether
//! everything will fit.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use campaign::database_path;
use evidence::environment::mounts::{self, MountError, Nature};
use evidence::environment::{self, Capture, Volume};
use evidence::folder::{self, FolderError, FolderLock};
use evidence::report::number;
use results::{Host, Row, Severity};
use solution::{Deployment, InstanceSpec, LoadMode, TestKind, TestSpec};

use crate::dry_run::HostNeeds;

/// A test database may grow by this share of its size: what the published load generator reserved.
const GROWTH: f64 = 0.25;
/// Logs per instance that are reckoned with at least, with checkpoint depth and preparation.
const LOGS_KEPT: u64 = 64;
/// Logs per instance that circular logging leaves at most beside those of the checkpoint depth.
const LOGS_BESIDE_DEPTH: u64 = 39;
/// More log than any batch writes: the published mix writes 31 KiB, other operations up to four times as much.
const BATCH_LOG_BYTES: f64 = 262_144.0;

/// What a database grew by per batch in the published runs (13,882 to 14,019 bytes, docs/lab/accuracy.md).
const BATCH_GROWTH_BYTES: f64 = 14_000.0;
/// Transactional I/O of a batch in the published runs, whose databases are large against their caches (docs/schema.md).
const BATCH_IO: f64 = 41.0;

/// What an agent writes and removes to see that a volume can be written and read.
pub const PROBE: &str = "proofload.probe";

/// Why a run cannot be carried out on this host.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// Neither a test nor a drill of the run takes place here.
    #[error("nothing is to be done on this host")]
    Nothing,
    /// A folder must not be written to.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A file system is not fit.
    #[error(transparent)]
    Mount(#[from] MountError),
}

impl PreflightError {
    /// What to do about it.
    pub fn help(&self) -> Option<&'static str> {
        match self {
            PreflightError::Nothing => None,
            PreflightError::Folder(error) => Some(error.help()),
            PreflightError::Mount(error) => Some(error.help()),
        }
    }
}

/// What was found out before a run.
pub struct Preflight {
    host: String,
    solution: String,
    /// What the run writes where.
    needs: HostNeeds,
    /// What may be made in each of them.
    files: BTreeMap<PathBuf, Vec<String>>,
    volumes: Vec<Volume>,
    direct: bool,
    before: Capture,
}

impl Preflight {
    /// Looks at everything that the tests of these deployments of one host will need; nothing is written.
    /// Refuses what must not be touched or cannot fit.
    ///
    /// # Errors
    /// The run cannot be carried out here.
    pub fn new(
        parts: &[(&Deployment, &[TestSpec])],
        allow_memory: bool,
    ) -> Result<Preflight, PreflightError> {
        let [(deployment, _), ..] = parts else {
            return Err(PreflightError::Nothing);
        };
        let needs = HostNeeds::of(parts, true);
        let mounts = mounts::parse(&std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default());
        let dirs: Vec<PathBuf> = needs.folders.iter().map(|needs| needs.folder.clone()).collect();
        for dir in &dirs {
            folder::check(dir)?;
        }
        if !allow_memory {
            evidence::environment::check_memory(&mounts, &dirs)?;
        }
        let bytes: Vec<u64> = needs.folders.iter().map(|needs| needs.bytes).collect();
        mounts::check_space(&mounts, &dirs.iter().cloned().zip(bytes).collect::<Vec<_>>())?;
        let in_memory =
            |dir: &PathBuf| mounts::of(&mounts, dir).is_some_and(|m| m.nature() == Nature::Memory);
        let volume = |volume: &solution::VolumeSpec| Volume {
            name: volume.name.clone(),
            dir: volume.dir.clone().into(),
        };
        let mut volumes: Vec<Volume> = Vec::new();
        for known in parts.iter().flat_map(|(deployment, _)| &deployment.volumes) {
            if !volumes.iter().any(|volume| volume.name == known.name) {
                volumes.push(volume(known));
            }
        }
        Ok(Preflight {
            host: deployment.host.clone(),
            solution: deployment.solution.clone(),
            direct: !dirs.iter().any(in_memory),
            before: environment::capture(&deployment.host, &volumes, world::real::try_io_uring()),
            files: dirs.iter().map(|dir| (dir.clone(), files_below(dir, parts))).collect(),
            needs,
            volumes,
        })
    }

    /// What will be written where, how much, and what casts doubt on the results; for the terminal.
    pub fn announcement(&self) -> String {
        format!("{}: will write below\n{}{}", self.solution, self.needs.space(), self.warnings())
    }

    /// What casts doubt on the results; for the terminal.
    pub fn warnings(&self) -> String {
        let mut text = String::new();
        for row in self.before.rows.iter().filter(|row| row.severity != Severity::Info) {
            let _ = writeln!(text, "warning: {}, {}: {} ({})", row.area, row.name, row.value, row.note);
        }
        text
    }

    /// Makes and marks the folders, which nobody else may use while the locks are kept.
    ///
    /// # Errors
    /// A folder belongs to another program, is in use, or cannot be made.
    pub fn lock_folders(&self) -> Result<Vec<FolderLock>, FolderError> {
        let locks = self.folders().map(|dir| {
            let files = self.files.get(dir).map_or(&[][..], Vec::as_slice);
            folder::take(dir, &self.solution, files)
        });
        locks.collect()
    }

    /// The folders that the run writes to.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.needs.folders.iter().map(|needs| needs.folder.as_path())
    }

    /// The host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether I/O is unbuffered.
    pub fn direct(&self) -> bool {
        self.direct
    }

    /// How the run reads and writes its files, in words.
    pub fn io(&self) -> String {
        let cache = if self.direct { "unbuffered" } else { "through the page cache" };
        match world::real::try_io_uring() {
            Ok(()) => format!("I/O: io_uring, {cache}"),
            Err(cause) => format!("I/O: a pool of threads, {cache}; io_uring is refused: {cause}"),
        }
    }

    /// What was found, for the evidence.
    pub fn rows(&self) -> Vec<Row> {
        let value =
            |name: &str| self.before.rows.iter().find(|row| row.name == name).map(|row| row.value.clone());
        let known: Vec<String> =
            ["Processor", "CPU", "Memory", "Kernel"].into_iter().filter_map(value).collect();
        let host = Host { name: self.host.clone(), description: known.join(", ") };
        std::iter::once(host.into()).chain(self.before.rows.iter().cloned().map(Row::from)).collect()
    }

    /// What has changed since, for the evidence.
    pub fn rows_after(&self) -> Vec<Row> {
        let after = environment::capture(&self.host, &self.volumes, world::real::try_io_uring());
        environment::compare(&self.host, &self.before, &after)
    }
}

/// Folders of the deployments with the most bytes that the tests may still write into each. `there`: the size of
/// a file that exists.
pub(crate) fn needs(
    parts: &[(&Deployment, &[TestSpec])],
    there: impl Fn(&Path) -> u64,
) -> Vec<(PathBuf, u64)> {
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

/// Files that the tests will make, with the most bytes each may take.
fn wanted_files(deployment: &Deployment, tests: &[TestSpec]) -> BTreeMap<String, u64> {
    let of_kind = |kind: TestKind| tests.iter().filter(move |test| test.kind == kind);
    let mut files = BTreeMap::new();
    let databases: usize = deployment.instances.iter().map(|instance| instance.databases.len()).sum();
    let growth = growth(deployment, tests).unwrap_or(0.0) / databases.max(1) as f64;
    for instance in &deployment.instances {
        let generated =
            of_kind(TestKind::LogGeneration).map(|test| u64::from(test.logs) * 2).max().unwrap_or(0);
        files.insert(
            format!("{}/E00.log", instance.log_dir),
            (logs_kept(deployment, instance, tests) + generated) * instance.log_file_bytes,
        );
        for database in &instance.databases {
            let bytes = database.bytes + growth.max(database.bytes as f64 * GROWTH) as u64;
            files.insert(database_path(&database.dir, &database.name), bytes);
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

/// Seconds that the tests drive the databases at their load.
pub(crate) fn load_seconds(tests: &[TestSpec]) -> f64 {
    let loads = tests.iter().filter(|test| matches!(test.kind, TestKind::Performance | TestKind::Stress));
    loads.map(|test| test.duration_s).sum()
}

/// What all databases together grow by if the load reaches its target, at the shape of the published runs;
/// `None` where no target is set: such a load is as fast as the storage.
pub(crate) fn growth(deployment: &Deployment, tests: &[TestSpec]) -> Option<f64> {
    let load = &deployment.load;
    let batches_per_s = match load.mode {
        LoadMode::PacedBatches { batches_per_s } => Some(batches_per_s),
        LoadMode::PacedIops { iops } => Some(iops / BATCH_IO),
        LoadMode::Closed { .. } | LoadMode::Tuned => load.target_iops.map(|iops| iops / BATCH_IO),
    };
    Some(batches_per_s? * load_seconds(tests) * BATCH_GROWTH_BYTES)
}

/// Logs that circular logging leaves an instance at most: those of the checkpoint depth, which a load may
/// overrun by a quarter before pages are written in haste, but no more than are written at all.
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

/// Most log that a test writes with circular logging on all instances together; infinite where that is not known.
fn log_bytes_written(load: LoadMode, test: &TestSpec) -> f64 {
    let batches_per_s = match (test.kind, load) {
        (TestKind::Performance | TestKind::Stress, LoadMode::PacedBatches { batches_per_s }) => batches_per_s,
        // A batch is an I/O at least, and the load is steered at up to twice its rate.
        (TestKind::Performance | TestKind::Stress, LoadMode::PacedIops { iops }) => iops * 2.0,
        (TestKind::Tune | TestKind::Performance | TestKind::Stress, _) => f64::INFINITY,
        _ => 0.0,
    };
    batches_per_s * (test.warmup_limit_s + test.duration_s) * BATCH_LOG_BYTES
}

/// What the tests of a deployment may make below `dir`, as the marker of that folder lists it.
fn files_below(dir: &Path, parts: &[(&Deployment, &[TestSpec])]) -> Vec<String> {
    let mut files = vec![format!("{}/{PROBE}", dir.display())];
    let mut logs = |folder: &str| {
        let names = ["E00.log", "E00tmp.log", "E00########.log", "E00res0000#.jrs", "E00.chk"];
        let records = ["copy.meta", "copy.meta.new"];
        files.extend(names.iter().chain(&records).map(|name| format!("{folder}/{name}")));
    };
    let mut databases = Vec::new();
    let instances = parts
        .iter()
        .flat_map(|(deployment, tests)| deployment.instances.iter().map(move |instance| (instance, *tests)));
    for (instance, tests) in instances {
        logs(&instance.log_dir);
        for database in &instance.databases {
            let path = database_path(&database.dir, &database.name);
            databases.extend([format!("{path}.new"), path]);
            let backup_dirs = tests.iter().filter_map(|test| test.backup_dir.clone());
            for folder in backup_dirs.chain([format!("{}/backup", database.dir)]) {
                logs(&format!("{folder}/logs-of-{}", instance.name));
                let ends = ["backup.edb", "restored.edb"];
                databases.extend(ends.map(|end| format!("{folder}/{}.{end}", database.name)));
            }
        }
    }
    files.extend(databases);
    let below = |path: &String| Some(Path::new(path).strip_prefix(dir).ok()?.to_str()?.to_owned());
    files.iter().filter_map(below).collect()
}

pub(crate) fn gib(bytes: u64) -> String {
    format!("{} GiB", number(bytes as f64 / f64::from(1 << 30), 1))
}

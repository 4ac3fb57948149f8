//! What a run checks before it writes anything: whose folders they are, what lies below them, whether
//! everything will fit.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use campaign::{database_path, meta_cache_path};
use evidence::environment::mounts::{self, MountError, Nature};
use evidence::environment::{self, Capture, KernelLog, Volume};
use evidence::folder::{self, FolderError, FolderLock};
use results::{Environment, Host, Row, Severity};
use solution::{Deployment, TestSpec};

use crate::needs::HostNeeds;

/// Bytes that an agent writes and removes to check that a volume can be written and read.
pub const PROBE: &str = "proofload.probe";

/// Reason why a run cannot be carried out on this host.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// The host has neither a test nor a drill of the run.
    #[error("nothing is to be done on this host")]
    Nothing,
    /// The run must not write to a folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A file system is not suitable.
    #[error(transparent)]
    Mount(#[from] MountError),
}

impl PreflightError {
    /// Remedy for the reason.
    pub fn help(&self) -> Option<&'static str> {
        match self {
            PreflightError::Nothing => None,
            PreflightError::Folder(error) => Some(error.help()),
            PreflightError::Mount(error) => Some(error.help()),
        }
    }
}

/// Result of the checks before a run.
pub struct Preflight {
    host: String,
    solution: String,
    /// Directories that the run writes to, with their needs.
    needs: HostNeeds,
    /// Names of files that the run may create in each directory.
    files: BTreeMap<PathBuf, Vec<String>>,
    volumes: Vec<Volume>,
    direct: bool,
    before: Capture,
}

impl Preflight {
    /// Checks everything that the tests of these deployments of one host will need, without writing. Refuses
    /// directories that must not be touched and runs that cannot fit.
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
        let mounts = mounts::of_this_process();
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

    /// Text for the terminal: where the run writes, how much, and what casts doubt on the results.
    pub fn announcement(&self) -> String {
        format!("{}: will write below\n{}{}", self.solution, self.needs.space(), self.warnings())
    }

    /// Warnings for the terminal: what casts doubt on the results.
    pub fn warnings(&self) -> String {
        let mut text = String::new();
        for row in self.before.rows.iter().filter(|row| row.severity != Severity::Info) {
            let _ = writeln!(text, "warning: {}, {}: {} ({})", row.area, row.name, row.value, row.note);
        }
        text
    }

    /// Creates and marks the folders and locks them. No other process may use them while the locks are held.
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

    /// Folders that the run writes to.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.needs.folders.iter().map(|needs| needs.folder.as_path())
    }

    /// Name of the host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether I/O is unbuffered (`O_DIRECT`).
    pub fn direct(&self) -> bool {
        self.direct
    }

    /// How the run does its I/O, as text.
    pub fn io(&self) -> String {
        let cache = if self.direct { "unbuffered" } else { "through the page cache" };
        match world::real::try_io_uring() {
            Ok(()) => format!("I/O: io_uring, {cache}"),
            Err(cause) => format!("I/O: a pool of threads, {cache}; io_uring is refused: {cause}"),
        }
    }

    /// Rows about host and storage for the evidence, which is stored in `folder`.
    pub fn rows(&self, folder: &Path) -> Vec<Row> {
        let value =
            |name: &str| self.before.rows.iter().find(|row| row.name == name).map(|row| row.value.clone());
        let known: Vec<String> =
            ["Processor", "CPU", "Memory", "Kernel"].into_iter().filter_map(value).collect();
        let host = Host { name: self.host.clone(), description: known.join(", ") };
        let evidence = environment::evidence_rows(&self.host, &self.volumes, folder);
        let found = self.before.rows.iter().cloned().chain(evidence);
        std::iter::once(host.into()).chain(found.map(Row::from)).collect()
    }

    /// Identifiers of this host and its storage, by which shared parts are found.
    pub fn identity(&self) -> Vec<Environment> {
        environment::sharing::identity(&self.before.rows)
    }

    /// Starts to read the kernel log every minute.
    pub fn kernel_log(&self) -> KernelLog {
        KernelLog::since(&self.before)
    }

    /// Rows for the evidence about what changed since the preflight.
    pub fn rows_after(&self, kernel_log: KernelLog) -> Vec<Row> {
        let after = environment::capture(&self.host, &self.volumes, world::real::try_io_uring());
        environment::compare(&self.host, &self.before, &after, kernel_log)
    }
}

/// Names of files that the tests of a deployment may create below `dir`, as listed in that folder's marker.
fn files_below(dir: &Path, parts: &[(&Deployment, &[TestSpec])]) -> Vec<String> {
    let mut files = vec![format!("{}/{PROBE}", dir.display())];
    let mut logs = |folder: &str| {
        let names = ["E00.log", "E00tmp.log", "E00########.log", "E00res0000#.jrs", "E00.chk"];
        let records = ["copy.meta", "copy.meta.new"];
        files.extend(names.iter().chain(&records).map(|name| format!("{folder}/{name}")));
    };
    let (mut databases, mut caches) = (Vec::new(), Vec::new());
    let instances = parts
        .iter()
        .flat_map(|(deployment, tests)| deployment.instances.iter().map(move |instance| (instance, *tests)));
    for (instance, tests) in instances {
        logs(&instance.log_dir);
        for database in &instance.databases {
            let path = database_path(&database.dir, &database.name);
            databases.extend([format!("{path}.new"), path]);
            caches.extend(database.meta_cache.iter().map(|cache| meta_cache_path(cache, &database.name)));
            let backup_dirs = tests.iter().filter_map(|test| test.backup_dir.clone());
            for folder in backup_dirs.chain([format!("{}/backup", database.dir)]) {
                logs(&format!("{folder}/logs-of-{}", instance.name));
                let ends = ["backup.edb", "restored.edb"];
                databases.extend(ends.map(|end| format!("{folder}/{}.{end}", database.name)));
            }
        }
    }
    let maps = databases.iter().map(|path| engine::flush_map_path(path));
    files.extend(maps.flat_map(|map| [format!("{map}.new"), map]));
    files.extend(databases.into_iter().chain(caches));
    let below = |path: &String| Some(Path::new(path).strip_prefix(dir).ok()?.to_str()?.to_owned());
    files.iter().filter_map(below).collect()
}

//! The crash test on real storage: the listener's notes as a file, the writer, and what became of its commits.
//!
//! The protocol and the comparison are the workload's ([`workload::crash_test`]); here are folders, the file
//! and the clock.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::StopSignal;
use evidence::report::{counted, number};
use evidence::{FILE_VERSION, FileVersion, UnknownVersion};
use futures_util::future::{Either, select};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workload::crash_test::{CrashTestError, Findings, ListenerNotes, note_commits, verify, write};
use world::real::RealConfig;
use world::{ErrorKind, World};

/// Reason why a crash test proves nothing.
#[derive(Debug, thiserror::Error)]
pub enum Unproved {
    /// The notes file of the listener already exists.
    #[error("{} exists; the listener overwrites nothing", .0.display())]
    NotesExist(PathBuf),
    /// The folder for the writer already exists.
    #[error("{} exists; the crash test makes its folder itself", .0.display())]
    FolderExists(PathBuf),
    /// The file given as notes is not a notes file.
    #[error("{} holds no notes of a listener: {cause}", path.display())]
    NoNotes {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        cause: String,
    },
    /// The notes have a version that this program does not read.
    #[error("{}: {version}", path.display())]
    Version {
        /// Path of the file.
        path: PathBuf,
        /// Version of the file.
        version: UnknownVersion,
    },
    /// A path cannot be used, for example because it is not UTF-8.
    #[error("{} is no path in UTF-8", .0.display())]
    NoPath(PathBuf),
    /// The listener cannot write its notes.
    #[error("the notes cannot be kept in {}: {source}", path.display())]
    NotKept {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The operating system gives the process no I/O queue.
    #[error("the I/O driver does not start: {0}")]
    NotStarted(world::Error),
    /// Folder and notes belong to different runs, or to none.
    #[error("{0}")]
    OtherRun(CrashTestError),
    /// Another program than the writer connected to the listener.
    #[error("{0}")]
    NoWriter(CrashTestError),
    /// The storage under test stopped answering while the writer committed.
    #[error("the storage was lost after {} durable commits: {cause}", number(*durable_commits as f64, 0))]
    StorageLost {
        /// Number of commits that the storage had reported as durable.
        durable_commits: u64,
        /// First operation that failed.
        cause: CrashTestError,
    },
    /// The crash test ended early for another reason.
    #[error("nothing is proved: the crash test has ended early: {0}")]
    EndedEarly(CrashTestError),
}

impl From<CrashTestError> for Unproved {
    fn from(error: CrashTestError) -> Unproved {
        match error {
            CrashTestError::Foreign { .. } | CrashTestError::OtherRun { .. } => Unproved::OtherRun(error),
            CrashTestError::NoWriter => Unproved::NoWriter(error),
            error => Unproved::EndedEarly(error),
        }
    }
}

impl Unproved {
    /// Whether the command line is wrong, rather than rights, space or storage.
    pub fn is_wrong_input(&self) -> bool {
        match self {
            Unproved::NotesExist(_)
            | Unproved::FolderExists(_)
            | Unproved::NoNotes { .. }
            | Unproved::Version { .. }
            | Unproved::NoPath(_)
            | Unproved::OtherRun(_) => true,
            Unproved::NotKept { .. }
            | Unproved::NotStarted(_)
            | Unproved::NoWriter(_)
            | Unproved::StorageLost { .. }
            | Unproved::EndedEarly(_) => false,
        }
    }

    /// Remedy for the reason, if there is one.
    pub fn help(&self) -> Option<&'static str> {
        match self {
            Unproved::NotesExist(_) => Some("name a new file with --out"),
            Unproved::FolderExists(_) => Some("name a folder that does not exist, on the storage under test"),
            Unproved::OtherRun(_) => {
                Some("verify the folder that the writer made with the notes of the listener that it had")
            }
            Unproved::Version { .. } => Some("verify with the proofload that wrote the notes"),
            Unproved::NoWriter(_) => Some("start the listener again, and then the writer"),
            Unproved::StorageLost { .. } => Some(
                "bring the storage back, then run `proofload crash-test verify` with the folder and the listener's notes",
            ),
            Unproved::EndedEarly(
                CrashTestError::World(error) | CrashTestError::Engine(engine::Error::World(error)),
            ) if error.kind == ErrorKind::Unsupported => {
                Some("add --buffered, or use a file system with unbuffered I/O")
            }
            _ => None,
        }
    }
}

/// Contents of the listener's notes file.
#[derive(Serialize, Deserialize)]
struct Notes {
    /// Version of the notes format.
    version: u32,
    /// Identity of the run, hexadecimal.
    run: String,
    /// Last commit of each session that was acknowledged as durable.
    sessions: BTreeMap<u32, u64>,
}

fn on_this_host<T, F: Future<Output = T>>(
    buffered: bool,
    main: impl FnOnce(World) -> F,
) -> Result<T, Unproved> {
    let config = RealConfig { direct: !buffered, ..RealConfig::new("crash-test") };
    world::real::run(config, main).map_err(Unproved::NotStarted)
}

/// Listens for one writer until it ends, and stores its acknowledged commits in the new file `out`. Returns the number
/// of commits. Calls `say` once a writer can connect.
///
/// # Errors
/// The file exists or cannot be written, or no writer connected.
pub fn hear(listen: &str, out: &Path, say: impl Fn(&str)) -> Result<u64, Unproved> {
    let not_kept = |source| Unproved::NotKept { path: out.to_owned(), source };
    if out.exists() {
        return Err(Unproved::NotesExist(out.to_owned()));
    }
    let failed: RefCell<Option<std::io::Error>> = RefCell::default();
    let kept_at = Cell::new(None);
    let heard = on_this_host(false, |world| {
        let (failed, kept_at, say) = (&failed, &kept_at, &say);
        async move {
            let listener = world.listen(listen).await?;
            say(&format!("listening on {listen}; start the writer, then pull its plug"));
            let heard = note_commits(&listener, |notes| {
                // Once a second: what was heard since is kept when the connection ends.
                let is_due = kept_at.get().is_none_or(|at| world.now() >= at + Duration::from_secs(1));
                if is_due && let Err(error) = keep(out, notes) {
                    failed.borrow_mut().get_or_insert(error);
                }
                if is_due {
                    kept_at.set(Some(world.now()));
                }
            });
            heard.await
        }
    })?;
    let heard: ListenerNotes = heard?;
    keep(out, &heard).map_err(not_kept)?;
    if let Some(error) = failed.into_inner() {
        return Err(not_kept(error));
    }
    Ok(heard.sessions.values().sum())
}

/// Replaces the notes file atomically.
fn keep(out: &Path, notes: &ListenerNotes) -> std::io::Result<()> {
    let notes =
        Notes { version: FILE_VERSION, run: format!("{:016x}", notes.run), sessions: notes.sessions.clone() };
    let fresh = out.with_extension("json.new");
    std::fs::write(&fresh, serde_json::to_vec_pretty(&notes)?)?;
    std::fs::File::open(&fresh)?.sync_all()?;
    std::fs::rename(&fresh, out)
}

/// Arguments of the writer.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    /// Folder that the writer creates.
    pub folder: &'a Path,
    /// Address of the listener.
    pub listener: &'a str,
    /// Number of sessions that commit at the same time.
    pub sessions: u32,
    /// Size of the database, bytes.
    pub file_bytes: u64,
    /// Whether files are written through the page cache.
    pub buffered: bool,
}

/// Commits until the power fails or `end_asked` returns true. Returns the number of commits. Calls `say` with
/// messages, and `committed` with the number of durable commits once a second.
///
/// # Errors
/// The folder exists, the listener does not answer, or the storage fails.
pub fn commit(
    asked: Writer<'_>,
    end_asked: impl Fn() -> bool,
    say: impl Fn(&str),
    committed: impl Fn(u64),
) -> Result<u64, Unproved> {
    let Writer { folder, listener, sessions, file_bytes, buffered } = asked;
    if folder.exists() {
        return Err(Unproved::FolderExists(folder.to_owned()));
    }
    let folder = text(folder)?;
    let size = evidence::report::bytes(file_bytes as f64);
    say(&format!(
        "writes {size} and logs below {folder}; nothing else is touched; pull the plug at any time"
    ));
    let durable_commits = Cell::new(0);
    let counted = &durable_commits;
    let written = on_this_host(buffered, |world| async move {
        let stop = StopSignal::new();
        let shown = Cell::new(world.now());
        let clock = world.clone();
        let writing = write(&world, &folder, file_bytes, sessions, listener, &stop, |total| {
            counted.set(total);
            if clock.now() >= shown.get() + Duration::from_secs(1) {
                shown.set(clock.now());
                committed(total);
            }
        });
        let mut writing = std::pin::pin!(writing);
        loop {
            let tick = std::pin::pin!(world.sleep(Duration::from_millis(200)));
            match select(writing.as_mut(), tick).await {
                Either::Left((written, _)) => return written,
                Either::Right(_) if end_asked() => stop.stop(),
                Either::Right(_) => {}
            }
        }
    })?;
    written.map_err(|cause| match durable_commits.get() {
        durable_commits @ 1.. if is_storage_lost(&cause) => Unproved::StorageLost { durable_commits, cause },
        _ => cause.into(),
    })
}

/// Whether the writer ended because its storage failed while the host lives on, as when the plug of an enclosure was
/// pulled.
fn is_storage_lost(error: &CrashTestError) -> bool {
    match error {
        CrashTestError::Engine(engine::Error::Stopped(_)) => true,
        CrashTestError::Engine(engine::Error::World(error)) => {
            !matches!(error.kind, ErrorKind::NoSpace | ErrorKind::Unsupported | ErrorKind::PermissionDenied)
        }
        _ => false,
    }
}

/// Result of a crash test: the database after recovery compared with the listener's notes.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Compared {
    /// Version of this JSON document.
    pub schema_version: u32,
    /// Whether all acknowledged commits survived and no damage was found.
    pub kept: bool,
    /// Number of commits that were acknowledged as durable; `None` if the database cannot be recovered.
    pub acknowledged: Option<u64>,
    /// Number of these commits that are lost; `None` if the database cannot be recovered.
    pub lost: Option<u64>,
    /// Findings as text for people.
    pub text: String,
}

/// Recovers the database in `folder` and compares it with the notes of the listener.
///
/// # Errors
/// The notes or the folder are none of a crash test, or the storage cannot be read.
pub fn compare(folder: &Path, notes: &Path, buffered: bool) -> Result<Compared, Unproved> {
    let wrong = |cause: String| Unproved::NoNotes { path: notes.to_owned(), cause };
    let read = std::fs::read(notes).map_err(|error| wrong(error.to_string()))?;
    let version: FileVersion = serde_json::from_slice(&read).map_err(|error| wrong(error.to_string()))?;
    version.check().map_err(|version| Unproved::Version { path: notes.to_owned(), version })?;
    let parsed: Notes = serde_json::from_slice(&read).map_err(|error| wrong(error.to_string()))?;
    let run = u64::from_str_radix(&parsed.run, 16).map_err(|error| wrong(error.to_string()))?;
    let notes = ListenerNotes { run, sessions: parsed.sessions };
    let folder = text(folder)?;
    let found = on_this_host(buffered, |world| async move { verify(&world, &folder, &notes).await })?;
    match found {
        Ok(found) => Ok(Compared {
            schema_version: 1,
            kept: found.is_kept(),
            acknowledged: Some(found.acknowledged),
            lost: Some(lost(&found)),
            text: story(&found),
        }),
        Err(error) if error.is_loss() => {
            let what = match error {
                CrashTestError::Engine(_) => "the database cannot be recovered: ",
                _ => "",
            };
            let text = format!("NOT KEPT: {what}{error}\n");
            Ok(Compared { schema_version: 1, kept: false, acknowledged: None, lost: None, text })
        }
        Err(error) => Err(error.into()),
    }
}

/// Number of acknowledged commits that are lost.
fn lost(found: &Findings) -> u64 {
    found.lost.iter().map(|(_, first, last)| last - first + 1).sum()
}

fn story(found: &Findings) -> String {
    let Findings { acknowledged, lost: gone, beyond, recovery, pages } = found;
    let mut text = String::new();
    for (session, first, last) in gone {
        text += &format!(
            "session {session}: commits {first} to {last} were acknowledged as durable and are gone\n"
        );
    }
    pages.notes().iter().for_each(|note| text += &format!("{note}\n"));
    for (pgno, what) in &pages.list {
        text += &format!("page {pgno}: {what}\n");
    }
    for (_, reason) in &recovery.flush_maps_refused {
        text += &format!("the flush map of the database contradicts it: {reason}\n");
    }
    if recovery.segments_unexplained > 0 {
        let segments = counted(recovery.segments_unexplained, "log segment");
        text += &format!("{segments} behind the end of the log: they hold what no write has put there\n");
    }
    text += &format!(
        "{} acknowledged, {} of them lost; {} survived that the listener had not heard of; {} replayed, {}, {}, {} checked\n",
        counted(*acknowledged, "commit"),
        number(lost(found) as f64, 0),
        number(*beyond as f64, 0),
        counted(u64::from(recovery.logs_replayed), "log"),
        format_args!("{} repaired", counted(recovery.pages_repaired, "torn page")),
        format_args!("{} given up", counted(recovery.segments_given_up, "log segment")),
        counted(pages.pages, "page")
    );
    text += if found.is_kept() {
        "KEPT: everything that was reported as durable has survived\n"
    } else {
        "NOT KEPT: a drive, controller, array or hypervisor below reports writes as durable that are not\n"
    };
    text
}

/// Returns the path as text without a slash at its end.
fn text(path: &Path) -> Result<String, Unproved> {
    let no_path = || Unproved::NoPath(path.to_owned());
    let absolute = std::path::absolute(path).map_err(|_| no_path())?;
    let text = absolute.to_str().map(|text| text.trim_end_matches('/').to_owned());
    text.ok_or_else(no_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_identity_is_not_kept_and_another_folder_is_the_callers_mistake() {
        let dir = tempfile::tempdir().expect("a folder");
        let (folder, notes) = (dir.path().join("disk"), dir.path().join("notes.json"));
        keep(&notes, &ListenerNotes { run: 7, sessions: BTreeMap::new() }).expect("writable");
        std::fs::create_dir(&folder).expect("writable");
        let failed = compare(&folder, &notes, false).expect_err("no folder of a crash test");
        assert!(failed.to_string().contains("was not made by a crash test"), "{failed}");
        assert!(failed.is_wrong_input(), "{failed}");
        for part in ["db", "log"] {
            std::fs::create_dir(folder.join(part)).expect("writable");
        }
        let is_kept = || compare(&folder, &notes, false).expect("it has been compared").kept;
        assert!(!is_kept(), "missing");
        for bytes in [0, 4096] {
            std::fs::write(folder.join("crash-test.id"), vec![0; bytes]).expect("writable");
            assert!(!is_kept(), "{bytes} bytes of zeros");
        }
    }

    #[test]
    fn lost_storage_is_told_from_a_lost_listener_and_says_how_to_go_on() {
        let io = |kind| world::Error {
            kind,
            operation: "write".into(),
            path: "/d/1.edb".into(),
            reason: "gone".into(),
        };
        let lost = CrashTestError::Engine(engine::Error::World(io(ErrorKind::Io)));
        assert!(is_storage_lost(&lost));
        assert!(is_storage_lost(&CrashTestError::Engine(engine::Error::Stopped("write failed".into()))));
        assert!(!is_storage_lost(&CrashTestError::World(io(ErrorKind::Disconnected))));
        assert!(!is_storage_lost(&CrashTestError::Engine(engine::Error::World(io(ErrorKind::NoSpace)))));
        let told = Unproved::StorageLost { durable_commits: 1234, cause: lost };
        assert!(told.to_string().starts_with("the storage was lost after 1,234 durable commits"), "{told}");
        assert!(told.help().is_some_and(|help| help.contains("crash-test verify")) && !told.is_wrong_input());
    }

    #[test]
    fn a_folder_is_named_without_a_slash_at_its_end() {
        assert_eq!(text(Path::new("/mnt/volume/crash-test//")).expect("a path"), "/mnt/volume/crash-test");
    }
}

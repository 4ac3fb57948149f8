//! The folders that a run writes to: created by us and marked, or not touched at all.
//!
//! Invariants
//! 1. A folder is used only if it did not exist before (then it is created and marked) or carries our marker.
//! 2. The marker lists what a run may make below the folder. [`clean`] removes what is listed, and folders that
//!    were made for it when they are empty; the marked folder goes only when nothing but our marker is left.
//!    What else lies there stays and is named.
//! 3. Who has held a folder has it alone until the [`FolderLock`] is dropped or the process ends: no other process
//!    uses or cleans it.
//!
//! Limits: a file that someone else put there under one of the listed names cannot be told from ours. Folders
//! on file systems that cannot lock them are shared.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::file_version::{FILE_VERSION, FileVersion, UnknownVersion, first_version};

/// Name of the marker file, which tells that a folder was made by this program and lists what `clean` may remove.
pub const MARKER: &str = ".proofload";
/// Value of the marker's field `tool`.
const TOOL: &str = "proofload";
/// Temporary name of the marker until it replaces the old one.
const NEW_MARKER: &str = ".proofload.new";

/// Content of the marker file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Marker {
    /// Version of the marker file's form.
    #[serde(default = "first_version")]
    version: u32,
    /// Program that made the folder.
    tool: String,
    /// Name of the solution that the folder was made for.
    solution: String,
    /// Folders above it that were made with it, outermost first; `clean` removes them when they are empty.
    parents: Vec<PathBuf>,
    /// Paths below the folder that runs may make; `#` stands for one hexadecimal digit.
    #[serde(default)]
    files: BTreeSet<String>,
}

impl Marker {
    fn lists(&self, below: &str) -> bool {
        self.files.iter().any(|pattern| {
            pattern.len() == below.len()
                && pattern
                    .bytes()
                    .zip(below.bytes())
                    .all(|(wanted, found)| wanted == found || wanted == b'#' && found.is_ascii_hexdigit())
        })
    }

    /// Whether a folder holds a path that its marker lists.
    fn lists_below(&self, folder: &str) -> bool {
        self.files
            .iter()
            .any(|pattern| pattern.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
    }
}

/// Why a folder cannot be used for databases, logs or backups.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It holds files and has no marker of this program.
    #[error("{} exists and was not made by proofload", .0.display())]
    Foreign(PathBuf),
    /// Its marker is of a version that this program does not read.
    #[error("{}: {version}", path.display())]
    Version {
        /// The marker.
        path: PathBuf,
        /// Its version.
        version: UnknownVersion,
    },
    /// Another run holds the lock of the folder.
    #[error("{} is in use by another run", .0.display())]
    InUse(PathBuf),
    /// Something that is not a folder has that name.
    #[error("{} is not a folder", .0.display())]
    NoFolder(PathBuf),
    /// The operating system gave an error.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
}

impl FolderError {
    /// The remedy, as it is printed.
    pub fn help(&self) -> &'static str {
        match self {
            FolderError::Foreign(_) => {
                "name a folder that does not exist yet; proofload writes only to folders it has made"
            }
            FolderError::Version { .. } => "use the proofload that made the folder, or name another folder",
            FolderError::InUse(_) => "wait until it has ended, or name another folder",
            FolderError::NoFolder(_) => "name another folder",
            FolderError::Io { .. } => "check the permissions",
        }
    }
}

/// Why no folder could be made for the evidence of a run.
#[derive(Debug, thiserror::Error)]
pub enum NewRunError {
    /// The operating system gave an error.
    #[error("cannot create {}: {source}", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// Every name of this second is taken: several runs began at once.
    #[error("{} is full of runs of this second", .0.display())]
    Full(PathBuf),
}

/// Makes a new folder for the evidence of a run below `out`, named after time and solution; never takes one that
/// exists.
///
/// # Errors
/// It cannot be created.
pub fn new_run(out: &Path, solution: &str, unix_ms: u64) -> Result<PathBuf, NewRunError> {
    let io = |path: &Path, source| NewRunError::Io { path: path.to_owned(), source };
    fs::create_dir_all(out).map_err(|error| io(out, error))?;
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let (name, stamp) = (solution.chars().map(plain).collect::<String>(), crate::report::utc_stamp(unix_ms));
    for attempt in 1..1000 {
        let suffix = if attempt == 1 { String::new() } else { format!("-{attempt}") };
        let folder = out.join(format!("{stamp}-{name}{suffix}"));
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(io(&folder, error)),
        }
    }
    Err(NewRunError::Full(out.to_owned()))
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> FolderError + '_ {
    move |source| FolderError::Io { path: path.to_owned(), source }
}

/// Whether `folder` may be used: it does not exist, or has a marker of this program.
pub fn check(folder: &Path) -> Result<(), FolderError> {
    match fs::symlink_metadata(folder) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            // A file in the place of a parent would be found only after others were made.
            match folder.ancestors().skip(1).find(|parent| parent.exists()) {
                Some(parent) if !parent.is_dir() => Err(FolderError::NoFolder(parent.to_owned())),
                _ => Ok(()),
            }
        }
        Err(error) => Err(io(folder)(error)),
        Ok(_) if !folder.is_dir() => Err(FolderError::NoFolder(folder.to_owned())),
        Ok(_) => read_marker(folder)?.map(drop).ok_or_else(|| FolderError::Foreign(folder.to_owned())),
    }
}

/// A locked folder: no other run can use it until this is dropped.
#[derive(Debug)]
#[must_use = "the folder is free again when it is dropped"]
pub struct FolderLock {
    lock: File,
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child process that is being started has a copy of it for a moment.
        _ = self.lock.unlock();
    }
}

fn lock(folder: &Path) -> Result<FolderLock, FolderError> {
    let lock = File::open(folder).map_err(io(folder))?;
    match lock.try_lock() {
        Err(TryLockError::WouldBlock) => Err(FolderError::InUse(folder.to_owned())),
        // Not every network file system locks folders.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(FolderLock { lock }),
    }
}

/// Makes and marks `folder`, or takes it again if it has our marker. `files` are the paths below it that will be made,
/// `#` standing for one hexadecimal digit; what earlier runs have listed stays listed.
pub fn take(folder: &Path, solution: &str, files: &[String]) -> Result<FolderLock, FolderError> {
    check(folder)?;
    let known = if folder.exists() { read_marker(folder)? } else { None };
    let mut marker = match known {
        Some(marker) => marker,
        None => {
            let mut parents: Vec<PathBuf> = folder
                .ancestors()
                .skip(1)
                .take_while(|parent| !parent.as_os_str().is_empty() && !parent.exists())
                .map(Path::to_owned)
                .collect();
            parents.reverse();
            fs::create_dir_all(folder).map_err(io(folder))?;
            Marker {
                version: FILE_VERSION,
                tool: TOOL.into(),
                solution: solution.to_owned(),
                parents,
                files: BTreeSet::new(),
            }
        }
    };
    let claim = lock(folder)?;
    marker.files.extend(files.iter().cloned());
    write_marker(folder, &marker)?;
    Ok(claim)
}

/// Replaces the marker file in one step: after a power cut it is the old one or the new one.
fn write_marker(folder: &Path, marker: &Marker) -> Result<(), FolderError> {
    let (path, new) = (folder.join(MARKER), folder.join(NEW_MARKER));
    let text = serde_json::to_string_pretty(marker).expect("a marker has only text keys");
    fs::write(&new, text + "\n")
        .and_then(|()| File::open(&new)?.sync_all())
        .and_then(|()| fs::rename(&new, &path))
        .map_err(io(&path))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io(folder))
}

fn read_marker(folder: &Path) -> Result<Option<Marker>, FolderError> {
    let path = folder.join(MARKER);
    match fs::read_to_string(&path) {
        Ok(text) => parse_marker(&text).map_err(|version| FolderError::Version { path, version }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io(&path)(error)),
    }
}

/// Reads a marker; `None` for a file that is no marker of this program.
fn parse_marker(text: &str) -> Result<Option<Marker>, UnknownVersion> {
    #[derive(Deserialize)]
    struct Head {
        tool: String,
        #[serde(flatten)]
        version: FileVersion,
    }
    match serde_json::from_str::<Head>(text) {
        Ok(head) if head.tool == TOOL => {
            head.version.check()?;
            Ok(serde_json::from_str(text).ok())
        }
        _ => Ok(None),
    }
}

/// What [`clean`] removed and what it left; with `dry_run`, what it would remove.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Files that were removed.
    pub files: Vec<PathBuf>,
    /// Files that stay because no marker lists them.
    pub kept: Vec<PathBuf>,
}

/// Removes the files that the marker of `folder` lists, then the folders that are empty. `dry_run` removes nothing. A
/// folder that does not exist is clean.
pub fn clean(folder: &Path, dry_run: bool) -> Result<Cleaned, FolderError> {
    let mut cleaned = Cleaned::default();
    if !folder.exists() {
        return Ok(cleaned);
    }
    check(folder)?;
    let _claim = lock(folder)?;
    let Some(marker) = read_marker(folder)? else { return Err(FolderError::Foreign(folder.to_owned())) };
    let mut folders = BTreeSet::new();
    walk(folder, "", &marker, &mut cleaned, &mut folders)?;
    if dry_run {
        return Ok(cleaned);
    }
    for file in &cleaned.files {
        fs::remove_file(file).map_err(io(file))?;
    }
    // Innermost first; one that is not empty stays.
    for inner in folders.iter().rev() {
        let _ = fs::remove_dir(inner);
    }
    if cleaned.kept.is_empty() {
        let path = folder.join(MARKER);
        fs::remove_file(&path).map_err(io(&path))?;
        fs::remove_dir(folder).map_err(io(folder))?;
        // A marker may have been edited: only folders above this one can have been made for it.
        for parent in folder.ancestors().skip(1).take_while(|above| marker.parents.iter().any(|p| p == above))
        {
            let _ = fs::remove_dir(parent);
        }
    }
    Ok(cleaned)
}

/// Sorts the files in `folder`, whose path below the marked folder is `below`, into those that the marker lists and
/// others.
fn walk(
    folder: &Path,
    below: &str,
    marker: &Marker,
    cleaned: &mut Cleaned,
    folders: &mut BTreeSet<PathBuf>,
) -> Result<(), FolderError> {
    let mut entries: Vec<_> =
        fs::read_dir(folder).map_err(io(folder))?.collect::<Result<_, _>>().map_err(io(folder))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name());
        let Some(name) = name.to_str() else {
            cleaned.kept.push(path);
            continue;
        };
        let at = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
        // A link is not followed: what it points to is not below our folder.
        let kind = entry.file_type().map_err(io(&path))?;
        if kind.is_dir() && marker.lists_below(&at) {
            folders.insert(path.clone());
            walk(&path, &at, marker, cleaned, folders)?;
        } else if kind.is_file() && (marker.lists(&at) || at == NEW_MARKER) {
            cleaned.files.push(path);
        } else if at != MARKER {
            cleaned.kept.push(path);
        }
    }
    Ok(())
}

/// Replaces a file in one step: after a power cut it is the old one or the new one.
///
/// # Errors
/// The file is not there, or its folder cannot be written.
pub fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    // The file behind a link is replaced, not the link.
    let path = std::fs::canonicalize(path)?;
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".new");
    let new = path.with_file_name(name);
    let permissions = std::fs::metadata(&path)?.permissions();
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(&new)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.set_permissions(permissions))
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&new, &path));
    if written.is_err() {
        // What was created here is removed; the error that is told is the first one.
        let _ = std::fs::remove_file(&new);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_folder_or_file_that_we_did_not_make_is_refused_and_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let theirs = root.path().join("data");
        fs::create_dir(&theirs).unwrap();
        assert!(matches!(take(&theirs, "s", &[]), Err(FolderError::Foreign(_))), "even an empty one");
        assert!(matches!(clean(&theirs, false), Err(FolderError::Foreign(_))));
        let file = root.path().join("file");
        fs::write(&file, "x").unwrap();
        assert!(matches!(take(&file, "s", &[]), Err(FolderError::NoFolder(_))));
        assert!(matches!(take(&file.join("below"), "s", &[]), Err(FolderError::NoFolder(_))));
        fs::write(theirs.join(MARKER), "not a marker").unwrap();
        assert!(matches!(take(&theirs, "s", &[]), Err(FolderError::Foreign(_))), "a marker that is none");
        assert_eq!(fs::read_dir(&theirs).unwrap().count(), 1);
    }

    #[test]
    fn what_we_made_is_used_again_and_removed_with_the_folders_made_for_it() {
        let root = tempfile::tempdir().unwrap();
        let ours = root.path().join("demo/v1");
        drop(take(&ours, "s", &files(&["a.edb"])).unwrap());
        drop(take(&ours, "s", &files(&["logs/E00.log", "logs/E00########.log"])).unwrap());
        fs::create_dir(ours.join("logs")).unwrap();
        for made in ["a.edb", "logs/E00.log", "logs/E000000A1F0.log"] {
            fs::write(ours.join(made), "x").unwrap();
        }
        assert_eq!(clean(&ours, true).unwrap().files.len(), 3, "what the first run has listed counts, too");
        assert!(ours.join("logs/E00.log").exists(), "a dry run removes nothing");
        clean(&ours, false).unwrap();
        assert!(!root.path().join("demo").exists());
        assert!(root.path().exists());
        assert_eq!(clean(&ours, false).unwrap(), Cleaned::default());
    }

    #[test]
    fn marker_of_an_unknown_version_is_refused_by_name_and_one_without_version_is_read() {
        let root = tempfile::tempdir().unwrap();
        let ours = root.path().join("v1");
        drop(take(&ours, "s", &files(&["a.edb"])).unwrap());
        fs::write(ours.join("a.edb"), "x").unwrap();
        let marker = fs::read_to_string(ours.join(MARKER)).unwrap();
        let other = marker.replacen("\"version\": 1", "\"version\": 2", 1);
        assert_ne!(marker, other);
        fs::write(ours.join(MARKER), &other).unwrap();
        for refused in [check(&ours), take(&ours, "s", &[]).map(drop), clean(&ours, false).map(drop)] {
            let error = refused.unwrap_err();
            let (text, marker) = (error.to_string(), ours.join(MARKER).display().to_string());
            assert!(
                text.contains(&marker) && text.contains("version 2; this program reads version 1"),
                "{text}"
            );
            assert!(error.help().contains("use the proofload that made the folder"), "{}", error.help());
        }
        assert_eq!(fs::read_to_string(ours.join(MARKER)).unwrap(), other);
        assert!(ours.join("a.edb").exists());

        let unversioned = marker.replacen("  \"version\": 1,\n", "", 1);
        assert_ne!(marker, unversioned);
        fs::write(ours.join(MARKER), unversioned).unwrap();
        assert_eq!(clean(&ours, false).unwrap().files, [ours.join("a.edb")]);
    }

    #[test]
    fn an_edited_marker_removes_no_folder_beside_the_way_to_it() {
        let root = tempfile::tempdir().unwrap();
        let (ours, theirs) = (root.path().join("demo/v1"), root.path().join("theirs"));
        fs::create_dir(&theirs).unwrap();
        drop(take(&ours, "s", &[]).unwrap());
        let mut marker = read_marker(&ours).unwrap().unwrap();
        marker.parents.push(theirs.clone());
        write_marker(&ours, &marker).unwrap();
        clean(&ours, false).unwrap();
        assert!(theirs.exists() && !root.path().join("demo").exists());
    }

    #[test]
    fn a_folder_that_a_run_uses_is_used_and_cleaned_by_nobody_else() {
        let root = tempfile::tempdir().unwrap();
        let ours = root.path().join("v1");
        let held = take(&ours, "s", &files(&["a.edb"])).unwrap();
        fs::write(ours.join("a.edb"), "x").unwrap();
        assert!(matches!(take(&ours, "s", &[]), Err(FolderError::InUse(_))));
        assert!(matches!(clean(&ours, false), Err(FolderError::InUse(_))));
        assert!(ours.join("a.edb").exists());
        drop(held);
        drop(take(&ours, "s", &[]).unwrap());
        assert_eq!(clean(&ours, false).unwrap().files, [ours.join("a.edb")]);
    }

    #[test]
    fn a_folder_is_free_once_its_lock_is_dropped_although_a_child_has_a_copy_of_the_file() {
        let root = tempfile::tempdir().unwrap();
        let ours = root.path().join("v1");
        let held = take(&ours, "s", &[]).unwrap();
        let _copy = held.lock.try_clone().unwrap();
        drop(held);
        drop(take(&ours, "s", &[]).unwrap());
    }

    #[test]
    fn what_is_not_listed_in_our_folder_stays_and_is_named() {
        let root = tempfile::tempdir().unwrap();
        let ours = root.path().join("v1");
        drop(take(&ours, "s", &files(&["a.edb", "logs/E00########.log"])).unwrap());
        let outside = root.path().join("outside.edb");
        fs::write(&outside, "x").unwrap();
        fs::create_dir(ours.join("logs")).unwrap();
        fs::create_dir(ours.join("their empty folder")).unwrap();
        fs::create_dir(ours.join("theirs")).unwrap();
        let theirs =
            ["holiday.jpg", "logs/E00000000.log", "logs/E000000A1FX.log", "logs/a.edb", "theirs/a.edb"];
        for file in ["a.edb"].iter().chain(&theirs) {
            fs::write(ours.join(file), "x").unwrap();
        }
        std::os::unix::fs::symlink(&outside, ours.join("link")).unwrap();
        let cleaned = clean(&ours, false).unwrap();
        assert_eq!(cleaned.files, [ours.join("a.edb")]);
        let kept = [
            "holiday.jpg",
            "link",
            "logs/E00000000.log",
            "logs/E000000A1FX.log",
            "logs/a.edb",
            "their empty folder",
            "theirs",
        ];
        assert_eq!(cleaned.kept, kept.map(|name| ours.join(name)));
        assert!(theirs.iter().all(|file| ours.join(file).exists()) && outside.exists());
        assert!(ours.join("their empty folder").exists() && ours.join(MARKER).exists());
    }
}

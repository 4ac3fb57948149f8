//! The folders that a run writes to: created by us and marked, or not touched at all.
//!
//! Invariants
//! 1. A folder is used only if it did not exist before (then it is created and marked) or carries our marker.
//! 2. [`clean`] removes exactly the files it is told, and only below marked folders; a folder goes only when it is empty but
//!    for our marker. What else lies there stays and is named.
//!
//! Limits: the marker says who made a folder, not what is in it; a file that someone else put there under one of our own
//! names cannot be told from ours.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Name of the marker file.
pub const MARKER: &str = ".proofload";

/// Contents of the marker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Marker {
    /// What made the folder.
    tool: String,
    /// For which solution.
    solution: String,
    /// Folders above it that were made with it, outermost first: they go with it when they are empty.
    parents: Vec<PathBuf>,
}

/// Why a folder may not be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It is not ours.
    #[error("{} exists and was not made by proofload", .0.display())]
    Foreign(PathBuf),
    /// Something of that name is not a folder.
    #[error("{} is not a folder", .0.display())]
    NoFolder(PathBuf),
    /// The system would not.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> FolderError + '_ {
    move |source| FolderError::Io { path: path.to_owned(), source }
}

/// Whether `folder` may be used: it does not exist, or is ours.
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

/// Makes and marks `folder`, or takes it again if it is ours.
pub fn claim(folder: &Path, solution: &str) -> Result<(), FolderError> {
    check(folder)?;
    if folder.exists() {
        return Ok(());
    }
    let mut parents: Vec<PathBuf> = folder
        .ancestors()
        .skip(1)
        .take_while(|parent| !parent.as_os_str().is_empty() && !parent.exists())
        .map(Path::to_owned)
        .collect();
    parents.reverse();
    fs::create_dir_all(folder).map_err(io(folder))?;
    let marker = Marker { tool: "proofload".into(), solution: solution.to_owned(), parents };
    let path = folder.join(MARKER);
    let text = serde_json::to_string_pretty(&marker).expect("a marker has only text keys");
    fs::write(&path, text + "\n").map_err(io(&path))?;
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(io(folder))
}

fn read_marker(folder: &Path) -> Result<Option<Marker>, FolderError> {
    let path = folder.join(MARKER);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(serde_json::from_str(&text).ok()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io(&path)(error)),
    }
}

/// What [`clean`] did, or would do.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Files removed.
    pub files: Vec<PathBuf>,
    /// What stays in our folders because it is not ours.
    pub kept: Vec<PathBuf>,
}

/// Removes those files below `folder` for which `is_ours` says so, then the folders that are empty. `dry_run` only looks.
/// A folder that does not exist is clean.
pub fn clean(folder: &Path, is_ours: &dyn Fn(&Path) -> bool, dry_run: bool) -> Result<Cleaned, FolderError> {
    let mut cleaned = Cleaned::default();
    if !folder.exists() {
        return Ok(cleaned);
    }
    check(folder)?;
    let Some(marker) = read_marker(folder)? else { return Err(FolderError::Foreign(folder.to_owned())) };
    let mut folders = BTreeSet::new();
    walk(folder, is_ours, &mut cleaned, &mut folders)?;
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
        for parent in marker.parents.iter().rev() {
            let _ = fs::remove_dir(parent);
        }
    }
    Ok(cleaned)
}

fn walk(
    folder: &Path,
    is_ours: &dyn Fn(&Path) -> bool,
    cleaned: &mut Cleaned,
    folders: &mut BTreeSet<PathBuf>,
) -> Result<(), FolderError> {
    let mut entries: Vec<_> =
        fs::read_dir(folder).map_err(io(folder))?.collect::<Result<_, _>>().map_err(io(folder))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        // A link is not followed: what it points to is not below our folder.
        if entry.file_type().map_err(io(&path))?.is_dir() {
            folders.insert(path.clone());
            walk(&path, is_ours, cleaned, folders)?;
        } else if is_ours(&path) {
            cleaned.files.push(path);
        } else if entry.file_name() != MARKER {
            cleaned.kept.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_or_file_that_we_did_not_make_is_refused_and_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let theirs = root.path().join("data");
        fs::create_dir(&theirs).unwrap();
        assert!(matches!(claim(&theirs, "s"), Err(FolderError::Foreign(_))), "even an empty one");
        assert!(matches!(clean(&theirs, &|_| true, false), Err(FolderError::Foreign(_))));
        let file = root.path().join("file");
        fs::write(&file, "x").unwrap();
        assert!(matches!(claim(&file, "s"), Err(FolderError::NoFolder(_))));
        assert!(matches!(claim(&file.join("below"), "s"), Err(FolderError::NoFolder(_))));
        fs::write(theirs.join(MARKER), "not a marker").unwrap();
        assert!(matches!(claim(&theirs, "s"), Err(FolderError::Foreign(_))), "a marker that is none");
        assert_eq!(fs::read_dir(&theirs).unwrap().count(), 1);
    }

    #[test]
    fn what_we_made_is_used_again_and_removed_with_the_folders_made_for_it() {
        let root = tempfile::tempdir().unwrap();
        let ours = root.path().join("demo/v1");
        claim(&ours, "s").unwrap();
        claim(&ours, "s").unwrap();
        fs::create_dir(ours.join("logs")).unwrap();
        fs::write(ours.join("logs/E00.log"), "x").unwrap();
        let is_ours = |path: &Path| path.ends_with("E00.log");
        assert_eq!(clean(&ours, &is_ours, true).unwrap().files.len(), 1);
        assert!(ours.join("logs/E00.log").exists(), "a dry run removes nothing");
        clean(&ours, &is_ours, false).unwrap();
        assert!(!root.path().join("demo").exists());
        assert!(root.path().exists());
        assert_eq!(clean(&ours, &is_ours, false).unwrap(), Cleaned::default());
    }

    #[test]
    fn a_file_of_someone_else_in_our_folder_stays_and_is_named() {
        let root = tempfile::tempdir().unwrap();
        let ours = root.path().join("v1");
        claim(&ours, "s").unwrap();
        fs::write(ours.join("a.edb"), "x").unwrap();
        fs::write(ours.join("holiday.jpg"), "x").unwrap();
        let outside = root.path().join("outside.edb");
        fs::write(&outside, "x").unwrap();
        std::os::unix::fs::symlink(root.path(), ours.join("link")).unwrap();
        let cleaned = clean(&ours, &|path| path.extension().is_some_and(|e| e == "edb"), false).unwrap();
        assert_eq!(cleaned.files, [ours.join("a.edb")]);
        assert_eq!(cleaned.kept, [ours.join("holiday.jpg"), ours.join("link")]);
        assert!(ours.join("holiday.jpg").exists() && outside.exists() && ours.join(MARKER).exists());
    }
}

//! New files beside the solution file.
//!
//! Invariants
//! 1. A name has no parts of a path, so that nothing is written anywhere else.
//! 2. Nothing that exists is written to, links included.

use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Longest file name that a page may choose, bytes.
const NAME_MAX: usize = 100;

/// Reason why a file was not written, or not all files.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The name is not allowed; with the reason.
    #[error("`{0}` is no name for this: {1}")]
    Name(String, &'static str),
    /// It exists.
    #[error("{0} exists, and nothing is overwritten; choose another name")]
    Exists(PathBuf),
    /// The system refuses.
    #[error("cannot write {0}: {1}")]
    System(PathBuf, io::Error),
}

/// Writes a new solution file into a folder. Returns its path.
///
/// # Errors
/// The name is not allowed or exists already.
pub fn save(folder: &Path, name: &str, text: &str) -> Result<PathBuf, WriteError> {
    if !name.ends_with(".toml") {
        return Err(WriteError::Name(name.to_owned(), "end it in .toml"));
    }
    let path = folder.join(checked(name)?);
    write_new(&path, text)?;
    Ok(path)
}

/// Creates a new folder `name` with these files in a folder. Returns its path.
///
/// # Errors
/// The name is not allowed or exists already.
pub fn export(folder: &Path, name: &str, files: &[(&str, String)]) -> Result<PathBuf, WriteError> {
    let path = folder.join(checked(name)?);
    DirBuilder::new().create(&path).map_err(|error| told(&path, error))?;
    for (name, text) in files {
        write_new(&path.join(name), text)?;
    }
    Ok(path)
}

/// Returns the name if a page may choose it: one path component without special characters.
fn checked(name: &str) -> Result<&str, WriteError> {
    let wrong = |why| Err(WriteError::Name(name.to_owned(), why));
    if name.is_empty() || name.len() > NAME_MAX {
        return wrong("give one of 1 to 100 bytes");
    }
    if name.starts_with('.') || name.trim() != name {
        return wrong("it must begin with a letter or digit, and must not end in a space");
    }
    if name.chars().any(|c| c.is_control() || "/\\:*?\"<>|".contains(c)) {
        return wrong("leave out / \\ : * ? \" < > | and control characters");
    }
    Ok(name)
}

fn write_new(path: &Path, text: &str) -> Result<(), WriteError> {
    let written = File::create_new(path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| told(path, error))
}

fn told(path: &Path, error: io::Error) -> WriteError {
    match error.kind() {
        ErrorKind::AlreadyExists => WriteError::Exists(path.to_owned()),
        _ => WriteError::System(path.to_owned(), error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parts_of_a_path_are_refused_and_nothing_is_written() {
        let folder = tempfile::tempdir().expect("writable");
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).expect("writable");
        let long = "x".repeat(NAME_MAX + 1);
        for name in ["", ".", "..", "../a", "a/b", "/tmp/a", "a\\b", "C:a", ".hidden", " a", "a\n", &*long] {
            assert!(matches!(export(&inner, name, &[]), Err(WriteError::Name(..))), "{name:?}");
            let name = format!("{name}.toml");
            let saved = save(&inner, &name, "x");
            assert!(matches!(saved, Err(WriteError::Name(..))) || name == "a\n.toml", "{name:?}: {saved:?}");
        }
        assert!(matches!(save(&inner, "plan.txt", "x"), Err(WriteError::Name(..))));
        assert_eq!(std::fs::read_dir(&inner).expect("readable").count(), 0);
        assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 1);
    }

    #[test]
    fn what_exists_is_never_written_to() {
        let folder = tempfile::tempdir().expect("writable");
        let target = folder.path().join("target");
        std::os::unix::fs::symlink(&target, folder.path().join("link.toml")).expect("writable");
        let saved = save(folder.path(), "new.toml", "one").expect("it is new");
        assert_eq!(std::fs::read_to_string(&saved).expect("readable"), "one");
        for name in ["new.toml", "link.toml"] {
            assert!(matches!(save(folder.path(), name, "two"), Err(WriteError::Exists(_))), "{name}");
        }
        assert_eq!(std::fs::read_to_string(&saved).expect("readable"), "one");
        assert!(!target.exists(), "a link is not followed");
        let files = [("a", "A".to_owned())];
        let made = export(folder.path(), "made", &files).expect("it is new");
        assert_eq!(std::fs::read_to_string(made.join("a")).expect("readable"), "A");
        assert!(matches!(export(folder.path(), "made", &files), Err(WriteError::Exists(_))));
    }
}

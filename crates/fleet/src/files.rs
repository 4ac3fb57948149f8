//! Files that outlive a process: written whole or not at all, named by names that cannot lead elsewhere.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use evidence::{FILE_VERSION, FileVersion};
use ring::digest::{Context, SHA256};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::message::{EvidenceFile, Program};

/// Whether a name that came over the network may become a file or folder name.
pub fn is_plain_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && name.len() <= 128 && !name.starts_with('.') && name.chars().all(plain)
}

/// Replaces `path` by the JSON of `value`, durably: after a crash there is the old file or the new one.
pub fn replace_json<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer_pretty(&mut file, value)?;
    file.write_all(b"\n")?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    File::open(folder)?.sync_all()
}

/// Reads what [`replace_json`] wrote; `None` if there is no file.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces `path` by a state with its version, durably.
pub fn replace_state<T: Serialize>(path: &Path, state: &T) -> io::Result<()> {
    #[derive(Serialize)]
    struct Versioned<'a, T> {
        version: u32,
        #[serde(flatten)]
        state: &'a T,
    }
    replace_json(path, &Versioned { version: FILE_VERSION, state })
}

/// Reads what [`replace_state`] wrote; `None` if there is no file.
///
/// # Errors
/// Among others, [`io::ErrorKind::InvalidData`] for a state of a version that this program does not read.
pub fn read_state<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    if let Some(version) = read_json::<FileVersion>(path)? {
        version.check().map_err(|version| io::Error::new(io::ErrorKind::InvalidData, version))?;
    }
    read_json(path)
}

/// Lists the regular files of a folder by name, with size and digest. The folder may be missing.
pub fn describe(folder: &Path) -> io::Result<Vec<EvidenceFile>> {
    let mut files = Vec::new();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if entry.file_type()?.is_file() && is_plain_name(&name) {
            files.push(describe_file(&entry.path(), name)?);
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

/// Size and digest of a file.
pub fn describe_file(path: &Path, name: String) -> io::Result<EvidenceFile> {
    let (mut file, mut hash, mut buffer) = (File::open(path)?, Context::new(&SHA256), vec![0; 1 << 20]);
    let mut bytes = 0;
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
        bytes += read as u64;
    }
    let sha256 = hash.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(EvidenceFile { name, bytes, sha256 })
}

impl Program {
    /// Version and build of the running program.
    ///
    /// # Errors
    /// The executable file cannot be read.
    pub fn running(version: &str, build: &str) -> io::Result<Program> {
        // Linux keeps this file as it was when the program started, even if another one has taken its place since.
        let file = describe_file(Path::new("/proc/self/exe"), String::new())?;
        Ok(Program { version: version.to_owned(), build: format!("{build}, SHA-256 {}", file.sha256) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_of_an_unknown_version_is_refused_and_one_without_version_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.json");
        let state = std::collections::BTreeMap::from([("epoch".to_owned(), 7)]);
        replace_state(&path, &state).unwrap();
        let written = fs::read_to_string(&path).unwrap();
        assert!(written.contains("\"version\": 1"), "{written}");
        fs::write(&path, written.replace("\"version\": 1", "\"version\": 2")).unwrap();
        let error = read_state::<serde_json::Value>(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(error.to_string(), "it has version 2; this program reads version 1");
        replace_json(&path, &state).unwrap();
        assert_eq!(read_state(&path).unwrap(), Some(state));
    }

    #[test]
    fn names_from_the_network_stay_in_their_folder() {
        for bad in ["", ".", "..", "../x", "a/b", "/etc/passwd", ".hidden", "a\0b", "a b", "ä"] {
            assert!(!is_plain_name(bad), "{bad:?}");
        }
        assert!(is_plain_name("run.db") && is_plain_name("20261121-094500-laptop"));
    }

    #[test]
    fn a_description_is_of_the_contents() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b"), "abc").unwrap();
        fs::write(folder.path().join("a"), "").unwrap();
        fs::create_dir(folder.path().join("c")).unwrap();
        let files = describe(folder.path()).unwrap();
        assert_eq!(
            files.iter().map(|file| (&*file.name, file.bytes)).collect::<Vec<_>>(),
            [("a", 0), ("b", 3)]
        );
        assert_eq!(files[1].sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}

//! Files and directories by their names: blocking calls, for the thread pool and for hosts that wrap the real one.

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::failure::failed;
use crate::{Entry, Error, ErrorKind, OpenMode, Result};

/// Opens or creates a file, unbuffered if `direct`.
pub fn open(path: &str, mode: OpenMode, direct: bool) -> Result<fs::File> {
    let options = |flags: i32| {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(mode != OpenMode::Read).custom_flags(flags);
        options
    };
    if !direct {
        let opened = options(0).create_new(mode == OpenMode::CreateNew).open(path);
        return opened.map_err(|cause| failed("open", path, &cause));
    }
    if mode == OpenMode::CreateNew {
        // Some file systems create the file before they refuse O_DIRECT. Creating it first tells that it is
        // ours to remove.
        options(0).create_new(true).open(path).map_err(|cause| failed("create", path, &cause))?;
    }
    options(libc::O_DIRECT).open(path).map_err(|cause| {
        if mode == OpenMode::CreateNew {
            let _ = fs::remove_file(path);
        }
        if cause.raw_os_error() != Some(libc::EINVAL) {
            return failed("open", path, &cause);
        }
        Error {
            kind: ErrorKind::Unsupported,
            operation: "open".into(),
            path: path.into(),
            reason: "the file system refuses unbuffered I/O (O_DIRECT); use another file system, or ask for \
                     buffered I/O, which measures the page cache too"
                .into(),
        }
    })
}

/// Creates a directory.
pub fn create_dir(path: &str) -> Result<()> {
    fs::create_dir(path).map_err(|cause| failed("create directory", path, &cause))
}

/// Entries of a directory.
pub fn list(path: &str) -> Result<Vec<Entry>> {
    let list = || -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let name = entry.file_name().into_string().map_err(|name| {
                io::Error::new(io::ErrorKind::InvalidData, format!("the name {name:?} is not UTF-8"))
            })?;
            // A file that is removed while we read its directory is not there.
            if let Some(entry) = describe(&entry.path(), name)? {
                entries.push(entry);
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    };
    list().map_err(|cause| failed("list", path, &cause))
}

/// Entry under a name, if there is one.
pub fn entry(path: &str) -> Result<Option<Entry>> {
    let name = Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path);
    describe(Path::new(path), name.into()).map_err(|cause| failed("look up", path, &cause))
}

fn describe(path: &Path, name: String) -> io::Result<Option<Entry>> {
    let metadata = match fs::symlink_metadata(path) {
        // A link counts as what it points to; a dangling one as an empty file, so that its name is known to be taken.
        Ok(link) if link.is_symlink() => fs::metadata(path).unwrap_or(link),
        Ok(metadata) => metadata,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(cause),
    };
    let is_dir = metadata.is_dir();
    Ok(Some(Entry { name, bytes: if metadata.is_file() { metadata.len() } else { 0 }, is_dir }))
}

/// Renames a file.
pub fn rename(from: &str, to: &str) -> Result<()> {
    fs::rename(from, to).map_err(|cause| failed(format!("rename to {to} the file"), from, &cause))
}

/// Removes a file.
pub fn remove(path: &str) -> Result<()> {
    let remove = || {
        if fs::symlink_metadata(path)?.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) }
    };
    remove().map_err(|cause| failed("remove", path, &cause))
}

/// Makes the names of a directory durable.
pub fn sync_dir(path: &str) -> Result<()> {
    let sync = || fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(path)?.sync_all();
    sync().map_err(|cause| failed("sync directory", path, &cause))
}

/// Bytes that an unprivileged user may still write to the file system of `path`.
pub fn free_bytes(path: &str) -> Result<u64> {
    let ask = || -> io::Result<u64> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    };
    ask().map_err(|cause| failed("ask the free space of", path, &cause))
}

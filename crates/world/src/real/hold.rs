//! Waits until the last process has let go of a file.
//!
//! A process that was killed is gone before its I/O is: writes that io_uring had submitted still reach the disk, on
//! slow storage seconds later, and would land on top of what the next process wrote. An open file keeps its lock
//! (`flock`) until the kernel has ended its last I/O, so a process that gets the lock of a file knows that no such
//! write comes.
//!
//! Invariants
//! 1. Every file that this process has open for writing is locked as shared by each of its open descriptions.
//! 2. A file that this process does not yet have open for writing is opened only after it could be locked as exclusive.
//!
//! Limits: advisory, so only processes of this program see it. A file system without `flock` is not guarded; of NFS
//! only files that are opened for writing are.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::failure::failed;
use super::lock::lock;
use crate::{Error, ErrorKind, OpenMode, Result};

/// Time after which a file that another process has open is given up.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Interval between two attempts to lock a file.
const ATTEMPT_EVERY: Duration = Duration::from_millis(5);

/// Device and number of a file.
type Id = (u64, u64);

/// Files that this process has open for writing, each with its number of open descriptions.
static HELD: Mutex<BTreeMap<Id, usize>> = Mutex::new(BTreeMap::new());

/// Open file. Other processes wait until its last I/O has ended.
#[derive(Debug)]
pub(super) struct HeldFile {
    file: File,
    /// The file in [`HELD`]; `None` of a file that is only read.
    held: Option<Id>,
}

impl HeldFile {
    /// Takes a file that was opened in this mode. Waits for at most `patience` until no other process has it open for
    /// writing, and its last I/O has ended.
    pub fn new(file: File, path: &str, mode: OpenMode, patience: Duration) -> Result<HeldFile> {
        let metadata = file.metadata().map_err(|cause| failed("open", path, &cause))?;
        let id = (metadata.dev(), metadata.ino());
        let began = Instant::now();
        loop {
            // While the table is locked no other thread of this process tries the same file.
            let mut held = lock(&HELD);
            let is_ours = held.contains_key(&id);
            if is_ours || lock_alone(&file).map_err(|cause| failed("lock", path, &cause))? {
                let is_read = mode == OpenMode::Read;
                let kept =
                    if is_read { FlockOperation::Unlock } else { FlockOperation::NonBlockingLockShared };
                without_locks(flock(&file, kept)).map_err(|cause| failed("lock", path, &cause))?;
                if !is_read {
                    *held.entry(id).or_insert(0) += 1;
                }
                return Ok(HeldFile { file, held: (!is_read).then_some(id) });
            }
            drop(held);
            if began.elapsed() >= patience {
                return Err(used_elsewhere(path, patience));
            }
            std::thread::sleep(ATTEMPT_EVERY);
        }
    }

    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl AsFd for HeldFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        let Some(id) = self.held else { return };
        let mut held = lock(&HELD);
        if let Some(count) = held.get_mut(&id) {
            *count -= 1;
            if *count == 0 {
                held.remove(&id);
            }
        }
    }
}

/// Locks the file as exclusive; false if another description has it locked. A file system without locks is free.
fn lock_alone(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(false),
        result => without_locks(result).map(|()| true),
    }
}

/// The result of a lock, where file systems without locks, and NFS for files that are only read, count as locked.
fn without_locks(result: rustix::io::Result<()>) -> io::Result<()> {
    match result {
        Err(Errno::NOSYS | Errno::NOTSUP | Errno::NOLCK | Errno::BADF | Errno::INVAL) => Ok(()),
        result => result.map_err(io::Error::from),
    }
}

fn used_elsewhere(path: &str, patience: Duration) -> Error {
    Error {
        kind: ErrorKind::InUse,
        operation: "open".into(),
        path: path.into(),
        reason: format!(
            "another process has had it open for {} s, or its last I/O has not ended: end that process, or wait for \
             the storage",
            patience.as_secs()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Duration = Duration::from_millis(20);

    /// Opens the file as another process does: the lock is on a description that [`HELD`] does not know.
    fn other_process(path: &str) -> File {
        let file = File::options().read(true).write(true).open(path).unwrap();
        flock(&file, FlockOperation::NonBlockingLockShared).unwrap();
        file
    }

    fn open(path: &str, mode: OpenMode, patience: Duration) -> Result<HeldFile> {
        let file = File::options().read(true).write(mode != OpenMode::Read).open(path).unwrap();
        HeldFile::new(file, path, mode, patience)
    }

    #[test]
    fn a_file_is_opened_when_the_last_io_of_another_process_has_ended() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        for mode in [OpenMode::Read, OpenMode::ReadWrite] {
            let other = other_process(path);
            assert_eq!(open(path, mode, MOMENT).unwrap_err().kind, ErrorKind::InUse);
            std::thread::spawn(move || {
                std::thread::sleep(MOMENT);
                drop(other);
            });
            open(path, mode, PATIENCE).unwrap();
        }
    }

    #[test]
    fn a_process_opens_its_own_file_as_often_as_it_wants_and_others_wait_for_each() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let first = open(path, OpenMode::ReadWrite, MOMENT).unwrap();
        let second = open(path, OpenMode::ReadWrite, MOMENT).unwrap();
        let reader = open(path, OpenMode::Read, MOMENT).unwrap();
        let is_free = || lock_alone(&File::open(path).unwrap()).unwrap();
        drop(first);
        assert!(!is_free(), "the second is open");
        drop(second);
        assert!(is_free(), "a reader holds nothing");
        drop(reader);
        let again = open(path, OpenMode::ReadWrite, MOMENT).unwrap();
        assert_eq!(again.held, open(path, OpenMode::ReadWrite, MOMENT).unwrap().held);
    }
}

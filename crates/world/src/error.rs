//! What can go wrong outside the program.

use crate::{Duration, Time};

/// A failed operation: what was tried, on what, and why it failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot {operation} {path}: {reason}")]
pub struct Error {
    /// Kind of the failure, on which callers decide.
    pub kind: ErrorKind,
    /// Failed operation, as a verb: "open", "read 32768 bytes at 65536 of", "sync".
    pub operation: String,
    /// Path of the file or directory, or address.
    pub path: String,
    /// Text of the operating system's error.
    pub reason: String,
}

/// Kinds of failure that code above decides on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file, directory or listener does not exist.
    NotFound,
    /// The name already exists.
    AlreadyExists,
    /// The volume is full.
    NoSpace,
    /// The file ended before the buffers were full.
    ShortRead,
    /// Fewer bytes were written than given.
    ShortWrite,
    /// Another process has the file open.
    InUse,
    /// The process lacks the permission.
    PermissionDenied,
    /// The file system does not support unbuffered I/O.
    Unsupported,
    /// The device or the system reported an I/O error. The data may still exist, because a path to the device may have
    /// failed.
    Io,
    /// The device cannot read its medium, or the file system reports that it is damaged.
    Damaged,
    /// The connection was refused, reset or cut.
    Disconnected,
    /// The monotonic clock jumped.
    ClockJumped {
        /// Last time at which the clock was right.
        at: Time,
        /// Size of the jump, ahead or back.
        by: Duration,
    },
}

/// Result of an operation of the world.
pub type Result<T> = std::result::Result<T, Error>;

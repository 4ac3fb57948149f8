//! What can go wrong outside the program.

use crate::{Duration, Time};

/// A failed operation: what was tried, on what, and why it failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot {operation} {path}: {reason}")]
pub struct Error {
    /// What kind of failure it is, to decide on.
    pub kind: ErrorKind,
    /// A verb: "open", "read 32768 bytes at 65536 of", "sync".
    pub operation: String,
    /// File, directory or address.
    pub path: String,
    /// The system's own words.
    pub reason: String,
}

/// Kinds of failure that code above decides on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No such file, directory or listener.
    NotFound,
    /// The name is taken.
    AlreadyExists,
    /// The volume is full.
    NoSpace,
    /// The file ended before the buffers were full.
    ShortRead,
    /// Fewer bytes were written than given.
    ShortWrite,
    /// The caller may not do this.
    PermissionDenied,
    /// The file system cannot do this: unbuffered I/O.
    Unsupported,
    /// The device or the system reports an I/O error. The data may be there still: a path to the device may
    /// have failed.
    Io,
    /// The device cannot read its medium, or the file system says that it is damaged itself.
    Damaged,
    /// A connection was refused, reset or cut.
    Disconnected,
    /// The clock that times everything jumped.
    ClockJumped {
        /// When it was last right.
        at: Time,
        /// How far it jumped, ahead or back.
        by: Duration,
    },
}

/// Result of a world operation.
pub type Result<T> = std::result::Result<T, Error>;

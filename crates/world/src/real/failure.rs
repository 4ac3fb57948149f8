//! Errors of the operating system in the words of [`Error`].

use std::io;

use crate::{Error, ErrorKind};

/// An [`Error`] for a failed system operation.
pub(super) fn failed(operation: impl Into<String>, path: &str, cause: &io::Error) -> Error {
    Error { kind: kind_of(cause), operation: operation.into(), path: path.into(), reason: cause.to_string() }
}

fn kind_of(cause: &io::Error) -> ErrorKind {
    match cause.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => return ErrorKind::NoSpace,
        Some(libc::EROFS) => return ErrorKind::PermissionDenied,
        _ => {}
    }
    match cause.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
        io::ErrorKind::StorageFull => ErrorKind::NoSpace,
        io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
        _ => ErrorKind::Io,
    }
}

//! Errors of the operating system in the words of [`Error`].

use std::io;

use crate::{Error, ErrorKind};

/// Builds an [`Error`] from a failed system call.
pub fn failed(operation: impl Into<String>, path: &str, cause: &io::Error) -> Error {
    Error { kind: kind_of(cause), operation: operation.into(), path: path.into(), reason: cause.to_string() }
}

fn kind_of(cause: &io::Error) -> ErrorKind {
    match cause.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => return ErrorKind::NoSpace,
        // Linux: a damaged file system (EUCLEAN, EBADMSG), an unreadable sector (ENODATA), wrong protection
        // data (EILSEQ).
        Some(libc::EUCLEAN | libc::EBADMSG | libc::ENODATA | libc::EILSEQ) => return ErrorKind::Damaged,
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

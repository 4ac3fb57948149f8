//! The evidence of a run: `run.db`, the report in its forms, the environment, and the folders that a run may touch.
#![allow(
    clippy::disallowed_methods,
    reason = "this crate faces the operating system: files, clock and one thread"
)]

pub mod attestation;
pub mod csv;
pub mod environment;
mod file_version;
pub mod folder;
pub mod listing;
pub mod live;
pub mod markup;
mod merge;
pub mod report;
mod run_data;
mod store;

/// Characters that a path in a URL holds unescaped; all others become a percent sign and their hexadecimal value.
const IN_PATHS: percent_encoding::AsciiSet =
    percent_encoding::NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_');

/// An absolute path as a `file:` URL.
pub fn file_url(path: &std::path::Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    format!("file://{}", percent_encoding::percent_encode(path.as_os_str().as_bytes(), &IN_PATHS))
}

/// Milliseconds between two samples of a host. A slice of less than half of that is too short for a rate of its own:
/// it joins a neighbour.
const HOST_INTERVAL_MS: u64 = 1_000;

pub use file_version::{FILE_VERSION, FileVersion, UnknownVersion, first_version};
pub use merge::{Expected, HostRuns, IN_STEP_MS};
pub use report::{Report, ReportError};
pub use run_data::{CounterPoint, Point, RunData, SeriesKey, Slice};
pub use store::{
    Broken, BrokenKind, Cell, Chain, KeyError, Query, RunStore, SCHEMA as SQL_SCHEMA, SigningKey, StoreError,
    check, keys, load, misfit, public_key, sha256_hex,
};

#[cfg(test)]
mod tests {
    #[test]
    fn a_path_of_any_characters_is_a_url() {
        let url = super::file_url(std::path::Path::new("/a b/ä#?%.html"));
        assert_eq!(url, "file:///a%20b/%C3%A4%23%3F%25.html");
    }
}

//! The version in files that the program keeps for itself: markers of folders, credentials, the state of a fleet.
//!
//! Files of builds before release 0.2.0 carry no version. They are of the first one.

use serde::Deserialize;

/// The version that this program writes, and the only one that it reads.
pub const FILE_VERSION: u32 = 1;

/// Version of a file that carries none.
pub const fn first_version() -> u32 {
    1
}

/// What of a file is read first: another version may have other contents.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct FileVersion {
    #[serde(default = "first_version")]
    version: u32,
}

/// A file of a version that this program does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it has version {0}; this program reads version {FILE_VERSION}")]
pub struct UnknownVersion(pub u32);

impl FileVersion {
    /// Refuses a version that this program does not read.
    ///
    /// # Errors
    /// With the version.
    pub fn check(self) -> Result<(), UnknownVersion> {
        if self.version == FILE_VERSION { Ok(()) } else { Err(UnknownVersion(self.version)) }
    }
}

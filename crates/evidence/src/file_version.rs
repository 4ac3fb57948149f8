//! The version in files that the program keeps for itself: markers of folders, credentials, the state of a fleet.
//!
//! Files of builds before release 0.2.0 carry no version. They are of the first one.

use serde::Deserialize;

/// File version that this program writes, and the only one that it reads.
pub const FILE_VERSION: u32 = 1;

/// Version of a file that states none.
pub const fn first_version() -> u32 {
    1
}

/// The version field of a file, read before the rest, because another version may have other fields.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct FileVersion {
    #[serde(default = "first_version")]
    version: u32,
}

/// The file has a version that this program does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it has version {0}; this program reads version {FILE_VERSION}")]
pub struct UnknownVersion(pub u32);

impl FileVersion {
    /// Checks the version of a file: refuses one that this program does not read.
    ///
    /// # Errors
    /// With the version.
    pub fn check(self) -> Result<(), UnknownVersion> {
        if self.version == FILE_VERSION { Ok(()) } else { Err(UnknownVersion(self.version)) }
    }
}

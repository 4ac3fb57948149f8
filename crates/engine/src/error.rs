//! What an instance can answer instead of a result.

/// Error of an engine operation.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file operation failed.
    #[error(transparent)]
    World(#[from] world::Error),
    /// Another open transaction changed the row first: roll back and try again.
    #[error("another transaction has changed this row and is still open")]
    Conflict,
    /// A row with this key exists.
    #[error("a row with this key exists")]
    Duplicate,
    /// There is no row with this key.
    #[error("there is no row with this key")]
    NotFound,
    /// A database page failed a check.
    #[error("page {pgno} of {path} is damaged: {reason}")]
    DamagedPage {
        /// Path of the database file.
        path: String,
        /// Page number.
        pgno: u32,
        /// Result of the check.
        reason: String,
    },
    /// A header, checkpoint or log failed a check.
    #[error("{path} is damaged: {reason}")]
    DamagedFile {
        /// Path of the file.
        path: String,
        /// Result of the check.
        reason: String,
    },
    /// A log generation that recovery or a database needs is missing.
    #[error("log generation {generation} in {directory} is needed but missing")]
    MissingLog {
        /// The log directory.
        directory: String,
        /// Number of the missing generation.
        generation: u32,
    },
    /// The log ends before the place where an instance left it.
    #[error(
        "the log in {directory} ends before generation {generation}, segment {segment}, up to which it was durable when the last \
         run left it for recovery: put the log files back, or remove the databases with `proofload clean` and make new ones"
    )]
    LogCutOff {
        /// The log directory.
        directory: String,
        /// Generation in which the log ends.
        generation: u32,
        /// Segment of that generation at which it ends.
        segment: u16,
    },
    /// A closed database is not the one that its log closed last.
    #[error(
        "{path} is not the database that its log stream closed: it was replaced by another file or by an older copy of itself; \
         put the right file back, or remove the databases with `proofload clean` and make new ones"
    )]
    NotAsLeft {
        /// Path of the database file.
        path: String,
    },
    /// The volume has no space for the next log. Open transactions can still be committed or rolled back, and the
    /// instance can be closed.
    #[error(
        "no space for the next log in {directory}: close the instance, make room there, and open it again"
    )]
    LogVolumeFull {
        /// The log directory.
        directory: String,
    },
    /// Numbers that are given once are used up, or nearly. Open transactions can still be committed or rolled back,
    /// and the instance can be closed.
    #[error("the {what} of {of} are used up: {remedy}")]
    NumbersUsedUp {
        /// Kind of the numbers.
        what: &'static str,
        /// Log directory or database whose numbers are used up.
        of: String,
        /// Remedy that gives new numbers.
        remedy: &'static str,
    },
    /// The request contradicts the state of the instance or its files.
    #[error("{0}")]
    Refused(String),
    /// An earlier failure stopped the instance for good.
    #[error("the instance has stopped: {0}")]
    Stopped(String),
}

impl Error {
    pub(crate) fn generations_used_up(directory: &str) -> Error {
        let remedy = "close the instance, move its logs and its checkpoint away, and open it again: a new stream begins at 1";
        Error::NumbersUsedUp { what: "log generations", of: directory.to_owned(), remedy }
    }

    /// Whether a read passed the end of its file.
    pub(crate) fn is_short_read(&self) -> bool {
        matches!(self, Error::World(error) if error.kind == world::ErrorKind::ShortRead)
    }
}

/// Result of an engine operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

//! What an instance can answer instead of a result.

/// A failed engine operation.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file operation failed.
    #[error(transparent)]
    World(#[from] world::Error),
    /// Another open transaction changed the row first; roll back and try again.
    #[error("another transaction has changed this row and is still open")]
    Conflict,
    /// A row with this key exists.
    #[error("a row with this key exists")]
    Duplicate,
    /// There is no row with this key.
    #[error("there is no row with this key")]
    NotFound,
    /// A database page is not what the engine wrote there.
    #[error("page {pgno} of {path} is damaged: {reason}")]
    DamagedPage {
        /// Database file.
        path: String,
        /// Page number.
        pgno: u32,
        /// What the check found.
        reason: String,
    },
    /// A header, a checkpoint or a log is not what the engine wrote there.
    #[error("{path} is damaged: {reason}")]
    DamagedFile {
        /// The file.
        path: String,
        /// What the check found.
        reason: String,
    },
    /// A log generation that recovery or a database needs is not there.
    #[error("log generation {generation} in {directory} is needed but missing")]
    MissingLog {
        /// The log directory.
        directory: String,
        /// Its number.
        generation: u32,
    },
    /// The log ends before where an instance left it.
    #[error(
        "the log in {directory} ends before generation {generation}, segment {segment}, up to which it was durable when the last \
         run left it for recovery: put the log files back, or remove the databases with `proofload clean` and make new ones"
    )]
    LogCutOff {
        /// The log directory.
        directory: String,
        /// Where it ended.
        generation: u32,
        /// Where in that generation.
        segment: u16,
    },
    /// A closed database lacks changes of its log stream.
    #[error(
        "{path} is not the database that its log stream closed: it was replaced by another file or by an older copy of itself; \
         put the right file back, or remove the databases with `proofload clean` and make new ones"
    )]
    NotAsLeft {
        /// The file.
        path: String,
    },
    /// There is no space for the next log. What is open can still be committed or rolled back, and the instance closed.
    #[error(
        "no space for the next log in {directory}: close the instance, make room there, and open it again"
    )]
    LogVolumeFull {
        /// The log directory.
        directory: String,
    },
    /// Numbers that are never given twice are used up, or nearly. What is open can still be committed or rolled
    /// back, and the instance closed.
    #[error("the {what} of {of} are used up: {remedy}")]
    NumbersUsedUp {
        /// Which numbers.
        what: &'static str,
        /// The log directory or the database.
        of: String,
        /// What gives new ones.
        remedy: &'static str,
    },
    /// What was asked for contradicts the state of the instance or its files.
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

    /// Whether a read met the end of its file.
    pub(crate) fn is_short_read(&self) -> bool {
        matches!(self, Error::World(error) if error.kind == world::ErrorKind::ShortRead)
    }
}

/// Result of an engine operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

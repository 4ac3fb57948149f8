//! The log stream of an instance: records in segments in generations of log files. Their bytes are `edb::log`'s
//! business.

pub(crate) mod reader;
pub(crate) mod reserve;
pub(crate) mod store;
pub(crate) mod writer;

use edb::log::DATA_START;
pub(crate) use edb::log::{LogPosition, LogTime, SEGMENT_BYTES, Signature};
use world::{PageBuf, World};

/// Position after every other.
pub(crate) const POSITION_END: LogPosition = LogPosition::new(u32::MAX, u16::MAX, u16::MAX);

/// Calendar time in the form of the log format.
pub(crate) fn log_time(world: &World) -> LogTime {
    LogTime::from_unix_ms(u64::try_from(world.wall_clock().unix_ms).unwrap_or(0))
}

/// Position of the first record in a segment.
fn data_start(segment: LogPosition) -> LogPosition {
    LogPosition::new(segment.generation(), segment.segment(), DATA_START as u16)
}

/// Paths of the files of one log stream.
#[derive(Debug, Clone)]
pub(crate) struct LogNames {
    pub(crate) directory: String,
    names: edb::log::LogNames,
}

impl LogNames {
    pub(crate) fn new(directory: &str, base: &str) -> LogNames {
        LogNames { directory: directory.to_owned(), names: edb::log::LogNames::new(base) }
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    /// Path of the current log.
    pub(crate) fn current(&self) -> String {
        self.path(&self.names.current())
    }

    /// Path of a closed log.
    pub(crate) fn archive(&self, generation: u32) -> String {
        self.path(&self.names.closed(generation))
    }

    /// Path of the next log, in preparation.
    pub(crate) fn next(&self) -> String {
        self.path(&self.names.next())
    }

    /// Path of a reserve log.
    pub(crate) fn reserve(&self, number: u8) -> String {
        self.path(&self.names.reserve(number))
    }

    pub(crate) fn checkpoint(&self) -> String {
        self.path(&self.names.checkpoint())
    }

    /// Generation in the file name of a closed log (without directory).
    pub(crate) fn archive_generation(&self, name: &str) -> Option<u32> {
        self.names.generation_of(name)
    }

    pub(crate) fn is_current(&self, name: &str) -> bool {
        name == self.names.current()
    }
}

fn page_of(segment: &[u8; SEGMENT_BYTES]) -> PageBuf {
    PageBuf::copy_of(segment)
}

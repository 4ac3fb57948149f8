//! Where replay has its log from, and where it is to stop.

use edb::log::{LogHeader, SEGMENT_BYTES};
use results::IoClass;

use super::Recovery;
use crate::error::Result;
use crate::log::LogPosition;
use crate::log::reader::{LogContents, damaged};
use crate::log::store::{ShippedLog, read_stretch};

/// Source of the log to replay.
pub(crate) enum Source {
    /// Log files of an ended instance, from `next` on.
    Files {
        next: u32,
        /// Last of them; `None` when it has been read.
        current: Option<LogContents>,
        /// Memory for the next log: see [`LogContents::read_into`].
        memory: Vec<u8>,
    },
    /// Log that a passive copy has stored, from `next` up to the segment of `to`.
    Stored { next: LogPosition, to: LogPosition },
}

/// Log, or part of one, as read.
pub(crate) struct LogPart {
    pub(super) path: String,
    /// Beginning of its first segment.
    pub(super) from: LogPosition,
    /// Header, if the part begins with a log.
    pub(super) header: Option<LogHeader>,
    pub(super) segments: Segments,
}

pub(crate) enum Segments {
    /// Whole log file; only the last one may end in a torn write.
    File { log: LogContents, is_last: bool },
    /// Good segments; a log has `per_log`.
    Stored { stretch: ShippedLog, per_log: u16 },
}

impl Source {
    /// Keeps the memory of a decoded log for the next.
    pub(super) fn reuse(&mut self, used: Vec<u8>) {
        if let Source::Files { memory, .. } = self {
            *memory = used;
        }
    }
}

impl Recovery<'_> {
    /// Reads the next part of the log; `None` where replay is to stop.
    ///
    /// # Errors
    /// Failed I/O, or log that is missing or damaged.
    pub(super) async fn read_log(&self, source: &mut Source) -> Result<Option<LogPart>> {
        match source {
            Source::Files { next, current, memory } => {
                if current.as_ref().is_none_or(|current| *next >= current.header().generation) {
                    return Ok(current.take().map(|current| self.current_part(current)));
                }
                let (number, memory) = (*next, std::mem::take(memory));
                *next += 1;
                self.read_file(number, memory).await.map(Some)
            }
            Source::Stored { next, to } if *next >= *to => Ok(None),
            Source::Stored { next, to } => self.read_stored(next, *to).await.map(Some),
        }
    }

    /// Reads closed log `number` into `memory`.
    ///
    /// # Errors
    /// As [`Recovery::read_log`].
    pub(super) async fn read_file(&self, number: u32, memory: Vec<u8>) -> Result<LogPart> {
        let path = self.names.archive(number);
        if self.world.entry(&path).await?.is_none() {
            return Err(self.missing(number));
        }
        let (world, segments, class) = (self.world, self.segments, IoClass::LogRead);
        let log = LogContents::read_into(memory, world, &path, segments, self.counters, class).await?;
        let (from, header) = (LogPosition::new(number, 0, 0), Some(*log.header()));
        Ok(LogPart { path, from, header, segments: Segments::File { log, is_last: false } })
    }

    pub(super) fn current_part(&self, log: LogContents) -> LogPart {
        let header = *log.header();
        let from = LogPosition::new(header.generation, 0, 0);
        let segments = Segments::File { log, is_last: true };
        LogPart { path: self.names.current(), from, header: Some(header), segments }
    }

    async fn read_stored(&self, next: &mut LogPosition, to: LogPosition) -> Result<LogPart> {
        let (names, segments, from) = (self.names, self.segments, *next);
        let stretch = read_stretch(self.world, names, segments, self.counters, (from, to)).await?;
        let stretch = stretch.ok_or_else(|| self.missing(from.generation()))?;
        let path = names.archive(from.generation());
        let first = stretch.bytes.first_chunk::<SEGMENT_BYTES>().filter(|_| from.segment() == 0);
        let header = first.map(LogHeader::parse).transpose();
        let header = header.map_err(|damage| damaged(&path, &damage.to_string()))?;
        *next = stretch.end();
        Ok(LogPart { path, from, header, segments: Segments::Stored { stretch, per_log: segments } })
    }
}

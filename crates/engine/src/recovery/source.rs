//! Where replay has its log from, and where it is to stop.

use edb::log::{LogHeader, SEGMENT_BYTES};
use results::IoClass;

use super::Recovery;
use crate::error::Result;
use crate::log::LogPosition;
use crate::log::reader::{LogContents, damaged};
use crate::log::store::{LogStretch, read_stretch};

/// Log that is to be replayed.
pub(crate) enum Source {
    /// The log files that an ended instance has left, from `next` on.
    Files {
        next: u32,
        /// The last of them; `None` when it has been read.
        current: Option<LogContents>,
        /// For the next log: see [`LogContents::read_into`].
        memory: Vec<u8>,
    },
    /// What a passive copy has stored, from `next` up to the segment of `to`.
    Stored { next: LogPosition, to: LogPosition },
}

/// A log, or a part of one, as it was read.
pub(crate) struct LogPart {
    pub(super) path: String,
    /// The beginning of its first segment.
    pub(super) from: LogPosition,
    /// If it begins with a log.
    pub(super) header: Option<LogHeader>,
    pub(super) segments: Segments,
}

pub(crate) enum Segments {
    /// A whole log file; only the last one may end in a torn write.
    File { log: LogContents, is_last: bool },
    /// Good ones. A log has `per_log`.
    Stored { stretch: LogStretch, per_log: u16 },
}

impl Source {
    /// The memory of a log that has been decoded.
    pub(super) fn reuse(&mut self, used: Vec<u8>) {
        if let Source::Files { memory, .. } = self {
            *memory = used;
        }
    }
}

impl Recovery<'_> {
    /// The next part of the log; `None` where replay is to stop.
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

    /// The closed log `number`, read into `memory`.
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

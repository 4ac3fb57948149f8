//! Reading a log stream: which logs exist, whether they belong together, what they say.
//!
//! Invariants
//! 1. A log belongs to the stream iff its signature, its generation and the creation time of the log before it fit.
//! 2. A torn tail is allowed only in the last log: reading ends at its first segment that is not usable. Anywhere else
//!    such a segment is damage. It is in the last log, too, if what lies behind proves that it was durable
//!    ([`LogContents::settle_end`]): then nothing is given up or wiped.
//! 3. A record is delivered whole and as it was written, or not at all: a segment's own checksum is a parity
//!    code that a torn write can pass. In the last log a wrong record is part of the torn tail, elsewhere it is
//!    damage.
//!
//! Limits: log files are read in pieces of at most 256 KiB (5 reads for a log of 1 MiB: its header is read alone).

use edb::log::{GENERATION_MAX, LogFile, LogHeader, LogHeaderDamage, Records, Rest};
use results::IoClass;
use world::{OpenMode, SECTOR_BYTES, World};

use super::{LogNames, LogPosition};
use crate::error::{Error, Result};
use crate::io::{Counters, IoFile};

/// Largest read of a log, bytes.
const READ_BYTES_MAX: usize = 256 << 10;

/// The log files that exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogFiles {
    /// Generations of the closed logs, ascending.
    pub(crate) archives: Vec<u32>,
    /// Whether there is a current log.
    pub(crate) current: bool,
}

/// Log that was read completely.
pub(crate) struct LogContents {
    file: LogFile,
    path: String,
}

/// End of the current log.
pub(crate) struct Ending {
    /// Whether the log ends before a valid segment, because a record in it differs from what was written.
    pub(crate) is_cut: bool,
    /// Segments behind the end.
    pub(crate) rest: Rest,
}

impl LogFiles {
    /// Lists the log directory.
    pub(crate) async fn find(world: &World, names: &LogNames) -> Result<LogFiles> {
        let entries = world.list(&names.directory).await?;
        let mut archives: Vec<u32> =
            entries.iter().filter_map(|entry| names.archive_generation(&entry.name)).collect();
        archives.sort_unstable();
        if let Some(strange) = archives.iter().find(|archive| !(1..=GENERATION_MAX).contains(*archive)) {
            return Err(damaged(&names.archive(*strange), "no log has such a number"));
        }
        let current = entries.iter().any(|entry| names.is_current(&entry.name));
        Ok(LogFiles { archives, current })
    }
}

/// Reads the header of a log; `None` if it is not intact.
pub(crate) async fn read_header(
    world: &World,
    path: &str,
    counters: &Counters,
    class: IoClass,
) -> Result<Option<LogHeader>> {
    let file = IoFile::open(world, path, OpenMode::Read, counters).await?;
    let page = file.read_one(class, 0, SECTOR_BYTES).await?;
    match page.as_slice().first_chunk().map(LogHeader::parse) {
        Some(Ok(header)) => Ok(Some(header)),
        Some(Err(
            other @ (LogHeaderDamage::Format { .. }
            | LogHeaderDamage::Generation { .. }
            | LogHeaderDamage::Records { .. }),
        )) => Err(Error::Refused(format!("{path} cannot be read: {other}"))),
        Some(Err(_)) | None => Ok(None),
    }
}

impl LogContents {
    /// Reads a whole log. Only its header must be intact; `next_segment` says how much of the rest is.
    pub(crate) async fn read(
        world: &World,
        path: &str,
        segments: u16,
        counters: &Counters,
        class: IoClass,
    ) -> Result<LogContents> {
        LogContents::read_into(Vec::new(), world, path, segments, counters, class).await
    }

    /// As [`Self::read`], into memory that was used before: the system would take back the memory of a log and clear
    /// it for the next.
    pub(crate) async fn read_into(
        mut bytes: Vec<u8>,
        world: &World,
        path: &str,
        segments: u16,
        counters: &Counters,
        class: IoClass,
    ) -> Result<LogContents> {
        let file = IoFile::open(world, path, OpenMode::Read, counters).await?;
        let end = usize::from(segments) * SECTOR_BYTES;
        bytes.clear();
        bytes.reserve(end);
        let mut piece = SECTOR_BYTES;
        while bytes.len() < end {
            let page = file.read_one(class, bytes.len() as u64, piece.min(end - bytes.len())).await?;
            bytes.extend_from_slice(page.as_slice());
            piece = READ_BYTES_MAX;
        }
        let file = world.compute(move || LogFile::read(bytes)).await;
        let file = file.map_err(|damage| damaged(path, &damage.to_string()))?;
        if file.header().segments != segments {
            return Err(damaged(
                path,
                &format!("it has {} segments, not {segments}", file.header().segments),
            ));
        }
        Ok(LogContents { file, path: path.to_owned() })
    }

    pub(crate) fn header(&self) -> &LogHeader {
        self.file.header()
    }

    /// Number of the first segment that is not usable.
    pub(crate) fn next_segment(&self) -> u16 {
        self.file.end()
    }

    /// Number of segments with a flipped bit that was corrected.
    pub(crate) fn corrected(&self) -> u16 {
        self.file.corrected()
    }

    /// Whether every segment with records is usable.
    pub(crate) fn is_complete(&self) -> bool {
        self.file.tail() == edb::log::Tail::Full
    }

    /// Ends the current log before its first segment that is not usable, or that contains a wrong record according to
    /// `records`, which has seen the logs before.
    ///
    /// # Errors
    /// If what lies behind proves that this segment was durable: the log does not end there, it is damaged.
    pub(crate) fn settle_end(&mut self, records: Option<&Records>) -> Result<Ending> {
        let is_cut = records.is_some_and(|records| self.file.cut_at_bad_record(records));
        match self.file.lost().filter(|_| !planted!(DamageTakenForTheEnd)) {
            Some(lost) => Err(damaged(&self.path, &lost.to_string())),
            None => Ok(Ending { is_cut, rest: self.file.rest() }),
        }
    }

    /// Bytes of the whole file, usable or not.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.file.into_bytes()
    }

    /// The usable segments behind the header, in order.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &[u8; SECTOR_BYTES]> {
        self.file.segments()
    }

    /// Calls `each` with every record that ends in this log and the position behind it.
    pub(crate) fn records(
        &self,
        assembler: &mut Records,
        mut each: impl FnMut(LogPosition, &[u8]),
    ) -> Result<()> {
        for segment in self.file.segments() {
            let pushed = assembler.push(segment, &mut each);
            pushed.map_err(|damage| damaged(&self.path, &damage.to_string()))?;
        }
        Ok(())
    }
}

pub(crate) fn damaged(path: &str, reason: &str) -> Error {
    Error::DamagedFile { path: path.to_owned(), reason: reason.to_owned() }
}

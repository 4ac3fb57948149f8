//! Segments in, records out.

use thiserror::Error;

use super::{
    AT_POSITION, DATA_START, LogHeader, LogHeaderDamage, LogPosition, RecordChain, SEGMENT_BYTES, frame,
    frame::NEXT_PIECE_HEADER,
};
use crate::bytes::{get_u16, get_u32};
use crate::checksum::{self, Verdict};

/// State of a segment of a log file, given its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// Segment of this log at its own place.
    Good,
    /// Segment of this log at its own place with a single flipped bit.
    Correctable,
    /// Never written: all zero.
    Empty,
    /// Intact segment of an older log, left from before the file was reused.
    Stale,
    /// None of these: torn, damaged, or from another place.
    Bad,
}

/// Judges segment `number` (from 1) of log `generation`.
pub fn judge_segment(bytes: &[u8; SEGMENT_BYTES], generation: u32, number: u16) -> SegmentState {
    let position = LogPosition::get(bytes, AT_POSITION);
    let own = LogPosition::new(generation, number, 0);
    match checksum::verify(bytes, number.into()) {
        Verdict::Ok if position == own => SegmentState::Good,
        Verdict::Ok if position.generation() < generation => SegmentState::Stale,
        Verdict::Uninitialised => SegmentState::Empty,
        Verdict::Correctable { .. } => {
            let mut copy = *bytes;
            checksum::correct(&mut copy, number.into());
            let fits = LogPosition::get(&copy, AT_POSITION) == own;
            if fits { SegmentState::Correctable } else { SegmentState::Bad }
        }
        _ => SegmentState::Bad,
    }
}

/// Segments behind the last usable segment of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// None: every segment that holds records is usable.
    Full,
    /// Segments that were never written.
    Empty,
    /// Segments of an older log.
    Stale,
    /// A segment that is neither usable nor one of the above: torn in the current log, damaged in others.
    Broken,
}

/// Reason why a file is not a usable log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LogDamage {
    /// The header is not usable.
    #[error("log header: {0}")]
    Header(#[from] LogHeaderDamage),
    /// The file is shorter than its header says.
    #[error("{bytes} bytes of a log of {segments} segments")]
    Short {
        /// Length of the file, bytes.
        bytes: usize,
        /// Length by the header, segments.
        segments: u16,
    },
    /// The bytes of a valid segment are not records.
    #[error("no record at {at:?}")]
    Record {
        /// Log position of the segment.
        at: LogPosition,
    },
    /// The checksum of a record is wrong, or a record before it is missing.
    #[error("the record before {at:?} has a wrong checksum, or one is missing before it")]
    RecordChecksum {
        /// Log position behind the record.
        at: LogPosition,
    },
}

/// Log file as a whole, with flipped bits corrected.
pub struct LogFile {
    pub(super) header: LogHeader,
    pub(super) bytes: Vec<u8>,
    pub(super) end: u16,
    tail: Tail,
    corrected: u16,
}

impl LogFile {
    /// Reads a log file.
    ///
    /// # Errors
    /// If it has no intact header or is shorter than that says. A broken tail is no error: see `tail`.
    pub fn read(mut bytes: Vec<u8>) -> Result<Self, LogDamage> {
        let short = |bytes: &[u8], segments| LogDamage::Short { bytes: bytes.len(), segments };
        let header = LogHeader::parse(bytes.first_chunk().ok_or_else(|| short(&bytes, 1))?)?;
        let (segments, _) = bytes.as_chunks_mut::<SEGMENT_BYTES>();
        let count = usize::from(header.segments);
        if count < 3 || segments.len() < count {
            return Err(short(&bytes, header.segments));
        }
        let (mut end, mut corrected, mut tail) = (header.segments - 1, 0, Tail::Full);
        for number in 1..header.segments - 1 {
            let index = usize::from(number);
            let state = judge_segment(&segments[index], header.generation, number);
            if state == SegmentState::Good {
                continue;
            }
            // A torn write of regular data can look like a single flipped bit. So a segment is corrected only
            // if the log goes on behind it.
            let next = judge_segment(&segments[index + 1], header.generation, number + 1);
            if state == SegmentState::Correctable && next == SegmentState::Good {
                checksum::correct(&mut segments[index], number.into());
                corrected += 1;
                continue;
            }
            tail = match state {
                SegmentState::Empty => Tail::Empty,
                SegmentState::Stale => Tail::Stale,
                _ => Tail::Broken,
            };
            end = number;
            break;
        }
        Ok(LogFile { header, bytes, end, tail, corrected })
    }

    /// Header of the log.
    pub fn header(&self) -> &LogHeader {
        &self.header
    }

    /// Number of the first segment that is not usable.
    pub fn end(&self) -> u16 {
        self.end
    }

    /// Ends the log before the first segment in which `records`, which has seen the logs before, finds a record that is
    /// not what was written. Returns whether there was one.
    pub fn cut_at_bad_record(&mut self, records: &Records) -> bool {
        let mut records = records.clone();
        let bad = self.segments().position(|segment| records.push(segment, |_, _| {}).is_err());
        if let Some(index) = bad {
            (self.end, self.tail) = (index as u16 + 1, Tail::Broken);
        }
        bad.is_some()
    }

    /// Segments behind the last usable one.
    pub fn tail(&self) -> Tail {
        self.tail
    }

    /// Number of segments with a flipped bit that was corrected.
    pub fn corrected(&self) -> u16 {
        self.corrected
    }

    /// Bytes of the file, with corrections.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Usable segments, in order.
    pub fn segments(&self) -> impl Iterator<Item = &[u8; SEGMENT_BYTES]> {
        let (segments, _) = self.bytes.as_chunks::<SEGMENT_BYTES>();
        segments[1..usize::from(self.end)].iter()
    }
}

/// Assembles records from segments, across segments and logs.
#[derive(Clone, Default)]
pub struct Records {
    partial: Vec<u8>,
    missing: usize,
    /// Log in which the unfinished record begins.
    begun_in: u32,
    chain: RecordChain,
    #[cfg(feature = "planted-bugs")]
    ignores_checksums: bool,
}

impl Records {
    /// Starts with the first segment of a log: at the begin of a record, or in the middle of one, which is then
    /// skipped.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether no record is unfinished.
    pub fn is_between_records(&self) -> bool {
        self.missing == 0
    }

    /// Chained checksum of the records so far; a builder that continues needs it.
    pub fn chain(&self) -> RecordChain {
        self.chain
    }

    /// For tests of tests: accepts wrong checksums.
    #[cfg(feature = "planted-bugs")]
    pub fn ignore_checksums(&mut self) {
        self.ignores_checksums = true;
    }

    /// Splits the next valid segment into records. Calls `each` for every record that ends there, with the position
    /// behind it.
    ///
    /// # Errors
    /// If the segment holds anything but records, or a record is not the one that was written there.
    pub fn push(
        &mut self,
        segment: &[u8; SEGMENT_BYTES],
        mut each: impl FnMut(LogPosition, &[u8]),
    ) -> Result<(), LogDamage> {
        let place = LogPosition::get(segment, AT_POSITION);
        let position = |byte: usize| LogPosition::new(place.generation(), place.segment(), byte as u16);
        let mut at = DATA_START;
        while at < SEGMENT_BYTES && segment[at] != frame::FILL {
            let damage = LogDamage::Record { at: position(at) };
            let header = match segment[at] {
                frame::WHOLE | frame::NEXT_PIECE => NEXT_PIECE_HEADER,
                frame::FIRST_PIECE => frame::FIRST_PIECE_HEADER,
                _ => return Err(damage),
            };
            let start = at + header;
            if start > SEGMENT_BYTES {
                return Err(damage);
            }
            let len = usize::from(get_u16(segment, start - 2));
            let data = segment.get(start..start + len).filter(|data| !data.is_empty()).ok_or(damage)?;
            let end = start + len;
            match segment[at] {
                // A record that was cut off by the end of an earlier life of the log is never completed.
                frame::WHOLE => {
                    self.drop_partial();
                    each(position(end), self.checked(place.generation(), data, position(end))?);
                }
                frame::FIRST_PIECE => {
                    self.drop_partial();
                    let total = get_u32(segment, at + 1) as usize;
                    self.missing = total.checked_sub(len).ok_or(damage)?;
                    self.begun_in = place.generation();
                    self.partial.extend_from_slice(data);
                }
                _ if self.missing == 0 => {}
                _ => {
                    self.missing = self.missing.checked_sub(len).ok_or(damage)?;
                    self.partial.extend_from_slice(data);
                }
            }
            if self.missing == 0 && !self.partial.is_empty() {
                let record = std::mem::take(&mut self.partial);
                each(position(end), self.checked(self.begun_in, &record, position(end))?);
                self.partial = record;
                self.partial.clear();
            }
            at = end;
        }
        Ok(())
    }

    /// Record without its checksum, if that is right.
    fn checked<'r>(
        &mut self,
        generation: u32,
        summed: &'r [u8],
        at: LogPosition,
    ) -> Result<&'r [u8], LogDamage> {
        let (record, sum) = summed.split_last_chunk().ok_or(LogDamage::Record { at })?;
        let next = self.chain.next(generation, record);
        let is_right = next.bytes() == *sum && !record.is_empty();
        #[cfg(feature = "planted-bugs")]
        let is_right = is_right || self.ignores_checksums;
        if !is_right {
            return Err(LogDamage::RecordChecksum { at });
        }
        self.chain = next;
        Ok(record)
    }

    fn drop_partial(&mut self) {
        self.partial.clear();
        self.missing = 0;
    }
}

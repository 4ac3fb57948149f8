//! Records in, segments out.

use std::collections::VecDeque;
use std::ops::Range;

use super::{
    AT_POSITION, AT_STRETCH_END, AT_TIME, AT_WRITE, DATA_START, LogPosition, LogTime, RECORD_SUM_BYTES,
    RecordChain, SEGMENT_BYTES, frame,
};
use crate::bytes::{put_u16, put_u32};
use crate::checksum;
use crate::page::{FLAGS, page_flags};

/// Largest number of segments whose memory is kept for reuse.
const SPARE_MAX: usize = 16;

/// Log segment to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Position of the segment (byte 0).
    pub position: LogPosition,
    /// Bytes of the segment, complete once it is stamped.
    pub bytes: Box<[u8; SEGMENT_BYTES]>,
}

impl Segment {
    /// Stamps the segment: stores the first segment of its write, and the checksum.
    pub fn stamp(&mut self, write: u16) {
        stamp(&mut self.bytes, self.position, write);
    }
}

/// Mark that a passive copy writes into the last segment of a log together with the segments `stretch`: everything
/// before them is durable, and so are they if anything lies behind them.
pub fn mark(generation: u32, segments_per_log: u16, stretch: Range<u16>) -> [u8; SEGMENT_BYTES] {
    let mut bytes = [0; SEGMENT_BYTES];
    put_u16(&mut bytes, AT_STRETCH_END, stretch.end);
    stamp(&mut bytes, LogPosition::new(generation, segments_per_log - 1, 0), stretch.start);
    bytes
}

fn stamp(bytes: &mut [u8; SEGMENT_BYTES], position: LogPosition, write: u16) {
    bytes[AT_POSITION..AT_POSITION + LogPosition::BYTES].copy_from_slice(&position.to_bytes());
    put_u16(bytes, AT_WRITE, write);
    put_u32(bytes, FLAGS, page_flags::NEW_CHECKSUM);
    checksum::stamp(bytes, position.segment().into());
}

/// Packs log records into segments, without files. It returns each full segment once.
pub struct LogBuilder {
    generation: u32,
    segment: u16,
    segments_per_log: u16,
    /// Open segment. Its bytes from `used` on mean nothing before [`Self::seal`].
    open: Box<[u8; SEGMENT_BYTES]>,
    used: usize,
    /// Memory of written segments, for reuse.
    spare: Vec<Box<[u8; SEGMENT_BYTES]>>,
    full: VecDeque<Segment>,
    chain: RecordChain,
    /// Record that is being added in pieces, with its checksum.
    scratch: Vec<u8>,
}

impl LogBuilder {
    /// A builder whose first record goes to segment `segment` (at least 1) of log `generation`, behind the records that
    /// `chain` comes from.
    ///
    /// # Panics
    /// If a log of that many segments has no room for header, a segment and the last one, which stays empty.
    pub fn new(generation: u32, segment: u16, segments_per_log: u16, chain: RecordChain) -> Self {
        assert!(segments_per_log >= 3, "{segments_per_log} segments are no log");
        let open = Box::new([0; SEGMENT_BYTES]);
        let mut builder = LogBuilder {
            generation,
            segment,
            segments_per_log,
            open,
            used: DATA_START,
            spare: Vec::new(),
            full: VecDeque::new(),
            chain,
            scratch: Vec::new(),
        };
        builder.skip_to_data();
        builder
    }

    /// Position at which the next record begins.
    pub fn position(&self) -> LogPosition {
        LogPosition::new(self.generation, self.segment, self.used as u16)
    }

    /// Appends a record and returns the position behind it. Segments that it opens get `time`.
    ///
    /// # Panics
    /// If the record is empty or longer than 4 GiB.
    pub fn append(&mut self, record: &[u8], time: LogTime) -> LogPosition {
        let total = u32::try_from(record.len() + RECORD_SUM_BYTES).expect("a log record is at most 4 GiB");
        assert!(!record.is_empty(), "a log record is not empty");
        let is_whole = self.room() >= frame::WHOLE_HEADER + total as usize;
        if !is_whole && self.room() < frame::FIRST_PIECE_HEADER + (total as usize).min(frame::PIECE_MIN) {
            // Its checksum depends on the log that it begins in.
            self.seal();
            return self.append(record, time);
        }
        self.chain = self.chain.next(self.generation, record);
        let sum = self.chain.bytes();
        if is_whole {
            self.put(frame::WHOLE, &[], [record, &sum], time);
            return self.position();
        }
        let mut summed = std::mem::take(&mut self.scratch);
        summed.clear();
        summed.extend_from_slice(record);
        summed.extend_from_slice(&sum);
        self.put_pieces(&summed, time);
        self.scratch = summed;
        self.position()
    }

    /// Appends a record in pieces, one for each segment that it reaches. Seals a segment that has no room for a piece.
    fn put_pieces(&mut self, record: &[u8], time: LogTime) {
        let total = (record.len() as u32).to_le_bytes();
        let mut rest = record;
        while !rest.is_empty() {
            let is_first = rest.len() == record.len();
            let header = if is_first { frame::FIRST_PIECE_HEADER } else { frame::NEXT_PIECE_HEADER };
            if self.room() < header + rest.len().min(frame::PIECE_MIN) {
                self.seal();
                continue;
            }
            let (piece, behind) = rest.split_at(rest.len().min(self.room() - header));
            if is_first {
                self.put(frame::FIRST_PIECE, &total, [piece, &[]], time);
            } else {
                self.put(frame::NEXT_PIECE, &[], [piece, &[]], time);
            }
            rest = behind;
        }
    }

    fn room(&self) -> usize {
        SEGMENT_BYTES - self.used
    }

    /// Adds one frame, whose data come in two parts.
    fn put(&mut self, kind: u8, before_length: &[u8], data: [&[u8]; 2], time: LogTime) {
        if self.used == DATA_START {
            self.open[AT_TIME..AT_TIME + LogTime::BYTES].copy_from_slice(&time.to_bytes());
        }
        let length = ((data[0].len() + data[1].len()) as u16).to_le_bytes();
        for part in [&[kind], before_length, &length, data[0], data[1]] {
            self.open[self.used..self.used + part.len()].copy_from_slice(part);
            self.used += part.len();
        }
        if self.room() == 0 {
            self.seal();
        }
    }

    /// Closes the open segment, if it holds anything, and fills its rest.
    pub fn seal(&mut self) {
        if self.used == DATA_START {
            return;
        }
        let next = self.spare.pop().unwrap_or_else(|| Box::new([0; SEGMENT_BYTES]));
        let mut bytes = std::mem::replace(&mut self.open, next);
        bytes[self.used..].fill(0);
        let position = LogPosition::new(self.generation, self.segment, 0);
        self.full.push_back(Segment { position, bytes });
        self.used = DATA_START;
        self.segment += 1;
        self.skip_to_data();
    }

    /// Skips the header segment and the last segment of a log.
    fn skip_to_data(&mut self) {
        if self.segment + 1 >= self.segments_per_log {
            self.generation += 1;
            self.segment = 0;
        }
        self.segment = self.segment.max(1);
    }

    /// Full segments since the last call, in order and not stamped yet; they may belong to several generations.
    pub fn take_full(&mut self) -> Vec<Segment> {
        self.full.drain(..).collect()
    }

    /// Returns the memory of a written segment for reuse.
    pub fn reuse(&mut self, segment: Segment) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(segment.bytes);
        }
    }
}

//! What lies behind the end of the current log: the rest of a write that a crash cut off, or proof of damage.
//!
//! The log ends before the first segment that is not usable, its *hole*. A crash may leave one: the write under way
//! has at most [`WRITE_SEGMENTS_MAX`] segments, which reach the medium in any order, and any of them may be torn. Every
//! earlier write was synced before that one began.
//!
//! | behind the hole | what it proves |
//! |---|---|
//! | a good segment whose write begins behind the hole | the hole was durable |
//! | a good segment at least [`WRITE_SEGMENTS_MAX`] behind the hole | the same: no write reaches so far |
//! | a good segment of the write that the hole lies in | nothing: that write may be torn |
//! | bytes that are no segment, that far behind the hole | no write put them there |
//!
//! A passive copy writes a whole stretch of log before one sync, so there the writes of the active copy prove nothing.
//! Its mark in the last segment names the stretch instead: a good segment behind the stretch proves that all before
//! it was durable. Without one, only what lies before the stretch was.
//!
//! Limits: damage in the last write that reached the medium looks like its torn end.

use std::fmt;
use std::ops::Range;

use super::{
    AT_STRETCH_END, AT_WRITE, LogFile, SEGMENT_BYTES, SegmentState, WRITE_SEGMENTS_MAX, judge_segment,
};
use crate::bytes::{get_u16, is_zero};

/// Segment that was durable and is no longer usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostSegment {
    /// Number of the lost segment.
    pub segment: u16,
    /// Number of a good segment behind it, which proves that it was durable.
    pub proof: u16,
    /// Number of good segments behind it.
    pub good: u16,
}

impl fmt::Display for LostSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LostSegment { segment, proof, good } = self;
        write!(
            f,
            "segment {segment} is not what was written, and it was durable: segment {proof} was written after it \
             ({good} good segments lie behind the damage). Nothing was changed. Put the file back from a copy, or \
             remove the databases with `proofload clean` and make new ones"
        )
    }
}

/// Segments behind the end of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// Number behind the last segment that holds anything.
    pub end: u16,
    /// Number of segments that hold anything.
    pub segments: u16,
    /// Number of these segments that no torn write explains.
    pub unexplained: u16,
    /// Whether a passive copy has marked how far the log is durable.
    pub is_marked: bool,
}

/// Contents of the last segment of a log.
enum LastSegment {
    /// Empty: an instance writes the log.
    None,
    /// Mark of a passive copy: the segments of the last piece of log that it wrote.
    CopyWrites(Range<u16>),
    /// Neither empty nor a mark.
    Unreadable,
}

impl LogFile {
    /// Segment at the end of the current log, if it was durable and is lost, so that the log does not really end
    /// there.
    pub fn lost(&self) -> Option<LostSegment> {
        let is_good = |number: &u16| self.state(*number) == SegmentState::Good;
        let behind = self.end.saturating_add(1)..self.last();
        let proof = match self.mark() {
            LastSegment::CopyWrites(stretch) => {
                let next = behind.clone().filter(is_good).find(|number| *number >= stretch.end);
                let is_durable = stretch.start > self.end && self.end < self.last();
                next.filter(|_| stretch.end > self.end).or(is_durable.then(|| self.last()))
            }
            LastSegment::Unreadable => None,
            LastSegment::None => behind
                .clone()
                .filter(is_good)
                .find(|number| self.write_of(*number) > self.end || *number - self.end >= WRITE_SEGMENTS_MAX),
        }?;
        Some(LostSegment { segment: self.end, proof, good: behind.filter(is_good).count() as u16 })
    }

    /// Segments behind the end of this log.
    pub fn rest(&self) -> Rest {
        let mark = self.mark();
        let used = |number: &u16| !is_zero(self.segment(*number));
        let mut rest =
            Rest { end: self.end, is_marked: !matches!(mark, LastSegment::None), ..Rest::default() };
        let mut torn_from = self.end;
        for number in (self.end..self.last()).filter(used) {
            (rest.end, rest.segments) = (number + 1, rest.segments + 1);
            let write = self.write_of(number);
            if self.state(number) == SegmentState::Good && write > 0 {
                torn_from = torn_from.min(write);
            }
        }
        if matches!(mark, LastSegment::None) {
            let far = torn_from.saturating_add(WRITE_SEGMENTS_MAX).max(self.end)..self.last();
            rest.unexplained = far.filter(used).count() as u16;
        }
        rest
    }

    /// Contents of the last segment, which holds no records.
    fn last(&self) -> u16 {
        self.header.segments - 1
    }

    fn segment(&self, number: u16) -> &[u8; SEGMENT_BYTES] {
        &self.bytes.as_chunks().0[usize::from(number)]
    }

    fn state(&self, number: u16) -> SegmentState {
        judge_segment(self.segment(number), self.header.generation, number)
    }

    fn write_of(&self, number: u16) -> u16 {
        get_u16(self.segment(number), AT_WRITE)
    }

    fn mark(&self) -> LastSegment {
        match self.state(self.last()) {
            SegmentState::Good => {
                let stretch_end = get_u16(self.segment(self.last()), AT_STRETCH_END);
                LastSegment::CopyWrites(self.write_of(self.last())..stretch_end)
            }
            SegmentState::Empty => LastSegment::None,
            _ => LastSegment::Unreadable,
        }
    }
}

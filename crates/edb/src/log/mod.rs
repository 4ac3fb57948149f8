//! Log files: names, header, segments, and how records lie in segments.
//!
//! The layouts come from the source of the genuine engine; no genuine log was at hand, so **no byte of this module was
//! ever compared with a file that engine wrote**. Records are our own: opaque bytes behind a type number that the
//! genuine engine does not use, so it cannot replay these logs.
//!
//! Invariants
//! 1. A segment is valid only in its own place of its own generation: a stale segment in a recycled file, or one that
//!    landed elsewhere, is never taken for the log.
//! 2. A segment is written once: what is left of the open one is filled, and the log goes on in the next.
//! 3. The last segment of a file holds no records. The genuine engine, which writes the open segment again and
//!    again, keeps it for that segment's shadow. A passive copy marks there how far its log is durable ([`mark`]).
//! 4. Records come out of `Records` whole, as they were written, in order, or not at all: each has a checksum
//!    of its own that goes on from the one before (`chain`).
//! 5. One write of a log is under way at a time, and each segment names the first segment of its write. So a good
//!    segment of a later write proves that a damaged one was durable (`LogFile::lost`).
//!
//! Limits: segments of 4096 bytes, records of up to 4 GiB; the attachment list and the engine parameters of headers
//! stay empty.

mod builder;
mod chain;
mod ending;
mod reader;

use thiserror::Error;

pub use crate::identity::{LogPosition, LogTime, SEGMENT_BYTES, Signature};
pub use builder::{LogBuilder, Segment, mark};
pub use chain::{RECORD_SUM_BYTES, RecordChain};
pub use ending::{LostSegment, Rest};
pub use reader::{LogDamage, LogFile, Records, SegmentState, Tail, judge_segment};

use crate::bytes::{get_u16, get_u32, put_u16, put_u32};
use crate::checksum;

/// Offset of the first record in a segment.
pub const DATA_START: usize = 40;

/// Largest number of segments in one write of a log.
pub const WRITE_SEGMENTS_MAX: u16 = 128;

const AT_POSITION: usize = 8;
const AT_TIME: usize = 16;
/// Offset of the number of the first segment of the segment's write, in bytes that ESE leaves free. Logs of format 0
/// have 0 there.
const AT_WRITE: usize = 24;
/// Offset in a passive copy's mark: number behind the last segment of the stretch.
const AT_STRETCH_END: usize = 26;

/// Types of record frames. A frame has a type, one or two lengths, and bytes; the rest of a segment is fill.
mod frame {
    pub const FILL: u8 = 0;
    /// First piece of a record: type, total length, length of this piece.
    pub const FIRST_PIECE: u8 = 76;
    pub const FIRST_PIECE_HEADER: usize = 7;
    /// Further piece of a record: type, length of this piece.
    pub const NEXT_PIECE: u8 = 77;
    pub const NEXT_PIECE_HEADER: usize = 3;
    /// Whole record: type and length.
    pub const WHOLE: u8 = 0xF0;
    pub const WHOLE_HEADER: usize = 3;
    /// Smallest piece of a record that is worth its header, bytes.
    pub const PIECE_MIN: usize = 32;
}

/// Names of the files of one log stream, without directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogNames {
    base: String,
}

impl LogNames {
    /// Names that begin with `base`, `E00` by custom.
    pub fn new(base: &str) -> Self {
        LogNames { base: base.to_owned() }
    }

    /// Name of the current log, which is being written.
    pub fn current(&self) -> String {
        format!("{}.log", self.base)
    }

    /// Name of the next log, in preparation.
    pub fn next(&self) -> String {
        format!("{}tmp.log", self.base)
    }

    /// Name of a closed log.
    pub fn closed(&self, generation: u32) -> String {
        format!("{}{generation:08X}.log", self.base)
    }

    /// Name of a reserve log, from 1.
    pub fn reserve(&self, number: u8) -> String {
        format!("{}res{number:05X}.jrs", self.base)
    }

    /// Name of the checkpoint file.
    pub fn checkpoint(&self) -> String {
        format!("{}.chk", self.base)
    }

    /// The generation of a closed log, with eight digits or the five of early versions; `None` for other files.
    pub fn generation_of(&self, name: &str) -> Option<u32> {
        let digits = name.strip_prefix(&self.base)?.strip_suffix(".log")?;
        let hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        if hex && matches!(digits.len(), 5 | 8) { u32::from_str_radix(digits, 16).ok() } else { None }
    }
}

/// Header of a log: its first segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHeader {
    /// Number of the log in its stream, from 1 to [`GENERATION_MAX`].
    pub generation: u32,
    /// Number of segments in the file, the header included.
    pub segments: u16,
    /// Page size of the databases, bytes.
    pub page_bytes: u16,
    /// Time when the log was created.
    pub created: LogTime,
    /// Time when the log before it was created; unset in the first log.
    pub previous_created: LogTime,
    /// Signature of the log stream.
    pub signature: Signature,
    /// Whether logs are reused (circular logging).
    pub circular: bool,
}

/// Reason why a segment is not a usable log header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LogHeaderDamage {
    /// The checksum is wrong.
    #[error("wrong checksum")]
    Checksum,
    /// The file is another kind of ESE file.
    #[error("file type {found} is no log")]
    FileType {
        /// File type in the header.
        found: u32,
    },
    /// The header names segments of another size, or another header size.
    #[error("{header_segments} header segments of {segment_bytes} bytes are not supported")]
    Geometry {
        /// Size of a segment, bytes.
        segment_bytes: u16,
        /// Number of segments in the header.
        header_segments: u16,
    },
    /// The log has a format that this program does not know.
    #[error("its log format is {found:?}, this program knows {FORMAT_VERSION:?} only")]
    Format {
        /// Major, minor and update version in the header.
        found: [u32; 3],
    },
    /// The log number is out of range.
    #[error("generation {found} is not between 1 and {GENERATION_MAX}")]
    Generation {
        /// Number in the header.
        found: u32,
    },
    /// The log has a record format that this program does not know.
    #[error(
        "its records have format {found}, this program knows formats up to {RECORD_FORMAT} only: \
         open the databases with the program that wrote them, close them there, and move its logs away"
    )]
    Records {
        /// Record format in the header.
        found: u32,
    },
}

/// Largest number of a log, as in ESE.
pub const GENERATION_MAX: u32 = 0x7FFF_FFFF;

const FILE_TYPE_LOG: u32 = 3;
const AT_FILE_TYPE: usize = 667;
const AT_FLAGS: usize = 639;
const FLAG_CIRCULAR: u8 = 2;
/// Log format of Exchange 2016 RTM.
const FORMAT: [(usize, u32); 4] = [(32, 8), (36, 4000), (40, 5), (648, 14)];
/// Major, minor and update version of that format.
const FORMAT_VERSION: [u32; 3] = [8, 4000, 5];
/// Version of what is Proofload's own: the records (ESE's are not public), and the first segment of its write in each
/// segment. It is stored at the end of the header, where a log of ESE has zeros. Segments of format 0 do not name
/// their write; the rest is equal, so both are read.
pub const RECORD_FORMAT: u32 = 1;
const AT_RECORD_FORMAT: usize = SEGMENT_BYTES - 4;

impl LogHeader {
    /// Encodes the header segment, with its checksum.
    pub fn encode(&self) -> [u8; SEGMENT_BYTES] {
        let mut bytes = [0; SEGMENT_BYTES];
        put_u32(&mut bytes, 4, self.generation);
        for (at, value) in [(8, SEGMENT_BYTES as u16), (10, 1), (12, self.segments), (14, self.page_bytes)] {
            put_u16(&mut bytes, at, value);
        }
        bytes[16..24].copy_from_slice(&self.created.to_bytes());
        bytes[24..32].copy_from_slice(&self.previous_created.to_bytes());
        FORMAT.into_iter().for_each(|(at, value)| put_u32(&mut bytes, at, value));
        bytes[44..44 + Signature::BYTES].copy_from_slice(&self.signature.to_bytes());
        bytes[AT_FLAGS] = if self.circular { FLAG_CIRCULAR } else { 0 };
        put_u32(&mut bytes, AT_FILE_TYPE, FILE_TYPE_LOG);
        put_u32(&mut bytes, AT_RECORD_FORMAT, RECORD_FORMAT);
        checksum::stamp_header(&mut bytes);
        bytes
    }

    /// Decodes a header segment.
    ///
    /// # Errors
    /// If it is not intact, or no log header.
    pub fn parse(bytes: &[u8; SEGMENT_BYTES]) -> Result<Self, LogHeaderDamage> {
        if !checksum::header_is_intact(bytes) {
            return Err(LogHeaderDamage::Checksum);
        }
        let found = get_u32(bytes, AT_FILE_TYPE);
        if found != FILE_TYPE_LOG {
            return Err(LogHeaderDamage::FileType { found });
        }
        let (segment_bytes, header_segments) = (get_u16(bytes, 8), get_u16(bytes, 10));
        if (usize::from(segment_bytes), header_segments) != (SEGMENT_BYTES, 1) {
            return Err(LogHeaderDamage::Geometry { segment_bytes, header_segments });
        }
        let format = [32, 36, 40].map(|at| get_u32(bytes, at));
        if format != FORMAT_VERSION && !versions_are_ignored() {
            return Err(LogHeaderDamage::Format { found: format });
        }
        let records = get_u32(bytes, AT_RECORD_FORMAT);
        if records > RECORD_FORMAT && !versions_are_ignored() {
            return Err(LogHeaderDamage::Records { found: records });
        }
        let generation = get_u32(bytes, 4);
        if !(1..=GENERATION_MAX).contains(&generation) {
            return Err(LogHeaderDamage::Generation { found: generation });
        }
        Ok(LogHeader {
            generation,
            segments: get_u16(bytes, 12),
            page_bytes: get_u16(bytes, 14),
            created: LogTime::get(bytes, 16),
            previous_created: LogTime::get(bytes, 24),
            signature: Signature::get(bytes, 44),
            circular: bytes[AT_FLAGS] & FLAG_CIRCULAR != 0,
        })
    }

    /// Whether this log directly follows `previous` in its stream.
    pub fn follows(&self, previous: &LogHeader) -> bool {
        self.signature == previous.signature
            && self.page_bytes == previous.page_bytes
            && previous.generation.checked_add(1) == Some(self.generation)
            && self.previous_created == previous.created
    }
}

#[cfg(feature = "planted-bugs")]
thread_local! {
    static IGNORES_VERSIONS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// For tests of tests: switches the check of header versions off, or on again, on this thread.
#[cfg(feature = "planted-bugs")]
pub fn ignore_versions(ignored: bool) {
    IGNORES_VERSIONS.set(ignored);
}

fn versions_are_ignored() -> bool {
    #[cfg(feature = "planted-bugs")]
    return IGNORES_VERSIONS.get();
    #[cfg(not(feature = "planted-bugs"))]
    false
}

#[cfg(test)]
mod tests;

//! When, where and whose: the small structures that tie databases, logs and checkpoints of one stream together.
//!
//! Limits: years 1900 to 2155; times before 1970 are not made here.

use time::{Date, OffsetDateTime};

use crate::bytes::{get_u32, get_u64, put_u32};

/// Size of a log segment.
pub const SEGMENT_BYTES: usize = 4096;

/// Position in the log stream (LGPOS): generation, segment, byte. Positions order as the log is written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct LogPosition(u64);

impl LogPosition {
    /// Size in files, bytes.
    pub const BYTES: usize = 8;

    /// Position of byte `byte` of segment `segment` of log `generation`.
    pub const fn new(generation: u32, segment: u16, byte: u16) -> Self {
        LogPosition((generation as u64) << 32 | (segment as u64) << 16 | byte as u64)
    }

    /// Log generation, from 1; 0 in an unset position.
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Segment within the log; segment 0 is the header.
    pub const fn segment(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// Byte within the segment.
    pub const fn byte(self) -> u16 {
        self.0 as u16
    }

    /// Encodes the position as in files.
    pub const fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0.to_le_bytes()
    }

    /// Decodes a position from a file.
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        LogPosition(u64::from_le_bytes(bytes))
    }

    /// Bytes of log from `earlier` to this position, in a stream of logs of `segments` segments each, headers
    /// included.
    pub fn bytes_since(self, earlier: LogPosition, segments: u16) -> u64 {
        let linear = |p: LogPosition| {
            let segment = u64::from(p.generation()) * u64::from(segments) + u64::from(p.segment());
            segment * SEGMENT_BYTES as u64 + u64::from(p.byte())
        };
        linear(self).saturating_sub(linear(earlier))
    }

    pub(crate) fn get(bytes: &[u8], at: usize) -> Self {
        LogPosition(get_u64(bytes, at))
    }
}

impl std::fmt::Debug for LogPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:X}:{:X}:{:X}", self.generation(), self.segment(), self.byte())
    }
}

/// A calendar time (LOGTIME) in UTC, to the millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LogTime([u8; LogTime::BYTES]);

impl LogTime {
    /// Size in files, bytes.
    pub const BYTES: usize = 8;
    const UTC: u8 = 1;

    /// Time that lies this many ms after 1970-01-01 00:00 UTC.
    pub fn from_unix_ms(unix_ms: u64) -> Self {
        let (seconds, ms) = (unix_ms / 1000, (unix_ms % 1000) as u16);
        let (year, month, day) = date_of(seconds);
        LogTime([
            (seconds % 60) as u8,
            (seconds / 60 % 60) as u8,
            (seconds / 3600 % 24) as u8,
            day,
            month,
            (year - 1900).min(255) as u8,
            ((ms & 0x7F) as u8) << 1 | Self::UTC,
            ((ms >> 7) as u8) << 1,
        ])
    }

    /// Year, month, day, hour, minute, second, millisecond; `None` if unset.
    pub fn parts(self) -> Option<[u16; 7]> {
        let [second, minute, hour, day, month, year, low, high] = self.0.map(u16::from);
        let ms = low >> 1 | (high >> 1 & 7) << 7;
        (month != 0).then_some([1900 + year, month, day, hour, minute, second, ms])
    }

    /// Encodes the time as in files.
    pub const fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0
    }

    /// Decodes a time from a file; any bytes are accepted.
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        LogTime(bytes)
    }

    pub(crate) fn get(bytes: &[u8], at: usize) -> Self {
        LogTime(get_u64(bytes, at).to_le_bytes())
    }
}

/// Gregorian date of a time. The calendar ends with the year 9999.
fn date_of(unix_s: u64) -> (u16, u8, u8) {
    let unix_s = i64::try_from(unix_s).unwrap_or(i64::MAX);
    let date = OffsetDateTime::from_unix_timestamp(unix_s).map_or(Date::MAX, OffsetDateTime::date);
    (date.year() as u16, date.month().into(), date.day())
}

/// Signature of a database or log stream (SIGNATURE): random number and time, without a computer name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Signature([u8; Signature::BYTES]);

impl Signature {
    /// Size in files, bytes.
    pub const BYTES: usize = 28;

    /// Creates a signature.
    pub fn new(random: u32, created: LogTime) -> Self {
        let mut bytes = [0; Self::BYTES];
        put_u32(&mut bytes, 0, random);
        bytes[4..12].copy_from_slice(&created.0);
        Signature(bytes)
    }

    /// Random number of the signature.
    pub fn random(&self) -> u32 {
        get_u32(&self.0, 0)
    }

    /// Time when the database or stream was created.
    pub fn created(&self) -> LogTime {
        LogTime::get(&self.0, 4)
    }

    /// Encodes the signature as in files.
    pub const fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0
    }

    /// Decodes a signature from a file; any bytes are accepted.
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Signature(bytes)
    }

    pub(crate) fn get(bytes: &[u8], at: usize) -> Self {
        let mut signature = [0; Self::BYTES];
        signature.copy_from_slice(&bytes[at..at + Self::BYTES]);
        Signature(signature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_calendar_times_in_utc() {
        let cases = [
            (0, [1970, 1, 1, 0, 0, 0, 0]),
            (951_782_400_000, [2000, 2, 29, 0, 0, 0, 0]),
            (1_709_251_199_999, [2024, 2, 29, 23, 59, 59, 999]),
            (4_107_542_400_128, [2100, 3, 1, 0, 0, 0, 128]),
        ];
        for (unix_ms, expected) in cases {
            let time = LogTime::from_unix_ms(unix_ms);
            assert_eq!(time.parts(), Some(expected));
            assert_eq!(time.to_bytes()[6] & 1, 1);
        }
        assert_eq!(LogTime::default().parts(), None);
    }

    #[test]
    fn positions_order_and_lie_in_files_as_byte_segment_generation() {
        let place = LogPosition::new(3, 0x102, 0x304);
        assert_eq!(place.to_bytes(), [4, 3, 2, 1, 3, 0, 0, 0]);
        assert_eq!(LogPosition::from_bytes(place.to_bytes()), place);
        assert!(LogPosition::new(2, 65535, 65535) < LogPosition::new(3, 0, 0));
        assert_eq!(LogPosition::new(3, 2, 50).bytes_since(LogPosition::new(2, 254, 40), 256), 4 * 4096 + 10);
        assert_eq!(LogPosition::new(2, 1, 0).bytes_since(LogPosition::new(3, 1, 0), 256), 0);
    }
}

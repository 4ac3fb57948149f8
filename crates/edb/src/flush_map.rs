//! The flush map of a database: the version that every page has once its log is redone up to a position.
//!
//! A file beside the database, written as a journal: a header sector, then frames of whole sectors. A frame holds the
//! versions of the pages that changed since the frame before. The layout is our own; file type and checksum of the
//! header are those of the format.
//!
//! Invariants
//! 1. A frame is written and synced before the next one is begun. So a whole frame behind a damaged one proves that the
//!    damaged one was durable: the map has lost a part of itself, and says so.
//! 2. A frame that follows no whole frame is the torn end of the last write: nothing relied on it.
//! 3. A page without an entry has not changed since the map was begun: its dbtime is at most [`Header::since`].
//!
//! Limits: 16 bits of each version, so one of 65,535 stale pages is not seen.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::bytes::{get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
use crate::checksum;
use crate::header::{DatabaseHeader, DatabaseState};
use crate::identity::{LogPosition, Signature};

/// Size of a sector, bytes; frames are whole sectors.
pub const SECTOR_BYTES: usize = 4096;
/// Largest number of entries of one frame, which then fits into 256 KiB. Further entries go into the next frame.
pub const ENTRIES_MAX: usize = 40_000;

const VERSION: u32 = 1;
const FILE_TYPE: u32 = 7;
const FRAME_MAGIC: u32 = 0x5041_4D46;
/// Size of an entry, bytes.
pub const ENTRY_BYTES: usize = 6;

mod at {
    pub const VERSION: usize = 4;
    pub const DATABASE: usize = 8;
    pub const LOG: usize = 36;
    pub const SINCE: usize = 64;
    pub const BEGUN_ANEW: usize = 72;
    pub const FILE_TYPE: usize = 667;
    /// Offset of a frame's CRC-32C. Behind it: the CRC of the frame before, sectors, number of entries, position,
    /// entries.
    pub const CRC: usize = 4;
    pub const BEFORE: usize = 8;
    pub const SECTORS: usize = 12;
    pub const ENTRIES: usize = 16;
    pub const POSITION: usize = 20;
    pub const FIRST_ENTRY: usize = 28;
}

/// Version of a page in the map, from its dbtime.
pub fn version_of(dbtime: u64) -> u16 {
    // Neighbouring versions differ, and 0 is none.
    (dbtime % u64::from(u16::MAX)) as u16 + 1
}

/// Header of a flush map: the database to which it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Signature of the database.
    pub database: Signature,
    /// Signature of its log stream.
    pub log: Signature,
    /// Dbtime of the database when the map was begun.
    pub since: u64,
    /// Whether the database had been used before: of pages without an entry the map knows only that they are no newer.
    pub begun_anew: bool,
}

/// Reason why a file is not a usable flush map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FlushMapDamage {
    /// Neither header is intact.
    #[error("its header is not intact")]
    Header,
    /// The map has another layout version.
    #[error("it has version {found}; this program reads version {VERSION}")]
    Version {
        /// Version in the file.
        found: u32,
    },
    /// A frame that was durable is missing.
    #[error("sector {sector} is damaged, and whole frames lie behind it")]
    Hole {
        /// First sector that cannot be used.
        sector: usize,
    },
}

/// Flush map as read from its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlushMap {
    /// Header of the map.
    pub header: Header,
    /// Log position up to which the map contains all changes.
    pub position: LogPosition,
    /// Position of the last frame with a change. Later ones only say that none came.
    pub changed_to: LogPosition,
    /// Pages that changed since the map was begun, with their versions. The last entry of a page counts.
    pub entries: Vec<(u32, u16)>,
    /// Offset of the next frame in the file.
    pub end: Journal,
}

/// State for appending to a flush map: offset of the next frame, and the CRC of the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Journal {
    /// Offset of the next frame, bytes.
    pub bytes: usize,
    before: u32,
}

impl Header {
    /// First sector of a new map, and the state for appending to it.
    pub fn encode(&self) -> (Vec<u8>, Journal) {
        let mut sector = vec![0; SECTOR_BYTES];
        put_u32(&mut sector, at::VERSION, VERSION);
        sector[at::DATABASE..at::DATABASE + Signature::BYTES].copy_from_slice(&self.database.to_bytes());
        sector[at::LOG..at::LOG + Signature::BYTES].copy_from_slice(&self.log.to_bytes());
        put_u64(&mut sector, at::SINCE, self.since);
        put_u32(&mut sector, at::BEGUN_ANEW, self.begun_anew.into());
        put_u32(&mut sector, at::FILE_TYPE, FILE_TYPE);
        checksum::stamp_header(&mut sector);
        let journal = Journal { bytes: SECTOR_BYTES, before: crc32c::crc32c(&sector) };
        (sector, journal)
    }

    fn parse(sector: &[u8]) -> Result<(Header, Journal), FlushMapDamage> {
        if !checksum::header_is_intact(sector) || get_u32(sector, at::FILE_TYPE) != FILE_TYPE {
            return Err(FlushMapDamage::Header);
        }
        let found = get_u32(sector, at::VERSION);
        if found != VERSION {
            return Err(FlushMapDamage::Version { found });
        }
        let header = Header {
            database: Signature::get(sector, at::DATABASE),
            log: Signature::get(sector, at::LOG),
            since: get_u64(sector, at::SINCE),
            begun_anew: get_u32(sector, at::BEGUN_ANEW) != 0,
        };
        Ok((header, Journal { bytes: SECTOR_BYTES, before: crc32c::crc32c(sector) }))
    }
}

impl Journal {
    /// Encodes the next frame. `entries`: changed pages and their versions, up to `position` of the log.
    ///
    /// # Panics
    /// If there are more than [`ENTRIES_MAX`].
    pub fn frame(&mut self, position: LogPosition, entries: &[(u32, u16)]) -> Vec<u8> {
        assert!(entries.len() <= ENTRIES_MAX, "{} entries in one frame", entries.len());
        let sectors = (at::FIRST_ENTRY + ENTRY_BYTES * entries.len()).div_ceil(SECTOR_BYTES);
        let mut frame = vec![0; sectors * SECTOR_BYTES];
        put_u32(&mut frame, 0, FRAME_MAGIC);
        put_u32(&mut frame, at::BEFORE, self.before);
        put_u32(&mut frame, at::SECTORS, sectors as u32);
        put_u32(&mut frame, at::ENTRIES, entries.len() as u32);
        frame[at::POSITION..at::POSITION + LogPosition::BYTES].copy_from_slice(&position.to_bytes());
        for (number, (pgno, version)) in entries.iter().enumerate() {
            let place = at::FIRST_ENTRY + ENTRY_BYTES * number;
            put_u32(&mut frame, place, *pgno);
            put_u16(&mut frame, place + 4, *version);
        }
        self.before = crc32c::crc32c(&frame[at::BEFORE..]);
        put_u32(&mut frame, at::CRC, self.before);
        self.bytes += frame.len();
        frame
    }
}

/// Frame that begins here, if it is whole; what it follows does not matter.
fn frame_at(rest: &[u8]) -> Option<&[u8]> {
    let head = rest.get(..SECTOR_BYTES)?;
    let sectors = get_u32(head, at::SECTORS) as usize;
    let entries = get_u32(head, at::ENTRIES) as usize;
    let fits =
        entries <= ENTRIES_MAX && sectors == (at::FIRST_ENTRY + ENTRY_BYTES * entries).div_ceil(SECTOR_BYTES);
    let frame = rest.get(..sectors * SECTOR_BYTES).filter(|_| fits && get_u32(head, 0) == FRAME_MAGIC)?;
    (crc32c::crc32c(&frame[at::BEFORE..]) == get_u32(frame, at::CRC)).then_some(frame)
}

impl FlushMap {
    /// Reads a flush map. The remains of a torn last write are skipped; the next frame overwrites them.
    ///
    /// # Errors
    /// If it is none, or has lost a frame.
    pub fn read(file: &[u8]) -> Result<FlushMap, FlushMapDamage> {
        let sector = file.get(..SECTOR_BYTES).ok_or(FlushMapDamage::Header)?;
        let (header, mut end) = Header::parse(sector)?;
        let (mut position, mut changed_to) = (LogPosition::default(), LogPosition::default());
        let mut entries = Vec::new();
        while let Some(frame) = frame_at(&file[end.bytes..]).filter(|f| get_u32(f, at::BEFORE) == end.before)
        {
            position = LogPosition::get(frame, at::POSITION);
            for number in 0..get_u32(frame, at::ENTRIES) as usize {
                let place = at::FIRST_ENTRY + ENTRY_BYTES * number;
                entries.push((get_u32(frame, place), get_u16(frame, place + 4)));
                changed_to = position;
            }
            end = Journal { bytes: end.bytes + frame.len(), before: get_u32(frame, at::CRC) };
        }
        let behind = file[end.bytes..].chunks_exact(SECTOR_BYTES).enumerate().skip(1);
        let has_frame =
            |(sector, _): (usize, &[u8])| frame_at(&file[end.bytes + sector * SECTOR_BYTES..]).is_some();
        // Frames of a write that was torn at its beginning are not whole, so a whole one was durable.
        if frame_at(&file[end.bytes..]).is_some() || behind.into_iter().any(has_frame) {
            return Err(FlushMapDamage::Hole { sector: end.bytes / SECTOR_BYTES });
        }
        Ok(FlushMap { header, position, changed_to, entries, end })
    }
}

impl FlushMap {
    /// Reads the flush map of a database, and compares it with the database's header.
    ///
    /// # Errors
    /// It is damaged, or of another database or another state of it: how, in words.
    pub fn of(file: &[u8], header: &DatabaseHeader) -> Result<FlushMap, String> {
        let map = FlushMap::read(file).map_err(|damage| damage.to_string())?;
        map.contradiction(header).map_or(Ok(map), |reason| Err(reason.to_owned()))
    }

    fn contradiction(&self, header: &DatabaseHeader) -> Option<&'static str> {
        let is_closed = header.state() != DatabaseState::Dirty;
        let least = if is_closed { header.detach_position() } else { header.attach_position() };
        if self.header.database != header.signature() {
            Some("it is the map of another database")
        } else if self.header.log != header.log_signature() {
            Some("it is of another log stream than the database")
        } else if self.position < least {
            Some("it is older than the header of the database: a write of the map was lost")
        } else if is_closed && self.changed_to > least {
            Some(
                "it is newer than the database: that is an older copy of itself, or lost a write of its header",
            )
        } else {
            None
        }
    }
}

/// Flush map of a closed database, as used by checks.
#[derive(Debug, Default)]
pub struct ClosedMap {
    /// Dbtime at which the map was begun; `None` without a usable map.
    since: Option<u64>,
    /// Versions of pages, by page number.
    versions: BTreeMap<u32, u16>,
    /// Damage of the map.
    pub damage: Option<String>,
    /// Damage that this map cannot reveal.
    pub unseen: Option<&'static str>,
}

const NO_MAP: &str =
    "there is no flush map that can be used, so an older version of a page in its place is not seen";
const BEGUN_ANEW: &str =
    "the flush map was begun anew, so an older version of a page that did not change since is not seen";

impl ClosedMap {
    /// Prepares the map. `file`: contents of its file, if there is one.
    pub fn new(file: Option<&[u8]>, header: &DatabaseHeader) -> ClosedMap {
        match file.map(|file| FlushMap::of(file, header)) {
            // Every page is as it was made. A map is of an opening that did not come to the header.
            _ if !header.was_used() => ClosedMap { since: Some(header.dbtime()), ..ClosedMap::default() },
            None => ClosedMap { unseen: Some(NO_MAP), ..ClosedMap::default() },
            Some(Err(reason)) => {
                let damage = Some(format!("its flush map contradicts it: {reason}"));
                ClosedMap { damage, unseen: Some(NO_MAP), ..ClosedMap::default() }
            }
            Some(Ok(map)) => ClosedMap {
                since: Some(map.header.since),
                versions: map.entries.into_iter().collect(),
                damage: None,
                unseen: map.header.begun_anew.then_some(BEGUN_ANEW),
            },
        }
    }

    /// Whether the map names another version of page `pgno` than this dbtime has.
    pub fn contradicts(&self, pgno: u32, dbtime: u64) -> bool {
        let newest = self.versions.get(&pgno);
        newest.map_or(self.since.is_some_and(|since| dbtime > since), |newest| *newest != version_of(dbtime))
    }

    /// Whether the map shows that page `pgno` was written, so that it cannot be zero.
    pub fn was_written(&self, pgno: u32) -> bool {
        self.versions.contains_key(&pgno)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::LogTime;

    fn header() -> Header {
        let signature = |random| Signature::new(random, LogTime::from_unix_ms(1_700_000_000_000));
        Header { database: signature(1), log: signature(2), since: 64, begun_anew: true }
    }

    fn position(number: u32) -> LogPosition {
        LogPosition::new(1, number as u16 + 1, 40)
    }

    /// Test map with frames of these numbers of entries, and the ends of its frames.
    fn file(frames: &[u32]) -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut journal) = header().encode();
        let mut ends = vec![bytes.len()];
        for (number, entries) in (0..).zip(frames) {
            let entries: Vec<_> =
                (0..*entries).map(|n| (n * 3 + 1, version_of(u64::from(100 + number)))).collect();
            bytes.extend(journal.frame(position(number), &entries));
            ends.push(bytes.len());
        }
        assert_eq!(journal.bytes, bytes.len());
        (bytes, ends)
    }

    #[test]
    fn a_map_holds_the_newest_version_of_each_page() {
        let (bytes, _) = file(&[5, 2000, 0, 1]);
        let map = FlushMap::read(&bytes).unwrap();
        let versions: BTreeMap<_, _> = map.entries.into_iter().collect();
        assert_eq!((map.header, map.position, versions.len()), (header(), position(3), 2000));
        assert_eq!(versions.get(&1), Some(&version_of(103)), "changed in the last frame");
        assert_eq!(versions.get(&4), Some(&version_of(101)), "changed in the second");
        assert_eq!(map.end.bytes, bytes.len());
    }

    #[test]
    fn a_map_that_ends_anywhere_is_that_of_its_whole_frames_and_goes_on_there() {
        let (bytes, ends) = file(&[5, 2000, 700, 1]);
        for cut in (SECTOR_BYTES..=bytes.len()).step_by(512) {
            let map = FlushMap::read(&bytes[..cut]).unwrap();
            let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
            assert_eq!(map.end.bytes, ends[whole], "{cut}");
            let mut longer = bytes[..map.end.bytes].to_vec();
            let mut journal = map.end;
            longer.extend(journal.frame(position(9), &[(7, 8)]));
            assert_eq!(FlushMap::read(&longer).unwrap().entries.last(), Some(&(7, 8)), "{cut}");
        }
    }

    #[test]
    fn damage_of_a_frame_is_a_hole_unless_it_is_the_last() {
        let (bytes, ends) = file(&[5, 2000, 700, 900]);
        let last = ends[ends.len() - 2];
        for sector in 1..bytes.len() / SECTOR_BYTES {
            for zeroed in [false, true] {
                let mut damaged = bytes.clone();
                let range = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
                if zeroed {
                    damaged[range].fill(0)
                } else {
                    damaged[range.start + 30] ^= 4
                }
                let frame = *ends.iter().rev().find(|end| **end <= sector * SECTOR_BYTES).unwrap();
                let read = FlushMap::read(&damaged);
                if frame == last {
                    assert_eq!(read.map(|map| map.end.bytes), Ok(last), "{sector}");
                } else {
                    assert_eq!(read, Err(FlushMapDamage::Hole { sector: frame / SECTOR_BYTES }), "{sector}");
                }
            }
        }
    }

    #[test]
    fn a_frame_that_was_lost_for_an_older_one_of_the_same_place_is_a_hole() {
        let (bytes, ends) = file(&[5, 6, 7]);
        let mut swapped = bytes.clone();
        swapped.copy_within(ends[0]..ends[1], ends[1]);
        assert_eq!(FlushMap::read(&swapped), Err(FlushMapDamage::Hole { sector: ends[1] / SECTOR_BYTES }));
    }

    #[test]
    fn other_files_are_refused() {
        assert_eq!(FlushMap::read(&[0; 100]), Err(FlushMapDamage::Header));
        let (mut bytes, _) = file(&[1]);
        put_u32(&mut bytes, at::VERSION, 2);
        checksum::stamp_header(&mut bytes[..SECTOR_BYTES]);
        assert_eq!(FlushMap::read(&bytes), Err(FlushMapDamage::Version { found: 2 }));
        bytes[100] ^= 1;
        assert_eq!(FlushMap::read(&bytes), Err(FlushMapDamage::Header));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(
            patch in proptest::collection::vec((0usize..20_000, proptest::prelude::any::<u8>()), 0..30),
            cut in 0usize..30_000,
        ) {
            let (mut bytes, _) = file(&[5, 700, 3]);
            let len = bytes.len();
            patch.into_iter().for_each(|(at, byte)| bytes[at % len] = byte);
            let _ = FlushMap::read(&bytes[..cut.min(len)]);
        }
    }
}

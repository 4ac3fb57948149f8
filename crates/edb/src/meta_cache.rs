//! The directory of a MetaCache file: which slot holds which page, as it was when its database was closed.
//!
//! It lies behind the slots. The layout is our own: the genuine one is not published. All numbers are little-endian:
//! CRC-32C of everything behind it (4 bytes), `MCDR`, signatures of database and log stream (28 bytes each), position
//! at which the database was closed (8), number of entries (4), entries: slot (4), page number (4), dbtime (8).
//!
//! Invariant: a directory is used only with the database that was closed at its position.

use crate::bytes::{get_u32, get_u64};
use crate::header::{DatabaseHeader, DatabaseState};
use crate::identity::{LogPosition, Signature};

/// Bytes from which [`Directory::bytes_needed`] tells the size of the rest.
pub const HEAD_BYTES: usize = 4096;
const MAGIC: &[u8; 4] = b"MCDR";
const ENTRY_BYTES: usize = 16;

mod at {
    pub const MAGIC: usize = 4;
    pub const IDENTITY: usize = 8;
    pub const ENTRIES: usize = 72;
    pub const FIRST_ENTRY: usize = 76;
}

/// Page in a slot of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Slot, from 0.
    pub slot: u32,
    /// Page number.
    pub pgno: u32,
    /// Dbtime of the page.
    pub dbtime: u64,
}

/// Identity of a closed database: its signature, that of its log stream, and the position at which it was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// Signature of the database.
    pub database: Signature,
    /// Signature of the log stream.
    pub log: Signature,
    /// Position in the log at which the database was closed.
    pub closed: LogPosition,
}

impl Epoch {
    /// Epoch of a closed database; `None` if it was not closed.
    pub fn of(header: &DatabaseHeader) -> Option<Epoch> {
        let is_closed = header.was_used() && header.state() == DatabaseState::Clean;
        is_closed.then(|| Epoch {
            database: header.signature(),
            log: header.log_signature(),
            closed: header.detach_position(),
        })
    }

    fn to_bytes(self) -> Vec<u8> {
        [&self.database.to_bytes()[..], &self.log.to_bytes(), &self.closed.to_bytes()].concat()
    }
}

/// Directory as written, a whole number of [`HEAD_BYTES`].
pub fn encode(epoch: Epoch, entries: &[Entry]) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.extend_from_slice(MAGIC);
    bytes.extend(epoch.to_bytes());
    bytes.extend((entries.len() as u32).to_le_bytes());
    for entry in entries {
        bytes.extend(entry.slot.to_le_bytes());
        bytes.extend(entry.pgno.to_le_bytes());
        bytes.extend(entry.dbtime.to_le_bytes());
    }
    bytes.resize(bytes.len().next_multiple_of(HEAD_BYTES), 0);
    let crc = crc32c::crc32c(&bytes[at::MAGIC..]);
    bytes[..at::MAGIC].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Size of the directory that begins with `head`; `None` if none does.
pub fn bytes_needed(head: &[u8]) -> Option<usize> {
    let is_one = head[at::MAGIC..at::IDENTITY] == MAGIC[..];
    let entries = get_u32(head, at::ENTRIES) as usize;
    is_one.then(|| (at::FIRST_ENTRY + entries * ENTRY_BYTES).next_multiple_of(HEAD_BYTES))
}

/// Entries of a directory; `None` if it is damaged, or of another epoch. `epoch`: that of the database; `None`: any.
pub fn entries(bytes: &[u8], epoch: Option<Epoch>) -> Option<Vec<Entry>> {
    let is_intact = bytes_needed(bytes)? == bytes.len()
        && crc32c::crc32c(&bytes[at::MAGIC..]) == get_u32(bytes, 0)
        && epoch.is_none_or(|epoch| bytes[at::IDENTITY..at::ENTRIES] == epoch.to_bytes()[..]);
    let count = get_u32(bytes, at::ENTRIES) as usize;
    let entry =
        |bytes: &[u8]| Entry { slot: get_u32(bytes, 0), pgno: get_u32(bytes, 4), dbtime: get_u64(bytes, 8) };
    is_intact.then(|| bytes[at::FIRST_ENTRY..].chunks_exact(ENTRY_BYTES).take(count).map(entry).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::LogTime;

    fn epoch(segment: u16) -> Epoch {
        let signature = |n| Signature::new(n, LogTime::default());
        Epoch { database: signature(1), log: signature(2), closed: LogPosition::new(3, segment, 5) }
    }

    #[test]
    fn a_directory_is_read_as_it_was_written_and_with_no_byte_changed() {
        let written: Vec<_> =
            (0..300).map(|slot| Entry { slot, pgno: slot * 7 + 1, dbtime: u64::from(slot) << 33 }).collect();
        let bytes = encode(epoch(4), &written);
        assert_eq!(bytes_needed(&bytes[..HEAD_BYTES]), Some(bytes.len()));
        assert_eq!(entries(&bytes, Some(epoch(4))), Some(written));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            assert_eq!(entries(&changed, None), None, "byte {at}");
        }
    }

    #[test]
    fn a_directory_of_another_epoch_is_not_used() {
        let bytes = encode(epoch(4), &[]);
        assert_eq!(entries(&bytes, Some(epoch(4))), Some(Vec::new()));
        assert_eq!(entries(&bytes, Some(epoch(5))), None);
    }
}

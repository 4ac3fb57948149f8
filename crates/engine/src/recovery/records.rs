//! What the records of a log say of pages, one behind the other: a log takes two pieces of memory for it, and not one
//! or two for each record. The redo of a page decodes the records of that page.

use btree::PageRecord;

use super::preread::{Named, Run, runs};
use crate::cache::{PageKey, Wanted};
use crate::log::LogPosition;

/// Begin and end of a record in the log.
pub(super) type Place = (LogPosition, LogPosition);

/// Entries about pages from log records, in log order.
#[derive(Default)]
pub(super) struct PageRecords {
    records: Vec<Entry>,
    bytes: Vec<u8>,
}

struct Entry {
    at: Place,
    record: PageRecord,
    /// End of the entry's bytes, which begin where those of the entry before end.
    bytes_end: usize,
}

/// What one record says about one page.
pub(super) struct Said<'a> {
    pub(super) at: Place,
    pub(super) record: PageRecord,
    pub(super) bytes: &'a [u8],
}

impl PageRecords {
    pub(super) fn push(&mut self, at: Place, record: PageRecord, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.records.push(Entry { at, record, bytes_end: self.bytes.len() });
    }

    /// Removes all entries and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.bytes.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Said<'_>> {
        let mut start = 0;
        self.records.iter().map(move |entry| {
            let bytes = &self.bytes[std::mem::replace(&mut start, entry.bytes_end)..entry.bytes_end];
            Said { at: entry.at, record: entry.record, bytes }
        })
    }

    /// Reads that redo of the entries needs.
    pub(super) fn runs(&self) -> Vec<Run> {
        let named = |entry: &Entry| {
            let PageRecord { db, pgno, .. } = entry.record;
            let wanted = Wanted::by_record(entry.record.is_whole());
            Named { at: entry.at.1, key: PageKey { db, pgno }, wanted }
        };
        runs(&self.records.iter().map(named).collect::<Vec<_>>())
    }
}

impl Said<'_> {
    pub(super) fn key(&self) -> PageKey {
        PageKey { db: self.record.db, pgno: self.record.pgno }
    }
}

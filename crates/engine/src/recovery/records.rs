//! What the records of a log say of pages, one behind the other: a log takes two pieces of memory for it, and not one
//! or two for each record. The redo of a page decodes the records of that page.

use btree::PageRecord;

use super::preread::{NamedPage, PageRun, runs};
use crate::cache::{PageKey, PageNeed};
use crate::log::LogPosition;

/// Begin and end of a record in the log.
pub(super) type RecordSpan = (LogPosition, LogPosition);

/// Entries about pages from log records, in log order.
#[derive(Default)]
pub(super) struct PageRecords {
    records: Vec<Entry>,
    bytes: Vec<u8>,
}

struct Entry {
    at: RecordSpan,
    record: PageRecord,
    /// End of the entry's bytes, which begin where those of the entry before end.
    bytes_end: usize,
}

/// What one record says about one page.
pub(super) struct PageEntry<'a> {
    pub(super) at: RecordSpan,
    pub(super) record: PageRecord,
    pub(super) bytes: &'a [u8],
}

impl PageRecords {
    pub(super) fn push(&mut self, at: RecordSpan, record: PageRecord, bytes: &[u8]) {
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

    pub(super) fn iter(&self) -> impl Iterator<Item = PageEntry<'_>> {
        let mut start = 0;
        self.records.iter().map(move |entry| {
            let bytes = &self.bytes[std::mem::replace(&mut start, entry.bytes_end)..entry.bytes_end];
            PageEntry { at: entry.at, record: entry.record, bytes }
        })
    }

    /// Reads that redo of the entries needs.
    pub(super) fn runs(&self) -> Vec<PageRun> {
        let named = |entry: &Entry| {
            let PageRecord { db, pgno, .. } = entry.record;
            let wanted = PageNeed::by_record(entry.record.is_whole());
            NamedPage { at: entry.at.1, key: PageKey { db, pgno }, wanted }
        };
        runs(&self.records.iter().map(named).collect::<Vec<_>>())
    }
}

impl PageEntry<'_> {
    pub(super) fn key(&self) -> PageKey {
        PageKey { db: self.record.db, pgno: self.record.pgno }
    }
}

//! The records of a log divided by page: what is between the pages of one worker keeps the order of the log.
//!
//! Invariants
//! 1. All records of a page go to one worker, in the order of the log.
//! 2. A record that changes the length of a file begins a [`ReplaySpan`], so that what comes behind it can be redone
//!    after it.

use std::sync::Arc;

use btree::{LogRecord, PageRecord};

use super::preread::PageRun;
use super::records::{PageRecords, RecordSpan};
use super::{Participants, takes_part};
use crate::cache::PageKey;

/// Number of neighbouring pages that belong to one worker: those of its largest read.
const PAGES_TOGETHER: u32 = 8;

/// Number of spans whose memory is kept; usually more than are in use at once.
const SPANS_KEPT: usize = 16;

/// Records of one worker's pages, in log order, and the reads that they need.
pub(super) struct WorkerRecords {
    /// Records; the opening holds them, too, to reuse their memory ([`RecordMemory`]).
    pub(super) records: Arc<PageRecords>,
    pub(super) runs: Vec<PageRun>,
}

/// Records between two changes of a file's length.
pub(super) struct ReplaySpan {
    /// Records that belong to no worker; a change of a file's length only as the first.
    pub(super) records: OtherRecords,
    /// Parts of the workers.
    pub(super) parts: Vec<WorkerRecords>,
}

pub(super) type OtherRecords = Vec<(RecordSpan, LogRecord)>;

/// Divides records, which come in log order, among workers.
pub(super) struct Divider {
    workers: usize,
    used: RecordMemory,
    spans: Vec<ReplaySpan>,
    /// Records of the unfinished stretch: those of no worker, and those of each worker.
    records: OtherRecords,
    pages: Vec<PageRecords>,
}

/// Memory of replayed records for later logs; the system would clear returned memory again.
#[derive(Default)]
pub(super) struct RecordMemory {
    records: Vec<OtherRecords>,
    pages: Vec<Arc<PageRecords>>,
}

impl RecordMemory {
    /// Keeps the memory of these entries, which is free once their worker drops them.
    pub(super) fn keep_pages(&mut self, parts: &[WorkerRecords]) {
        self.pages.extend(parts.iter().map(|part| part.records.clone()));
        self.pages.truncate(SPANS_KEPT * parts.len());
    }

    /// Keeps the memory of records that were all taken out.
    pub(super) fn keep_records(&mut self, records: OtherRecords) {
        self.records.push(records);
        self.records.truncate(SPANS_KEPT);
    }

    /// Takes memory for a typical log.
    pub(super) fn take(&mut self, workers: usize) -> RecordMemory {
        let is_free = |pages: &mut Arc<PageRecords>| Arc::get_mut(pages).is_some();
        let pages = self.pages.extract_if(.., is_free).take(workers).collect();
        RecordMemory { records: self.records.pop().into_iter().collect(), pages }
    }

    fn free_records(&mut self) -> OtherRecords {
        self.records.pop().unwrap_or_default()
    }

    fn free_pages(&mut self) -> PageRecords {
        let mut pages = self.pages.pop().and_then(Arc::into_inner).unwrap_or_default();
        pages.clear();
        pages
    }
}

/// Worker of a page.
fn worker_of(key: PageKey, workers: usize) -> usize {
    (key.pgno / PAGES_TOGETHER + u32::from(key.db)) as usize % workers
}

impl Divider {
    /// Divider with the memory of earlier logs.
    pub(super) fn new(workers: usize, used: RecordMemory) -> Divider {
        let (spans, records, pages) = (Vec::new(), Vec::new(), Vec::new());
        let mut divider = Divider { workers, used, spans, records, pages };
        divider.begin_stretch();
        divider
    }

    fn begin_stretch(&mut self) {
        self.records = self.used.free_records();
        self.pages = (0..self.workers).map(|_| self.used.free_pages()).collect();
    }

    fn end_stretch(&mut self) {
        let part = |records: PageRecords| WorkerRecords { runs: records.runs(), records: records.into() };
        let parts = std::mem::take(&mut self.pages).into_iter().map(part).collect();
        self.spans.push(ReplaySpan { records: std::mem::take(&mut self.records), parts });
    }

    /// Adds what a record says about one page of a database that takes part.
    pub(super) fn page(&mut self, at: RecordSpan, page: PageRecord, bytes: &[u8]) {
        let spread = if planted!(PageOfTwoWorkers) { at.1.byte() / 8 % 2 } else { 0 };
        let key = PageKey { db: page.db, pgno: page.pgno };
        let worker = (worker_of(key, self.workers) + usize::from(spread)) % self.workers;
        self.pages[worker].push(at, page, bytes);
    }

    /// Adds the rest of the record.
    pub(super) fn record(&mut self, at: RecordSpan, record: LogRecord, participants: &Participants) {
        match &record {
            // Of what belongs to a transaction the opening keeps the undo.
            LogRecord::Changes { db, mini, .. }
                if mini.transaction.is_none() && takes_part(participants, *db, at.1) =>
            {
                return;
            }
            LogRecord::PageImage { db, .. } if takes_part(participants, *db, at.1) => return,
            LogRecord::Extend { db, .. } if takes_part(participants, *db, at.1) => {
                self.end_stretch();
                self.begin_stretch();
            }
            _ => {}
        }
        self.records.push((at, record));
    }

    pub(super) fn end(mut self) -> Vec<ReplaySpan> {
        self.end_stretch();
        self.spans
    }
}

#[cfg(test)]
mod tests {
    use btree::{MiniTransaction, PageRecordKind};

    use super::*;
    use crate::log::LogPosition;

    const DB: u8 = 1;

    fn at(byte: u16) -> LogPosition {
        LogPosition::new(1, 1, byte)
    }

    /// Pages that a record names, and the rest of the record.
    type Record = (Vec<(u32, PageRecordKind)>, LogRecord);

    fn changes(transaction: Option<u32>, pgnos: &[u32]) -> Record {
        let kind = PageRecordKind::Change { dbtime_before: 0, formats: false };
        let mini = MiniTransaction { transaction, ..MiniTransaction::default() };
        (pgnos.iter().map(|&pgno| (pgno, kind)).collect(), LogRecord::Changes { db: DB, dbtime: 1, mini })
    }

    fn divided(records: Vec<Record>) -> Vec<ReplaySpan> {
        let mut divider = Divider::new(2, RecordMemory::default());
        for ((pages, record), n) in records.into_iter().zip(1..) {
            let at = (at(n - 1), at(n));
            for (pgno, kind) in pages {
                divider.page(at, PageRecord { db: DB, pgno, dbtime: 1, kind }, &[n as u8]);
            }
            divider.record(at, record, &Participants::from([(DB, LogPosition::default())]));
        }
        divider.end()
    }

    /// Page and end of each record of a part.
    fn pages(part: &WorkerRecords) -> Vec<(u32, LogPosition)> {
        assert!(part.records.iter().all(|said| said.bytes == [said.at.1.byte() as u8]));
        part.records.iter().map(|said| (said.record.pgno, said.at.1)).collect()
    }

    #[test]
    fn the_records_of_a_page_go_to_one_worker_in_the_order_of_the_log() {
        let image = LogRecord::PageImage { db: DB, pgno: 9, dbtime: 1, encoded: Box::default() };
        let image = (vec![(9, PageRecordKind::Image)], image);
        let spans = divided(vec![changes(Some(7), &[9, 20]), image, changes(None, &[21, 9])]);
        let [ReplaySpan { records, parts }] = &spans[..] else { panic!("no length changes") };
        let named = [(9, at(1)), (9, at(2)), (9, at(3))];
        assert_eq!([pages(&parts[0]), pages(&parts[1])], [named.to_vec(), vec![(20, at(1)), (21, at(3))]]);
        // Of what belongs to a transaction the opening keeps the undo, of the rest nothing.
        assert!(matches!(&records[..], [(_, LogRecord::Changes { .. })]));
    }

    #[test]
    fn a_new_length_of_a_file_comes_before_the_pages_of_later_records() {
        let extend = (Vec::new(), LogRecord::Extend { db: DB, before: 30, pages: 60 });
        let spans = divided(vec![changes(None, &[9]), extend, changes(None, &[40])]);
        let [before, behind] = &spans[..] else { panic!("a length changes once") };
        assert!(before.records.is_empty() && pages(&before.parts[0]) == [(9, at(1))]);
        assert!(matches!(behind.records[..], [(_, LogRecord::Extend { .. })]));
        assert_eq!(pages(&behind.parts[0]), [(40, at(3))]);
    }
}

//! The records of a log divided by page: what is between the pages of one worker keeps the order of the log.
//!
//! Invariants
//! 1. All records of a page go to one worker, in the order of the log.
//! 2. A record that changes the length of a file begins a [`Stretch`], so that what comes behind it can be redone
//!    after it.

use btree::{LogRecord, PageRecord};

use super::preread::Run;
use super::records::{PageRecords, Place};
use super::{Participants, takes_part};
use crate::cache::PageKey;

/// Neighbouring pages that one worker has: those of its largest read, so that neighbours are read together.
const PAGES_TOGETHER: u32 = 8;

/// The records of one worker's pages, in the order of the log, and the reads that they need.
#[derive(Default)]
pub(super) struct Part {
    pub(super) records: PageRecords,
    pub(super) runs: Vec<Run>,
}

/// Records between two changes of a file's length.
pub(super) struct Stretch {
    /// What is no worker's; a change of a file's length only as the first.
    pub(super) records: Vec<(Place, LogRecord)>,
    /// One for each worker.
    pub(super) parts: Vec<Part>,
}

/// Divides records, which come in the order of the log.
pub(super) struct Divider {
    stretches: Vec<Stretch>,
    stretch: Stretch,
}

impl Stretch {
    fn new(workers: usize) -> Stretch {
        Stretch { records: Vec::new(), parts: (0..workers).map(|_| Part::default()).collect() }
    }
}

/// The worker that has the page.
fn worker_of(key: PageKey, workers: usize) -> usize {
    (key.pgno / PAGES_TOGETHER + u32::from(key.db)) as usize % workers
}

impl Divider {
    pub(super) fn new(workers: usize) -> Divider {
        Divider { stretches: Vec::new(), stretch: Stretch::new(workers) }
    }

    /// What a record says of a page of a database that takes part.
    pub(super) fn page(&mut self, at: Place, page: PageRecord, bytes: &[u8]) {
        let parts = &mut self.stretch.parts;
        let spread = if planted!(PageOfTwoWorkers) { at.1.byte() / 8 % 2 } else { 0 };
        let worker = worker_of(PageKey { db: page.db, pgno: page.pgno }, parts.len()) + usize::from(spread);
        let count = parts.len();
        parts[worker % count].records.push(at, page, bytes);
    }

    /// The rest of the record.
    pub(super) fn record(&mut self, at: Place, record: LogRecord, participants: &Participants) {
        match &record {
            // Of what belongs to a transaction the opening keeps the undo.
            LogRecord::Changes { db, mini, .. } if takes_part(participants, *db, at.1) => {
                if mini.transaction.is_none() {
                    return;
                }
            }
            LogRecord::PageImage { db, .. } if takes_part(participants, *db, at.1) => return,
            LogRecord::Extend { db, .. } if takes_part(participants, *db, at.1) => {
                let next = Stretch::new(self.stretch.parts.len());
                self.stretches.push(std::mem::replace(&mut self.stretch, next));
            }
            _ => {}
        }
        self.stretch.records.push((at, record));
    }

    pub(super) fn end(self) -> Vec<Stretch> {
        let Divider { mut stretches, stretch } = self;
        stretches.push(stretch);
        for part in stretches.iter_mut().flat_map(|stretch| &mut stretch.parts) {
            part.runs = part.records.runs();
        }
        stretches
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

    /// The pages that a record names, and the rest of it.
    type Record = (Vec<(u32, PageRecordKind)>, LogRecord);

    fn changes(transaction: Option<u32>, pgnos: &[u32]) -> Record {
        let kind = PageRecordKind::Change { dbtime_before: 0, formats: false };
        let mini = MiniTransaction { transaction, ..MiniTransaction::default() };
        (pgnos.iter().map(|&pgno| (pgno, kind)).collect(), LogRecord::Changes { db: DB, dbtime: 1, mini })
    }

    fn divided(records: Vec<Record>) -> Vec<Stretch> {
        let mut divider = Divider::new(2);
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
    fn pages(part: &Part) -> Vec<(u32, LogPosition)> {
        assert!(part.records.iter().all(|said| said.bytes == [said.at.1.byte() as u8]));
        part.records.iter().map(|said| (said.record.pgno, said.at.1)).collect()
    }

    #[test]
    fn the_records_of_a_page_go_to_one_worker_in_the_order_of_the_log() {
        let image = LogRecord::PageImage { db: DB, pgno: 9, dbtime: 1, encoded: Box::default() };
        let image = (vec![(9, PageRecordKind::Image)], image);
        let stretches = divided(vec![changes(Some(7), &[9, 20]), image, changes(None, &[21, 9])]);
        let [Stretch { records, parts }] = &stretches[..] else { panic!("no length changes") };
        let named = [(9, at(1)), (9, at(2)), (9, at(3))];
        assert_eq!([pages(&parts[0]), pages(&parts[1])], [named.to_vec(), vec![(20, at(1)), (21, at(3))]]);
        // Of what belongs to a transaction the opening keeps the undo, of the rest nothing.
        assert!(matches!(&records[..], [(_, LogRecord::Changes { .. })]));
    }

    #[test]
    fn a_new_length_of_a_file_comes_before_the_pages_of_later_records() {
        let extend = (Vec::new(), LogRecord::Extend { db: DB, before: 30, pages: 60 });
        let stretches = divided(vec![changes(None, &[9]), extend, changes(None, &[40])]);
        let [before, behind] = &stretches[..] else { panic!("a length changes once") };
        assert!(before.records.is_empty() && pages(&before.parts[0]) == [(9, at(1))]);
        assert!(matches!(behind.records[..], [(_, LogRecord::Extend { .. })]));
        assert_eq!(pages(&behind.parts[0]), [(40, at(3))]);
    }
}

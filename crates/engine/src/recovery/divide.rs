//! The records of a log divided by page: what is between the pages of one worker keeps the order of the log.
//!
//! Invariants
//! 1. All records of a page go to one worker, in the order of the log.
//! 2. A record that changes the length of a file begins a [`Stretch`], so that what comes behind it can be redone
//!    after it.

use btree::{LogRecord, PageChange};

use super::preread::{Named, Run, runs};
use super::{Participants, takes_part};
use crate::cache::{LoggedPage, PageKey, Wanted};
use crate::log::LogPosition;

/// Neighbouring pages that one worker has: those of its largest read, so that neighbours are read together.
const PAGES_TOGETHER: u32 = 8;

/// A record, and where it begins and ends.
pub(super) type Placed<R> = (LogPosition, LogPosition, R);

/// What a record says of one page.
pub(super) enum PageRecord {
    Change { db: u8, dbtime: u64, change: PageChange },
    Image { key: PageKey, image: LoggedPage },
}

/// The records of one worker's pages, in the order of the log, and the reads that they need.
#[derive(Default)]
pub(super) struct Part {
    pub(super) records: Vec<Placed<PageRecord>>,
    pub(super) runs: Vec<Run>,
}

/// Records between two changes of a file's length.
pub(super) struct Stretch {
    /// What is no worker's; a change of a file's length only as the first.
    pub(super) records: Vec<Placed<LogRecord>>,
    /// One for each worker.
    pub(super) parts: Vec<Part>,
}

impl PageRecord {
    pub(super) fn key(&self) -> PageKey {
        match self {
            PageRecord::Change { db, change, .. } => PageKey { db: *db, pgno: change.pgno },
            PageRecord::Image { key, .. } => *key,
        }
    }

    fn named(&self, at: LogPosition) -> Named {
        let is_whole = match self {
            PageRecord::Change { change, .. } => change.formats(),
            PageRecord::Image { .. } => true,
        };
        Named { at, key: self.key(), wanted: Wanted::by_record(is_whole) }
    }
}

impl Stretch {
    fn new(workers: usize) -> Stretch {
        Stretch { records: Vec::new(), parts: (0..workers).map(|_| Part::default()).collect() }
    }

    fn hand_out(&mut self, start: LogPosition, end: LogPosition, record: PageRecord) {
        let spread = if planted!(PageOfTwoWorkers) { end.byte() / 8 % 2 } else { 0 };
        let worker = (worker_of(record.key(), self.parts.len()) + usize::from(spread)) % self.parts.len();
        self.parts[worker].records.push((start, end, record));
    }
}

/// The worker that has the page.
fn worker_of(key: PageKey, workers: usize) -> usize {
    (key.pgno / PAGES_TOGETHER + u32::from(key.db)) as usize % workers
}

/// Divides records, which are in the order of the log.
pub(super) fn divide(
    records: Vec<Placed<LogRecord>>,
    workers: usize,
    participants: &Participants,
) -> Vec<Stretch> {
    let mut stretches = Vec::new();
    let mut stretch = Stretch::new(workers);
    for (start, end, record) in records {
        match record {
            LogRecord::Changes { db, dbtime, mut mini } if takes_part(participants, db, end) => {
                for change in std::mem::take(&mut mini.changes) {
                    stretch.hand_out(start, end, PageRecord::Change { db, dbtime, change });
                }
                if mini.transaction.is_some() {
                    stretch.records.push((start, end, LogRecord::Changes { db, dbtime, mini }));
                }
            }
            LogRecord::PageImage { db, pgno, dbtime, encoded } if takes_part(participants, db, end) => {
                let (key, image) = (PageKey { db, pgno }, LoggedPage { dbtime, encoded });
                stretch.hand_out(start, end, PageRecord::Image { key, image });
            }
            LogRecord::Extend { db, .. } if takes_part(participants, db, end) => {
                stretches.push(std::mem::replace(&mut stretch, Stretch::new(workers)));
                stretch.records.push((start, end, record));
            }
            _ => stretch.records.push((start, end, record)),
        }
    }
    stretches.push(stretch);
    for part in stretches.iter_mut().flat_map(|stretch| &mut stretch.parts) {
        let named: Vec<Named> = part.records.iter().map(|(_, end, record)| record.named(*end)).collect();
        part.runs = runs(&named);
    }
    stretches
}

#[cfg(test)]
mod tests {
    use btree::MiniTransaction;

    use super::*;

    const DB: u8 = 1;

    fn at(byte: u16) -> LogPosition {
        LogPosition::new(1, 1, byte)
    }

    fn changes(transaction: Option<u32>, pgnos: &[u32]) -> LogRecord {
        let changes =
            pgnos.iter().map(|&pgno| PageChange { pgno, dbtime_before: 0, ops: Default::default() });
        let mini = MiniTransaction { transaction, changes: changes.collect(), ..MiniTransaction::default() };
        LogRecord::Changes { db: DB, dbtime: 1, mini }
    }

    fn divided(records: Vec<LogRecord>) -> Vec<Stretch> {
        let placed = records.into_iter().zip(1..).map(|(record, n)| (at(n - 1), at(n), record)).collect();
        divide(placed, 2, &Participants::from([(DB, LogPosition::default())]))
    }

    /// Page and end of each record of a part.
    fn pages(part: &Part) -> Vec<(u32, LogPosition)> {
        part.records.iter().map(|(_, end, record)| (record.key().pgno, *end)).collect()
    }

    #[test]
    fn the_records_of_a_page_go_to_one_worker_in_the_order_of_the_log() {
        let image = LogRecord::PageImage { db: DB, pgno: 9, dbtime: 1, encoded: Box::default() };
        let stretches = divided(vec![changes(Some(7), &[9, 20]), image, changes(None, &[21, 9])]);
        let [Stretch { records, parts }] = &stretches[..] else { panic!("no length changes") };
        let named = [(9, at(1)), (9, at(2)), (9, at(3))];
        assert_eq!([pages(&parts[0]), pages(&parts[1])], [named.to_vec(), vec![(20, at(1)), (21, at(3))]]);
        // Of what belongs to a transaction the opening keeps the undo, of the rest nothing.
        assert!(matches!(&records[..], [(_, _, LogRecord::Changes { mini, .. })] if mini.changes.is_empty()));
    }

    #[test]
    fn a_new_length_of_a_file_comes_before_the_pages_of_later_records() {
        let extend = LogRecord::Extend { db: DB, before: 30, pages: 60 };
        let stretches = divided(vec![changes(None, &[9]), extend, changes(None, &[40])]);
        let [before, behind] = &stretches[..] else { panic!("a length changes once") };
        assert!(before.records.is_empty() && pages(&before.parts[0]) == [(9, at(1))]);
        assert!(matches!(behind.records[..], [(_, _, LogRecord::Extend { .. })]));
        assert_eq!(pages(&behind.parts[0]), [(40, at(3))]);
    }
}

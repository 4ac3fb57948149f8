//! Logs taken apart into the records that replay works on.
//!
//! Most of that needs no database, so another thread does it ([`Chain::take_apart`]) while replay goes on with the log before.
//! What is left for this one, [`Recovery::generation`], is what only a database can read, and what all records say of its
//! counters.

use std::ops::Range;

use btree::{LogRecord, PageCoding};
use edb::log::{LogDamage, LogHeader, Records, SEGMENT_BYTES};

use super::{Participants, Recovery, Replay, database, takes_part};
use crate::cache::PageKey;
use crate::error::Result;
use crate::log::LogPosition;
use crate::log::reader::{LogContents, damaged};

/// A log generation, decoded.
pub(super) struct Generation {
    pub(super) number: u32,
    /// Where each begins and ends.
    pub(super) records: Vec<(LogPosition, LogPosition, LogRecord)>,
}

/// A record as far as it can be read without its database.
pub(super) enum Read {
    Record(LogRecord),
    /// A change in it makes a page anew, which the coding of its database has written; or it makes no sense.
    Bytes(Box<[u8]>),
}

/// Records, and where each begins and ends.
pub(super) type Stretch = Vec<(LogPosition, LogPosition, Read)>;

/// The logs so far.
#[derive(Clone, Default)]
pub(super) struct Chain {
    pub(super) records: Records,
    newest: Option<LogHeader>,
}

/// A log, and the chain up to its end.
pub(super) struct LogTakenApart {
    pub(super) path: String,
    pub(super) records: Stretch,
    /// Of the last log only.
    pub(super) tail: Option<Tail>,
    pub(super) chain: Chain,
}

/// How the last log ends.
pub(super) struct Tail {
    /// A segment that is valid by itself holds a record that is not what was written: the log ends before it.
    pub(super) is_cut: bool,
    pub(super) next_segment: u16,
    /// Segments behind that which hold something.
    pub(super) leftover: Option<Range<u16>>,
}

impl Chain {
    /// Takes the log `number` apart.
    ///
    /// # Errors
    /// If it does not follow the logs so far, or something is wrong before the end of the last one.
    pub(super) fn take_apart(
        mut self,
        path: String,
        mut log: LogContents,
        number: u32,
        is_last: bool,
    ) -> Result<LogTakenApart> {
        let header = *log.header();
        if header.generation != number || self.newest.is_some_and(|newest| !header.follows(&newest)) {
            return Err(damaged(&path, "it does not belong to the chain of logs"));
        }
        if !is_last && !log.is_complete() {
            return Err(damaged(&path, "a segment in the middle of the log stream is not valid"));
        }
        let tail = is_last.then(|| {
            #[cfg(feature = "planted-bugs")]
            if planted!(RecordSumIgnored) {
                self.records.ignore_checksums();
            }
            let is_cut = log.cut_at_bad_record(&self.records);
            Tail { is_cut, next_segment: log.next_segment(), leftover: log.leftover() }
        });
        self.newest = Some(header);
        let records = read_records(&mut self.records, LogPosition::new(number, 0, 0), log.segments());
        let records = records.map_err(|damage| damaged(&path, &damage.to_string()))?;
        Ok(LogTakenApart { path, records, tail, chain: self })
    }
}

/// The records that end in these segments, the first of which begins at `from` or before.
pub(super) fn read_records<'s>(
    records: &mut Records,
    from: LogPosition,
    segments: impl Iterator<Item = &'s [u8; SEGMENT_BYTES]>,
) -> Result<Stretch, LogDamage> {
    let (mut stretch, mut begin) = (Stretch::new(), from);
    for segment in segments {
        records.push(segment, |end, bytes| {
            let record = LogRecord::decode(bytes, |_| None);
            let read = record.map_or_else(|| Read::Bytes(bytes.into()), Read::Record);
            stretch.push((std::mem::replace(&mut begin, end), end, read));
        })?;
    }
    Ok(stretch)
}

impl Recovery<'_> {
    /// The records behind `start`, and what all of them say of how far modification counters have come.
    ///
    /// # Errors
    /// A record that makes no sense.
    pub(super) fn generation(
        &self,
        path: &str,
        number: u32,
        stretch: Stretch,
        start: LogPosition,
        replay: &mut Replay,
    ) -> Result<Generation> {
        let coding =
            |db: u8| database(self.databases, db).map(|database| &*database.coding as &dyn PageCoding);
        let mut records = Vec::with_capacity(stretch.len());
        for (begin, end, read) in stretch {
            let strange = || damaged(path, &format!("the log record before {end:?} makes no sense"));
            let record = match read {
                Read::Record(record) => record,
                Read::Bytes(bytes) => LogRecord::decode(&bytes, coding).ok_or_else(strange)?,
            };
            if let LogRecord::Changes { db, dbtime, mini } = &record {
                let counter = &database(self.databases, *db).ok_or_else(strange)?.dbtime;
                counter.set(counter.get().max(*dbtime));
                replay.transactions.note_id(mini.transaction.unwrap_or(0));
            }
            if end > start {
                records.push((begin, end, record));
            }
        }
        Ok(Generation { number, records })
    }
}

impl Generation {
    /// The pages that replaying it needs, in the order of the log, and the ends of the records that need them.
    pub(super) fn pages(&self, participants: &Participants) -> Vec<(LogPosition, PageKey)> {
        let mut pages = Vec::new();
        for (_, end, record) in &self.records {
            match record {
                LogRecord::Changes { db, mini, .. } if takes_part(participants, *db, *end) => {
                    let keys = mini.changes.iter().map(|change| PageKey { db: *db, pgno: change.pgno });
                    pages.extend(keys.map(|key| (*end, key)));
                }
                LogRecord::PageImage { db, pgno, .. } if takes_part(participants, *db, *end) => {
                    pages.push((*end, PageKey { db: *db, pgno: *pgno }));
                }
                _ => {}
            }
        }
        pages
    }
}

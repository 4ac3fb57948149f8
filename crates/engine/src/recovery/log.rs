//! Logs taken apart into the records that replay works on, and into what all of them say.
//!
//! None of that needs the databases, so another thread does it ([`Chain::take_apart`]) while replay goes on with the log
//! before.

use std::collections::BTreeMap;
use std::ops::Range;

use btree::LogRecord;
use edb::log::{LogHeader, Records, SEGMENT_BYTES};

use super::preread::{Named, Run, runs};
use super::{Participants, Recovery, Replay, database, takes_part};
use crate::cache::{PageKey, Wanted};
use crate::error::{Error, Result};
use crate::log::LogPosition;
use crate::log::reader::{LogContents, damaged};

/// What replay needs of the log.
#[derive(Clone)]
pub(super) struct Scope {
    pub(super) participants: Participants,
    /// Where redo begins.
    pub(super) start: LogPosition,
}

/// A log generation, or a part of one.
#[derive(Default)]
pub(super) struct Generation {
    pub(super) number: u32,
    /// Where each begins and ends; those before the start of redo are left out.
    pub(super) records: Vec<(LogPosition, LogPosition, LogRecord)>,
    /// The pages that replaying it needs.
    pub(super) runs: Vec<Run>,
    /// By database: the newest dbtime, and where the first record of it ends.
    dbtimes: BTreeMap<u8, (u64, LogPosition)>,
    newest_transaction: u32,
}

/// The logs so far.
#[derive(Clone, Default)]
pub(super) struct Chain {
    pub(super) records: Records,
    newest: Option<LogHeader>,
}

/// A log, and the chain up to its end.
pub(super) struct LogTakenApart {
    pub(super) path: String,
    pub(super) generation: Generation,
    /// Of the last log only.
    pub(super) tail: Option<Tail>,
    pub(super) chain: Chain,
    /// Segments with a flipped bit that was corrected.
    pub(super) corrected: u16,
    /// For the next log.
    pub(super) memory: Vec<u8>,
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
        scope: &Scope,
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
        let from = LogPosition::new(number, 0, 0);
        let generation = Generation::read(&path, &mut self.records, from, log.segments(), scope)?;
        let corrected = log.corrected();
        Ok(LogTakenApart { path, generation, tail, chain: self, corrected, memory: log.into_bytes() })
    }
}

impl Generation {
    /// The records that end in these segments, the first of which begins at `from` or before.
    ///
    /// # Errors
    /// Bytes or a record that make no sense.
    pub(super) fn read<'s>(
        path: &str,
        records: &mut Records,
        from: LogPosition,
        segments: impl Iterator<Item = &'s [u8; SEGMENT_BYTES]>,
        scope: &Scope,
    ) -> Result<Generation> {
        let mut generation = Generation { number: from.generation(), ..Generation::default() };
        let (mut begin, mut strange) = (from, None);
        for segment in segments {
            let read = records.push(segment, |end, bytes| {
                let begin = std::mem::replace(&mut begin, end);
                match LogRecord::decode(bytes) {
                    Some(record) => generation.add(begin, end, record, scope.start),
                    None => drop(strange.get_or_insert(end)),
                }
            });
            read.map_err(|damage| damaged(path, &damage.to_string()))?;
        }
        if let Some(end) = strange {
            return Err(makes_no_sense(path, end));
        }
        generation.runs = runs(&generation.pages(&scope.participants));
        Ok(generation)
    }

    fn add(&mut self, begin: LogPosition, end: LogPosition, record: LogRecord, start: LogPosition) {
        if let LogRecord::Changes { db, dbtime, mini } = &record {
            let newest = &mut self.dbtimes.entry(*db).or_insert((0, end)).0;
            *newest = (*newest).max(*dbtime);
            self.newest_transaction = self.newest_transaction.max(mini.transaction.unwrap_or(0));
        }
        if end > start {
            self.records.push((begin, end, record));
        }
    }

    /// The pages that replaying it needs, in the order of the log.
    fn pages(&self, participants: &Participants) -> Vec<Named> {
        let mut pages = Vec::new();
        for (_, end, record) in &self.records {
            let mut name = |db, pgno, is_whole| {
                // A change goes on what redo has made, of which there may be no more than what the file has by then.
                let wanted = if is_whole { Wanted::Version } else { Wanted::Bytes };
                pages.push(Named { at: *end, key: PageKey { db, pgno }, wanted });
            };
            match record {
                LogRecord::Changes { db, mini, .. } if takes_part(participants, *db, *end) => {
                    mini.changes.iter().for_each(|change| name(*db, change.pgno, change.formats()));
                }
                LogRecord::PageImage { db, pgno, .. } if takes_part(participants, *db, *end) => {
                    name(*db, *pgno, true);
                }
                _ => {}
            }
        }
        pages
    }
}

fn makes_no_sense(path: &str, end: LogPosition) -> Error {
    damaged(path, &format!("the log record before {end:?} makes no sense"))
}

impl Recovery<'_> {
    /// Takes note of what all records say, replayed or not: how far counters have come.
    ///
    /// # Errors
    /// A record of a database that is not there.
    pub(super) fn note(&self, path: &str, generation: &Generation, replay: &mut Replay) -> Result<()> {
        for (&db, &(dbtime, first_end)) in &generation.dbtimes {
            let database = database(self.databases, db).ok_or_else(|| makes_no_sense(path, first_end))?;
            database.dbtime.set(database.dbtime.get().max(dbtime));
        }
        // A stream whose databases are all closed has no open transaction, so its numbers begin anew.
        if !replay.participants.is_empty() {
            replay.transactions.note_id(generation.newest_transaction);
        }
        Ok(())
    }
}

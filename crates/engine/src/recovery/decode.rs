//! Log decoded into the records that replay works on, and into what all of them say.
//!
//! None of that needs the databases, so another thread does it ([`Chain::decode`]) while replay goes on with
//! the log before.

use std::collections::BTreeMap;

use btree::{LogRecord, PageRecord};
use edb::log::{LogHeader, RecordChain, Records, SEGMENT_BYTES};

use super::divide::{Divider, RecordMemory, ReplaySpan};
use super::preread::PageRun;
use super::records::{PageRecords, RecordSpan};
use super::source::{LogPart, Segments};
use super::{Participants, takes_part};
use crate::error::{Error, Result};
use crate::log::LogPosition;
use crate::log::reader::{Ending, damaged};

/// Part of the log that replay needs.
#[derive(Default)]
pub(crate) struct Scope {
    pub(crate) participants: Participants,
    /// Position at which redo begins.
    pub(crate) start: LogPosition,
}

/// State of the log up to a position: chain of records and headers.
#[derive(Clone, Default)]
pub(super) struct Chain {
    records: Records,
    newest: Option<LogHeader>,
}

/// Decoded log, or part of one, and the state at its end.
pub(super) struct Decoded {
    pub(super) path: String,
    pub(super) generation: u32,
    pub(super) records: DecodedRecords,
    pub(super) replayed: Replayed,
    /// End of the log; only for the last log file.
    pub(super) ending: Option<Ending>,
    /// Beginning of the segment behind the part.
    pub(super) end: LogPosition,
    /// Whether the log ends with the part.
    pub(super) closes: bool,
    pub(super) chain: Chain,
    /// Number of segments with a flipped bit that was corrected.
    pub(super) corrected: u16,
    /// Memory for the next log.
    pub(super) memory: Vec<u8>,
}

/// Records from the start of redo on.
pub(super) enum Replayed {
    InLogOrder(InLogOrder),
    ByPage(Vec<ReplaySpan>),
}

#[derive(Default)]
pub(super) struct InLogOrder {
    /// Records, each with the end of its entries in `pages`, which begin where those of the record before end.
    pub(super) records: Vec<(RecordSpan, LogRecord, usize)>,
    /// Entries about pages of databases that take part.
    pub(super) pages: PageRecords,
    /// Reads that the replay of the entries needs.
    pub(super) runs: Vec<PageRun>,
}

/// Receiver of decoded records: this thread, or a divider for workers.
enum RecordSink {
    InLogOrder(InLogOrder),
    ByPage(Divider),
}

/// Summary of all records.
#[derive(Default)]
pub(super) struct DecodedRecords {
    /// Number of records from the start of redo on.
    pub(super) count: u64,
    /// End of the last record.
    pub(super) end: Option<LogPosition>,
    /// Newest dbtime of each database, and the end of the first record with it.
    pub(super) dbtimes: BTreeMap<u8, (u64, LogPosition)>,
    pub(super) newest_transaction: u32,
}

impl Chain {
    /// Newest state of the log that was decoded last.
    pub(super) fn newest(&self) -> Option<&LogHeader> {
        self.newest.as_ref()
    }

    /// Chained checksum of its records.
    pub(super) fn records(&self) -> RecordChain {
        self.records.chain()
    }

    /// Checks that a part follows as the next part of the log.
    ///
    /// # Errors
    /// If it begins a log that does not follow the logs so far.
    pub(super) fn follow(&mut self, part: &LogPart) -> Result<()> {
        let Some(header) = part.header else { return Ok(()) };
        let follows = self.newest.is_none_or(|newest| header.follows(&newest));
        if header.generation != part.from.generation() || !follows {
            return Err(damaged(&part.path, "it does not belong to the chain of logs"));
        }
        self.newest = Some(header);
        Ok(())
    }

    /// Decodes the next part of the log for this number of workers; reuses the memory of earlier parts.
    ///
    /// # Errors
    /// If something is wrong before the end of the last log.
    pub(super) fn decode(
        mut self,
        mut part: LogPart,
        scope: &Scope,
        for_workers: Option<(usize, RecordMemory)>,
    ) -> Result<Decoded> {
        let (from, generation) = (part.from, part.from.generation());
        let mut ending = None;
        let (end, closes) = match &mut part.segments {
            Segments::File { log, is_last: false } => {
                if !log.is_complete() {
                    let reason = "a segment in the middle of the log stream is not valid";
                    return Err(damaged(&part.path, reason));
                }
                (LogPosition::new(generation + 1, 0, 0), true)
            }
            Segments::File { log, is_last: true } => {
                #[cfg(feature = "planted-bugs")]
                if planted!(RecordSumIgnored) {
                    self.records.ignore_checksums();
                }
                ending = Some(log.settle_end(Some(&self.records))?);
                (LogPosition::new(generation, log.next_segment(), 0), true)
            }
            Segments::Stored { stretch, .. } => (stretch.end(), stretch.closes),
        };
        let mut taker = RecordSink::new(for_workers);
        let records = match &part.segments {
            Segments::File { log, .. } => self.read(&part.path, from, log.segments(), scope, &mut taker)?,
            Segments::Stored { stretch, per_log } => {
                let (segments, _) = stretch.bytes.as_chunks::<SEGMENT_BYTES>();
                let numbered = segments.iter().zip(from.segment()..);
                let in_use = numbered.filter(|(_, number)| (1..per_log - 1).contains(number));
                self.read(&part.path, from, in_use.map(|(segment, _)| segment), scope, &mut taker)?
            }
        };
        let (corrected, memory) = match part.segments {
            Segments::File { log, .. } => (log.corrected(), log.into_bytes()),
            Segments::Stored { stretch, .. } => (0, stretch.bytes),
        };
        let (path, replayed) = (part.path, taker.end());
        Ok(Decoded {
            path,
            generation,
            records,
            replayed,
            ending,
            end,
            closes,
            chain: self,
            corrected,
            memory,
        })
    }

    /// Decodes the records that end in these segments, the first of which begins at `from` or before.
    fn read<'s>(
        &mut self,
        path: &str,
        from: LogPosition,
        segments: impl Iterator<Item = &'s [u8; SEGMENT_BYTES]>,
        scope: &Scope,
        taker: &mut RecordSink,
    ) -> Result<DecodedRecords> {
        let (mut decoded, participants) = (DecodedRecords::default(), &scope.participants);
        let (mut begin, mut strange) = (from, None);
        for segment in segments {
            let read = self.records.push(segment, |end, bytes| {
                let at = (std::mem::replace(&mut begin, end), end);
                let is_replayed = end > scope.start;
                let record = LogRecord::decode_apart(bytes, |page, bytes| {
                    if is_replayed && takes_part(participants, page.db, end) {
                        taker.page(at, page, bytes);
                    }
                });
                let Some(record) = record else {
                    strange.get_or_insert(end);
                    return;
                };
                decoded.note(end, &record, scope.start);
                if is_replayed {
                    taker.record(at, record, participants);
                }
            });
            read.map_err(|damage| damaged(path, &damage.to_string()))?;
        }
        if let Some(end) = strange {
            return Err(makes_no_sense(path, end));
        }
        Ok(decoded)
    }
}

impl DecodedRecords {
    fn note(&mut self, end: LogPosition, record: &LogRecord, start: LogPosition) {
        if let LogRecord::Changes { db, dbtime, mini } = record {
            let newest = &mut self.dbtimes.entry(*db).or_insert((0, end)).0;
            *newest = (*newest).max(*dbtime);
            self.newest_transaction = self.newest_transaction.max(mini.transaction.unwrap_or(0));
        }
        if end > start {
            self.count += 1;
            self.end = Some(end);
        }
    }
}

impl RecordSink {
    fn new(for_workers: Option<(usize, RecordMemory)>) -> RecordSink {
        match for_workers {
            Some((workers, used)) => RecordSink::ByPage(Divider::new(workers, used)),
            None => RecordSink::InLogOrder(InLogOrder::default()),
        }
    }

    fn page(&mut self, at: RecordSpan, page: PageRecord, bytes: &[u8]) {
        match self {
            RecordSink::InLogOrder(all) => all.pages.push(at, page, bytes),
            RecordSink::ByPage(divider) => divider.page(at, page, bytes),
        }
    }

    fn record(&mut self, at: RecordSpan, record: LogRecord, participants: &Participants) {
        match self {
            RecordSink::InLogOrder(all) => all.records.push((at, record, all.pages.len())),
            RecordSink::ByPage(divider) => divider.record(at, record, participants),
        }
    }

    fn end(self) -> Replayed {
        match self {
            RecordSink::InLogOrder(mut all) => {
                all.runs = all.pages.runs();
                Replayed::InLogOrder(all)
            }
            RecordSink::ByPage(divider) => Replayed::ByPage(divider.end()),
        }
    }
}

pub(super) fn makes_no_sense(path: &str, end: LogPosition) -> Error {
    damaged(path, &format!("the log record before {end:?} makes no sense"))
}

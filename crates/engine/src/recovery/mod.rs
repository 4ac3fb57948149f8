//! Recovery: from the files that a crash has left to an instance that can go on.
//!
//! Invariants
//! 1. Redo begins at the checkpoint (a backup copy: at its own position), follows the chain of logs, and gives
//!    each page the changes that it lacks. A page that is neither older nor newer as it should be is damage,
//!    not repaired over.
//! 2. The first whole page that the range holds takes the place of what the file has, whether that verifies or not
//!    (`pages`). A page that needs one and has none makes recovery fail, and it says so.
//! 3. The checkpoint does not move until redo is complete and all its pages are written and synced: a crash in recovery
//!    leaves everything that the next one needs (design invariant 5).
//! 4. The log is durable before a page is written from it: the process before may have ended between a write
//!    and its sync.
//! 5. What follows the last valid segment is wiped before the log goes on, so that leftovers of a lost tail can never
//!    pass for a continuation. That comes after the pages are judged: a recovery that fails leaves the log as it found
//!    it. A current log that lost durable segments is refused before anything is changed.
//!
//! Redo goes through the log with the replayer that a passive copy uses, too (`replayer`). Pages are redone where it
//! runs, or by workers who have divided them (`divide`, `workers`).

mod branch;
mod decode;
mod divide;
mod left;
mod pages;
mod preread;
mod records;
mod replayer;
mod source;
mod thread_share;
mod workers;

use std::collections::BTreeMap;
use std::rc::Rc;

use edb::header::DatabaseState;
use edb::log::LogHeader;
use results::IoClass;
use smallvec::smallvec;
use world::{OpenMode, PageBuf, SECTOR_BYTES, Time, World};

use crate::cache::{Cache, RedoFor};
use crate::checkpoint;
use crate::config::{InstanceConfig, Redo};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::io::{Counters, IoFile};
use crate::log::reader::{LogContents, LogFiles, damaged, read_header};
use crate::log::writer::OpenLog;
use crate::log::{LogNames, LogPosition, Signature};
use crate::transactions::Transactions;

pub use branch::{BranchCounts, RecoveryBranch};
pub(crate) use decode::Scope;
pub use left::check_closed;
#[cfg(test)]
pub(crate) use preread::{NamedPage, Pace, Prereader, runs};
pub(crate) use replayer::Replayer;
pub(crate) use source::Source;
use workers::Workers;

/// Result of a recovery.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecoveryReport {
    /// Number of replayed log generations.
    pub logs_replayed: u32,
    /// End of the replayed log; compensations of open transactions follow behind it.
    pub log_end: LogPosition,
    /// Number of records that were applied or found applied.
    pub records: u64,
    /// Number of applied page changes.
    pub changes_applied: u64,
    /// Number of pages that had failed their check and were repaired from the log.
    pub pages_repaired: u64,
    /// Number of log segments with a flipped bit that was corrected.
    pub segments_corrected: u64,
    /// Number of log segments behind the end of the current log that held something and were wiped.
    pub segments_given_up: u64,
    /// Number of these segments that no torn write explains.
    pub segments_unexplained: u64,
    /// Number of transactions that were undone.
    pub transactions_rolled_back: u32,
    /// Time to replay the logs, s.
    pub redo_seconds: f64,
    /// Time to write the pages that redo changed, s.
    pub write_seconds: f64,
    /// Time to undo open transactions, s.
    pub undo_seconds: f64,
    /// Databases, by number, whose flush map contradicted them, with the reason; the map is begun anew.
    pub flush_maps_refused: Vec<(u8, String)>,
    /// Branches that the recovery took.
    pub branches: BranchCounts,
}

/// Result of redo for the instance.
pub(crate) struct Redone {
    pub(crate) log: OpenLog,
    pub(crate) signature: Signature,
    pub(crate) transactions: Transactions,
    pub(crate) report: RecoveryReport,
}

/// State of a recovery: files, cache and log.
pub(crate) struct Recovery<'a> {
    pub(crate) world: &'a World,
    pub(crate) config: &'a InstanceConfig,
    pub(crate) names: &'a LogNames,
    pub(crate) segments: u16,
    pub(crate) cache: &'a Cache,
    pub(crate) databases: &'a [Rc<Database>],
    pub(crate) counters: &'a Counters,
}

/// Number of page writes at a time when redo has ended and nothing else uses the disk: the third of ESE's four steps.
const WRITES_OUTSTANDING: usize = 128;
/// Position from which on each database takes part in redo.
pub(crate) type Participants = BTreeMap<u8, LogPosition>;

fn database(databases: &[Rc<Database>], db: u8) -> Option<&Rc<Database>> {
    databases.get(usize::from(db).checked_sub(1)?)
}

impl Recovery<'_> {
    /// Brings all databases to the end of the log, in memory and then in their files.
    pub(crate) async fn redo(&self, files: &LogFiles) -> Result<Redone> {
        let started = self.world.now();
        let mut report = RecoveryReport::default();
        let last = self.name_last_log(files, &mut report).await?;
        let current = self.names.current();
        let header = self.read_header(&current).await?;
        let participants = self.participants(&header).await?;
        let log = self.read_current().await?;
        self.check_required(participants.1, last, log.is_complete())?;
        let start = self.start(files, &header, &participants.0, &mut report).await?;
        report.log_end = start;
        // What an ended process wrote and did not sync can be read, and a power cut would take it back: pages
        // with changes of a record that is gone could not be undone.
        let file = IoFile::open(self.world, &current, OpenMode::ReadWrite, self.counters).await?;
        if !planted!(TailNotSynced) {
            file.sync().await?;
        }
        let scope = Scope { participants: participants.0, start };
        let has_participants = !scope.participants.is_empty();
        let mut replayer = Replayer::new(scope, participants.1, report);
        replayer.replay.closed = self.closed(header.signature).await;
        let is_by_page = self.config.redo == Redo::ByPage && has_participants;
        match is_by_page.then(|| Workers::start(self)).flatten() {
            Some(mut workers) => {
                let redone = self.redo_pages(&mut replayer, log, started, Some(&mut workers)).await;
                workers.end(redone).await?;
            }
            None => self.redo_pages(&mut replayer, log, started, None).await?,
        }
        self.wipe(&file, &mut replayer).await?;
        let (next_segment, chain) = (replayer.replayed().segment(), replayer.records());
        let mut replay = replayer.replay;
        let oldest = self.drop_leftovers(files, last, &mut replay.report).await?;
        let log = OpenLog { file, generation: last, created: header.created, next_segment, chain, oldest };
        Ok(Redone {
            log,
            signature: header.signature,
            transactions: replay.transactions,
            report: replay.report,
        })
    }

    /// Replays the logs up to the current one, in memory and then in the files.
    async fn redo_pages(
        &self,
        replayer: &mut Replayer,
        current: LogContents,
        started: Time,
        mut workers: Option<&mut Workers>,
    ) -> Result<()> {
        // A log that is full, with nothing left to write: the checkpoint names the next one, which may not be
        // there yet. Its records are needed no more, but where it ends is.
        let last = current.header().generation;
        let next = replayer.start().generation().min(last);
        self.cache.set_redo(Some(RedoFor::Opening));
        let replayed = match workers.as_deref_mut() {
            Some(workers) => replayer.run_with(self, (next..last, current), workers).await,
            None => {
                let source = Source::Files { next, current: Some(current), memory: Vec::new() };
                replayer.run(self, source).await
            }
        };
        self.cache.set_redo(None);
        replayed?;
        self.check_reaches(last, replayer.replayed().segment()).await?;
        self.judge_pages(&replayer.replay.pages)?;
        let report = &mut replayer.replay.report;
        report.redo_seconds = self.world.now().since(started).as_secs_f64();

        let writing = self.world.now();
        match workers {
            Some(workers) => workers.write().await?,
            None => {
                self.cache.write_all(WRITES_OUTSTANDING).await?;
                self.cache.make_all()?;
                self.cache.assert_all_written();
            }
        }
        report.write_seconds = self.world.now().since(writing).as_secs_f64();
        Ok(())
    }

    async fn read_header(&self, path: &str) -> Result<LogHeader> {
        let header = read_header(self.world, path, self.counters, IoClass::LogRead).await?;
        header.ok_or_else(|| damaged(path, "its header is not intact"))
    }

    fn database(&self, db: u8) -> Option<&Rc<Database>> {
        database(self.databases, db)
    }

    /// Ensures that the last log has the name of the current one (a crash may have interrupted a roll). Returns its
    /// generation. If the name is lost again, the next recovery repeats this.
    pub(crate) async fn name_last_log(&self, files: &LogFiles, report: &mut RecoveryReport) -> Result<u32> {
        let newest_archive = files.archives.last().copied();
        match (files.current, newest_archive) {
            (true, newest_archive) => {
                let current = self.names.current();
                let header = self.read_header(&current).await?;
                // Closed logs that had been removed may be back, so the newest need not be the one before.
                match newest_archive {
                    Some(archive) if archive >= header.generation => {
                        Err(damaged(&current, "it is older than the last closed log"))
                    }
                    _ => Ok(header.generation),
                }
            }
            (false, Some(archive)) => {
                self.world.rename(&self.names.archive(archive), &self.names.current()).await?;
                report.branches.count(RecoveryBranch::RollUndone);
                Ok(archive)
            }
            (false, None) => {
                Err(Error::MissingLog { directory: self.names.directory.clone(), generation: 1 })
            }
        }
    }

    /// Databases that need this log stream, and the newest log that their headers name.
    pub(crate) async fn participants(&self, last: &LogHeader) -> Result<(Participants, u32)> {
        if usize::from(last.page_bytes) != self.config.page_bytes {
            return Err(Error::Refused(format!(
                "the logs in {} are of databases with pages of {} bytes, not {}",
                self.names.directory, last.page_bytes, self.config.page_bytes
            )));
        }
        let (mut participants, mut newest) = (Participants::new(), 0);
        for database in self.databases {
            let header = database.header().await;
            if header.state() == DatabaseState::Clean {
                continue;
            }
            if header.log_signature() != last.signature {
                let path = database.file.path();
                return Err(Error::Refused(format!("{path} needs the logs of another log stream")));
            }
            newest = newest.max(header.generations().1);
            participants.insert(database.id, header.attach_position());
        }
        Ok((participants, newest))
    }

    /// Checks that the log reaches to `required`. A header names the next log before that log has its name.
    pub(crate) fn check_required(&self, required: u32, last: u32, is_full: bool) -> Result<()> {
        if required > last + 1 || required > last && !is_full {
            return Err(self.missing(required));
        }
        Ok(())
    }

    /// Reads the current log and judges its end, before redo changes anything.
    async fn read_current(&self) -> Result<LogContents> {
        let (path, class) = (self.names.current(), IoClass::LogRead);
        let mut log = LogContents::read(self.world, &path, self.segments, self.counters, class).await?;
        // A record that is not what was written is found later, with the records before it.
        log.settle_end(None)?;
        Ok(log)
    }

    /// Removes logs behind a gap: unsynced removals of old logs can be lost, so that some come back. Returns the
    /// oldest log that stays.
    pub(crate) async fn drop_leftovers(
        &self,
        files: &LogFiles,
        last: u32,
        report: &mut RecoveryReport,
    ) -> Result<u32> {
        let mut oldest = last;
        for &generation in files.archives.iter().rev().filter(|&&generation| generation < last) {
            if generation + 1 == oldest {
                oldest = generation;
            } else if self.config.circular_logging {
                self.world.remove(&self.names.archive(generation)).await?;
                report.branches.count(RecoveryBranch::LeftoverLogRemoved);
            }
        }
        Ok(oldest)
    }

    pub(crate) fn missing(&self, generation: u32) -> Error {
        Error::MissingLog { directory: self.names.directory.clone(), generation }
    }

    /// Position at which redo begins.
    pub(crate) async fn start(
        &self,
        files: &LogFiles,
        last: &LogHeader,
        participants: &Participants,
        report: &mut RecoveryReport,
    ) -> Result<LogPosition> {
        let end = LogPosition::new(last.generation, 0, 0);
        if participants.is_empty() {
            report.branches.count(RecoveryBranch::NothingToReplay);
            return Ok(end);
        }
        let checkpoint = checkpoint::read(self.world, &self.names.checkpoint(), self.counters).await?;
        let checkpoint = checkpoint.filter(|(checkpoint, _)| checkpoint.signature == last.signature);
        let mut start = match checkpoint {
            Some((checkpoint, copy)) => {
                if copy > 0 {
                    report.branches.count(RecoveryBranch::SecondCheckpoint);
                }
                checkpoint.position
            }
            // Without a checkpoint the oldest log that is still there will do: none that is needed has been removed.
            None => {
                report.branches.count(RecoveryBranch::NoCheckpoint);
                self.oldest_of_chain(files, last).await?
            }
        };
        for db in participants.keys() {
            if self.database(*db).is_some_and(|database| database.header_from_shadow) {
                report.branches.count(RecoveryBranch::ShadowHeader);
            }
        }
        for db in participants.keys() {
            let header = self.database(*db).expect("participants are attached").header().await;
            if header.backup_position() != LogPosition::default() && !planted!(CopyRedoneFromCheckpoint) {
                start = start.min(header.backup_position());
            }
        }
        Ok(start)
    }

    async fn oldest_of_chain(&self, files: &LogFiles, last: &LogHeader) -> Result<LogPosition> {
        let mut newer = *last;
        // A roll that was cut off has been undone: that log is the current one again.
        for &generation in files.archives.iter().rev().filter(|&&generation| generation < last.generation) {
            let path = self.names.archive(generation);
            let header = read_header(self.world, &path, self.counters, IoClass::LogRead).await?;
            match header {
                Some(header) if newer.follows(&header) => newer = header,
                _ => break,
            }
        }
        Ok(LogPosition::new(newer.generation, 0, 0))
    }

    /// Zeroes the segments behind the last valid one of the current log.
    async fn wipe(&self, file: &IoFile, replayer: &mut Replayer) -> Result<()> {
        let (end, rest) = (replayer.replayed().segment(), replayer.replay.rest);
        if rest.segments > 0 {
            let bytes = usize::from(rest.end - end) * SECTOR_BYTES;
            let offset = u64::from(end) * SECTOR_BYTES as u64;
            file.write_durable(IoClass::LogPrepareWrite, offset, smallvec![PageBuf::empty(bytes)]).await?;
            replayer.replay.report.branches.count(RecoveryBranch::TailWiped);
        }
        // Only now: the mark of a copy says which segments may be torn.
        if rest.is_marked { self.clear_mark(file).await } else { Ok(()) }
    }

    /// Zeroes the mark of a passive copy, because an instance continues the log. A mark that a power cut brings back
    /// claims less than is true.
    pub(crate) async fn clear_mark(&self, file: &IoFile) -> Result<()> {
        let offset = u64::from(self.segments - 1) * SECTOR_BYTES as u64;
        file.write(IoClass::LogPrepareWrite, offset, smallvec![PageBuf::empty(SECTOR_BYTES)]).await
    }
}

fn takes_part(participants: &Participants, db: u8, position: LogPosition) -> bool {
    participants.get(&db).is_some_and(|from| position > *from)
}

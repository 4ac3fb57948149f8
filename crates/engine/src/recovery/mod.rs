//! Recovery: from the files that a crash has left to an instance that can go on.
//!
//! Invariants
//! 1. Redo begins at the checkpoint (a backup copy: at its own position), follows the chain of logs, and gives each page
//!    the changes that it lacks. A page that is neither older nor newer as it should be is damage, not repaired over.
//! 2. The first whole page that the range holds takes the place of what the file has, whether that verifies or not
//!    (`pages`). A page that needs one and has none makes recovery fail, and it says so.
//! 3. The checkpoint does not move until redo is complete and all its pages are written and synced: a crash in recovery
//!    leaves everything that the next one needs (design invariant 5).
//! 4. The log is durable before a page is written from it: the process before may have ended between a write and its sync.
//! 5. What follows the last valid segment is wiped before the log goes on, so that leftovers of a lost tail can never
//!    pass for a continuation.
//!
//! Limits: while a generation is replayed, the next one is read and taken apart (`log`), and then its pages are read.

mod branch;
mod left;
mod log;
mod pages;
mod preread;
mod standby;

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use btree::LogRecord;
use edb::header::State;
use edb::log::{LogHeader, RecordChain};
use futures_util::future::join;
use results::IoClass;
use smallvec::smallvec;
use world::{OpenMode, PageBuf, SECTOR_BYTES, World};

use crate::cache::{Cache, LoggedPage, PageKey, RedoFor};
use crate::checkpoint;
use crate::config::InstanceConfig;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::io::{Counters, IoFile};
use crate::log::reader::{LogContents, LogFiles, damaged, read_header};
use crate::log::writer::OpenLog;
use crate::log::{LogNames, LogPosition, Signature};
use crate::transactions::Transactions;

pub use branch::{BranchCounts, RecoveryBranch};
use left::Closed;
pub use left::check_closed;
use log::{Chain, Generation, LogTakenApart, Scope};
use pages::PageStates;
pub(crate) use preread::Prereader;
#[cfg(test)]
pub(crate) use preread::{Named, runs};
pub use standby::{Standby, changed_pages, cut_back, saved_checkpoint};

/// What recovery did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecoveryReport {
    /// Log generations replayed.
    pub logs_replayed: u32,
    /// Where the log ends that was replayed; what is taken back afterwards lies behind it.
    pub log_end: LogPosition,
    /// Records applied or found applied.
    pub records: u64,
    /// Page changes made.
    pub changes_applied: u64,
    /// Pages that had failed their check and were repaired from the log.
    pub pages_repaired: u64,
    /// Log segments with a flipped bit that was corrected.
    pub segments_corrected: u64,
    /// Transactions taken back.
    pub transactions_rolled_back: u32,
    /// Time to replay the logs.
    pub redo_seconds: f64,
    /// Time to write the pages that redo changed.
    pub write_seconds: f64,
    /// Time to take back open transactions.
    pub undo_seconds: f64,
    /// Which ways it took.
    pub branches: BranchCounts,
}

/// What redo leaves to the instance.
pub(crate) struct Redone {
    pub(crate) log: OpenLog,
    pub(crate) signature: Signature,
    pub(crate) transactions: Transactions,
    pub(crate) report: RecoveryReport,
}

/// Everything redo works on.
pub(crate) struct Recovery<'a> {
    pub(crate) world: &'a World,
    pub(crate) config: &'a InstanceConfig,
    pub(crate) names: &'a LogNames,
    pub(crate) segments: u16,
    pub(crate) cache: &'a Cache,
    pub(crate) databases: &'a [Rc<Database>],
    pub(crate) counters: &'a Counters,
}

/// Page writes under way when redo has ended and nobody else wants the disk: the third of ESE's four steps.
const WRITES_OUTSTANDING: usize = 128;
/// Records replayed before others of the thread have their turn, if none of them is a page: reads that have come make room for
/// others only then.
const RECORDS_AT_A_TIME: usize = 16;

/// From which position on a database takes part in redo.
type Participants = BTreeMap<u8, LogPosition>;

struct Replay {
    participants: Participants,
    /// The newest log that a database header names.
    required: u32,
    transactions: Transactions,
    pages: PageStates,
    /// The newest checkpoint that the log itself names.
    logged_checkpoint: LogPosition,
    /// What must not change any more.
    closed: Closed,
    report: RecoveryReport,
}

impl Replay {
    fn new((participants, required): (Participants, u32), report: RecoveryReport) -> Replay {
        Replay {
            participants,
            required,
            transactions: Transactions::default(),
            pages: PageStates::default(),
            logged_checkpoint: LogPosition::default(),
            closed: Closed::default(),
            report,
        }
    }
}

fn database(databases: &[Rc<Database>], db: u8) -> Option<&Rc<Database>> {
    databases.get(usize::from(db).checked_sub(1)?)
}

impl Recovery<'_> {
    /// Brings all databases to the end of the log, in memory and then in their files.
    pub(crate) async fn redo(&self, files: &LogFiles) -> Result<Redone> {
        let started = self.world.now();
        let mut report = RecoveryReport::default();
        let last = self.settle_names(files, &mut report).await?;
        let current = self.names.current();
        let header = self.read_header(&current).await?;
        let participants = self.participants(&header).await?;
        let is_full = participants.1 > last && self.is_full(&current).await?;
        self.check_required(participants.1, last, is_full)?;
        let start = self.start(files, &header, &participants.0, &mut report).await?;
        report.log_end = start;
        // What an ended process wrote and did not sync can be read, and a power cut would take it back: pages with changes of
        // a record that is gone could not be undone.
        let file = IoFile::open(self.world, &current, OpenMode::ReadWrite, self.counters).await?;
        if !planted!(TailNotSynced) {
            file.sync().await?;
        }
        let mut replay = Replay::new(participants, report);
        replay.closed = self.closed(header.signature).await;
        self.cache.set_redo(Some(RedoFor::Opening));
        let replayed = self.replay_all(start, &header, &mut replay).await;
        self.cache.set_redo(None);
        let (next_segment, chain) = replayed?;
        self.check_reaches(last, next_segment).await?;
        self.judge_pages(&replay.pages)?;
        replay.report.redo_seconds = self.world.now().since(started).as_secs_f64();

        let writing = self.world.now();
        self.cache.write_all(WRITES_OUTSTANDING).await?;
        self.cache.settle_all()?;
        self.cache.assert_all_written();
        replay.report.write_seconds = self.world.now().since(writing).as_secs_f64();

        let oldest = self.drop_leftovers(files, last, &mut replay.report).await?;
        let log = OpenLog { file, generation: last, created: header.created, next_segment, chain, oldest };
        Ok(Redone {
            log,
            signature: header.signature,
            transactions: replay.transactions,
            report: replay.report,
        })
    }

    async fn read_header(&self, path: &str) -> Result<LogHeader> {
        let header = read_header(self.world, path, self.counters, IoClass::LogRead).await?;
        header.ok_or_else(|| damaged(path, "its header is not intact"))
    }

    fn database(&self, db: u8) -> Option<&Rc<Database>> {
        database(self.databases, db)
    }

    /// Makes sure that the last log has the name of the current one (a crash may have come in the middle of a roll).
    /// Returns its generation. Should the name be lost again, the next recovery gives it again.
    async fn settle_names(&self, files: &LogFiles, report: &mut RecoveryReport) -> Result<u32> {
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
                report.branches.count(RecoveryBranch::RollTakenBack);
                Ok(archive)
            }
            (false, None) => {
                Err(Error::MissingLog { directory: self.names.directory.clone(), generation: 1 })
            }
        }
    }

    /// The databases that need this log stream, and the newest log that their headers name.
    async fn participants(&self, last: &LogHeader) -> Result<(Participants, u32)> {
        if usize::from(last.page_bytes) != self.config.page_bytes {
            return Err(Error::Refused(format!(
                "the logs in {} are of databases with pages of {} bytes, not {}",
                self.names.directory, last.page_bytes, self.config.page_bytes
            )));
        }
        let (mut participants, mut newest) = (Participants::new(), 0);
        for database in self.databases {
            let header = database.header().await;
            if header.state() == State::Clean {
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

    /// The log must reach to `required`. A header names the next log before that log has its name.
    fn check_required(&self, required: u32, last: u32, is_full: bool) -> Result<()> {
        if required > last + 1 || required > last && !is_full {
            return Err(self.missing(required));
        }
        Ok(())
    }

    /// Whether every segment of a log that carries records is usable.
    async fn is_full(&self, path: &str) -> Result<bool> {
        let log = LogContents::read(self.world, path, self.segments, self.counters, IoClass::LogRead).await?;
        Ok(log.is_complete())
    }

    /// Removals of old logs that were not durable can come back with gaps between them: what lies behind a gap goes
    /// again. Returns the oldest log that stays.
    async fn drop_leftovers(&self, files: &LogFiles, last: u32, report: &mut RecoveryReport) -> Result<u32> {
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

    fn missing(&self, generation: u32) -> Error {
        Error::MissingLog { directory: self.names.directory.clone(), generation }
    }

    /// Where redo begins.
    async fn start(
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
        // A roll that was cut off has been taken back: that log is the current one again.
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

    /// Replays from `start` to the end; returns the first free segment of the last log and the chain of its records.
    async fn replay_all(
        &self,
        start: LogPosition,
        last: &LogHeader,
        replay: &mut Replay,
    ) -> Result<(u16, RecordChain)> {
        let prereader = Prereader::start(self.world, self.cache, self.config.recovery_reads_outstanding);
        let result = self.replay_generations(start, last, replay, &prereader).await;
        prereader.stop().await;
        result
    }

    async fn replay_generations(
        &self,
        start: LogPosition,
        last: &LogHeader,
        replay: &mut Replay,
        prereader: &Prereader,
    ) -> Result<(u16, RecordChain)> {
        let mut free_segment = 1;
        // A log that is full, with nothing left to write: the checkpoint names the next one, which may not be there yet. Its
        // records are needed no more, but where it ends is.
        let mut number = start.generation().min(last.generation);
        let mut chain = Chain::default();
        let scope = Scope { participants: replay.participants.clone(), start };
        let mut next = self.log(Vec::new(), number, last, &chain, &scope, prereader).await?;
        while let Some(log) = next {
            chain = log.chain;
            replay.report.segments_corrected += u64::from(log.corrected);
            if let Some(tail) = log.tail {
                if tail.is_cut {
                    replay.report.branches.count(RecoveryBranch::TailCutByRecord);
                    if replay.required > number {
                        let reason = "a record in it is not what was written, and later ones were";
                        return Err(damaged(&log.path, reason));
                    }
                }
                free_segment = tail.next_segment;
                if let Some(leftover) = tail.leftover {
                    self.wipe(&log.path, leftover).await?;
                    replay.report.branches.count(RecoveryBranch::TailWiped);
                }
            }
            self.note(&log.path, &log.generation, replay)?;
            number += 1;
            let following = self.log(log.memory, number, last, &chain, &scope, prereader);
            let replaying = self.replay_one(log.generation, replay, prereader);
            let (replayed, following) = join(replaying, following).await;
            replayed?;
            next = following?;
        }
        Ok((free_segment, chain.records.chain()))
    }

    /// The log of this number, which follows `chain`, taken apart; `None` behind the last one. Its pages are read ahead from
    /// now on.
    async fn log(
        &self,
        memory: Vec<u8>,
        number: u32,
        last: &LogHeader,
        chain: &Chain,
        scope: &Scope,
        prereader: &Prereader,
    ) -> Result<Option<LogTakenApart>> {
        if number > last.generation {
            return Ok(None);
        }
        let is_last = number == last.generation;
        let path = if is_last { self.names.current() } else { self.names.archive(number) };
        if !is_last && self.world.entry(&path).await?.is_none() {
            return Err(self.missing(number));
        }
        let (world, segments, class) = (self.world, self.segments, IoClass::LogRead);
        let log = LogContents::read_into(memory, world, &path, segments, self.counters, class).await?;
        let (chain, scope) = (chain.clone(), scope.clone());
        let work = move || chain.take_apart(path, log, number, is_last, &scope);
        let mut log = self.world.compute(work).await?;
        prereader.add(std::mem::take(&mut log.generation.runs));
        Ok(Some(log))
    }

    /// Zeroes segments behind the last valid one.
    async fn wipe(&self, path: &str, leftover: Range<u16>) -> Result<()> {
        let file = IoFile::open(self.world, path, OpenMode::ReadWrite, self.counters).await?;
        let bytes = usize::from(leftover.end - leftover.start) * SECTOR_BYTES;
        let offset = u64::from(leftover.start) * SECTOR_BYTES as u64;
        file.write_durable(IoClass::LogPrepareWrite, offset, smallvec![PageBuf::empty(bytes)]).await
    }

    async fn replay_one(
        &self,
        generation: Generation,
        replay: &mut Replay,
        prereader: &Prereader,
    ) -> Result<()> {
        let participating: Vec<u8> = replay.participants.keys().copied().collect();
        // Without a database that needs the log, reading it only finds its end.
        replay.report.logs_replayed += u32::from(!participating.is_empty());
        let noted = self.note_generation(generation.number, &participating);
        let (replayed, noted) = join(self.replay_records(generation, replay, prereader), noted).await;
        replayed.and(noted)
    }

    /// Says in the headers how far recovery has come: for whoever reads them, recovery itself does not.
    async fn note_generation(&self, generation: u32, participating: &[u8]) -> Result<()> {
        for db in participating {
            let database = self.database(*db).expect("participants are attached");
            // What the generation before has brought, then which one comes now.
            database.update_header(|_| ()).await?;
            database.update_header(|header| header.set_recovering_generation(generation)).await?;
        }
        Ok(())
    }

    async fn replay_records(
        &self,
        generation: Generation,
        replay: &mut Replay,
        prereader: &Prereader,
    ) -> Result<()> {
        let mut replayed = 0;
        for (start, end, record) in generation.records {
            replayed =
                if matches!(record, LogRecord::PageImage { .. }) { RECORDS_AT_A_TIME } else { replayed + 1 };
            self.replay_record(start, end, record, replay).await?;
            prereader.passed(end);
            replay.report.records += 1;
            replay.report.log_end = end;
            if replayed >= RECORDS_AT_A_TIME {
                replayed = 0;
                self.let_reads_through().await;
            }
        }
        Ok(())
    }

    /// Replaying a log takes milliseconds, a read a fraction of one.
    async fn let_reads_through(&self) {
        self.world.sleep(std::time::Duration::ZERO).await;
    }

    async fn replay_record(
        &self,
        start: LogPosition,
        end: LogPosition,
        record: LogRecord,
        replay: &mut Replay,
    ) -> Result<()> {
        replay.closed.check(end, &record)?;
        match record {
            LogRecord::Changes { db, dbtime, mini } if takes_part(&replay.participants, db, end) => {
                let Replay { pages, report, .. } = replay;
                self.replay_changes(db, dbtime, mini.changes, (start, end), pages, report).await?;
                let Some(transaction) = mini.transaction else { return Ok(()) };
                if mini.compensates && planted!(CompensationNotNoted) {
                    return Ok(());
                }
                if mini.compensates {
                    replay.report.branches.count(RecoveryBranch::CompensationRepeated);
                    replay.transactions.compensated(transaction);
                } else {
                    replay.transactions.changed(transaction, db, mini.undo, start);
                }
            }
            LogRecord::PageImage { db, pgno, dbtime, encoded }
                if takes_part(&replay.participants, db, end) =>
            {
                let Replay { pages, report, .. } = replay;
                let image = LoggedPage { dbtime, encoded };
                self.replay_image(PageKey { db, pgno }, image, (start, end), pages, report).await?;
            }
            LogRecord::Extend { db, before, pages } if takes_part(&replay.participants, db, end) => {
                let database = self.database(db).expect("participants are attached");
                // Every page that was used there since is made anew by a later record.
                if database.cut_file(before).await? {
                    database.lengthen_file(pages).await?;
                    replay.report.branches.count(RecoveryBranch::NewSpaceCleared);
                } else if database.lengthen_file(pages).await? {
                    replay.report.branches.count(RecoveryBranch::FileLengthened);
                }
            }
            LogRecord::Commit { transaction, .. } => replay.transactions.end(transaction, true),
            LogRecord::Rollback { transaction } => replay.transactions.end(transaction, false),
            LogRecord::Checkpoint { position, finished } => {
                replay.logged_checkpoint = replay.logged_checkpoint.max(position);
                replay.transactions.cleaned_up_before(finished);
            }
            _ => {}
        }
        Ok(())
    }
}

fn takes_part(participants: &Participants, db: u8, position: LogPosition) -> bool {
    participants.get(&db).is_some_and(|from| position > *from)
}

//! The replayer: repeats a log, record by record, on the pages in memory. An instance that opens and a passive
//! copy both drive it.
//!
//! Invariants
//! 1. Records are replayed in the order of the log, each once. A replay that its caller drops, or that fails,
//!    may have applied a part of the log that it was at: the replayer then refuses to go on.
//! 2. Its tasks end with the run, also when the caller drops it.
//!
//! Limits: while a part of the log is replayed, the next one is read and decoded, and then its pages are read. With
//! workers [`LOGS_AHEAD`] logs are being read, and as many are decoded and wait.

use std::cell::RefCell;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;

use btree::{LogRecord, PageRecord, PageRecordKind};
use edb::log::{LogHeader, RecordChain, Rest};
use futures_util::future::{OptionFuture, join, join3};
use futures_util::{StreamExt, stream};
use world::World;
use world::channel::{Receiver, Sender, channel};

use super::decode::{Chain, Decoded, InLogOrder, Replayed, Scope, makes_no_sense};
use super::divide::{RecordMemory, ReplaySpan};
use super::left::Closed;
use super::pages::PageStates;
use super::preread::{Pace, Prereader};
use super::records::{PageEntry, RecordSpan};
use super::source::{LogPart, Segments, Source};
use super::thread_share::ThreadShare;
use super::workers::{Workers, send};
use super::{Participants, Recovery, RecoveryBranch, RecoveryReport, takes_part};
use crate::error::{Error, Result};
use crate::log::LogPosition;
use crate::log::reader::{LogContents, damaged};
use crate::transactions::{Change, RowKey, Transactions};

/// Number of logs that are read in advance for workers, which are faster than one log read after the other.
const LOGS_AHEAD: usize = 4;

/// Replayer of a log, for recoveries and passive copies.
pub(crate) struct Replayer {
    pub(crate) replay: Replay,
    chain: Chain,
    /// Beginning of a segment before which everything is replayed.
    at: LogPosition,
    /// Whether a replay stopped inside a part of the log.
    is_cut_off: bool,
}

/// State of a replay by the records so far.
pub(crate) struct Replay {
    scope: Arc<Scope>,
    /// Newest log that a database header names.
    pub(crate) required: u32,
    pub(crate) transactions: Transactions,
    pub(crate) pages: PageStates,
    /// Newest checkpoint that the log itself names.
    pub(crate) logged_checkpoint: LogPosition,
    /// Databases that were closed before this log; a record that changes one is refused.
    pub(super) closed: Closed,
    /// Segments behind the end of the current log.
    pub(super) rest: Rest,
    pub(crate) report: RecoveryReport,
}

/// Executor of page records: this thread's cache, or the redo workers.
enum Pages<'a> {
    /// The replayer's own thread, in the cache of the instance.
    Here(&'a Prereader),
    Handed(&'a mut Workers, &'a RefCell<RecordMemory>),
}

impl Replayer {
    /// Creates a replayer. `required`: newest log that a database header names.
    pub(crate) fn new(scope: Scope, required: u32, report: RecoveryReport) -> Replayer {
        let at = LogPosition::new(scope.start.generation(), 0, 0);
        let replay = Replay {
            scope: Arc::new(scope),
            required,
            transactions: Transactions::default(),
            pages: PageStates::default(),
            logged_checkpoint: LogPosition::default(),
            closed: Closed::default(),
            rest: Rest::default(),
            report,
        };
        Replayer { replay, chain: Chain::default(), at, is_cut_off: false }
    }

    /// Position before which everything is replayed.
    pub(crate) fn replayed(&self) -> LogPosition {
        self.at
    }

    /// Position at which redo began.
    pub(crate) fn start(&self) -> LogPosition {
        self.replay.scope.start
    }

    /// State of the log that was decoded last.
    pub(crate) fn newest(&self) -> Option<&LogHeader> {
        self.chain.newest()
    }

    /// Chained checksum of the records so far.
    pub(crate) fn records(&self) -> RecordChain {
        self.chain.records()
    }

    /// Replays the log of `source`.
    ///
    /// # Errors
    /// Failed I/O, log that is not what was written, pages that contradict it. If an earlier run was dropped or
    /// has failed.
    pub(crate) async fn run(&mut self, recovery: &Recovery<'_>, source: Source) -> Result<()> {
        self.check_whole()?;
        let reads = recovery.config.recovery_reads_outstanding;
        let prereader = Prereader::start(recovery.world, recovery.cache, reads, Pace::OfRedo);
        let replayed = self.replay_parts(recovery, source, &prereader).await;
        prereader.stop().await;
        replayed
    }

    /// Replays these closed logs and the current one, with `workers` for the pages.
    ///
    /// # Errors
    /// As [`Replayer::run`]; if a worker has ended, which [`Workers::end`] explains.
    pub(super) async fn run_with(
        &mut self,
        recovery: &Recovery<'_>,
        (logs, current): (Range<u32>, LogContents),
        workers: &mut Workers,
    ) -> Result<()> {
        self.check_whole()?;
        let (memory, used) = (RefCell::default(), RefCell::default());
        let (send_read, read) = channel(0);
        let (send_decoded, decoded) = channel(LOGS_AHEAD);
        let reading = recovery.read_ahead((logs, current), &memory, send_read);
        let decoding = decode_ahead(
            recovery.world,
            (self.chain.clone(), self.replay.scope.clone(), workers.count()),
            &used,
            read,
            send_decoded,
        );
        // The first that ends early closes its channels, and so the others end.
        let ((), (), replayed) =
            join3(reading, decoding, self.replay_decoded(recovery, decoded, (&memory, &used), workers)).await;
        replayed?;
        workers.finish(&mut self.replay.pages, &mut self.replay.report).await
    }

    /// Checks that no replay stopped inside a part of the log.
    fn check_whole(&self) -> Result<()> {
        if self.is_cut_off && !planted!(ReplayTakenUpInTheMiddle) {
            return Err(Error::Refused(format!(
                "the replay of the log behind {:?} was cut off: open the passive copy again",
                self.at
            )));
        }
        Ok(())
    }

    async fn replay_parts(
        &mut self,
        recovery: &Recovery<'_>,
        mut source: Source,
        prereader: &Prereader,
    ) -> Result<()> {
        let (scope, required) = (self.replay.scope.clone(), self.replay.required);
        // It tells the readers of the headers how far a recovery has come, with writes as ESE does them.
        let is_noted = matches!(source, Source::Files { .. });
        let mut next = recovery.decode_next(&mut source, &self.chain, &scope, required, prereader).await?;
        while let Some(mut part) = next {
            source.reuse(std::mem::take(&mut part.memory));
            let noted: OptionFuture<_> =
                is_noted.then(|| recovery.note_generation(part.generation, &scope.participants)).into();
            let chain = part.chain.clone();
            let following = recovery.decode_next(&mut source, &chain, &scope, required, prereader);
            let beside = join(noted, following);
            let (noted, following) =
                self.replay_part(recovery, part, &mut Pages::Here(prereader), beside).await?;
            noted.transpose()?;
            next = following?;
        }
        Ok(())
    }

    async fn replay_decoded(
        &mut self,
        recovery: &Recovery<'_>,
        mut decoded: Receiver<Result<Decoded>>,
        (memory, used): (&RefCell<Vec<Vec<u8>>>, &RefCell<RecordMemory>),
        workers: &mut Workers,
    ) -> Result<()> {
        while let Some(part) = decoded.next().await {
            let mut part = part?;
            memory.borrow_mut().push(std::mem::take(&mut part.memory));
            let pages = &mut Pages::Handed(workers, used);
            self.replay_part(recovery, part, pages, std::future::ready(())).await?;
        }
        Ok(())
    }

    /// Replays a part of the log while `beside` goes on, and returns the result of `beside`.
    async fn replay_part<T>(
        &mut self,
        recovery: &Recovery<'_>,
        part: Decoded,
        pages: &mut Pages<'_>,
        beside: impl Future<Output = T>,
    ) -> Result<T> {
        let Replayer { replay, chain, at, is_cut_off } = self;
        *is_cut_off = true;
        recovery.begin(&part, replay)?;
        let Decoded { records, replayed, end, closes, .. } = part;
        *chain = part.chain;
        let (replayed, beside) = join(recovery.replay(replayed, replay, pages), beside).await;
        replayed?;
        replay.report.records += records.count;
        replay.report.log_end = records.end.unwrap_or(replay.report.log_end);
        // Without a database that needs the log, reading it only finds its end.
        replay.report.logs_replayed += u32::from(closes && !replay.scope.participants.is_empty());
        (*at, *is_cut_off) = (end, false);
        Ok(beside)
    }
}

/// Decodes parts of the log in order and divides them among `workers`; ends with the first error.
async fn decode_ahead(
    world: &World,
    (mut chain, scope, workers): (Chain, Arc<Scope>, usize),
    used: &RefCell<RecordMemory>,
    mut read: Receiver<Result<LogPart>>,
    mut decoded: Sender<Result<Decoded>>,
) {
    while let Some(part) = read.next().await {
        let decode = async {
            let part = part?;
            chain.follow(&part)?;
            let (chain, scope, used) = (chain.clone(), scope.clone(), used.borrow_mut().take(workers));
            world.compute(move || chain.decode(part, &scope, Some((workers, used)))).await
        };
        let done = decode.await;
        if let Ok(done) = &done {
            chain = done.chain.clone();
        }
        let is_last = done.is_err();
        if !send(&mut decoded, done).await || is_last {
            return;
        }
    }
}

impl Recovery<'_> {
    /// Reads closed logs, several at a time, passes them on in order, and then the current one.
    async fn read_ahead(
        &self,
        (logs, current): (Range<u32>, LogContents),
        memory: &RefCell<Vec<Vec<u8>>>,
        mut read: Sender<Result<LogPart>>,
    ) {
        let reading = stream::iter(logs).map(|number| {
            let memory = memory.borrow_mut().pop().unwrap_or_default();
            self.read_file(number, memory)
        });
        let mut reading = pin!(reading.buffered(LOGS_AHEAD));
        while let Some(log) = reading.next().await {
            if !send(&mut read, log).await {
                return;
            }
        }
        send(&mut read, Ok(self.current_part(current))).await;
    }

    /// Decodes the next part of the log; `None` where replay is to stop. Starts to read its pages ahead.
    async fn decode_next(
        &self,
        source: &mut Source,
        chain: &Chain,
        scope: &Arc<Scope>,
        required: u32,
        prereader: &Prereader,
    ) -> Result<Option<Decoded>> {
        let Some(part) = self.read_log(source).await? else { return Ok(None) };
        let (mut chain, scope) = (chain.clone(), scope.clone());
        chain.follow(&part)?;
        if let (Segments::Stored { .. }, Some(header)) = (&part.segments, &part.header) {
            // The headers must name a log before pages with its changes can be written.
            self.name_generations(scope.start.generation(), header.generation.max(required)).await?;
        }
        let mut decoded = self.world.compute(move || chain.decode(part, &scope, None)).await?;
        if let Replayed::InLogOrder(all) = &mut decoded.replayed {
            prereader.add(std::mem::take(&mut all.runs));
        }
        Ok(Some(decoded))
    }

    /// Notes how the log ends and which counters a part of it has reached, replayed or not.
    fn begin(&self, part: &Decoded, replay: &mut Replay) -> Result<()> {
        replay.report.segments_corrected += u64::from(part.corrected);
        if let Some(ending) = &part.ending {
            if ending.is_cut {
                replay.report.branches.count(RecoveryBranch::TailCutByRecord);
                if replay.required > part.generation {
                    let reason = "a record in it is not what was written, and later ones were";
                    return Err(damaged(&part.path, reason));
                }
            }
            replay.rest = ending.rest;
            replay.report.segments_given_up += u64::from(ending.rest.segments);
            replay.report.segments_unexplained += u64::from(ending.rest.unexplained);
        }
        for (&db, &(dbtime, first_end)) in &part.records.dbtimes {
            let database = self.database(db).ok_or_else(|| makes_no_sense(&part.path, first_end))?;
            database.dbtime.set(database.dbtime.get().max(dbtime));
        }
        // A stream whose databases are all closed has no open transaction, so its numbers begin anew.
        if !replay.scope.participants.is_empty() {
            replay.transactions.note_id(part.records.newest_transaction);
        }
        Ok(())
    }

    /// Writes the progress of recovery into the headers. Other readers use it; recovery itself does not.
    async fn note_generation(&self, generation: u32, participants: &Participants) -> Result<()> {
        for db in participants.keys() {
            let database = self.database(*db).expect("participants are attached");
            // What the generation before has brought, then which one comes now.
            database.update_header(|_| ()).await?;
            database.update_header(|header| header.set_recovering_generation(generation)).await?;
        }
        Ok(())
    }

    /// Writes into the headers that the logs from `first` to `last` are needed.
    pub(crate) async fn name_generations(&self, first: u32, last: u32) -> Result<()> {
        for database in self.databases {
            database.update_header(|header| header.set_generations(first, last, last)).await?;
        }
        Ok(())
    }

    async fn replay(&self, replayed: Replayed, replay: &mut Replay, pages: &mut Pages<'_>) -> Result<()> {
        match (replayed, pages) {
            (Replayed::InLogOrder(all), Pages::Here(prereader)) => {
                self.replay_records(all, replay, prereader).await
            }
            (Replayed::ByPage(spans), Pages::Handed(workers, used)) => {
                self.hand_out(spans, replay, workers, used).await
            }
            _ => unreachable!("a log is decoded for those who redo its pages"),
        }
    }

    async fn replay_records(
        &self,
        InLogOrder { records, pages, .. }: InLogOrder,
        replay: &mut Replay,
        prereader: &Prereader,
    ) -> Result<()> {
        self.note_versions(pages.iter());
        let mut share = ThreadShare::new(self.world);
        let (mut pages, mut passed) = (pages.iter(), 0);
        for (at, record, pages_end) in records {
            let is_page = matches!(record, LogRecord::PageImage { .. });
            let said = pages.by_ref().take(pages_end - std::mem::replace(&mut passed, pages_end));
            self.replay_record(at, record, said, replay).await?;
            prereader.passed(at.1);
            share.replayed(is_page).await;
        }
        assert!(pages.next().is_none(), "what a record says of pages is replayed with it");
        Ok(())
    }

    async fn hand_out(
        &self,
        spans: Vec<ReplaySpan>,
        replay: &mut Replay,
        workers: &mut Workers,
        used: &RefCell<RecordMemory>,
    ) -> Result<()> {
        for (number, ReplaySpan { records: mut all, parts }) in spans.into_iter().enumerate() {
            let mut records = all.drain(..);
            // Space that the file gets is used by later records only. Redo may clear it first.
            if number > 0 {
                let (at, record) = records.next().expect("a stretch begins with a new length");
                self.replay_record(at, record, std::iter::empty(), replay).await?;
            }
            parts.iter().for_each(|part| self.note_versions(part.records.iter()));
            used.borrow_mut().keep_pages(&parts);
            workers.redo(parts).await?;
            for (at, record) in records {
                self.replay_record(at, record, std::iter::empty(), replay).await?;
            }
            used.borrow_mut().keep_records(all);
        }
        Ok(())
    }

    /// Notes the versions that changes give their pages in the flush maps.
    fn note_versions<'a>(&self, said: impl Iterator<Item = PageEntry<'a>>) {
        for PageRecord { db, pgno, dbtime, kind } in said.map(|said| said.record) {
            if matches!(kind, PageRecordKind::Change { .. })
                && !planted!(RedoneVersionsNotNoted)
                && let Some(database) = self.database(db)
            {
                database.flush_map.note(pgno, dbtime);
            }
        }
    }

    /// Replays a record. `said`: its entries about pages, if they are replayed here.
    async fn replay_record(
        &self,
        (start, end): RecordSpan,
        record: LogRecord,
        said: impl Iterator<Item = PageEntry<'_>>,
        replay: &mut Replay,
    ) -> Result<()> {
        replay.closed.check(end, &record)?;
        match record {
            LogRecord::Changes { db, mini, .. } if takes_part(&replay.scope.participants, db, end) => {
                replay.pages.replay(self.cache, said, &mut replay.report).await?;
                let Some(transaction) = mini.transaction else { return Ok(()) };
                if mini.compensates && planted!(CompensationNotNoted) {
                    return Ok(());
                }
                if mini.compensates {
                    replay.report.branches.count(RecoveryBranch::CompensationRepeated);
                    replay.transactions.compensated(transaction);
                } else {
                    let change = mini.undo.map(|undo| Change { row: RowKey::of(db, &undo), undo });
                    replay.transactions.changed(transaction, change, start);
                }
            }
            LogRecord::PageImage { db, .. } if takes_part(&replay.scope.participants, db, end) => {
                replay.pages.replay(self.cache, said, &mut replay.report).await?;
            }
            LogRecord::Extend { db, before, pages } if takes_part(&replay.scope.participants, db, end) => {
                let database = self.database(db).expect("participants are attached");
                // Every page that was used there since is made anew by a later record.
                if database.shrink_file(before).await? {
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

//! What the parts of an open instance share, and the one way in which pages change.
//!
//! Invariants
//! 1. A mini-transaction is checked, logged and applied without a wait in between: nothing can come between the pages
//!    it has seen and the pages it changes, and its log record makes it atomic.
//! 2. A clean page's contents are in the log before its first change: a torn write of it can be repaired.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use btree::log_record::{encode_changes, encode_page_image};
use btree::space;
use btree::{Descents, LogRecord, MiniTransaction, Pager, PlainCoding, Stop};
use edb::header::DatabaseState;
use world::sync::Notify;
use world::{LocalFuture, World};

use crate::cache::{Cache, PageKey, PageReads, Pins};
use crate::config::InstanceConfig;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::log::writer::{Log, RollHook};
use crate::log::{LogPosition, POSITION_END};
use crate::signal::{Poison, StopSignal};
use crate::transactions::{Change, RowKey, Transactions};

/// Dbtime from which a database refuses new changes. The rest is for the ends of open transactions.
const DBTIME_LAST: u64 = u64::MAX - (1 << 32);

/// Additional condition of a durable commit, besides a durable log here.
pub trait CommitGate {
    /// Waits until the commit that ends at `end`, and is durable here, may be acknowledged.
    ///
    /// # Errors
    /// If it will not be: then only the next recovery finds out whether the commit survives.
    fn pass(&self, end: LogPosition) -> LocalFuture<'static, Result<()>>;
}

/// Result of an attempt of a changing step.
enum Tried<T> {
    /// The step was logged and applied.
    Done(T),
    /// The step must be called again when this page has arrived.
    Arriving(Notify),
    Stopped(Stop),
}

/// What the steps of a transaction have in common.
#[derive(Default)]
pub(crate) struct Course {
    /// Remembered descent, for callers that visit neighbouring keys.
    descents: Descents,
    /// Pages that were read for the steps.
    pub(crate) reads: Cell<PageReads>,
}

impl Course {
    fn count(&self, pins: &mut Pins) {
        let mut reads = self.reads.get();
        reads.add(std::mem::take(&mut pins.reads));
        self.reads.set(reads);
    }
}

/// State that the parts of an open instance share.
pub(crate) struct Core {
    /// Handle on itself, for work that goes on after its caller is dropped.
    me: Weak<Core>,
    pub(crate) world: World,
    pub(crate) config: InstanceConfig,
    pub(crate) poison: Poison,
    pub(crate) cache: Cache,
    pub(crate) log: Log,
    pub(crate) databases: Vec<Rc<Database>>,
    pub(crate) transactions: RefCell<Transactions>,
    /// Stop signal of the background tasks.
    pub(crate) stop: StopSignal,
    /// Notified when the log has rolled, or the instance is to stop.
    pub(crate) rolled: Notify,
    /// Notified when deleted entries wait for cleanup, or the instance is to stop.
    pub(crate) cleanup: Notify,
    /// Gate that holds durable commits up.
    pub(crate) commit_gate: RefCell<Option<Rc<dyn CommitGate>>>,
    /// Number of deleted entries that the cleaner has left in their tree.
    pub(crate) cleanups_given_up: Cell<u64>,
    /// Whether the instance is being closed: open transactions are rolled back, and cannot end otherwise.
    pub(crate) closing: Cell<bool>,
    /// Log position at which redo would begin after a crash.
    pub(crate) durable_checkpoint: Cell<LogPosition>,
    /// Buffer for the record under construction.
    scratch: RefCell<Vec<u8>>,
}

impl Core {
    pub(crate) fn new(
        world: &World,
        config: &InstanceConfig,
        cache: Cache,
        log: Log,
        databases: Vec<Rc<Database>>,
        transactions: Transactions,
        stop: StopSignal,
    ) -> Rc<Core> {
        let core = Rc::new_cyclic(|me| Core {
            me: me.clone(),
            world: world.clone(),
            config: config.clone(),
            poison: cache.poison().clone(),
            cache,
            log,
            databases,
            transactions: RefCell::new(transactions),
            stop,
            rolled: Notify::new(),
            cleanup: Notify::new(),
            commit_gate: RefCell::default(),
            cleanups_given_up: Cell::new(0),
            closing: Cell::new(false),
            durable_checkpoint: Cell::default(),
            scratch: RefCell::default(),
        });
        core.poison.wake_on_failure(&core.rolled);
        core.poison.wake_on_failure(&core.cleanup);
        core
    }

    /// The database with this number (from 1).
    pub(crate) fn database(&self, id: u8) -> Result<&Rc<Database>> {
        let index = usize::from(id).checked_sub(1);
        let found = index.and_then(|index| self.databases.get(index));
        found.ok_or_else(|| Error::Refused(format!("the instance has no database {id}")))
    }

    /// Runs a reading step, repeatedly, until every page that it needs is in memory.
    pub(crate) async fn read<T>(
        &self,
        db: u8,
        step: impl FnMut(&dyn Pager) -> btree::Result<T>,
    ) -> Result<T> {
        self.read_in(db, &Course::default(), step).await
    }

    /// [`Self::read`] as a step of a course.
    pub(crate) async fn read_in<T>(
        &self,
        db: u8,
        course: &Course,
        mut step: impl FnMut(&dyn Pager) -> btree::Result<T>,
    ) -> Result<T> {
        let mut pins = self.cache.pins();
        loop {
            self.poison.check()?;
            let outcome = step(&self.cache.view(db).remembering(&course.descents));
            match outcome {
                Ok(value) => return Ok(value),
                Err(Stop::Missing(pgno)) => {
                    self.cache.fetch(PageKey { db, pgno }, &mut pins).await?;
                    course.count(&mut pins);
                }
                Err(stop) => return Err(self.stopped(db, stop)),
            }
        }
    }

    /// Runs a changing step, repeatedly, until it can be logged and applied. The step returns a result with its
    /// changes.
    pub(crate) async fn change<T>(
        &self,
        db: u8,
        transaction: Option<u32>,
        step: impl FnMut(&dyn Pager) -> btree::Result<(MiniTransaction, T)>,
    ) -> Result<T> {
        self.change_in(db, &Course::default(), transaction, step).await
    }

    /// [`Self::change`] as a step of a course.
    pub(crate) async fn change_in<T>(
        &self,
        db: u8,
        course: &Course,
        transaction: Option<u32>,
        mut step: impl FnMut(&dyn Pager) -> btree::Result<(MiniTransaction, T)>,
    ) -> Result<T> {
        self.log.room().await?;
        let mut pins = self.cache.pins();
        loop {
            self.poison.check()?;
            match self.try_change(db, &course.descents, transaction, &mut step)? {
                Tried::Done(value) => return Ok(value),
                Tried::Arriving(arrival) => arrival.wait().await,
                Tried::Stopped(Stop::Missing(pgno)) => {
                    self.cache.fetch(PageKey { db, pgno }, &mut pins).await?;
                    course.count(&mut pins);
                }
                Tried::Stopped(Stop::NoSpace { pages }) => Box::pin(self.extend(db, pages)).await?,
                Tried::Stopped(stop) => return Err(self.stopped(db, stop)),
            }
        }
    }

    /// Runs a changing step over the pages in memory, and logs and applies its changes. It contains no wait, so the
    /// changes are not moved through a future.
    fn try_change<T>(
        &self,
        db: u8,
        descents: &Descents,
        transaction: Option<u32>,
        step: &mut impl FnMut(&dyn Pager) -> btree::Result<(MiniTransaction, T)>,
    ) -> Result<Tried<T>> {
        let outcome = step(&self.cache.view(db).remembering(descents));
        let (mut mini, value) = match outcome {
            Ok(done) => done,
            Err(stop) => return Ok(Tried::Stopped(stop)),
        };
        if let Some(arrival) = self.cache.arrival_in(db, &mini) {
            return Ok(Tried::Arriving(arrival));
        }
        if let Some(pgno) = self.cache.awaited_in(db, &mini) {
            return Ok(Tried::Stopped(Stop::Missing(pgno)));
        }
        mini.transaction = transaction;
        self.log_and_apply(db, &mut mini)?;
        Ok(Tried::Done(value))
    }

    /// Fails if the instance is being closed, because later changes would be neither undone nor written.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closing.get() { Err(Error::Refused("it is being closed".to_owned())) } else { Ok(()) }
    }

    /// Fails if a new change of the database could exhaust the space for log, or numbers that are given once.
    pub(crate) fn check_room(&self, db: u8) -> Result<()> {
        self.log.check_space()?;
        let database = self.database(db)?;
        if database.dbtime.get() < DBTIME_LAST { Ok(()) } else { Err(database.dbtimes_used_up()) }
    }

    /// Logs and applies a mini-transaction. Invariant 1 of this module: it contains no wait.
    fn log_and_apply(&self, db: u8, mini: &mut MiniTransaction) -> Result<()> {
        if mini.changes.is_empty() && mini.undo.is_none() && !mini.compensates {
            return Ok(());
        }
        if mini.transaction.is_some() && !mini.compensates {
            self.check_open()?;
        }
        let mut transactions = self.transactions.borrow_mut();
        let row = mini.undo.as_ref().filter(|_| !mini.compensates).map(|undo| RowKey::of(db, undo));
        if let Some(row) = &row {
            transactions.check_lock(mini.transaction, row)?;
        }
        let database = self.database(db)?;
        let dbtime = database.next_dbtime()?;
        // Redo would take the change for one that the page has already.
        if let Some(newer) =
            mini.changes.iter().find(|change| !change.formats() && change.dbtime_before >= dbtime)
        {
            let reason = "it is newer than the newest change of its database: log writes were lost";
            return Err(self.damaged(db, newer.pgno, reason));
        }
        let coding = &*database.coding;
        let scratch = &mut *self.scratch.borrow_mut();
        let mut start = POSITION_END;
        self.cache.images(db, mini, |pgno, page| {
            if planted!(NoPageImage) {
                return;
            }
            scratch.clear();
            let version = page.view().dbtime();
            encode_page_image(db, pgno, version, scratch, |out| database.encode_page(pgno, page, out));
            start = start.min(self.log.append(scratch).start);
        });
        scratch.clear();
        if planted!(SplitInTwoRecords) && mini.changes.len() > 1 {
            let mut first = mini.clone();
            let rest = MiniTransaction::system(first.changes.drain(1..).collect());
            encode_changes(db, dbtime, &first, coding, scratch);
            start = start.min(self.log.append(scratch).start);
            scratch.clear();
            encode_changes(db, dbtime, &rest, coding, scratch);
        } else {
            encode_changes(db, dbtime, mini, coding, scratch);
        }
        let range = self.log.append(scratch);
        let start = start.min(range.start);
        let applied = self.cache.apply(db, mini, dbtime, start, range.end);
        if let Err(misfit) = applied {
            let error = self.damaged(db, misfit.pgno, misfit.reason);
            self.poison.fail(&error);
            return Err(error);
        }
        // At the change and not at the write: a page that the cache forgets to write is found, too.
        mini.changes.iter().for_each(|change| database.flush_map.note(change.pgno, dbtime));
        if let Some(transaction) = mini.transaction {
            if mini.compensates {
                transactions.compensated(transaction);
                self.cleanup.notify_all();
            } else {
                let change = row.zip(mini.undo.take()).map(|(row, undo)| Change { row, undo });
                transactions.changed(transaction, change, start);
            }
        }
        Ok(())
    }

    /// Appends a record that is about no page.
    pub(crate) fn append(&self, record: &LogRecord) -> LogPosition {
        let scratch = &mut *self.scratch.borrow_mut();
        scratch.clear();
        record.encode(&PlainCoding { page_bytes: self.config.page_bytes }, scratch);
        self.log.append(scratch).end
    }

    /// Translates a stopped operation into an error for the caller. Damage in memory stops the instance.
    fn stopped(&self, db: u8, stop: Stop) -> Error {
        match stop {
            Stop::Conflict => Error::Conflict,
            Stop::Duplicate => Error::Duplicate,
            Stop::NotFound => Error::NotFound,
            Stop::Damaged { pgno, reason } => self.damaged(db, pgno, reason),
            other => Error::Refused(other.to_string()),
        }
    }

    pub(crate) fn damaged(&self, db: u8, pgno: u32, reason: &str) -> Error {
        let path =
            self.database(db).map_or_else(|_| String::new(), |database| database.file.path().to_owned());
        Error::DamagedPage { path, pgno, reason: reason.to_owned() }
    }

    /// Extends a database by at least `least_pages` in one piece. The extension goes on if the caller is dropped: an
    /// unfinished one would hold the checkpoint back, and its header write could overlap the next.
    async fn extend(&self, db: u8, least_pages: u32) -> Result<()> {
        if self.stop.is_stopped() {
            return Err(Error::Refused("it is being closed".to_owned()));
        }
        let (core, database) = (self.me.upgrade().expect("the caller has it"), self.database(db)?.clone());
        let working = self.poison.working();
        let extending = async move {
            let _working = working;
            let Some(_turn) = database.begin_extending() else {
                // Another task extends the file; the caller tries again with what that gave.
                database.extended().await;
                return core.poison.check();
            };
            core.extend_alone(&database, least_pages).await
        };
        self.world.spawn(extending).await
    }

    async fn extend_alone(&self, database: &Database, least_pages: u32) -> Result<()> {
        self.poison.check()?;
        let before = database.pages.get();
        let step = (database.extension_bytes / self.config.page_bytes as u64) as u32;
        let step = step.max(1);
        // The file, two header pages included, ends on a multiple of the step.
        let wanted = u64::from(before) + 2 + u64::from(least_pages.max(step));
        let pages = u32::try_from(wanted.next_multiple_of(u64::from(step)) - 2)
            .map_err(|_| Error::Refused(format!("{} cannot grow any more", database.file.path())))?;
        // A full disk is an answer to the caller, not the end of the instance.
        database.lengthen_file(pages).await?;
        database.length_logged.set(database.length_logged.get().min(self.log.tip()));
        self.append(&LogRecord::Extend { db: database.id, before, pages });
        let step = |pager: &dyn Pager| Ok((space::extend_database(pager, before, pages)?, ()));
        let extended = self.change(database.id, None, step).await;
        if extended.is_ok() {
            database.pages.set(pages);
        }
        if self.poison.check().is_err() {
            // The instance has ended meanwhile: its files are not its own any more.
            return extended;
        }
        // It syncs the file: what other pages lack after a failure, no later sync brings. An extension that
        // no operation uses must not hold the checkpoint.
        self.poison.require(database.update_header(|_| ()).await)?;
        database.length_logged.set(POSITION_END);
        extended
    }

    /// Returns a check whether a page of the file, by its dbtime, is another version than the last one written. A page
    /// that is still to be written may have any version.
    pub(crate) fn is_other_version(&self, db: u8) -> impl Fn(u32, u64) -> bool {
        let map = self.databases[usize::from(db) - 1].flush_map.clone();
        let cache = self.cache.clone();
        move |pgno, dbtime| map.contradicts(pgno, dbtime) && !cache.is_unwritten(PageKey { db, pgno })
    }

    /// Log position at which redo would have to begin now.
    pub(crate) fn checkpoint_position(&self) -> LogPosition {
        let tip = self.log.tip();
        if planted!(CheckpointTooEarly) {
            return tip;
        }
        let transactions = self.transactions.borrow().oldest_needed();
        let lengths = self.databases.iter().map(|database| database.length_logged.get()).min();
        tip.min(self.cache.oldest_not_durable()).min(transactions).min(lengths.unwrap_or(POSITION_END))
    }
}

/// Assertions of design invariants 2 and 4. Files and disks cannot make them fail.
impl Core {
    /// Asserts that redo from `position` on finds every change that the files may lack.
    pub(crate) fn assert_redo_may_begin(&self, position: LogPosition) {
        let oldest = self.checkpoint_position();
        assert!(position <= oldest, "redo would begin at {position:?}, and {oldest:?} is needed");
    }

    /// Asserts that the files hold every change and no transaction is open, so that the log is not needed.
    pub(crate) fn assert_all_written(&self) {
        self.cache.assert_all_written();
        assert!(self.transactions.borrow().open_ids().is_empty(), "a transaction is open");
    }
}

impl RollHook for Core {
    fn before_roll(&self, generation: u32) -> LocalFuture<'_, Result<()>> {
        Box::pin(async move {
            let first = self.checkpoint_position().generation();
            for database in &self.databases {
                database
                    .update_header(|header| {
                        // One that has been closed needs no log any more.
                        if header.state() == DatabaseState::Dirty && !planted!(NextLogNotNamed) {
                            header.set_generations(first, generation, generation);
                        }
                    })
                    .await?;
            }
            Ok(())
        })
    }

    fn after_roll(&self, _generation: u32) {
        let finished = self.transactions.borrow().oldest_needed().min(self.log.tip());
        self.append(&LogRecord::Checkpoint { position: self.checkpoint_position(), finished });
        self.rolled.notify_all();
    }
}

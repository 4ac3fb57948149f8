//! An instance: opened (and recovered if need be), used, closed.
//!
//! Invariants
//! 1. An instance that is not closed needs recovery; one that is closed leaves every database clean and without need of
//!    its logs.
//! 2. After a failure nothing is written any more; only opening again helps (design invariant 3).

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use btree::{LogRecord, MiniTransaction, Pager, Tree, space, update};
use edb::header::{DatabaseHeader, State};
use futures_util::future::select;
use world::{Duration, SECTOR_BYTES, Task, World};

use crate::cache::{Cache, CacheStatus, Scavenger, writes_outstanding};
use crate::checkpoint::CheckpointFile;
use crate::config::InstanceConfig;
use crate::core::Core;
use crate::create::directory_of;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::io::Counters;
use crate::log::reader::LogFiles;
use crate::log::writer::{Log, LogConfig, OpenLog};
use crate::log::{LogNames, LogPosition, Signature, log_time, reserve};
use crate::recovery::{Recovery, RecoveryBranch, RecoveryReport, Redone};
use crate::signal::Fate;
use crate::transaction::{CommitGate, Transaction, roll_back};
use crate::transactions::{Cleanup, RowKey, Transactions};

/// Page writes under way at a shutdown.
const WRITES_MOST: usize = 1024;

/// An open instance. It belongs to one thread.
///
/// Dropped, it stops as [`Self::abandon`] does, but nobody waits for what it has under way. The next opening with the same
/// configuration, or a clone of it, waits for that; whoever opens the files with another one has to abandon the instance first.
pub struct Instance {
    core: Rc<Core>,
    log_counters: Counters,
    tasks: RefCell<Vec<Task<()>>>,
    ended: Cell<bool>,
}

impl Instance {
    /// Opens the databases of `config`. Databases that were not closed are brought up to date from the log first.
    ///
    /// # Errors
    /// If files are missing, damaged, or contradict each other.
    pub async fn open(world: &World, config: &InstanceConfig) -> Result<(Instance, RecoveryReport)> {
        let opening = Opening::new(world, config).await?;
        let redone = opening.redo().await;
        opening.into_instance(redone).await
    }

    /// Begins a transaction.
    pub fn begin(&self) -> Transaction {
        Transaction::begin(&self.core)
    }

    /// Runs a changing step that belongs to no transaction and is never taken back, such as the creation of a table.
    ///
    /// # Errors
    /// As [`Transaction::change`].
    pub async fn change<T>(
        &self,
        db: u8,
        step: impl FnMut(&dyn Pager) -> btree::Result<(MiniTransaction, T)>,
    ) -> Result<T> {
        self.core.check_open()?;
        self.core.check_room(db)?;
        self.core.change(db, None, step).await
    }

    /// Number of databases; they are numbered from 1.
    pub fn databases(&self) -> u8 {
        self.core.databases.len() as u8
    }

    /// Counters of a database's file.
    ///
    /// # Errors
    /// If there is no such database.
    pub fn database_counters(&self, db: u8) -> Result<Counters> {
        Ok(self.core.database(db)?.counters.clone())
    }

    /// Counters of the log stream and the checkpoint file.
    pub fn log_counters(&self) -> Counters {
        self.log_counters.clone()
    }

    /// What the cache holds.
    pub fn cache_status(&self) -> CacheStatus {
        self.core.cache.status()
    }

    /// The log generation that is being written.
    pub fn log_generation(&self) -> u32 {
        self.core.log.generation()
    }

    /// How often the log has rolled since the instance was opened.
    pub fn log_rolls(&self) -> u64 {
        self.core.log.rolls()
    }

    /// Pages of a database that its trees know of.
    ///
    /// # Errors
    /// If there is no such database.
    pub fn database_pages(&self, db: u8) -> Result<u32> {
        Ok(self.core.database(db)?.pages.get())
    }

    /// Deleted entries that wait to be removed for good.
    pub fn cleanups_waiting(&self) -> usize {
        self.core.transactions.borrow().cleanups.len()
    }

    /// Deleted entries that stay in their tree, because a page on the way to them could not be read.
    pub fn cleanups_given_up(&self) -> u64 {
        self.core.cleanups_given_up.get()
    }

    /// Fails if the instance has stopped.
    ///
    /// # Errors
    /// The failure that stopped it.
    pub fn check(&self) -> Result<()> {
        self.core.fate.check()
    }

    /// Every durable commit from now on waits for `gate`, too.
    pub fn set_commit_gate(&self, gate: Rc<dyn CommitGate>) {
        *self.core.commit_gate.borrow_mut() = Some(gate);
    }

    pub(crate) fn core(&self) -> &Rc<Core> {
        &self.core
    }

    /// Rolls back what is open, writes everything, and leaves all databases clean.
    ///
    /// # Errors
    /// If something cannot be written; the databases then need recovery.
    pub async fn close(self) -> Result<()> {
        let core = self.core.clone();
        core.closing.set(true);
        let closed = self.close_files().await;
        if let Err(error) = core.fate.require(closed) {
            self.abandon().await;
            return Err(error);
        }
        // Whoever still holds a transaction gets an answer.
        self.ended.set(true);
        core.fate.fail(&Error::Refused("it was closed".to_owned()));
        self.databases_settled().await;
        Ok(())
    }

    async fn close_files(&self) -> Result<()> {
        let core = &self.core;
        core.fate.check()?;
        let open = core.transactions.borrow().open_ids();
        for transaction in open {
            roll_back(core, transaction).await?;
        }
        while clean_up_one(core).await? {}
        self.stop_tasks().await;
        // A growth under way changes pages when those of the space trees have come. None begins any more.
        self.databases_settled().await;
        core.log.flush_to(core.log.tip()).await?;
        core.cache.write_all(WRITES_MOST).await?;
        core.assert_all_written();
        let time = log_time(&core.world);
        for database in &core.databases {
            core.append(&LogRecord::Detach { db: database.id });
        }
        let end = core.log.tip();
        core.log.flush_to(end).await?;
        for database in &core.databases {
            database.detach(end, time).await?;
        }
        let mut checkpoint = open_checkpoint(core, &self.log_counters).await?;
        checkpoint.write(core.log.tip()).await?;
        core.log.close().await
    }

    /// Stops at once, as a crash would: nothing more is written, and the next opening recovers.
    pub async fn abandon(&self) {
        self.ended.set(true);
        self.core.fate.fail(&Error::Refused("it was abandoned".to_owned()));
        self.stop_tasks().await;
        // The log writer ends with the failure; what it says is that failure.
        let _ = self.core.log.close().await;
        self.core.cache.writes_ended().await;
        self.databases_settled().await;
    }

    /// Stops as [`Self::abandon`] does, but with all of the log durable, and says in every header how far the log reaches: an
    /// opening that finds less of it fails.
    ///
    /// # Errors
    /// If something cannot be written; the instance has stopped all the same.
    pub async fn leave_for_recovery(&self) -> Result<()> {
        let left = self.tell_log_end().await;
        self.abandon().await;
        left
    }

    async fn tell_log_end(&self) -> Result<()> {
        let core = &self.core;
        core.log.flush_to(core.log.tip()).await?;
        let end = core.log.durable_segments();
        for database in &core.databases {
            database.update_header(|header| header.set_left_position(end)).await?;
        }
        Ok(())
    }

    /// Waits until nobody changes a file's length or header any more.
    async fn databases_settled(&self) {
        for database in &self.core.databases {
            database.settled().await;
        }
    }

    async fn stop_tasks(&self) {
        self.tell_tasks_to_stop();
        for task in self.tasks.take() {
            task.await;
        }
    }

    fn tell_tasks_to_stop(&self) {
        self.core.stop.stop();
        self.core.rolled.notify_all();
        self.core.cleanup.notify_all();
        self.core.cache.wake_scavenger();
    }

    fn start_tasks(&self) {
        let world = &self.core.world;
        let (core, counters) = (self.core.clone(), self.log_counters.clone());
        let working = core.fate.working();
        let checkpoint = world.spawn(async move {
            let _working = working;
            let result = keep_checkpoint(&core, &counters).await;
            let _ = core.fate.require(result);
        });
        let core = self.core.clone();
        let flusher = world.spawn(async move { keep_depth(&core).await });
        let core = self.core.clone();
        let cleaner = world.spawn(async move {
            let result = keep_clean(&core).await;
            let _ = core.fate.require(result);
        });
        self.tasks.borrow_mut().extend([checkpoint, flusher, cleaner]);
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if !self.ended.get() {
            self.core.fate.fail(&Error::Refused("it was dropped".to_owned()));
            self.tell_tasks_to_stop();
            self.core.config.dropped.add(&self.core.world, &self.core.fate);
        }
    }
}

/// An instance on its way to being open: files and cache are there, and the cache frees pages as it must.
pub(crate) struct Opening {
    world: World,
    config: InstanceConfig,
    fate: Fate,
    pub(crate) cache: Cache,
    pub(crate) databases: Vec<Rc<Database>>,
    pub(crate) names: LogNames,
    segments: u16,
    pub(crate) log_counters: Counters,
    scavenger: Scavenger,
}

impl Opening {
    pub(crate) async fn new(world: &World, config: &InstanceConfig) -> Result<Opening> {
        config.dropped.ended(world).await;
        let segments = config.segments()?;
        if config.databases.is_empty() || config.databases.len() > 255 {
            return Err(Error::Refused("an instance has 1 to 255 databases".to_owned()));
        }
        let fate = Fate::default();
        let cache = Cache::new(world, &fate, config);
        let mut databases = Vec::new();
        for (id, database) in (1..=255).zip(&config.databases) {
            let database = Database::open(world, id, database, config.page_bytes).await?;
            database.join(&cache, config.cache_bytes_per_database);
            databases.push(database);
        }
        sync_names(world, config).await?;
        let scavenger = Scavenger::start(world, &cache, &config.dropped);
        Ok(Opening {
            world: world.clone(),
            config: config.clone(),
            fate,
            cache,
            databases,
            names: LogNames::new(&config.log_directory, &config.log_base),
            segments,
            log_counters: config.log_counters.clone(),
            scavenger,
        })
    }

    /// A new log stream, or redo of the one that is there.
    async fn redo(&self) -> Result<Redone> {
        let files = LogFiles::find(&self.world, &self.names).await?;
        let fresh = !files.current && files.archives.is_empty();
        if fresh { self.new_stream().await } else { self.recovery().redo(&files).await }
    }

    /// Undo, and all that an open instance needs beside its pages.
    pub(crate) async fn into_instance(self, redone: Result<Redone>) -> Result<(Instance, RecoveryReport)> {
        let opened = match redone {
            Ok(redone) => self.undo_and_attach(redone).await,
            Err(error) => Err(error),
        };
        match opened {
            Ok((core, report)) => {
                let instance = Instance {
                    core,
                    log_counters: self.log_counters,
                    tasks: RefCell::new(self.scavenger.hand_over().into_iter().collect()),
                    ended: Cell::new(false),
                };
                instance.start_tasks();
                Ok((instance, report))
            }
            Err(error) => {
                self.give_up(&error).await;
                Err(error)
            }
        }
    }

    /// Nothing is written any more.
    pub(crate) async fn give_up(self, why: &Error) {
        self.scavenger.end(why).await;
    }

    async fn undo_and_attach(&self, redone: Redone) -> Result<(Rc<Core>, RecoveryReport)> {
        let Redone { log, signature, transactions, mut report } = redone;
        let log_bytes = u64::from(self.segments) * SECTOR_BYTES as u64;
        reserve::make(&self.world, &self.names, log_bytes).await?;
        let log = Log::start(&self.world, self.log_config(signature), &self.log_counters, &self.fate, log);
        self.cache.set_log(Some(log.clone()));
        let core = Core::new(
            &self.world,
            &self.config,
            self.cache.clone(),
            log,
            self.databases.clone(),
            transactions,
            self.scavenger.stop.clone(),
        );
        let hook: Rc<dyn crate::log::writer::RollHook> = core.clone();
        core.log.set_hook(Rc::downgrade(&hook));
        match self.take_into_use(&core, &mut report).await {
            Ok(()) => Ok((core, report)),
            Err(error) => {
                self.fate.fail(&error);
                // The log writer ends with the failure; what it says is that failure.
                let _ = core.log.close().await;
                Err(error)
            }
        }
    }

    async fn take_into_use(&self, core: &Core, report: &mut RecoveryReport) -> Result<()> {
        self.undo(core, report).await?;
        for database in &self.databases {
            attach(core, database).await?;
        }
        Ok(())
    }

    fn log_config(&self, signature: Signature) -> LogConfig {
        LogConfig {
            names: self.names.clone(),
            signature,
            segments: self.segments,
            buffer_bytes: self.config.log_buffer_bytes,
            circular: self.config.circular_logging,
            page_bytes: self.config.page_bytes,
        }
    }

    async fn new_stream(&self) -> Result<Redone> {
        for database in &self.databases {
            if database.header().await.state() == State::Dirty {
                let directory = self.names.directory.clone();
                return Err(Error::MissingLog {
                    directory,
                    generation: database.header().await.generations().1,
                });
            }
        }
        let signature = Signature::new(self.world.random_u64() as u32, log_time(&self.world));
        let config = self.log_config(signature);
        // A checkpoint without logs is a leftover of another stream.
        let checkpoint = self.names.checkpoint();
        if self.world.entry(&checkpoint).await?.is_some() {
            self.world.remove(&checkpoint).await?;
        }
        let mut report = RecoveryReport::default();
        report.branches.count(RecoveryBranch::NewStream);
        let log: OpenLog = Log::create(&self.world, &config, &self.log_counters).await?;
        Ok(Redone { log, signature, transactions: Transactions::default(), report })
    }

    pub(crate) fn recovery(&self) -> Recovery<'_> {
        Recovery {
            world: &self.world,
            config: &self.config,
            names: &self.names,
            segments: self.segments,
            cache: &self.cache,
            databases: &self.databases,
            counters: &self.log_counters,
        }
    }

    async fn undo(&self, core: &Core, report: &mut RecoveryReport) -> Result<()> {
        let started = self.world.now();
        for database in &self.databases {
            let pages = core.read(database.id, known_pages).await?;
            database.pages.set(pages);
            // A file that was lengthened in vain. The next writing of the header makes the cut durable; till then the next
            // recovery would make it again.
            let is_recovered = database.header().await.state() == State::Dirty;
            if is_recovered {
                database.versions.forget();
            }
            if is_recovered && database.cut_file(pages).await? {
                report.branches.count(RecoveryBranch::NewSpaceCleared);
            }
        }
        let mut losers = core.transactions.borrow().open_ids();
        losers.reverse();
        if planted!(LosersKept) {
            losers.clear();
        }
        for transaction in losers {
            roll_back(core, transaction).await?;
            report.transactions_rolled_back += 1;
            report.branches.count(RecoveryBranch::TransactionTakenBack);
        }
        report.undo_seconds = self.world.now().since(started).as_secs_f64();
        Ok(())
    }
}

/// Makes the names durable that the process before may have left without a sync: what is made durable from now on is in these
/// files.
async fn sync_names(world: &World, config: &InstanceConfig) -> Result<()> {
    let databases = config.databases.iter().map(|database| directory_of(&database.path));
    let directories: BTreeSet<&str> = databases.chain([config.log_directory.as_str()]).collect();
    for directory in directories.into_iter().filter(|_| !planted!(FoundNamesNotSynced)) {
        world.sync_dir(directory).await?;
    }
    Ok(())
}

/// The last page that the database's own space knows of.
fn known_pages(pager: &dyn Pager) -> btree::Result<u32> {
    let owned_root = space::SpaceHeader::read(pager, space::DATABASE_FDP)?.owned_root();
    let owned_root = owned_root.ok_or(btree::Stop::Damaged {
        pgno: space::DATABASE_FDP,
        reason: "the database root has no space trees",
    })?;
    let extents = space::extents(pager, owned_root, 1)?;
    Ok(extents.iter().map(|extent| extent.first + extent.pages - 1).max().unwrap_or(0))
}

async fn attach(core: &Core, database: &Database) -> Result<()> {
    let header = database.header().await;
    if header.state() == State::Dirty {
        // Recovery has brought it to the end of the log: nothing before the checkpoint is needed any more. The header's sync
        // makes durable, too, what redo has found in the file and not written again.
        let recovered = |header: &mut DatabaseHeader| {
            header.set_recovering_generation(0);
            header.set_backup_position(LogPosition::default());
            header.set_left_position(LogPosition::default());
        };
        return database.update_header(recovered).await;
    }
    let position = core.log.tip();
    let end = core.append(&LogRecord::Attach {
        db: database.id,
        path: database.file.path().to_owned(),
        signature: header.signature().random(),
        page_bytes: core.config.page_bytes as u32,
        dbtime: database.dbtime.get(),
    });
    // Redo leaves out what the log has up to the position in the header. Were this record lost, others would come to lie there.
    core.log.flush_to(end).await?;
    database.attach(position, log_time(&core.world), core.log.signature()).await
}

async fn open_checkpoint(core: &Core, counters: &Counters) -> Result<CheckpointFile> {
    let names = core.log.names();
    CheckpointFile::open(&core.world, &names.checkpoint(), core.log.signature(), counters).await
}

/// Waits for a roll, a second, or the stop.
async fn roll_or_second(core: &Core) {
    let rolled = core.rolled.wait();
    let second = core.world.sleep(Duration::from_secs(1));
    select(rolled, Box::pin(second)).await;
}

/// Moves the checkpoint about once a second and at each roll, and gives up logs that it no longer needs.
async fn keep_checkpoint(core: &Core, counters: &Counters) -> Result<()> {
    let mut file = open_checkpoint(core, counters).await?;
    while !core.stop.is_stopped() {
        core.fate.check()?;
        core.cache.sync_written().await?;
        let position = core.checkpoint_position();
        if position > file.written() {
            // A transaction that has ended holds the position no more, so its end must be durable before the position
            // passes its beginning: a crash that lost the end would leave changes that nobody knows to take back.
            if !planted!(CheckpointBeforeEnds) {
                core.log.flush_to(core.log.tip()).await?;
            }
            core.assert_redo_may_begin(position);
            file.write(position).await?;
            core.assert_redo_may_begin(position);
            core.durable_checkpoint.set(position);
            core.log.checkpoint_moved(position.generation()).await?;
        }
        roll_or_second(core).await;
    }
    Ok(())
}

/// Writes pages that would hold the checkpoint back by more than its depth.
async fn keep_depth(core: &Core) {
    while !core.stop.is_stopped() {
        let due = |first_change: LogPosition| {
            let distance = core.log.bytes_between(first_change, core.log.tip());
            writes_outstanding(distance, core.config.checkpoint_depth_bytes)
        };
        if core.cache.write_oldest(due).await.is_err() {
            return;
        }
        roll_or_second(core).await;
    }
}

/// Removes deleted entries for good once their transactions have committed.
async fn keep_clean(core: &Core) -> Result<()> {
    while !core.stop.is_stopped() {
        core.fate.check()?;
        let waiting = core.cleanup.wait();
        if !clean_up_one(core).await? {
            waiting.await;
        }
    }
    Ok(())
}

/// Removes one deleted entry; false if none waits.
async fn clean_up_one(core: &Core) -> Result<bool> {
    let next = {
        let transactions = core.transactions.borrow();
        transactions.cleanups.front().map(|Cleanup { db, undo, .. }| (*db, undo.clone()))
    };
    let Some((db, undo)) = next else { return Ok(false) };
    let tree = Tree { fdp: undo.fdp, objid: undo.objid, density_pct: 100 };
    let row = RowKey { db, objid: undo.objid, entry: undo.entry() };
    let step = |pager: &dyn Pager| {
        // Whoever holds the entry now decides about it, and cleans up after itself.
        let held = core.transactions.borrow().is_locked(&row);
        let removal = if held { None } else { update::purge(pager, tree, &undo.key, &undo.tail)? };
        Ok((removal.unwrap_or_default(), ()))
    };
    match core.change(db, None, step).await {
        // A page that cannot be read: the entry stays flagged as deleted, which every reader knows. The cleaner gives it up, or
        // it would hold the checkpoint for ever; whoever meets the page gets the error, as for any other page.
        Err(Error::World(_) | Error::DamagedPage { .. }) if core.fate.check().is_ok() => {
            core.cleanups_given_up.set(core.cleanups_given_up.get() + 1);
        }
        done => done?,
    }
    let mut transactions = core.transactions.borrow_mut();
    if transactions.cleanups.front().is_some_and(|front| Rc::ptr_eq(&front.undo, &undo)) {
        transactions.cleanups.pop_front();
    }
    Ok(true)
}

//! An open instance: used, closed, abandoned.
//!
//! Invariants
//! 1. An instance that is not closed needs recovery; one that is closed leaves every database clean and without need
//!    of its logs.
//! 2. After a failure nothing is written any more; only opening again helps (design invariant 3).

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use btree::{LogRecord, MiniTransaction, Pager};
use world::{Task, World};

use crate::background;
use crate::cache::CacheStatus;
use crate::core::{CommitGate, Core};
use crate::error::{Error, Result};
use crate::io::Counters;
use crate::log::log_time;
use crate::meta_cache::{MetaCache, MetaCacheState};
use crate::transaction::{Transaction, roll_back};

/// Largest number of page writes at a time during a shutdown.
const WRITES_MOST: usize = 1024;

/// An open instance. It belongs to one thread.
///
/// Dropped, it stops as [`Self::abandon`] does, without waiting for what it has under way. The next opening
/// with the same configuration, or a clone of it, waits for that; a caller that opens the files with another one has
/// to abandon the instance first.
pub struct Instance {
    core: Rc<Core>,
    log_counters: Counters,
    tasks: RefCell<Vec<Task<()>>>,
    ended: Cell<bool>,
}

impl Instance {
    /// Starts an instance whose databases are attached; `scavenger` frees its pages.
    pub(crate) fn start(core: Rc<Core>, log_counters: Counters, scavenger: Option<Task<()>>) -> Instance {
        let mut tasks: Vec<Task<()>> = scavenger.into_iter().collect();
        tasks.extend(background::start(&core, &log_counters));
        Instance { core, log_counters, tasks: RefCell::new(tasks), ended: Cell::new(false) }
    }

    /// Begins a transaction.
    pub fn begin(&self) -> Transaction {
        Transaction::begin(&self.core)
    }

    /// Runs a changing step outside of transactions that is never undone, such as the creation of a table.
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

    /// I/O counters of a database's file.
    ///
    /// # Errors
    /// If there is no such database.
    pub fn database_counters(&self, db: u8) -> Result<Counters> {
        Ok(self.core.database(db)?.counters.clone())
    }

    /// I/O counters of logs and checkpoint.
    pub fn log_counters(&self) -> Counters {
        self.log_counters.clone()
    }

    /// State of the page cache.
    pub fn cache_status(&self) -> CacheStatus {
        self.core.cache.status()
    }

    /// Number of the current log generation.
    pub fn log_generation(&self) -> u32 {
        self.core.log.generation()
    }

    /// Number of log rolls since the instance was opened.
    pub fn log_rolls(&self) -> u64 {
        self.core.log.rolls()
    }

    /// Number of pages that the trees of a database know.
    ///
    /// # Errors
    /// If there is no such database.
    pub fn database_pages(&self, db: u8) -> Result<u32> {
        Ok(self.core.database(db)?.pages.get())
    }

    /// State of a database's MetaCache.
    ///
    /// # Errors
    /// If there is no such database.
    pub fn meta_cache_state(&self, db: u8) -> Result<MetaCacheState> {
        let cache = &self.core.database(db)?.meta_cache;
        Ok(cache.as_ref().map_or(MetaCacheState::Disabled, MetaCache::state))
    }

    /// Number of deleted entries that wait for their removal.
    pub fn cleanups_waiting(&self) -> usize {
        self.core.transactions.borrow().cleanups.len()
    }

    /// Number of deleted entries that stay in their tree, because a page on the way to them could not be read.
    pub fn cleanups_given_up(&self) -> u64 {
        self.core.cleanups_given_up.get()
    }

    /// Fails if the instance has stopped.
    ///
    /// # Errors
    /// The failure that stopped it.
    pub fn check(&self) -> Result<()> {
        self.core.poison.check()
    }

    /// Makes every later durable commit wait for `gate`, too.
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
        if let Err(error) = core.poison.require(closed) {
            self.abandon().await;
            return Err(error);
        }
        // A caller that still holds a transaction gets an answer.
        self.ended.set(true);
        core.poison.fail(&Error::Refused("it was closed".to_owned()));
        self.databases_idle().await;
        Ok(())
    }

    /// World in which the instance was opened.
    pub fn world(&self) -> &World {
        &self.core.world
    }

    async fn close_files(&self) -> Result<()> {
        let core = &self.core;
        core.poison.check()?;
        let open = core.transactions.borrow().open_ids();
        for transaction in open {
            roll_back(core, transaction).await?;
        }
        while background::clean_up_one(core).await? {}
        self.stop_tasks().await;
        // An extension under way changes pages when those of the space trees have come. None begins any more.
        self.databases_idle().await;
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
            database.flush_map.write(database.flush_map.take_frame(end), core.log.signature()).await?;
            database.leave_meta_cache(end, core.log.signature()).await;
            database.detach(end, time).await?;
        }
        let mut checkpoint = background::open_checkpoint(core, &self.log_counters).await?;
        checkpoint.write(core.log.tip()).await?;
        core.log.close().await
    }

    /// Stops at once, as a crash would: nothing more is written, and the next opening recovers.
    pub async fn abandon(&self) {
        self.ended.set(true);
        self.core.poison.fail(&Error::Refused("it was abandoned".to_owned()));
        self.stop_tasks().await;
        // The log writer ends with the failure; what it says is that failure.
        let _ = self.core.log.close().await;
        self.core.cache.writes_ended().await;
        self.databases_idle().await;
    }

    /// Stops as [`Self::abandon`] does, but with all of the log durable, and says in every header how far the
    /// log reaches: an opening that finds less of it fails.
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

    /// Waits until no task changes a file's length or header.
    async fn databases_idle(&self) {
        for database in &self.core.databases {
            database.idle().await;
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
}

impl Drop for Instance {
    fn drop(&mut self) {
        if !self.ended.get() {
            self.core.poison.fail(&Error::Refused("it was dropped".to_owned()));
            self.tell_tasks_to_stop();
            self.core.config.dropped.add(&self.core.world, &self.core.poison);
        }
    }
}

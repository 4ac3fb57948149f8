//! An instance on its way to being open: redo, undo, attach.
//!
//! Invariants
//! 1. An opening that fails, or that its caller drops, leaves no task behind ([`Scavenger`]).
//! 2. An opening ends when all databases are at the end of the log, without open transactions, and say so.

use std::collections::BTreeSet;
use std::rc::Rc;

use btree::{LogRecord, Pager, space};
use edb::header::{DatabaseHeader, DatabaseState};
use world::{SECTOR_BYTES, World};

use crate::cache::{Cache, Scavenger};
use crate::config::InstanceConfig;
use crate::core::Core;
use crate::create::directory_of;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::instance::Instance;
use crate::io::Counters;
use crate::log::reader::LogFiles;
use crate::log::writer::{Log, LogConfig, OpenLog, RollHook};
use crate::log::{LogNames, LogPosition, Signature, log_time, reserve};
use crate::recovery::{Recovery, RecoveryBranch, RecoveryReport, Redone};
use crate::signal::Poison;
use crate::transaction::roll_back;
use crate::transactions::Transactions;

impl Instance {
    /// Opens the databases of `config`. Those that were not closed are recovered from the log first.
    ///
    /// # Errors
    /// If files are missing, damaged, or contradict each other.
    pub async fn open(world: &World, config: &InstanceConfig) -> Result<(Instance, RecoveryReport)> {
        let opening = Opening::new(world, config).await?;
        let redone = opening.redo().await;
        opening.into_instance(redone).await
    }
}

/// Instance that is being opened: files and cache exist, and the cache frees pages when needed.
pub(crate) struct Opening {
    world: World,
    config: InstanceConfig,
    poison: Poison,
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
        let poison = Poison::default();
        let cache = Cache::new(world, &poison, config);
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
            poison,
            cache,
            databases,
            names: LogNames::new(&config.log_directory, &config.log_base),
            segments,
            log_counters: config.log_counters.clone(),
            scavenger,
        })
    }

    /// Creates a new log stream, or replays the existing one.
    async fn redo(&self) -> Result<Redone> {
        let files = LogFiles::find(&self.world, &self.names).await?;
        let mut refused = Vec::new();
        for database in &self.databases {
            let map = database.flush_map.load(&database.header().await).await?;
            refused.extend(map.map(|reason| (database.id, reason)));
        }
        let fresh = !files.current && files.archives.is_empty();
        let mut redone = if fresh { self.new_stream().await? } else { self.recovery().redo(&files).await? };
        redone.report.flush_maps_refused = refused;
        Ok(redone)
    }

    /// Undoes open transactions and starts everything else that an open instance needs.
    pub(crate) async fn into_instance(self, redone: Result<Redone>) -> Result<(Instance, RecoveryReport)> {
        let opened = match redone {
            Ok(redone) => self.undo_and_attach(redone).await,
            Err(error) => Err(error),
        };
        match opened {
            Ok((core, report)) => {
                let instance = Instance::start(core, self.log_counters, self.scavenger.hand_over());
                Ok((instance, report))
            }
            Err(error) => {
                self.give_up(&error).await;
                Err(error)
            }
        }
    }

    /// Stops the opening; nothing is written any more.
    pub(crate) async fn give_up(self, why: &Error) {
        self.scavenger.end(why).await;
    }

    async fn undo_and_attach(&self, redone: Redone) -> Result<(Rc<Core>, RecoveryReport)> {
        let Redone { log, signature, transactions, mut report } = redone;
        let log_bytes = u64::from(self.segments) * SECTOR_BYTES as u64;
        reserve::make(&self.world, &self.names, log_bytes).await?;
        let log = Log::start(&self.world, self.log_config(signature), &self.log_counters, &self.poison, log);
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
        let hook: Rc<dyn RollHook> = core.clone();
        core.log.set_hook(Rc::downgrade(&hook));
        match self.take_into_use(&core, &mut report).await {
            Ok(()) => Ok((core, report)),
            Err(error) => {
                self.poison.fail(&error);
                // The log writer ends with the failure; what it says is that failure.
                let _ = core.log.close().await;
                Err(error)
            }
        }
    }

    async fn take_into_use(&self, core: &Core, report: &mut RecoveryReport) -> Result<()> {
        for database in &self.databases {
            let is_recovered = database.header().await.state() == DatabaseState::Dirty;
            let log_end = is_recovered.then(|| core.log.tip());
            let refused = database.flush_map.complete(log_end, database.dbtime.get()).await?;
            report.flush_maps_refused.extend(refused.map(|reason| (database.id, reason)));
        }
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
            if database.header().await.state() == DatabaseState::Dirty {
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
            // A file that was lengthened in vain. The next writing of the header makes the cut durable; till
            // then the next recovery would make it again.
            let is_recovered = database.header().await.state() == DatabaseState::Dirty;
            if is_recovered && database.shrink_file(pages).await? {
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
            report.branches.count(RecoveryBranch::TransactionUndone);
        }
        report.undo_seconds = self.world.now().since(started).as_secs_f64();
        Ok(())
    }
}

/// Syncs names that the process before may have left unsynced, because everything made durable from now on is in these
/// files.
async fn sync_names(world: &World, config: &InstanceConfig) -> Result<()> {
    let databases = config.databases.iter().map(|database| directory_of(&database.path));
    let directories: BTreeSet<&str> = databases.chain([config.log_directory.as_str()]).collect();
    for directory in directories.into_iter().filter(|_| !planted!(FoundNamesNotSynced)) {
        world.sync_dir(directory).await?;
    }
    Ok(())
}

/// Last page that the database's own space knows.
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
    if header.state() == DatabaseState::Dirty {
        // Recovery has brought it to the end of the log: nothing before the checkpoint is needed any more. The
        // header's sync makes durable, too, what redo has found in the file and not written again.
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
    // Redo leaves out what the log has up to the position in the header. Were this record lost, others would
    // come to lie there.
    core.log.flush_to(end).await?;
    let (map, log) = (&database.flush_map, core.log.signature());
    let frame = map.take_frame(end);
    // Until the header names the new log stream, a check would take a map of that stream for damage.
    let is_other_stream = header.was_used() && header.log_signature() != log;
    if !is_other_stream {
        map.write(frame, log).await?;
        return database.attach(position, log_time(&core.world), log).await;
    }
    map.remove_file().await?;
    database.attach(position, log_time(&core.world), log).await?;
    map.write(frame, log).await
}

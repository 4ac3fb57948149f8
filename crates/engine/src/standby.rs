//! A passive copy: recovery that goes on as long as log comes, and can become an instance at any moment.
//!
//! It repeats the log of an instance on another host, pages in memory, and writes them now and then. What it
//! may forget is not its own to decide: the first record of the log that holds a page as a whole is what
//! repairs a torn write of it (`pages`), and the active instance logs a page as a whole only when it becomes
//! dirty *there*. So at each roll the active instance logs where its own redo would have begun.
//!
//! Invariants
//! 1. The checkpoint is at or before the newest position that the replayed log names as one, and moves there
//!    only when every page that replay has changed is written and synced. Then a page that changes later
//!    without being logged as a whole was dirty on the active instance at that time, so its whole record lies
//!    behind the checkpoint; and so do the beginnings of all transactions that replay has found open.
//! 2. A page that neither file nor log prove is never used: it is named by [`Standby::unproven_pages`], and
//!    comes from another copy.
//! 3. It becomes an instance only with the log replayed to its end, every page proven and written.
//! 4. Log is replayed once: see [`Replayer`]. After a replay that was dropped or has failed it has to be opened again.
//!
//! Limits: remembers for each page that it has changed where that came from (16 bytes), as long as it lives.

use std::collections::BTreeSet;

use btree::LogRecord;
use btree::Pager;
use edb::log::{LogHeader, Records};
use edb::page::PageMut;
use results::IoClass;
use world::{OpenMode, PageBuf, World};

use crate::cache::{PageKey, RedoFor};
use crate::checkpoint::{self, CheckpointFile};
use crate::config::InstanceConfig;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::flush_map;
use crate::instance::Instance;
use crate::io::IoFile;
use crate::log::reader::{LogFiles, damaged, read_header};
use crate::log::store::{LogStore, read_stretch};
use crate::log::writer::OpenLog;
use crate::log::{LogNames, LogPosition, SEGMENT_BYTES};
use crate::opening::Opening;
use crate::recovery::{RecoveryReport, Redone, Replayer, Scope, Source};

/// Number of page writes at a time while users work on the active copy, which may share the disk: fewer than in a
/// recovery.
const WRITES_BESIDE_USERS: usize = 32;

/// A passive copy of an instance's databases.
pub struct Standby {
    opening: Opening,
    replayer: Replayer,
    /// Header of the newest log when the standby was opened.
    header: LogHeader,
    checkpoint: CheckpointFile,
}

impl Standby {
    /// Opens the databases of `config` as a crash, a seeding or an earlier standby has left them. Replay begins at the
    /// checkpoint, without one at the oldest log. [`LogStore::open`] comes first: it settles where the log ends.
    ///
    /// # Errors
    /// Files that are missing, damaged, or contradict each other.
    pub async fn open(world: &World, config: &InstanceConfig) -> Result<Standby> {
        for database in &config.databases {
            flush_map::remove(world, &database.path).await?;
        }
        let opening = Opening::new(world, config).await?;
        let begun = begin(&opening, world).await;
        match begun {
            Ok(Begun { replayer, header, checkpoint }) => {
                opening.cache.set_redo(Some(RedoFor::Standby));
                Ok(Standby { opening, replayer, header, checkpoint })
            }
            Err(error) => {
                opening.give_up(&error).await;
                Err(error)
            }
        }
    }

    /// Position before which everything is replayed.
    pub fn replayed(&self) -> LogPosition {
        self.replayer.replayed()
    }

    /// Replays the log up to the segment that contains `to`.
    ///
    /// # Errors
    /// Failed I/O, or a log that is not what was written. If an earlier replay was dropped or has failed: then
    /// the copy has to be opened again.
    pub async fn replay(&mut self, to: LogPosition) -> Result<()> {
        let (next, to) = (self.replayed(), LogPosition::new(to.generation(), to.segment(), 0));
        self.replayer.run(&self.opening.recovery(), Source::Stored { next, to }).await
    }

    /// State of the log that was replayed last; before that, of the newest one.
    fn newest(&self) -> &LogHeader {
        self.replayer.newest().unwrap_or(&self.header)
    }

    /// Writes the pages that replay has changed, and moves the checkpoint as far as the log allows; returns its
    /// position. It stays while there are unproven pages.
    ///
    /// # Errors
    /// Failed I/O.
    pub async fn save_checkpoint(&mut self) -> Result<LogPosition> {
        self.opening.cache.write_all(WRITES_BESIDE_USERS).await?;
        let replay = &self.replayer.replay;
        let logged = if planted!(CopyForgetsTooMuch) { self.replayed() } else { replay.logged_checkpoint };
        let position = logged.max(self.replayer.start());
        if position > self.checkpoint.written() && self.unproven_pages().is_empty() {
            self.opening.cache.assert_all_written();
            // Pages of a seeded copy may need later logs than the one that is being replayed; the headers go on
            // to say that. Their syncs make durable, too, what replay has found in the files and not written
            // again.
            let last = self.newest().generation.max(replay.required);
            self.opening.recovery().name_generations(position.generation(), last).await?;
            self.checkpoint.write(position).await?;
            // The checkpoint is durable, so redo of a seeded copy need not begin where its seeding began any more.
            for database in &self.opening.databases {
                if database.header().await.backup_position() != LogPosition::default() {
                    database
                        .update_header(|header| header.set_backup_position(LogPosition::default()))
                        .await?;
                }
            }
        }
        Ok(self.checkpoint.written())
    }

    /// Unproven pages, by database and number: a damaged file, or a lost write. The log may still bring them; another
    /// copy has them.
    pub fn unproven_pages(&self) -> Vec<(u8, u32)> {
        self.replayer.replay.pages.unproven().map(|key| (key.db, key.pgno)).collect()
    }

    /// Pages, by database and number, that this standby took as a whole from the log or from another copy: those that
    /// changed since it was opened, if they were clean on the active instance when they changed. In no order.
    pub fn taken_pages(&self) -> impl Iterator<Item = (u8, u32)> {
        self.replayer.replay.pages.held_as_a_whole().map(|key| (key.db, key.pgno))
    }

    /// Replaces pages by those of another copy, durably. They may be newer than the position of replay; the standby
    /// must then not become an instance before replay has reached them.
    ///
    /// # Errors
    /// Failed I/O.
    pub async fn give_pages(&mut self, db: u8, pages: &[(u32, &[u8])]) -> Result<()> {
        let cache = &self.opening.cache;
        for (pgno, bytes) in pages {
            let key = PageKey { db, pgno: *pgno };
            let mut pins = cache.pins();
            cache.fetch(key, &mut pins).await?;
            if cache.put(key, PageBuf::copy_of(bytes), self.replayer.replay.report.log_end).is_none() {
                return Err(Error::Refused(format!("page {pgno} left memory while it was held")));
            }
            self.replayer.replay.pages.give(key);
        }
        cache.write_all(WRITES_BESIDE_USERS).await
    }

    /// Replays the rest of the log, which ends at `end`, and becomes an instance: it undoes open transactions and
    /// continues the log behind the last segment. A record that is incomplete there is lost.
    ///
    /// # Errors
    /// Log that is missing, pages that nothing proves, failed I/O. It is no standby any more then.
    pub async fn activate(mut self, end: LogPosition) -> Result<(Instance, RecoveryReport)> {
        let behind = end.segment() + u16::from(end.byte() > 0);
        let replayed = self.replay(LogPosition::new(end.generation(), behind, 0)).await;
        let redone = match replayed {
            Ok(()) => self.finish().await,
            Err(error) => Err(error),
        };
        self.opening.cache.set_redo(None);
        self.opening.into_instance(redone).await
    }

    /// Present page with checksums.
    ///
    /// # Errors
    /// A page that nothing proves, or failed I/O.
    pub async fn copy_page(&mut self, db: u8, pgno: u32) -> Result<Vec<u8>> {
        let (cache, key) = (&self.opening.cache, PageKey { db, pgno });
        let mut pins = cache.pins();
        cache.fetch(key, &mut pins).await?;
        cache.make(key)?;
        let found = cache.view(db).page(pgno).map(btree::PageView::to_vec);
        let damaged = || cache.damaged(key, "it failed its check".to_owned());
        let mut bytes = found.map_err(|_| damaged())?;
        if self.replayer.replay.pages.unproven().any(|unproven| unproven == key) {
            return Err(damaged());
        }
        PageMut::new(&mut bytes).finish(pgno);
        Ok(bytes)
    }

    /// Stops at once, as a crash would.
    pub async fn abandon(self) {
        self.opening.give_up(&Error::Refused("it was abandoned".to_owned())).await;
    }

    /// Writes everything that replay changed to the files, and ends the log where replay ends.
    async fn finish(&mut self) -> Result<Redone> {
        let recovery = self.opening.recovery();
        let files = LogFiles::find(recovery.world, recovery.names).await?;
        let last = recovery.name_last_log(&files, &mut self.replayer.replay.report).await?;
        let (header, at) = (*self.newest(), self.replayed());
        if header.generation != last {
            return Err(Error::Refused(format!("log {last} is not replayed")));
        }
        // An instance that ended in a roll leaves a full log that is still the current one, and headers that
        // name the next.
        let is_full = at.generation() > last || at.segment() + 1 >= recovery.segments;
        recovery.check_required(self.replayer.replay.required, last, is_full)?;
        recovery.judge_pages(&self.replayer.replay.pages)?;
        recovery.cache.make_all()?;
        recovery.cache.write_all(WRITES_BESIDE_USERS).await?;
        recovery.cache.assert_all_written();
        let (mode, current) = (OpenMode::ReadWrite, recovery.names.current());
        let file = IoFile::open(recovery.world, &current, mode, recovery.counters).await?;
        recovery.clear_mark(&file).await?;
        let chain = self.replayer.records();
        let replay = &mut self.replayer.replay;
        let oldest = recovery.drop_leftovers(&files, last, &mut replay.report).await?;
        let next_segment = if is_full { recovery.segments - 1 } else { at.segment().max(1) };
        let created = header.created;
        Ok(Redone {
            log: OpenLog { file, generation: last, created, next_segment, chain, oldest },
            signature: header.signature,
            transactions: std::mem::take(&mut replay.transactions),
            report: std::mem::take(&mut replay.report),
        })
    }
}

/// Cuts the log of a passive copy at `to` after a fork, and removes from its database headers that they need more. No
/// standby may be open. The pages that the cut part had changed ([`changed_pages`]) must come from the active copy.
///
/// # Errors
/// Failed I/O.
pub async fn truncate_log(
    world: &World,
    config: &InstanceConfig,
    store: &mut LogStore,
    to: LogPosition,
) -> Result<()> {
    for (id, database) in (1..=255).zip(&config.databases) {
        // It may name what is cut.
        flush_map::remove(world, &database.path).await?;
        let database = Database::open(world, id, database, config.page_bytes).await?;
        let (first, last, _) = database.header().await.generations();
        let (first, last) = (first.min(to.generation()), last.min(to.generation()));
        database.update_header(|header| header.set_generations(first, last, last)).await?;
    }
    let names = LogNames::new(&config.log_directory, &config.log_base);
    let found = checkpoint::read(world, &names.checkpoint(), &config.log_counters).await?;
    if let Some((found, _)) = found.filter(|(found, _)| found.position > to) {
        let (path, counters) = (names.checkpoint(), &config.log_counters);
        CheckpointFile::open(world, &path, found.signature, counters).await?.write(to).await?;
    }
    store.truncate(to).await
}

/// The durable checkpoint of a passive copy, if it has one.
///
/// # Errors
/// Failed I/O.
pub async fn saved_checkpoint(world: &World, config: &InstanceConfig) -> Result<Option<LogPosition>> {
    let names = LogNames::new(&config.log_directory, &config.log_base);
    let found = checkpoint::read(world, &names.checkpoint(), &config.log_counters).await?;
    Ok(found.map(|(checkpoint, _)| checkpoint.position))
}

/// Pages, by database and number, that the log between two positions changes; `to` is the end of the log.
///
/// # Errors
/// Failed I/O, or a log that is not what was written.
pub async fn changed_pages(
    world: &World,
    config: &InstanceConfig,
    (from, to): (LogPosition, LogPosition),
) -> Result<BTreeSet<(u8, u32)>> {
    let names = LogNames::new(&config.log_directory, &config.log_base);
    let segments = config.segments()?;
    let mut pages = BTreeSet::new();
    let mut records = Records::new();
    let mut at = LogPosition::new(from.generation(), 0, 0);
    let to = LogPosition::new(to.generation(), to.segment() + u16::from(to.byte() > 0), 0);
    while at < to {
        let stretch = read_stretch(world, &names, segments, &config.log_counters, (at, to)).await?;
        let Some(stretch) = stretch else {
            return Err(Error::MissingLog { directory: names.directory, generation: at.generation() });
        };
        for (segment, number) in stretch.bytes.as_chunks::<SEGMENT_BYTES>().0.iter().zip(0..) {
            if number == 0 || number == segments - 1 {
                continue;
            }
            // What a crash has left behind the last whole record changes nothing.
            let whole = records.push(segment, |end, bytes| {
                if end <= from {
                    return;
                }
                match LogRecord::decode(bytes) {
                    Some(LogRecord::Changes { db, mini, .. }) => {
                        pages.extend(mini.changes.iter().map(|change| (db, change.pgno)));
                    }
                    Some(LogRecord::PageImage { db, pgno, .. }) => drop(pages.insert((db, pgno))),
                    _ => {}
                }
            });
            if whole.is_err() {
                break;
            }
        }
        at = stretch.end();
    }
    Ok(pages)
}

struct Begun {
    replayer: Replayer,
    header: LogHeader,
    checkpoint: CheckpointFile,
}

async fn begin(opening: &Opening, world: &World) -> Result<Begun> {
    let recovery = opening.recovery();
    let files = LogFiles::find(world, recovery.names).await?;
    let newest = match (files.current, files.archives.last()) {
        (true, _) => recovery.names.current(),
        (false, Some(&archive)) => recovery.names.archive(archive),
        (false, None) => return Err(recovery.missing(1)),
    };
    let header = read_header(world, &newest, recovery.counters, IoClass::LogRead).await?;
    let header = header.ok_or_else(|| damaged(&newest, "its header is not intact"))?;
    let participants = recovery.participants(&header).await?;
    if participants.0.len() < recovery.databases.len() {
        return Err(Error::Refused(
            "a database is clean: it needs no log, so it is no passive copy".to_owned(),
        ));
    }
    let mut report = RecoveryReport::default();
    let start = recovery.start(&files, &header, &participants.0, &mut report).await?;
    let checkpoint =
        CheckpointFile::open(world, &recovery.names.checkpoint(), header.signature, recovery.counters)
            .await?;
    let scope = Scope { participants: participants.0, start };
    Ok(Begun { replayer: Replayer::new(scope, participants.1, report), header, checkpoint })
}

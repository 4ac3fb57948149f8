//! Writing pages back: to free frames, to let the checkpoint move, to shut down.

use edb::page::{PageMut, PageRef};
use results::IoClass;
use smallvec::SmallVec;
use world::Bufs;

use super::frames::{Content, Frames};
use super::page::CachedPage;
use super::{Cache, CachedDatabase, LogPosition, PageKey};
use crate::error::Result;
use crate::log::POSITION_END;
use crate::signal::{StopSignal, Working};

/// Largest write of adjacent pages, bytes.
const WRITE_BYTES_MAX: usize = 512 << 10;
/// Largest number of page writes at a time.
const WRITES_MAX: usize = 1024;
/// Highest urgency of a page write.
const URGENCY_MAX: usize = 127;

/// Number of page writes at a time for an urgency from 0 (no task waits) to 127. The steps are those of ESE, which
/// gives urgent writes up to half of its 1024 outstanding I/Os: a 128th of that half first, then a 32nd, a quarter,
/// and all.
fn writes_under_way(urgency: usize) -> usize {
    match urgency {
        0..16 => WRITES_MAX / 2 / 128,
        16..32 => WRITES_MAX / 2 / 32,
        32..64 => WRITES_MAX / 2 / 4,
        _ => WRITES_MAX / 2,
    }
}

/// Number of page writes at a time if the oldest dirty page is `distance` bytes of log old. The steps are those of
/// ESE: relaxed up to a quarter beyond the depth, then by levels of 512 KiB.
pub(crate) fn writes_outstanding(distance: u64, depth: u64) -> Option<usize> {
    if distance <= depth {
        return None;
    }
    let overdue = distance.saturating_sub(depth + depth / 4);
    Some(writes_under_way((overdue / (512 << 10)) as usize))
}

/// Adjacent pages that were copied for a write.
struct WriteRun {
    first: PageKey,
    frames: SmallVec<[(u32, LogPosition); 1]>,
    pages: Bufs,
    log_needed: LogPosition,
}

/// Sync in progress. If it is dropped before its end, it counts as having made nothing durable.
struct Syncing<'a> {
    database: &'a CachedDatabase,
    /// Oldest change that the sync was to make durable; the end of all positions once it has.
    written: LogPosition,
}

impl Drop for Syncing<'_> {
    fn drop(&mut self) {
        let database = self.database;
        database.unsynced.set(database.unsynced.get().min(self.written));
        database.syncs_running.set(database.syncs_running.get() - 1);
        if database.syncs_running.get() == 0 {
            database.syncing.set(POSITION_END);
        }
    }
}

impl Cache {
    /// Scavenger: frees frames from the moment they are short until enough are free. Ends with the stop or the
    /// instance.
    pub(crate) async fn scavenge(&self, stop: &StopSignal) {
        let mut is_freeing = false;
        loop {
            let wake = self.0.scavenge.wait();
            if stop.is_stopped() || self.0.poison.check().is_err() {
                return;
            }
            let enough = if is_freeing { self.0.scavenge_stop.get() } else { self.0.scavenge_start.get() };
            is_freeing = self.0.frames.borrow().available() < enough;
            if is_freeing {
                self.free_frames().await;
            } else {
                wake.await;
            }
        }
    }

    /// Wakes the scavenger if too few frames are free after one was taken.
    pub(super) fn scavenge_if_short(&self) {
        if self.0.frames.borrow().available() < self.0.scavenge_start.get() {
            self.0.scavenge.notify_all();
        }
    }

    /// Wakes the scavenger so that it notices a stop.
    pub(crate) fn wake_scavenger(&self) {
        self.0.scavenge.notify_all();
    }

    /// One round of the scavenger: frees clean victims at once and writes dirty ones first. Stops when both cover the
    /// deficit, or as many writes are in progress as the urgency allows.
    async fn free_frames(&self) {
        let goal = self.0.scavenge_stop.get();
        let mut misses = 0;
        loop {
            let available = self.0.frames.borrow().available();
            if available + self.0.leaving.get() >= goal
                || self.0.writes_running.get() >= writes_under_way(self.urgency(available))
            {
                break;
            }
            let mut frames = self.0.frames.borrow_mut();
            let Some(frame) = frames.pick_victim() else {
                misses += 1;
                if misses > 8 {
                    break;
                }
                continue;
            };
            if frames.get(frame).is_dirty() {
                drop(frames);
                self.leaves_when_written(frame);
                self.start_write(frame);
            } else {
                frames.release(frame);
                drop(frames);
                self.0.freed.notify_one();
            }
        }
        if self.0.writes_running.get() > 0 {
            self.0.written.wait().await;
        } else if misses > 0 {
            // Everything is held by operations: wait until some of them end.
            self.0.world.sleep(world::Duration::from_millis(1)).await;
        }
    }

    /// Urgency of freeing frames, by the number of free ones below the start threshold.
    fn urgency(&self, available: usize) -> usize {
        let start = self.0.scavenge_start.get();
        start.saturating_sub(available) * URGENCY_MAX / start
    }

    /// Writes pages, oldest first, while `outstanding` (number of writes allowed for the oldest first change) permits.
    /// Returns when the last write has been started.
    pub(crate) async fn write_oldest(
        &self,
        outstanding: impl Fn(LogPosition) -> Option<usize>,
    ) -> Result<()> {
        loop {
            self.0.poison.check()?;
            let Some((position, frame)) = self.0.frames.borrow_mut().oldest_dirty() else { return Ok(()) };
            let Some(outstanding) = outstanding(position) else { return Ok(()) };
            // A page that is already being written and has changed since has to wait for that write.
            let busy = self.0.frames.borrow().get(frame).writing;
            if busy || self.0.writes_running.get() >= outstanding.clamp(1, WRITES_MAX) {
                self.0.written.wait().await;
            } else {
                self.start_write(frame);
            }
        }
    }

    /// Writes every dirty page and syncs: afterwards the files have all changes so far.
    pub(crate) async fn write_all(&self, outstanding: usize) -> Result<()> {
        self.write_oldest(|_| Some(outstanding)).await?;
        while self.0.frames.borrow().in_flight() > 0 {
            self.0.poison.check()?;
            self.0.written.wait().await;
        }
        self.sync_written().await
    }

    /// Waits until no page write is in progress; after that nothing reaches the files any more.
    pub(crate) async fn writes_ended(&self) {
        while self.0.writes_running.get() > 0 {
            self.0.written.wait().await;
        }
    }

    /// Syncs the files that were written since their last sync; their pages no longer hold the checkpoint back.
    pub(crate) async fn sync_written(&self) -> Result<()> {
        let databases: Vec<_> = self.0.databases.borrow().iter().flatten().cloned().collect();
        for database in databases {
            self.0.poison.check()?;
            let written = database.unsynced.replace(POSITION_END);
            if written == POSITION_END {
                continue;
            }
            database.syncing.set(written.min(database.syncing.get()));
            database.syncs_running.set(database.syncs_running.get() + 1);
            let mut syncing = Syncing { database: &database, written };
            let synced = if planted!(WrittenNotSynced) { Ok(()) } else { database.file.sync().await };
            self.0.poison.require(synced)?;
            syncing.written = POSITION_END;
        }
        Ok(())
    }

    /// Starts to write the dirty page in `frame` together with its dirty neighbours.
    fn start_write(&self, frame: u32) {
        let Ok(run) = self.0.poison.require(self.copy_run(frame)) else { return };
        self.0.writes_running.set(self.0.writes_running.get() + 1);
        let working = self.0.poison.working();
        self.0.world.spawn_detached(self.clone().write_run(run, working));
    }

    fn leaves_when_written(&self, frame: u32) {
        let is_new = !std::mem::replace(&mut self.0.frames.borrow_mut().get_mut(frame).leaving, true);
        self.0.leaving.set(self.0.leaving.get() + usize::from(is_new));
    }

    fn copy_run(&self, frame: u32) -> Result<WriteRun> {
        let (db, range) = {
            let frames = self.0.frames.borrow();
            let limit = (WRITE_BYTES_MAX / self.0.page_bytes).saturating_sub(1).max(1);
            (frames.get(frame).key().db, frames.dirty_run(frame, limit))
        };
        for pgno in range.clone() {
            let key = PageKey { db, pgno };
            // What was made only to be written leaves memory with that.
            if self.make(key)? {
                let frame = self.0.frames.borrow().find(key);
                frame.into_iter().for_each(|frame| self.leaves_when_written(frame));
            }
        }
        let database = self.database(db)?;
        let scratch = &mut *self.0.scratch.borrow_mut();
        let mut frames = self.0.frames.borrow_mut();
        let mut run = WriteRun {
            first: PageKey { db, pgno: *range.start() },
            frames: SmallVec::new(),
            pages: Bufs::new(),
            log_needed: LogPosition::default(),
        };
        for pgno in range {
            let frame = frames.find(PageKey { db, pgno }).expect("a run is made of cached pages");
            let slot = frames.get_mut(frame);
            let is_prepared = std::mem::take(&mut slot.is_prepared);
            let page = slot.page_mut().expect("only a page that was made, and verified, is written");
            run.pages.push(page.stamped_copy(pgno, is_prepared, database.template.as_deref(), scratch));
            run.log_needed = run.log_needed.max(slot.last_change);
            let first_dirty = frames.begin_write(frame);
            run.frames.push((frame, first_dirty));
        }
        Ok(run)
    }

    /// Packs idle pages, if the file can; a dirty one as it will be written.
    pub(super) fn pack_idle(&self, frames: &mut Frames) {
        while let Some(frame) = frames.next_to_pack() {
            let slot = frames.get_mut(frame);
            let (key, is_dirty) = (slot.key(), slot.is_dirty());
            let database = self.database(key.db);
            let (Content::Page(CachedPage::Buf(page)), Ok(database)) = (&mut slot.content, database) else {
                continue;
            };
            if !database.packs_pages {
                continue;
            }
            if is_dirty && !slot.is_prepared {
                let bytes = page.as_unsealed_mut_slice();
                // Prepared, a page that another copy gave as never used would say that it was.
                if PageRef::new(bytes).is_blank() {
                    continue;
                }
                PageMut::new(bytes).prepare(key.pgno);
                slot.is_prepared = true;
            }
            database.file.file().pack(u64::from(key.pgno) + 1, page);
        }
    }

    /// Writes adjacent pages to the database file, and then to their slots of the MetaCache.
    async fn write_pages(&self, first: PageKey, pages: Bufs) -> Result<()> {
        let (database, class) = (self.database(first.db)?, IoClass::TransactionalWrite);
        let offset = (u64::from(first.pgno) + 1) * self.0.page_bytes as u64;
        let Some(meta_cache) = self.meta_cache(&database) else {
            return database.file.write(class, offset, pages).await;
        };
        let reserved = meta_cache.reserve(first.pgno, pages.len());
        let written = database.file.write_and_keep(class, offset, pages).await;
        let page = |pgno: u32| Some(written.as_ref().ok()?[(pgno - first.pgno) as usize].clone());
        meta_cache.write(reserved, page).await;
        written.map(drop)
    }

    async fn write_run(self, run: WriteRun, _working: Working) {
        let log = self.0.log.borrow().clone();
        let result = async {
            if let Some(log) = log.filter(|_| !planted!(PageBeforeLog)) {
                log.flush_to(run.log_needed).await?;
                log.assert_durable(run.log_needed);
            }
            self.0.poison.check()?;
            self.write_pages(run.first, run.pages).await
        };
        let result = result.await;
        if self.0.poison.require(result).is_ok()
            && let Ok(database) = self.database(run.first.db)
        {
            let mut frames = self.0.frames.borrow_mut();
            for (frame, first_dirty) in run.frames {
                database.unsynced.set(database.unsynced.get().min(first_dirty));
                if frames.get(frame).leaving {
                    self.0.leaving.set(self.0.leaving.get() - 1);
                }
                if frames.end_write(frame, first_dirty) {
                    self.0.freed.notify_one();
                }
            }
        }
        self.0.writes_running.set(self.0.writes_running.get() - 1);
        self.0.written.notify_all();
    }
}

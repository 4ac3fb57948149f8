//! Bringing pages in.

use results::IoClass;
use smallvec::{SmallVec, smallvec};
use world::sync::Notify;
use world::{Bufs, PageBuf};

use super::frames::Content;
use super::page::CachedPage;
use super::pending_redo::PendingRedo;
use super::{Cache, CachedDatabase, PageKey, Pins};
use crate::error::{Error, Result};
use crate::judge::{Finding, STALE, judge};

/// Largest read of adjacent pages, bytes.
const READ_BYTES_MAX: usize = 256 << 10;

enum Found {
    Here(u32),
    /// Redo has read the page and kept no bytes.
    NotKept(u32),
    Arriving(Notify),
    /// Another copy is to replace the page.
    Awaited,
    Absent,
}

/// Frames of a read in progress. If the reader is dropped, they are freed and waiting operations retry.
struct Arrival {
    cache: Cache,
    frames: SmallVec<[u32; 1]>,
    purpose: Purpose,
    wanted: PageNeed,
}

impl PageNeed {
    /// What redo needs of a page that a record names; `is_whole`: the record contains the whole page.
    pub(crate) fn by_record(is_whole: bool) -> PageNeed {
        // A change goes on what redo has made, of which there may be no more than what the file has by then.
        if is_whole { PageNeed::Version } else { PageNeed::Bytes }
    }
}

/// Purpose of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Use,
    /// The pages will be used later.
    Ahead,
}

/// Part of a page that a caller needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageNeed {
    Bytes,
    /// Its version in the file, for redo of a page that the log contains as a whole.
    Version,
}

impl Cache {
    /// Reads a page if needed and pins it in `pins`.
    pub(crate) async fn fetch(&self, key: PageKey, pins: &mut Pins) -> Result<()> {
        self.bring_in(key, pins, PageNeed::Bytes).await
    }

    /// Pins what redo needs of a page that the log will replace: its bytes only if readers see them, too.
    pub(crate) async fn fetch_for_redo(&self, key: PageKey, pins: &mut Pins) -> Result<()> {
        self.bring_in(key, pins, self.wanted_of_redo()).await
    }

    /// Part of a page that redo needs: readers see the pages of a passive copy during redo.
    fn wanted_of_redo(&self) -> PageNeed {
        if self.pages_wait() { PageNeed::Version } else { PageNeed::Bytes }
    }

    async fn bring_in(&self, key: PageKey, pins: &mut Pins, wanted: PageNeed) -> Result<()> {
        let capacity = self.0.frames.borrow().capacity();
        if pins.frames.len() > capacity - capacity / 8 {
            return Err(Error::Refused(format!(
                "one step needs more pages than the cache has room for, {capacity}"
            )));
        }
        let (mut stalled, mut awaited_until) = (false, None);
        loop {
            self.0.poison.check()?;
            match self.look_up(key) {
                Found::NotKept(frame) if wanted == PageNeed::Bytes => {
                    self.0.frames.borrow_mut().release(frame)
                }
                Found::Here(frame) | Found::NotKept(frame) => {
                    if stalled {
                        self.pass_on_room();
                    }
                    self.0.frames.borrow_mut().get_mut(frame).pins += 1;
                    pins.frames.push(frame);
                    return self.refuse_damaged(key, frame);
                }
                Found::Arriving(arrival) => arrival.wait().await,
                Found::Awaited => self.replaced(key, &mut awaited_until).await?,
                Found::Absent => {
                    if self.0.frames.borrow().available() > 0 {
                        let arrival = self.expect_pages(key, 1, Purpose::Use, wanted);
                        if stalled {
                            self.pass_on_room();
                        }
                        match self.read_pages(key, arrival).await? {
                            true => pins.reads.from_file += 1,
                            false => pins.reads.from_meta_cache += 1,
                        }
                    } else {
                        if !stalled {
                            self.count_stall();
                            stalled = true;
                        }
                        self.0.scavenge.notify_all();
                        self.0.freed.wait().await;
                    }
                }
            }
        }
    }

    /// Counts a page fault stall, and whether the size of the cache caused it.
    fn count_stall(&self) {
        self.0.stalls.set(self.0.stalls.get() + 1);
        if self.0.frames.borrow().in_use() > self.0.scavenge_stop.get() {
            self.0.small_cache_stalls.set(self.0.small_cache_stalls.get() + 1);
        }
    }

    /// Reads pages ahead, adjacent ones in one read. `pgnos` ascend. Stops early, without an error, if memory is
    /// short. Damage is no error here, because the operation that needs the page will meet it.
    pub(crate) async fn preread(&self, db: u8, pgnos: &[u32], wanted: PageNeed) -> Result<()> {
        let wanted = if wanted == PageNeed::Version { self.wanted_of_redo() } else { wanted };
        let mut at = 0;
        while at < pgnos.len() {
            let first = PageKey { db, pgno: pgnos[at] };
            at += 1;
            if !self.is_absent(first) {
                continue;
            }
            let room = self.0.frames.borrow().available().min(READ_BYTES_MAX / self.0.page_bytes);
            if room == 0 {
                self.0.scavenge.notify_all();
                return Ok(());
            }
            let mut count = 1;
            while count < room && pgnos.get(at) == Some(&(first.pgno + count as u32)) {
                if !self.is_absent(PageKey { db, pgno: pgnos[at] }) {
                    break;
                }
                (count, at) = (count + 1, at + 1);
            }
            let arrival = self.expect_pages(first, count, Purpose::Ahead, wanted);
            self.read_pages(first, arrival).await?;
        }
        Ok(())
    }

    /// Waits until a page can be read without going over the capacity.
    pub(crate) async fn wait_for_room(&self) -> Result<()> {
        while self.0.frames.borrow().available() == 0 {
            self.0.poison.check()?;
            self.0.scavenge.notify_all();
            self.0.freed.wait().await;
        }
        self.0.poison.check()
    }

    /// Wakes the next task that waits for a frame, if frames are free. A task that was woken and did not use its frame
    /// calls this, because otherwise the next one would wait although frames are free.
    pub(crate) fn pass_on_room(&self) {
        if self.0.frames.borrow().available() > 0 {
            self.0.freed.notify_one();
        }
    }

    /// Whether a page is neither in memory nor being read.
    pub(crate) fn is_absent(&self, key: PageKey) -> bool {
        matches!(self.look_up(key), Found::Absent)
    }

    /// Waits until a page that is being read has arrived or failed.
    pub(super) fn arrival_of(&self, key: PageKey) -> Option<Notify> {
        match self.look_up(key) {
            Found::Arriving(arrival) => Some(arrival),
            _ => None,
        }
    }

    fn look_up(&self, key: PageKey) -> Found {
        let mut frames = self.0.frames.borrow_mut();
        let Some(frame) = frames.find(key) else { return Found::Absent };
        let slot = frames.get_mut(frame);
        match slot.content {
            Content::Arriving => Found::Arriving(slot.arrival.get_or_insert_default().clone()),
            Content::InFile(_) => Found::NotKept(frame),
            Content::Awaited => Found::Awaited,
            _ => Found::Here(frame),
        }
    }

    fn refuse_damaged(&self, key: PageKey, frame: u32) -> Result<()> {
        let frames = self.0.frames.borrow();
        if matches!(frames.get(frame).content, Content::Damaged(_)) && self.0.redo.get().is_none() {
            return Err(self.damaged(key, "it failed its check".to_owned()));
        }
        Ok(())
    }

    /// Reserves frames for `count` absent pages from `first` on.
    fn expect_pages(&self, first: PageKey, count: usize, purpose: Purpose, wanted: PageNeed) -> Arrival {
        let mut arrival = Arrival { cache: self.clone(), frames: SmallVec::new(), purpose, wanted };
        let mut frames = self.0.frames.borrow_mut();
        for n in 0..count as u32 {
            let key = PageKey { pgno: first.pgno + n, ..first };
            arrival.frames.push(frames.occupy(key, Content::Arriving));
        }
        drop(frames);
        self.scavenge_if_short();
        arrival
    }

    /// Reads pages into frames. Returns whether they came from the database file.
    async fn read_pages(&self, first: PageKey, mut arrival: Arrival) -> Result<bool> {
        let database = self.database(first.db)?;
        let (pages, is_of_file) = self.read_from(&database, first, arrival.frames.len()).await?;
        let now_ns = self.0.world.now().ns;
        let frames_read: SmallVec<[u32; 1]> = std::mem::replace(&mut arrival.frames, smallvec![]);
        let (mut first_damage, mut reported) = (None, SmallVec::<[u32; 1]>::new());
        let on_damage = self.on_damage();
        for ((frame, page), pgno) in frames_read.into_iter().zip(pages).zip(first.pgno..) {
            let key = PageKey { pgno, ..first };
            let mut finding = judge(&page, u64::from(pgno) + 1, database.template_id);
            // Redo meets other versions; what it needs to know of them it asks the log.
            if finding == Finding::Good && self.0.redo.get().is_none() && !database.is_newest(pgno, &page) {
                finding = Finding::Bad(STALE.to_owned());
            }
            if finding == Finding::Good && is_of_file {
                self.admit(&database, pgno, &page);
            }
            let mut frames = self.0.frames.borrow_mut();
            let slot = frames.get_mut(frame);
            assert!(
                matches!(slot.content, Content::Arriving),
                "what was read comes to the frame that awaits it"
            );
            let waiters = slot.arrival.take();
            if finding == Finding::Good && arrival.wanted == PageNeed::Version {
                let pending = PendingRedo::read(&page, frames.pending.as_ref());
                frames.get_mut(frame).content = Content::InFile(Box::new(pending));
            } else if finding == Finding::Good {
                let page = CachedPage::arrived(page, pgno, database.template.as_deref(), &mut frames.spare);
                frames.get_mut(frame).content = Content::Page(page);
            } else if self.0.redo.get().is_some() {
                slot.content = Content::Damaged(CachedPage::of(page));
            } else if finding == Finding::Uninitialised && arrival.purpose == Purpose::Ahead {
                // It may belong to no tree; who reads ahead need not know.
                frames.release(frame);
            } else if on_damage.is_some() {
                slot.content = Content::Awaited;
                reported.push(pgno);
            } else {
                frames.release(frame);
                first_damage.get_or_insert_with(|| self.damaged(key, finding.reason()));
            }
            match (&frames.get(frame).content, arrival.purpose) {
                (Content::Nothing | Content::Awaited, _) => {}
                (_, Purpose::Use) => frames.touch_new(frame, now_ns),
                (_, Purpose::Ahead) => frames.expect_use(frame, now_ns),
            }
            drop(frames);
            if let Some(waiters) = waiters {
                waiters.notify_all();
            }
        }
        if let Some(on_damage) = on_damage {
            reported.into_iter().for_each(|pgno| on_damage(first.db, pgno));
        }
        first_damage.map_or(Ok(is_of_file), Err)
    }

    /// Pages from the MetaCache or the database file, and whether they came from the file. A run of several pages is
    /// one read of the file.
    async fn read_from(
        &self,
        database: &CachedDatabase,
        first: PageKey,
        count: usize,
    ) -> Result<(Bufs, bool)> {
        if let (1, Some(meta_cache)) = (count, self.meta_cache(database))
            && let Some(page) = meta_cache.read(first.pgno).await
        {
            return Ok((smallvec![page], false));
        }
        let bufs = (0..count).map(|_| PageBuf::empty(self.0.page_bytes)).collect();
        let offset = (u64::from(first.pgno) + 1) * self.0.page_bytes as u64;
        let pages = match database.file.read(IoClass::TransactionalRead, offset, bufs).await {
            Err(error) if error.is_short_read() && self.0.redo.get().is_some() => {
                self.read_over_the_end(database, offset, count).await?
            }
            pages => pages?,
        };
        Ok((pages, true))
    }

    /// Starts to write a page that was read from the database file to the MetaCache, if the page is to be admitted.
    fn admit(&self, database: &CachedDatabase, pgno: u32, page: &PageBuf) {
        let Some(meta_cache) = self.meta_cache(database) else { return };
        let reserved = meta_cache.admit(pgno);
        if !reserved.is_empty() {
            let (meta_cache, page) = (meta_cache.clone(), page.clone());
            let working = self.0.poison.working();
            self.0.world.spawn_detached(async move {
                let _working = working;
                meta_cache.write(reserved, |_| Some(page.clone())).await;
            });
        }
    }

    /// Handles a read that passed the end of the file: to recovery the missing pages are pages to repair, and the
    /// others are good.
    async fn read_over_the_end(&self, database: &CachedDatabase, offset: u64, count: usize) -> Result<Bufs> {
        let page_bytes = self.0.page_bytes;
        let mut pages = Bufs::new();
        for n in 0..count {
            let at = offset + (n * page_bytes) as u64;
            pages.push(match database.file.read_one(IoClass::TransactionalRead, at, page_bytes).await {
                Err(error) if error.is_short_read() => PageBuf::empty(page_bytes),
                page => page?,
            });
        }
        Ok(pages)
    }

    pub(crate) fn damaged(&self, key: PageKey, reason: String) -> Error {
        let path = self.database(key.db).map_or_else(|_| String::new(), |db| db.file.path().to_owned());
        Error::DamagedPage { path, pgno: key.pgno, reason }
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        if self.frames.is_empty() || planted!(DroppedReadKeepsFrames) {
            return;
        }
        let waiters: Vec<Notify> = {
            let mut frames = self.cache.0.frames.borrow_mut();
            let released = self.frames.drain(..).filter_map(|frame| {
                let waiters = frames.get_mut(frame).arrival.take();
                frames.release(frame);
                waiters
            });
            released.collect()
        };
        waiters.iter().for_each(Notify::notify_all);
        self.cache.0.freed.notify_all();
    }
}

//! The page cache: pages of all databases of an instance, read, kept, written back.
//!
//! Invariants
//! 1. A page is written only after the log is durable up to its last change (design invariant 2).
//! 2. What is written is a copy taken between two changes: bytes in flight never change.
//! 3. A write counts as done for the checkpoint only after a later sync of its file (design invariant 4).
//! 4. Bytes are verified, or the page is known pristine or known by its changes, before anyone sees them
//!    (design invariant 6).
//! 5. A failed write or sync stops the instance; it is not retried (design invariant 3).
//! 6. A page that an operation has fetched stays until the operation ends, so its retries make progress.
//! 7. The checksums of a cached page mean nothing: they are computed when it is written. A dirty page that is packed is
//!    packed as it will be written.
//!
//! Limits: one page size per instance; reads and writes of at most 256 KiB and 512 KiB.

mod awaited;
mod change;
mod frames;
mod page;
mod pending_redo;
mod read;
mod redo;
mod scavenger;
#[cfg(test)]
mod tests;
mod write;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use btree::PageCoding;
use smallvec::SmallVec;
use world::sync::Notify;
use world::{PageBuf, World};

pub(crate) use change::CodecCoding;
use frames::Frames;
pub(crate) use frames::PageKey;
pub(crate) use page::CachedPage;
pub(crate) use page::Template;
pub(crate) use pending_redo::{LoggedPage, Rebuilt, RedoOutcome};
pub(crate) use read::PageNeed;
pub(crate) use redo::{Base, RedoFor};
pub(crate) use scavenger::Scavenger;
pub(crate) use write::writes_outstanding;

use crate::config::InstanceConfig;
use crate::error::{Error, Result};
use crate::flush_map::FlushMap;
use crate::io::IoFile;
use crate::judge::dbtime;
use crate::log::writer::Log;
use crate::log::{LogPosition, POSITION_END};
use crate::meta_cache::MetaCache;
use crate::signal::Poison;

/// Memory of a frame without its page, in bytes.
const FRAME_BYTES: usize = 64;

/// Least number of frames with which every operation can hold the pages that it needs.
const FRAMES_MIN: usize = 64;

/// State of the page cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStatus {
    /// Bytes of pages in the cache.
    pub resident_bytes: u64,
    /// Capacity of the cache, bytes.
    pub capacity_bytes: u64,
    /// Number of pages that were changed and not yet written.
    pub dirty_pages: u64,
    /// Page fault stalls since the start: waits of an operation for a free buffer.
    pub page_fault_stalls: u64,
    /// Page fault stalls that storage of any speed would have: operations held or read more pages at once than the
    /// cache keeps free, so the cache is too small for the load.
    pub small_cache_stalls: u64,
}

/// Database in the page cache.
pub(crate) struct CachedDatabase {
    pub(crate) file: IoFile,
    /// Coding of its pages in the log.
    coding: Rc<dyn PageCoding>,
    /// Identity of the template, whose pages need no check.
    pub(crate) template_id: Option<u64>,
    /// Template, if its pages can be used without their bytes.
    template: Option<Rc<Template>>,
    /// Versions of the pages in the file.
    flush_map: Option<FlushMap>,
    /// Copies of pages on a faster volume.
    meta_cache: Option<MetaCache>,
    /// Whether idle pages are packed.
    packs_pages: bool,
    /// Oldest first change of the pages written since the last sync began.
    unsynced: Cell<LogPosition>,
    /// Oldest first change that a sync in progress covers.
    syncing: Cell<LogPosition>,
    syncs_running: Cell<u32>,
}

impl CachedDatabase {
    pub(crate) fn new(
        file: IoFile,
        coding: Rc<dyn PageCoding>,
        template_id: Option<u64>,
        template: Option<Rc<Template>>,
    ) -> CachedDatabase {
        CachedDatabase {
            packs_pages: file.file().packs_pages(),
            file,
            coding,
            template_id,
            template,
            flush_map: None,
            meta_cache: None,
            unsynced: Cell::new(POSITION_END),
            syncing: Cell::new(POSITION_END),
            syncs_running: Cell::new(0),
        }
    }

    /// Makes reads compare pages with `flush_map`, and look into `meta_cache` first.
    pub(crate) fn compared_with(self, flush_map: FlushMap, meta_cache: Option<MetaCache>) -> CachedDatabase {
        CachedDatabase { flush_map: Some(flush_map), meta_cache, ..self }
    }

    /// Whether page `pgno`, which passed its check, is the version that was last written.
    fn is_newest(&self, pgno: u32, page: &PageBuf) -> bool {
        self.flush_map.as_ref().is_none_or(|map| !map.contradicts(pgno, dbtime(page, pgno, self.template_id)))
    }
}

/// Handle on the page cache of an instance.
#[derive(Clone)]
pub(crate) struct Cache(Rc<Inner>);

struct Inner {
    world: World,
    poison: Poison,
    page_bytes: usize,
    flush_start: f64,
    flush_stop: f64,
    /// Number of free frames below which the scavenger starts.
    scavenge_start: Cell<usize>,
    /// Number of free frames at which the scavenger stops.
    scavenge_stop: Cell<usize>,
    log: RefCell<Option<Log>>,
    frames: RefCell<Frames>,
    databases: RefCell<Vec<Option<Rc<CachedDatabase>>>>,
    /// State of redo, while it runs.
    redo: Cell<Option<RedoFor>>,
    awaited: awaited::Awaited,
    /// Notified when a frame becomes free.
    freed: Notify,
    /// Wakes the scavenger when free frames are short.
    scavenge: Notify,
    /// Notified when a page write ends.
    written: Notify,
    writes_running: Cell<usize>,
    /// Number of frames that become free when the write of their page ends.
    leaving: Cell<usize>,
    stalls: Cell<u64>,
    small_cache_stalls: Cell<u64>,
    /// Buffer for the encoding of a page.
    scratch: RefCell<Vec<u8>>,
}

/// Pages that an operation holds; released when dropped.
pub(crate) struct Pins {
    cache: Cache,
    frames: SmallVec<[u32; 8]>,
    /// Pages that were read for the operation.
    pub(crate) reads: PageReads,
}

/// Number of pages that were read, by where from. Pages that another operation was reading count there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageReads {
    /// From the database file.
    pub from_file: u64,
    /// From the MetaCache.
    pub from_meta_cache: u64,
}

impl PageReads {
    /// Adds other reads.
    pub fn add(&mut self, other: PageReads) {
        self.from_file += other.from_file;
        self.from_meta_cache += other.from_meta_cache;
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let frames = &mut *self.cache.0.frames.borrow_mut();
        self.frames.iter().for_each(|frame| frames.unpin(*frame));
        self.cache.pack_idle(frames);
    }
}

impl Cache {
    pub(crate) fn new(world: &World, poison: &Poison, config: &InstanceConfig) -> Cache {
        let inner = Inner {
            world: world.clone(),
            poison: poison.clone(),
            page_bytes: config.page_bytes,
            flush_start: config.flush_start,
            flush_stop: config.flush_stop,
            scavenge_start: Cell::default(),
            scavenge_stop: Cell::default(),
            log: RefCell::new(None),
            frames: RefCell::new(Frames::new(FRAMES_MIN, config.page_bytes)),
            databases: RefCell::new(Vec::new()),
            redo: Cell::new(None),
            awaited: awaited::Awaited::default(),
            freed: Notify::new(),
            scavenge: Notify::new(),
            written: Notify::new(),
            writes_running: Cell::new(0),
            leaving: Cell::new(0),
            stalls: Cell::new(0),
            small_cache_stalls: Cell::new(0),
            scratch: RefCell::default(),
        };
        let cache = Cache(Rc::new(inner));
        for notify in [&cache.0.freed, &cache.0.scavenge, &cache.0.written, &cache.0.awaited.replaced] {
            poison.wake_on_failure(notify);
        }
        cache.set_thresholds(FRAMES_MIN);
        cache
    }

    /// Sets the log that must be durable before pages are written.
    pub(crate) fn set_log(&self, log: Option<Log>) {
        *self.0.log.borrow_mut() = log;
    }

    /// Notes that redo begins or has ended. Meanwhile pages that fail their check are kept, to be repaired from the
    /// log.
    pub(crate) fn set_redo(&self, redo: Option<RedoFor>) {
        if redo == Some(RedoFor::Worker) {
            self.0.frames.borrow_mut().count_pending_by_size();
        }
        self.0.redo.set(redo);
    }

    /// Failure state of the instance.
    pub(crate) fn poison(&self) -> &Poison {
        &self.0.poison
    }

    /// Adds a database with its share of memory.
    pub(crate) fn attach(&self, db: u8, database: CachedDatabase, bytes: u64) {
        let mut databases = self.0.databases.borrow_mut();
        if databases.len() <= usize::from(db) {
            databases.resize_with(usize::from(db) + 1, || None);
        }
        let mut frames = self.0.frames.borrow_mut();
        if database.packs_pages {
            frames.keep_few_ready();
        }
        frames.grow_capacity((bytes / self.0.page_bytes as u64) as usize);
        self.set_thresholds(frames.capacity());
        databases[usize::from(db)] = Some(Rc::new(database));
    }

    pub(crate) fn database(&self, db: u8) -> Result<Rc<CachedDatabase>> {
        let databases = self.0.databases.borrow();
        let found = databases.get(usize::from(db)).and_then(Option::clone);
        found.ok_or_else(|| Error::Refused(format!("database {db} is not attached")))
    }

    pub(crate) fn status(&self) -> CacheStatus {
        let frames = self.0.frames.borrow();
        let bytes = |pages: usize| pages as u64 * self.0.page_bytes as u64;
        CacheStatus {
            resident_bytes: bytes(frames.occupied()),
            capacity_bytes: bytes(frames.capacity()),
            dirty_pages: frames.dirty_count() as u64,
            page_fault_stalls: self.0.stalls.get(),
            small_cache_stalls: self.0.small_cache_stalls.get(),
        }
    }

    /// Number of pages that operations hold.
    pub(crate) fn pinned_pages(&self) -> usize {
        self.0.frames.borrow().pinned()
    }

    /// Largest number of pages in the cache.
    pub(crate) fn capacity(&self) -> usize {
        self.0.frames.borrow().capacity()
    }

    /// Oldest first change that the files may lack: of a page that is dirty, in flight, or not yet synced.
    pub(crate) fn oldest_not_durable(&self) -> LogPosition {
        let unwritten = self.0.frames.borrow_mut().oldest_unwritten();
        let databases = self.0.databases.borrow();
        let unsynced = databases.iter().flatten().map(|db| db.unsynced.get().min(db.syncing.get())).min();
        unwritten.min(unsynced.unwrap_or(POSITION_END))
    }

    /// Asserts that the files hold every change of every page, durably.
    pub(crate) fn assert_all_written(&self) {
        let oldest = self.oldest_not_durable();
        assert!(oldest == POSITION_END, "the files may lack changes from {oldest:?} on");
    }

    /// MetaCache of a database. Redo of an opening uses none: it is about what the file has.
    fn meta_cache<'a>(&self, database: &'a CachedDatabase) -> Option<&'a MetaCache> {
        let is_opening = matches!(self.0.redo.get(), Some(RedoFor::Opening | RedoFor::Worker));
        database.meta_cache.as_ref().filter(|_| !is_opening)
    }

    /// Whether the file may lack the present version of the page.
    pub(crate) fn is_unwritten(&self, key: PageKey) -> bool {
        let frames = self.0.frames.borrow();
        let frame = frames.find(key).map(|frame| frames.get(frame));
        frame.is_some_and(|frame| frame.is_dirty() || frame.writing)
    }

    fn set_thresholds(&self, capacity: usize) {
        let share = |share: f64| ((capacity as f64 * share) as usize).max(4);
        self.0.scavenge_start.set(share(self.0.flush_start));
        self.0.scavenge_stop.set(share(self.0.flush_stop));
    }
}

//! The MetaCache of a database: copies of its pages in slots of a file on another, faster volume.
//!
//! Invariants
//! 1. A page from a slot is used only if it passes the check of a database page with its number, and has the version
//!    that the database file was last given. At any doubt the database file is read.
//! 2. While a page is written to the database file or to its slot, no slot counts as its copy.
//! 3. Memory alone knows which slot holds which page. The directory that a closed database leaves behind is used if it
//!    names the position at which the database was closed; after any other end the cache begins empty.
//! 4. A failed I/O takes the cache out of use until the next opening, and does nothing to the database.
//!
//! Limits: a page is admitted when it is read or written for the second time; the slot whose turn it is loses its
//! page. 50 bytes of memory for each slot in use.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use edb::header::DatabaseHeader;
use edb::meta_cache::{Entry, Epoch, HEAD_BYTES, bytes_needed, encode, entries};
use futures_util::future::join_all;
use results::IoClass;
use smallvec::{SmallVec, smallvec};
use world::{FixedHashMap, FixedHashSet, OpenMode, PageBuf, World};

use crate::config::{DatabaseConfig, MetaCacheConfig};
use crate::error::Result;
use crate::io::{Counters, IoFile};
use crate::judge::{Finding, dbtime, judge};
use crate::signal::StopSignal;

/// Size of a read or write of the directory, bytes.
const DIRECTORY_IO_BYTES: usize = 1 << 20;

/// State of a MetaCache, with the names of Exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetaCacheState {
    /// The database has none.
    Disabled,
    /// Its volume failed or was taken away.
    StorageOffline,
    /// Its file could not be opened.
    Offline,
    /// It still has slots without a page.
    Initializing,
    /// All slots were filled.
    Healthy,
}

impl MetaCacheState {
    /// The state in words.
    pub fn words(self) -> &'static str {
        match self {
            MetaCacheState::Disabled => "disabled",
            MetaCacheState::StorageOffline => "storage offline",
            MetaCacheState::Offline => "offline",
            MetaCacheState::Initializing => "initializing",
            MetaCacheState::Healthy => "healthy",
        }
    }
}

/// Open MetaCache. Clones share it.
#[derive(Clone)]
pub(crate) struct MetaCache(Rc<Inner>);

struct Inner {
    /// File; `None` if it could not be opened.
    file: Option<IoFile>,
    page_bytes: usize,
    template_id: Option<u64>,
    taken_away: StopSignal,
    has_failed: Cell<bool>,
    slots: RefCell<Slots>,
}

/// Slot of a page.
struct Place {
    slot: u32,
    /// Dbtime of the page in the slot; `None` while it is being written.
    dbtime: Option<u64>,
    /// Whether the page has changed since the write began, so that what is being written is out of date.
    is_outdated: bool,
}

struct Slots {
    capacity: u32,
    /// Page of each slot that was ever used; 0: none.
    pages: Vec<u32>,
    places: FixedHashMap<u32, Place>,
    /// Slots without a page among those that were used.
    free: Vec<u32>,
    /// Slot that is the next to lose its page.
    hand: u32,
    /// Pages that were read or written once.
    seen: FixedHashSet<u32>,
}

/// Pages of a write that have slots.
pub(crate) type Reserved = SmallVec<[(u32, u32); 1]>;

impl Slots {
    fn new(capacity: u32) -> Slots {
        Slots {
            capacity,
            pages: Vec::new(),
            places: FixedHashMap::default(),
            free: Vec::new(),
            hand: 0,
            seen: FixedHashSet::default(),
        }
    }

    /// Slot for a page that is about to be written, which then has no valid copy; `None` if it is not to have one.
    fn reserve(&mut self, pgno: u32) -> Option<u32> {
        if let Some(place) = self.places.get_mut(&pgno) {
            place.is_outdated = place.dbtime.take().is_none();
            return (!place.is_outdated).then_some(place.slot);
        }
        if !self.seen.remove(&pgno) {
            if self.seen.len() >= self.capacity as usize {
                self.seen.clear();
            }
            self.seen.insert(pgno);
            return None;
        }
        let slot = self.free_slot()?;
        self.occupy(slot, pgno, None);
        Some(slot)
    }

    fn occupy(&mut self, slot: u32, pgno: u32, dbtime: Option<u64>) {
        self.pages.resize(self.pages.len().max(slot as usize + 1), 0);
        self.pages[slot as usize] = pgno;
        self.places.insert(pgno, Place { slot, dbtime, is_outdated: false });
    }

    /// A slot that is free, never used, or taken from another page. `None` if the next one is being written.
    fn free_slot(&mut self) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        if (self.pages.len() as u32) < self.capacity {
            return Some(self.pages.len() as u32);
        }
        let slot = self.hand;
        self.hand = (slot + 1) % self.capacity;
        let page = self.pages[slot as usize];
        self.places.get(&page)?.dbtime?;
        self.places.remove(&page);
        Some(slot)
    }

    /// Notes the end of a write to a slot; `dbtime`: that of the page, if it is there now.
    fn settle(&mut self, pgno: u32, dbtime: Option<u64>) {
        let Some(place) = self.places.get_mut(&pgno) else { return };
        match dbtime.filter(|_| !place.is_outdated) {
            Some(dbtime) => place.dbtime = Some(dbtime),
            None => self.forget(pgno),
        }
    }

    fn forget(&mut self, pgno: u32) {
        if let Some(place) = self.places.remove(&pgno) {
            self.pages[place.slot as usize] = 0;
            self.free.push(place.slot);
        }
    }

    /// Forgets pages behind page `last`. A slot that is being written is free when that ends.
    fn forget_behind(&mut self, last: u32) {
        let behind: Vec<u32> = self.pages.iter().copied().filter(|pgno| *pgno > last).collect();
        for pgno in behind {
            match self.places.get_mut(&pgno) {
                Some(place) if place.dbtime.is_none() => place.is_outdated = true,
                _ => self.forget(pgno),
            }
        }
    }
}

impl MetaCache {
    /// Opens the MetaCache of the database with this header, if it is to have one. It begins empty, unless both were
    /// closed together.
    pub(crate) async fn open(
        world: &World,
        database: &DatabaseConfig,
        header: &DatabaseHeader,
        page_bytes: usize,
    ) -> Option<MetaCache> {
        let MetaCacheConfig { path, bytes, taken_away } = database.meta_cache.clone()?;
        let slot_bytes = (page_bytes + size_of::<Entry>()) as u64;
        let capacity = (bytes.saturating_sub(HEAD_BYTES as u64) / slot_bytes) as u32;
        let file = match taken_away.is_stopped() || capacity == 0 {
            true => None,
            false => open_file(world, &path, &database.counters).await.ok(),
        };
        if let Some(file) = &file {
            file.file().keep_like(&database.path);
        }
        let cache = MetaCache(Rc::new(Inner {
            file,
            page_bytes,
            template_id: database.template_id,
            taken_away,
            has_failed: Cell::new(false),
            slots: RefCell::new(Slots::new(capacity)),
        }));
        let epoch = Epoch::of(header);
        if epoch.is_some() || planted!(CacheOfOtherEpochTaken) {
            cache.take_over(epoch.filter(|_| !planted!(CacheOfOtherEpochTaken))).await;
        }
        Some(cache)
    }

    /// State of the cache.
    pub(crate) fn state(&self) -> MetaCacheState {
        let slots = self.0.slots.borrow();
        match (&self.0.file, self.file()) {
            (None, _) => MetaCacheState::Offline,
            (_, None) => MetaCacheState::StorageOffline,
            _ if (slots.pages.len() as u32) < slots.capacity => MetaCacheState::Initializing,
            _ => MetaCacheState::Healthy,
        }
    }

    /// File, unless it is out of use.
    fn file(&self) -> Option<&IoFile> {
        let is_out = self.0.has_failed.get() || self.0.taken_away.is_stopped();
        self.0.file.as_ref().filter(|_| !is_out)
    }

    /// Result of an I/O; a failed one takes the cache out of use.
    fn succeeded<T>(&self, result: Result<T>) -> Option<T> {
        if result.is_err() {
            self.0.has_failed.set(true);
            let mut slots = self.0.slots.borrow_mut();
            *slots = Slots::new(slots.capacity);
        }
        result.ok()
    }

    fn offset(&self, slot: u32) -> u64 {
        u64::from(slot) * self.0.page_bytes as u64
    }

    /// Reads the newest version of a page, if the cache has it.
    pub(crate) async fn read(&self, pgno: u32) -> Option<PageBuf> {
        let Inner { page_bytes, template_id, slots, .. } = &*self.0;
        let file = self.file()?;
        let (slot, written) =
            slots.borrow().places.get(&pgno).and_then(|place| Some((place.slot, place.dbtime?)))?;
        let read = file.read_one(IoClass::MetaCacheRead, self.offset(slot), *page_bytes).await;
        let page = self.succeeded(read)?;
        let is_whole =
            planted!(TornCachePageTaken) || judge(&page, u64::from(pgno) + 1, *template_id) == Finding::Good;
        let is_newest = || planted!(StaleCachePageTaken) || dbtime(&page, pgno, *template_id) == written;
        if is_whole && is_newest() {
            return Some(page);
        }
        slots.borrow_mut().forget(pgno);
        None
    }

    /// Slot for a page that was read from the database file; `None` if the page is not to be admitted, or is there.
    pub(crate) fn admit(&self, pgno: u32) -> Reserved {
        let is_there = self.0.slots.borrow().places.contains_key(&pgno);
        if is_there { Reserved::new() } else { self.reserve(pgno, 1) }
    }

    /// Takes the pages from `first` on, which are about to be written to the database file, out of the cache. Those
    /// returned are to be [written](Self::write) to their slots.
    pub(crate) fn reserve(&self, first: u32, pages: usize) -> Reserved {
        if self.file().is_none() {
            return Reserved::new();
        }
        let mut slots = self.0.slots.borrow_mut();
        (first..).take(pages).filter_map(|pgno| Some((pgno, slots.reserve(pgno)?))).collect()
    }

    /// Writes pages to their slots. `page`: the page of a number as it was written to the database file; `None` if that
    /// failed.
    pub(crate) async fn write(&self, reserved: Reserved, page: impl Fn(u32) -> Option<PageBuf>) {
        let write = async |(pgno, slot)| {
            let (Some(page), Some(file)) = (page(pgno), self.file()) else {
                return self.0.slots.borrow_mut().settle(pgno, None);
            };
            let is_good = judge(&page, u64::from(pgno) + 1, self.0.template_id) == Finding::Good;
            let dbtime = is_good.then(|| dbtime(&page, pgno, self.0.template_id));
            let written = match dbtime {
                Some(_) => file.write(IoClass::MetaCacheWrite, self.offset(slot), smallvec![page]).await,
                None => Ok(()),
            };
            let is_written = self.succeeded(written).is_some();
            self.0.slots.borrow_mut().settle(pgno, dbtime.filter(|_| is_written));
        };
        join_all(reserved.into_iter().map(write)).await;
    }

    /// Forgets pages behind page `last`, where the database file was cut.
    pub(crate) fn forget_behind(&self, last: u32) {
        self.0.slots.borrow_mut().forget_behind(last);
    }

    /// Leaves the directory of a database that is about to be closed at this epoch.
    pub(crate) async fn leave(&self, epoch: Epoch) {
        let Some(file) = self.file() else { return };
        let bytes = {
            let slots = self.0.slots.borrow();
            let entry = |(slot, pgno): (u32, &u32)| {
                let dbtime = slots.places.get(pgno)?.dbtime?;
                Some(Entry { slot, pgno: *pgno, dbtime })
            };
            encode(epoch, &(0..).zip(&slots.pages).filter_map(entry).collect::<Vec<_>>())
        };
        let offset = self.offset(self.0.slots.borrow().capacity);
        let written = async {
            // A slot that a directory names is durable before the directory is.
            file.sync().await?;
            for (piece, at) in bytes.chunks(DIRECTORY_IO_BYTES).zip((offset..).step_by(DIRECTORY_IO_BYTES)) {
                file.write(IoClass::MetaCacheWrite, at, smallvec![PageBuf::copy_of(piece)]).await?;
            }
            file.sync().await
        };
        self.succeeded(written.await);
    }

    /// Takes over the slots that the directory of this epoch names.
    async fn take_over(&self, epoch: Option<Epoch>) {
        let Some(file) = self.file() else { return };
        let capacity = self.0.slots.borrow().capacity;
        let read = async {
            let (mut bytes, mut needed) = (Vec::new(), HEAD_BYTES);
            while bytes.len() < needed {
                let at = self.offset(capacity) + bytes.len() as u64;
                let len = DIRECTORY_IO_BYTES.min(needed - bytes.len());
                match file.read_one(IoClass::MetaCacheRead, at, len).await {
                    Err(error) if error.is_short_read() => return Ok(None),
                    page => bytes.extend_from_slice(page?.as_slice()),
                }
                let largest = HEAD_BYTES + capacity as usize * size_of::<Entry>();
                match bytes_needed(&bytes).filter(|bytes| *bytes <= largest.next_multiple_of(HEAD_BYTES)) {
                    Some(bytes) => needed = bytes,
                    None => return Ok(None),
                }
            }
            Ok(entries(&bytes, epoch))
        };
        let found = self.succeeded(read.await).flatten().unwrap_or_default();
        let mut slots = self.0.slots.borrow_mut();
        for Entry { slot, pgno, dbtime } in found.into_iter().filter(|entry| entry.slot < capacity) {
            slots.occupy(slot, pgno, Some(dbtime));
        }
        let unused: Vec<u32> =
            (0..).zip(&slots.pages).filter(|(_, pgno)| **pgno == 0).map(|(slot, _)| slot).collect();
        slots.free = unused;
    }
}

async fn open_file(world: &World, path: &str, counters: &Counters) -> Result<IoFile> {
    let exists = world.entry(path).await?.is_some();
    let mode = if exists { OpenMode::ReadWrite } else { OpenMode::CreateNew };
    IoFile::open(world, path, mode, counters).await
}

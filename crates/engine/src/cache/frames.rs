//! The frames of the page cache: which page lies where, what is dirty since when, who may go.
//!
//! Pure state: no I/O, no waiting. Replacement is LRU-2 with a correlation interval, by sampling: of a few frames
//! drawn at random the one whose second-last use is longest ago goes. That needs no list to be kept in order on every
//! access, and pages used again and again (branches, hot leaves) practically never are the oldest of a sample.
//!
//! Where files pack pages ([`world::HostFile::pack`]), those that were not used recently are packed, so that a
//! cache of many pages costs the memory of few. Those in use are kept in a queue by their last use, second
//! chance.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use world::FixedHashMap;
use world::sync::Notify;

use super::FRAME_BYTES;
use super::page::{CachedPage, SparePages};
use super::pending_redo::{PendingPages, PendingRedo};
use crate::log::{LogPosition, POSITION_END};
use crate::page_table::PageTable;

/// Uses of a page that are closer together than this count as one, ns.
const CORRELATION_NS: u64 = 128_000_000;
/// Number of frames examined per eviction.
const SAMPLE: usize = 16;
/// Share of a cache's pages that stay unpacked, where idle pages are packed.
const READY_SHARE: usize = 16;

/// Identity of a page: database and page number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PageKey {
    pub(crate) db: u8,
    pub(crate) pgno: u32,
}

/// Content of a frame.
///
/// ```text
/// a read:     Arriving -> Page, or Awaited (another copy gives the page) -> free
/// redo:       Arriving -> Page | InFile | Damaged
///             any of them -> Deferred (the log has the page whole) -> Page | InFile
///             InFile -> free, as soon as an operation needs the bytes
/// ```
pub(crate) enum Content {
    /// Free frame.
    Nothing,
    /// The page is being read.
    Arriving,
    /// The page failed its check and waits for a replacement from another copy.
    Awaited,
    /// Page that was verified or formatted.
    Page(CachedPage),
    /// Page that failed its check; only recovery keeps it, to repair it.
    Damaged(CachedPage),
    /// Changes from the log to a page that redo has not applied yet.
    Deferred(Box<PendingRedo>),
    /// Version and digest of a page that redo has read, or that equals what redo would make of it.
    InFile(Box<PendingRedo>),
}

/// Frame of the cache. It fits into one cache line of the processor, so an access waits for memory once.
#[repr(align(64))]
pub(crate) struct Frame {
    db: u8,
    pgno: u32,
    pub(crate) content: Content,
    pub(crate) pins: u32,
    /// Log position from which changes may be missing in the file; `END` if clean.
    pub(crate) first_dirty: LogPosition,
    /// Log position behind the last change; the log must be durable to here before the page is written.
    pub(crate) last_change: LogPosition,
    /// Whether a copy of the page is being written to the file.
    pub(crate) writing: bool,
    /// Whether the frame is to be freed when the write is done.
    pub(crate) leaving: bool,
    /// Whether the page's header is already that of its next write.
    pub(crate) is_prepared: bool,
    /// Whether the frame is in the queue of unpacked pages.
    is_ready: Cell<bool>,
    pub(crate) arrival: Option<Notify>,
}

const _: () = assert!(size_of::<Frame>() == FRAME_BYTES);

impl Frame {
    fn empty() -> Frame {
        Frame {
            db: 0,
            pgno: 0,
            content: Content::Nothing,
            pins: 0,
            first_dirty: POSITION_END,
            last_change: LogPosition::default(),
            writing: false,
            leaving: false,
            is_prepared: false,
            is_ready: Cell::new(false),
            arrival: None,
        }
    }

    pub(crate) fn key(&self) -> PageKey {
        PageKey { db: self.db, pgno: self.pgno }
    }

    pub(crate) fn is_dirty(&self) -> bool {
        self.first_dirty != POSITION_END
    }

    /// Page of the frame, if it is in memory and verified.
    #[inline]
    pub(crate) fn page(&self) -> Option<&CachedPage> {
        if let Content::Page(page) = &self.content { Some(page) } else { None }
    }

    /// See [`Frame::page`].
    #[inline]
    pub(crate) fn page_mut(&mut self) -> Option<&mut CachedPage> {
        if let Content::Page(page) = &mut self.content { Some(page) } else { None }
    }

    /// Page of the frame; an empty one if there is none.
    #[inline]
    pub(crate) fn page_or_empty(&mut self, page_bytes: usize) -> &mut CachedPage {
        if self.page().is_none() {
            self.content = Content::Page(CachedPage::empty(page_bytes));
        }
        self.page_mut().expect("it was just put there")
    }

    fn may_leave(&self) -> bool {
        let has_arrived = !matches!(self.content, Content::Nothing | Content::Arriving | Content::Awaited);
        self.pins == 0 && !self.writing && has_arrived
    }
}

/// Times of the last two uses of a frame's page.
#[derive(Default)]
struct Uses {
    last_ns: Cell<u64>,
    second_last_ns: Cell<u64>,
}

impl Uses {
    fn touch(&self, now_ns: u64) {
        let last_ns = self.last_ns.replace(now_ns);
        if now_ns.saturating_sub(last_ns) > CORRELATION_NS {
            self.second_last_ns.set(last_ns);
        }
    }

    /// Marks a page that was read ahead as used twice, because its reader will use it. Marked as used once, it would
    /// be evicted before all pages that have served their purpose.
    fn expect_use(&self, now_ns: u64) {
        self.last_ns.set(now_ns);
        self.second_last_ns.set(now_ns);
    }

    /// Rank for eviction: frames with smaller values leave first.
    fn rank(&self) -> (u64, u64) {
        (self.second_last_ns.get(), self.last_ns.get())
    }
}

/// Frames of an instance.
pub(crate) struct Frames {
    page_bytes: usize,
    frames: Vec<Frame>,
    /// Use times of each frame, in a separate list so that eviction reads little memory.
    uses: Vec<Uses>,
    free: Vec<u32>,
    /// Page table of each database, by its number.
    tables: Vec<PageTable>,
    capacity: usize,
    /// Dirty pages by their first change. Entries of pages that were written meanwhile are stale.
    dirty: VecDeque<(LogPosition, u32)>,
    dirty_count: usize,
    /// First changes of pages that are being written, by frame.
    in_flight: FixedHashMap<u32, LogPosition>,
    random: u64,
    pub(super) spare: SparePages,
    /// Memory of pages without bytes; `None` if each counts as a whole page.
    pub(super) pending: Option<PendingPages>,
    /// Frames with unpacked pages, with their last use when queued; `None` if pages are not packed. Entries of freed
    /// frames are stale.
    ready: Option<RefCell<VecDeque<(u32, u64)>>>,
}

impl Frames {
    pub(crate) fn new(capacity: usize, page_bytes: usize) -> Frames {
        Frames {
            page_bytes,
            frames: Vec::new(),
            uses: Vec::new(),
            free: Vec::new(),
            tables: Vec::new(),
            capacity,
            dirty: VecDeque::new(),
            dirty_count: 0,
            in_flight: FixedHashMap::default(),
            random: 0x9E37_79B9_7F4A_7C15,
            spare: SparePages::default(),
            pending: None,
            ready: None,
        }
    }

    /// Starts packing of idle pages.
    pub(crate) fn keep_few_ready(&mut self) {
        self.ready.get_or_insert_default();
    }

    /// Marks the page in `frame` as used.
    #[inline]
    pub(crate) fn touch(&self, frame: u32, now_ns: u64) {
        // Most uses follow others at the same time, which have changed all there is to change.
        if self.uses_of(frame).last_ns.get() != now_ns {
            self.touch_new(frame, now_ns);
        }
    }

    /// Marks the frame as recently used and updates its memory count after a read or a change.
    #[inline(never)]
    pub(crate) fn touch_new(&self, frame: u32, now_ns: u64) {
        self.uses_of(frame).touch(now_ns);
        self.is_ready_from(frame, now_ns);
    }

    /// Marks the page in `frame` as read ahead.
    pub(crate) fn expect_use(&self, frame: u32, now_ns: u64) {
        self.uses_of(frame).expect_use(now_ns);
        self.is_ready_from(frame, now_ns);
    }

    fn is_ready_from(&self, frame: u32, now_ns: u64) {
        let slot = self.get(frame);
        // A page without bytes needs no packing: its edits are small.
        if let Some(ready) = &self.ready
            && matches!(
                slot.content,
                Content::Page(CachedPage::Buf(_)) | Content::Damaged(CachedPage::Buf(_))
            )
            && !slot.is_ready.replace(true)
        {
            ready.borrow_mut().push_back((frame, now_ns));
        }
    }

    /// Returns an unpacked, idle page, if there are more unpacked pages than allowed.
    pub(crate) fn next_to_pack(&mut self) -> Option<u32> {
        let ready = self.ready.as_mut()?.get_mut();
        let limit = self.capacity / READY_SHARE;
        for _ in 0..ready.len() {
            if ready.len() <= limit {
                break;
            }
            let (frame, queued_ns) = ready.pop_front()?;
            let slot = &self.frames[frame as usize];
            if !slot.is_ready.get() {
                continue;
            }
            let last_ns = self.uses[frame as usize].last_ns.get();
            if last_ns != queued_ns || slot.pins > 0 {
                ready.push_back((frame, last_ns));
                continue;
            }
            slot.is_ready.set(false);
            if slot.page().is_some() {
                return Some(frame);
            }
        }
        None
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn grow_capacity(&mut self, frames: usize) {
        self.capacity += frames;
    }

    /// Number of frames that hold or await a page.
    pub(crate) fn occupied(&self) -> usize {
        self.frames.len() - self.free.len()
    }

    /// Number of frames that a page could take now.
    pub(crate) fn available(&self) -> usize {
        let (pending, pending_bytes) = self.pending.as_ref().map_or((0, 0), PendingPages::size);
        let pages = self.occupied() - pending + pending_bytes.div_ceil(self.page_bytes);
        self.capacity.saturating_sub(pages)
    }

    /// Counts pages without bytes by the memory that they take, from now on.
    pub(crate) fn count_pending_by_size(&mut self) {
        self.pending.get_or_insert_default();
    }

    /// Notes that an operation no longer holds the page.
    pub(crate) fn unpin(&mut self, frame: u32) {
        let slot = self.get_mut(frame);
        assert!(slot.pins > 0, "nobody holds the page");
        slot.pins -= 1;
    }

    /// Number of frames whose pages operations hold.
    pub(crate) fn pinned(&self) -> usize {
        self.frames.iter().filter(|slot| slot.pins > 0).count()
    }

    /// Number of frames whose pages operations hold or are reading.
    pub(crate) fn in_use(&self) -> usize {
        let is_used = |slot: &&Frame| slot.pins > 0 || matches!(slot.content, Content::Arriving);
        self.frames.iter().filter(is_used).count()
    }

    pub(crate) fn dirty_count(&self) -> usize {
        self.dirty_count
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    #[inline]
    pub(crate) fn find(&self, key: PageKey) -> Option<u32> {
        self.tables.get(usize::from(key.db))?.find(key.pgno)
    }

    pub(crate) fn get(&self, frame: u32) -> &Frame {
        &self.frames[frame as usize]
    }

    fn uses_of(&self, frame: u32) -> &Uses {
        &self.uses[frame as usize]
    }

    pub(crate) fn get_mut(&mut self, frame: u32) -> &mut Frame {
        &mut self.frames[frame as usize]
    }

    /// Takes a free frame for a page. May exceed the capacity, because a change that needs a new page cannot wait
    /// between its log record and its application; the scavenger frees frames afterwards.
    pub(crate) fn occupy(&mut self, key: PageKey, content: Content) -> u32 {
        let frame = self.free.pop().unwrap_or_else(|| {
            self.frames.push(Frame::empty());
            self.uses.push(Uses::default());
            (self.frames.len() - 1) as u32
        });
        self.uses[frame as usize] = Uses::default();
        let PageKey { db, pgno } = key;
        *self.get_mut(frame) = Frame { db, pgno, content, ..Frame::empty() };
        if self.tables.len() <= usize::from(db) {
            self.tables.resize_with(usize::from(db) + 1, PageTable::default);
        }
        self.tables[usize::from(db)].insert(pgno, frame);
        frame
    }

    /// Frees a frame.
    pub(crate) fn release(&mut self, frame: u32) {
        let slot = self.get_mut(frame);
        assert!(!slot.is_dirty() && !slot.writing && slot.pins == 0, "a page that is needed leaves memory");
        let PageKey { db, pgno } = slot.key();
        let left = std::mem::replace(slot, Frame::empty());
        if let Content::Page(page) | Content::Damaged(page) = left.content {
            self.spare.keep(page);
        }
        self.tables[usize::from(db)].remove(pgno);
        self.free.push(frame);
    }

    /// Notes that the record at `start..end` changed the page in `frame`.
    pub(crate) fn mark_changed(&mut self, frame: u32, start: LogPosition, end: LogPosition) {
        let slot = &mut self.frames[frame as usize];
        assert!(start <= end && slot.last_change <= end, "changes come in the order of the log");
        slot.last_change = end;
        if !slot.is_dirty() {
            let newest = self.dirty.back();
            assert!(
                newest.is_none_or(|(first, _)| *first <= start),
                "pages become dirty in the order of the log"
            );
            slot.first_dirty = start;
            self.dirty.push_back((start, frame));
            self.dirty_count += 1;
        }
    }

    /// Notes that the page in `frame` equals the file, so there is nothing to write.
    pub(crate) fn mark_clean(&mut self, frame: u32) {
        let slot = &mut self.frames[frame as usize];
        if slot.is_dirty() {
            slot.first_dirty = POSITION_END;
            self.dirty_count -= 1;
        }
    }

    /// Number of pages whose bytes redo has not made, or not kept.
    pub(crate) fn without_bytes(&self) -> impl Iterator<Item = PageKey> {
        let has_no_bytes = |slot: &&Frame| matches!(slot.content, Content::Deferred(_) | Content::InFile(_));
        self.frames.iter().filter(has_no_bytes).map(Frame::key)
    }

    /// Notes that the page was copied for a write: it counts as in flight from its first change on.
    pub(crate) fn begin_write(&mut self, frame: u32) -> LogPosition {
        let slot = &mut self.frames[frame as usize];
        let first = std::mem::replace(&mut slot.first_dirty, POSITION_END);
        assert!(first != POSITION_END && !slot.writing, "a dirty page is written, and once at a time");
        slot.writing = true;
        self.dirty_count -= 1;
        self.in_flight.insert(frame, first);
        first
    }

    /// Notes that the write is done. Returns whether the frame was freed.
    pub(crate) fn end_write(&mut self, frame: u32, first_dirty: LogPosition) -> bool {
        let begun = self.in_flight.remove(&frame);
        assert!(begun == Some(first_dirty), "a write ends that nobody has begun");
        let slot = self.get_mut(frame);
        slot.writing = false;
        let leaves = std::mem::take(&mut slot.leaving) && slot.pins == 0 && !slot.is_dirty();
        if leaves {
            self.release(frame);
        }
        leaves
    }

    /// Dirty page with the oldest first change.
    pub(crate) fn oldest_dirty(&mut self) -> Option<(LogPosition, u32)> {
        while let Some(&(position, frame)) = self.dirty.front() {
            if self.frames[frame as usize].first_dirty == position {
                return Some((position, frame));
            }
            self.dirty.pop_front();
        }
        None
    }

    /// Oldest first change of a page that is dirty or being written.
    pub(crate) fn oldest_unwritten(&mut self) -> LogPosition {
        let dirty = self.oldest_dirty().map_or(POSITION_END, |(position, _)| position);
        let writing = self.in_flight.values().copied().min().unwrap_or(POSITION_END);
        dirty.min(writing)
    }

    /// Selects a frame to free, by LRU-2 over a random sample; `None` if the sample had none that may leave.
    pub(crate) fn pick_victim(&mut self) -> Option<u32> {
        // All of them first: they lie far apart, and so the processor waits for memory once and not for each.
        let mut sample = [(0, (0, 0)); SAMPLE];
        for drawn in &mut sample {
            let frame = draw(&mut self.random, self.uses.len());
            *drawn = (frame, self.uses_of(frame).rank());
        }
        let (mut victim, mut lowest) = (None, (u64::MAX, u64::MAX));
        for (frame, rank) in &sample {
            if *rank < lowest && self.get(*frame).may_leave() {
                (victim, lowest) = (Some(*frame), *rank);
            }
        }
        victim
    }

    /// Dirty, writable pages around the one in `frame`, adjacent in the file, at most `limit`.
    pub(crate) fn dirty_run(&self, frame: u32, limit: usize) -> std::ops::RangeInclusive<u32> {
        let key = self.get(frame).key();
        let joins = |pgno: u32| {
            self.find(PageKey { pgno, ..key }).is_some_and(|f| self.get(f).is_dirty() && !self.get(f).writing)
        };
        let (mut first, mut last) = (key.pgno, key.pgno);
        while ((last - first) as usize) + 1 < limit && joins(last + 1) {
            last += 1;
        }
        while ((last - first) as usize) + 1 < limit && first > 1 && joins(first - 1) {
            first -= 1;
        }
        first..=last
    }
}

/// Draws a number below `limit`.
#[inline]
fn draw(state: &mut u64, limit: usize) -> u32 {
    // xorshift64*: replacement needs no better, and the same seed gives the same evictions.
    let mut random = *state;
    random ^= random >> 12;
    random ^= random << 25;
    random ^= random >> 27;
    *state = random;
    let high = random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
    ((high * limit as u64) >> 32) as u32
}

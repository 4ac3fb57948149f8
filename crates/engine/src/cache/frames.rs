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
use super::unmade::{Unmade, UnmadePages};
use crate::log::{LogPosition, POSITION_END};
use crate::page_table::PageTable;

/// Uses closer together than this count as one.
const CORRELATION_NS: u64 = 128_000_000;
/// Frames looked at per eviction.
const SAMPLE: usize = 16;
/// Of the pages that a cache may hold, the share that is kept ready for use where others are packed.
const READY_SHARE: usize = 16;

/// A page of one of the instance's databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PageKey {
    pub(crate) db: u8,
    pub(crate) pgno: u32,
}

/// What a frame has of its page.
///
/// ```text
/// a read:     Arriving -> Page, or Awaited (another copy gives the page) -> free
/// redo:       Arriving -> Page | InFile | Damaged
///             any of them -> Deferred (the log has the page whole) -> Page | InFile
///             InFile -> free, as soon as an operation needs the bytes
/// ```
pub(crate) enum Content {
    /// The frame is free.
    Nothing,
    /// The page is being read.
    Arriving,
    /// The page failed its check, and another copy is to give it.
    Awaited,
    /// The page, verified or made.
    Page(CachedPage),
    /// A page that failed its check. Only recovery keeps one, to repair it.
    Damaged(CachedPage),
    /// What the log says of a page that redo has not made yet.
    Deferred(Box<Unmade>),
    /// Version and digest of a page that redo has read, or that the file holds just as redo would make it.
    InFile(Box<Unmade>),
}

/// One line of a processor's cache: who looks at a frame waits for memory once.
#[repr(align(64))]
pub(crate) struct Frame {
    db: u8,
    pgno: u32,
    pub(crate) content: Content,
    pub(crate) pins: u32,
    /// Where the log begins to hold changes that the file may lack; `END` if clean.
    pub(crate) first_dirty: LogPosition,
    /// Behind the last change; the log must be durable to here before the page is written.
    pub(crate) last_change: LogPosition,
    /// A copy of the page is on its way to the file.
    pub(crate) writing: bool,
    /// Free the frame when the write is done.
    pub(crate) leaving: bool,
    /// The page's header is already that of its next write.
    pub(crate) is_prepared: bool,
    /// The frame waits in the queue of those that are ready for use.
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

    /// The page, if it is here and verified.
    #[inline]
    pub(crate) fn page(&self) -> Option<&CachedPage> {
        if let Content::Page(page) = &self.content { Some(page) } else { None }
    }

    /// See [`Frame::page`].
    #[inline]
    pub(crate) fn page_mut(&mut self) -> Option<&mut CachedPage> {
        if let Content::Page(page) = &mut self.content { Some(page) } else { None }
    }

    /// The page; an empty one in the place of anything else.
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

/// When the page in a frame was used.
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

    /// A page that was read ahead counts as used twice, because the reader will use it. As one used once
    /// it would leave before every page that has served its purpose.
    fn expect_use(&self, now_ns: u64) {
        self.last_ns.set(now_ns);
        self.second_last_ns.set(now_ns);
    }

    /// Frames with smaller values leave first.
    fn rank(&self) -> (u64, u64) {
        (self.second_last_ns.get(), self.last_ns.get())
    }
}

/// All frames of an instance.
pub(crate) struct Frames {
    page_bytes: usize,
    frames: Vec<Frame>,
    /// Of each frame; apart, so that drawing frames to free looks at little memory.
    uses: Vec<Uses>,
    free: Vec<u32>,
    /// Of each database, by its number.
    tables: Vec<PageTable>,
    capacity: usize,
    /// Dirty pages in the order of their first change; entries of pages written meanwhile are stale.
    dirty: VecDeque<(LogPosition, u32)>,
    dirty_count: usize,
    /// First changes of pages that are being written, by frame.
    in_flight: FixedHashMap<u32, LogPosition>,
    random: u64,
    pub(super) spare: SparePages,
    /// Those without bytes; `None` where each counts as a whole page.
    pub(super) unmade: Option<UnmadePages>,
    /// Frames whose pages are ready for use, with their last use when they were queued; `None` where nothing is
    /// packed. Frames that were freed meanwhile are stale.
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
            unmade: None,
            ready: None,
        }
    }

    /// From now on pages that are not used are to be packed.
    pub(crate) fn keep_few_ready(&mut self) {
        self.ready.get_or_insert_default();
    }

    /// The page in `frame` is used.
    #[inline]
    pub(crate) fn touch(&self, frame: u32, now_ns: u64) {
        // Most uses follow others at the same time, which have changed all there is to change.
        if self.uses_of(frame).last_ns.get() != now_ns {
            self.touch_new(frame, now_ns);
        }
    }

    /// The page in `frame` has come or has changed: it is used, and may have bytes now.
    #[inline(never)]
    pub(crate) fn touch_new(&self, frame: u32, now_ns: u64) {
        self.uses_of(frame).touch(now_ns);
        self.is_ready_from(frame, now_ns);
    }

    /// The page in `frame` was read ahead.
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

    /// A page that is ready and was not used of late, if more are ready than shall be.
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

    /// Frames that hold or await a page.
    pub(crate) fn occupied(&self) -> usize {
        self.frames.len() - self.free.len()
    }

    /// Frames that a page could take now.
    pub(crate) fn available(&self) -> usize {
        let (unmade, unmade_bytes) = self.unmade.as_ref().map_or((0, 0), UnmadePages::size);
        let pages = self.occupied() - unmade + unmade_bytes.div_ceil(self.page_bytes);
        self.capacity.saturating_sub(pages)
    }

    /// From now on a page without bytes counts as the memory that it takes.
    pub(crate) fn count_unmade_by_size(&mut self) {
        self.unmade.get_or_insert_default();
    }

    /// An operation does not hold the page any more.
    pub(crate) fn unpin(&mut self, frame: u32) {
        let slot = self.get_mut(frame);
        assert!(slot.pins > 0, "nobody holds the page");
        slot.pins -= 1;
    }

    /// Frames whose pages operations hold.
    pub(crate) fn pinned(&self) -> usize {
        self.frames.iter().filter(|slot| slot.pins > 0).count()
    }

    /// Frames whose pages operations hold or are reading.
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

    /// Takes a frame for a page that is in none. Going over the capacity is allowed: a change that needs a new page
    /// cannot wait between its log record and its application; the scavenger makes up for it.
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

    /// Empties a frame.
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

    /// The page in `frame` has been changed by the record at `start..end`.
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

    /// The page in `frame` is what the file holds, so there is nothing to write.
    pub(crate) fn mark_clean(&mut self, frame: u32) {
        let slot = &mut self.frames[frame as usize];
        if slot.is_dirty() {
            slot.first_dirty = POSITION_END;
            self.dirty_count -= 1;
        }
    }

    /// Pages that redo has not made, or not kept.
    pub(crate) fn without_bytes(&self) -> impl Iterator<Item = PageKey> {
        let has_no_bytes = |slot: &&Frame| matches!(slot.content, Content::Deferred(_) | Content::InFile(_));
        self.frames.iter().filter(has_no_bytes).map(Frame::key)
    }

    /// The page is copied out to be written: it counts as in flight from its first change on.
    pub(crate) fn begin_write(&mut self, frame: u32) -> LogPosition {
        let slot = &mut self.frames[frame as usize];
        let first = std::mem::replace(&mut slot.first_dirty, POSITION_END);
        assert!(first != POSITION_END && !slot.writing, "a dirty page is written, and once at a time");
        slot.writing = true;
        self.dirty_count -= 1;
        self.in_flight.insert(frame, first);
        first
    }

    /// The write is done. Returns whether the frame was freed.
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

    /// The dirty page whose first change is the oldest.
    pub(crate) fn oldest_dirty(&mut self) -> Option<(LogPosition, u32)> {
        while let Some(&(position, frame)) = self.dirty.front() {
            if self.frames[frame as usize].first_dirty == position {
                return Some((position, frame));
            }
            self.dirty.pop_front();
        }
        None
    }

    /// The first change that is not yet written: dirty or in flight.
    pub(crate) fn oldest_unwritten(&mut self) -> LogPosition {
        let dirty = self.oldest_dirty().map_or(POSITION_END, |(position, _)| position);
        let writing = self.in_flight.values().copied().min().unwrap_or(POSITION_END);
        dirty.min(writing)
    }

    /// A frame to free, by LRU-2 over a random sample; `None` if the sample held nothing that may leave.
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

    /// The dirty, writable pages around the one in `frame`, adjacent in the file, at most `limit` of them.
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

/// The next number below `limit`.
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

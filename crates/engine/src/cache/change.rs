//! Reading and changing pages between two awaits.

use std::cell::Ref;

use btree::{MiniTransaction, Misfit, PageCoding, Pager, Redo, Stop};
use world::PageBuf;

use super::frames::{Frames, Holds, PageKey};
use super::{Cache, LogPosition, Pins};
use crate::error::Result;

/// The pages of one database, as operations read them. Nothing can change or leave while a view lives.
pub(crate) struct View<'a> {
    frames: Ref<'a, Frames>,
    db: u8,
    page_bytes: usize,
    now_ns: u64,
}

impl Pager for View<'_> {
    fn page(&self, pgno: u32) -> btree::Result<&[u8]> {
        let found = self.frames.find(PageKey { db: self.db, pgno }).map(|frame| self.frames.get(frame));
        match found {
            Some(frame) if frame.holds == Holds::Page => {
                frame.touch(self.now_ns);
                Ok(frame.page.as_ref().expect("a frame that holds a page has its bytes").as_unsealed_slice())
            }
            _ => Err(Stop::Missing(pgno)),
        }
    }

    fn page_bytes(&self) -> usize {
        self.page_bytes
    }
}

impl Cache {
    /// The pages of one database as they are now.
    pub(crate) fn view(&self, db: u8) -> View<'_> {
        let now_ns = self.0.world.now().ns;
        View { frames: self.0.frames.borrow(), db, page_bytes: self.0.page_bytes, now_ns }
    }

    /// Calls `log_image` with every page that `mini` makes dirty and whose old contents redo may need.
    pub(crate) fn images(&self, db: u8, mini: &MiniTransaction, mut log_image: impl FnMut(u32, &PageBuf)) {
        let frames = self.0.frames.borrow();
        for change in mini.changes.iter().filter(|change| !change.formats()) {
            let Some(frame) = frames.find(PageKey { db, pgno: change.pgno }) else { continue };
            let frame = frames.get(frame);
            if let (false, Some(page)) = (frame.is_dirty(), &frame.page) {
                log_image(change.pgno, page);
            }
        }
    }

    /// Makes the changes of a mini-transaction that the log holds at `start..end` (`start` includes the images).
    ///
    /// # Errors
    /// A change that does not fit its page; the instance cannot go on.
    pub(crate) fn apply(
        &self,
        db: u8,
        mini: &MiniTransaction,
        dbtime: u64,
        start: LogPosition,
        end: LogPosition,
    ) -> Result<(), Misfit> {
        let mut frames = self.0.frames.borrow_mut();
        let now_ns = self.0.world.now().ns;
        for change in &mini.changes {
            let key = PageKey { db, pgno: change.pgno };
            let frame = match frames.find(key) {
                Some(frame) => frame,
                None if change.formats() => frames.occupy(key, Holds::Page),
                None => return Err(Misfit { pgno: change.pgno, reason: "not in memory" }),
            };
            let slot = frames.get_mut(frame);
            let page = slot.page.get_or_insert_with(|| PageBuf::empty(self.0.page_bytes));
            change.apply(page.as_unsealed_mut_slice(), dbtime)?;
            slot.touch(now_ns);
            frames.mark_changed(frame, start, end);
        }
        Ok(())
    }

    /// Redo of one change on its page, which is in memory. A page that is damaged and made anew is repaired by that.
    pub(crate) fn redo(
        &self,
        db: u8,
        change: &btree::PageChange,
        dbtime: u64,
        start: LogPosition,
        end: LogPosition,
    ) -> RedoOutcome {
        let mut frames = self.0.frames.borrow_mut();
        let key = PageKey { db, pgno: change.pgno };
        let Some(frame) = frames.find(key) else { return RedoOutcome::Absent };
        let slot = frames.get_mut(frame);
        if slot.holds == Holds::Arriving {
            return RedoOutcome::Absent;
        }
        let page = slot.page.get_or_insert_with(|| PageBuf::empty(self.0.page_bytes));
        if slot.holds == Holds::Damaged {
            if !change.formats() {
                return RedoOutcome::Damaged;
            }
            page.as_mut_slice().fill(0);
        }
        let outcome = change.redo(page.as_unsealed_mut_slice(), dbtime);
        if outcome == Redo::Applied {
            slot.holds = Holds::Page;
            frames.mark_changed(frame, start, end);
        }
        RedoOutcome::Done(outcome)
    }

    /// Puts the logged image in the place of a damaged page; true if it was needed.
    pub(crate) fn repair(&self, key: PageKey, image: &[u8], start: LogPosition, end: LogPosition) -> bool {
        let mut frames = self.0.frames.borrow_mut();
        let Some(frame) = frames.find(key) else { return false };
        let slot = frames.get_mut(frame);
        if slot.holds != Holds::Damaged {
            return false;
        }
        (slot.page, slot.holds) = (Some(PageBuf::copy_of(image)), Holds::Page);
        frames.mark_changed(frame, start, end);
        true
    }

    /// An operation begins: nothing is held yet.
    pub(crate) fn pins(&self) -> Pins {
        Pins { cache: self.clone(), frames: smallvec::SmallVec::new() }
    }
}

/// What redo of one change came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RedoOutcome {
    /// The page is not in memory.
    Absent,
    /// The page failed its check, and no image of it came before this change.
    Damaged,
    /// See [`Redo`].
    Done(Redo),
}

/// A world's page codec as the coding of pages in log records.
pub(crate) struct CodecCoding {
    pub(crate) codec: std::rc::Rc<dyn world::PageCodec>,
    pub(crate) page_bytes: usize,
}

impl PageCoding for CodecCoding {
    fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    fn encode(&self, pgno: u32, page: &[u8], out: &mut Vec<u8>) {
        self.codec.encode(u64::from(pgno) + 1, page, out);
    }

    fn decode(&self, pgno: u32, encoded: &[u8], page: &mut [u8]) -> bool {
        self.codec.decode(u64::from(pgno) + 1, encoded, page).is_some()
    }
}

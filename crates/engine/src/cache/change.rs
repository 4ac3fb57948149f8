//! Reading and changing pages between two awaits.

use std::cell::{Cell, Ref};

use btree::{Descents, MiniTransaction, Misfit, PageCoding, PageView, Pager, Stop};
use edb::page::{PageRef, page_flags};
use world::sync::Notify;

use super::frames::{Content, Frames, PageKey};
use super::page::CachedPage;
use super::{Cache, LogPosition, PageReads, Pins};
use crate::error::Result;

/// View of one database's pages for an operation. No page can change or leave the cache while a view lives.
pub(crate) struct View<'a> {
    frames: Ref<'a, Frames>,
    db: u8,
    page_bytes: usize,
    now_ns: u64,
    /// Last requested page and its frame, because operations request a page several times in a row.
    last: Cell<Option<(u32, u32)>>,
    descents: Option<&'a Descents>,
}

impl<'a> View<'a> {
    /// Makes operations remember their last descent.
    pub(crate) fn remembering(self, descents: &'a Descents) -> View<'a> {
        View { descents: Some(descents.of(self.db)), ..self }
    }
}

impl Pager for View<'_> {
    fn page(&self, pgno: u32) -> btree::Result<PageView<'_>> {
        let known = self.last.get().filter(|(last, _)| *last == pgno);
        let number = match known {
            Some((_, number)) => number,
            None => self.frames.find(PageKey { db: self.db, pgno }).ok_or(Stop::Missing(pgno))?,
        };
        let frame = self.frames.get(number);
        let page = frame.page().ok_or(Stop::Missing(pgno))?;
        if known.is_none() {
            self.frames.touch(number, self.now_ns);
            self.last.set(Some((pgno, number)));
        }
        Ok(page.view())
    }

    fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    fn descents(&self) -> Option<&Descents> {
        self.descents
    }
}

impl Cache {
    /// View of the pages of one database that are in the cache now.
    pub(crate) fn view(&self, db: u8) -> View<'_> {
        let now_ns = self.0.world.now().ns;
        let frames = self.0.frames.borrow();
        View { frames, db, page_bytes: self.0.page_bytes, now_ns, last: Cell::new(None), descents: None }
    }

    /// Calls `log_image` for every page that `mini` makes dirty and whose old contents redo may need.
    pub(crate) fn images(&self, db: u8, mini: &MiniTransaction, mut log_image: impl FnMut(u32, &CachedPage)) {
        let frames = self.0.frames.borrow();
        for change in mini.changes.iter().filter(|change| !change.formats()) {
            let Some(frame) = frames.find(PageKey { db, pgno: change.pgno }) else { continue };
            let frame = frames.get(frame);
            if let (false, Some(page)) = (frame.is_dirty(), frame.page()) {
                log_image(change.pgno, page);
            }
        }
    }

    /// Waits for a read in progress of a page that `mini` formats; otherwise the read would overwrite the new page.
    pub(crate) fn arrival_in(&self, db: u8, mini: &MiniTransaction) -> Option<Notify> {
        let made_anew = mini.changes.iter().filter(|change| change.formats());
        made_anew.map(|change| PageKey { db, pgno: change.pgno }).find_map(|key| self.arrival_of(key))
    }

    /// Returns a page that `mini` formats and that is waiting for its replacement, which would overwrite the new page.
    pub(crate) fn awaited_in(&self, db: u8, mini: &MiniTransaction) -> Option<u32> {
        let mut made_anew = mini.changes.iter().filter(|change| change.formats()).map(|change| change.pgno);
        made_anew.find(|pgno| self.is_awaited(PageKey { db, pgno: *pgno }))
    }

    /// Applies the changes of a mini-transaction that the log holds at `start..end` (`start` includes the images).
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
        let mut takes_room = false;
        for change in &mini.changes {
            let key = PageKey { db, pgno: change.pgno };
            let frame = match frames.find(key) {
                Some(frame) => frame,
                None if change.formats() => {
                    takes_room = true;
                    frames.occupy(key, Content::Nothing)
                }
                None => return Err(Misfit { pgno: change.pgno, reason: "not in memory" }),
            };
            let slot = frames.get_mut(frame);
            // What is made anew is whole, independent of the file.
            slot.page_or_empty(self.0.page_bytes).apply(change, dbtime)?;
            slot.is_prepared &= !change.formats();
            frames.touch_new(frame, now_ns);
            frames.mark_changed(frame, start, end);
        }
        drop(frames);
        if takes_room {
            self.scavenge_if_short();
        }
        Ok(())
    }

    /// Creates an empty set of pinned pages for an operation.
    pub(crate) fn pins(&self) -> Pins {
        Pins { cache: self.clone(), frames: smallvec::SmallVec::new(), reads: PageReads::default() }
    }
}

/// A world's page codec as page coding for log records.
pub(crate) struct CodecCoding {
    pub(crate) codec: std::rc::Rc<dyn world::PageCodec>,
    pub(crate) page_bytes: usize,
}

impl PageCoding for CodecCoding {
    fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    fn encode(&self, pgno: u32, page: &[u8], out: &mut Vec<u8>) {
        let index = u64::from(pgno) + 1;
        let unused = PageRef::new(page).unused();
        if self.codec.encode_unsealed(index, page, unused.clone(), out) {
            return;
        }
        if edb::is_zero(&page[unused.clone()]) {
            return self.codec.encode(index, page, out);
        }
        // What edits have left there means nothing and would be logged byte by byte.
        let mut cleared = page.to_vec();
        cleared[unused].fill(0);
        if PageRef::new(&cleared).flags() & page_flags::NEW_CHECKSUM != 0 {
            edb::checksum::stamp(&mut cleared, pgno);
        }
        self.codec.encode(index, &cleared, out);
    }

    fn decode(&self, pgno: u32, encoded: &[u8], page: &mut [u8]) -> bool {
        self.codec.decode_unsealed(u64::from(pgno) + 1, encoded, page).is_some()
    }
}

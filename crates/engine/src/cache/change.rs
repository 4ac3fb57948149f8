//! Reading and changing pages between two awaits.

use std::cell::{Cell, Ref};

use btree::{MiniTransaction, Misfit, PageChange, PageCoding, PageView, Pager, Redo, Stop};
use edb::page::{PageRef, page_flags};
use world::PageBuf;

use super::frames::{Frames, Holds, PageKey};
use super::page::CachedPage;
use super::{Cache, LogPosition, Pins};
use crate::error::Result;

/// The pages of one database, as operations read them. Nothing can change or leave while a view lives.
pub(crate) struct View<'a> {
    frames: Ref<'a, Frames>,
    db: u8,
    page_bytes: usize,
    now_ns: u64,
    /// The page asked for last, and its frame: operations ask for a page several times in a row.
    last: Cell<Option<(u32, u32)>>,
}

impl Pager for View<'_> {
    fn page(&self, pgno: u32) -> btree::Result<PageView<'_>> {
        let number = match self.last.get() {
            Some((last, number)) if last == pgno => number,
            _ => {
                let found = self.frames.find(PageKey { db: self.db, pgno });
                let number = found.filter(|number| self.frames.get(*number).holds == Holds::Page);
                let number = number.ok_or(Stop::Missing(pgno))?;
                self.frames.touch(number, self.now_ns);
                self.last.set(Some((pgno, number)));
                number
            }
        };
        Ok(self.frames.get(number).page.as_ref().expect("a frame that holds a page has it").view())
    }

    fn page_bytes(&self) -> usize {
        self.page_bytes
    }
}

impl Cache {
    /// The pages of one database as they are now.
    pub(crate) fn view(&self, db: u8) -> View<'_> {
        let now_ns = self.0.world.now().ns;
        let frames = self.0.frames.borrow();
        View { frames, db, page_bytes: self.0.page_bytes, now_ns, last: Cell::new(None) }
    }

    /// Calls `log_image` with every page that `mini` makes dirty and whose old contents redo may need.
    pub(crate) fn images(&self, db: u8, mini: &MiniTransaction, mut log_image: impl FnMut(u32, &CachedPage)) {
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
            let page = slot.page.get_or_insert_with(|| CachedPage::empty(self.0.page_bytes));
            page.apply(change, dbtime)?;
            slot.is_prepared &= !change.formats();
            frames.touch(frame, now_ns);
            frames.mark_changed(frame, start, end);
        }
        Ok(())
    }

    /// Redo of one change on its page, which is in memory; `basis` is where the page has come from.
    pub(crate) fn redo(
        &self,
        db: u8,
        change: &PageChange,
        dbtime: u64,
        basis: Basis,
        start: LogPosition,
        end: LogPosition,
    ) -> RedoOutcome {
        let mut frames = self.0.frames.borrow_mut();
        let Some(frame) = frames.find(PageKey { db, pgno: change.pgno }) else {
            return RedoOutcome::absent();
        };
        let slot = frames.get_mut(frame);
        let page_bytes = self.0.page_bytes;
        let before = match slot.holds {
            Holds::Arriving | Holds::Nothing => return RedoOutcome::absent(),
            Holds::Page => Rebuilt::Verified,
            Holds::Damaged => Rebuilt::FailedCheck,
        };
        let outcome = if change.formats() {
            let page = slot.page.insert(CachedPage::empty(page_bytes));
            match page.apply(change, dbtime) {
                Ok(()) => RedoOutcome::MadeAnew(before),
                Err(misfit) => RedoOutcome::Wrong(misfit.to_string()),
            }
        } else if before == Rebuilt::FailedCheck {
            RedoOutcome::Unproven("it failed its check".to_owned())
        } else {
            let page = slot.page.get_or_insert_with(|| CachedPage::empty(page_bytes));
            redo_on(page, change, dbtime, basis)
        };
        if matches!(outcome, RedoOutcome::Applied | RedoOutcome::MadeAnew(_)) {
            slot.holds = Holds::Page;
            slot.is_prepared &= !change.formats();
            frames.touch(frame, self.0.world.now().ns);
            frames.mark_changed(frame, start, end);
            frames.compare_with_file(frame);
        }
        outcome
    }

    /// Puts the logged image in the place of what the file has; `None` if the page is not in memory.
    pub(crate) fn rebuild(
        &self,
        key: PageKey,
        image: PageBuf,
        start: LogPosition,
        end: LogPosition,
    ) -> Option<Rebuilt> {
        let mut frames = self.0.frames.borrow_mut();
        let frame = frames.find(key)?;
        let slot = frames.get_mut(frame);
        let before = match slot.holds {
            Holds::Arriving | Holds::Nothing => return None,
            Holds::Page => Rebuilt::Verified,
            Holds::Damaged => Rebuilt::FailedCheck,
        };
        let held = slot.page.replace(CachedPage::of(image));
        slot.in_file = held.filter(|_| before == Rebuilt::Verified && !slot.is_dirty() && !slot.writing);
        slot.holds = Holds::Page;
        slot.is_prepared = false;
        frames.touch(frame, self.0.world.now().ns);
        frames.mark_changed(frame, start, end);
        frames.compare_with_file(frame);
        Some(before)
    }

    /// The dbtime of a page that is in memory and did not fail its check.
    pub(crate) fn version(&self, key: PageKey) -> Option<u64> {
        self.0.frames.borrow().page(key).map(|page| page.view().dbtime())
    }

    /// Whether the page in memory is what the image says: the log must tell the same story twice.
    pub(crate) fn says(&self, key: PageKey, image: PageRef) -> bool {
        self.0.frames.borrow().page(key).is_some_and(|page| page.says_the_same(image))
    }

    /// An operation begins: nothing is held yet.
    pub(crate) fn pins(&self) -> Pins {
        Pins { cache: self.clone(), frames: smallvec::SmallVec::new() }
    }
}

/// Redo of a change on a page that verified.
fn redo_on(page: &mut CachedPage, change: &PageChange, dbtime: u64, basis: Basis) -> RedoOutcome {
    let page_dbtime = page.view().dbtime();
    if planted!(VerifiedPageTrusted) && page_dbtime >= dbtime {
        return RedoOutcome::AlreadyThere { page_dbtime };
    }
    if basis == Basis::Copy && page_dbtime >= dbtime {
        return RedoOutcome::AlreadyThere { page_dbtime };
    }
    match basis != Basis::File || planted!(RedoWithoutDbtime) {
        true if planted!(RedoWithoutDbtime) => match page.apply(change, dbtime) {
            Ok(()) => RedoOutcome::Applied,
            Err(misfit) => RedoOutcome::Wrong(misfit.to_string()),
        },
        false if page_dbtime >= dbtime => RedoOutcome::AlreadyThere { page_dbtime },
        false => RedoOutcome::Unproven(format!(
            "a write was lost or went astray: its dbtime is {page_dbtime}, the log has {dbtime}"
        )),
        true => match change.redo(page.bytes_mut(), dbtime) {
            Redo::Applied => RedoOutcome::Applied,
            Redo::AlreadyThere | Redo::WrongVersion { .. } => RedoOutcome::Wrong(format!(
                "a write of this recovery was lost or went astray: its dbtime is {page_dbtime}, the log expects {}",
                change.dbtime_before
            )),
            Redo::Misfit(misfit) => RedoOutcome::Wrong(misfit.to_string()),
        },
    }
}

/// Where redo has a page from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Basis {
    /// From the file: nothing is known of it.
    File,
    /// From the log that is being replayed.
    Log,
    /// From another copy, as whole as one from the log, and maybe newer than where replay is.
    Copy,
}

/// What redo of one change came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RedoOutcome {
    /// The page has the change now.
    Applied,
    /// The change made the page anew; what the file had before.
    MadeAnew(Rebuilt),
    /// The page was written after the change; its version.
    AlreadyThere { page_dbtime: u64 },
    /// The page is not what the log says, and only a later whole page can tell; why.
    Unproven(String),
    /// The page and the log contradict each other; how.
    Wrong(String),
}

impl RedoOutcome {
    fn absent() -> RedoOutcome {
        RedoOutcome::Wrong("it left memory while it was held".to_owned())
    }
}

/// What the file had of a page that came whole from the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rebuilt {
    FailedCheck,
    Verified,
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

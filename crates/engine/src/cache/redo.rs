//! Redo of pages in memory.
//!
//! What redo makes of a page comes from the log alone: the file's page only tells how old it is, whether it is
//! whole, and whether it is already what redo comes to. So of a page that redo reads, version and digest are
//! kept, and its memory takes the next one while the processor has it at hand. What the log says of a page
//! waits, too, until redo has come to the version that the file holds; then the page is made, and if its digest
//! is that of the file's, none of it stays: most pages were written before the crash. The others are made when
//! they are written.
//!
//! A passive copy is read from and goes on: it keeps what it reads, and makes at once what is not newer in the file.
//!
//! Invariants
//! 1. A page counts as changed from its first record on, until it was found in the file just as redo has made it.
//! 2. What redo makes comes from the log alone; with what the file holds it is only compared.
//! 3. A page of which there are no bytes is neither seen nor written: operations read it, or have it made
//!    ([`Cache::make`]).
//!
//! Limits: 256 changes wait for one page; with one more it is made, and written although the file may hold it.

#[cfg(test)]
mod tests;

use std::rc::Rc;

use btree::{PageChange, PageCoding, PageRecord, Redo};
use edb::page::PageRef;
use world::PageBuf;

use super::frames::{Content, Frame, Frames, PageKey};
use super::page::CachedPage;
use super::pending_redo::{InFile, LoggedPage, PendingRedo, Rebuilt, RedoOutcome, change, wrong_version};
use super::{Cache, LogPosition};
use crate::error::Result;

/// Largest number of changes that wait for their page, about as much memory as the page.
const CHANGES_WAITING_MAX: usize = 256;

/// Source of a page in redo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// The file; nothing is known about the page.
    File,
    /// The log that is being replayed.
    Log,
    /// Another copy: a whole page, as from the log, perhaps newer than the replay position.
    Copy,
}

/// Role of the cache during redo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RedoFor {
    /// Opening instance: no page is needed before it is written at the end. A page without bytes keeps its frame, so
    /// that reads are those of published recoveries.
    Opening,
    /// Worker of an opening instance: as many pages as memory allows wait for their changes, so that none is read or
    /// written twice.
    Worker,
    /// Passive copy, which replays without end.
    Standby,
}

fn left_memory() -> String {
    "it left memory while it was held".to_owned()
}

impl Frame {
    /// Version of the page, or the version that redo will make of it; `None` without a page, or if it failed its
    /// check.
    fn version(&self) -> Option<u64> {
        match &self.content {
            Content::InFile(pending) | Content::Deferred(pending) => Some(pending.dbtime),
            Content::Page(page) => Some(page.view().dbtime()),
            Content::Nothing | Content::Arriving | Content::Awaited | Content::Damaged(_) => None,
        }
    }

    /// State of the page in its frame, before the log replaces it.
    fn before(&self) -> Result<Rebuilt, String> {
        match self.content {
            Content::Arriving | Content::Nothing | Content::Awaited => Err(left_memory()),
            Content::Page(_) | Content::Deferred(_) | Content::InFile(_) => Ok(Rebuilt::Verified),
            Content::Damaged(_) => Ok(Rebuilt::FailedCheck),
        }
    }

    /// Digest of the page in the file, if the page was read, redo has not changed it, and it is newer than `dbtime`.
    fn newer_in_file(&self, dbtime: u64) -> Option<InFile> {
        let in_file = match &self.content {
            Content::InFile(pending) => pending.in_file?,
            Content::Page(page) if !self.is_dirty() && !self.writing => InFile::of(page.view().to_ref()),
            _ => return None,
        };
        (in_file.dbtime > dbtime).then_some(in_file)
    }

    fn defers(&mut self, pending: PendingRedo) {
        self.content = Content::Deferred(Box::new(pending));
    }

    fn holds_page(&mut self, page: PageBuf) {
        self.content = Content::Page(CachedPage::of(page));
    }
}

impl Cache {
    /// Redo of one change on its page, which is in memory. `base`: source of the page; `ops`: bytes of the record.
    pub(crate) fn redo(
        &self,
        record: PageRecord,
        ops: &[u8],
        base: Base,
        (start, end): (LogPosition, LogPosition),
    ) -> RedoOutcome {
        let mut frames = self.0.frames.borrow_mut();
        let PageRecord { db, pgno, dbtime, .. } = record;
        let Some(frame) = frames.find(PageKey { db, pgno }) else { return RedoOutcome::Wrong(left_memory()) };
        let pending = frames.pending.clone();
        let (slot, formats) = (frames.get_mut(frame), record.is_whole());
        let change = || self.coding(db).and_then(|coding| change(record, ops, &*coding));
        let outcome = match (slot.before(), &mut slot.content) {
            (Err(reason), _) => RedoOutcome::Wrong(reason),
            (Ok(_), Content::Deferred(pending)) => pending.redo(record, ops),
            // Redo clears new space of the file, so what was read there may be gone: the page is written in any case.
            (Ok(before), _) if formats && pending.is_some() => {
                slot.defers(PendingRedo::anew(record, ops, pending.as_ref()));
                RedoOutcome::MadeAnew(before)
            }
            (Ok(before), _) if formats => {
                let mut page = CachedPage::empty(self.0.page_bytes);
                match change().and_then(|change| page.apply(&change, dbtime).map_err(|m| m.to_string())) {
                    Ok(()) => {
                        slot.content = Content::Page(page);
                        RedoOutcome::MadeAnew(before)
                    }
                    Err(reason) => RedoOutcome::Wrong(reason),
                }
            }
            (Ok(Rebuilt::FailedCheck), _) => RedoOutcome::Unproven("it failed its check".to_owned()),
            (Ok(Rebuilt::Verified), _) => {
                let page_dbtime = slot.version().unwrap_or_default();
                match (redo_without_page(page_dbtime, dbtime, base), slot.page_mut()) {
                    (Some(outcome), _) => outcome,
                    (None, Some(page)) => {
                        change().map_or_else(RedoOutcome::Wrong, |change| redo_on(page, &change, dbtime))
                    }
                    (None, None) => RedoOutcome::Wrong(left_memory()),
                }
            }
        };
        if matches!(outcome, RedoOutcome::Applied | RedoOutcome::MadeAnew(_)) {
            slot.is_prepared &= !formats;
            frames.touch_new(frame, self.0.world.now().ns);
            frames.mark_changed(frame, start, end);
            if let Err(reason) = self.make_if_due(&mut frames, frame) {
                return RedoOutcome::Wrong(reason);
            }
        }
        outcome
    }

    /// Replaces a page by the whole page from the log. Returns whether the replaced page had passed its check.
    ///
    /// # Errors
    /// The reason why the page cannot be replaced.
    pub(crate) fn rebuild(
        &self,
        key: PageKey,
        image: LoggedPage,
        (start, end): (LogPosition, LogPosition),
    ) -> Result<Rebuilt, String> {
        let mut frames = self.0.frames.borrow_mut();
        let frame = frames.find(key).ok_or_else(left_memory)?;
        let slot = frames.get_mut(frame);
        let before = slot.before()?;
        let in_file = slot.newer_in_file(image.dbtime);
        if in_file.is_some() || self.pages_wait() {
            let pending = PendingRedo::from_image(image, in_file, frames.pending.as_ref());
            frames.get_mut(frame).defers(pending);
        } else {
            slot.holds_page(image.decode(key.pgno, &*self.coding(key.db)?)?);
        }
        frames.get_mut(frame).is_prepared = false;
        frames.touch_new(frame, self.0.world.now().ns);
        frames.mark_changed(frame, start, end);
        Ok(before)
    }

    /// Handles another page image in the log of the version that redo has already reached.
    ///
    /// # Errors
    /// The image does not decode or contradicts the page.
    pub(crate) fn renew(&self, key: PageKey, image: LoggedPage) -> Result<(), String> {
        let mut frames = self.0.frames.borrow_mut();
        let frame = frames.find(key).ok_or_else(left_memory)?;
        let (slot, coding) = (frames.get_mut(frame), self.coding(key.db)?);
        if cfg!(debug_assertions) {
            let said = image.decode(key.pgno, &*coding)?;
            let said = PageRef::new(said.as_unsealed_slice());
            let is_same = match &slot.content {
                Content::Page(page) => page.says_the_same(said),
                Content::Deferred(pending) => {
                    CachedPage::of(pending.make(key.pgno, &*coding)?).says_the_same(said)
                }
                _ => true,
            };
            debug_assert!(is_same, "page {} is not what its log image says", key.pgno);
        }
        match &mut slot.content {
            Content::Page(_) => {}
            // It has in it all that waits.
            Content::Deferred(pending) => pending.renew(image),
            _ if self.pages_wait() => {
                let pending = PendingRedo::from_image(image, None, frames.pending.as_ref());
                frames.get_mut(frame).defers(pending);
            }
            _ => slot.holds_page(image.decode(key.pgno, &*coding)?),
        }
        Ok(())
    }

    /// Replaces a cached page by a copy of it from another host. `at`: end of the last replayed record, which becomes
    /// the page's log position. Returns `None` if the page is not in memory.
    pub(crate) fn put(&self, key: PageKey, page: PageBuf, at: LogPosition) -> Option<()> {
        let mut frames = self.0.frames.borrow_mut();
        let frame = frames.find(key)?;
        let slot = frames.get_mut(frame);
        slot.before().ok()?;
        slot.holds_page(page);
        slot.is_prepared = false;
        frames.touch_new(frame, self.0.world.now().ns);
        frames.mark_changed(frame, at, at);
        Some(())
    }

    /// Version that redo has reached with a page that is known and passed its check.
    pub(crate) fn version(&self, key: PageKey) -> Option<u64> {
        let frames = self.0.frames.borrow();
        frames.get(frames.find(key)?).version()
    }

    /// Builds the bytes of all deferred pages at the end of redo.
    ///
    /// # Errors
    /// A deferred page whose image or changes do not fit.
    pub(crate) fn make_all(&self) -> Result<()> {
        let keys: Vec<PageKey> = self.0.frames.borrow().without_bytes().collect();
        keys.into_iter().try_for_each(|key| self.make(key).map(drop))
    }

    /// Builds the bytes of a deferred page from its waiting changes. Frees the frame of a page that equals the one in
    /// the file; the next operation reads it. Returns whether the bytes were built.
    ///
    /// # Errors
    /// An image or a change that does not fit.
    pub(crate) fn make(&self, key: PageKey) -> Result<bool> {
        let mut frames = self.0.frames.borrow_mut();
        let Some(frame) = frames.find(key) else { return Ok(false) };
        let slot = frames.get_mut(frame);
        match &slot.content {
            Content::Deferred(pending) => {
                let coding = self.coding(key.db);
                let made = coding.and_then(|coding| pending.make(key.pgno, &*coding));
                slot.holds_page(made.map_err(|reason| self.damaged(key, reason))?);
                Ok(true)
            }
            Content::InFile(_) => {
                frames.release(frame);
                self.0.freed.notify_one();
                Ok(false)
            }
            _ => Ok(false),
        }
    }

    /// Builds a deferred page that has reached the version in the file, or that has too many waiting changes. If the
    /// result equals the page in the file, the frame keeps no bytes.
    fn make_if_due(&self, frames: &mut Frames, frame: u32) -> Result<(), String> {
        let slot = frames.get_mut(frame);
        let key = slot.key();
        let Content::Deferred(pending) = &mut slot.content else { return Ok(()) };
        let is_due = pending.in_file.is_some_and(|in_file| in_file.dbtime == pending.dbtime);
        if !is_due && pending.changes() <= CHANGES_WAITING_MAX {
            return Ok(());
        }
        let made = pending.make(key.pgno, &*self.coding(key.db)?)?;
        if is_due && Some(InFile::of(PageRef::new(made.as_unsealed_slice()))) == pending.in_file {
            pending.forget();
            if let Content::Deferred(pending) = std::mem::replace(&mut slot.content, Content::Nothing) {
                slot.content = Content::InFile(pending);
            }
            frames.mark_clean(frame);
        } else {
            slot.holds_page(made);
        }
        Ok(())
    }

    /// Whether redo needs the bytes of a page only when it is written.
    pub(super) fn pages_wait(&self) -> bool {
        matches!(self.0.redo.get(), Some(RedoFor::Opening | RedoFor::Worker))
    }

    fn coding(&self, db: u8) -> Result<Rc<dyn PageCoding>, String> {
        self.database(db).map(|database| database.coding.clone()).map_err(|error| error.to_string())
    }
}

/// Result of redo for a change whose page is not in memory but passed its check.
fn redo_without_page(page_dbtime: u64, dbtime: u64, base: Base) -> Option<RedoOutcome> {
    match base {
        _ if planted!(RedoWithoutDbtime) => None,
        _ if page_dbtime >= dbtime && (base != Base::Log || planted!(VerifiedPageTrusted)) => {
            Some(RedoOutcome::AlreadyThere { page_dbtime })
        }
        Base::File => Some(RedoOutcome::Unproven(format!(
            "a write was lost or went astray: its dbtime is {page_dbtime}, the log has {dbtime}"
        ))),
        Base::Log | Base::Copy => None,
    }
}

/// Redo of a change on a page that came whole from the log or another copy.
fn redo_on(page: &mut CachedPage, change: &PageChange, dbtime: u64) -> RedoOutcome {
    if planted!(RedoWithoutDbtime) {
        return match page.apply(change, dbtime) {
            Ok(()) => RedoOutcome::Applied,
            Err(misfit) => RedoOutcome::Wrong(misfit.to_string()),
        };
    }
    let page_dbtime = page.view().dbtime();
    match change.redo(page.bytes_mut(), dbtime) {
        Redo::Applied => RedoOutcome::Applied,
        Redo::AlreadyThere | Redo::WrongVersion { .. } => wrong_version(page_dbtime, change.dbtime_before),
        Redo::Misfit(misfit) => RedoOutcome::Wrong(misfit.to_string()),
    }
}

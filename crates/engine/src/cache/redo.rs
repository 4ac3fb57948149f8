//! Redo of pages in memory.
//!
//! Most pages that the replayed log changes were written before the crash. So where the file holds a page in a newer version
//! than redo has come to, redo only keeps what the log says of it, and makes it when it has come as far: in one go, in memory
//! that the processor has at hand. If that is what the file holds, none of it stays.
//!
//! Invariants
//! 1. A page counts as changed from its first record on, until it was found in the file just as redo has made it.
//! 2. What the file holds is compared, never changed: what redo makes comes from the log alone.
//! 3. A page that is not made yet is neither seen nor written: whoever needs it calls for it ([`Cache::settle`]).
//!
//! Limits: 256 changes wait for one page; with one more it is made, and written although the file may hold it.

#[cfg(test)]
mod tests;

use std::rc::Rc;

use btree::{PageChange, PageCoding, Redo};
use edb::page::PageRef;
use world::PageBuf;

use super::frames::{Frame, Frames, Holds, PageKey};
use super::page::CachedPage;
use super::{Cache, LogPosition};
use crate::error::Result;

/// Changes that wait until their page is made: about as much memory as the page.
const CHANGES_WAITING_MAX: usize = 256;

/// A page as the log holds it.
pub(crate) struct LoggedPage {
    pub(crate) dbtime: u64,
    /// What the coding of its database has made of it.
    pub(crate) encoded: Box<[u8]>,
}

/// What the log says of a page that the file holds in a newer version.
pub(super) struct Deferred {
    /// `None`: its first change makes it anew.
    image: Option<LoggedPage>,
    /// With the dbtime that each gives it.
    changes: Vec<(u64, PageChange)>,
    /// The version that all of it makes.
    dbtime: u64,
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

/// What the file had of a page that came whole from the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rebuilt {
    FailedCheck,
    Verified,
}

/// What becomes of a page that is made, and found in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IfInFile {
    /// It was written after its last change, so the log holds it as a whole before the next.
    GiveUp,
    /// Changes of it follow.
    Keep,
}

fn left_memory() -> String {
    "it left memory while it was held".to_owned()
}

impl Deferred {
    fn make(&self, pgno: u32, coding: &dyn PageCoding) -> Result<PageBuf, String> {
        let mut page = match &self.image {
            Some(image) => image.decode(pgno, coding)?,
            None => PageBuf::empty(coding.page_bytes()),
        };
        for (dbtime, change) in &self.changes {
            change.apply(page.as_unsealed_mut_slice(), *dbtime).map_err(|misfit| misfit.to_string())?;
        }
        Ok(page)
    }

    fn redo(&mut self, change: PageChange, dbtime: u64) -> RedoOutcome {
        let outcome = if change.formats() {
            self.image = None;
            self.changes.clear();
            RedoOutcome::MadeAnew(Rebuilt::Verified)
        } else if self.dbtime == change.dbtime_before || planted!(RedoWithoutDbtime) {
            RedoOutcome::Applied
        } else {
            return wrong_version(self.dbtime, &change);
        };
        self.changes.push((dbtime, change));
        self.dbtime = dbtime;
        outcome
    }
}

impl LoggedPage {
    fn decode(&self, pgno: u32, coding: &dyn PageCoding) -> Result<PageBuf, String> {
        let decode = |page: &mut [u8]| coding.decode(pgno, &self.encoded, page);
        let page = PageBuf::written_by(coding.page_bytes(), decode);
        page.filter(|page| PageRef::new(page.as_unsealed_slice()).dbtime() == self.dbtime)
            .ok_or_else(|| "its image in the log makes no sense".to_owned())
    }
}

impl Frame {
    /// The version of the page, or that which redo will make of it; `None` without a page, or if it failed its check.
    fn version(&self) -> Option<u64> {
        match (self.holds, &self.page, &self.deferred) {
            (Holds::InFile { dbtime }, ..) => Some(dbtime),
            (Holds::Deferred, _, Some(deferred)) => Some(deferred.dbtime),
            (Holds::Page, Some(page), _) => Some(page.view().dbtime()),
            _ => None,
        }
    }

    /// What the frame has of its page before that is replaced from the log.
    fn before(&self) -> Result<Rebuilt, String> {
        match self.holds {
            Holds::Arriving | Holds::Nothing => Err(left_memory()),
            Holds::Page | Holds::Deferred | Holds::InFile { .. } => Ok(Rebuilt::Verified),
            Holds::Damaged => Ok(Rebuilt::FailedCheck),
        }
    }

    fn holds_page(&mut self, page: PageBuf) {
        (self.holds, self.page, self.deferred) = (Holds::Page, Some(CachedPage::of(page)), None);
    }
}

impl Cache {
    /// Redo of one change on its page, which is in memory; `basis` is where the page has come from.
    pub(crate) fn redo(
        &self,
        db: u8,
        mut change: PageChange,
        dbtime: u64,
        basis: Basis,
        start: LogPosition,
        end: LogPosition,
    ) -> RedoOutcome {
        let mut frames = self.0.frames.borrow_mut();
        let found = frames.find(PageKey { db, pgno: change.pgno });
        let Some(frame) = found else { return RedoOutcome::Wrong(left_memory()) };
        let (slot, page_bytes) = (frames.get_mut(frame), self.0.page_bytes);
        let formats = change.formats();
        if formats && !self.coding(db).is_ok_and(|coding| change.decode_page(&*coding)) {
            return RedoOutcome::Wrong("the page that the log makes of it makes no sense".to_owned());
        }
        let outcome = match (slot.before(), &mut slot.deferred) {
            (Err(reason), _) => RedoOutcome::Wrong(reason),
            (Ok(_), Some(deferred)) => deferred.redo(change, dbtime),
            (Ok(before), None) if formats => {
                let page = slot.page.insert(CachedPage::empty(page_bytes));
                match page.apply(&change, dbtime) {
                    Ok(()) => RedoOutcome::MadeAnew(before),
                    Err(misfit) => RedoOutcome::Wrong(misfit.to_string()),
                }
            }
            (Ok(Rebuilt::FailedCheck), None) => RedoOutcome::Unproven("it failed its check".to_owned()),
            (Ok(Rebuilt::Verified), None) => {
                let page = slot.page.get_or_insert_with(|| CachedPage::empty(page_bytes));
                redo_on(page, &change, dbtime, basis)
            }
        };
        if matches!(outcome, RedoOutcome::Applied | RedoOutcome::MadeAnew(_)) {
            if slot.deferred.is_none() {
                slot.holds = Holds::Page;
            }
            slot.is_prepared &= !formats;
            frames.touch(frame, self.0.world.now().ns);
            frames.mark_changed(frame, start, end);
            if let Err(reason) = self.make_if_due(&mut frames, frame, IfInFile::GiveUp) {
                return RedoOutcome::Wrong(reason);
            }
        }
        outcome
    }

    /// Puts a page of the log in the place of what the file has; says what that was.
    ///
    /// # Errors
    /// Why it cannot be.
    pub(crate) fn rebuild(
        &self,
        key: PageKey,
        image: LoggedPage,
        start: LogPosition,
        end: LogPosition,
    ) -> Result<Rebuilt, String> {
        let mut frames = self.0.frames.borrow_mut();
        let frame = frames.find(key).ok_or_else(left_memory)?;
        let slot = frames.get_mut(frame);
        let before = slot.before()?;
        if slot.holds == Holds::Page && !slot.is_dirty() && !slot.writing {
            let dbtime = image.dbtime;
            slot.deferred = Some(Box::new(Deferred { image: Some(image), changes: Vec::new(), dbtime }));
            slot.holds = Holds::Deferred;
        } else {
            slot.holds_page(image.decode(key.pgno, &*self.coding(key.db)?)?);
        }
        slot.is_prepared = false;
        frames.touch(frame, self.0.world.now().ns);
        frames.mark_changed(frame, start, end);
        self.make_if_due(&mut frames, frame, IfInFile::Keep)?;
        Ok(before)
    }

    /// The log holds a page once more as a whole, in the very version that redo has come to.
    ///
    /// # Errors
    /// If it makes no sense.
    pub(crate) fn renew(&self, key: PageKey, image: LoggedPage) -> Result<(), String> {
        let mut frames = self.0.frames.borrow_mut();
        let frame = frames.find(key).ok_or_else(left_memory)?;
        let (slot, coding) = (frames.get_mut(frame), self.coding(key.db)?);
        if cfg!(debug_assertions) {
            let said = image.decode(key.pgno, &*coding)?;
            let made =
                slot.deferred.as_ref().map(|deferred| deferred.make(key.pgno, &*coding)).transpose()?;
            let page = made.map(CachedPage::of);
            let page = page.as_ref().or(slot.page.as_ref().filter(|_| slot.holds == Holds::Page));
            let is_same = page.is_none_or(|page| page.says_the_same(PageRef::new(said.as_unsealed_slice())));
            debug_assert!(is_same, "page {} is not what its log image says", key.pgno);
        }
        match &mut slot.deferred {
            // It has in it all that waits.
            Some(deferred) => {
                deferred.image = Some(image);
                deferred.changes.clear();
            }
            None if slot.holds != Holds::Page => slot.holds_page(image.decode(key.pgno, &*coding)?),
            None => {}
        }
        Ok(())
    }

    /// Puts a page in the place of whatever there is; `None` if it is not in memory.
    pub(crate) fn put(
        &self,
        key: PageKey,
        page: PageBuf,
        start: LogPosition,
        end: LogPosition,
    ) -> Option<()> {
        let mut frames = self.0.frames.borrow_mut();
        let frame = frames.find(key)?;
        let slot = frames.get_mut(frame);
        slot.before().ok()?;
        slot.holds_page(page);
        slot.is_prepared = false;
        frames.touch(frame, self.0.world.now().ns);
        frames.mark_changed(frame, start, end);
        Some(())
    }

    /// The dbtime to which redo has come with a page that is known and did not fail its check.
    pub(crate) fn version(&self, key: PageKey) -> Option<u64> {
        let frames = self.0.frames.borrow();
        frames.get(frames.find(key)?).version()
    }

    /// Redo has ended: all its pages are made.
    ///
    /// # Errors
    /// A page of which the log makes no sense.
    pub(crate) fn settle_all(&self) -> Result<()> {
        let keys: Vec<PageKey> = self.0.frames.borrow().unsettled().collect();
        keys.into_iter().try_for_each(|key| self.settle(key))
    }

    /// Redo's page is made, if it was not; one that only the file holds is not known any more, so that whoever wants it reads it.
    ///
    /// # Errors
    /// A page of which the log makes no sense.
    pub(crate) fn settle(&self, key: PageKey) -> Result<()> {
        let mut frames = self.0.frames.borrow_mut();
        let Some(frame) = frames.find(key) else { return Ok(()) };
        match frames.get(frame).holds {
            Holds::Deferred => self.make(&mut frames, frame, IfInFile::Keep).map_err(|reason| {
                drop(frames);
                self.damaged(key, reason)
            }),
            Holds::InFile { .. } => {
                frames.release(frame);
                self.0.freed.notify_one();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Makes a page that has come to the version that the file holds.
    fn make_if_due(&self, frames: &mut Frames, frame: u32, if_in_file: IfInFile) -> Result<(), String> {
        let slot = frames.get(frame);
        let (Some(deferred), Some(in_file)) = (&slot.deferred, &slot.page) else { return Ok(()) };
        if deferred.dbtime >= in_file.view().dbtime() || deferred.changes.len() > CHANGES_WAITING_MAX {
            return self.make(frames, frame, if_in_file);
        }
        Ok(())
    }

    fn make(&self, frames: &mut Frames, frame: u32, if_in_file: IfInFile) -> Result<(), String> {
        let slot = frames.get_mut(frame);
        let (Some(deferred), Some(in_file)) = (&slot.deferred, &slot.page) else { return Ok(()) };
        let (key, dbtime) = (slot.key, deferred.dbtime);
        let made = deferred.make(key.pgno, &*self.coding(key.db)?)?;
        let is_in_file = in_file.says_the_same(PageRef::new(made.as_unsealed_slice()));
        if is_in_file && if_in_file == IfInFile::GiveUp {
            (slot.holds, slot.page, slot.deferred) = (Holds::InFile { dbtime }, None, None);
        } else {
            slot.holds_page(made);
        }
        if is_in_file {
            frames.mark_clean(frame);
        }
        Ok(())
    }

    fn coding(&self, db: u8) -> Result<Rc<dyn PageCoding>, String> {
        self.database(db).map(|database| database.coding.clone()).map_err(|error| error.to_string())
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
            Redo::AlreadyThere | Redo::WrongVersion { .. } => wrong_version(page_dbtime, change),
            Redo::Misfit(misfit) => RedoOutcome::Wrong(misfit.to_string()),
        },
    }
}

fn wrong_version(page_dbtime: u64, change: &PageChange) -> RedoOutcome {
    RedoOutcome::Wrong(format!(
        "a write of this recovery was lost or went astray: its dbtime is {page_dbtime}, the log expects {}",
        change.dbtime_before
    ))
}

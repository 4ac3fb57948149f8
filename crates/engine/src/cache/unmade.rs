//! A page that redo has not made: what the log says of it, and what the file holds.

use btree::{PageChange, PageCoding};
use edb::page::PageRef;
use world::PageBuf;

/// A page as the log holds it.
pub(crate) struct LoggedPage {
    pub(crate) dbtime: u64,
    /// What the coding of its database has made of it.
    pub(crate) encoded: Box<[u8]>,
}

/// What redo knows of a page without having its bytes.
pub(super) struct Unmade {
    /// `None`: its first change makes it anew, or nothing waits.
    pub(super) image: Option<LoggedPage>,
    /// With the dbtime that each gives it.
    pub(super) changes: Vec<(u64, PageChange)>,
    /// The version that all of it makes; that of the file if nothing waits.
    pub(super) dbtime: u64,
    /// What the file holds, if redo has not come past it.
    pub(super) in_file: Option<InFile>,
}

/// What the file holds of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InFile {
    pub(super) dbtime: u64,
    digest: u128,
}

impl InFile {
    pub(super) fn of(page: PageRef) -> InFile {
        InFile { dbtime: page.dbtime(), digest: page.digest() }
    }
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

impl Unmade {
    /// A page that was read and found good.
    pub(super) fn read(page: &PageBuf) -> Unmade {
        let in_file = InFile::of(PageRef::new(page.as_unsealed_slice()));
        Unmade { image: None, changes: Vec::new(), dbtime: in_file.dbtime, in_file: Some(in_file) }
    }

    pub(super) fn from_image(image: LoggedPage, in_file: Option<InFile>) -> Unmade {
        Unmade { dbtime: image.dbtime, image: Some(image), changes: Vec::new(), in_file }
    }

    pub(super) fn make(&self, pgno: u32, coding: &dyn PageCoding) -> Result<PageBuf, String> {
        let mut page = match &self.image {
            Some(image) => image.decode(pgno, coding)?,
            None => PageBuf::empty(coding.page_bytes()),
        };
        for (dbtime, change) in &self.changes {
            change.apply(page.as_unsealed_mut_slice(), *dbtime).map_err(|misfit| misfit.to_string())?;
        }
        Ok(page)
    }

    pub(super) fn redo(&mut self, change: PageChange, dbtime: u64) -> RedoOutcome {
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
    pub(super) fn decode(&self, pgno: u32, coding: &dyn PageCoding) -> Result<PageBuf, String> {
        let decode = |page: &mut [u8]| coding.decode(pgno, &self.encoded, page);
        let page = PageBuf::written_by(coding.page_bytes(), decode);
        page.filter(|page| PageRef::new(page.as_unsealed_slice()).dbtime() == self.dbtime)
            .ok_or_else(|| "its image in the log makes no sense".to_owned())
    }
}

pub(super) fn wrong_version(page_dbtime: u64, change: &PageChange) -> RedoOutcome {
    RedoOutcome::Wrong(format!(
        "a write of this recovery was lost or went astray: its dbtime is {page_dbtime}, the log expects {}",
        change.dbtime_before
    ))
}

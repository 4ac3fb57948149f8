//! A page that redo has not made: what the log says of it, and what the file holds.

use std::cell::Cell;
use std::rc::Rc;

use btree::{PageChange, PageCoding};
use edb::page::PageRef;
use world::PageBuf;

use super::frames::Frame;

/// A page as the log holds it.
pub(crate) struct LoggedPage {
    pub(crate) dbtime: u64,
    /// What the coding of its database has made of it.
    pub(crate) encoded: Box<[u8]>,
}

/// All pages of a cache of which there are no bytes.
#[derive(Clone, Default)]
pub(super) struct UnmadePages(Rc<Tally>);

#[derive(Default)]
struct Tally {
    pages: Cell<usize>,
    bytes: Cell<usize>,
}

/// The part of one page in the memory of all unmade ones; gives it back when it is dropped.
struct Share {
    of: UnmadePages,
    bytes: usize,
}

/// What redo knows of a page without having its bytes.
pub(super) struct Unmade {
    /// `None`: its first change makes it anew, or nothing waits.
    image: Option<LoggedPage>,
    /// With the dbtime that each gives it.
    changes: Vec<(u64, PageChange)>,
    /// The version that all of it makes; that of the file if nothing waits.
    pub(super) dbtime: u64,
    /// What the file holds, if redo has not come past it.
    pub(super) in_file: Option<InFile>,
    /// `None` where it counts as a whole page.
    share: Option<Share>,
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

impl UnmadePages {
    /// How many they are, and the bytes that they take.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.0.pages.get(), self.0.bytes.get())
    }

    fn share(&self) -> Share {
        let bytes = size_of::<Frame>() + size_of::<Unmade>();
        self.0.pages.update(|pages| pages + 1);
        self.0.bytes.update(|all| all + bytes);
        Share { of: self.clone(), bytes }
    }
}

impl Share {
    fn grow(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.of.0.bytes.update(|all| all + bytes);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.0.pages.update(|pages| pages - 1);
        self.of.0.bytes.update(|all| all - self.bytes);
    }
}

impl Unmade {
    /// A page that was read and found good. `pages`: the others, if their memory is counted.
    pub(super) fn read(page: &PageBuf, pages: Option<&UnmadePages>) -> Unmade {
        let in_file = InFile::of(PageRef::new(page.as_unsealed_slice()));
        let (dbtime, share) = (in_file.dbtime, pages.map(UnmadePages::share));
        Unmade { image: None, changes: Vec::new(), dbtime, in_file: Some(in_file), share }
    }

    /// A page that the log holds as a whole.
    pub(super) fn from_image(
        image: LoggedPage,
        in_file: Option<InFile>,
        pages: Option<&UnmadePages>,
    ) -> Unmade {
        let (dbtime, share) = (image.dbtime, pages.map(UnmadePages::share));
        let mut unmade = Unmade { image: None, changes: Vec::new(), dbtime, in_file, share };
        unmade.renew(image);
        unmade
    }

    /// The log holds once more as a whole what it has come to.
    pub(super) fn renew(&mut self, image: LoggedPage) {
        self.forget();
        self.grow(image.encoded.len());
        self.image = Some(image);
    }

    /// Nothing waits any more: the file holds it.
    pub(super) fn forget(&mut self) {
        (self.image, self.changes) = (None, Vec::new());
        self.share = self.share.take().map(|share| share.of.share());
    }

    /// How many changes wait.
    pub(super) fn changes(&self) -> usize {
        self.changes.len()
    }

    fn grow(&mut self, bytes: usize) {
        self.share.iter_mut().for_each(|share| share.grow(bytes));
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
            self.forget();
            RedoOutcome::MadeAnew(Rebuilt::Verified)
        } else if self.dbtime == change.dbtime_before || planted!(RedoWithoutDbtime) {
            RedoOutcome::Applied
        } else {
            return wrong_version(self.dbtime, &change);
        };
        self.grow(change.memory_bytes());
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

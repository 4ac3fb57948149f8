//! A page that redo has not made: what the log says of it, and what the file holds.

use std::cell::Cell;
use std::rc::Rc;

use btree::{PageChange, PageCoding, PageRecord, PageRecordKind};
use edb::page::PageRef;
use world::PageBuf;

use super::FRAME_BYTES;

/// Whole page in the log.
pub(crate) struct LoggedPage {
    pub(crate) dbtime: u64,
    /// Page in the coding of its database.
    pub(crate) encoded: Box<[u8]>,
}

/// Memory of any page without bytes, bytes.
const PENDING_BYTES: usize = FRAME_BYTES + size_of::<PendingRedo>();

/// All pages of a cache that have no bytes.
#[derive(Clone, Default)]
pub(super) struct PendingPages(Rc<Tally>);

#[derive(Default)]
struct Tally {
    pages: Cell<usize>,
    bytes: Cell<usize>,
}

/// Share of one page in the memory of all pages without bytes; returned when dropped.
struct Share {
    of: PendingPages,
    bytes: usize,
}

/// Waiting changes of a page, as in the log. A recovery has millions, most of which are needed once, so they are
/// decoded only then.
#[derive(Default)]
struct Changes {
    /// Encoded changes: for each the dbtime that it gives the page, the length of its edits, and the edits.
    bytes: Vec<u8>,
    count: usize,
}

/// Page that redo knows without its bytes: an image or none, and the changes that wait.
pub(super) struct PendingRedo {
    /// Image in the log; `None`: the first change formats the page, or nothing waits.
    image: Option<LoggedPage>,
    changes: Changes,
    /// Version of the page with all changes; that of the file if nothing waits.
    pub(super) dbtime: u64,
    /// State of the page in the file, if redo has not passed it.
    pub(super) in_file: Option<InFile>,
    /// Share of memory; `None` if it counts as a whole page.
    share: Option<Share>,
}

/// State of a page in its file: version and digest.
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

/// Result of redo for one change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RedoOutcome {
    /// The page now has the change.
    Applied,
    /// The change formatted the page; with the page's state in the file before.
    MadeAnew(Rebuilt),
    /// The page already had the change; its version.
    AlreadyThere { page_dbtime: u64 },
    /// The page is not what the log requires, and only a later whole page can tell whether it was damaged; reason.
    Unproven(String),
    /// The page and the log contradict each other; reason.
    Wrong(String),
}

/// State in the file of a page that came whole from the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rebuilt {
    FailedCheck,
    Verified,
}

impl PendingPages {
    /// Number of these pages, and their memory in bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.0.pages.get(), self.0.bytes.get())
    }

    fn share(&self) -> Share {
        let bytes = PENDING_BYTES;
        self.0.pages.update(|pages| pages + 1);
        self.0.bytes.update(|all| all + bytes);
        Share { of: self.clone(), bytes }
    }
}

impl Share {
    /// Updates the memory that the page takes beyond that of any page.
    fn resize(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, PENDING_BYTES + bytes);
        self.of.0.bytes.update(|all| all - before + self.bytes);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.0.pages.update(|pages| pages - 1);
        self.of.0.bytes.update(|all| all - self.bytes);
    }
}

impl PendingRedo {
    /// Page without waiting changes. `pages`: the others, if memory is counted.
    fn new(dbtime: u64, in_file: Option<InFile>, pages: Option<&PendingPages>) -> PendingRedo {
        let share = pages.map(PendingPages::share);
        PendingRedo { image: None, changes: Changes::default(), dbtime, in_file, share }
    }

    /// Page that was read and passed its check.
    pub(super) fn read(page: &PageBuf, pages: Option<&PendingPages>) -> PendingRedo {
        let in_file = InFile::of(PageRef::new(page.as_unsealed_slice()));
        PendingRedo::new(in_file.dbtime, Some(in_file), pages)
    }

    /// Page whose image is in the log.
    pub(super) fn from_image(
        image: LoggedPage,
        in_file: Option<InFile>,
        pages: Option<&PendingPages>,
    ) -> PendingRedo {
        let mut pending = PendingRedo::new(image.dbtime, in_file, pages);
        pending.renew(image);
        pending
    }

    /// Page that this change formats.
    pub(super) fn anew(record: PageRecord, ops: &[u8], pages: Option<&PendingPages>) -> PendingRedo {
        let mut pending = PendingRedo::new(record.dbtime, None, pages);
        pending.redo(record, ops);
        pending
    }

    /// Notes that the log contains the whole page again, in the version that redo has reached.
    pub(super) fn renew(&mut self, image: LoggedPage) {
        self.changes.clear();
        self.image = Some(image);
        self.resize();
    }

    /// Drops the waiting changes, because the file holds them.
    pub(super) fn forget(&mut self) {
        (self.image, self.changes) = (None, Changes::default());
        self.resize();
    }

    /// Number of waiting changes.
    pub(super) fn changes(&self) -> usize {
        self.changes.count
    }

    fn resize(&mut self) {
        let image = self.image.as_ref().map_or(0, |image| image.encoded.len());
        let bytes = image + self.changes.bytes.capacity();
        self.share.iter_mut().for_each(|share| share.resize(bytes));
    }

    pub(super) fn make(&self, pgno: u32, coding: &dyn PageCoding) -> Result<PageBuf, String> {
        let mut page = match &self.image {
            Some(image) => image.decode(pgno, coding)?,
            None => PageBuf::empty(coding.page_bytes()),
        };
        self.changes.each(pgno, |record, ops| {
            let change = change(record, ops, coding)?;
            let applied = change.apply(page.as_unsealed_mut_slice(), record.dbtime);
            applied.map_err(|misfit| misfit.to_string())
        })?;
        Ok(page)
    }

    /// Adds a change. `ops`: bytes of the record.
    pub(super) fn redo(&mut self, record: PageRecord, ops: &[u8]) -> RedoOutcome {
        let outcome = match record.kind {
            PageRecordKind::Change { dbtime_before, formats: false } => {
                if self.dbtime != dbtime_before && !planted!(RedoWithoutDbtime) {
                    return wrong_version(self.dbtime, dbtime_before);
                }
                RedoOutcome::Applied
            }
            _ => {
                self.image = None;
                self.changes.clear();
                RedoOutcome::MadeAnew(Rebuilt::Verified)
            }
        };
        self.changes.push(&record, ops);
        self.dbtime = record.dbtime;
        self.resize();
        outcome
    }
}

impl Changes {
    const HEAD_BYTES: usize = size_of::<u64>() + size_of::<u32>();

    fn push(&mut self, record: &PageRecord, ops: &[u8]) {
        self.bytes.reserve(Changes::HEAD_BYTES + ops.len());
        self.bytes.extend_from_slice(&record.dbtime.to_le_bytes());
        self.bytes.extend_from_slice(&(ops.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(ops);
        self.count += 1;
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    /// Calls `each` for every waiting change, up to the first that fails.
    fn each(
        &self,
        pgno: u32,
        mut each: impl FnMut(PageRecord, &[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut rest = &self.bytes[..];
        while let Some((dbtime, after)) = rest.split_first_chunk()
            && let Some((len, after)) = after.split_first_chunk()
        {
            let (ops, after) = after.split_at(u32::from_le_bytes(*len) as usize);
            // Its version was compared when it came.
            let kind = PageRecordKind::Change { dbtime_before: 0, formats: false };
            each(PageRecord { db: 0, pgno, dbtime: u64::from_le_bytes(*dbtime), kind }, ops)?;
            rest = after;
        }
        Ok(())
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

/// Decodes a change of the log, with its page if it formats one.
///
/// # Errors
/// If it makes no sense.
pub(super) fn change(record: PageRecord, ops: &[u8], coding: &dyn PageCoding) -> Result<PageChange, String> {
    let change = record.change(ops).and_then(|mut change| change.decode_page(coding).then_some(change));
    change.ok_or_else(|| "the page that the log makes of it makes no sense".to_owned())
}

pub(super) fn wrong_version(page_dbtime: u64, expected: u64) -> RedoOutcome {
    RedoOutcome::Wrong(format!(
        "a write of this recovery was lost or went astray: its dbtime is {page_dbtime}, the log expects {expected}"
    ))
}

//! Reading a database file from end to end in large pieces, and judging every page.
//!
//! Invariants
//! 1. Every page of a piece is judged: checksum, number, structure; a page known to equal the database's
//!    template is good as it stands (design invariant 6).
//! 2. A page that is zero counts as never written, unless the template has contents there or something refers to
//!    the page: then it was lost. Of a database in use only what the trees used when the reading began is known.
//! 3. A page that fails while the database is in use is read again before it is called bad: it may have been
//!    read in the middle of a write.
//!
//! Limits: pieces are whole pages; the header pages count as part of the file but are judged by header checksum.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use btree::{PagesInUse, ZeroPages, describe_zero_pages};
use edb::flush_map::ClosedMap;
use edb::header::{DatabaseHeader, ShadowDamage};
use edb::page::PageRef;
use futures_util::future::maybe_done;
use futures_util::poll;
use results::IoClass;
use world::{Bufs, Duration, PageBuf, TemplatePages, World};

use crate::error::{Error, Result};
use crate::io::IoFile;
use crate::judge::{Finding, STALE, dbtime, dbtime_without_bytes, judge};

/// Number of times that a page of a database in use is read again, with growing pauses.
const REREADS: u32 = 5;
const REREAD_PAUSE: Duration = Duration::from_millis(100);
const LOST: &str = "it was lost: it is zero, and the database uses it";
const FOREIGN: &str = "its checksum is right, but an entry is not one that was written";
/// Largest number of bad pages that are listed; all are counted.
const LISTED_MAX: usize = 100;

/// Progress of a long job. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Progress(Rc<(Cell<u64>, Cell<u64>)>);

impl Progress {
    /// Number of finished bytes.
    pub fn done_bytes(&self) -> u64 {
        self.0.0.get()
    }

    /// Number of all bytes, as far as known.
    pub fn total_bytes(&self) -> u64 {
        self.0.1.get()
    }

    pub(crate) fn begin(&self, total_bytes: u64) {
        self.0.0.set(0);
        self.0.1.set(total_bytes);
    }

    pub(crate) fn add(&self, bytes: u64) {
        self.0.0.set(self.0.0.get() + bytes);
    }
}

/// Findings on the pages of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageFindings {
    /// Number of checked pages, without headers.
    pub pages: u64,
    /// Number of pages that were never written.
    pub uninitialised: u64,
    /// Number of pages with flipped bits that the checksum can locate.
    pub correctable: u64,
    /// Number of pages with the number of another page.
    pub wrong_number: u64,
    /// Number of pages that are damaged beyond correction, by checksum or structure, and of lost ones.
    pub bad: u64,
    /// Number of leaked pages: zero, owned by a tree, and without a reference; legal, and counted as never written.
    pub leaked: u64,
    /// Number of zero pages that count as never written although a damaged page would say whether they are in use.
    pub unjudged: u64,
    /// Damage that the flush map cannot reveal.
    pub unseen: Option<&'static str>,
    /// First bad pages of any kind: number and damage.
    pub list: Vec<(u32, String)>,
    /// Zero pages that the space trees do not call available: lost or leaked.
    pub(crate) zero: Vec<u32>,
}

impl PageFindings {
    /// Whether every page has the bytes that were written.
    pub fn is_clean(&self) -> bool {
        self.correctable + self.wrong_number + self.bad == 0
    }

    /// Notes for people besides the findings.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = describe_zero_pages(self.leaked, self.unjudged);
        notes.extend(self.unseen.map(str::to_owned));
        notes
    }

    /// Adds the findings on other pages.
    pub fn merge(&mut self, other: PageFindings) {
        self.pages += other.pages;
        self.uninitialised += other.uninitialised;
        self.correctable += other.correctable;
        self.wrong_number += other.wrong_number;
        self.bad += other.bad;
        self.leaked += other.leaked;
        self.unjudged += other.unjudged;
        self.unseen = self.unseen.or(other.unseen);
        self.zero.extend(other.zero);
        self.list.extend(other.list);
        self.list.sort_unstable();
        self.list.truncate(LISTED_MAX);
    }

    /// Adds the classification of [`Self::zero`].
    pub(crate) fn settle(&mut self, zero: ZeroPages) {
        self.uninitialised -= zero.lost.len() as u64;
        zero.lost.into_iter().for_each(|pgno| self.add(pgno, Finding::Bad(LOST.to_owned())));
        self.leaked += zero.leaked;
        self.unjudged += zero.unjudged;
    }

    /// Adds the damage of the flush map itself.
    pub(crate) fn add_map(&mut self, map: &ClosedMap) {
        self.unseen = map.unseen;
        map.damage.iter().for_each(|damage| self.add(0, Finding::Bad(damage.clone())));
    }

    pub(crate) fn add(&mut self, pgno: u32, finding: Finding) {
        let count = match finding {
            Finding::Good => return,
            Finding::Uninitialised => return self.uninitialised += 1,
            Finding::Correctable => &mut self.correctable,
            Finding::WrongNumber(_) => &mut self.wrong_number,
            Finding::Bad(_) => &mut self.bad,
        };
        *count += 1;
        if self.list.len() < LISTED_MAX {
            self.list.push((pgno, finding.reason()));
        }
    }
}

/// Check whether a page, given its number, has the bytes that were written.
pub(crate) type PageCheck<'a> = dyn Fn(u32, PageRef<'_>) -> bool + 'a;

/// Knowledge about a database for the check of its pages.
#[derive(Clone, Copy, Default)]
pub(crate) struct Known<'a> {
    /// Template from which the database was created.
    pub(crate) template: Option<&'a dyn TemplatePages>,
    /// Pages that trees use.
    pub(crate) used: Option<&'a PagesInUse>,
    /// Zero pages that the catalog or space trees need.
    pub(crate) lost: Option<&'a BTreeSet<u32>>,
    /// Pages that the file may lack, because a cache has not written them yet.
    pub(crate) unwritten: Option<&'a dyn Fn(u32) -> bool>,
    /// Check whether a page, by its dbtime, is another version than the flush map names.
    pub(crate) is_other: Option<&'a dyn Fn(u32, u64) -> bool>,
    /// Check whether the flush map of the closed file names a page.
    pub(crate) is_named: Option<&'a dyn Fn(u32) -> bool>,
    /// Check whether a page has the bytes that were written.
    pub(crate) is_sound: Option<&'a PageCheck<'a>>,
}

impl Known<'_> {
    /// Whether a page that passed its check is not the version that was last written.
    fn is_stale(&self, index: u64, page: &PageBuf, template_id: Option<u64>) -> bool {
        let pgno = page_number(index);
        index >= 2 && self.is_other.is_some_and(|is_other| is_other(pgno, dbtime(page, pgno, template_id)))
    }

    /// Whether a page with a good checksum contains something that the engine did not write. A page known as a
    /// template page with edits never does.
    fn is_foreign(&self, index: u64, page: &PageBuf, template_id: Option<u64>) -> bool {
        let page_ref = || PageRef::new(page.as_slice());
        let is_foreign = |is_sound: &PageCheck<'_>| !is_sound(page_number(index), page_ref());
        index >= 2
            && dbtime_without_bytes(page, index, template_id).is_none()
            && self.is_sound.is_some_and(is_foreign)
    }

    /// Whether the page at place `index` of the file must not be zero.
    fn was_written(&self, index: u64) -> bool {
        self.lost.is_some_and(|lost| lost.contains(&page_number(index)))
            || self.is_named.is_some_and(|is_named| is_named(page_number(index)))
            || self.template.is_some_and(|template| has_contents(template, index))
    }

    /// Whether a zero page is in use, so that it is lost or leaked.
    fn is_used(&self, pgno: u32) -> bool {
        self.used.is_some_and(|used| used.contains(pgno))
            && self.unwritten.is_none_or(|is_unwritten| !is_unwritten(pgno))
    }
}

/// Reader of a database file in pieces.
pub(crate) struct PieceReader<'a> {
    pub(crate) world: &'a World,
    pub(crate) file: &'a IoFile,
    pub(crate) page_bytes: usize,
    pub(crate) template_id: Option<u64>,
    pub(crate) class: IoClass,
    /// Whether pages may change while they are read.
    pub(crate) in_use: bool,
}

impl PieceReader<'_> {
    /// Reads `bytes` bytes at `offset` in one operation, with a buffer for each page, and judges the pages.
    pub(crate) async fn read(
        &self,
        known: Known<'_>,
        offset: u64,
        bytes: u64,
        findings: &mut PageFindings,
    ) -> Result<Bufs> {
        let mut pages = self.read_unjudged(offset, bytes).await?;
        self.judge_all(known, offset, &mut pages, findings).await?;
        Ok(pages)
    }

    /// Reads the pieces of `queue` one after the other and judges them. The next is requested before one is judged, so
    /// that the storage is not idle. Calls `judged` with the bytes of each; starts none once `goes_on` returns false.
    pub(crate) async fn read_through(
        &self,
        known: Known<'_>,
        queue: &PieceQueue,
        findings: &mut PageFindings,
        goes_on: impl Fn() -> Result<bool>,
        mut judged: impl FnMut(u64),
    ) -> Result<()> {
        let begin = async || {
            if !goes_on()? {
                return Ok(None);
            }
            let Some((offset, bytes)) = queue.take() else { return Ok(None) };
            let mut reading = Box::pin(maybe_done(self.read_unjudged(offset, bytes)));
            // Now it is begun.
            let _ = poll!(&mut reading);
            self.world.hand_over();
            Ok::<_, Error>(Some((offset, bytes, reading)))
        };
        let mut ahead = begin().await?;
        while let Some((offset, bytes, mut reading)) = ahead {
            reading.as_mut().await;
            let mut pages = reading.as_mut().take_output().expect("it has been awaited")?;
            ahead = begin().await?;
            self.judge_all(known, offset, &mut pages, findings).await?;
            judged(bytes);
        }
        Ok(())
    }

    async fn read_unjudged(&self, offset: u64, bytes: u64) -> Result<Bufs> {
        let bufs = PageBuf::side_by_side(bytes as usize / self.page_bytes, self.page_bytes);
        self.file.read(self.class, offset, bufs).await
    }

    async fn judge_all(
        &self,
        known: Known<'_>,
        offset: u64,
        pages: &mut Bufs,
        findings: &mut PageFindings,
    ) -> Result<()> {
        let first = offset / self.page_bytes as u64;
        for (index, page) in (first..).zip(pages.iter_mut()) {
            let mut finding = self.judge_page(known, page, index);
            if self.in_use {
                for attempt in 1..=REREADS {
                    if matches!(finding, Finding::Good | Finding::Uninitialised) {
                        break;
                    }
                    self.world.sleep(REREAD_PAUSE * attempt).await;
                    finding = self.judge_again(known, page, index).await?;
                }
            }
            if finding == Finding::Uninitialised && index >= 2 {
                let (was_written, is_used) = (known.was_written(index), known.is_used(page_number(index)));
                // It may have been written since it was read.
                if self.in_use && (was_written || is_used) {
                    finding = self.judge_again(known, page, index).await?;
                }
                match finding {
                    Finding::Uninitialised if was_written => finding = Finding::Bad(LOST.to_owned()),
                    Finding::Uninitialised if is_used => findings.zero.push(page_number(index)),
                    _ => {}
                }
            }
            if index >= 2 {
                findings.pages += 1;
            }
            findings.add(page_number(index), finding);
        }
        if let [header, shadow, ..] = &mut pages[..]
            && first == 0
            && !self.in_use
        {
            findings.add(0, self.judge_shadow(header, shadow));
        }
        Ok(())
    }

    /// Whether the shadow contradicts its header; damage of only one of them is found elsewhere.
    fn judge_shadow(&self, header: &PageBuf, shadow: &PageBuf) -> Finding {
        if header.pristine().is_some() && shadow.pristine().is_some() {
            return Finding::Good;
        }
        let checked = DatabaseHeader::parse(header.as_slice()).map(|it| it.check_shadow(shadow.as_slice()));
        match checked {
            Ok(Err(damage @ ShadowDamage::Contradicts(_))) => Finding::Bad(format!("its shadow {damage}")),
            _ => Finding::Good,
        }
    }

    fn judge_page(&self, known: Known<'_>, page: &PageBuf, index: u64) -> Finding {
        match judge(page, index, self.template_id) {
            Finding::Good if known.is_stale(index, page, self.template_id) => Finding::Bad(STALE.to_owned()),
            Finding::Good if known.is_foreign(index, page, self.template_id) => {
                Finding::Bad(FOREIGN.to_owned())
            }
            finding => finding,
        }
    }

    async fn judge_again(&self, known: Known<'_>, page: &mut PageBuf, index: u64) -> Result<Finding> {
        let at = index * self.page_bytes as u64;
        *page = self.file.read_one(self.class, at, self.page_bytes).await?;
        Ok(self.judge_page(known, page, index))
    }

    /// Size of the file in whole pages, bytes.
    pub(crate) async fn size(&self) -> Result<u64> {
        let bytes = self.file.file().size().await?;
        if bytes < 2 * self.page_bytes as u64 {
            let reason = "it is shorter than its header".to_owned();
            return Err(Error::DamagedFile { path: self.file.path().to_owned(), reason });
        }
        Ok(bytes - bytes % self.page_bytes as u64)
    }
}

/// Whether a new database has anything but zeros at place `index`. Freed pages keep their bytes, and redo clears only
/// space by which the file has grown, so such a page is never zero again.
fn has_contents(template: &dyn TemplatePages, index: u64) -> bool {
    if index >= template.pages() {
        return false;
    }
    let mut page = vec![0; template.page_bytes()];
    template.fill_unsealed(index, &mut page);
    !edb::is_zero(&page)
}

/// Page number at this place of the file; header pages have none.
fn page_number(index: u64) -> u32 {
    index.saturating_sub(1) as u32
}

/// Queue of the pieces of a file for several readers.
pub(crate) struct PieceQueue {
    next: Cell<u64>,
    end: u64,
    piece_bytes: u64,
}

impl PieceQueue {
    pub(crate) fn new(end: u64, piece_bytes: u64) -> PieceQueue {
        PieceQueue { next: Cell::new(0), end, piece_bytes }
    }

    /// Takes offset and length of the next piece.
    pub(crate) fn take(&self) -> Option<(u64, u64)> {
        let offset = self.next.get();
        let bytes = self.piece_bytes.min(self.end.saturating_sub(offset));
        self.next.set(offset + bytes);
        (bytes > 0).then_some((offset, bytes))
    }
}

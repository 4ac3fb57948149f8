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

/// Times a page of a database in use is read again, with growing pauses.
const REREADS: u32 = 5;
const REREAD_PAUSE: Duration = Duration::from_millis(100);
const LOST: &str = "it was lost: it is zero, and the database uses it";
const FOREIGN: &str = "its checksum is right, but an entry is not one that was written";
/// Bad pages listed by number; all are counted.
const LISTED_MAX: usize = 100;

/// How far a long job is. Cloning gives another handle on the same progress.
#[derive(Debug, Clone, Default)]
pub struct Progress(Rc<(Cell<u64>, Cell<u64>)>);

impl Progress {
    /// Bytes done.
    pub fn done_bytes(&self) -> u64 {
        self.0.0.get()
    }

    /// Bytes to do, as far as known.
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

/// What was found on the pages of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageFindings {
    /// Pages seen, header pages not counted.
    pub pages: u64,
    /// Pages that were never written.
    pub uninitialised: u64,
    /// Pages with flipped bits that the checksum can locate.
    pub correctable: u64,
    /// Pages that belong elsewhere.
    pub wrong_number: u64,
    /// Pages damaged beyond correction, by checksum or structure, and lost ones.
    pub bad: u64,
    /// Zero pages that a tree owns and nothing refers to: legal, and counted as never written.
    pub leaked: u64,
    /// Zero pages that count as never written although a damaged page would say whether they are in use.
    pub unjudged: u64,
    /// What the flush map cannot tell of the pages.
    pub unseen: Option<&'static str>,
    /// The first bad pages (of any kind): number and what is wrong.
    pub list: Vec<(u32, String)>,
    /// Zero pages that the space trees do not call available: lost or leaked.
    pub(crate) zero: Vec<u32>,
}

impl PageFindings {
    /// Whether every page is as it was written.
    pub fn is_clean(&self) -> bool {
        self.correctable + self.wrong_number + self.bad == 0
    }

    /// What there is to say beside the findings, for people.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = describe_zero_pages(self.leaked, self.unjudged);
        notes.extend(self.unseen.map(str::to_owned));
        notes
    }

    /// Adds what was found elsewhere.
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

    /// Takes in what became of [`Self::zero`].
    pub(crate) fn settle(&mut self, zero: ZeroPages) {
        self.uninitialised -= zero.lost.len() as u64;
        zero.lost.into_iter().for_each(|pgno| self.add(pgno, Finding::Bad(LOST.to_owned())));
        self.leaked += zero.leaked;
        self.unjudged += zero.unjudged;
    }

    /// Takes in what the flush map says of itself.
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

/// Says whether a page, given its number, holds what was written.
pub(crate) type PageCheck<'a> = dyn Fn(u32, PageRef<'_>) -> bool + 'a;

/// What is known of the pages that a database has.
#[derive(Clone, Copy, Default)]
pub(crate) struct Known<'a> {
    /// What the database was made of.
    pub(crate) template: Option<&'a dyn TemplatePages>,
    /// Pages that trees use.
    pub(crate) used: Option<&'a PagesInUse>,
    /// Zero pages that catalog and space trees cannot do without.
    pub(crate) lost: Option<&'a BTreeSet<u32>>,
    /// Pages that the file may lack because a cache has not written them yet.
    pub(crate) unwritten: Option<&'a dyn Fn(u32) -> bool>,
    /// Whether a page, given its modification count, is another version than the one that the flush map names.
    pub(crate) is_other: Option<&'a dyn Fn(u32, u64) -> bool>,
    /// Whether the flush map of the closed file names a page.
    pub(crate) is_named: Option<&'a dyn Fn(u32) -> bool>,
    /// Whether a page holds what was written.
    pub(crate) is_sound: Option<&'a PageCheck<'a>>,
}

impl Known<'_> {
    /// Whether a page that is good by itself is not the one that was written there last.
    fn is_stale(&self, index: u64, page: &PageBuf, template_id: Option<u64>) -> bool {
        let pgno = page_number(index);
        index >= 2 && self.is_other.is_some_and(|is_other| is_other(pgno, dbtime(page, pgno, template_id)))
    }

    /// Whether a page with a good checksum holds something that the engine did not write. A page that is kept as a
    /// template and the changes made on it holds what was written.
    fn is_foreign(&self, index: u64, page: &PageBuf, template_id: Option<u64>) -> bool {
        let page_ref = || PageRef::new(page.as_slice());
        let is_foreign = |is_sound: &PageCheck<'_>| !is_sound(page_number(index), page_ref());
        index >= 2
            && dbtime_without_bytes(page, index, template_id).is_none()
            && self.is_sound.is_some_and(is_foreign)
    }

    /// Whether the page at place `index` of the file cannot be zero.
    fn was_written(&self, index: u64) -> bool {
        self.lost.is_some_and(|lost| lost.contains(&page_number(index)))
            || self.is_named.is_some_and(|is_named| is_named(page_number(index)))
            || self.template.is_some_and(|template| has_contents(template, index))
    }

    /// Whether a page that is zero was lost unless it is leaked.
    fn is_used(&self, pgno: u32) -> bool {
        self.used.is_some_and(|used| used.contains(pgno))
            && self.unwritten.is_none_or(|is_unwritten| !is_unwritten(pgno))
    }
}

/// A database file read in pieces.
pub(crate) struct Pieces<'a> {
    pub(crate) world: &'a World,
    pub(crate) file: &'a IoFile,
    pub(crate) page_bytes: usize,
    pub(crate) template_id: Option<u64>,
    pub(crate) class: IoClass,
    /// Pages may change while they are read.
    pub(crate) in_use: bool,
}

impl Pieces<'_> {
    /// Reads `bytes` bytes at `offset` in one operation, a buffer for each page, and judges them.
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

    /// Reads the pieces of `queue`, one after the other, and judges them. The next one is asked for before one is
    /// judged, so that the storage is not idle meanwhile. `judged` is told the bytes of each; none is begun once
    /// `goes_on` says no.
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

    /// Whether the shadow contradicts its header. What is wrong with one of them alone is found without the other.
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

    /// Size of the file in whole pages' bytes.
    pub(crate) async fn size(&self) -> Result<u64> {
        let bytes = self.file.file().size().await?;
        if bytes < 2 * self.page_bytes as u64 {
            let reason = "it is shorter than its header".to_owned();
            return Err(Error::DamagedFile { path: self.file.path().to_owned(), reason });
        }
        Ok(bytes - bytes % self.page_bytes as u64)
    }
}

/// Whether a new database has anything but zeros at place `index`. What a tree gives back keeps its bytes, and
/// redo clears only what the file has grown by, so such a page is never zero again.
fn has_contents(template: &dyn TemplatePages, index: u64) -> bool {
    if index >= template.pages() {
        return false;
    }
    let mut page = vec![0; template.page_bytes()];
    template.fill_unsealed(index, &mut page);
    !edb::is_zero(&page)
}

/// The page number at this place of the file; the header pages have none.
fn page_number(index: u64) -> u32 {
    index.saturating_sub(1) as u32
}

/// Hands out the pieces of a file to several readers.
pub(crate) struct PieceQueue {
    next: Cell<u64>,
    end: u64,
    piece_bytes: u64,
}

impl PieceQueue {
    pub(crate) fn new(end: u64, piece_bytes: u64) -> PieceQueue {
        PieceQueue { next: Cell::new(0), end, piece_bytes }
    }

    /// Offset and length of the next piece.
    pub(crate) fn take(&self) -> Option<(u64, u64)> {
        let offset = self.next.get();
        let bytes = self.piece_bytes.min(self.end.saturating_sub(offset));
        self.next.set(offset + bytes);
        (bytes > 0).then_some((offset, bytes))
    }
}

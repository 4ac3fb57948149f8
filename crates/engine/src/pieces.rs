//! Reading a database file from end to end in large pieces, and judging every page.
//!
//! Invariants
//! 1. Every page of a piece is judged: checksum, number, structure; a page known to equal the database's
//!    template is good as it stands (design invariant 6).
//! 2. A page that is zero counts as never written, unless the template has contents there or a tree uses the
//!    page: then it was lost. Of a database in use only what the trees used when the reading began is known.
//! 3. A page that fails while the database is in use is read again before it is called bad: it may have been
//!    read in the middle of a write.
//!
//! Limits: pieces are whole pages; the header pages count as part of the file but are judged by header checksum.

use std::cell::Cell;
use std::rc::Rc;

use btree::PagesInUse;
use edb::page::PageRef;
use futures_util::future::maybe_done;
use futures_util::poll;
use results::IoClass;
use world::{Bufs, Duration, PageBuf, TemplatePages, World};

use crate::error::{Error, Result};
use crate::io::IoFile;
use crate::judge::{Finding, dbtime_without_bytes, judge};
use crate::versions::PageVersions;

/// Times a page of a database in use is read again, with growing pauses.
const REREADS: u32 = 5;
const REREAD_PAUSE: Duration = Duration::from_millis(100);
const LOST: &str = "it was lost: it is zero, and the database uses it";
const FOREIGN: &str = "its checksum is right, but an entry is not one that was written";
const STALE: &str = "it is not the version that this run left there";
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
    /// Pages damaged beyond correction, by checksum or structure.
    pub bad: u64,
    /// The first bad pages (of any kind): number and what is wrong.
    pub list: Vec<(u32, String)>,
}

impl PageFindings {
    /// Whether every page is as it was written.
    pub fn is_clean(&self) -> bool {
        self.correctable + self.wrong_number + self.bad == 0
    }

    /// Adds what was found elsewhere.
    pub fn merge(&mut self, other: PageFindings) {
        self.pages += other.pages;
        self.uninitialised += other.uninitialised;
        self.correctable += other.correctable;
        self.wrong_number += other.wrong_number;
        self.bad += other.bad;
        self.list.extend(other.list);
        self.list.sort_unstable();
        self.list.truncate(LISTED_MAX);
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

/// What is known of the pages that a database has.
#[derive(Clone, Copy, Default)]
pub(crate) struct Known<'a> {
    /// What the database was made of.
    pub(crate) template: Option<&'a dyn TemplatePages>,
    /// Pages that trees use.
    pub(crate) used: Option<&'a PagesInUse>,
    /// Pages that the file may lack because a cache has not written them yet.
    pub(crate) unwritten: Option<&'a dyn Fn(u32) -> bool>,
    /// Versions that this process gave pages of the closed file.
    pub(crate) versions: Option<&'a PageVersions>,
    /// Whether every entry of a page is one that was written.
    pub(crate) is_sound: Option<&'a dyn Fn(PageRef<'_>) -> bool>,
}

impl Known<'_> {
    /// Whether a page that is good by itself is not the one that was written there last.
    fn is_stale(&self, index: u64, page: &PageBuf, without_bytes: Option<u64>) -> bool {
        let dbtime = || without_bytes.unwrap_or_else(|| PageRef::new(page.as_slice()).dbtime());
        let is_other = |versions: &PageVersions| versions.contradict(page_number(index), dbtime());
        index >= 2 && self.versions.is_some_and(is_other)
    }

    /// Whether a page that is good by itself holds something that nobody wrote. A page that is kept as a
    /// template and the changes made on it holds what was written.
    fn is_foreign(&self, index: u64, page: &PageBuf, without_bytes: Option<u64>) -> bool {
        let is_foreign = |is_sound: &dyn Fn(PageRef<'_>) -> bool| !is_sound(PageRef::new(page.as_slice()));
        index >= 2 && without_bytes.is_none() && self.is_sound.is_some_and(is_foreign)
    }

    /// Whether the page at place `index` of the file cannot be zero.
    fn was_written(&self, index: u64) -> bool {
        let pgno = page_number(index);
        let is_used = self.used.is_some_and(|used| used.contains(pgno))
            && self.unwritten.is_none_or(|is_unwritten| !is_unwritten(pgno));
        is_used || self.template.is_some_and(|template| has_contents(template, index))
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
    pub(crate) async fn read(&self, offset: u64, bytes: u64, findings: &mut PageFindings) -> Result<Bufs> {
        self.read_known(Known::default(), offset, bytes, findings).await
    }

    /// As [`Self::read`]; pages that are known to have been written are never zero.
    pub(crate) async fn read_known(
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
            let mut finding = judge(page, index, self.template_id);
            if self.in_use {
                for attempt in 1..=REREADS {
                    if matches!(finding, Finding::Good | Finding::Uninitialised) {
                        break;
                    }
                    self.world.sleep(REREAD_PAUSE * attempt).await;
                    finding = self.judge_again(page, index).await?;
                }
            }
            if finding == Finding::Good {
                let dbtime = dbtime_without_bytes(page, index, self.template_id);
                if known.is_stale(index, page, dbtime) {
                    finding = Finding::Bad(STALE.to_owned());
                } else if known.is_foreign(index, page, dbtime) {
                    finding = Finding::Bad(FOREIGN.to_owned());
                }
            }
            if finding == Finding::Uninitialised && known.was_written(index) {
                // It may have been written since it was read.
                if self.in_use {
                    finding = self.judge_again(page, index).await?;
                }
                if finding == Finding::Uninitialised {
                    finding = Finding::Bad(LOST.to_owned());
                }
            }
            if index >= 2 {
                findings.pages += 1;
            }
            findings.add(page_number(index), finding);
        }
        Ok(())
    }

    async fn judge_again(&self, page: &mut PageBuf, index: u64) -> Result<Finding> {
        let at = index * self.page_bytes as u64;
        *page = self.file.read_one(self.class, at, self.page_bytes).await?;
        Ok(judge(page, index, self.template_id))
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

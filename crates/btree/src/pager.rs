//! How operations see pages, and why they stop.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::descents::Descents;
use crate::view::PageView;

/// The pages of one database as they are in memory now.
pub trait Pager {
    /// Page `pgno`.
    ///
    /// # Errors
    /// [`Stop::Missing`] if it is not in memory; other stops if the page cannot be had at all.
    fn page(&self, pgno: u32) -> Result<PageView<'_>, Stop>;

    /// Bytes per page.
    fn page_bytes(&self) -> usize;

    /// Where descents are remembered. Only for pages whose dbtime changes with every change of their nodes.
    fn descents(&self) -> Option<&Descents> {
        None
    }
}

/// Why an operation did not finish. It has changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Stop {
    /// This page is needed: fetch it, keep it for the rest of the operation and call again.
    #[error("page {0} is not in memory")]
    Missing(u32),
    /// The database has no free extent of this many pages: extend it and call again.
    #[error("the database is full: {pages} more pages are needed")]
    NoSpace {
        /// Pages that must become free in one piece.
        pages: u32,
    },
    /// Another open transaction changed the entry first. Operations do not know transactions: the engine says so.
    #[error("another open transaction has changed this entry")]
    Conflict,
    /// An entry with this key exists.
    #[error("an entry with this key exists")]
    Duplicate,
    /// There is no entry with this key.
    #[error("there is no entry with this key")]
    NotFound,
    /// The entry is larger than a page of this database takes, or a value than its column.
    #[error("the entry takes {bytes} bytes, at most {most_bytes} fit")]
    TooLarge {
        /// What it takes.
        bytes: usize,
        /// What fits.
        most_bytes: usize,
    },
    /// An entry without data: the format has none.
    #[error("an entry has at least one byte of data")]
    NoData,
    /// A page contradicts its tree.
    #[error("page {pgno} is damaged: {reason}")]
    Damaged {
        /// The page.
        pgno: u32,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// Pages of a file that is not changed, as far as they have been read.
pub struct FilePages {
    page_bytes: usize,
    /// Nothing of a page that cannot be used.
    pages: BTreeMap<u32, Option<Box<[u8]>>>,
}

impl FilePages {
    /// None read so far.
    pub fn new(page_bytes: usize) -> FilePages {
        FilePages { page_bytes, pages: BTreeMap::new() }
    }

    /// Page `pgno`, whose checksum and structure are right.
    pub fn add(&mut self, pgno: u32, page: &[u8]) {
        self.pages.insert(pgno, Some(page.into()));
    }

    /// Whether [`Self::add_damaged`] was told of page `pgno`.
    pub fn is_damaged(&self, pgno: u32) -> bool {
        self.pages.get(&pgno).is_some_and(Option::is_none)
    }

    /// Page `pgno` cannot be used: it is damaged, or the file lacks it.
    pub fn add_damaged(&mut self, pgno: u32) {
        self.pages.insert(pgno, None);
    }
}

impl Pager for FilePages {
    fn page(&self, pgno: u32) -> Result<PageView<'_>, Stop> {
        let page = self.pages.get(&pgno).ok_or(Stop::Missing(pgno))?;
        let damaged = Stop::Damaged { pgno, reason: "it cannot be read" };
        page.as_deref().map(PageView::of_bytes).ok_or(damaged)
    }

    fn page_bytes(&self) -> usize {
        self.page_bytes
    }
}

/// Result of an operation over pages.
pub type Result<T, E = Stop> = std::result::Result<T, E>;

pub(crate) fn damaged<T>(pgno: u32, reason: &'static str) -> Result<T> {
    Err(Stop::Damaged { pgno, reason })
}

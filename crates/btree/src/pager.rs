//! How operations see pages, and why they stop.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::descents::Descents;
use crate::view::PageView;

/// Access to the pages of one database in memory.
pub trait Pager {
    /// Returns page `pgno`.
    ///
    /// # Errors
    /// [`Stop::Missing`] if it is not in memory; other stops if the page cannot be had at all.
    fn page(&self, pgno: u32) -> Result<PageView<'_>, Stop>;

    /// Size of a page, bytes.
    fn page_bytes(&self) -> usize;

    /// Memory of the last descent; `None` if none is kept. Allowed only for pages whose dbtime changes with every
    /// change of their nodes.
    fn descents(&self) -> Option<&Descents> {
        None
    }
}

/// Reason why an operation stopped. It has changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Stop {
    /// A page is not in memory: read it, pin it for the rest of the operation, and call again.
    #[error("page {0} is not in memory")]
    Missing(u32),
    /// The database has no free extent of this many pages: extend it and call again.
    #[error("the database is full: {pages} more pages are needed")]
    NoSpace {
        /// Number of adjacent pages that must become free.
        pages: u32,
    },
    /// Another open transaction changed the entry first. The engine reports it; tree operations do not know
    /// transactions.
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
        /// Size of the entry, bytes.
        bytes: usize,
        /// Largest size that fits, bytes.
        most_bytes: usize,
    },
    /// The entry has no data, which the format does not allow.
    #[error("an entry has at least one byte of data")]
    NoData,
    /// A page contradicts its tree.
    #[error("page {pgno} is damaged: {reason}")]
    Damaged {
        /// Number of the page.
        pgno: u32,
        /// Description of the damage.
        reason: &'static str,
    },
}

/// Pages of a file that does not change, as far as they have been read.
pub struct FilePages {
    page_bytes: usize,
    /// Pages by number; `None` for a page that cannot be used.
    pages: BTreeMap<u32, Option<Box<[u8]>>>,
}

impl FilePages {
    /// Starts without any page.
    pub fn new(page_bytes: usize) -> FilePages {
        FilePages { page_bytes, pages: BTreeMap::new() }
    }

    /// Adds page `pgno`, whose checksum and structure are right.
    pub fn add(&mut self, pgno: u32, page: &[u8]) {
        self.pages.insert(pgno, Some(page.into()));
    }

    /// Whether [`Self::add_damaged`] was told of page `pgno`.
    pub fn is_damaged(&self, pgno: u32) -> bool {
        self.pages.get(&pgno).is_some_and(Option::is_none)
    }

    /// Notes that page `pgno` cannot be used: it is damaged, or the file lacks it.
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

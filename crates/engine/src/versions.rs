//! The versions that instances of this process gave the pages of a database.
//!
//! Invariant: what is remembered of a page is its newest change, as long as the database was closed in order or
//! not recovered since. So a closed file that holds another version of the page lost a write.
//!
//! Limits: the first [`PAGES_MAX`] pages that are changed, and 31 bits of each version; nothing outlives the process.

use std::cell::RefCell;
use std::rc::Rc;

use crate::page_table::PageTable;

/// Pages of a database that are remembered: a few MiB of memory.
const PAGES_MAX: usize = 1 << 18;

/// The newest versions of the pages of one database. Cloning gives another handle on the same ones.
#[derive(Clone, Default)]
pub struct PageVersions(Rc<RefCell<PageTable>>);

impl PageVersions {
    /// Page `pgno` has this modification count from now on.
    pub(crate) fn note(&self, pgno: u32, dbtime: u64) {
        let mut versions = self.0.borrow_mut();
        if !versions.replace(pgno, remembered(dbtime)) && versions.len() < PAGES_MAX {
            versions.insert(pgno, remembered(dbtime));
        }
    }

    /// Recovery may have found less than was remembered.
    pub(crate) fn forget(&self) {
        *self.0.borrow_mut() = PageTable::default();
    }

    /// Whether page `pgno` of a closed database must have another modification count than this one.
    pub(crate) fn contradict(&self, pgno: u32, dbtime: u64) -> bool {
        self.0.borrow().find(pgno).is_some_and(|newest| newest != remembered(dbtime))
    }
}

/// What is remembered of a version.
fn remembered(dbtime: u64) -> u32 {
    dbtime as u32 & (u32::MAX >> 1)
}

//! A few pages in memory that trees can be built on: what the engine is to a real database, without log and cache.

use btree::{MiniTransaction, PageView, Pager, Stop};
use edb::page::PageMut;

/// Pages 1..=n of a small database in memory.
pub(super) struct MemoryPages {
    page_bytes: usize,
    pages: Vec<Box<[u8]>>,
    /// Dbtime of the last change.
    pub dbtime: u64,
}

impl Pager for MemoryPages {
    fn page(&self, pgno: u32) -> Result<PageView<'_>, Stop> {
        let page = (pgno as usize).checked_sub(1).and_then(|at| self.pages.get(at));
        page.map(|page| PageView::of_bytes(page))
            .ok_or(Stop::Damaged { pgno, reason: "beyond the end of the file" })
    }

    fn page_bytes(&self) -> usize {
        self.page_bytes
    }
}

impl MemoryPages {
    /// Creates `pages` empty pages.
    pub fn new(page_bytes: usize, pages: u32, dbtime: u64) -> MemoryPages {
        let pages = (0..pages).map(|_| vec![0; page_bytes].into_boxed_slice()).collect();
        MemoryPages { page_bytes, pages, dbtime }
    }

    /// Plans an operation and applies it.
    pub fn run(
        &mut self,
        step: impl FnOnce(&dyn Pager) -> Result<MiniTransaction, Stop>,
    ) -> Result<(), Stop> {
        let mini = step(self)?;
        self.apply(&mini)
    }

    /// Applies a planned operation.
    pub fn apply(&mut self, mini: &MiniTransaction) -> Result<(), Stop> {
        self.dbtime += 1;
        for change in &mini.changes {
            let dbtime = self.dbtime;
            let damaged = |reason| Stop::Damaged { pgno: change.pgno, reason };
            let page = self.page_mut(change.pgno)?;
            change.apply(page, dbtime).map_err(|misfit| damaged(misfit.reason))?;
        }
        Ok(())
    }

    /// Page that is overwritten as a whole.
    pub fn page_mut(&mut self, pgno: u32) -> Result<&mut [u8], Stop> {
        let page = (pgno as usize).checked_sub(1).and_then(|at| self.pages.get_mut(at));
        page.map(|page| &mut page[..]).ok_or(Stop::Damaged { pgno, reason: "beyond the end of the file" })
    }

    /// Returns the first `count` pages with checksums.
    pub fn finish(mut self, count: u32) -> Vec<Box<[u8]>> {
        self.pages.truncate(count as usize);
        for (page, pgno) in self.pages.iter_mut().zip(1..) {
            if page.iter().any(|byte| *byte != 0) {
                PageMut::new(page).finish(pgno);
            }
        }
        self.pages
    }
}

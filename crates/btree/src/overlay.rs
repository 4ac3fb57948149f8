//! Where changes of several pages are planned: staged copies over the pages in memory.

use std::collections::BTreeMap;

use edb::page::{PageMut, PageRef};
use smallvec::SmallVec;

use crate::change::{PageChange, PageChanges, PageOp};
use crate::pager::{Pager, Result, Stop};
use crate::view::PageView;

/// Pager that shows the pages of a database with the changes planned so far.
pub(crate) struct Overlay<'p> {
    base: &'p dyn Pager,
    staged: BTreeMap<u32, Staged>,
}

struct Staged {
    page: Box<[u8]>,
    dbtime_before: u64,
    /// Pages that are formatted: their edits go into the page that the change carries.
    fresh: bool,
    ops: SmallVec<[PageOp; 1]>,
}

impl Pager for Overlay<'_> {
    fn page(&self, pgno: u32) -> Result<PageView<'_>> {
        match self.staged.get(&pgno) {
            Some(staged) => Ok(PageView::of_bytes(&staged.page)),
            None => self.base.page(pgno),
        }
    }

    fn page_bytes(&self) -> usize {
        self.base.page_bytes()
    }
}

impl<'p> Overlay<'p> {
    pub fn new(base: &'p dyn Pager) -> Self {
        Overlay { base, staged: BTreeMap::new() }
    }

    pub fn view(&self, pgno: u32) -> Result<PageView<'_>> {
        self.page(pgno)
    }

    /// Plans one edit of page `pgno`.
    pub fn edit(&mut self, pgno: u32, op: PageOp) -> Result<()> {
        let base = self.base;
        let staged = match self.staged.entry(pgno) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let page: Box<[u8]> = base.page(pgno)?.to_ref().bytes().into();
                let dbtime_before = PageRef::new(&page).dbtime();
                entry.insert(Staged { page, dbtime_before, fresh: false, ops: SmallVec::new() })
            }
        };
        op.apply(pgno, &mut staged.page)
            .map_err(|misfit| Stop::Damaged { pgno: misfit.pgno, reason: misfit.reason })?;
        if !staged.fresh {
            staged.ops.push(op);
        }
        Ok(())
    }

    /// Plans to format page `pgno`. It becomes empty, with `header` as its external header.
    pub fn format(&mut self, pgno: u32, objid: u32, flags: u32, header: &[u8]) -> Result<()> {
        let mut page = vec![0; self.page_bytes()].into_boxed_slice();
        PageMut::format(&mut page, pgno, objid, flags, 0)
            .set_external_header(header)
            .map_err(|_| Stop::Damaged { pgno, reason: "external header larger than a page" })?;
        self.staged.insert(pgno, Staged { page, dbtime_before: 0, fresh: true, ops: SmallVec::new() });
        Ok(())
    }

    /// Appends nodes `slots` of page `from` to page `to`, which was [formatted](Self::format) here.
    pub fn append_nodes(&mut self, to: u32, from: u32, slots: std::ops::Range<usize>) -> Result<()> {
        // Out of the map, so that the source can be borrowed meanwhile.
        let Some(mut target) = self.staged.remove(&to) else { return Err(Stop::Missing(to)) };
        debug_assert!(target.fresh);
        let appended = self.view(from).and_then(|source| {
            let full = |_| Stop::Damaged { pgno: from, reason: "its nodes do not fit a page" };
            PageMut::new(&mut target.page).append_from(source.to_ref(), slots).map_err(full)
        });
        self.staged.insert(to, target);
        appended
    }

    /// Planned changes, by page number.
    pub fn finish(self) -> PageChanges {
        self.staged.into_iter().map(|(pgno, staged)| staged.into_change(pgno)).collect()
    }
}

impl Staged {
    fn into_change(mut self, pgno: u32) -> PageChange {
        if !self.fresh {
            return PageChange { pgno, dbtime_before: self.dbtime_before, ops: self.ops };
        }
        // What edits left behind between and after the nodes would only fill the log.
        PageMut::new(&mut self.page).tidy();
        PageChange::one(pgno, 0, PageOp::Format { page: self.page })
    }
}

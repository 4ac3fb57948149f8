//! Which pages of a database its trees use, and which of its zero pages were lost.
//!
//! Invariants
//! 1. A page that something refers to has been written once the database is closed, because the record that
//!    takes a page into use also makes its contents. So such a page was lost if it is zero.
//! 2. A page that a tree owns, that is not available and that nothing refers to is leaked, which is legal: a
//!    crash of the genuine engine leaves such extents, and they may be zero.
//!
//! Limits: reads the catalog and the space trees of every table; pages of newer space formats count as damage.
//! The branch pages of a tree are read only if a zero page lies in its space.

use std::collections::BTreeSet;

use edb::catalog::system;
use edb::page::page_flags;

use crate::database::{ROOT, schema};
use crate::pager::{Pager, Result, Stop};
use crate::space::{Extent, SpaceHeader, extents, split_buffer};
use crate::tree::{Tree, view};
use crate::view::PageView;

/// Pages of a database that trees use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PagesInUse {
    /// Extents that the database owns and no tree uses, ascending by first page.
    unused: Vec<Extent>,
    last: u32,
    /// Space of every tree; a tree comes before those that take their space from it.
    spaces: Vec<Space>,
}

/// Space of one tree: extents that it owns and those that are available.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Space {
    tree: Tree,
    owned: Vec<Extent>,
    unused: Vec<Extent>,
    /// Roots of the owned- and available-extents trees.
    roots: Vec<u32>,
    /// Damaged page that hides a part of the space, and its damage.
    hidden_by: Option<(u32, &'static str)>,
}

impl Space {
    fn read(pager: &dyn Pager, tree: Tree) -> Result<Space> {
        let mut space =
            Space { tree, owned: Vec::new(), unused: Vec::new(), roots: Vec::new(), hidden_by: None };
        match space.fill(pager) {
            Err(Stop::Damaged { pgno, reason }) => space.hidden_by = Some((pgno, reason)),
            filled => filled?,
        }
        Ok(space)
    }

    fn fill(&mut self, pager: &dyn Pager) -> Result<()> {
        let fdp = self.tree.fdp;
        let header = SpaceHeader::read(pager, fdp)?;
        let Some(root) = header.owned_root() else {
            self.owned = vec![Extent { first: fdp, pages: header.primary_pages }];
            self.unused = header.unused_extents(fdp);
            return Ok(());
        };
        self.roots = vec![root, root + 1];
        self.owned = extents(pager, root, self.tree.objid)?;
        self.unused = extents(pager, root + 1, self.tree.objid)?;
        for root in [root, root + 1] {
            self.unused.extend(split_buffer(pager, root)?);
        }
        Ok(())
    }
}

impl PagesInUse {
    /// Reads every space tree of the database; `None` if no catalog names its trees. If the space trees of a tree are
    /// damaged, all of its pages count as in use.
    ///
    /// # Errors
    /// If pages are missing, or the catalog is damaged.
    pub fn read(pager: &dyn Pager) -> Result<Option<PagesInUse>> {
        if view(pager, system::OBJECTS_FDP)?.objid() != system::OBJECTS {
            return Ok(None);
        }
        let trees = schema(pager)?.trees();
        let spaces = trees.into_iter().map(|tree| Space::read(pager, tree)).collect::<Result<Vec<_>>>()?;
        let mut unused: Vec<_> = spaces.iter().flat_map(|space| space.unused.iter().copied()).collect();
        unused.sort_unstable_by_key(|extent| extent.first);
        let root = spaces.iter().find(|space| space.tree.fdp == ROOT.fdp && space.hidden_by.is_none());
        let last = root.map_or(u32::MAX, |root| {
            root.owned.iter().map(|extent| extent.first + extent.pages - 1).max().unwrap_or(0)
        });
        Ok(Some(PagesInUse { unused, last, spaces }))
    }

    /// Whether a tree uses page `pgno` or has leaked it.
    pub fn contains(&self, pgno: u32) -> bool {
        (1..=self.last).contains(&pgno) && find(&self.unused, pgno).is_none()
    }

    /// Damaged pages that hide a part of the space, with their damage.
    pub fn hidden_by(&self) -> impl Iterator<Item = (u32, &'static str)> + '_ {
        self.spaces.iter().filter_map(|space| space.hidden_by)
    }

    /// Starts a search that decides whether zero pages in use are lost or leaked.
    pub fn search_references(&self, zero: impl IntoIterator<Item = u32>) -> ReferenceSearch<'_> {
        ReferenceSearch::new(&self.spaces, zero.into_iter().collect())
    }
}

/// Extent that contains page `pgno`, among extents that ascend and do not overlap.
fn find(extents: &[Extent], pgno: u32) -> Option<Extent> {
    let behind = extents.partition_point(|extent| extent.first <= pgno);
    let before = extents[behind.checked_sub(1)?];
    (pgno - before.first < before.pages).then_some(before)
}

/// Classification of zero pages that no space tree calls available.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ZeroPages {
    /// Lost pages: something refers to them, so their writes were lost.
    pub lost: Vec<u32>,
    /// Leaked pages: owned by a tree and used by none.
    pub leaked: u64,
    /// Pages that could not be judged, because a damaged page would say whether they are in use.
    pub unjudged: u64,
}

/// Notes for people about zero pages that are no findings.
pub fn describe_zero_pages(leaked: u64, unjudged: u64) -> Vec<String> {
    let said = [
        (leaked, "leaked pages (zero, owned by a tree, and nothing refers to them)"),
        (
            unjudged,
            "zero pages that could not be judged (what hangs below a lost or damaged page is unknown)",
        ),
    ];
    said.into_iter().filter(|(pages, _)| *pages > 0).map(|(pages, what)| format!("{what}: {pages}")).collect()
}

/// Search for references to zero pages in the branch pages of the trees that own them. While there is a
/// [`next_page`](Self::next_page), the caller reads that page and passes it to [`look`](Self::look).
pub struct ReferenceSearch<'a> {
    spaces: &'a [Space],
    /// Zero pages to which no reference has been found so far.
    open: BTreeSet<u32>,
    lost: Vec<u32>,
    /// Branch pages to search, each with its tree.
    ahead: Vec<(u32, usize)>,
    seen: BTreeSet<u32>,
    /// Trees with a page that cannot be read, so that what lies below it is unknown.
    blind: BTreeSet<usize>,
}

impl<'a> ReferenceSearch<'a> {
    fn new(spaces: &'a [Space], open: BTreeSet<u32>) -> ReferenceSearch<'a> {
        let trees: BTreeSet<usize> = open.iter().filter_map(|pgno| owner(spaces, *pgno)).collect();
        let mut search = ReferenceSearch {
            spaces,
            open,
            lost: Vec::new(),
            ahead: Vec::new(),
            seen: BTreeSet::new(),
            blind: BTreeSet::new(),
        };
        for (index, space) in spaces.iter().enumerate() {
            space.roots.iter().for_each(|root| search.refer(*root, index, false));
            if !search.open.is_empty() && (space.hidden_by.is_some() || trees.contains(&index)) {
                search.refer(space.tree.fdp, index, true);
            }
        }
        search
    }

    /// Notes a reference to page `pgno` of tree number `index`.
    fn refer(&mut self, pgno: u32, index: usize, has_children: bool) {
        if self.open.remove(&pgno) {
            self.lost.push(pgno);
            if has_children {
                self.blind.insert(index);
            }
        } else if has_children && self.seen.insert(pgno) {
            self.ahead.push((pgno, index));
        }
    }

    /// Next page to search.
    pub fn next_page(&self) -> Option<u32> {
        self.ahead.last().map(|(pgno, _)| *pgno)
    }

    /// Searches the [`next_page`](Self::next_page); `None`: it is damaged, or the file lacks it.
    pub fn look(&mut self, page: Option<PageView<'_>>) {
        let Some((_, index)) = self.ahead.pop() else { return };
        let objid = self.spaces[index].tree.objid;
        let Some(page) = page.filter(|page| page.objid() == objid) else {
            self.blind.insert(index);
            return;
        };
        if page.is_leaf() {
            return;
        }
        let has_children = page.flags() & page_flags::PARENT_OF_LEAF == 0;
        for slot in 0..page.node_count() {
            if let Some(child) = page.node(slot).child() {
                self.refer(child, index, has_children);
            }
        }
    }

    /// Classification of the zero pages. A page without a reference counts as leaked once every page was searched.
    pub fn end(self) -> ZeroPages {
        let mut zero = ZeroPages { lost: self.lost, ..ZeroPages::default() };
        let is_hidden = self.spaces.iter().any(|space| space.hidden_by.is_some());
        for pgno in self.open {
            let is_blind = owner(self.spaces, pgno).is_some_and(|index| self.blind.contains(&index));
            if is_hidden {
                zero.unjudged += 1;
            } else if is_blind {
                // A tree has taken the page, and the page that would refer to it is damaged.
                zero.lost.push(pgno);
            } else {
                zero.leaked += 1;
            }
        }
        zero.lost.sort_unstable();
        zero
    }
}

/// Tree whose space contains page `pgno` and that has not passed it to another tree.
fn owner(spaces: &[Space], pgno: u32) -> Option<usize> {
    spaces.iter().rposition(|space| find(&space.owned, pgno).is_some())
}

//! Which pages of a database its trees use, as its space trees say.
//!
//! Invariant: a page in use has been written once the database is closed, because the record that takes a page
//! into use also makes its contents. So a page in use that is zero was lost.
//!
//! Limits: reads the catalog and the space trees of every table; pages of newer space formats are refused as damage.

use edb::catalog::system;

use crate::database::{ROOT, schema};
use crate::pager::{Pager, Result};
use crate::space::{Extent, SpaceHeader, extents, split_buffer};
use crate::tree::view;

/// The pages that trees use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PagesInUse {
    /// Pages that the database owns and no tree uses: ascending by first page.
    unused: Vec<Extent>,
    last: u32,
}

impl PagesInUse {
    /// Asks every space tree of the database; `None` if it has no catalog that names its trees.
    ///
    /// # Errors
    /// If pages are missing or damaged.
    pub fn read(pager: &dyn Pager) -> Result<Option<PagesInUse>> {
        if view(pager, system::OBJECTS_FDP)?.objid() != system::OBJECTS {
            return Ok(None);
        }
        let (mut unused, mut last) = (Vec::new(), 0);
        for tree in schema(pager)?.trees() {
            let header = SpaceHeader::read(pager, tree.fdp)?;
            let mut own = vec![Extent { first: tree.fdp, pages: header.primary_pages }];
            match header.owned_root() {
                Some(root) => {
                    unused.extend(extents(pager, root + 1, tree.objid)?);
                    for root in [root, root + 1] {
                        unused.extend(split_buffer(pager, root)?);
                    }
                    if tree.fdp == ROOT.fdp {
                        own = extents(pager, root, tree.objid)?;
                    }
                }
                None => unused.extend(header.unused_extents(tree.fdp)),
            }
            if tree.fdp == ROOT.fdp {
                last = own.iter().map(|extent| extent.first + extent.pages - 1).max().unwrap_or(0);
            }
        }
        unused.sort_unstable_by_key(|extent| extent.first);
        Ok(Some(PagesInUse { unused, last }))
    }

    /// Whether a tree uses page `pgno`.
    pub fn contains(&self, pgno: u32) -> bool {
        let behind = self.unused.partition_point(|extent| extent.first <= pgno);
        let before = behind.checked_sub(1).map(|index| self.unused[index]);
        let is_unused = before.is_some_and(|extent| pgno - extent.first < extent.pages);
        (1..=self.last).contains(&pgno) && !is_unused
    }
}

//! Proof that trees and space are whole: what single pages cannot show.
//!
//! Invariants
//! 1. A tree passes only if order, separators, levels, page flags and the leaf chain are right on every page.
//! 2. A database passes only if each page is owned once, and is in use, available or handed to a child tree.
//!
//! Limits: reads every page of the trees; remembers every page number.

use std::collections::BTreeMap;

use edb::page::page_flags;

use crate::pager::{Pager, Result, damaged};
use crate::space::{Extent, SpaceHeader, extents};
use crate::tree::{Tree, keys_repeat, view};
use crate::view::PageView;

/// Pages and entries of a checked tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TreePages {
    /// Pages of the tree, without those of its space trees.
    pub pages: Vec<u32>,
    /// Number of entries, with those flagged deleted.
    pub entries: u64,
}

/// Use of space in a checked database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Number of pages that trees use.
    pub used_pages: u64,
    /// Number of pages that are available to trees.
    pub available_pages: u64,
    /// Number of leaked pages: owned by a tree that neither uses nor can use them; harmless.
    pub leaked_pages: u64,
}

struct Walk<'p> {
    pager: &'p dyn Pager,
    tree: Tree,
    root_flags: u32,
    found: TreePages,
    /// Leaves with their left and right neighbours, in key order.
    chain: Vec<(u32, u32, u32)>,
    last: Option<Vec<u8>>,
}

const KIND: u32 = page_flags::SPACE | page_flags::INDEX | page_flags::LONG_VALUE | page_flags::NON_UNIQUE;

/// Checks one tree.
///
/// # Errors
/// `Damaged` with the first page found wrong, or `Missing`.
pub fn tree(pager: &dyn Pager, tree: Tree) -> Result<TreePages> {
    let root_flags = view(pager, tree.fdp)?.flags();
    let mut walk =
        Walk { pager, tree, root_flags, found: TreePages::default(), chain: Vec::new(), last: None };
    walk.page(tree.fdp, None, None, None)?;
    for (i, (pgno, left, right)) in walk.chain.iter().enumerate() {
        let expected_left = i.checked_sub(1).map_or(0, |i| walk.chain[i].0);
        let expected_right = walk.chain.get(i + 1).map_or(0, |leaf| leaf.0);
        if (*left, *right) != (expected_left, expected_right) {
            return damaged(*pgno, "not linked to its neighbours");
        }
    }
    Ok(walk.found)
}

impl Walk<'_> {
    fn page(&mut self, pgno: u32, low: Option<&[u8]>, high: Option<&[u8]>, leaf: Option<bool>) -> Result<()> {
        let page = view(self.pager, pgno)?;
        self.check_header(pgno, page, leaf)?;
        self.found.pages.push(pgno);
        if self.found.pages.len() > 1 << 24 {
            return damaged(pgno, "its tree does not end");
        }
        if page.is_leaf() {
            return self.leaf(pgno, page, low, high);
        }
        if page.node_count() == 0 {
            return damaged(pgno, "branch page without entries");
        }
        let below_is_leaf = page.flags() & page_flags::PARENT_OF_LEAF != 0;
        let mut low = low.map(<[u8]>::to_vec);
        for slot in 0..page.node_count() {
            let node = page.node(slot);
            let Some(child) = node.child() else { return damaged(pgno, "branch entry without a child") };
            let key = node.key();
            let is_last = slot + 1 == page.node_count();
            if is_last && !key.is_empty() && high != Some(&key[..]) {
                return damaged(pgno, "its last separator is not that of its parent");
            }
            let upper = if is_last { high } else { Some(&key[..]) };
            if upper.zip(low.as_deref()).is_some_and(|(upper, low)| upper <= low)
                || upper.zip(high).is_some_and(|(upper, high)| upper > high)
            {
                return damaged(pgno, "separators out of order");
            }
            self.page(child, low.as_deref(), upper, Some(below_is_leaf))?;
            low = Some(key);
        }
        Ok(())
    }

    fn check_header(&self, pgno: u32, page: PageView, leaf: Option<bool>) -> Result<()> {
        if page.to_ref().validate().is_err() {
            return damaged(pgno, "malformed");
        }
        if page.objid() != self.tree.objid || (page.flags() ^ self.root_flags) & KIND != 0 {
            return damaged(pgno, "a page of another tree");
        }
        if page.is_root() != (pgno == self.tree.fdp) || leaf.is_some_and(|leaf| leaf != page.is_leaf()) {
            return damaged(pgno, "on a wrong level");
        }
        Ok(())
    }

    fn leaf(&mut self, pgno: u32, page: PageView, low: Option<&[u8]>, high: Option<&[u8]>) -> Result<()> {
        for node in page.nodes() {
            let mut entry = node.key();
            if keys_repeat(page) {
                entry.extend_from_slice(node.data);
            }
            if self.last.as_ref().is_some_and(|last| entry <= *last) {
                return damaged(pgno, "entries out of order");
            }
            if low.is_some_and(|low| &entry[..] < low) || high.is_some_and(|high| &entry[..] >= high) {
                return damaged(pgno, "an entry outside its separators");
            }
            self.last = Some(entry);
            self.found.entries += 1;
        }
        self.chain.push((pgno, page.prev(), page.next()));
        Ok(())
    }
}

/// Checks the given trees and the space of the whole database. `trees` has every tree, the database root included.
///
/// # Errors
/// `Damaged` with the first page found wrong, or `Missing`.
pub fn database(pager: &dyn Pager, trees: &[Tree]) -> Result<Usage> {
    let mut usage = Usage::default();
    let mut owners: BTreeMap<u32, (u32, Vec<Extent>)> = BTreeMap::new();
    let mut holders: BTreeMap<u32, u32> = BTreeMap::new();
    let mut hold = |pgno: u32, fdp: u32| match holders.insert(pgno, fdp) {
        None => Ok(()),
        Some(_) => damaged(pgno, "held twice"),
    };
    for one in trees {
        let mut held = tree(pager, *one)?.pages;
        let header = SpaceHeader::read(pager, one.fdp)?;
        let (owned, available) = match header.owned_root() {
            Some(root) => {
                for root in [root, root + 1] {
                    held.extend(tree(pager, Tree { fdp: root, ..*one })?.pages);
                }
                (extents(pager, root, one.objid)?, extents(pager, root + 1, one.objid)?)
            }
            None => {
                (vec![Extent { first: one.fdp, pages: header.primary_pages }], header.free_extents(one.fdp))
            }
        };
        usage.used_pages += held.len() as u64;
        let free = available.iter().flat_map(|extent| extent.first..extent.first + extent.pages);
        let free: Vec<u32> = free.collect();
        usage.available_pages += free.len() as u64;
        for pgno in held.into_iter().chain(free) {
            hold(pgno, one.fdp)?;
        }
        owners.insert(one.fdp, (header.parent, owned));
    }
    usage.leaked_pages = check_owners(&owners, &holders)?;
    Ok(usage)
}

/// Checks that every page is held by the innermost tree that owns it. Returns the number of pages that no tree holds.
fn check_owners(owners: &BTreeMap<u32, (u32, Vec<Extent>)>, holders: &BTreeMap<u32, u32>) -> Result<u64> {
    // Parents before children, so that a child's extents overwrite those of its parent.
    let depth = |fdp: u32| {
        let mut depth = 0;
        let mut at = fdp;
        while let Some((parent, _)) = owners.get(&at).filter(|(parent, _)| *parent != 0 && depth < 8) {
            (depth, at) = (depth + 1, *parent);
        }
        depth
    };
    let mut order: Vec<u32> = owners.keys().copied().collect();
    order.sort_by_key(|fdp| depth(*fdp));
    let mut owner_of: BTreeMap<u32, u32> = BTreeMap::new();
    for fdp in order {
        let (parent, owned) = &owners[&fdp];
        for extent in owned {
            for pgno in extent.first..extent.first + extent.pages {
                let before = owner_of.insert(pgno, fdp);
                if before != (*parent != 0).then_some(*parent) {
                    return damaged(pgno, "owned by two trees, or not by the parent");
                }
            }
        }
    }
    for (pgno, holder) in holders {
        if owner_of.get(pgno) != Some(holder) {
            return damaged(*pgno, "held by a tree that does not own it");
        }
    }
    Ok((owner_of.len() - holders.len()) as u64)
}

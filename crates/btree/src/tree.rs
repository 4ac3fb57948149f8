//! Reading B+ trees: descent, seeking, walking the leaves.
//!
//! Invariants
//! 1. A separator is an exclusive upper bound of its child; the last entry of a branch page is taken as open,
//!    with or without a key.
//! 2. Keys ascend along the leaf chain; where keys repeat, key and data as one string do.
//! 3. A page that contradicts its tree (wrong tree, wrong level, neighbours that do not lead back) gives
//!    `Stop::Damaged`, never a panic.
//!
//! Limits: keys up to 255 bytes, trees of 12 levels.

use edb::page::Node;
use smallvec::SmallVec;

use crate::descents::Step;
use crate::pager::{Pager, Result, damaged};
use crate::view::PageView;

/// Longest key.
pub const MAX_KEY_BYTES: usize = 255;
const MAX_LEVELS: usize = 12;

/// Names a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tree {
    /// Root page; never changes.
    pub fdp: u32,
    /// Object id, which every page of the tree carries.
    pub objid: u32,
    /// How full appending leaves a page.
    pub density_pct: u8,
}

/// An entry's place. Good until a page changes: after a wait, seek again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Leaf page.
    pub pgno: u32,
    /// Slot on it.
    pub slot: usize,
}

/// Which entry to seek.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seek {
    /// The one with this key.
    Exact,
    /// The first with this key or a greater one.
    AtLeast,
    /// The last with this key or a smaller one.
    AtMost,
}

/// The way from the root to a leaf: pages with the slot taken on each.
pub(crate) type Path = SmallVec<[Position; 6]>;

/// A leaf position and how it was reached.
pub(crate) struct Descent {
    pub path: Path,
    /// The entry is there; else the position is where it belongs.
    pub exact: bool,
}

pub(crate) fn view(pager: &dyn Pager, pgno: u32) -> Result<PageView<'_>> {
    pager.page(pgno)
}

/// Whether entries of this page's tree are ordered by key and data. Space trees carry their owner's flag but
/// have unique keys themselves.
pub(crate) fn keys_repeat(page: PageView) -> bool {
    page.is_non_unique() && !page.is_space()
}

impl Position {
    /// The entry there. It may be flagged deleted.
    ///
    /// # Errors
    /// If the page is missing, or the position is none (any more).
    pub fn node(self, pager: &dyn Pager) -> Result<Node<'_>> {
        let page = view(pager, self.pgno)?;
        if self.slot >= page.node_count() {
            return damaged(self.pgno, "no node at this position");
        }
        Ok(page.node(self.slot))
    }
}

/// The entry of `tree` with this key, flagged deleted or not. Where keys repeat: the first one.
///
/// # Errors
/// If pages are missing or damaged.
pub fn get<'p>(pager: &'p dyn Pager, tree: Tree, key: &[u8]) -> Result<Option<Node<'p>>> {
    match seek(pager, tree, key, Seek::Exact)? {
        Some(position) => Ok(Some(position.node(pager)?)),
        None => Ok(None),
    }
}

/// The place of an entry, flagged deleted or not. Where keys repeat, `Exact` and `AtLeast` give the first one with the
/// key and `AtMost` the last.
///
/// # Errors
/// If pages are missing or damaged.
pub fn seek(pager: &dyn Pager, tree: Tree, key: &[u8], what: Seek) -> Result<Option<Position>> {
    let Descent { path, exact } = descend(pager, tree, key, &[])?;
    let at = leaf_of(&path);
    match what {
        Seek::Exact if exact => Ok(Some(at)),
        Seek::Exact => {
            // Where keys repeat no entry equals the bare key: the first of its entries follows.
            let Some(found) = first_from(pager, tree, at)? else { return Ok(None) };
            let same = found.node(pager)?.compare_key(key).is_eq();
            Ok(same.then_some(found))
        }
        Seek::AtLeast => first_from(pager, tree, at),
        Seek::AtMost => {
            let mut at = at;
            // Where keys repeat the place found lies before all entries with the key.
            while let Some(next) =
                if keys_repeat(view(pager, at.pgno)?) { first_from(pager, tree, at)? } else { None }
            {
                if next.node(pager)?.compare_key(key).is_gt() {
                    break;
                }
                at = Position { slot: next.slot + 1, ..next };
            }
            if exact { Ok(Some(at)) } else { previous(pager, tree, at) }
        }
    }
}

/// The first entry of the tree.
///
/// # Errors
/// If pages are missing or damaged.
pub fn first(pager: &dyn Pager, tree: Tree) -> Result<Option<Position>> {
    let descent = descend_by(pager, tree, |_, _, page| (0, child_in(page, 0)))?;
    first_from(pager, tree, leaf_of(&descent))
}

/// The last entry of the tree.
///
/// # Errors
/// If pages are missing or damaged.
pub fn last(pager: &dyn Pager, tree: Tree) -> Result<Option<Position>> {
    let path = descend_by(pager, tree, |_, _, page| {
        let slot = page.node_count().saturating_sub(usize::from(!page.is_leaf()));
        (slot, child_in(page, slot))
    })?;
    previous(pager, tree, leaf_of(&path))
}

/// The entry after `at`.
///
/// # Errors
/// If pages are missing or damaged.
pub fn next(pager: &dyn Pager, tree: Tree, at: Position) -> Result<Option<Position>> {
    first_from(pager, tree, Position { slot: at.slot + 1, ..at })
}

/// The entry before `at`.
///
/// # Errors
/// If pages are missing or damaged.
pub fn previous(pager: &dyn Pager, tree: Tree, at: Position) -> Result<Option<Position>> {
    let mut at = at;
    loop {
        if at.slot > 0 {
            return Ok(Some(Position { slot: at.slot - 1, ..at }));
        }
        let pgno = view(pager, at.pgno)?.prev();
        if pgno == 0 {
            return Ok(None);
        }
        let page = leaf(pager, tree, pgno)?;
        if page.next() != at.pgno {
            return damaged(pgno, "its right neighbour does not lead back");
        }
        at = Position { pgno, slot: page.node_count() };
    }
}

/// The entry at `at`, or the first one behind it if the page ends there.
fn first_from(pager: &dyn Pager, tree: Tree, at: Position) -> Result<Option<Position>> {
    let mut at = at;
    loop {
        let page = view(pager, at.pgno)?;
        if at.slot < page.node_count() {
            return Ok(Some(at));
        }
        let pgno = page.next();
        if pgno == 0 {
            return Ok(None);
        }
        if leaf(pager, tree, pgno)?.prev() != at.pgno {
            return damaged(pgno, "its left neighbour does not lead back");
        }
        at = Position { pgno, slot: 0 };
    }
}

fn leaf(pager: &dyn Pager, tree: Tree, pgno: u32) -> Result<PageView<'_>> {
    let page = view(pager, pgno)?;
    if page.objid() != tree.objid || !page.is_leaf() {
        return damaged(pgno, "no leaf of the tree that leads here");
    }
    Ok(page)
}

pub(crate) fn leaf_of(path: &Path) -> Position {
    path[path.len() - 1]
}

/// The way to the entry with `key`, or `key` and `data` where keys repeat.
pub(crate) fn descend(pager: &dyn Pager, tree: Tree, key: &[u8], data: &[u8]) -> Result<Descent> {
    let mut exact = false;
    let mut way = pager.descents().map(|descents| descents.way_to(tree.fdp, key));
    let path = descend_by(pager, tree, |level, pgno, page| {
        let data = if keys_repeat(page) { data } else { &[] };
        let dbtime = page.dbtime();
        let known = way.as_mut().and_then(|way| way.step(level, pgno, dbtime, data));
        if let Some(step) = known {
            exact = step.exact;
            return (step.at.slot, step.child);
        }
        let (slot, child) = if page.is_leaf() {
            let found = if keys_repeat(page) { page.search_entry(key, data) } else { page.search(key) };
            exact = found.is_ok();
            (found.unwrap_or_else(|slot| slot), None)
        } else {
            let slot = page.child_slot_of_entry(key, data);
            (slot, child_in(page, slot))
        };
        if let Some(way) = &mut way {
            way.steps.push(Step { at: Position { pgno, slot }, dbtime, exact, child });
        }
        (slot, child)
    })?;
    Ok(Descent { path, exact })
}

/// The child that a slot of a branch page leads to, if there is one.
fn child_in(page: PageView, slot: usize) -> Option<u32> {
    (slot < page.node_count()).then(|| page.child(slot)).flatten()
}

/// The way from the root to a leaf that `choose` takes: it is told the level, counted from the root, and the page, and
/// says the slot and on branch pages its child.
fn descend_by(
    pager: &dyn Pager,
    tree: Tree,
    mut choose: impl FnMut(usize, u32, PageView) -> (usize, Option<u32>),
) -> Result<Path> {
    let mut path = Path::new();
    let mut pgno = tree.fdp;
    let mut leaf_expected = None;
    loop {
        let page = view(pager, pgno)?;
        if page.objid() != tree.objid || page.is_root() != path.is_empty() {
            return damaged(pgno, "not a page of the tree that leads here");
        }
        if path.len() == MAX_LEVELS || leaf_expected.is_some_and(|leaf| leaf != page.is_leaf()) {
            return damaged(pgno, "on a level where its tree has no such page");
        }
        let (slot, child) = choose(path.len(), pgno, page);
        path.push(Position { pgno, slot });
        if page.is_leaf() {
            return Ok(path);
        }
        leaf_expected = Some(page.flags() & edb::page::page_flags::PARENT_OF_LEAF != 0);
        pgno = match child {
            Some(child) => child,
            None => return damaged(pgno, "branch page without a child to go to"),
        };
    }
}

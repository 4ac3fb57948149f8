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

use edb::page::{Node, page_flags};
use smallvec::SmallVec;

use crate::descents::Step;
use crate::pager::{Pager, Result, damaged};
use crate::view::{Head, PageView};

/// Longest key, bytes.
pub const MAX_KEY_BYTES: usize = 255;
const MAX_LEVELS: usize = 12;

const NO_SUCH_LEVEL: &str = "on a level where its tree has no such page";

/// Identity of a tree: root page, object id and density.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tree {
    /// Root page of the tree; it never changes.
    pub fdp: u32,
    /// Object id of the tree, which all of its pages carry.
    pub objid: u32,
    /// Density: fill to which appending leaves a page, percent.
    pub density_pct: u8,
}

/// Position of an entry. It is valid until a page changes: after a wait, seek again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Number of the leaf page.
    pub pgno: u32,
    /// Slot on the leaf page.
    pub slot: usize,
}

/// Kind of a search in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seek {
    /// The entry with this key.
    Exact,
    /// The first entry with this key or a greater one.
    AtLeast,
    /// The last entry with this key or a smaller one.
    AtMost,
}

/// Path from the root to a leaf: pages with the slot taken on each.
pub(crate) type Path = SmallVec<[Position; 6]>;

/// A leaf position and how it was reached.
pub(crate) struct Descent {
    pub path: Path,
    /// Whether the entry exists; otherwise the position is where it belongs.
    pub exact: bool,
}

/// A leaf position and its page.
pub(crate) struct Leaf<'p> {
    pub page: PageView<'p>,
    pub at: Position,
    /// Whether the entry exists, as in [`Descent`].
    pub exact: bool,
}

pub(crate) fn view(pager: &dyn Pager, pgno: u32) -> Result<PageView<'_>> {
    pager.page(pgno)
}

/// Whether entries of this page's tree are ordered by key and data. Space trees carry their owner's flag but
/// have unique keys themselves.
pub(crate) fn keys_repeat(page: PageView) -> bool {
    page.head().keys_repeat()
}

impl Position {
    /// Returns the entry at a position. It may be flagged deleted.
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

/// Returns the entry of `tree` with this key, flagged deleted or not. Where keys repeat: the first one.
///
/// # Errors
/// If pages are missing or damaged.
pub fn get<'p>(pager: &'p dyn Pager, tree: Tree, key: &[u8]) -> Result<Option<Node<'p>>> {
    let leaf = descend_to_leaf(pager, tree, key, &[])?;
    if leaf.exact {
        return Ok(Some(leaf.page.node(leaf.at.slot)));
    }
    // Where keys repeat no entry equals the bare key: the first of its entries follows.
    let Some(found) = first_from(pager, tree, leaf.at)? else { return Ok(None) };
    Ok(Some(found.node(pager)?).filter(|node| node.compare_key(key).is_eq()))
}

/// Finds the position of an entry, flagged deleted or not. Where keys repeat, `Exact` and `AtLeast` find the first one
/// with the key and `AtMost` the last.
///
/// # Errors
/// If pages are missing or damaged.
pub fn seek(pager: &dyn Pager, tree: Tree, key: &[u8], what: Seek) -> Result<Option<Position>> {
    let Leaf { at, exact, .. } = descend_to_leaf(pager, tree, key, &[])?;
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

/// Position of the first entry of the tree.
///
/// # Errors
/// If pages are missing or damaged.
pub fn first(pager: &dyn Pager, tree: Tree) -> Result<Option<Position>> {
    let leaf = descend_by(pager, tree, |_, pgno, page, head| Step::to(pgno, 0, page, head))?;
    first_from(pager, tree, leaf.at)
}

/// Position of the last entry of the tree.
///
/// # Errors
/// If pages are missing or damaged.
pub fn last(pager: &dyn Pager, tree: Tree) -> Result<Option<Position>> {
    let leaf = descend_by(pager, tree, |_, pgno, page, head| {
        let slot = page.node_count().saturating_sub(usize::from(!head.is_leaf()));
        Step::to(pgno, slot, page, head)
    })?;
    previous(pager, tree, leaf.at)
}

/// Position of the entry after `at`.
///
/// # Errors
/// If pages are missing or damaged.
pub fn next(pager: &dyn Pager, tree: Tree, at: Position) -> Result<Option<Position>> {
    first_from(pager, tree, Position { slot: at.slot + 1, ..at })
}

/// Position of the entry before `at`.
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

/// Position of the entry at `at`, or of the first one behind it if the page ends there.
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

impl Step {
    /// Step of a path to this slot of a page.
    fn to(pgno: u32, slot: usize, page: PageView, head: Head) -> Step {
        let leads_on = !head.is_leaf() && slot < page.node_count();
        let child = if leads_on { page.child(slot) } else { None };
        Step { pgno, slot: slot as u16, dbtime: head.dbtime, exact: false, child }
    }

    /// Step of a path to the place of `key` (and `data` where keys repeat) on a page.
    fn towards(pgno: u32, key: &[u8], data: &[u8], page: PageView, head: Head) -> Step {
        let data = if head.keys_repeat() { data } else { &[] };
        if !head.is_leaf() {
            return Step::to(pgno, page.child_slot_of_entry(key, data), page, head);
        }
        let found = if head.keys_repeat() { page.search_entry(key, data) } else { page.search(key) };
        let slot = found.unwrap_or_else(|slot| slot) as u16;
        Step { pgno, slot, dbtime: head.dbtime, exact: found.is_ok(), child: None }
    }
}

/// Path to the entry with `key` (and `data` where keys repeat).
pub(crate) fn descend(pager: &dyn Pager, tree: Tree, key: &[u8], data: &[u8]) -> Result<Descent> {
    let mut path = Path::new();
    let leaf = descend_by(pager, tree, |_, pgno, page, head| {
        let step = Step::towards(pgno, key, data, page, head);
        path.push(Position { pgno, slot: step.slot.into() });
        step
    })?;
    Ok(Descent { path, exact: leaf.exact })
}

/// Leaf at the end of the path that [`descend`] would return; uses the remembered descent.
pub(crate) fn descend_to_leaf<'p>(
    pager: &'p dyn Pager,
    tree: Tree,
    key: &[u8],
    data: &[u8],
) -> Result<Leaf<'p>> {
    let Some(descents) = pager.descents() else {
        return descend_by(pager, tree, |_, pgno, page, head| Step::towards(pgno, key, data, page, head));
    };
    let mut way = descents.way_to(tree.fdp, key);
    descend_by(pager, tree, |level, pgno, page, head| {
        let tail = if head.keys_repeat() { data } else { &[] };
        way.step(level, pgno, head.dbtime, tail).unwrap_or_else(|| {
            let step = Step::towards(pgno, key, data, page, head);
            way.remember(level, step);
            step
        })
    })
}

/// Path from the root to a leaf on which `choose` picks each step, given the level (0 is the root) and the page.
fn descend_by<'p>(
    pager: &'p dyn Pager,
    tree: Tree,
    mut choose: impl FnMut(usize, u32, PageView<'p>, Head) -> Step,
) -> Result<Leaf<'p>> {
    let mut pgno = tree.fdp;
    let mut leaf_expected = None;
    for level in 0..MAX_LEVELS {
        let page = view(pager, pgno)?;
        let head = page.head();
        if head.objid != tree.objid || head.is_root() != (level == 0) {
            return damaged(pgno, "not a page of the tree that leads here");
        }
        if leaf_expected.is_some_and(|leaf| leaf != head.is_leaf()) {
            return damaged(pgno, NO_SUCH_LEVEL);
        }
        let Step { slot, exact, child, .. } = choose(level, pgno, page, head);
        if head.is_leaf() {
            return Ok(Leaf { page, at: Position { pgno, slot: slot.into() }, exact });
        }
        leaf_expected = Some(head.flags & page_flags::PARENT_OF_LEAF != 0);
        pgno = match child {
            Some(child) => child,
            None => return damaged(pgno, "branch page without a child to go to"),
        };
    }
    damaged(pgno, NO_SUCH_LEVEL)
}

//! Removing entries for good: small pages join a neighbour, empty ones leave the tree and go back to its space.

use edb::page::{page_flags, usable_bytes};

use crate::change::{NodeKey, PageOp};
use crate::overlay::Overlay;
use crate::pager::{Result, Stop};
use crate::tree::{Path, Tree, descend, leaf_of};
use crate::view::PageView;

/// Fill in percent below which a leaf looks for a neighbour to join.
const SMALL_PCT: usize = 20;
/// Largest fill of the joined leaf in percent, so that it does not split at once.
const JOINED_PCT: usize = 80;

/// Whether a leaf with `used_bytes` in nodes should leave the tree or join a neighbour.
pub(crate) fn is_small(page: PageView, used_bytes: usize) -> bool {
    !page.is_root() && used_bytes * 100 < usable_bytes(page.page_bytes()) * SMALL_PCT
}

/// Bytes that nodes take on a page.
pub(crate) fn used_bytes(page: PageView) -> usize {
    usable_bytes(page.page_bytes()).saturating_sub(page.free_bytes() + page.external_header().len())
}

/// Callback that returns a page without references to the space from which the tree took it.
pub(crate) type GivePage = fn(&mut Overlay, Tree, u32) -> Result<()>;

/// Removes the entry with `key` (and `data` where keys repeat).
pub(crate) fn remove(
    overlay: &mut Overlay,
    tree: Tree,
    key: &[u8],
    data: &[u8],
    give_page: GivePage,
) -> Result<()> {
    let descent = descend(overlay, tree, key, data)?;
    if !descent.exact {
        return Err(Stop::NotFound);
    }
    remove_at(overlay, tree, &descent.path, give_page)
}

/// Removes the entry at the end of `path`.
pub(crate) fn remove_at(overlay: &mut Overlay, tree: Tree, path: &Path, give_page: GivePage) -> Result<()> {
    let at = leaf_of(path);
    overlay.edit(at.pgno, PageOp::Delete { slot: at.slot as u16 })?;
    let page = overlay.view(at.pgno)?;
    if page.is_root() {
        return Ok(());
    }
    if page.node_count() == 0 {
        return drop_page(overlay, tree, path, 0, give_page);
    }
    if is_small(page, used_bytes(page)) { join_neighbour(overlay, tree, path, give_page) } else { Ok(()) }
}

/// Moves all entries of the path's leaf into a neighbour under the same parent, if they fit.
fn join_neighbour(overlay: &mut Overlay, tree: Tree, path: &Path, give_page: GivePage) -> Result<()> {
    let at = leaf_of(path);
    let parent = path[path.len() - 2];
    for right in [true, false] {
        let branch = overlay.view(parent.pgno)?;
        let slot = if right { Some(parent.slot + 1) } else { parent.slot.checked_sub(1) };
        let Some(slot) = slot.filter(|slot| *slot < branch.node_count()) else { continue };
        let Some(neighbour) = branch.node(slot).child() else { continue };
        let (page, target) = (overlay.view(at.pgno)?, overlay.view(neighbour)?);
        let nodes: Vec<PageOp> = entries(page, if right { 0 } else { target.node_count() });
        let added: usize = page.nodes().map(|node| target.bytes_needed(&node.key(), node.data.len())).sum();
        if (used_bytes(target) + added) * 100 > usable_bytes(page.page_bytes()) * JOINED_PCT {
            continue;
        }
        for op in nodes {
            overlay.edit(neighbour, op)?;
        }
        if right {
            return drop_page(overlay, tree, path, 0, give_page);
        }
        // The left neighbour takes over this page's upper bound: its own entry goes, this one leads to it.
        let child = PageOp::Replace { slot: parent.slot as u16, data: neighbour.to_le_bytes().into() };
        overlay.edit(parent.pgno, child)?;
        overlay.edit(parent.pgno, PageOp::Delete { slot: slot as u16 })?;
        return release_leaf(overlay, tree, at.pgno, give_page);
    }
    Ok(())
}

fn entries(page: PageView, first_slot: usize) -> Vec<PageOp> {
    let insert = |(i, node): (usize, edb::page::Node)| PageOp::Insert {
        slot: (first_slot + i) as u16,
        flags: node.flags & !edb::page::node_flags::COMPRESSED,
        key: node.key().into(),
        data: node.data.into(),
    };
    page.nodes().enumerate().map(insert).collect()
}

/// Removes the page at `height` of the path, which has no entries left, from the tree.
fn drop_page(
    overlay: &mut Overlay,
    tree: Tree,
    path: &Path,
    height: usize,
    give_page: GivePage,
) -> Result<()> {
    let pgno = path[path.len() - 1 - height].pgno;
    let parent = path[path.len() - 2 - height];
    let branch = overlay.view(parent.pgno)?;
    let count = branch.node_count();
    if count == 1 {
        if parent.pgno == tree.fdp {
            let flags = branch.flags() & !page_flags::PARENT_OF_LEAF | page_flags::LEAF;
            overlay.edit(tree.fdp, PageOp::Truncate { slot: 0 })?;
            overlay.edit(tree.fdp, PageOp::SetPageFlags { flags })?;
        } else {
            drop_page(overlay, tree, path, height + 1, give_page)?;
        }
    } else if parent.slot + 1 < count {
        // The range goes to the page on the right.
        overlay.edit(parent.pgno, PageOp::Delete { slot: parent.slot as u16 })?;
    } else {
        // The range goes to the page on the left, which becomes the last one.
        let left = branch.node(parent.slot - 1);
        let (first_below, data) = (left.child(), left.data.into());
        let bound = branch.node(parent.slot).key().into();
        overlay.edit(parent.pgno, PageOp::Replace { slot: parent.slot as u16, data })?;
        overlay.edit(parent.pgno, PageOp::Delete { slot: parent.slot as u16 - 1 })?;
        raise_bound(overlay, first_below, height, &bound)?;
    }
    if height == 0 { release_leaf(overlay, tree, pgno, give_page) } else { give_page(overlay, tree, pgno) }
}

/// Gives the last entries of the branch pages down the right edge of a subtree a new upper bound. `height` levels of
/// them lie below and including page `first`. A page without room for the key gets none, which readers take as
/// unbounded.
fn raise_bound(overlay: &mut Overlay, first: Option<u32>, height: usize, bound: &NodeKey) -> Result<()> {
    let mut below = first;
    for _ in 0..height {
        let Some(pgno) = below else { return Ok(()) };
        let page = overlay.view(pgno)?;
        let Some(last) = page.node_count().checked_sub(1) else { return Ok(()) };
        below = page.child(last);
        let Some(child) = below.map(u32::to_le_bytes) else { return Ok(()) };
        overlay.edit(pgno, PageOp::Delete { slot: last as u16 })?;
        let fits = overlay.view(pgno)?.fits(bound, child.len());
        let key = if fits { bound.clone() } else { NodeKey::new() };
        overlay.edit(pgno, PageOp::Insert { slot: last as u16, flags: 0, key, data: child.into() })?;
    }
    Ok(())
}

/// Removes a leaf from the chain of leaves and frees its page.
fn release_leaf(overlay: &mut Overlay, tree: Tree, pgno: u32, give_page: GivePage) -> Result<()> {
    let page = overlay.view(pgno)?;
    let (left, right) = (page.prev(), page.next());
    if left != 0 {
        overlay.edit(left, PageOp::SetNext { pgno: right })?;
    }
    if right != 0 {
        overlay.edit(right, PageOp::SetPrevious { pgno: left })?;
    }
    give_page(overlay, tree, pgno)
}

//! Making room: splits of leaves and branch pages, and of the root, whose page number never changes.
//!
//! Invariants
//! 1. A split moves a tail of a page to a new page on its right and puts a separator in front of it into the parent.
//! 2. As in ESE, the last entry of the rightmost branch page of a level has an empty key. On every other branch
//!    page it keeps its separator, which is that of the entry that leads to the page. Older databases of ours
//!    have empty keys there: both are read.
//! 3. An insert at the end of a tree leaves the last page as full as the tree's density and starts a new one.

use edb::page::{page_flags, usable_bytes};

use crate::change::{NodeKey, PageOp};
use crate::overlay::Overlay;
use crate::pager::Result;
use crate::tree::{Path, Tree, keys_repeat, leaf_of};
use crate::view::PageView;

/// Callback that takes a page for a splitting tree: from the tree's space, or for a space tree from pages set aside
/// before.
pub(crate) type TakePage<'a> = &'a mut dyn FnMut(&mut Overlay, Tree) -> Result<u32>;

/// Node that is about to be inserted at the position that the path names.
struct Incoming<'a> {
    key: &'a [u8],
    data: &'a [u8],
}

/// Whether an entry at `slot` of this leaf appends to a page that has reached its density, so that a new page is taken
/// instead.
pub(crate) fn appends_beyond_density(
    page: PageView,
    slot: usize,
    needed_bytes: usize,
    density_pct: u8,
) -> bool {
    let usable = usable_bytes(page.page_bytes());
    slot == page.node_count()
        && slot > 0
        && page.next() == 0
        && !page.is_root()
        && (usable - page.free_bytes().min(usable) + needed_bytes) * 100 > usable * usize::from(density_pct)
}

/// Inserts an entry at the end of `path`, and splits pages as needed.
pub(crate) fn insert_at(
    overlay: &mut Overlay,
    tree: Tree,
    path: &mut Path,
    key: &[u8],
    data: &[u8],
    flags: u8,
    take_page: TakePage,
) -> Result<()> {
    let incoming = Incoming { key, data };
    loop {
        let at = leaf_of(path);
        let page = overlay.view(at.pgno)?;
        let needed = page.bytes_needed(key, data.len());
        if page.fits(key, data.len()) && !appends_beyond_density(page, at.slot, needed, tree.density_pct) {
            let op = PageOp::Insert { slot: at.slot as u16, flags, key: key.into(), data: data.into() };
            return overlay.edit(at.pgno, op);
        }
        split(overlay, tree, path, 0, &incoming, take_page)?;
    }
}

/// Splits the leaf of the path. Afterwards the path leads to where the entry belongs.
pub(crate) fn split_leaf(
    overlay: &mut Overlay,
    tree: Tree,
    path: &mut Path,
    key: &[u8],
    data: &[u8],
    take_page: TakePage,
) -> Result<()> {
    split(overlay, tree, path, 0, &Incoming { key, data }, take_page)
}

/// Splits the page at `height` of the path (0 = leaf). Afterwards the path leads to where the incoming node belongs.
fn split(
    overlay: &mut Overlay,
    tree: Tree,
    path: &mut Path,
    height: usize,
    incoming: &Incoming,
    take_page: TakePage,
) -> Result<()> {
    if path.len() == height + 1 {
        return split_root(overlay, tree, path, take_page);
    }
    let at = path[path.len() - 1 - height];
    let rightmost = path[..path.len() - 1 - height]
        .iter()
        .all(|step| overlay.view(step.pgno).is_ok_and(|page| step.slot + 1 == page.node_count()));
    let page = overlay.view(at.pgno)?;
    let left_count = choose_left_count(page, at.slot, incoming, rightmost);
    let goes_left = at.slot < left_count;
    let keep = if goes_left { left_count - 1 } else { left_count };
    let separator = separator(page, at.slot, left_count, incoming);
    make_parent_room(overlay, tree, path, height + 1, &separator, take_page)?;
    let right = take_page(overlay, tree)?;
    move_tail(overlay, at.pgno, keep, right)?;
    // The parent: what led to the page now leads to its right part, behind an entry for the left part.
    let parent_index = path.len() - 2 - height;
    let parent = path[parent_index];
    let entry = PageOp::Insert {
        slot: parent.slot as u16,
        flags: 0,
        key: separator.into(),
        data: at.pgno.to_le_bytes().into(),
    };
    overlay.edit(parent.pgno, entry)?;
    let follow = PageOp::Replace { slot: parent.slot as u16 + 1, data: right.to_le_bytes().into() };
    overlay.edit(parent.pgno, follow)?;
    if !goes_left {
        path[parent_index].slot += 1;
        let child = &mut path[parent_index + 1];
        child.pgno = right;
        child.slot -= left_count;
    }
    Ok(())
}

/// Splits branch pages above until the parent at `height` takes one more entry in front of the child the path goes to.
fn make_parent_room(
    overlay: &mut Overlay,
    tree: Tree,
    path: &mut Path,
    height: usize,
    separator: &[u8],
    take_page: TakePage,
) -> Result<()> {
    let incoming = Incoming { key: separator, data: &[0; 4] };
    loop {
        let parent = path[path.len() - 1 - height];
        if overlay.view(parent.pgno)?.fits(separator, incoming.data.len()) {
            return Ok(());
        }
        split(overlay, tree, path, height, &incoming, take_page)?;
    }
}

/// Splits the root: its contents move to a new page below it.
fn split_root(overlay: &mut Overlay, tree: Tree, path: &mut Path, take_page: TakePage) -> Result<()> {
    let child = take_page(overlay, tree)?;
    let root = overlay.view(tree.fdp)?;
    let (flags, prefix, count) = (root.flags(), root.prefix().to_vec(), root.node_count());
    let level = page_flags::LEAF | page_flags::PARENT_OF_LEAF;
    let root_level = if root.is_leaf() { page_flags::PARENT_OF_LEAF } else { 0 };
    overlay.format(child, tree.objid, flags & !(page_flags::ROOT | page_flags::FLUSH_TYPE), &prefix)?;
    overlay.append_nodes(child, tree.fdp, 0..count)?;
    overlay.edit(tree.fdp, PageOp::Truncate { slot: 0 })?;
    overlay.edit(tree.fdp, PageOp::SetPageFlags { flags: flags & !level | root_level })?;
    let data = child.to_le_bytes().into();
    overlay.edit(tree.fdp, PageOp::Insert { slot: 0, flags: 0, key: NodeKey::new(), data })?;
    let mut below = path[0];
    below.pgno = child;
    path[0].slot = 0;
    path.insert(1, below);
    Ok(())
}

/// Moves the nodes from `keep` on to the new page `right` and links it behind `pgno`.
fn move_tail(overlay: &mut Overlay, pgno: u32, keep: usize, right: u32) -> Result<()> {
    let page = overlay.view(pgno)?;
    let (objid, flags, header) = (page.objid(), page.flags(), page.prefix().to_vec());
    let (is_leaf, count, next) = (page.is_leaf(), page.node_count(), page.next());
    overlay.format(right, objid, flags & !page_flags::FLUSH_TYPE, &header)?;
    overlay.append_nodes(right, pgno, keep..count)?;
    if keep < count {
        overlay.edit(pgno, PageOp::Truncate { slot: keep as u16 })?;
    }
    if is_leaf {
        overlay.edit(right, PageOp::SetPrevious { pgno })?;
        overlay.edit(right, PageOp::SetNext { pgno: next })?;
        overlay.edit(pgno, PageOp::SetNext { pgno: right })?;
        if next != 0 {
            overlay.edit(next, PageOp::SetPrevious { pgno: right })?;
        }
    }
    Ok(())
}

/// Number of entries that stay on the left page, the incoming one counted at its place.
fn choose_left_count(page: PageView, slot: usize, incoming: &Incoming, rightmost: bool) -> usize {
    let count = page.node_count();
    if page.is_leaf() && slot == count && rightmost {
        return count;
    }
    if !page.is_leaf() && slot + 1 == count && rightmost {
        return slot;
    }
    let new_bytes = page.bytes_needed(incoming.key, incoming.data.len());
    let room = usable_bytes(page.page_bytes()) - page.prefix().len();
    let total = (0..count).map(|i| page.node_bytes(i)).sum::<usize>() + new_bytes;
    let mut left = 0;
    let mut best: Option<(usize, usize)> = None;
    for left_count in 1..=count {
        let last = left_count - 1;
        left += match last.cmp(&slot) {
            std::cmp::Ordering::Less => page.node_bytes(last),
            std::cmp::Ordering::Equal => new_bytes,
            std::cmp::Ordering::Greater => page.node_bytes(last - 1),
        };
        let right = total - left;
        // In a branch page the incoming entry and the one behind it belong to one split: they stay together.
        let torn = !page.is_leaf() && last == slot;
        if left > room || right > room || torn {
            continue;
        }
        let distance = left.abs_diff(right);
        if best.is_none_or(|(_, least)| distance < least) {
            best = Some((left_count, distance));
        }
    }
    // No two pages take it all: cut in front of what follows the entry; it then gets a page of its own.
    best.map_or(slot + 1, |(left_count, _)| left_count)
}

/// Separator of a split: the shortest string above the left page's last entry and not above the right page's first
/// one; in a branch page the left page's last key.
fn separator(page: PageView, slot: usize, left_count: usize, incoming: &Incoming) -> Vec<u8> {
    let entry = |index: usize| {
        let with_data = |key: &[u8], data: &[u8]| {
            if page.is_leaf() && keys_repeat(page) { [key, data].concat() } else { key.to_vec() }
        };
        if index == slot {
            return with_data(incoming.key, incoming.data);
        }
        let node = page.node(if index < slot { index } else { index - 1 });
        with_data(&node.key(), node.data)
    };
    let left = entry(left_count - 1);
    if !page.is_leaf() {
        return left;
    }
    shortest_separator(&left, entry(left_count))
}

/// Shortest prefix of `right` that is above `left`, for `left` below `right`.
fn shortest_separator(left: &[u8], right: Vec<u8>) -> Vec<u8> {
    let shared = left.iter().zip(&right).take_while(|(a, b)| a == b).count();
    let mut separator = right;
    separator.truncate(shared + 1);
    separator
}

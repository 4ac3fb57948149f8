//! Changing entries: each call plans one mini-transaction.
//!
//! Invariants
//! 1. A change of an entry carries its undo; undoing it carries none.
//! 2. A deleted entry stays, flagged, until [`purge`] after its transaction: readers of the committed state
//!    find it, and rolling back needs no space.
//!
//! Limits: an entry fits one page; see [`most_entry_bytes`].

use edb::page::{Node, node_flags, usable_bytes};
use smallvec::smallvec;

use crate::change::{
    Before, EntryData, EntryName, MiniTransaction, NodeKey, PageChange, PageChanges, PageOp, Undo,
};
use crate::merge;
use crate::overlay::Overlay;
use crate::pager::{Pager, Result, Stop, damaged};
use crate::space;
use crate::split::{appends_beyond_density, insert_at};
use crate::tree::{Descent, Leaf, MAX_KEY_BYTES, Tree, descend, descend_to_leaf, keys_repeat, leaf_of};

/// Size of a node beside key and data, bytes: its tag and the length of its key.
const NODE_OVERHEAD_BYTES: usize = 6;

/// Largest size of an entry, key and data together, bytes.
pub fn most_entry_bytes(page_bytes: usize) -> usize {
    usable_bytes(page_bytes) - NODE_OVERHEAD_BYTES
}

fn check_size(pager: &dyn Pager, key: &[u8], data: &[u8], repeats: bool) -> Result<()> {
    if data.is_empty() {
        return Err(Stop::NoData);
    }
    // Where keys repeat, separators are cut from key and data.
    let (bytes, most_bytes) =
        match key.len() > MAX_KEY_BYTES || repeats && key.len() + data.len() > 2 * MAX_KEY_BYTES {
            true => (key.len() + data.len(), MAX_KEY_BYTES),
            false => (key.len() + data.len(), most_entry_bytes(pager.page_bytes())),
        };
    if bytes > most_bytes { Err(Stop::TooLarge { bytes, most_bytes }) } else { Ok(()) }
}

/// Page change with one edit of the page on which an entry was found.
fn change_of(leaf: &Leaf, op: PageOp) -> PageChange {
    PageChange::one(leaf.at.pgno, leaf.page.dbtime(), op)
}

fn with_undo(tree: Tree, key: &[u8], tail: EntryName, was: Before, changes: PageChanges) -> MiniTransaction {
    let undo = Undo { fdp: tree.fdp, objid: tree.objid, key: NodeKey::from_slice(key), tail, was };
    MiniTransaction { undo: Some(undo), changes, ..MiniTransaction::default() }
}

/// Inserts an entry. An entry with this key that is flagged deleted is revived with the new data.
///
/// # Errors
/// `Duplicate` if the entry exists, `TooLarge`, `NoData`, or what pages say.
pub fn insert(pager: &dyn Pager, tree: Tree, key: &[u8], data: &[u8]) -> Result<MiniTransaction> {
    insert_shared(pager, tree, key, &data.into())
}

/// As [`insert`], with data that the caller keeps, so that a repeated call copies nothing.
///
/// # Errors
/// As [`insert`].
pub fn insert_shared(pager: &dyn Pager, tree: Tree, key: &[u8], data: &EntryData) -> Result<MiniTransaction> {
    let leaf = descend_to_leaf(pager, tree, key, data)?;
    let (page, at) = (leaf.page, leaf.at);
    let repeats = keys_repeat(page);
    check_size(pager, key, data, repeats)?;
    let tail = if repeats { EntryName::from_slice(data) } else { EntryName::new() };
    if leaf.exact {
        let node = page.node(at.slot);
        if !node.is_deleted() {
            return Err(Stop::Duplicate);
        }
        let was = Before::Deleted { data: node.data.into() };
        return Ok(with_undo(tree, key, tail, was, set_entry(pager, tree, &leaf, node, key, data, 0)?));
    }
    let needed = page.bytes_needed(key, data.len());
    let fits = needed + page.uncommitted_free_bytes() <= page.free_bytes();
    let changes = if fits && !appends_beyond_density(page, at.slot, needed, tree.density_pct) {
        let (slot, key) = (at.slot as u16, NodeKey::from_slice(key));
        smallvec![change_of(&leaf, PageOp::Insert { slot, flags: 0, key, data: data.clone() })]
    } else {
        let mut path = descend(pager, tree, key, data)?.path;
        let mut overlay = Overlay::new(pager);
        insert_at(&mut overlay, tree, &mut path, key, data, 0, &mut space::allocate)?;
        overlay.finish()
    };
    Ok(with_undo(tree, key, tail, Before::Absent, changes))
}

/// Plans an insert among other changes.
pub(crate) fn insert_in(overlay: &mut Overlay, tree: Tree, key: &[u8], data: &[u8]) -> Result<()> {
    let Descent { mut path, exact } = descend(overlay, tree, key, data)?;
    let repeats = keys_repeat(overlay.view(leaf_of(&path).pgno)?);
    check_size(overlay, key, data, repeats)?;
    if exact {
        return Err(Stop::Duplicate);
    }
    insert_at(overlay, tree, &mut path, key, data, 0, &mut space::allocate)
}

/// Replaces the data of an entry in a tree with unique keys.
///
/// # Errors
/// `NotFound` if there is none or it is flagged deleted, `TooLarge`, `NoData`, or what pages say.
pub fn replace(pager: &dyn Pager, tree: Tree, key: &[u8], data: &[u8]) -> Result<MiniTransaction> {
    replace_shared(pager, tree, key, &data.into())
}

/// As [`replace`], with data that the caller keeps, so that a repeated call copies nothing.
///
/// # Errors
/// As [`replace`].
pub fn replace_shared(
    pager: &dyn Pager,
    tree: Tree,
    key: &[u8],
    data: &EntryData,
) -> Result<MiniTransaction> {
    check_size(pager, key, data, false)?;
    let leaf = descend_to_leaf(pager, tree, key, &[])?;
    if !leaf.exact {
        return Err(Stop::NotFound);
    }
    let node = leaf.page.node(leaf.at.slot);
    if node.is_deleted() {
        return Err(Stop::NotFound);
    }
    let was = Before::Data { data: node.data.into() };
    let changes = set_entry(pager, tree, &leaf, node, key, data, 0)?;
    Ok(with_undo(tree, key, EntryName::new(), was, changes))
}

/// Flags an entry deleted. `data` tells equal keys apart and is ignored elsewhere.
///
/// # Errors
/// `NotFound` if there is none or it is flagged deleted already, or what pages say.
pub fn delete(pager: &dyn Pager, tree: Tree, key: &[u8], data: &[u8]) -> Result<MiniTransaction> {
    let leaf = descend_to_leaf(pager, tree, key, data)?;
    if !leaf.exact || leaf.page.is_deleted(leaf.at.slot) {
        return Err(Stop::NotFound);
    }
    let tail = if keys_repeat(leaf.page) { EntryName::from_slice(data) } else { EntryName::new() };
    let flag = set_flags(&leaf, node_flags::DELETED);
    Ok(with_undo(tree, key, tail, Before::Present, smallvec![change_of(&leaf, flag)]))
}

/// Purges an entry that is flagged deleted, after its transaction has committed and while no open transaction holds
/// it. Does nothing if the entry was revived or is gone.
///
/// # Errors
/// What pages say.
pub fn purge(pager: &dyn Pager, tree: Tree, key: &[u8], data: &[u8]) -> Result<Option<MiniTransaction>> {
    let leaf = descend_to_leaf(pager, tree, key, data)?;
    if !leaf.exact || !leaf.page.is_deleted(leaf.at.slot) {
        return Ok(None);
    }
    Ok(Some(MiniTransaction::system(remove_entry(pager, tree, &leaf, key, data)?)))
}

/// Undoes a change. The engine calls it for the undos of a transaction from last to first and logs each result with the
/// transaction's number.
///
/// # Errors
/// `Damaged` if the entry is not as the change left it, or what pages say.
pub fn undo(pager: &dyn Pager, undo: &Undo) -> Result<MiniTransaction> {
    let tree = Tree { fdp: undo.fdp, objid: undo.objid, density_pct: 100 };
    let key = &undo.key[..];
    let leaf = descend_to_leaf(pager, tree, key, &undo.tail)?;
    if !leaf.exact {
        return damaged(leaf.at.pgno, "an entry to be undone is not there");
    }
    let node = || leaf.page.node(leaf.at.slot);
    let changes = match &undo.was {
        Before::Absent => remove_entry(pager, tree, &leaf, key, &undo.tail)?,
        Before::Present => smallvec![change_of(&leaf, set_flags(&leaf, 0))],
        Before::Data { data } => set_entry(pager, tree, &leaf, node(), key, data, 0)?,
        Before::Deleted { data } => set_entry(pager, tree, &leaf, node(), key, data, node_flags::DELETED)?,
    };
    Ok(MiniTransaction { compensates: true, changes, ..MiniTransaction::default() })
}

fn set_flags(leaf: &Leaf, flags: u8) -> PageOp {
    PageOp::SetNodeFlags { slot: leaf.at.slot as u16, flags }
}

/// Sets data and flags of an entry that was found as `node`.
fn set_entry(
    pager: &dyn Pager,
    tree: Tree,
    leaf: &Leaf,
    node: Node,
    key: &[u8],
    data: &EntryData,
    flags: u8,
) -> Result<PageChanges> {
    let slot = leaf.at.slot as u16;
    if data.len() <= node.data.len() + leaf.page.free_bytes() - leaf.page.uncommitted_free_bytes() {
        let mut change = change_of(leaf, PageOp::Replace { slot, data: data.clone() });
        if node.flags & !node_flags::COMPRESSED != flags {
            change.ops.push(set_flags(leaf, flags));
        }
        return Ok(smallvec![change]);
    }
    // Where keys repeat the data of an entry never change: it had room.
    let mut path = descend(pager, tree, key, &[])?.path;
    let mut overlay = Overlay::new(pager);
    overlay.edit(leaf.at.pgno, PageOp::Delete { slot })?;
    insert_at(&mut overlay, tree, &mut path, key, data, flags, &mut space::allocate)?;
    Ok(overlay.finish())
}

/// Removes an entry that was found by this key and data.
fn remove_entry(pager: &dyn Pager, tree: Tree, leaf: &Leaf, key: &[u8], data: &[u8]) -> Result<PageChanges> {
    let (page, at) = (leaf.page, leaf.at);
    let left = merge::used_bytes(page).saturating_sub(page.node_bytes(at.slot));
    if page.is_root() || page.node_count() > 1 && !merge::is_small(page, left) {
        return Ok(smallvec![change_of(leaf, PageOp::Delete { slot: at.slot as u16 })]);
    }
    let path = descend(pager, tree, key, data)?.path;
    let mut overlay = Overlay::new(pager);
    merge::remove_at(&mut overlay, tree, &path, space::free)?;
    Ok(overlay.finish())
}

//! Changing entries: each call plans one mini-transaction.
//!
//! Invariants
//! 1. A change of an entry carries its undo; undoing it carries none.
//! 2. A deleted entry stays, flagged, until [`purge`] after its transaction: readers of the committed state
//!    find it, and rolling back needs no space.
//!
//! Limits: an entry fits one page; see [`most_entry_bytes`].

use edb::page::{node_flags, usable_bytes};

use crate::change::{Before, EntryData, EntryName, MiniTransaction, NodeKey, PageChange, PageOp, Undo};
use crate::merge;
use crate::overlay::Overlay;
use crate::pager::{Pager, Result, Stop, damaged};
use crate::space;
use crate::split::{appends_beyond_density, insert_at};
use crate::tree::{Descent, MAX_KEY_BYTES, Path, Position, Tree, descend, keys_repeat, leaf_of, view};
use crate::view::PageView;

/// Bytes of a node beside key and data: its tag and the length of its key.
const NODE_OVERHEAD_BYTES: usize = 6;

/// Key and data of an entry may take this much together.
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

/// An entry that was found, and the page it is on.
struct Found<'p> {
    page: PageView<'p>,
    path: Path,
}

impl<'p> Found<'p> {
    fn at(&self) -> Position {
        leaf_of(&self.path)
    }

    fn slot(&self) -> u16 {
        self.at().slot as u16
    }

    fn one(&self, op: PageOp) -> PageChange {
        PageChange::one(self.at().pgno, self.page.dbtime(), op)
    }
}

fn find<'p>(pager: &'p dyn Pager, tree: Tree, key: &[u8], data: &[u8]) -> Result<(Found<'p>, bool)> {
    let Descent { path, exact } = descend(pager, tree, key, data)?;
    let page = view(pager, leaf_of(&path).pgno)?;
    Ok((Found { page, path }, exact))
}

fn with_undo(
    tree: Tree,
    key: &[u8],
    tail: EntryName,
    was: Before,
    changes: Vec<PageChange>,
) -> MiniTransaction {
    let undo = Undo { fdp: tree.fdp, objid: tree.objid, key: NodeKey::from_slice(key), tail, was };
    MiniTransaction { undo: Some(undo), changes, ..MiniTransaction::default() }
}

/// Inserts an entry. An entry with this key that is flagged deleted comes back to life with the new data.
///
/// # Errors
/// `Duplicate` if the entry exists, `TooLarge`, `NoData`, or what pages say.
pub fn insert(pager: &dyn Pager, tree: Tree, key: &[u8], data: &[u8]) -> Result<MiniTransaction> {
    insert_shared(pager, tree, key, &data.into())
}

/// As [`insert`] with data that the step's caller keeps: nothing is copied if the step is called again.
///
/// # Errors
/// As [`insert`].
pub fn insert_shared(pager: &dyn Pager, tree: Tree, key: &[u8], data: &EntryData) -> Result<MiniTransaction> {
    let (found, exact) = find(pager, tree, key, data)?;
    let repeats = keys_repeat(found.page);
    check_size(pager, key, data, repeats)?;
    let tail = if repeats { EntryName::from_slice(data) } else { EntryName::new() };
    if exact {
        if !found.page.is_deleted(found.at().slot) {
            return Err(Stop::Duplicate);
        }
        let was = Before::Deleted { data: found.page.node(found.at().slot).data.into() };
        return Ok(with_undo(tree, key, tail, was, set_entry(pager, tree, found, key, data, 0)?));
    }
    let (page, at) = (found.page, found.at());
    let needed = page.bytes_needed(key, data.len());
    let simple =
        page.fits(key, data.len()) && !appends_beyond_density(page, at.slot, needed, tree.density_pct);
    let changes = if simple {
        vec![found.one(PageOp::Insert {
            slot: found.slot(),
            flags: 0,
            key: NodeKey::from_slice(key),
            data: data.clone(),
        })]
    } else {
        let mut overlay = Overlay::new(pager);
        let mut path = found.path;
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

/// Gives an entry of a tree with unique keys new data.
///
/// # Errors
/// `NotFound` if there is none or it is flagged deleted, `TooLarge`, `NoData`, or what pages say.
pub fn replace(pager: &dyn Pager, tree: Tree, key: &[u8], data: &[u8]) -> Result<MiniTransaction> {
    replace_shared(pager, tree, key, &data.into())
}

/// As [`replace`] with data that the step's caller keeps: nothing is copied if the step is called again.
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
    let (found, exact) = find(pager, tree, key, &[])?;
    if !exact || found.page.is_deleted(found.at().slot) {
        return Err(Stop::NotFound);
    }
    let was = Before::Data { data: found.page.node(found.at().slot).data.into() };
    Ok(with_undo(tree, key, EntryName::new(), was, set_entry(pager, tree, found, key, data, 0)?))
}

/// Flags an entry deleted. `data` tells equal keys apart and is ignored elsewhere.
///
/// # Errors
/// `NotFound` if there is none or it is flagged deleted already, or what pages say.
pub fn delete(pager: &dyn Pager, tree: Tree, key: &[u8], data: &[u8]) -> Result<MiniTransaction> {
    let (found, exact) = find(pager, tree, key, data)?;
    if !exact || found.page.is_deleted(found.at().slot) {
        return Err(Stop::NotFound);
    }
    let tail = if keys_repeat(found.page) { EntryName::from_slice(data) } else { EntryName::new() };
    let flag = PageOp::SetNodeFlags { slot: found.slot(), flags: node_flags::DELETED };
    Ok(with_undo(tree, key, tail, Before::Present, vec![found.one(flag)]))
}

/// Removes an entry that is flagged deleted, after its transaction has committed and while no open transaction
/// holds the entry. Nothing to do if it came back to life or is gone.
///
/// # Errors
/// What pages say.
pub fn purge(pager: &dyn Pager, tree: Tree, key: &[u8], data: &[u8]) -> Result<Option<MiniTransaction>> {
    let (found, exact) = find(pager, tree, key, data)?;
    if !exact || !found.page.is_deleted(found.at().slot) {
        return Ok(None);
    }
    Ok(Some(MiniTransaction::system(remove_entry(pager, tree, found)?)))
}

/// Undoes a change. The engine calls it for the undos of a transaction from last to first and logs each result with the
/// transaction's number.
///
/// # Errors
/// `Damaged` if the entry is not as the change left it, or what pages say.
pub fn undo(pager: &dyn Pager, undo: &Undo) -> Result<MiniTransaction> {
    let tree = Tree { fdp: undo.fdp, objid: undo.objid, density_pct: 100 };
    let key = &undo.key[..];
    let (found, exact) = find(pager, tree, key, &undo.tail)?;
    if !exact {
        return damaged(found.at().pgno, "an entry to be undone is not there");
    }
    let changes = match &undo.was {
        Before::Absent => remove_entry(pager, tree, found)?,
        Before::Present => vec![found.one(PageOp::SetNodeFlags { slot: found.slot(), flags: 0 })],
        Before::Data { data } => set_entry(pager, tree, found, key, data, 0)?,
        Before::Deleted { data } => set_entry(pager, tree, found, key, data, node_flags::DELETED)?,
    };
    Ok(MiniTransaction { compensates: true, changes, ..MiniTransaction::default() })
}

/// Gives the entry that was found this data and these flags.
fn set_entry(
    pager: &dyn Pager,
    tree: Tree,
    found: Found,
    key: &[u8],
    data: &EntryData,
    flags: u8,
) -> Result<Vec<PageChange>> {
    let node = found.page.node(found.at().slot);
    let slot = found.slot();
    if data.len() <= node.data.len() + found.page.free_bytes() - found.page.uncommitted_free_bytes() {
        let mut change = found.one(PageOp::Replace { slot, data: data.clone() });
        if node.flags & !node_flags::COMPRESSED != flags {
            change.ops.push(PageOp::SetNodeFlags { slot, flags });
        }
        return Ok(vec![change]);
    }
    let mut overlay = Overlay::new(pager);
    let mut path = found.path;
    overlay.edit(leaf_of(&path).pgno, PageOp::Delete { slot })?;
    insert_at(&mut overlay, tree, &mut path, key, data, flags, &mut space::allocate)?;
    Ok(overlay.finish())
}

fn remove_entry(pager: &dyn Pager, tree: Tree, found: Found) -> Result<Vec<PageChange>> {
    let page = found.page;
    let left = merge::used_bytes(page).saturating_sub(page.node_bytes(found.at().slot));
    if page.is_root() || page.node_count() > 1 && !merge::is_small(page, left) {
        return Ok(vec![found.one(PageOp::Delete { slot: found.slot() })]);
    }
    let mut overlay = Overlay::new(pager);
    merge::remove_at(&mut overlay, tree, &found.path, space::free)?;
    Ok(overlay.finish())
}

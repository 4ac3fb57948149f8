//! Pages that are read and changed without their bytes: nodes that are a function of the page number, and some edits.
//!
//! Invariants
//! 1. A sparse page answers every question as the page of bytes does that [`SparsePage::fill`] makes.
//! 2. The bytes are those of the template page with the edits made on it one after the other: what redo would give.
//! 3. An edit that a sparse page cannot keep changes nothing; the caller goes on with the bytes of the page.
//!
//! Limits: leaves and branch pages below the root whose nodes are not compressed; [`EDITS_MAX`] edits.

mod edits;

use std::cell::OnceCell;
use std::cmp::Ordering;
use std::rc::Rc;

use edb::page::search::{compare_keys, search_nodes};
use edb::page::{Node, PageMut, PageRef, node_flags, page_flags};
use smallvec::SmallVec;

use crate::change::{Misfit, NodeKey, PageChange, PageOp};
use edits::{Edit, Edits, Origin, What};

/// Largest number of edits of a sparse page; with more, bytes are cheaper.
const EDITS_MAX: usize = 24;
/// Largest number of template nodes that are built one by one. If more are read, the whole page is built.
const NODES_MADE_MAX: usize = 12;
/// Size of a node beside key and data, bytes: its tag and the length of its key.
const NODE_OVERHEAD_BYTES: usize = 6;

/// Name of a page for the [`NodeFunction`] that generates it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot(pub u64);

/// Header fields of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outline {
    /// Size of the page, bytes.
    pub page_bytes: u32,
    /// Dbtime of the page (this and the next four fields: see `edb::page::PageRef`).
    pub dbtime: u64,
    /// Page number of the left neighbour.
    pub prev: u32,
    /// Page number of the right neighbour.
    pub next: u32,
    /// Object id of the tree.
    pub objid: u32,
    /// Page flags, flush type included.
    pub flags: u32,
    /// Number of nodes.
    pub nodes: u16,
    /// Free bytes.
    pub free_bytes: u16,
}

/// Template database as a function: generates its pages node by node.
pub trait NodeFunction {
    /// Name of page `pgno`; `None` if it exists only as bytes. A named page is not a root, has an empty external
    /// header, and nodes without flags.
    fn spot(&self, pgno: u32) -> Option<Spot>;
    /// Header fields of a page.
    fn outline(&self, page: Spot) -> Outline;
    /// Place of a key among the nodes, computed without reading them: `Ok` with its slot, or `Err` with the slot where
    /// it belongs. A last node without a key is above all. `None` for a key of another form than those of the nodes.
    fn place(&self, page: Spot, key: &[u8]) -> Option<Result<usize, usize>>;
    /// The key of node `slot`.
    fn key(&self, page: Spot, slot: usize) -> NodeKey;
    /// Size of the data of node `slot`, bytes.
    fn data_bytes(&self, page: Spot, slot: usize) -> usize;
    /// Writes the data of node `slot`.
    fn write_data(&self, page: Spot, slot: usize, data: &mut [u8]);
    /// Writes all bytes of page `pgno`, except its checksums.
    fn write_page(&self, pgno: u32, page: &mut [u8]);
    /// Appends a sparse page of this template as edits, in a form that the page codec of the database also decodes.
    fn encode(&self, page: &SparsePage, out: &mut Vec<u8>);
    /// Decodes the sparse page `pgno`; `None` if `encoded` is something else.
    fn decode(self: Rc<Self>, pgno: u32, encoded: &[u8]) -> Option<SparsePage>;
}

/// Template node that was built because it was read.
struct Made {
    slot: u16,
    key_bytes: u16,
    /// Bytes of key and data.
    bytes: NodeKey,
    next: OnceCell<Box<Made>>,
}

/// Sparse page: a page of a template database and its edits. A cache holds many, most of them unedited, and each
/// access waits for memory, so the type is small.
pub struct SparsePage {
    source: Rc<dyn NodeFunction>,
    spot: Spot,
    pgno: u32,
    /// Header fields in their present state.
    now: Outline,
    edits: Option<Box<Edits>>,
    made: OnceCell<Made>,
    bytes: OnceCell<Box<[u8]>>,
}

impl Clone for SparsePage {
    fn clone(&self) -> SparsePage {
        SparsePage {
            source: self.source.clone(),
            edits: self.edits.clone(),
            made: OnceCell::new(),
            bytes: OnceCell::new(),
            ..*self
        }
    }
}

impl SparsePage {
    /// Sparse page `pgno` without edits; `None` if it exists only as bytes.
    pub fn of_template(source: Rc<dyn NodeFunction>, pgno: u32) -> Option<SparsePage> {
        let spot = source.spot(pgno)?;
        let now = source.outline(spot);
        Some(SparsePage {
            source,
            spot,
            pgno,
            now,
            edits: None,
            made: OnceCell::new(),
            bytes: OnceCell::new(),
        })
    }

    /// Restores a sparse page from its edits, as [`Self::ops`], its dbtime and [`Self::flush_type`] described
    /// it. `None` if they do not fit.
    pub fn restored(
        source: Rc<dyn NodeFunction>,
        pgno: u32,
        ops: impl IntoIterator<Item = PageOp>,
        dbtime: u64,
        flush_type: u32,
    ) -> Option<SparsePage> {
        let mut page = SparsePage::of_template(source, pgno)?;
        for op in ops {
            if page.ops().len() == EDITS_MAX || !page.apply_op(op).ok()? {
                return None;
            }
        }
        page.now.dbtime = dbtime;
        page.set_flush_type(flush_type);
        Some(page)
    }

    /// Number of the page.
    pub fn pgno(&self) -> u32 {
        self.pgno
    }

    /// Edits so far, in order.
    pub fn ops(&self) -> &[PageOp] {
        self.edits.as_ref().map_or(&[], |edits| &edits.ops)
    }

    fn edits(&self) -> &[Edit] {
        self.edits.as_ref().map_or(&[], |edits| &edits.nodes)
    }

    /// Whether the page equals the page of the template.
    pub fn is_pristine(&self) -> bool {
        self.edits.is_none() && self.now == self.source.outline(self.spot)
    }

    /// Header fields in their present state.
    pub fn outline(&self) -> &Outline {
        &self.now
    }

    /// Flush type: counter of the page's writes.
    pub fn flush_type(&self) -> u32 {
        (self.now.flags & page_flags::FLUSH_TYPE) / FLUSH_TYPE_UNIT
    }

    fn set_flush_type(&mut self, flush_type: u32) {
        let bits = (flush_type * FLUSH_TYPE_UNIT) & page_flags::FLUSH_TYPE;
        self.now.flags = self.now.flags & !page_flags::FLUSH_TYPE | bits;
        self.bytes.take();
    }

    /// Updates the header before a write, as `edb::page::PageMut::finish` does before the checksums.
    pub fn prepare_write(&mut self) {
        self.set_flush_type(if self.flush_type() == 3 { 1 } else { self.flush_type() + 1 });
    }

    /// Applies a change and sets the dbtime. `false`, without an effect, if only the bytes of the page can take the
    /// change.
    ///
    /// # Errors
    /// If an edit does not fit; the page is then undefined.
    pub fn apply(&mut self, change: &PageChange, dbtime: u64) -> Result<bool, Misfit> {
        let known = |op: &PageOp| {
            use PageOp::{Delete, Insert, Replace, SetNext, SetNodeFlags, SetPrevious};
            matches!(
                op,
                Insert { .. }
                    | Delete { .. }
                    | Replace { .. }
                    | SetNodeFlags { .. }
                    | SetPrevious { .. }
                    | SetNext { .. }
            )
        };
        if self.ops().len() + change.ops.len() > EDITS_MAX || !change.ops.iter().all(known) {
            return Ok(false);
        }
        for op in &change.ops {
            self.apply_op(op.clone())?;
        }
        self.now.dbtime = dbtime;
        Ok(true)
    }

    fn apply_op(&mut self, op: PageOp) -> Result<bool, Misfit> {
        let misfit = |reason| Err(Misfit { pgno: self.pgno, reason });
        let nodes = self.node_count();
        let mut free = self.free_bytes();
        match &op {
            PageOp::Insert { slot, .. } if usize::from(*slot) > nodes => return misfit("no such slot"),
            PageOp::Delete { slot } | PageOp::Replace { slot, .. } | PageOp::SetNodeFlags { slot, .. }
                if usize::from(*slot) >= nodes =>
            {
                return misfit("no such slot");
            }
            PageOp::Insert { key, data, .. } => {
                let needed = NODE_OVERHEAD_BYTES + key.len() + data.len();
                let Some(rest) = free.checked_sub(needed) else { return misfit("no room") };
                free = rest;
            }
            PageOp::Delete { slot } => free += self.node_bytes((*slot).into()),
            PageOp::Replace { slot, data } => {
                let Some(rest) = (free + self.data_bytes((*slot).into())).checked_sub(data.len()) else {
                    return misfit("no room");
                };
                free = rest;
            }
            PageOp::SetNodeFlags { .. } | PageOp::SetPrevious { .. } | PageOp::SetNext { .. } => {}
            _ => return Ok(false),
        }
        self.bytes.take();
        let edits = self.edits.get_or_insert_default();
        let number = edits.ops.len() as u16;
        match &op {
            PageOp::Insert { slot, flags, .. } => {
                let (at, base) = edits.room_at((*slot).into());
                let flags = flags & !node_flags::COMPRESSED;
                edits.nodes.insert(at, Edit { base, what: What::Added { key: number, data: number, flags } });
                self.now.nodes += 1;
            }
            PageOp::Delete { slot } => {
                let Origin { base, edit } = Origin::among(&edits.nodes, (*slot).into());
                let removed = Edit { base: base as u16, what: What::Removed };
                match edit {
                    Ok(at) if matches!(edits.nodes[at].what, What::Added { .. }) => {
                        edits.nodes.remove(at);
                    }
                    Ok(at) => edits.nodes[at] = removed,
                    Err(at) => edits.nodes.insert(at, removed),
                }
                self.now.nodes -= 1;
            }
            PageOp::Replace { slot, .. } => match edits.change_of((*slot).into()) {
                What::Added { data, .. } => *data = number,
                What::Changed { data, .. } => *data = Some(number),
                What::Removed => {}
            },
            PageOp::SetNodeFlags { slot, flags: wanted } => match edits.change_of((*slot).into()) {
                What::Added { flags, .. } | What::Changed { flags, .. } => {
                    *flags = wanted & !node_flags::COMPRESSED;
                }
                What::Removed => {}
            },
            PageOp::SetPrevious { pgno } => self.now.prev = *pgno,
            PageOp::SetNext { pgno } => self.now.next = *pgno,
            _ => {}
        }
        self.now.free_bytes = free as u16;
        edits.ops.push(op);
        Ok(true)
    }

    fn origin(&self, slot: usize) -> Origin {
        Origin::among(self.edits(), slot)
    }

    /// Writes the bytes of the page, except its checksums.
    pub fn fill(&self, page: &mut [u8]) {
        self.source.write_page(self.pgno, page);
        for op in self.ops() {
            let applied = op.apply(self.pgno, page);
            debug_assert_eq!(applied, Ok(()), "an edit that a sparse page has taken fits its bytes");
        }
        let mut page = PageMut::new(page);
        page.set_dbtime(self.now.dbtime);
        page.set_flags(self.now.flags);
    }

    /// Builds the page as bytes.
    pub fn to_ref(&self) -> PageRef<'_> {
        PageRef::new(self.bytes.get_or_init(|| {
            let mut page = vec![0; self.now.page_bytes as usize].into_boxed_slice();
            self.fill(&mut page);
            page
        }))
    }

    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        self.now.nodes.into()
    }

    /// Number of free bytes of the page.
    pub fn free_bytes(&self) -> usize {
        self.now.free_bytes.into()
    }

    /// Node `slot`.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn node(&self, slot: usize) -> Node<'_> {
        assert!(slot < self.node_count(), "slot {slot} of {}", self.node_count());
        if self.bytes.get().is_some() {
            return self.to_ref().node(slot);
        }
        let Origin { base, edit } = self.origin(slot);
        let (key, data, flags) = match edit.ok().map(|at| self.edits()[at].what) {
            Some(What::Added { key, data, flags }) => (self.op_key(key), self.op_data(data), flags),
            Some(What::Changed { data, flags }) => {
                let Some(made) = self.made(base) else { return self.to_ref().node(slot) };
                (made.key(), data.map_or(made.data(), |data| self.op_data(data)), flags)
            }
            Some(What::Removed) | None => {
                let Some(made) = self.made(base) else { return self.to_ref().node(slot) };
                (made.key(), made.data(), 0)
            }
        };
        Node { prefix: &[], suffix: key, data, flags }
    }

    /// Template node, built if needed; `None` if many were read, so that bytes are cheaper.
    fn made(&self, slot: usize) -> Option<&Made> {
        let mut made = self.made.get_or_init(|| self.make(slot));
        for _ in 1..NODES_MADE_MAX {
            if usize::from(made.slot) == slot {
                return Some(made);
            }
            made = made.next.get_or_init(|| Box::new(self.make(slot)));
        }
        (usize::from(made.slot) == slot).then_some(made)
    }

    fn make(&self, slot: usize) -> Made {
        let key = self.source.key(self.spot, slot);
        let mut bytes = NodeKey::from_elem(0, key.len() + self.source.data_bytes(self.spot, slot));
        let (key_place, data) = bytes.split_at_mut(key.len());
        key_place.copy_from_slice(&key);
        self.source.write_data(self.spot, slot, data);
        Made { slot: slot as u16, key_bytes: key.len() as u16, bytes, next: OnceCell::new() }
    }

    fn op_key(&self, op: u16) -> &[u8] {
        match &self.ops()[usize::from(op)] {
            PageOp::Insert { key, .. } => key,
            _ => &[],
        }
    }

    fn op_data(&self, op: u16) -> &[u8] {
        match &self.ops()[usize::from(op)] {
            PageOp::Insert { data, .. } | PageOp::Replace { data, .. } => data,
            _ => &[],
        }
    }

    /// Flags of node `slot`, without building the node.
    pub fn flags_of(&self, slot: usize) -> u8 {
        match self.origin(slot).edit.map(|at| self.edits()[at].what) {
            Ok(What::Added { flags, .. } | What::Changed { flags, .. }) => flags,
            Ok(What::Removed) | Err(_) => 0,
        }
    }

    /// Page number of the child under node `slot` of a branch page, if the node is well formed. Does not build the
    /// node, because descents would soon build all nodes of branch pages.
    pub fn child(&self, slot: usize) -> Option<u32> {
        let Origin { base, edit } = self.origin(slot);
        let mut data = [0; 4];
        match edit.map(|at| self.edits()[at].what) {
            Ok(What::Added { data: op, .. } | What::Changed { data: Some(op), .. }) => {
                data = self.op_data(op).try_into().ok()?;
            }
            _ if self.source.data_bytes(self.spot, base) == data.len() => {
                self.source.write_data(self.spot, base, &mut data);
            }
            _ => return None,
        }
        Some(u32::from_le_bytes(data))
    }

    /// Size of the data of node `slot`, bytes, without building the node.
    pub fn data_bytes(&self, slot: usize) -> usize {
        let Origin { base, edit } = self.origin(slot);
        match edit.map(|at| self.edits()[at].what) {
            Ok(What::Added { data, .. } | What::Changed { data: Some(data), .. }) => self.op_data(data).len(),
            _ => self.source.data_bytes(self.spot, base),
        }
    }

    /// Size of node `slot` with its tag, bytes.
    pub fn node_bytes(&self, slot: usize) -> usize {
        NODE_OVERHEAD_BYTES + self.key(slot).len() + self.data_bytes(slot)
    }

    fn key(&self, slot: usize) -> NodeKey {
        let Origin { base, edit } = self.origin(slot);
        match edit.map(|at| self.edits()[at].what) {
            Ok(What::Added { key, .. }) => NodeKey::from_slice(self.op_key(key)),
            _ => self.source.key(self.spot, base),
        }
    }

    /// Searches a leaf, as `PageRef::search`.
    pub fn search(&self, key: &[u8]) -> Result<usize, usize> {
        match self.source.place(self.spot, key) {
            Some(place) => self.moved(place, self.edits(), |own, _| compare_keys(own, key)),
            None => self.halve(self.node_count(), |slot| compare_keys(&self.key(slot), key)),
        }
    }

    /// Searches a leaf by key and data, as `PageRef::search_entry`.
    pub fn search_entry(&self, key: &[u8], data: &[u8]) -> Result<usize, usize> {
        let compare = |node: Node| node.compare_entry(key, data);
        let Some(mut place) = self.source.place(self.spot, key) else {
            return self.halve(self.node_count(), |slot| compare(self.node(slot)));
        };
        if let Ok(base) = place {
            place = match self.data_of(base)[..].cmp(data) {
                Ordering::Less => Err(base + 1),
                Ordering::Equal => Ok(base),
                Ordering::Greater => Err(base),
            };
        }
        self.moved(place, self.edits(), |own, own_data| compare(Node::of(own, own_data)))
    }

    /// Slot of a branch page whose child covers the entry, as `PageRef::child_slot_of_entry`.
    pub fn child_slot_of_entry(&self, key: &[u8], data: &[u8]) -> usize {
        let last = self.node_count().saturating_sub(1);
        // A separator that is the entry itself leads to the child behind it.
        let compare = |own: &[u8]| {
            let (head, rest) = own.split_at(own.len().min(key.len()));
            compare_keys(head, &key[..head.len()])
                .then_with(|| if head.len() < key.len() { Ordering::Less } else { rest.cmp(data) })
                .then(Ordering::Less)
        };
        let place = match self.source.place(self.spot, key) {
            Some(place) => place.map_or_else(|base| base, |base| base + 1),
            None => return self.halve(last, |slot| compare(&self.key(slot))).unwrap_or_else(|slot| slot),
        };
        // The last entry is unbounded, independent of its key: only those in front of it count.
        let Origin { base, edit } = self.origin(last);
        let (Ok(in_front) | Err(in_front)) = edit;
        let moved = self.moved(Err(place.min(base)), &self.edits()[..in_front], |own, _| compare(own));
        moved.unwrap_or_else(|slot| slot).min(last)
    }

    /// Translates a place among the template's nodes into a slot of the page. `compare` compares an added node with
    /// the wanted entry; `edits` are those that may come before it.
    fn moved(
        &self,
        place: Result<usize, usize>,
        edits: &[Edit],
        compare: impl Fn(&[u8], &[u8]) -> Ordering,
    ) -> Result<usize, usize> {
        let (Ok(base) | Err(base)) = place;
        let (mut slot, mut is_there) = (base, place.is_ok());
        let mut is_added = false;
        // A node that was added stands behind the one of the template in front of it, so those behind do not count.
        for edit in edits.iter().take_while(|edit| usize::from(edit.base) <= base) {
            match edit.what {
                What::Added { key, data, .. } => match compare(self.op_key(key), self.op_data(data)) {
                    Ordering::Less => slot += 1,
                    Ordering::Equal => is_added = true,
                    Ordering::Greater => {}
                },
                What::Removed if usize::from(edit.base) == base => is_there = false,
                What::Removed => slot -= 1,
                What::Changed { .. } => {}
            }
        }
        if is_there || is_added { Ok(slot) } else { Err(slot) }
    }

    /// Bisects the first `count` nodes.
    fn halve(&self, count: usize, compare: impl Fn(usize) -> Ordering) -> Result<usize, usize> {
        search_nodes(count, || count / 2, compare)
    }

    /// Present data of a template node.
    fn data_of(&self, base: usize) -> SmallVec<[u8; 16]> {
        let changed = self.edits().iter().find_map(|edit| match edit.what {
            What::Changed { data, .. } if usize::from(edit.base) == base => data,
            _ => None,
        });
        match changed {
            Some(op) => SmallVec::from_slice(self.op_data(op)),
            None => {
                let mut data = SmallVec::from_elem(0, self.source.data_bytes(self.spot, base));
                self.source.write_data(self.spot, base, &mut data);
                data
            }
        }
    }

    /// Size that a node would need, as `PageRef::bytes_needed`.
    pub fn bytes_needed(&self, key: &[u8], data_bytes: usize) -> usize {
        NODE_OVERHEAD_BYTES + key.len() + data_bytes
    }
}

/// Lowest bit of the flush type in the page flags.
const FLUSH_TYPE_UNIT: u32 = page_flags::FLUSH_TYPE & page_flags::FLUSH_TYPE.wrapping_neg();

impl Made {
    fn key(&self) -> &[u8] {
        &self.bytes[..self.key_bytes.into()]
    }

    fn data(&self) -> &[u8] {
        &self.bytes[self.key_bytes.into()..]
    }
}

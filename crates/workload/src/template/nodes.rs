//! The tree pages of the template node by node, for those who need a few nodes and not 32 KiB.
//!
//! Invariants
//! 1. Nodes and header are those of the page that `fill` writes (a test compares every kind of page).

use std::ops::Range;

use btree::NodeKey;
use std::rc::Rc;

use btree::{NodeFunction, Outline, SparsePage};
use edb::page::{header_bytes, page_flags};

use super::layout::{LARGE_TREES, Place, Run};
use super::{IMAGE_DBTIME, TemplateDatabase, level_flags, separator, tree_flags};
use crate::schema::{
    BODY_BYTES, Entry, ROW_BYTES, Tree, body_key, body_root_key, conversation_key, id_of_body_key,
    id_of_row_key, place_of_conversation_key, row_key,
};

const TAG_BYTES: usize = 4;
const KEY_LENGTH_BYTES: usize = 2;
const CHILD_BYTES: usize = 4;
/// What the first write of a page makes of a flush type of 0: template pages count as written once.
const FLUSH_TYPE_WRITTEN_ONCE: u32 = 1 << 15;

/// A page of a large tree, as [`Outline::place`] names it.
struct Spot<'a> {
    run: &'a Run,
    level: usize,
    ordinal: u32,
}

impl Spot<'_> {
    fn first_entry(&self) -> u64 {
        u64::from(self.ordinal) * u64::from(self.run.levels[self.level].fan_out)
    }
}

impl TemplateDatabase {
    fn spot(&self, page: &Outline) -> Spot<'_> {
        let [ordinal_low, ordinal_1, ordinal_2, ordinal_high, level, run, ..] = page.place.to_le_bytes();
        let ordinal = u32::from_le_bytes([ordinal_low, ordinal_1, ordinal_2, ordinal_high]);
        Spot { run: &self.layout.runs[usize::from(run)], level: level.into(), ordinal }
    }

    /// The entry in `slot` of a leaf.
    fn entry(&self, spot: &Spot, slot: usize) -> Entry {
        match spot.run.tree {
            Tree::Rows | Tree::Folders => {
                Entry::Row { id: (spot.first_entry() + slot as u64) as u32 + 1, version: 0 }
            }
            Tree::Bodies => {
                let id = (spot.first_entry() + slot as u64 / 2) as u32 + 1;
                if slot.is_multiple_of(2) { Entry::BodyRoot { id } } else { Entry::Body { id, version: 0 } }
            }
            Tree::Conversations => {
                let rank = spot.first_entry() + slot as u64;
                let id = self.schema.places().ids_from_rank(rank).next();
                Entry::Conversation { id: id.unwrap_or(0) }
            }
        }
    }

    /// The entry that a key is of, or else the one in front of it, by number, and whether the key is that of the
    /// entry's first node. `None` for a key of another form than those of the tree, or in front of all entries.
    fn entry_at(&self, tree: Tree, key: &[u8]) -> Option<(u64, bool)> {
        let number = |id: u32| Some(u64::from(id.checked_sub(1)?));
        match tree {
            Tree::Rows | Tree::Folders => Some((number(id_of_row_key(key)?)?, true)),
            Tree::Bodies => {
                let (id, is_chunk) = id_of_body_key(key)?;
                Some((number(id)?, !is_chunk))
            }
            Tree::Conversations => Some(self.schema.places().rank_at(place_of_conversation_key(key)?)),
        }
    }

    fn child(&self, spot: &Spot, slot: usize) -> u64 {
        spot.first_entry() + slot as u64
    }

    /// Bytes of all nodes of a page with these entries, and their number.
    fn node_bytes(&self, run: &Run, level: usize, entries: Range<u64>) -> (usize, usize) {
        // The last entry of a level is open.
        let open = usize::from(entries.end == run.levels[level].entries);
        let entries = (entries.end - entries.start) as usize;
        let node = TAG_BYTES + KEY_LENGTH_BYTES;
        if level > 0 {
            let key_bytes = separator_bytes(run.tree);
            return (entries * (node + CHILD_BYTES) + (entries - open) * key_bytes, entries);
        }
        match run.tree {
            Tree::Rows | Tree::Folders => (entries * (node + 5 + ROW_BYTES), entries),
            Tree::Bodies => (entries * (node + 4 + 8 + node + 8 + BODY_BYTES), 2 * entries),
            Tree::Conversations => (entries * (node + 9 + 5), entries),
        }
    }
}

/// Bytes of the keys that [`separator`] makes.
fn separator_bytes(tree: Tree) -> usize {
    match tree {
        Tree::Rows | Tree::Folders => 5,
        Tree::Bodies => 4,
        Tree::Conversations => 9,
    }
}

impl NodeFunction for TemplateDatabase {
    fn outline(&self, pgno: u32) -> Option<Outline> {
        let Place::Tree { run, level, ordinal } = self.layout.place(pgno) else { return None };
        let here = &run.levels[level];
        let entries = here.entries_of(ordinal);
        let (bytes, nodes) = self.node_bytes(run, level, entries);
        let page_bytes = self.schema.shape().page_bytes as usize;
        let (mut prev, mut next) = (0, 0);
        if level == 0 {
            prev = if ordinal == 0 { 0 } else { pgno - 1 };
            next = if ordinal + 1 == here.pages { 0 } else { pgno + 1 };
        }
        let always = page_flags::NEW_RECORDS | page_flags::NEW_CHECKSUM | FLUSH_TYPE_WRITTEN_ONCE;
        let tree = LARGE_TREES.iter().position(|tree| *tree == run.tree)?;
        Some(Outline {
            page_bytes,
            dbtime: IMAGE_DBTIME,
            prev,
            next,
            objid: self.tree(run.tree).objid,
            flags: tree_flags(run.tree) | level_flags(level) | always,
            nodes: nodes as u16,
            free_bytes: (page_bytes - header_bytes(page_bytes) - TAG_BYTES - bytes) as u16,
            place: (tree as u64) << 40 | (level as u64) << 32 | u64::from(ordinal),
        })
    }

    fn place(&self, page: &Outline, key: &[u8]) -> Option<Result<usize, usize>> {
        let spot = self.spot(page);
        let (entry, is_first) = self.entry_at(spot.run.tree, key)?;
        let is_body = spot.run.tree == Tree::Bodies;
        // Among the nodes of the level: how many are smaller, and whether the next one has this key.
        let (smaller, is_there, first) = if spot.level == 0 {
            let per_entry = if is_body { 2 } else { 1 };
            (entry * per_entry + u64::from(!is_first), is_first || is_body, spot.first_entry() * per_entry)
        } else {
            // The separator behind a child is the first key under the next one.
            let per_child = spot.run.first_entry_under(spot.level - 1, 1);
            let child = entry / per_child;
            let is_separator = is_first && child > 0 && entry.is_multiple_of(per_child);
            (child - u64::from(is_separator), is_separator, spot.first_entry())
        };
        let nodes = u64::from(page.nodes);
        let is_open = spot.level > 0 && first + nodes == spot.run.levels[spot.level].entries;
        let keys = nodes - u64::from(is_open);
        Some(match smaller.checked_sub(first) {
            None => Err(0),
            Some(slot) if slot >= keys => Err(keys as usize),
            Some(slot) if is_there => Ok(slot as usize),
            Some(slot) => Err(slot as usize),
        })
    }

    fn key(&self, page: &Outline, slot: usize) -> NodeKey {
        let spot = self.spot(page);
        if spot.level > 0 {
            let child = self.child(&spot, slot) as u32;
            if child + 1 == spot.run.levels[spot.level - 1].pages {
                return NodeKey::new();
            }
            let entry = spot.run.first_entry_under(spot.level - 1, child + 1);
            return separator(&self.schema, spot.run, entry).into();
        }
        let entry = spot.first_entry() + slot as u64;
        let key = match spot.run.tree {
            Tree::Rows | Tree::Folders => row_key(entry as u32 + 1),
            Tree::Bodies => {
                let id = (spot.first_entry() + slot as u64 / 2) as u32 + 1;
                if slot.is_multiple_of(2) { body_root_key(id) } else { body_key(id) }
            }
            Tree::Conversations => conversation_key(self.schema.places().place_of_rank(entry)),
        };
        key.into()
    }

    fn data_bytes(&self, page: &Outline, slot: usize) -> usize {
        let spot = self.spot(page);
        match (spot.level, spot.run.tree) {
            (1.., _) => CHILD_BYTES,
            (0, Tree::Rows | Tree::Folders) => ROW_BYTES,
            (0, Tree::Bodies) => {
                if slot.is_multiple_of(2) {
                    8
                } else {
                    BODY_BYTES
                }
            }
            (0, Tree::Conversations) => 5,
        }
    }

    fn write_data(&self, page: &Outline, slot: usize, data: &mut [u8]) {
        let spot = self.spot(page);
        if spot.level > 0 {
            let below = spot.run.levels[spot.level - 1].first;
            data.copy_from_slice(&(below + self.child(&spot, slot) as u32).to_le_bytes());
        } else {
            self.schema.write_data(self.entry(&spot, slot), data);
        }
    }

    fn write_page(&self, pgno: u32, page: &mut [u8]) {
        world::TemplatePages::fill_unsealed(self, u64::from(pgno) + 1, page);
    }

    fn encode(&self, page: &SparsePage, out: &mut Vec<u8>) {
        self.encode_edits(page, out);
    }

    fn decode(self: Rc<Self>, pgno: u32, encoded: &[u8]) -> Option<SparsePage> {
        self.decode_edits(pgno, encoded)
    }
}

//! The tree pages of the template node by node, for those who need a few nodes and not 32 KiB.
//!
//! Invariants
//! 1. Nodes and header are those of the page that `fill` writes (a test compares every kind of page).

use btree::NodeKey;
use std::rc::Rc;

use btree::{NodeFunction, Outline, SparsePage, Spot};
use edb::page::{header_bytes, page_flags};

use super::layout::{LARGE_TREES, PageRole, TreePages};
use super::{IMAGE_DBTIME, TemplateDatabase, level_flags, separator, tree_flags};
use crate::schema::{
    BODY_BYTES, Entry, ROW_BYTES, Tree, body_key, body_root_key, conversation_key, id_of_body_key,
    id_of_row_key, place_of_conversation_key, row_key,
};

const TAG_BYTES: usize = 4;
const KEY_LENGTH_BYTES: usize = 2;
const CHILD_BYTES: usize = 4;
/// Flush type of a page that was written once, as template pages count.
const FLUSH_TYPE_WRITTEN_ONCE: u32 = 1 << 15;

/// Page of a large tree, as named by its [`Spot`].
struct TreePage<'a> {
    run: &'a TreePages,
    level: usize,
    ordinal: u32,
}

impl TreePage<'_> {
    fn first_entry(&self) -> u64 {
        u64::from(self.ordinal) * u64::from(self.run.levels[self.level].fan_out)
    }

    /// Child of a branch page under node `slot`, as a page number within the level below.
    fn child(&self, slot: usize) -> u64 {
        self.first_entry() + slot as u64
    }

    /// Number of nodes of the page.
    fn nodes(&self) -> u64 {
        let entries = self.run.levels[self.level].entries_of(self.ordinal);
        let has_two = self.level == 0 && self.run.tree == Tree::Bodies;
        (entries.end - entries.start) * if has_two { 2 } else { 1 }
    }
}

impl TemplateDatabase {
    fn tree_page(&self, Spot(spot): Spot) -> TreePage<'_> {
        let (tree, level) = ((spot >> 40) as usize, usize::from((spot >> 32) as u8));
        TreePage { run: &self.layout.runs[tree], level, ordinal: spot as u32 }
    }

    /// Entry in `slot` of a leaf.
    fn entry(&self, page: &TreePage, slot: usize) -> Entry {
        match page.run.tree {
            Tree::Rows | Tree::Folders => {
                Entry::Row { id: (page.first_entry() + slot as u64) as u32 + 1, version: 0 }
            }
            Tree::Bodies => {
                let id = (page.first_entry() + slot as u64 / 2) as u32 + 1;
                if slot.is_multiple_of(2) { Entry::BodyRoot { id } } else { Entry::Body { id, version: 0 } }
            }
            Tree::Conversations => {
                let rank = page.first_entry() + slot as u64;
                let id = self.schema.places().ids_from_rank(rank).next();
                Entry::Conversation { id: id.unwrap_or(0) }
            }
        }
    }

    /// Number of the entry with this key, or else of the one before it, and whether the key belongs to the entry's
    /// first node. `None` for a key of another form, or before all entries.
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

    /// Size of all nodes of a page, bytes.
    fn node_bytes(page: &TreePage) -> usize {
        let TreePage { run, level, ordinal } = *page;
        let range = run.levels[level].entries_of(ordinal);
        // The last entry of a level is open.
        let open = usize::from(range.end == run.levels[level].entries);
        let entries = (range.end - range.start) as usize;
        let node = TAG_BYTES + KEY_LENGTH_BYTES;
        if level > 0 {
            return entries * (node + CHILD_BYTES) + (entries - open) * separator_bytes(run.tree);
        }
        match run.tree {
            Tree::Rows | Tree::Folders => entries * (node + 5 + ROW_BYTES),
            Tree::Bodies => entries * (node + 4 + 8 + node + 8 + BODY_BYTES),
            Tree::Conversations => entries * (node + 9 + 5),
        }
    }
}

/// Size of the keys that [`separator`] makes, bytes.
fn separator_bytes(tree: Tree) -> usize {
    match tree {
        Tree::Rows | Tree::Folders => 5,
        Tree::Bodies => 4,
        Tree::Conversations => 9,
    }
}

impl NodeFunction for TemplateDatabase {
    fn spot(&self, pgno: u32) -> Option<Spot> {
        let PageRole::Tree { run, level, ordinal } = self.layout.place(pgno) else { return None };
        let tree = LARGE_TREES.iter().position(|tree| *tree == run.tree)?;
        Some(Spot((tree as u64) << 40 | (level as u64) << 32 | u64::from(ordinal)))
    }

    fn outline(&self, page: Spot) -> Outline {
        let page = self.tree_page(page);
        let TreePage { run, level, ordinal } = page;
        let here = &run.levels[level];
        let pgno = here.first + ordinal;
        let page_bytes = self.schema.shape().page_bytes;
        let (mut prev, mut next) = (0, 0);
        if level == 0 {
            prev = if ordinal == 0 { 0 } else { pgno - 1 };
            next = if ordinal + 1 == here.pages { 0 } else { pgno + 1 };
        }
        let always = page_flags::NEW_RECORDS | page_flags::NEW_CHECKSUM | FLUSH_TYPE_WRITTEN_ONCE;
        let used = header_bytes(page_bytes as usize) + TAG_BYTES + Self::node_bytes(&page);
        Outline {
            page_bytes,
            dbtime: IMAGE_DBTIME,
            prev,
            next,
            objid: self.tree(run.tree).objid,
            flags: tree_flags(run.tree) | level_flags(level) | always,
            nodes: page.nodes() as u16,
            free_bytes: (page_bytes as usize - used) as u16,
        }
    }

    fn place(&self, page: Spot, key: &[u8]) -> Option<Result<usize, usize>> {
        let page = self.tree_page(page);
        let (entry, is_first) = self.entry_at(page.run.tree, key)?;
        let is_body = page.run.tree == Tree::Bodies;
        // Among the nodes of the level: how many are smaller, and whether the next one has this key.
        let (smaller, is_there, first) = if page.level == 0 {
            let per_entry = if is_body { 2 } else { 1 };
            (entry * per_entry + u64::from(!is_first), is_first || is_body, page.first_entry() * per_entry)
        } else {
            // The separator behind a child is the first key under the next one.
            let per_child = page.run.first_entry_under(page.level - 1, 1);
            let child = entry / per_child;
            let is_separator = is_first && child > 0 && entry.is_multiple_of(per_child);
            (child - u64::from(is_separator), is_separator, page.first_entry())
        };
        let nodes = page.nodes();
        let is_open = page.level > 0 && first + nodes == page.run.levels[page.level].entries;
        let keys = nodes - u64::from(is_open);
        Some(match smaller.checked_sub(first) {
            None => Err(0),
            Some(slot) if slot >= keys => Err(keys as usize),
            Some(slot) if is_there => Ok(slot as usize),
            Some(slot) => Err(slot as usize),
        })
    }

    fn key(&self, page: Spot, slot: usize) -> NodeKey {
        let page = self.tree_page(page);
        if page.level > 0 {
            let child = page.child(slot) as u32;
            if child + 1 == page.run.levels[page.level - 1].pages {
                return NodeKey::new();
            }
            let entry = page.run.first_entry_under(page.level - 1, child + 1);
            return separator(&self.schema, page.run, entry).into();
        }
        let entry = page.first_entry() + slot as u64;
        let key = match page.run.tree {
            Tree::Rows | Tree::Folders => row_key(entry as u32 + 1),
            Tree::Bodies => {
                let id = (page.first_entry() + slot as u64 / 2) as u32 + 1;
                if slot.is_multiple_of(2) { body_root_key(id) } else { body_key(id) }
            }
            Tree::Conversations => conversation_key(self.schema.places().place_of_rank(entry)),
        };
        key.into()
    }

    fn data_bytes(&self, page: Spot, slot: usize) -> usize {
        let page = self.tree_page(page);
        match (page.level, page.run.tree) {
            (1.., _) => CHILD_BYTES,
            (0, Tree::Rows | Tree::Folders) => ROW_BYTES,
            (0, Tree::Bodies) if slot.is_multiple_of(2) => 8,
            (0, Tree::Bodies) => BODY_BYTES,
            (0, Tree::Conversations) => 5,
        }
    }

    fn write_data(&self, page: Spot, slot: usize, data: &mut [u8]) {
        let page = self.tree_page(page);
        if page.level > 0 {
            let below = page.run.levels[page.level - 1].first;
            data.copy_from_slice(&(below + page.child(slot) as u32).to_le_bytes());
        } else {
            self.schema.write_data(self.entry(&page, slot), data);
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

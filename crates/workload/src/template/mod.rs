//! The template database: every page of a new database as a pure function of (shape, page number).
//!
//! Invariants
//! 1. Every page of the template is valid: checksum, structure, order, links and space accounting. Tests over
//!    every page kind prove it, and so license the O(1) verification of pristine pages.
//! 2. Equal shapes give equal bytes; different seeds give different payloads in every row.
//! 3. `fill` looks at nothing but the shape and the few system pages that were made from it.
//!
//! Limits: a new database is in the clean state; its rows are version 0.

pub(crate) mod edits;
mod header;
pub mod layout;
mod memory;
mod nodes;
mod system;
mod tables;

use edb::page::{BulkPage, Node, PageMut, PageRef, page_flags};
use world::TemplatePages;

use crate::payload::mix;
use crate::schema::{BODY_BYTES, DatabaseShape, Entry, ROW_BYTES, Schema, Tree};
use layout::{Layout, PageRole, TreePages};

pub use tables::TemplateError;

/// Dbtime of every page below the roots: the first one that a database uses.
const IMAGE_DBTIME: u64 = 64;

/// Template database: the initial contents of one database file.
pub struct TemplateDatabase {
    schema: Schema,
    layout: Layout,
    header: Box<[u8]>,
    /// System pages 1..=`layout.system_pages`.
    system: Vec<Box<[u8]>>,
    tables: tables::Tables,
    id: u64,
}

impl TemplateDatabase {
    /// Generator of the entries.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Layout: role of every page.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Adds checksums to a page from `fill_unsealed`, so that it equals a page from `fill`.
    pub(crate) fn seal(&self, index: u64, page: &mut [u8]) {
        let pgno = u32::try_from(index.saturating_sub(1)).unwrap_or(u32::MAX);
        // The pages of other kinds are kept as they are, sealed.
        if matches!(self.layout.place(pgno), PageRole::Tree { .. }) {
            edb::checksum::stamp(page, pgno);
        }
    }

    /// Whether page `pgno` holds what was written: the template's bytes if it was not changed; otherwise keys in
    /// order, and on leaves entries of the load, byte for byte. Bytes outside of entries are checked on unchanged
    /// pages only.
    pub fn is_as_written(&self, pgno: u32, page: PageRef) -> bool {
        if page.dbtime() == IMAGE_DBTIME && matches!(self.layout.place(pgno), PageRole::Tree { .. }) {
            return self.is_unchanged(pgno, page);
        }
        let tree = self.tree_of(page.objid()).filter(|_| page.is_leaf() && !page.is_space());
        let is_sound = |tree, node: Node| self.schema.verify(tree, &node.key(), node.data).is_some();
        page.check_order().is_ok() && tree.is_none_or(|tree| page.nodes().all(|node| is_sound(tree, node)))
    }

    /// Whether a page equals the template's, except checksums and flush type, which recovery changes when it writes a
    /// page again.
    fn is_unchanged(&self, pgno: u32, page: PageRef) -> bool {
        let mut template = vec![0; self.page_bytes()];
        self.fill_unsealed(u64::from(pgno) + 1, &mut template);
        let mut expected = PageMut::new(&mut template);
        let flags = expected.view().flags() & !page_flags::FLUSH_TYPE;
        expected.set_flags(flags | page.flags() & page_flags::FLUSH_TYPE);
        is_same_unsealed(&template, page.bytes())
    }

    fn fill_tree_page(&self, run: &TreePages, level: usize, ordinal: u32, page: &mut [u8]) {
        let pgno = run.levels[level].first + ordinal;
        let flags = tree_flags(run.tree) | level_flags(level);
        let mut bulk = BulkPage::format(page, self.tree(run.tree).objid, flags, IMAGE_DBTIME, &[]);
        if level == 0 {
            let pages = run.levels[0].pages;
            let prev = if ordinal == 0 { 0 } else { pgno - 1 };
            bulk.set_neighbours(prev, if ordinal + 1 == pages { 0 } else { pgno + 1 });
            self.push_leaf_entries(run, ordinal, &mut bulk);
        } else {
            let children = run.levels[level].entries_of(ordinal);
            push_children(&self.schema, run, level - 1, children, &mut bulk);
        }
        bulk.finish_unsealed(pgno);
    }

    fn push_leaf_entries(&self, run: &TreePages, ordinal: u32, bulk: &mut BulkPage) {
        let entries = run.levels[0].entries_of(ordinal);
        let ids = entries.start as u32 + 1..entries.end as u32 + 1;
        match run.tree {
            Tree::Rows | Tree::Folders => {
                let nodes = bulk.push_run(ids.len(), 2 + 5 + ROW_BYTES);
                for (id, node) in ids.zip(nodes.chunks_exact_mut(2 + 5 + ROW_BYTES)) {
                    node[..3].copy_from_slice(&[5, 0, 0x7F]);
                    node[3..7].copy_from_slice(&id.to_be_bytes());
                    self.schema.write_data(Entry::Row { id, version: 0 }, &mut node[7..]);
                }
            }
            Tree::Bodies => ids.for_each(|id| {
                let node = push_node::<4>(bulk, &self.schema, Entry::BodyRoot { id }, 8);
                self.schema.write_data(Entry::BodyRoot { id }, node);
                let node = push_node::<8>(bulk, &self.schema, Entry::Body { id, version: 0 }, BODY_BYTES);
                self.schema.write_data(Entry::Body { id, version: 0 }, node);
            }),
            Tree::Conversations => {
                let places = self.schema.places();
                let count = (entries.end - entries.start) as usize;
                let nodes = bulk.push_run(count, 2 + 9 + 5).as_chunks_mut::<16>().0;
                let ids = places.ids_from_rank(entries.start);
                for ((rank, id), node) in entries.clone().zip(ids).zip(nodes) {
                    // Key and data in one go: this runs 1,300 times per page.
                    node[..3].copy_from_slice(&[9, 0, 0x7F]);
                    node[3..11].copy_from_slice(&places.place_of_rank(rank).to_be_bytes());
                    node[11] = 0x7F;
                    node[12..].copy_from_slice(&id.to_be_bytes());
                }
            }
        }
    }
}

/// Starts a node with the key of `entry` and a known length. Returns the range of its data.
#[inline(always)]
fn push_node<'a, const KEY: usize>(
    bulk: &'a mut BulkPage,
    schema: &Schema,
    entry: Entry,
    data_bytes: usize,
) -> &'a mut [u8] {
    let node = bulk.push(2 + KEY + data_bytes);
    node[..2].copy_from_slice(&(KEY as u16).to_le_bytes());
    node[2..2 + KEY].copy_from_slice(&schema.key(entry)[..KEY]);
    &mut node[2 + KEY..]
}

/// Adds branch entries for `children`, page ordinals of `level`. The last entry of the level has no key.
fn push_children(
    schema: &Schema,
    run: &TreePages,
    level: usize,
    children: std::ops::Range<u64>,
    bulk: &mut BulkPage,
) {
    let first = run.levels[level].first;
    for child in children.start..children.end {
        let pgno = (first + child as u32).to_le_bytes();
        if child + 1 == u64::from(run.levels[level].pages) {
            let node = bulk.push(2 + 4);
            node[..2].fill(0);
            node[2..].copy_from_slice(&pgno);
        } else {
            let key = separator(schema, run, run.first_entry_under(level, child as u32 + 1));
            let node = bulk.push(2 + key.len() + 4);
            node[..2].copy_from_slice(&(key.len() as u16).to_le_bytes());
            node[2..2 + key.len()].copy_from_slice(&key);
            node[2 + key.len()..].copy_from_slice(&pgno);
        }
    }
}

/// Key that separates leaf entry number `entry` from the one before it: its own key.
fn separator(schema: &Schema, run: &TreePages, entry: u64) -> crate::schema::Key {
    let id = entry as u32 + 1;
    match run.tree {
        Tree::Rows | Tree::Folders => crate::schema::row_key(id),
        Tree::Bodies => crate::schema::body_root_key(id),
        Tree::Conversations => crate::schema::conversation_key(schema.places().place_of_rank(entry)),
    }
}

fn level_flags(level: usize) -> u32 {
    match level {
        0 => page_flags::LEAF,
        1 => page_flags::PARENT_OF_LEAF,
        _ => 0,
    }
}

fn tree_flags(tree: Tree) -> u32 {
    match tree {
        Tree::Rows | Tree::Folders => 0,
        Tree::Bodies => page_flags::LONG_VALUE,
        Tree::Conversations => page_flags::INDEX | page_flags::NON_UNIQUE,
    }
}

impl TemplatePages for TemplateDatabase {
    fn id(&self) -> u64 {
        self.id
    }

    fn page_bytes(&self) -> usize {
        self.schema.shape().page_bytes as usize
    }

    fn pages(&self) -> u64 {
        u64::from(self.schema.shape().pages) + 2
    }

    fn fill(&self, index: u64, page: &mut [u8]) {
        self.fill_unsealed(index, page);
        self.seal(index, page);
    }

    fn fill_unsealed(&self, index: u64, page: &mut [u8]) {
        let Some(pgno) = index.checked_sub(1).filter(|pgno| *pgno > 0) else {
            page.copy_from_slice(&self.header);
            return;
        };
        match self.layout.place(u32::try_from(pgno).unwrap_or(u32::MAX)) {
            PageRole::System => page.copy_from_slice(&self.system[pgno as usize - 1]),
            PageRole::Tree { run, level, ordinal } => self.fill_tree_page(run, level, ordinal, page),
            PageRole::Free => page.fill(0),
        }
    }
}

fn template_id(shape: &DatabaseShape) -> u64 {
    [
        u64::from(shape.page_bytes),
        u64::from(shape.pages),
        u64::from(shape.rows),
        u64::from(shape.compressibility_pct),
    ]
    .iter()
    .fold(shape.seed, |id, part| mix(id ^ part))
}

/// Whether two pages are equal except for their checksums.
pub(crate) fn is_same_unsealed(a: &[u8], b: &[u8]) -> bool {
    // The header has the counter of modifications, which tells nearly all changed pages.
    let rest = if a.len() <= 8192 { 8 } else { 64 };
    a[8..40] == b[8..40] && a[rest..] == b[rest..]
}

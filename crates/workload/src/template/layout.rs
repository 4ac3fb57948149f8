//! Where everything stands in a new database: which page holds which entries, by arithmetic.
//!
//! Invariants
//! 1. Pages in file order: system pages, then one run per large tree (leaves in key order, then each branch
//!    level from the bottom up), then free pages. Every page belongs to exactly one of these.
//! 2. All pages of a level but its last hold the same number of entries, so page and entry number determine each other.
//! 3. The root of a tree is one of the system pages and has as entries the pages of the topmost level.
//!
//! Limits: page numbers are 32 bits.

use btree::space::SPACE_HEADER_BYTES;

use crate::schema::{BODY_BYTES, DatabaseShape, ROW_BYTES, Tree};

/// Trees that are too large to be created entry by entry.
pub const LARGE_TREES: [Tree; 3] = [Tree::Rows, Tree::Bodies, Tree::Conversations];

/// Size of a node's tag and key length field, bytes.
const NODE_OVERHEAD_BYTES: usize = 4 + 2;
const CHILD_BYTES: usize = 4;
/// Fill of index pages, percent, so that inserts at random places find room.
const INDEX_FILL_PCT: usize = 80;
/// Fill of branch pages over long values, percent: see "Why these numbers" in docs/schema.md.
const BODY_BRANCH_FILL_PCT: usize = 25;

/// Size of a page's header, bytes.
pub fn header_bytes(page_bytes: usize) -> usize {
    if page_bytes <= 8192 { 40 } else { 80 }
}

/// Bytes for nodes and their tags in a page with an empty tag 0.
fn room_bytes(page_bytes: usize) -> usize {
    page_bytes - header_bytes(page_bytes) - 4
}

/// Level of a tree: a run of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// First page of the level.
    pub first: u32,
    /// Number of pages of the level.
    pub pages: u32,
    /// Number of entries in each page but the last. For [`Tree::Bodies`] leaves an entry is a long value (two nodes).
    pub fan_out: u32,
    /// Number of entries of all pages of the level.
    pub entries: u64,
}

impl Level {
    /// Entries of the level's page number `ordinal`.
    pub fn entries_of(&self, ordinal: u32) -> std::ops::Range<u64> {
        let first = u64::from(ordinal) * u64::from(self.fan_out);
        first..(first + u64::from(self.fan_out)).min(self.entries)
    }
}

/// Pages of one large tree below its root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreePages {
    /// Name of the tree.
    pub tree: Tree,
    /// Levels of the tree; 0 is the leaves.
    pub levels: Vec<Level>,
}

impl TreePages {
    fn new(tree: Tree, page_bytes: usize, entries: u64, first: u32) -> TreePages {
        let (leaf, branch) = fan_outs(tree, page_bytes);
        let root = branch.min(children_of_root_max(tree, page_bytes));
        let mut levels = vec![Level { first, pages: pages_for(entries, leaf), fan_out: leaf, entries }];
        loop {
            let below = levels[levels.len() - 1];
            if below.pages <= root {
                return TreePages { tree, levels };
            }
            levels.push(Level {
                first: below.first + below.pages,
                pages: pages_for(u64::from(below.pages), branch),
                fan_out: branch,
                entries: u64::from(below.pages),
            });
        }
    }

    /// Number of pages of all levels.
    pub fn pages(&self) -> u32 {
        self.levels.iter().map(|level| level.pages).sum()
    }

    /// First page of the run.
    pub fn first(&self) -> u32 {
        self.levels[0].first
    }

    /// Topmost level, whose pages are the entries of the root.
    pub fn top(&self) -> &Level {
        &self.levels[self.levels.len() - 1]
    }

    /// Number of the first leaf entry under page `ordinal` of `level`.
    pub fn first_entry_under(&self, level: usize, ordinal: u32) -> u64 {
        self.levels[..=level].iter().fold(u64::from(ordinal), |entry, level| entry * u64::from(level.fan_out))
    }
}

fn pages_for(entries: u64, fan_out: u32) -> u32 {
    u32::try_from(entries.div_ceil(u64::from(fan_out))).unwrap_or(u32::MAX)
}

/// Size of a key in the tree's branch pages, bytes.
fn branch_key_bytes(tree: Tree) -> usize {
    match tree {
        Tree::Rows | Tree::Folders => 5,
        Tree::Bodies => 4,
        Tree::Conversations => 9,
    }
}

/// Largest number of children of a root: its tag 0 holds the space header, and its last entry has no key.
fn children_of_root_max(tree: Tree, page_bytes: usize) -> u32 {
    let key_bytes = branch_key_bytes(tree);
    let room = room_bytes(page_bytes) - SPACE_HEADER_BYTES + key_bytes;
    (room / (NODE_OVERHEAD_BYTES + key_bytes + CHILD_BYTES)) as u32
}

/// Number of entries per leaf page and per branch page.
fn fan_outs(tree: Tree, page_bytes: usize) -> (u32, u32) {
    let room = room_bytes(page_bytes);
    let branch = room / (NODE_OVERHEAD_BYTES + branch_key_bytes(tree) + CHILD_BYTES);
    let (leaf, branch) = match tree {
        Tree::Rows | Tree::Folders => (room / (NODE_OVERHEAD_BYTES + 5 + ROW_BYTES), branch),
        Tree::Bodies => {
            let root_node = NODE_OVERHEAD_BYTES + 4 + 8;
            (room / (root_node + NODE_OVERHEAD_BYTES + 8 + BODY_BYTES), branch * BODY_BRANCH_FILL_PCT / 100)
        }
        Tree::Conversations => {
            (room * INDEX_FILL_PCT / 100 / (NODE_OVERHEAD_BYTES + 9 + 5), branch * INDEX_FILL_PCT / 100)
        }
    };
    (leaf as u32, branch as u32)
}

/// Role of a page in the template database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageRole<'a> {
    /// System page: created once and stored.
    System,
    /// Page `ordinal` of `level` of a large tree.
    Tree {
        /// Pages of the tree.
        run: &'a TreePages,
        /// Level of the page; 0 is the leaves.
        level: usize,
        /// Number of the page in its level.
        ordinal: u32,
    },
    /// Free page: all zero.
    Free,
}

/// Layout of the template database: the role of every page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Runs of the large trees, one per [`LARGE_TREES`], in that order.
    pub runs: [TreePages; 3],
    /// Number of system pages; they are pages 1..=this.
    pub system_pages: u32,
}

impl Layout {
    /// Layout of a database with `rows` messages, `index_entries` of them indexed, after `system_pages`.
    pub fn new(page_bytes: usize, rows: u32, index_entries: u64, system_pages: u32) -> Layout {
        let mut next = system_pages + 1;
        let runs = LARGE_TREES.map(|tree| {
            let entries = if tree == Tree::Conversations { index_entries } else { u64::from(rows) };
            let run = TreePages::new(tree, page_bytes, entries, next);
            next += run.pages();
            run
        });
        Layout { runs, system_pages }
    }

    /// Number of the first free page.
    pub fn first_free(&self) -> u32 {
        let last = &self.runs[2];
        last.first() + last.pages()
    }

    /// Pages of a large tree.
    pub fn run(&self, tree: Tree) -> Option<&TreePages> {
        self.runs.iter().find(|run| run.tree == tree)
    }

    /// Role of page `pgno`.
    pub fn place(&self, pgno: u32) -> PageRole<'_> {
        if pgno <= self.system_pages {
            return PageRole::System;
        }
        for run in &self.runs {
            for (level, pages) in run.levels.iter().enumerate() {
                if pgno < pages.first + pages.pages {
                    return PageRole::Tree { run, level, ordinal: pgno - pages.first };
                }
            }
        }
        PageRole::Free
    }
}

/// Numbers of rows and pages for a file of `file_bytes` with at least `free_pages` free, after `system_pages`; `None`
/// if it is too small for one row, or page numbers or ids do not suffice.
pub fn rows_for(
    page_bytes: usize,
    file_bytes: u64,
    system_pages: u32,
    free_pages: u32,
) -> Option<(u32, u32)> {
    let pages = u32::try_from(file_bytes / page_bytes as u64).ok()?.checked_sub(2)?;
    let last = pages.checked_sub(free_pages)?;
    let fits = |rows: u32| {
        let entries = DatabaseShape::index_entries(rows);
        Layout::new(page_bytes, rows, entries, system_pages).first_free() <= last + 1
    };
    if !fits(1) {
        return None;
    }
    let (mut low, mut high) = (1u32, (file_bytes / (ROW_BYTES + BODY_BYTES) as u64).try_into().ok()?);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    Some((low, pages))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_one_place_and_levels_name_their_children() {
        for page_bytes in [4096, 8192, 16384, 32768] {
            let (rows, pages) = rows_for(page_bytes, 200 << 20, 60, 256).unwrap();
            let layout = Layout::new(page_bytes, rows, DatabaseShape::index_entries(rows), 60);
            let mut seen = [0u32; 3];
            for pgno in 61..layout.first_free() {
                let PageRole::Tree { run, level, ordinal } = layout.place(pgno) else {
                    panic!("page {pgno} has no tree")
                };
                assert_eq!(run.levels[level].first + ordinal, pgno);
                assert!(!run.levels[level].entries_of(ordinal).is_empty());
                seen[LARGE_TREES.iter().position(|tree| *tree == run.tree).unwrap()] += 1;
            }
            assert_eq!(seen.to_vec(), layout.runs.iter().map(TreePages::pages).collect::<Vec<_>>());
            assert_eq!(layout.place(60), PageRole::System);
            assert_eq!(layout.place(layout.first_free()), PageRole::Free);
            assert!(pages - layout.first_free() >= 255 && pages - layout.first_free() < 300);
        }
    }

    #[test]
    fn a_long_value_page_is_full_at_every_page_size() {
        for (page_bytes, values) in [(4096, 2), (8192, 4), (16384, 8), (32768, 16)] {
            assert_eq!(fan_outs(Tree::Bodies, page_bytes).0, values);
        }
    }

    #[test]
    fn sizes_from_eight_megabytes_to_four_tebibytes_fit() {
        for page_bytes in [4096usize, 8192, 16384, 32768] {
            for file_bytes in [8u64 << 20, 1 << 30, 1 << 40, 4 << 40] {
                let Some((rows, _)) = rows_for(page_bytes, file_bytes, 60, 64) else {
                    panic!("{file_bytes} bytes with pages of {page_bytes}")
                };
                assert!(u64::from(rows) * 2300 + (6 << 20) > file_bytes * 9 / 10, "{rows} in {file_bytes}");
            }
        }
        assert_eq!(rows_for(32768, 1 << 20, 60, 0), None);
        assert_eq!(rows_for(4096, 1 << 50, 60, 0), None);
    }
}

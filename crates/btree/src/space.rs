//! Space of trees: which pages they own and which of those are free.
//!
//! Invariants
//! 1. Owned = pages of the tree and its space trees + available + owned extents of its children, each page once.
//! 2. Taking pages never makes a space tree grow; giving pages back takes what it needs from the same space first.
//! 3. The lowest page of the first available extent goes first.
//!
//! Limits: single-extent trees have at most 33 pages; extents of pooled space (newer formats) are refused as damage.

use edb::page::{node_flags, page_flags};

use crate::change::{MiniTransaction, PageOp};
use crate::merge;
use crate::overlay::Overlay;
use crate::pager::{Pager, Result, Stop, damaged};
use crate::split::{insert_at, split_leaf};
use crate::tree::{self, Path, Position, Seek, Tree, leaf_of};

/// Number of the root page of the database's own space.
pub const DATABASE_FDP: u32 = 1;
const MULTIPLE_EXTENTS: u32 = 1;
const NON_UNIQUE: u32 = 2;
/// Size of a [`SpaceHeader`] in tag 0 of a root, bytes.
pub const SPACE_HEADER_BYTES: usize = 16;

/// The space header of a tree: the external header of its root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpaceHeader {
    /// Number of pages of the first extent.
    pub primary_pages: u32,
    /// Root page of the tree from whose space this tree's extents come; 0 for the database.
    pub parent: u32,
    flags: u32,
    /// With several extents: root page of the owned-extents tree. With one: a bit for each free page behind the root.
    word: u32,
}

impl SpaceHeader {
    /// Header of a tree with several extents. Its owned-extents tree has its root at page `owned_root`, its
    /// available-extents tree at the next page. `repeats`: keys need not be unique.
    pub fn multiple(primary_pages: u32, parent: u32, owned_root: u32, repeats: bool) -> SpaceHeader {
        let flags = MULTIPLE_EXTENTS | if repeats { NON_UNIQUE } else { 0 };
        SpaceHeader { primary_pages, parent, flags, word: owned_root }
    }

    /// Header of a tree with one extent, of which only the first page is in use. `repeats`: keys need not be unique.
    pub fn single(primary_pages: u32, parent: u32, repeats: bool) -> SpaceHeader {
        let free = match primary_pages {
            0 | 1 => 0,
            // All ones also where there are more pages than bits: the further ones are never used.
            33.. => u32::MAX,
            pages => (1 << (pages - 1)) - 1,
        };
        SpaceHeader { primary_pages, parent, flags: if repeats { NON_UNIQUE } else { 0 }, word: free }
    }

    /// Encodes the header.
    pub fn bytes(&self) -> Vec<u8> {
        [self.primary_pages, self.parent, self.flags, self.word]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect()
    }

    /// Reads the space header of the tree with this root.
    ///
    /// # Errors
    /// If the page is missing or has no space header.
    pub fn read(pager: &dyn Pager, fdp: u32) -> Result<SpaceHeader> {
        let header = tree::view(pager, fdp)?.external_header();
        // Newer formats put a flag byte in front.
        let header = if header.len() > SPACE_HEADER_BYTES { &header[1..] } else { header };
        let word = |i: usize| Some(u32::from_le_bytes(*header.get(4 * i..)?.first_chunk()?));
        let read = || {
            Some(SpaceHeader { primary_pages: word(0)?, parent: word(1)?, flags: word(2)?, word: word(3)? })
        };
        read().ok_or(Stop::Damaged { pgno: fdp, reason: "no space header" })
    }

    /// Free pages behind the root of a single-extent tree, one extent for each page; empty for a tree with several
    /// extents.
    pub fn free_extents(&self, fdp: u32) -> Vec<Extent> {
        let bits = if self.owned_root().is_some() { 0 } else { self.word };
        let free = (0..32).filter(|bit| bits >> bit & 1 == 1 && bit + 1 < self.primary_pages);
        free.map(|bit| Extent { first: fdp + 1 + bit, pages: 1 }).collect()
    }

    /// All unused pages of a single-extent tree. Pages beyond the 32 that the header has a bit for are never used.
    pub(crate) fn unused_extents(&self, fdp: u32) -> Vec<Extent> {
        let mut unused = self.free_extents(fdp);
        if self.primary_pages > 33 {
            unused.push(Extent { first: fdp + 33, pages: self.primary_pages - 33 });
        }
        unused
    }

    /// Root page of the owned-extents tree, if the tree has one. The available-extents tree is at the next page.
    pub fn owned_root(&self) -> Option<u32> {
        (self.flags & MULTIPLE_EXTENTS != 0).then_some(self.word)
    }
}

/// Extent: adjacent pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Lowest page.
    pub first: u32,
    /// Number of pages.
    pub pages: u32,
}

impl Extent {
    fn last(&self) -> u32 {
        self.first + self.pages - 1
    }

    /// Key of the extent's entry in a space tree.
    pub fn key(&self) -> [u8; 4] {
        self.last().to_be_bytes()
    }
}

/// Extent that the entry at `at` of an owned- or available-extents tree describes.
pub(crate) fn extent_at(pager: &dyn Pager, at: Position) -> Result<Extent> {
    let node = at.node(pager)?;
    let key = node.key();
    let (Ok(last), Ok(pages)) = (<[u8; 4]>::try_from(&key[..]), <[u8; 4]>::try_from(node.data)) else {
        return damaged(at.pgno, "extent entry of a wrong size");
    };
    let (last, pages) = (u32::from_be_bytes(last), u32::from_le_bytes(pages));
    if pages == 0 || pages > last || node.flags & node_flags::DELETED != 0 {
        return damaged(at.pgno, "impossible extent");
    }
    Ok(Extent { first: last - pages + 1, pages })
}

/// All extents of a space tree, for validation and reports. Entries flagged deleted do not count, because the genuine
/// engine removes them later.
///
/// # Errors
/// If pages are missing or damaged.
pub fn extents(pager: &dyn Pager, root: u32, objid: u32) -> Result<Vec<Extent>> {
    let space = space_tree(root, objid);
    let mut found = Vec::new();
    let mut at = tree::first(pager, space)?;
    while let Some(position) = at {
        if !position.node(pager)?.is_deleted() {
            found.push(extent_at(pager, position)?);
        }
        at = tree::next(pager, space, position)?;
    }
    Ok(found)
}

/// Pages that the space tree at `root` reserves for its own splits. Its external header names them.
pub(crate) fn split_buffer(pager: &dyn Pager, root: u32) -> Result<Vec<Extent>> {
    let header = tree::view(pager, root)?.external_header();
    let (words, _) = header.as_chunks::<4>();
    let pairs = words.chunks_exact(2).map(|pair| (u32::from_le_bytes(pair[0]), u32::from_le_bytes(pair[1])));
    let kept = pairs.filter(|(last, pages)| *pages > 0 && pages <= last);
    Ok(kept.map(|(last, pages)| Extent { first: last - pages + 1, pages }).collect())
}

fn space_tree(root: u32, objid: u32) -> Tree {
    Tree { fdp: root, objid, density_pct: 100 }
}

fn objid_of(pager: &dyn Pager, fdp: u32) -> Result<u32> {
    Ok(tree::view(pager, fdp)?.objid())
}

/// Allocates a page from the tree's own space, and extends the space if it has none.
pub(crate) fn allocate(overlay: &mut Overlay, tree: Tree) -> Result<u32> {
    loop {
        let header = SpaceHeader::read(overlay, tree.fdp)?;
        let Some(owned_root) = header.owned_root() else {
            if header.word == 0 {
                convert(overlay, tree.fdp)?;
                continue;
            }
            let bit = header.word.trailing_zeros();
            let taken = SpaceHeader { word: header.word & !(1 << bit), ..header };
            overlay.edit(tree.fdp, PageOp::SetExternalHeader { header: taken.bytes() })?;
            return Ok(tree.fdp + 1 + bit);
        };
        if let Some(extent) = take_extent(overlay, owned_root, tree.objid, 1)? {
            return Ok(extent.first);
        }
        extend(overlay, tree.fdp, 1)?;
    }
}

/// Takes `pages` adjacent pages from the available extents of the space at `owned_root`.
fn take_extent(overlay: &mut Overlay, owned_root: u32, objid: u32, pages: u32) -> Result<Option<Extent>> {
    let available = space_tree(owned_root + 1, objid);
    let mut at = tree::first(overlay, available)?;
    while let Some(position) = at {
        let extent = extent_at(overlay, position)?;
        if extent.pages > pages {
            let data = (extent.pages - pages).to_le_bytes().into();
            overlay.edit(position.pgno, PageOp::Replace { slot: position.slot as u16, data })?;
            return Ok(Some(Extent { first: extent.first, pages }));
        }
        if extent.pages == pages {
            merge::remove(overlay, available, &extent.key(), &[], free_of_available)?;
            return Ok(Some(extent));
        }
        at = tree::next(overlay, available, position)?;
    }
    Ok(None)
}

/// Takes an extent of `wanted_pages`, or a smaller available one, from the space of `fdp` for a child tree. Extends
/// the space if it has none of `least_pages`.
fn extent_for_child(overlay: &mut Overlay, fdp: u32, wanted_pages: u32, least_pages: u32) -> Result<Extent> {
    // A piece too small would soon be followed by the next one.
    let enough_pages = (wanted_pages / 4).max(least_pages);
    loop {
        let objid = objid_of(overlay, fdp)?;
        let Some(owned_root) = SpaceHeader::read(overlay, fdp)?.owned_root() else {
            convert(overlay, fdp)?;
            continue;
        };
        for pages in [wanted_pages, enough_pages] {
            if let Some(extent) = take_extent(overlay, owned_root, objid, pages)? {
                return Ok(extent);
            }
        }
        extend(overlay, fdp, wanted_pages)?;
    }
}

/// Adds an extent of at least `least_pages` to a tree with owned- and available-extents trees.
fn extend(overlay: &mut Overlay, fdp: u32, least_pages: u32) -> Result<()> {
    let header = SpaceHeader::read(overlay, fdp)?;
    let Some(owned_root) = header.owned_root() else {
        return damaged(fdp, "its space is one extent and cannot be extended");
    };
    let pages = next_extent_pages(overlay, owned_root)?.max(least_pages);
    if header.parent == 0 {
        return Err(Stop::NoSpace { pages: least_pages });
    }
    let extent = extent_for_child(overlay, header.parent, pages, least_pages)?;
    let objid = objid_of(overlay, fdp)?;
    add_available(overlay, owned_root, objid, extent)?;
    add_entry(overlay, owned_root, owned_root, objid, extent)
}

/// Size of a tree's next extent, pages. Trees that were extended often grow in larger steps.
fn next_extent_pages(overlay: &Overlay, owned_root: u32) -> Result<u32> {
    let root = overlay.view(owned_root)?;
    Ok(if root.is_leaf() { 16 << (root.node_count() / 4).min(3) } else { 256 })
}

/// Gives a single-extent tree space trees, which lie in a second extent.
fn convert(overlay: &mut Overlay, fdp: u32) -> Result<()> {
    const SECOND_EXTENT_PAGES: u32 = 16;
    let header = SpaceHeader::read(overlay, fdp)?;
    let extent = extent_for_child(overlay, header.parent, SECOND_EXTENT_PAGES, 3)?;
    let root = overlay.view(fdp)?;
    let (objid, flags) = (root.objid(), root.flags());
    let owned_root = extent.first;
    format_space_trees(overlay, owned_root, objid, flags)?;
    let primary = Extent { first: fdp, pages: header.primary_pages };
    add_entry(overlay, owned_root, owned_root, objid, primary)?;
    add_entry(overlay, owned_root, owned_root, objid, extent)?;
    add_available(overlay, owned_root, objid, Extent { first: extent.first + 2, pages: extent.pages - 2 })?;
    // A free page of the first extent is handed on; normally there is none when a tree is converted.
    for free in header.free_extents(fdp) {
        add_available(overlay, owned_root, objid, free)?;
    }
    let header = SpaceHeader { flags: header.flags | MULTIPLE_EXTENTS, word: owned_root, ..header };
    overlay.edit(fdp, PageOp::SetExternalHeader { header: header.bytes() })
}

/// Formats empty owned- and available-extents roots at `owned_root` and behind it. `flags` are those of the tree's
/// root.
pub(crate) fn format_space_trees(
    overlay: &mut Overlay,
    owned_root: u32,
    objid: u32,
    flags: u32,
) -> Result<()> {
    let kind = flags & (page_flags::INDEX | page_flags::LONG_VALUE | page_flags::NON_UNIQUE);
    let flags = kind | page_flags::ROOT | page_flags::LEAF | page_flags::SPACE;
    overlay.format(owned_root, objid, flags, &[0; SPACE_HEADER_BYTES])?;
    overlay.format(owned_root + 1, objid, flags, &[0; SPACE_HEADER_BYTES])
}

/// Returns a page of a tree to its space.
pub(crate) fn free(overlay: &mut Overlay, tree: Tree, pgno: u32) -> Result<()> {
    let header = SpaceHeader::read(overlay, tree.fdp)?;
    let Some(owned_root) = header.owned_root() else {
        let bit = pgno.wrapping_sub(tree.fdp + 1);
        if bit >= 32 || bit + 1 >= header.primary_pages || header.word >> bit & 1 == 1 {
            return damaged(pgno, "not a page in use of its tree's extent");
        }
        let freed = SpaceHeader { word: header.word | 1 << bit, ..header };
        return overlay.edit(tree.fdp, PageOp::SetExternalHeader { header: freed.bytes() });
    };
    add_available(overlay, owned_root, tree.objid, Extent { first: pgno, pages: 1 })
}

/// Returns a page of an available-extents tree to the space that this tree describes.
fn free_of_available(overlay: &mut Overlay, available: Tree, pgno: u32) -> Result<()> {
    // The owned-extents root is the page in front of the available-extents root.
    add_available(overlay, available.fdp - 1, available.objid, Extent { first: pgno, pages: 1 })
}

/// Adds an extent to the available ones and joins it with its neighbours.
pub(crate) fn add_available(
    overlay: &mut Overlay,
    owned_root: u32,
    objid: u32,
    extent: Extent,
) -> Result<()> {
    let available = space_tree(owned_root + 1, objid);
    let mut joined = extent;
    if let Some(left) = tree::seek(overlay, available, &extent.first.to_be_bytes(), Seek::AtMost)? {
        let left = extent_at(overlay, left)?;
        if left.last() + 1 == extent.first {
            joined = Extent { first: left.first, pages: left.pages + extent.pages };
            merge::remove(overlay, available, &left.key(), &[], free_of_available)?;
        }
    }
    if let Some(position) = tree::seek(overlay, available, &extent.key(), Seek::AtLeast)? {
        let right = extent_at(overlay, position)?;
        if right.first <= extent.last() {
            return damaged(position.pgno, "a page is free that is in use");
        }
        if extent.last() + 1 == right.first {
            // The entry keeps its key, the last page.
            let data = (joined.pages + right.pages).to_le_bytes().into();
            return overlay.edit(position.pgno, PageOp::Replace { slot: position.slot as u16, data });
        }
    }
    add_entry(overlay, owned_root, owned_root + 1, objid, joined)
}

/// Adds an entry to the space tree at `root`; if it splits, its pages come from the same space.
fn add_entry(overlay: &mut Overlay, owned_root: u32, root: u32, objid: u32, extent: Extent) -> Result<()> {
    let space = space_tree(root, objid);
    let (key, data) = (extent.key(), extent.pages.to_le_bytes());
    let mut spares = Vec::new();
    loop {
        let mut descent = tree::descend(overlay, space, &key, &data)?;
        if descent.exact {
            return damaged(root, "an extent is there twice");
        }
        let fits = overlay.view(leaf_of(&descent.path).pgno)?.fits(&key, data.len());
        if fits && spares.is_empty() {
            let take_page = &mut take_from(&mut spares);
            return insert_at(overlay, space, &mut descent.path, &key, &data, 0, take_page);
        }
        // Taking a page can make room on the very page that was full. The page taken is used all the same: given back,
        // it would fill the room again.
        if spares.len() >= pages_to_split(overlay, &descent.path, extent)? {
            let take_page = &mut take_from(&mut spares);
            split_leaf(overlay, space, &mut descent.path, &key, &data, take_page)?;
            continue;
        }
        match take_extent(overlay, owned_root, objid, 1)? {
            Some(page) => spares.push(page.first),
            None => return damaged(root, "a space tree is full but names no free page"),
        }
    }
}

/// Takes a page from those set aside before, because a space tree cannot allocate from itself while it changes.
fn take_from(spares: &mut Vec<u32>) -> impl FnMut(&mut Overlay, Tree) -> Result<u32> {
    |_, tree| {
        let reason = "its space trees need more pages than foreseen";
        spares.pop().ok_or(Stop::Damaged { pgno: tree.fdp, reason })
    }
}

/// Number of new pages that a split of the path's leaf needs: one for it and one for each full page above.
fn pages_to_split(overlay: &Overlay, path: &Path, extent: Extent) -> Result<usize> {
    let mut pages = 1;
    for at in path.iter().rev().skip(1) {
        // Separators have the size of an entry at most: four bytes of key, four of data.
        if overlay.view(at.pgno)?.fits(&extent.key(), 4) {
            break;
        }
        pages += 1;
    }
    Ok(pages)
}

/// Extends the database from `pages_before` to `pages`; the new pages become available at its root.
///
/// # Errors
/// If pages are missing or damaged.
pub fn extend_database(pager: &dyn Pager, pages_before: u32, pages: u32) -> Result<MiniTransaction> {
    let mut overlay = Overlay::new(pager);
    let Some(owned_root) = SpaceHeader::read(pager, DATABASE_FDP)?.owned_root() else {
        return damaged(DATABASE_FDP, "the database root has no space trees");
    };
    let objid = objid_of(pager, DATABASE_FDP)?;
    let extent = Extent { first: pages_before + 1, pages: pages - pages_before };
    add_available(&mut overlay, owned_root, objid, extent)?;
    add_entry(&mut overlay, owned_root, owned_root, objid, extent)?;
    Ok(MiniTransaction::system(overlay.finish()))
}

/// Creates a tree with space trees in an extent of `pages` from the parent's space; its root is the first page.
pub(crate) fn create_multiple(
    overlay: &mut Overlay,
    parent: u32,
    pages: u32,
    objid: u32,
    kind: u32,
) -> Result<u32> {
    let extent = extent_for_child(overlay, parent, pages, pages)?;
    format_multiple(overlay, parent, extent, objid, kind)?;
    Ok(extent.first)
}

/// As [`create_multiple`], in a given extent. The space trees follow the root.
pub(crate) fn format_multiple(
    overlay: &mut Overlay,
    parent: u32,
    extent: Extent,
    objid: u32,
    kind: u32,
) -> Result<()> {
    let repeats = kind & page_flags::NON_UNIQUE != 0;
    let owned_root = extent.first + 1;
    let header = SpaceHeader::multiple(extent.pages, parent, owned_root, repeats);
    overlay.format(extent.first, objid, kind | page_flags::ROOT | page_flags::LEAF, &header.bytes())?;
    format_space_trees(overlay, owned_root, objid, kind)?;
    if extent.pages > 3 {
        add_available(
            overlay,
            owned_root,
            objid,
            Extent { first: extent.first + 3, pages: extent.pages - 3 },
        )?;
    }
    add_entry(overlay, owned_root, owned_root, objid, extent)
}

/// Creates a tree with one extent of `pages` from the parent's space.
pub(crate) fn create_single(
    overlay: &mut Overlay,
    parent: u32,
    pages: u32,
    objid: u32,
    kind: u32,
) -> Result<u32> {
    let fdp = extent_for_child(overlay, parent, pages, pages)?.first;
    let header = SpaceHeader::single(pages, parent, kind & page_flags::NON_UNIQUE != 0);
    overlay.format(fdp, objid, kind | page_flags::ROOT | page_flags::LEAF, &header.bytes())?;
    Ok(fdp)
}

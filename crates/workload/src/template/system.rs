//! The pages that are made once and kept: root, catalog, the roots and space trees of the tables, the small tables.
//!
//! The ordinary code that creates databases makes a small one; its roots and space trees are then given the
//! runs of pages that the layout puts behind it.
//!
//! Invariants
//! 1. Messages owns one extent with all runs; its index and long values own their runs out of it; what lies behind is
//!    available at the database root. So each page is owned once.
//! 2. The shape stands in the only row of the table Proofload, on a page that no operation changes.
//!
//! Limits: the space trees stay on their root pages.

use btree::space::{DATABASE_FDP, Extent, SpaceHeader, extents};
use btree::{Pager, Stop, update};
use edb::page::{BulkPage, PageRef, page_flags};
use edb::record::RecordRef;

use super::layout::{Layout, TreePages, rows_for};
use super::memory::MemoryPages;
use super::tables::{SHAPE_COLUMN, SHAPE_PAGE, Tables, TemplateError};
use super::{IMAGE_DBTIME, TemplateDatabase, header, push_children, template_id, tree_flags};
use crate::schema::{DatabaseShape, Schema, Tree};

/// Number of pages of the small database: the system tables, and Folders at the smallest page size.
const BASE_PAGES: u32 = 256;
/// Number of pages of the space trees of long values and index, between the small database and the runs.
const CHILD_SPACE_PAGES: u32 = 4;
/// Size of the external header of a space tree's root, bytes.
const SPLIT_BUFFER_BYTES: usize = 16;

/// Small database with its tables, before the large trees get their pages.
struct Base {
    pages: MemoryPages,
    tables: Tables,
    /// Number of pages in use or owned by tables; those behind them are available at the root.
    system_pages: u32,
}

impl TemplateDatabase {
    /// Template of a database whose file has `file_bytes`, at least `free_pages` of them free.
    ///
    /// # Errors
    /// If no database can have that size.
    pub fn of_size(
        page_bytes: u32,
        file_bytes: u64,
        free_pages: u32,
        seed: u64,
        compressibility_pct: u8,
    ) -> Result<TemplateDatabase, TemplateError> {
        let too_small = TemplateError::Size { file_bytes, page_bytes };
        if !edb::page::is_page_size(page_bytes as usize) {
            return Err(too_small);
        }
        let empty = DatabaseShape { page_bytes, pages: 0, rows: 1, seed, compressibility_pct };
        let base = Base::new(&empty)?;
        let sized = rows_for(page_bytes as usize, file_bytes, base.system_pages, free_pages);
        let (rows, pages) = sized.ok_or(too_small)?;
        TemplateDatabase::new(DatabaseShape { pages, rows, ..empty })
    }

    /// Template of a database of this shape.
    ///
    /// # Errors
    /// If no database has this shape.
    pub fn new(shape: DatabaseShape) -> Result<TemplateDatabase, TemplateError> {
        if !edb::page::is_page_size(shape.page_bytes as usize) || shape.rows == 0 {
            return Err(TemplateError::Shape(shape));
        }
        let schema = Schema::new(shape);
        let Base { mut pages, tables, system_pages } = Base::new(&shape)?;
        let entries = DatabaseShape::index_entries(shape.rows);
        let layout = Layout::new(shape.page_bytes as usize, shape.rows, entries, system_pages);
        if layout.first_free() > shape.pages + 1 {
            return Err(TemplateError::Shape(shape));
        }
        for run in &layout.runs {
            let fdp = tables.tree(run.tree).fdp;
            write_root(&mut pages, &schema, run, fdp)?;
            // The rows' own run is in the extent of their table, below.
            if run.tree != Tree::Rows {
                own(&mut pages, fdp, Extent { first: run.first(), pages: run.pages() })?;
            }
        }
        let behind_space_trees = system_pages + 1 - CHILD_SPACE_PAGES;
        let pages_of_messages = layout.first_free() - behind_space_trees;
        own(
            &mut pages,
            tables.tree(Tree::Rows).fdp,
            Extent { first: behind_space_trees, pages: pages_of_messages },
        )?;
        stretch_database(&mut pages, layout.first_free(), shape.pages)?;
        let header = header::header_page(&shape, pages.dbtime + 1, tables.last_objid());
        let system = pages.finish(system_pages);
        Ok(TemplateDatabase { id: template_id(&shape), schema, layout, header, system, tables })
    }

    /// Page that stores the shape of a database; it never changes.
    pub const SHAPE_PAGE: u32 = SHAPE_PAGE;

    /// Template of the database whose [`Self::SHAPE_PAGE`] this is.
    ///
    /// # Errors
    /// `Foreign` if the page is not of a database that this version made.
    pub fn of_shape_page(page: &[u8]) -> Result<TemplateDatabase, TemplateError> {
        let shape = shape_of_page(page).filter(|shape| shape.page_bytes as usize == page.len());
        let template = TemplateDatabase::new(shape.ok_or(TemplateError::Foreign)?)?;
        if *template.system[SHAPE_PAGE as usize - 1] != *page {
            return Err(TemplateError::Foreign);
        }
        Ok(template)
    }

    /// Opens a tree for changes.
    pub fn tree(&self, tree: Tree) -> btree::Tree {
        self.tables.tree(tree)
    }

    /// Tree with this object id.
    pub fn tree_of(&self, objid: u32) -> Option<Tree> {
        self.tables.tree_of(objid)
    }
}

/// Shape that the page stores.
fn shape_of_page(page: &[u8]) -> Option<DatabaseShape> {
    if !edb::page::is_page_size(page.len()) {
        return None;
    }
    let record = PageRef::new(page).nodes().next()?.data;
    DatabaseShape::from_bytes(RecordRef::new(record).variable(SHAPE_COLUMN)?)
}

impl Base {
    fn new(shape: &DatabaseShape) -> Result<Base, TemplateError> {
        let mut pages = MemoryPages::new(shape.page_bytes as usize, BASE_PAGES, IMAGE_DBTIME);
        pages.run(|pager| btree::database::create(pager.page_bytes(), BASE_PAGES))?;
        let tables = Tables::create(&mut pages, shape)?;
        let (_, available) = space_trees(&pages, DATABASE_FDP)?;
        let free = extents(&pages, available.fdp, available.objid)?.pop().map(|extent| extent.first);
        let mut next = free.ok_or(Stop::NoSpace { pages: 1 })?;
        for tree in [Tree::Bodies, Tree::Conversations] {
            add_space_trees(&mut pages, tables.tree(tree), next)?;
            next += 2;
        }
        Ok(Base { pages, tables, system_pages: next - 1 })
    }
}

/// Gives a one-page tree space trees at `owned_root` and behind it, as when it outgrows its first extent.
fn add_space_trees(pages: &mut MemoryPages, tree: btree::Tree, owned_root: u32) -> Result<(), TemplateError> {
    let old = SpaceHeader::read(pages, tree.fdp)?;
    let flags = pages.page(tree.fdp)?.flags();
    let kind = flags & (page_flags::INDEX | page_flags::LONG_VALUE | page_flags::NON_UNIQUE);
    let header =
        SpaceHeader::multiple(old.primary_pages, old.parent, owned_root, kind & page_flags::NON_UNIQUE != 0);
    let space = kind | page_flags::ROOT | page_flags::LEAF | page_flags::SPACE;
    for (pgno, flags, header) in [
        (tree.fdp, kind | page_flags::ROOT | page_flags::LEAF, &header.bytes()[..]),
        (owned_root, space, &[0; SPLIT_BUFFER_BYTES]),
        (owned_root + 1, space, &[0; SPLIT_BUFFER_BYTES]),
    ] {
        let dbtime = pages.dbtime;
        BulkPage::format(pages.page_mut(pgno)?, tree.objid, flags, dbtime, header).finish(pgno);
    }
    for extent in
        [Extent { first: tree.fdp, pages: old.primary_pages }, Extent { first: owned_root, pages: 2 }]
    {
        own(pages, tree.fdp, extent)?;
    }
    Ok(())
}

/// Writes the root of a large tree, which refers to the pages of the topmost level.
fn write_root(
    pages: &mut MemoryPages,
    schema: &Schema,
    run: &TreePages,
    fdp: u32,
) -> Result<(), TemplateError> {
    let root = pages.page(fdp)?;
    let (objid, header) = (root.objid(), root.external_header().to_vec());
    let top = run.levels.len() - 1;
    let parent = if top == 0 { page_flags::PARENT_OF_LEAF } else { 0 };
    let dbtime = pages.dbtime;
    let page = pages.page_mut(fdp)?;
    let flags = page_flags::ROOT | tree_flags(run.tree) | parent;
    let mut bulk = BulkPage::format(page, objid, flags, dbtime, &header);
    push_children(schema, run, top, 0..u64::from(run.top().pages), &mut bulk);
    bulk.finish(fdp);
    Ok(())
}

/// Adds an extent to those that a tree owns.
fn own(pages: &mut MemoryPages, fdp: u32, extent: Extent) -> Result<(), Stop> {
    let (owned, _) = space_trees(pages, fdp)?;
    add_extent(pages, owned, extent)
}

/// Extends the database to page `last` and makes the pages from `first_free` on available.
fn stretch_database(pages: &mut MemoryPages, first_free: u32, last: u32) -> Result<(), Stop> {
    let (owned, available) = space_trees(pages, DATABASE_FDP)?;
    let free = Extent { first: first_free, pages: last + 1 - first_free };
    for (tree, extent) in [(owned, Extent { first: 1, pages: last }), (available, free)] {
        // The extent that reached to the end of the small database.
        if let Some(old) = extents(pages, tree.fdp, tree.objid)?.pop() {
            pages.run(|pager| update::delete(pager, tree, &old.key(), &[]))?;
            if let Some(mini) = update::purge(pages, tree, &old.key(), &[])? {
                pages.apply(&mini)?;
            }
        }
        if extent.pages > 0 {
            add_extent(pages, tree, extent)?;
        }
    }
    Ok(())
}

fn add_extent(pages: &mut MemoryPages, tree: btree::Tree, extent: Extent) -> Result<(), Stop> {
    pages.run(|pager| update::insert(pager, tree, &extent.key(), &extent.pages.to_le_bytes()))
}

/// Trees of the owned and of the available extents.
fn space_trees(pages: &MemoryPages, fdp: u32) -> Result<(btree::Tree, btree::Tree), Stop> {
    let damaged = Stop::Damaged { pgno: fdp, reason: "a system tree without space trees" };
    let owned = SpaceHeader::read(pages, fdp)?.owned_root().ok_or(damaged)?;
    let objid = pages.page(fdp)?.objid();
    let tree = |fdp| btree::Tree { fdp, objid, density_pct: 100 };
    Ok((tree(owned), tree(owned + 1)))
}

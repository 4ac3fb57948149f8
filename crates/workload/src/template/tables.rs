//! The tables as the catalog has them, and the rows of the small ones.
//!
//! Invariants
//! 1. Columns and records agree: what [`crate::schema`] writes is what readers of the catalog expect.

use btree::database::{ColumnDefinition, IndexDefinition, TableDefinition, create_table, schema};
use btree::{Stop, update};
use edb::column::ColumnType;
use edb::record::{Field, encode};

use thiserror::Error;

use super::memory::MemoryPages;
use crate::schema::{DatabaseShape, Entry, FOLDERS, Schema, Tree, row_key};

/// Reason why no template database exists.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TemplateError {
    /// The size leaves no room for a row, or needs more pages or rows than there are numbers.
    #[error("a database of {file_bytes} bytes with pages of {page_bytes} bytes cannot be made")]
    Size {
        /// Requested size of the file, bytes.
        file_bytes: u64,
        /// Size of a page, bytes.
        page_bytes: u32,
    },
    /// No database can have the shape.
    #[error("no database has this shape: {0:?}")]
    Shape(DatabaseShape),
    /// The system pages cannot be built.
    #[error("the system pages cannot be built: {0}")]
    System(#[from] Stop),
    /// The file was not made by Proofload, or by another version.
    #[error("not a database that this version of Proofload made")]
    Foreign,
}

/// Root page of the table Proofload, the first page after the system tables; it holds its only row.
pub(super) const SHAPE_PAGE: u32 = 31;
/// Column of that row with the shape.
pub(super) const SHAPE_COLUMN: u16 = 128;

const SHAPE_TABLE: &str = "Proofload";
const MESSAGES: &str = "Messages";
const FOLDERS_TABLE: &str = "Folders";
const BY_CONVERSATION: &str = "ByConversation";

/// Roots and object ids of the trees that operations use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tables {
    rows: btree::Tree,
    bodies: btree::Tree,
    conversations: btree::Tree,
    folders: btree::Tree,
}

impl Tables {
    /// Creates the tables in a new database, with the rows of the small ones.
    pub fn create(pages: &mut MemoryPages, shape: &DatabaseShape) -> Result<Tables, TemplateError> {
        for table in definitions() {
            pages.run(|pager| create_table(pager, &table))?;
        }
        let catalog = schema(pages)?;
        let table = |name| catalog.table(name).ok_or(Stop::NotFound);
        let messages = table(MESSAGES)?;
        let tables = Tables {
            rows: messages.tree,
            bodies: messages.long_values.ok_or(Stop::NotFound)?,
            conversations: messages.index(BY_CONVERSATION).ok_or(Stop::NotFound)?.tree,
            folders: table(FOLDERS_TABLE)?.tree,
        };
        let shape_tree = table(SHAPE_TABLE)?.tree;
        if shape_tree.fdp != SHAPE_PAGE {
            return Err(TemplateError::Foreign);
        }
        let row = shape_row(shape);
        pages.run(|pager| update::insert(pager, shape_tree, &row_key(1), &row))?;
        let schema = Schema::new(*shape);
        for id in 1..=FOLDERS {
            let folder = Entry::Folder { id, version: 0 };
            let (key, data) = (schema.key(folder), schema.data(folder));
            pages.run(|pager| update::insert(pager, tables.folders, &key, &data))?;
        }
        Ok(tables)
    }

    /// Opens a tree for changes.
    pub fn tree(&self, tree: Tree) -> btree::Tree {
        match tree {
            Tree::Rows => self.rows,
            Tree::Bodies => self.bodies,
            Tree::Conversations => self.conversations,
            Tree::Folders => self.folders,
        }
    }

    /// Tree with this object id.
    pub fn tree_of(&self, objid: u32) -> Option<Tree> {
        [Tree::Rows, Tree::Bodies, Tree::Conversations, Tree::Folders]
            .into_iter()
            .find(|tree| self.tree(*tree).objid == objid)
    }

    /// Highest object id in use.
    pub fn last_objid(&self) -> u32 {
        [self.rows, self.bodies, self.conversations, self.folders]
            .map(|tree| tree.objid)
            .into_iter()
            .max()
            .unwrap_or(0)
    }
}

fn shape_row(shape: &DatabaseShape) -> Vec<u8> {
    let fields = [
        Field { id: 1, value: &1u32.to_le_bytes(), flags: 0 },
        Field { id: SHAPE_COLUMN, value: &shape.to_bytes(), flags: 0 },
    ];
    encode(&[ColumnType::U32], &fields, shape.page_bytes as usize)
}

/// Table definitions, in the order of their creation.
fn definitions() -> [TableDefinition; 3] {
    let column = |name: &str, kind, not_null| ColumnDefinition { name: name.to_owned(), kind, not_null };
    let table = |name: &str, key: &str, columns: Vec<ColumnDefinition>, pages| TableDefinition {
        name: name.to_owned(),
        columns,
        primary: IndexDefinition { name: key.to_owned(), flags: 0, columns: vec!["Id".to_owned()] },
        indexes: Vec::new(),
        has_long_values: false,
        pages,
        density_pct: 100,
    };
    let id = column("Id", ColumnType::U32, true);
    let version = column("Version", ColumnType::U32, true);
    let shape_columns = vec![id.clone(), column("Shape", ColumnType::Binary, false)];
    let folder_columns = vec![id.clone(), version.clone(), column("Changes", ColumnType::LongBinary, false)];
    let message_columns = vec![
        id,
        version,
        column("Conversation", ColumnType::Currency, false),
        column("Properties", ColumnType::Binary, false),
        column("Body", ColumnType::LongBinary, false),
    ];
    // Rows without a conversation have no entry: no flag allows nulls.
    let by_conversation = IndexDefinition {
        name: BY_CONVERSATION.to_owned(),
        flags: 0,
        columns: vec!["Conversation".to_owned()],
    };
    [
        table(SHAPE_TABLE, "ByNumber", shape_columns, 3),
        table(FOLDERS_TABLE, "ById", folder_columns, 32),
        TableDefinition {
            indexes: vec![by_conversation],
            has_long_values: true,
            // Root, its space trees, and the roots of index and long values.
            ..table(MESSAGES, "ById", message_columns, 5)
        },
    ]
}

//! The catalog: rows of MSysObjects that describe tables, columns, indexes and long-value trees, and the rows that
//! every database has for its system tables.
//!
//! Invariants
//! 1. `decode(encode(row)) == row`.
//! 2. The rows of the system tables equal those that ESE writes, but for the bytes of null columns, which mean nothing.

use crate::bytes::get_u32;
use crate::column::{ColumnType, FIRST_TAGGED, FIRST_VARIABLE};
use crate::key::{push_bit, push_bytes, push_i16, push_i32, push_text};
use crate::record::{Field, LONG_TYPE, RecordRef, encode};

/// Kind of a catalog object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    /// A table.
    Table = 1,
    /// A column.
    Column = 2,
    /// An index.
    Index = 3,
    /// A tree of long values.
    LongValues = 4,
}

/// Column flags.
pub mod column_flags {
    /// The column is never null.
    pub const NOT_NULL: u32 = 1;
    /// The column has a default value that user code set.
    pub const USER_DEFAULT: u32 = 0x20;
    /// The column has a default value.
    pub const DEFAULT: u32 = 0x10;
}

/// Index flags: low half as ESE's IDB, high half IDX.
pub mod index_flags {
    /// Keys of the index are unique.
    pub const UNIQUE: u32 = 1;
    /// Rows whose key columns are all null have an entry.
    pub const ALLOW_ALL_NULLS: u32 = 2;
    /// Rows whose first key column is null have an entry.
    pub const ALLOW_FIRST_NULL: u32 = 4;
    /// Rows with null in some key column have an entry.
    pub const ALLOW_SOME_NULLS: u32 = 8;
    /// The rows of the table are in the order of this index.
    pub const PRIMARY: u32 = 0x20;
    /// Columns are named in the extended form; always set.
    pub const EXTENDED_COLUMNS: u32 = 0x1_0000;
    /// Ordinary primary index.
    pub const USER_PRIMARY: u32 =
        EXTENDED_COLUMNS | PRIMARY | UNIQUE | ALLOW_ALL_NULLS | ALLOW_FIRST_NULL | ALLOW_SOME_NULLS;
}

/// Code page of ASCII and Windows-1252 text.
pub const CODE_PAGE_ASCII: u32 = 1252;
/// Sort flags of every index.
const SORT_FLAGS: u32 = 0x3_0401;
/// "en-US", the locale of every index.
const LOCALE: &[u8] = b"e\0n\0-\0U\0S\0";

/// Row of the catalog: it describes a table, a column, an index, or a tree of long values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogRow {
    /// Object id of the table to which the object belongs.
    pub table: u32,
    /// Kind of the object.
    pub kind: ObjectKind,
    /// Object id of a tree, or column id.
    pub id: u32,
    /// Page number of the tree's root, or type of the column.
    pub root_or_type: u32,
    /// Density of a tree in %, or the largest size of a column.
    pub density_or_bytes: u32,
    /// Flags: see [`column_flags`] and [`index_flags`].
    pub flags: u32,
    /// Initial number of pages of a table, or code page of a column.
    pub pages_or_code_page: u32,
    /// Offset of a fixed column in the record.
    pub record_offset: Option<u16>,
    /// Name of the object.
    pub name: String,
    /// Default value of a column.
    pub default_value: Option<Vec<u8>>,
    /// Columns of an index.
    pub key_columns: Vec<KeyColumn>,
}

/// Column of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyColumn {
    /// Column id.
    pub id: u16,
    /// Whether the order is descending.
    pub descending: bool,
}

const DESCENDING: u8 = 0x40;

impl KeyColumn {
    /// Column of an index in ascending order.
    pub fn ascending(id: u16) -> KeyColumn {
        KeyColumn { id, descending: false }
    }
}

/// Object ids and pages of the system tables.
pub mod system {
    /// MSysObjects: object id.
    pub const OBJECTS: u32 = 2;
    /// MSysObjects: root page.
    pub const OBJECTS_FDP: u32 = 4;
    /// MSysObjects: pages of its extent.
    pub const OBJECTS_PAGES: u32 = 20;
    /// Index Name: object id.
    pub const NAME_INDEX: u32 = 4;
    /// Index Name: root page.
    pub const NAME_INDEX_FDP: u32 = 7;
    /// Index RootObjects: object id.
    pub const ROOTS_INDEX: u32 = 5;
    /// Index RootObjects: root page.
    pub const ROOTS_INDEX_FDP: u32 = 10;
    /// MSysObjectsShadow: object id.
    pub const SHADOW: u32 = 3;
    /// MSysObjectsShadow: root page.
    pub const SHADOW_FDP: u32 = 24;
    /// MSysObjectsShadow: pages of its extent.
    pub const SHADOW_PAGES: u32 = 5;
    /// MSysObjids: object id.
    pub const OBJIDS: u32 = 6;
    /// MSysObjids: root page.
    pub const OBJIDS_FDP: u32 = 29;
    /// MSysLocales: object id.
    pub const LOCALES: u32 = 7;
    /// MSysLocales: root page.
    pub const LOCALES_FDP: u32 = 30;
}

const FIXED: [(&str, ColumnType, u32); 12] = [
    ("ObjidTable", ColumnType::I32, column_flags::NOT_NULL),
    ("Type", ColumnType::I16, column_flags::NOT_NULL),
    ("Id", ColumnType::I32, column_flags::NOT_NULL),
    ("ColtypOrPgnoFDP", ColumnType::I32, column_flags::NOT_NULL),
    ("SpaceUsage", ColumnType::I32, column_flags::NOT_NULL),
    ("Flags", ColumnType::I32, column_flags::NOT_NULL),
    ("PagesOrLocale", ColumnType::I32, column_flags::NOT_NULL),
    ("RootFlag", ColumnType::Bit, 0),
    ("RecordOffset", ColumnType::I16, 0),
    ("LCMapFlags", ColumnType::I32, 0),
    ("KeyMost", ColumnType::U16, 0),
    ("LVChunkMax", ColumnType::I32, 0),
];
/// Offsets of the fixed columns in a record of MSysObjects.
const OFFSETS: [usize; 12] = [4, 8, 10, 14, 18, 22, 26, 30, 31, 33, 37, 39];
const VARIABLE: [(&str, ColumnType, u32); 10] = [
    ("Name", ColumnType::Text, column_flags::NOT_NULL),
    ("Stats", ColumnType::Binary, 0),
    ("TemplateTable", ColumnType::Text, 0),
    ("DefaultValue", ColumnType::Binary, 0),
    ("KeyFldIDs", ColumnType::Binary, 0),
    ("VarSegMac", ColumnType::Binary, 0),
    ("ConditionalColumns", ColumnType::Binary, 0),
    ("TupleLimits", ColumnType::Binary, 0),
    ("Version", ColumnType::Binary, 0),
    ("SortID", ColumnType::Binary, 0),
];
const TAGGED: [&str; 6] = [
    "CallbackData",
    "CallbackDependencies",
    "SeparateLV",
    "SpaceHints",
    "SpaceDeferredLVHints",
    "LocaleName",
];
const NAME: u16 = 128;
const DEFAULT_VALUE: u16 = 131;
const KEY_COLUMNS: u16 = 132;
const LOCALE_NAME: u16 = 261;

impl CatalogRow {
    /// Catalog row of a table.
    pub fn table(objid: u32, name: &str, fdp: u32, density_pct: u32, pages: u32) -> CatalogRow {
        CatalogRow {
            table: objid,
            kind: ObjectKind::Table,
            id: objid,
            root_or_type: fdp,
            density_or_bytes: density_pct,
            flags: 0,
            pages_or_code_page: pages,
            record_offset: None,
            name: name.to_owned(),
            default_value: None,
            key_columns: Vec::new(),
        }
    }

    /// Catalog row of a column.
    pub fn column(table: u32, id: u16, name: &str, kind: ColumnType, flags: u32) -> CatalogRow {
        let unlimited = if id < FIRST_TAGGED && !kind.is_long() { 255 } else { 0 };
        CatalogRow {
            kind: ObjectKind::Column,
            id: id.into(),
            density_or_bytes: kind.fixed_bytes().map_or(unlimited, |bytes| bytes as u32),
            flags,
            ..CatalogRow::table(table, name, kind as u32, 0, 0)
        }
    }

    /// Catalog row of an index.
    pub fn index(
        table: u32,
        objid: u32,
        name: &str,
        fdp: u32,
        density_pct: u32,
        flags: u32,
        key_columns: Vec<KeyColumn>,
    ) -> CatalogRow {
        let row = CatalogRow::table(table, name, fdp, density_pct, 0);
        CatalogRow { kind: ObjectKind::Index, id: objid, flags, key_columns, ..row }
    }

    /// Catalog row of a tree of long values.
    pub fn long_values(table: u32, objid: u32, fdp: u32) -> CatalogRow {
        CatalogRow { kind: ObjectKind::LongValues, id: objid, ..CatalogRow::table(table, "LV", fdp, 100, 1) }
    }

    /// Key of the row in MSysObjects and its shadow.
    pub fn key(&self) -> Vec<u8> {
        let mut key = self.owner_key();
        push_i32(&mut key, self.id as i32);
        key
    }

    fn owner_key(&self) -> Vec<u8> {
        let mut key = Vec::new();
        push_i32(&mut key, self.table as i32);
        push_i16(&mut key, self.kind as i16);
        key
    }

    /// Key of the row in the index Name.
    pub fn name_key(&self) -> Vec<u8> {
        let mut key = self.owner_key();
        push_text(&mut key, &self.name);
        key
    }

    /// Key of the row in the index RootObjects, which contains tables.
    pub fn root_key(&self) -> Option<Vec<u8>> {
        (self.kind == ObjectKind::Table).then(|| {
            let mut key = Vec::new();
            push_bit(&mut key, true);
            push_text(&mut key, &self.name);
            key
        })
    }

    /// Encodes the row as a record.
    pub fn encode(&self, page_bytes: usize) -> Vec<u8> {
        let is_index = self.kind == ObjectKind::Index;
        let numbers = [
            self.table,
            self.id,
            self.root_or_type,
            self.density_or_bytes,
            self.flags,
            self.pages_or_code_page,
        ]
        .map(u32::to_le_bytes);
        let kind = (self.kind as u16).to_le_bytes();
        let record_offset = self.record_offset.map(u16::to_le_bytes);
        let sort_flags = SORT_FLAGS.to_le_bytes();
        let key_columns: Vec<u8> = self
            .key_columns
            .iter()
            .flat_map(|column| {
                let [low, high] = column.id.to_le_bytes();
                [if column.descending { DESCENDING } else { 0 }, 0, low, high]
            })
            .collect();
        let optional: [(u16, Option<&[u8]>); 14] = [
            (1, Some(&numbers[0])),
            (2, Some(&kind)),
            (3, Some(&numbers[1])),
            (4, Some(&numbers[2])),
            (5, Some(&numbers[3])),
            (6, Some(&numbers[4])),
            (7, Some(&numbers[5])),
            (8, (self.kind == ObjectKind::Table).then_some(&[0xFF])),
            (9, record_offset.as_ref().map(|value| &value[..])),
            (10, is_index.then_some(&sort_flags)),
            (NAME, Some(self.name.as_bytes())),
            (DEFAULT_VALUE, self.default_value.as_deref()),
            (KEY_COLUMNS, is_index.then_some(&key_columns)),
            (LOCALE_NAME, is_index.then_some(LOCALE)),
        ];
        let fields: Vec<Field> = optional
            .into_iter()
            .filter_map(|(id, value)| {
                let flags = if id == LOCALE_NAME { LONG_TYPE } else { 0 };
                value.map(|value| Field { id, value, flags })
            })
            .collect();
        encode(&FIXED.map(|(_, kind, _)| kind), &fields, page_bytes)
    }

    /// Decodes a record of MSysObjects; `None` if it is not one.
    pub fn decode(record: &[u8]) -> Option<CatalogRow> {
        let record = RecordRef::new(record);
        let number = |id: usize| Some(get_u32(record.fixed(id as u16, OFFSETS[id - 1], 4)?, 0));
        let short = |id: usize| {
            Some(u16::from_le_bytes(record.fixed(id as u16, OFFSETS[id - 1], 2)?.try_into().ok()?))
        };
        let kind = match short(2)? {
            1 => ObjectKind::Table,
            2 => ObjectKind::Column,
            3 => ObjectKind::Index,
            4 => ObjectKind::LongValues,
            _ => return None,
        };
        let key_column = |raw: &[u8]| KeyColumn {
            id: u16::from_le_bytes([raw[2], raw[3]]),
            descending: raw[0] & DESCENDING != 0,
        };
        Some(CatalogRow {
            table: number(1)?,
            kind,
            id: number(3)?,
            root_or_type: number(4)?,
            density_or_bytes: number(5)?,
            flags: number(6)?,
            pages_or_code_page: number(7)?,
            record_offset: short(9),
            name: String::from_utf8_lossy(record.variable(NAME)?).into_owned(),
            default_value: record.variable(DEFAULT_VALUE).map(<[u8]>::to_vec),
            key_columns: record
                .variable(KEY_COLUMNS)
                .unwrap_or(&[])
                .chunks_exact(4)
                .map(key_column)
                .collect(),
        })
    }
}

/// Catalog rows of the four system tables.
pub fn system_rows() -> Vec<CatalogRow> {
    use system::*;
    let primary = [1, 2, 3].map(KeyColumn::ascending).to_vec();
    let mut rows = Vec::new();
    for (objid, name, fdp, pages) in [
        (OBJECTS, "MSysObjects", OBJECTS_FDP, OBJECTS_PAGES),
        (SHADOW, "MSysObjectsShadow", SHADOW_FDP, SHADOW_PAGES),
    ] {
        rows.push(CatalogRow { flags: 0xC000_0000, ..CatalogRow::table(objid, name, fdp, 80, pages) });
        rows.extend(catalog_columns(objid));
        rows.push(CatalogRow::index(objid, objid, "Id", fdp, 80, 0x1_0031, primary.clone()));
    }
    let by_name = [1, 2, NAME].map(KeyColumn::ascending).to_vec();
    rows.push(CatalogRow::index(OBJECTS, NAME_INDEX, "Name", NAME_INDEX_FDP, 80, 0x1_0011, by_name));
    let tables = [8, NAME].map(KeyColumn::ascending).to_vec();
    rows.push(CatalogRow::index(OBJECTS, ROOTS_INDEX, "RootObjects", ROOTS_INDEX_FDP, 80, 0x1_0009, tables));
    rows.extend(objids_rows());
    rows.extend(locales_rows());
    rows
}

fn catalog_columns(objid: u32) -> impl Iterator<Item = CatalogRow> {
    // The engine's own columns all claim the first offset and the ASCII code page.
    let column = move |id, name, kind, flags| CatalogRow {
        pages_or_code_page: CODE_PAGE_ASCII,
        ..CatalogRow::column(objid, id, name, kind, flags)
    };
    let fixed = (1..).zip(FIXED).map(move |(id, (name, kind, flags))| CatalogRow {
        record_offset: Some(OFFSETS[0] as u16),
        ..column(id, name, kind, flags)
    });
    let variable =
        (FIRST_VARIABLE..).zip(VARIABLE).map(move |(id, (name, kind, flags))| column(id, name, kind, flags));
    let tagged =
        (FIRST_TAGGED..).zip(TAGGED).map(move |(id, name)| column(id, name, ColumnType::LongBinary, 0));
    fixed.chain(variable).chain(tagged)
}

fn objids_rows() -> Vec<CatalogRow> {
    use system::{OBJIDS, OBJIDS_FDP};
    let columns = [("objid", ColumnType::I32), ("objidTable", ColumnType::I32), ("type", ColumnType::I16)];
    let mut rows = vec![CatalogRow {
        flags: 0xC800_0000,
        ..CatalogRow::table(OBJIDS, "MSysObjids", OBJIDS_FDP, 100, 0)
    }];
    rows.extend(
        (FIRST_TAGGED..).zip(columns).map(|(id, (name, kind))| CatalogRow::column(OBJIDS, id, name, kind, 0)),
    );
    let key = vec![KeyColumn::ascending(FIRST_TAGGED)];
    rows.push(CatalogRow::index(OBJIDS, OBJIDS, "primary", OBJIDS_FDP, 100, index_flags::USER_PRIMARY, key));
    rows
}

fn locales_rows() -> Vec<CatalogRow> {
    use system::{LOCALES, LOCALES_FDP};
    let table = CatalogRow::table(LOCALES, "MSysLocales", LOCALES_FDP, 92, 0);
    let kind = CatalogRow::column(LOCALES, 1, "Type", ColumnType::U8, column_flags::NOT_NULL);
    let flags = column_flags::DEFAULT | column_flags::USER_DEFAULT;
    let value = CatalogRow::column(LOCALES, 2, "iValue", ColumnType::I32, flags);
    let key = vec![KeyColumn::ascending(FIRST_VARIABLE)];
    vec![
        CatalogRow { flags: 0x8800_0000, ..table },
        CatalogRow { record_offset: Some(4), ..kind },
        CatalogRow { record_offset: Some(5), default_value: Some(vec![0; 4]), ..value },
        CatalogRow::column(LOCALES, FIRST_VARIABLE, "Key", ColumnType::Binary, 0),
        CatalogRow::index(LOCALES, LOCALES, "KeyPrimary", LOCALES_FDP, 92, 0x1_402F, key),
    ]
}

/// Key and record of a tree in MSysObjids: its kind, and its table.
pub fn objid_entry(row: &CatalogRow, page_bytes: usize) -> (Vec<u8>, Vec<u8>) {
    let (objid, table) = (row.id.to_le_bytes(), row.table.to_le_bytes());
    let kind = (row.kind as u16).to_le_bytes();
    let mut key = Vec::new();
    push_i32(&mut key, row.id as i32);
    let field = |id, value| Field { id, value, flags: 0 };
    (key, encode(&[], &[field(256, &objid), field(257, &table), field(258, &kind)], page_bytes))
}

/// Entries of MSysLocales, ascending by key: sort versions that the indexes need (none).
pub fn locale_entries(page_bytes: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let schema = |side: &str, part: &str, value| (format!(".Schema\\{side}\\{part}"), 1u8, value);
    let rows = ["External", "Internal"]
        .into_iter()
        .flat_map(|side| [schema(side, "Major", 1u32), schema(side, "Minor", 0), schema(side, "Update", 0)]);
    let all = rows.chain([("MSysLocalesConsistent".to_owned(), 2, 1)]);
    let mut entries: Vec<_> = all
        .map(|(name, kind, value)| {
            let name: Vec<u8> = name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
            let mut key = Vec::new();
            push_bytes(&mut key, &name);
            let field = |id, value| Field { id, value, flags: 0 };
            let (kind, value) = ([kind], value.to_le_bytes());
            let fields = [field(1, &kind), field(2, &value), field(FIRST_VARIABLE, &name)];
            (key, encode(&[ColumnType::U8, ColumnType::I32], &fields, page_bytes))
        })
        .collect();
    entries.sort();
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_survive_their_encoding_and_their_keys_are_unique() {
        for page_bytes in [4096, 32768] {
            let rows = system_rows();
            assert_eq!(rows.len(), 2 * (1 + 28 + 1) + 2 + 5 + 5);
            let mut keys: Vec<_> = rows.iter().map(CatalogRow::key).collect();
            for row in rows {
                assert_eq!(CatalogRow::decode(&row.encode(page_bytes)), Some(row));
            }
            keys.sort();
            keys.dedup();
            assert_eq!(keys.len(), 72);
        }
    }

    #[test]
    fn catalog_keys_are_the_known_ones() {
        let row = CatalogRow::table(8, "Messages", 31, 80, 20);
        assert_eq!(row.key(), [0x7F, 0x80, 0, 0, 8, 0x7F, 0x80, 1, 0x7F, 0x80, 0, 0, 8]);
        assert_eq!(row.root_key().unwrap(), *b"\x7F\xFF\x7FMESSAGES\0");
        assert_eq!(row.name_key()[..8], [0x7F, 0x80, 0, 0, 8, 0x7F, 0x80, 1]);
    }
}

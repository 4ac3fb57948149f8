//! The tables of a Proofload database and what is in them (the reasons: docs/schema.md).
//!
//! Invariants
//! 1. Every entry of a user tree is a function of (shape, id, version): it can be made, recognised and verified
//!    from these.
//! 2. Ids ascend from 1; rows 1..=rows exist in a new database, all with version 0.
//! 3. Index keys of initial rows ascend evenly with their rank, and rank and id determine each other by arithmetic.
//!
//! Limits: ids are 32 bits (long-value ids are), that is 9 TiB of rows in one database; versions are 24 bits.

use std::sync::Arc;

use btree::{EntryData, NodeKey};

use crate::payload::{Owner, Payload, mix};

/// Bytes of a Messages record.
pub const ROW_BYTES: usize = 136;
/// Size of a message's long value, bytes; it divides pages of every size almost without a rest.
pub const BODY_BYTES: usize = 1984;
/// Size of a Folders record, bytes; fitted to the published log volume.
pub const FOLDER_BYTES: usize = 280;
/// Number of rows of Folders. Each session uses one, so up to this many never conflict.
pub const FOLDERS: u32 = 256;
/// Of this many rows, one has a conversation and so an index entry.
const INDEX_PERIOD: u32 = 2;

const PROPERTIES: std::ops::Range<usize> = 23..127;
const CHANGES_START: usize = 18;
/// First byte of a tagged value that has a header byte; implied on pages over 8 KiB.
const SMALL_PAGE_HEADER_BYTE: u16 = 0x4000;
const BODY_COLUMN: u16 = 256;

/// Trees that the operations of the load use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tree {
    /// Rows of the table Messages.
    Rows,
    /// Long values of the table Messages.
    Bodies,
    /// Index ByConversation of the table Messages.
    Conversations,
    /// Rows of the table Folders.
    Folders,
}

/// Entry of one of the trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Row of a message.
    Row {
        /// Id of the message.
        id: u32,
        /// Version of the message: how often it was replaced.
        version: u32,
    },
    /// Root node of a message's long value.
    BodyRoot {
        /// Id of the message, which is also its long-value id.
        id: u32,
    },
    /// Chunk of a message's long value; each has one.
    Body {
        /// Id of the message.
        id: u32,
        /// Version of the message: how often it was replaced.
        version: u32,
    },
    /// Index entry of a message.
    Conversation {
        /// Id of the message.
        id: u32,
    },
    /// Row of a folder.
    Folder {
        /// Id of the folder.
        id: u32,
        /// Version of the folder: how often it was replaced.
        version: u32,
    },
}

/// Shape of a database: the few numbers that determine its initial contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatabaseShape {
    /// Size of a page, bytes: 4, 8, 16 or 32 KiB.
    pub page_bytes: u32,
    /// Number of pages of the file without header and shadow.
    pub pages: u32,
    /// Number of messages in a new database.
    pub rows: u32,
    /// Seed that makes payloads and signature differ between databases.
    pub seed: u64,
    /// Share of each payload that compresses away, percent.
    pub compressibility_pct: u8,
}

/// Version of the rules that turn a shape into contents. A file of another version cannot be used.
const IMAGE_VERSION: u8 = 2;

impl DatabaseShape {
    /// Size of [`Self::to_bytes`], bytes.
    pub const STORED_BYTES: usize = 22;

    /// Encodes the shape for its table in the database.
    pub fn to_bytes(&self) -> [u8; Self::STORED_BYTES] {
        let mut bytes = [0; Self::STORED_BYTES];
        bytes[0] = IMAGE_VERSION;
        bytes[1] = self.compressibility_pct;
        bytes[2..6].copy_from_slice(&self.page_bytes.to_le_bytes());
        bytes[6..10].copy_from_slice(&self.pages.to_le_bytes());
        bytes[10..14].copy_from_slice(&self.rows.to_le_bytes());
        bytes[14..].copy_from_slice(&self.seed.to_le_bytes());
        bytes
    }

    /// Decodes a stored shape; `None` if it is not one, or of another version.
    pub fn from_bytes(bytes: &[u8]) -> Option<DatabaseShape> {
        let bytes: &[u8; Self::STORED_BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let shape = DatabaseShape {
            page_bytes: word(2),
            pages: word(6),
            rows: word(10),
            seed: u64::from(word(14)) | u64::from(word(18)) << 32,
            compressibility_pct: bytes[1],
        };
        let sound =
            bytes[0] == IMAGE_VERSION && edb::page::is_page_size(shape.page_bytes as usize) && shape.rows > 0;
        sound.then_some(shape)
    }

    /// Number of index entries among the first `rows` messages.
    pub fn index_entries(rows: u32) -> u64 {
        ordinals_below(u64::from(rows))
    }
}

/// Bytes of a key, at most nine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    bytes: [u8; 16],
    len: u8,
}

impl Key {
    fn new(parts: &[&[u8]]) -> Key {
        let mut key = Key { bytes: [0; 16], len: 0 };
        for part in parts {
            let at = usize::from(key.len);
            key.bytes[at..at + part.len()].copy_from_slice(part);
            key.len += part.len() as u8;
        }
        key
    }
}

impl From<Key> for NodeKey {
    fn from(key: Key) -> NodeKey {
        NodeKey::from_buf_and_len(key.bytes, key.len.into())
    }
}

impl std::ops::Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// First byte of a normalised value that is not null.
const NOT_NULL: u8 = 0x7F;

/// Key of the message or folder `id` in its table.
pub fn row_key(id: u32) -> Key {
    Key::new(&[&[NOT_NULL], &id.to_be_bytes()])
}

/// Key of a long value's root node.
pub fn body_root_key(id: u32) -> Key {
    Key::new(&[&id.to_be_bytes()])
}

/// Key of a long value's chunk.
pub fn body_key(id: u32) -> Key {
    Key::new(&[&id.to_be_bytes(), &[0; 4]])
}

/// Key in ByConversation. `place` is the column value with its sign bit flipped, so that places order like keys;
/// a random place is where a read seeks.
pub fn conversation_key(place: u64) -> Key {
    Key::new(&[&[NOT_NULL], &place.to_be_bytes()])
}

/// Id of the message or folder with this [`row_key`].
pub fn id_of_row_key(key: &[u8]) -> Option<u32> {
    match *key {
        [NOT_NULL, a, b, c, d] => Some(u32::from_be_bytes([a, b, c, d])),
        _ => None,
    }
}

/// Id of the message whose long value has a node with this key, and whether the node is the chunk.
pub fn id_of_body_key(key: &[u8]) -> Option<(u32, bool)> {
    match *key {
        [a, b, c, d] => Some((u32::from_be_bytes([a, b, c, d]), false)),
        [a, b, c, d, 0, 0, 0, 0] => Some((u32::from_be_bytes([a, b, c, d]), true)),
        _ => None,
    }
}

/// Place that a [`conversation_key`] contains.
pub fn place_of_conversation_key(key: &[u8]) -> Option<u64> {
    match key {
        [NOT_NULL, place @ ..] => Some(u64::from_be_bytes(place.try_into().ok()?)),
        _ => None,
    }
}

/// Generator of the entries of one database; it also recognises and verifies them.
#[derive(Debug, Clone)]
pub struct Schema {
    shape: DatabaseShape,
    payload: Payload,
    places: Places,
}

impl Schema {
    /// Creates the generator for a database of this shape.
    pub fn new(shape: DatabaseShape) -> Schema {
        let payload = Payload::new(shape.seed, shape.compressibility_pct);
        Schema { shape, payload, places: Places::new(shape.rows, shape.seed) }
    }

    /// Shape of the database.
    pub fn shape(&self) -> &DatabaseShape {
        &self.shape
    }

    /// Places of the messages in the index ByConversation.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Key of an entry in its tree.
    pub fn key(&self, entry: Entry) -> Key {
        match entry {
            Entry::Row { id, .. } | Entry::Folder { id, .. } => row_key(id),
            Entry::BodyRoot { id } => body_root_key(id),
            Entry::Body { id, .. } => body_key(id),
            Entry::Conversation { id } => conversation_key(self.places.place(id)),
        }
    }

    /// Writes the data of an entry into `out`, which has [`Entry::data_bytes`].
    pub fn write_data(&self, entry: Entry, out: &mut [u8]) {
        match entry {
            Entry::Row { id, version } => self.write_row(id, version, out),
            Entry::BodyRoot { .. } => {
                out[..4].copy_from_slice(&1u32.to_le_bytes());
                out[4..].copy_from_slice(&(BODY_BYTES as u32).to_le_bytes());
            }
            Entry::Body { id, version } => self.payload.fill(Owner { table: 1, id, version }, out),
            Entry::Conversation { id } => out.copy_from_slice(&row_key(id)),
            Entry::Folder { id, version } => self.write_folder(id, version, out),
        }
    }

    /// Data of an entry.
    pub fn data(&self, entry: Entry) -> EntryData {
        let mut data: EntryData = std::iter::repeat_n(0, entry.data_bytes()).collect();
        self.write_data(entry, Arc::get_mut(&mut data).expect("nobody shares new data"));
        data
    }

    /// Entry of `tree` that these bytes claim to be; [`Self::verify`] proves it.
    pub fn recognise(&self, tree: Tree, key: &[u8], data: &[u8]) -> Option<Entry> {
        let be = |bytes: &[u8]| Some(u32::from_be_bytes(*bytes.first_chunk()?));
        let owner = |at: usize| Payload::owner(data.get(at..)?);
        let entry = match (tree, key.len()) {
            (Tree::Rows, 5) => Entry::Row { id: be(&key[1..])?, version: owner(PROPERTIES.start)?.version },
            (Tree::Folders, 5) => {
                Entry::Folder { id: be(&key[1..])?, version: owner(CHANGES_START)?.version }
            }
            (Tree::Bodies, 4) => Entry::BodyRoot { id: be(key)? },
            (Tree::Bodies, 8) => Entry::Body { id: be(key)?, version: owner(0)?.version },
            (Tree::Conversations, 9) => Entry::Conversation { id: be(data.get(1..)?)? },
            _ => return None,
        };
        (data.len() == entry.data_bytes() && entry.id() > 0).then_some(entry)
    }

    /// Entry with this `key` and `data`; `None` if any byte is wrong.
    pub fn verify(&self, tree: Tree, key: &[u8], data: &[u8]) -> Option<Entry> {
        let entry = self.recognise(tree, key, data)?;
        (*self.key(entry) == *key && self.has_data(entry, data)).then_some(entry)
    }

    /// Entry of `tree` with these data; `None` if any byte is wrong. Entries whose data name no version are not found.
    pub fn entry_of_data(&self, tree: Tree, data: &[u8]) -> Option<Entry> {
        let owner = |at: usize| Payload::owner(data.get(at..)?);
        let entry = match tree {
            Tree::Rows => owner(PROPERTIES.start).map(|Owner { id, version, .. }| Entry::Row { id, version }),
            Tree::Bodies => owner(0).map(|Owner { id, version, .. }| Entry::Body { id, version }),
            Tree::Folders => {
                owner(CHANGES_START).map(|Owner { id, version, .. }| Entry::Folder { id, version })
            }
            Tree::Conversations => None,
        };
        let entry = entry.filter(|entry| entry.id() > 0 && entry.data_bytes() == data.len())?;
        self.has_data(entry, data).then_some(entry)
    }

    fn has_data(&self, entry: Entry, data: &[u8]) -> bool {
        // Space for no more than is needed: it is cleared first.
        match entry {
            Entry::Body { .. } => self.compare_data(entry, &mut [0; BODY_BYTES], data),
            _ => self.compare_data(entry, &mut [0; FOLDER_BYTES], data),
        }
    }

    fn compare_data(&self, entry: Entry, space: &mut [u8], data: &[u8]) -> bool {
        let expected = &mut space[..entry.data_bytes()];
        self.write_data(entry, expected);
        expected == data
    }

    fn write_row(&self, id: u32, version: u32, out: &mut [u8]) {
        let conversation = self.places.has_place(id);
        let place = if conversation { self.places.place(id) ^ (1 << 63) } else { 0 };
        // Highest fixed and variable column, end of the fixed columns with their null bits (unused bits are set).
        out[..4].copy_from_slice(&[3, 128, 21, 0]);
        out[4..8].copy_from_slice(&id.to_le_bytes());
        out[8..12].copy_from_slice(&version.to_le_bytes());
        out[12..20].copy_from_slice(&place.to_le_bytes());
        out[20] = if conversation { 0xF8 } else { 0xFC };
        out[21..23].copy_from_slice(&(PROPERTIES.len() as u16).to_le_bytes());
        self.payload.fill(Owner { table: 0, id, version }, &mut out[PROPERTIES]);
        self.write_tagged(&mut out[127..131]);
        out[131] = 5; // a long value, kept apart
        out[132..136].copy_from_slice(&id.to_le_bytes());
    }

    fn write_folder(&self, id: u32, version: u32, out: &mut [u8]) {
        out[..4].copy_from_slice(&[2, 127, 13, 0]);
        out[4..8].copy_from_slice(&id.to_le_bytes());
        out[8..12].copy_from_slice(&version.to_le_bytes());
        out[12] = 0xFC;
        self.write_tagged(&mut out[13..17]);
        out[17] = 1; // a long value, kept in the record
        self.payload.fill(Owner { table: 2, id, version }, &mut out[CHANGES_START..]);
    }

    fn write_tagged(&self, out: &mut [u8]) {
        let small = if self.shape.page_bytes <= 8192 { SMALL_PAGE_HEADER_BYTE } else { 0 };
        out[..2].copy_from_slice(&BODY_COLUMN.to_le_bytes());
        out[2..].copy_from_slice(&(4 | small).to_le_bytes());
    }
}

impl Entry {
    /// Tree of the entry.
    pub fn tree(self) -> Tree {
        match self {
            Entry::Row { .. } => Tree::Rows,
            Entry::BodyRoot { .. } | Entry::Body { .. } => Tree::Bodies,
            Entry::Conversation { .. } => Tree::Conversations,
            Entry::Folder { .. } => Tree::Folders,
        }
    }

    /// Id of the entry's message or folder.
    pub fn id(self) -> u32 {
        match self {
            Entry::Row { id, .. }
            | Entry::BodyRoot { id }
            | Entry::Body { id, .. }
            | Entry::Conversation { id }
            | Entry::Folder { id, .. } => id,
        }
    }

    /// Version of the entry, if its bytes depend on one.
    pub fn version(self) -> Option<u32> {
        match self {
            Entry::Row { version, .. } | Entry::Body { version, .. } | Entry::Folder { version, .. } => {
                Some(version)
            }
            Entry::BodyRoot { .. } | Entry::Conversation { .. } => None,
        }
    }

    /// Number of the entry's kind, see [`Entry::of_kind`].
    pub fn kind(self) -> usize {
        match self {
            Entry::Row { .. } => 0,
            Entry::BodyRoot { .. } => 1,
            Entry::Body { .. } => 2,
            Entry::Conversation { .. } => 3,
            Entry::Folder { .. } => 4,
        }
    }

    /// The entry of this [kind](Entry::kind).
    pub fn of_kind(kind: usize, id: u32, version: u32) -> Option<Entry> {
        Some(match kind {
            0 => Entry::Row { id, version },
            1 => Entry::BodyRoot { id },
            2 => Entry::Body { id, version },
            3 => Entry::Conversation { id },
            4 => Entry::Folder { id, version },
            _ => return None,
        })
    }

    /// Size of the entry's data, bytes.
    pub fn data_bytes(self) -> usize {
        match self {
            Entry::Row { .. } => ROW_BYTES,
            Entry::BodyRoot { .. } => 8,
            Entry::Body { .. } => BODY_BYTES,
            Entry::Conversation { .. } => 5,
            Entry::Folder { .. } => FOLDER_BYTES,
        }
    }
}

/// Order of the index ByConversation: the messages that have an entry, and their places.
///
/// Indexed messages in order of id have ordinals 0..n. Ordinal o of an initial message has rank `(a o + b) mod n`, with
/// `a` near n / golden ratio, so neighbours in one order are far apart in the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    rows: u32,
    seed: u64,
    entries: u64,
    multiplier: u64,
    inverse: u64,
    offset: u64,
    stride: u64,
}

impl Places {
    fn new(rows: u32, seed: u64) -> Places {
        let entries = ordinals_below(u64::from(rows)).max(1);
        let near = (entries as f64 / 1.618_033_988_749_895) as u64;
        let multiplier = (near.max(1)..).find(|a| gcd(*a, entries) == 1).unwrap_or(1) % entries;
        let inverse = invert(multiplier, entries);
        Places {
            rows,
            seed,
            entries,
            multiplier,
            inverse,
            offset: mix(seed) % entries,
            stride: u64::MAX / entries,
        }
    }

    /// Number of entries of the index in a new database.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Whether message `id` has an index entry.
    pub fn has_place(&self, id: u32) -> bool {
        (id - 1).is_multiple_of(INDEX_PERIOD)
    }

    /// Place of message `id` in the index: even for initial messages, random for later ones.
    pub fn place(&self, id: u32) -> u64 {
        if id <= self.rows { self.rank(id) * self.stride } else { mix(self.seed ^ mix(u64::from(id))) }
    }

    /// Place of the initial entry with this rank.
    pub fn place_of_rank(&self, rank: u64) -> u64 {
        rank * self.stride
    }

    /// Rank of the last initial entry at or before this place, and whether it is at the place.
    pub fn rank_at(&self, place: u64) -> (u64, bool) {
        (place / self.stride, place.is_multiple_of(self.stride))
    }

    /// Rank of an initial message among the initial index entries; `None` for messages that came later or [have no
    /// index entry](Self::has_place).
    pub fn initial_rank(&self, id: u32) -> Option<u64> {
        (id <= self.rows && self.has_place(id)).then(|| self.rank(id))
    }

    fn rank(&self, id: u32) -> u64 {
        let ordinal = u64::from((id - 1) / INDEX_PERIOD);
        (self.multiplier * ordinal + self.offset) % self.entries
    }

    /// Ids of the messages of the initial entries from `rank` on, in index order.
    pub fn ids_from_rank(&self, rank: u64) -> impl Iterator<Item = u32> + use<> {
        let (entries, step) = (self.entries, self.inverse);
        let first = self.inverse * ((rank + entries - self.offset) % entries) % entries;
        (rank..entries).scan(first, move |ordinal, _| {
            let id = id_of_ordinal(*ordinal);
            *ordinal += step;
            if *ordinal >= entries {
                *ordinal -= entries;
            }
            Some(id)
        })
    }
}

/// Number of indexed messages among ids 1..=n.
fn ordinals_below(n: u64) -> u64 {
    n.div_ceil(u64::from(INDEX_PERIOD))
}

fn id_of_ordinal(ordinal: u64) -> u32 {
    ordinal as u32 * INDEX_PERIOD + 1
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The inverse of `a` modulo `n`, which are coprime (extended Euclid).
fn invert(a: u64, n: u64) -> u64 {
    let (mut r, mut s) = ((n as i64, a as i64), (0i64, 1i64));
    while r.1 != 0 {
        let q = r.0 / r.1;
        r = (r.1, r.0 - q * r.1);
        s = (s.1, s.0 - q * s.1);
    }
    s.0.rem_euclid(n as i64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn schema(rows: u32) -> Schema {
        Schema::new(DatabaseShape { page_bytes: 32768, pages: 1000, rows, seed: 11, compressibility_pct: 0 })
    }

    #[test]
    fn every_entry_is_recognised_and_any_changed_byte_is_noticed() {
        let schema = schema(5000);
        let entries = [
            Entry::Row { id: 17, version: 0 },
            Entry::Row { id: 6000, version: 3 },
            Entry::BodyRoot { id: 9 },
            Entry::Body { id: 9, version: 2 },
            Entry::Conversation { id: 17 },
            Entry::Conversation { id: 6001 },
            Entry::Folder { id: 4, version: 70_000 },
        ];
        for entry in entries {
            let (key, data) = (schema.key(entry), schema.data(entry));
            assert_eq!(schema.verify(entry.tree(), &key, &data), Some(entry));
            for at in (0..data.len()).step_by(7).chain([data.len() - 1]) {
                let mut wrong = data.to_vec();
                wrong[at] ^= 0x10;
                assert_ne!(schema.verify(entry.tree(), &key, &wrong), Some(entry), "{entry:?} byte {at}");
            }
            assert_eq!(schema.verify(entry.tree(), &key, &data[..data.len() - 1]), None);
        }
    }

    proptest! {
        #[test]
        fn rank_and_id_determine_each_other(rows in 1u32..2_000_000_000, seed: u64, pick: u64) {
            let places = Places::new(rows, seed);
            let rank = pick % places.entries();
            for (step, id) in places.ids_from_rank(rank).take(50).enumerate() {
                prop_assert!(id <= rows && places.has_place(id));
                prop_assert_eq!(places.rank(id), rank + step as u64);
                prop_assert_eq!(places.place(id), places.place_of_rank(rank + step as u64));
            }
        }
    }

    #[test]
    fn ranks_of_a_small_database_are_a_permutation() {
        for rows in [1, 7, 8, 16, 17, 1000] {
            let places = Places::new(rows, 5);
            let ids: Vec<u32> = places.ids_from_rank(0).collect();
            assert_eq!(ids.len() as u64, places.entries());
            let mut sorted = ids.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (1..=rows).filter(|id| places.has_place(*id)).collect::<Vec<_>>());
        }
    }
}

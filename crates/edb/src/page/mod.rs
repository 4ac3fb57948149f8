//! A database page: header, tags, nodes (format facts: page header, tags and nodes of the ESE file format).
//!
//! Layout: header (40 bytes up to 8 KiB pages, 80 above), data area growing up, tag array growing down from the end of
//! the page. Tag 0 is the external header; node `slot` is tag `slot + reserved`.
//!
//! Invariants
//! 1. After `validate` accepts a page, no reader and no edit here panics or reads outside it; on a page that it would
//!    reject readers return clamped values and never panic.
//! 2. Every edit keeps a valid page valid: sum of node sizes + free bytes + 4 * tags = page size - header, nodes do not
//!    overlap, every node ends at or before the free mark.
//! 3. An edit that returns an error has changed nothing.
//! 4. An edit is a pure function of the page bytes and its arguments, so replaying it gives the same bytes.
//!
//! Limits: page sizes 4, 8, 16, 32 KiB; keys up to 8191 bytes; at most 4095 tags.

mod bulk;
mod edit;
mod prefix;
pub mod search;
#[cfg(test)]
mod tests;
mod validate;

use std::cmp::Ordering;

pub use bulk::BulkPage;
pub use edit::{Full, PageMut};
pub use prefix::best_prefix;
pub use validate::Damage;

use twox_hash::XxHash3_128;
use zerocopy::IntoBytes;

use search::{compare_keys, guess_slot, key_head, key_head_of_parts, search_nodes};

use crate::bytes::{common_prefix_len, get_u16, get_u32, get_u64};

/// Largest page size, bytes.
pub const MAX_PAGE_BYTES: usize = 32 * 1024;

/// Least length of a useful prefix: it costs two length bytes of its own.
pub(crate) const MIN_PREFIX_BYTES: usize = 3;

const DBTIME: usize = 8;
const PREV: usize = 16;
const NEXT: usize = 20;
const OBJID: usize = 24;
const FREE: usize = 28;
const UNCOMMITTED_FREE: usize = 30;
const FREE_MARK: usize = 32;
const TAGS: usize = 34;
pub(crate) const FLAGS: usize = 36;
/// Offset of the page's own number; only on pages above 8 KiB.
pub(crate) const PGNO: usize = 64;

const TAG_COUNT_MASK: u16 = 0x0FFF;
const LENGTH_MASK: u16 = 0x1FFF;
const TAG_BYTES: usize = 4;

/// Page flags (`PageRef::flags`).
pub mod page_flags {
    /// The page is the root of its tree (FDP).
    pub const ROOT: u32 = 0x1;
    /// The page is a leaf.
    pub const LEAF: u32 = 0x2;
    /// The page is on the lowest branch level.
    pub const PARENT_OF_LEAF: u32 = 0x4;
    /// The page was emptied by a merge and freed.
    pub const EMPTY: u32 = 0x8;
    /// The tree is under repair.
    pub const REPAIR: u32 = 0x10;
    /// The page belongs to an owned- or available-extents tree.
    pub const SPACE: u32 = 0x20;
    /// The tree is a secondary index.
    pub const INDEX: u32 = 0x40;
    /// The tree holds long values.
    pub const LONG_VALUE: u32 = 0x80;
    /// Keys of the tree may repeat; entries are ordered by key and data.
    pub const NON_UNIQUE: u32 = 0x400;
    /// The page has the new record format; set on every page.
    pub const NEW_RECORDS: u32 = 0x800;
    /// The page has the new checksum format.
    pub const NEW_CHECKSUM: u32 = 0x2000;
    /// Unused bytes of the page were overwritten.
    pub const SCRUBBED: u32 = 0x4000;
    /// Flush type: two-bit counter that cycles 1, 2, 3 with each write of the page.
    pub const FLUSH_TYPE: u32 = 0x18000;
    /// The page was allocated ahead of use.
    pub const PREINITIALISED: u32 = 0x2_0000;
    /// The page is the root of a deleted tree.
    pub const FDP_DELETED: u32 = 0x4_0000;
}

/// Node flags (`Node::flags`).
pub mod node_flags {
    /// The version store may know an older state of the node. It may stay set without harm.
    pub const VERSIONED: u8 = 1;
    /// The node is deleted and waits for cleanup.
    pub const DELETED: u8 = 2;
    /// The key begins with a part of the page prefix. The page sets and clears this flag itself.
    pub const COMPRESSED: u8 = 4;
}

/// Whether `bytes` is a page size that this crate reads and writes.
pub const fn is_page_size(bytes: usize) -> bool {
    matches!(bytes, 4096 | 8192 | 16384 | 32768)
}

/// Pages above 8 KiB have 15-bit tags, node flags in the node body, four checksums and their number in the header.
#[inline(always)]
pub(crate) const fn is_large(page_bytes: usize) -> bool {
    page_bytes > 8192
}

/// Size of the page header, where the data area starts.
#[inline(always)]
pub const fn header_bytes(page_bytes: usize) -> usize {
    if is_large(page_bytes) { 80 } else { 40 }
}

/// Bytes a page has for nodes and tags, the empty external header's tag taken off.
pub const fn usable_bytes(page_bytes: usize) -> usize {
    page_bytes - header_bytes(page_bytes) - TAG_BYTES
}

/// Place of a node (or the external header) in the data area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tag {
    start: usize,
    len: usize,
    /// Node flags on small pages, otherwise 0.
    flags: u8,
}

/// Node of a page, in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node<'a> {
    /// First part of the key, from the page prefix.
    pub prefix: &'a [u8],
    /// Rest of the key.
    pub suffix: &'a [u8],
    /// Data of the node; in a branch page the number of the child.
    pub data: &'a [u8],
    /// Node flags, see `node_flags`.
    pub flags: u8,
}

impl<'a> Node<'a> {
    const NONE: Node<'static> = Node { prefix: &[], suffix: &[], data: &[], flags: 0 };

    /// Node without flags whose key is in one piece.
    pub fn of(key: &'a [u8], data: &'a [u8]) -> Node<'a> {
        Node { prefix: &[], suffix: key, data, flags: 0 }
    }

    /// Decodes the body of a node; `None` if its lengths do not fit. `flags`: those of the tag (small pages only).
    #[inline(always)]
    fn decode(
        page_prefix: impl FnOnce() -> &'a [u8],
        body: &'a [u8],
        large: bool,
        tag_flags: u8,
    ) -> Option<Node<'a>> {
        let first = u16::from_le_bytes(*body.first_chunk::<2>()?);
        let flags = if large { (first >> 13) as u8 } else { tag_flags };
        let (prefix, rest) = if flags & node_flags::COMPRESSED != 0 {
            (page_prefix().get(..usize::from(first & LENGTH_MASK))?, &body[2..])
        } else {
            (&[][..], body)
        };
        let (suffix_len, rest) = rest.split_first_chunk::<2>()?;
        let suffix_len = usize::from(u16::from_le_bytes(*suffix_len) & LENGTH_MASK);
        let (suffix, data) = rest.split_at_checked(suffix_len)?;
        Some(Node { prefix, suffix, data, flags })
    }

    /// Length of the full key.
    pub fn key_len(&self) -> usize {
        self.prefix.len() + self.suffix.len()
    }

    /// Writes the full key into `key`.
    pub fn copy_key_to(&self, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(self.prefix);
        key.extend_from_slice(self.suffix);
    }

    /// Full key as a new vector; `copy_key_to` avoids the allocation.
    pub fn key(&self) -> Vec<u8> {
        [self.prefix, self.suffix].concat()
    }

    /// Compares this node's key with `key` without putting it together.
    pub fn compare_key(&self, key: &[u8]) -> Ordering {
        if self.prefix.is_empty() {
            return compare_keys(self.suffix, key);
        }
        let (head, rest) = key.split_at(key.len().min(self.prefix.len()));
        compare_keys(self.prefix, head).then_with(|| compare_keys(self.suffix, rest))
    }

    /// First eight bytes of the key as a number with the same order.
    #[inline]
    fn key_head(&self) -> u64 {
        key_head_of_parts(self.prefix, self.suffix)
    }

    /// Compares only the first eight bytes of two keys of at least eight bytes; shorter ones count as equal.
    #[inline]
    fn compare_long_key(&self, key: &[u8], head: u64) -> Ordering {
        if key.len().min(self.key_len()) < 8 { Ordering::Equal } else { self.key_head().cmp(&head) }
    }

    /// Compares key and data of this node, as one string, with `key` and `data`.
    pub fn compare_entry(&self, key: &[u8], data: &[u8]) -> Ordering {
        compare_pieces(&[self.prefix, self.suffix, self.data], &[key, data])
    }

    /// Whether the node is deleted and waits for cleanup.
    pub fn is_deleted(&self) -> bool {
        self.flags & node_flags::DELETED != 0
    }

    /// Page number of the child, if this is a well-formed branch entry.
    pub fn child(&self) -> Option<u32> {
        Some(u32::from_le_bytes(self.data.try_into().ok()?))
    }
}

/// Compares two strings that are given in pieces.
fn compare_pieces(a: &[&[u8]], b: &[&[u8]]) -> Ordering {
    let (mut a, mut b) = (a.iter().copied(), b.iter().copied());
    let (mut left, mut right): (&[u8], &[u8]) = (&[], &[]);
    loop {
        while left.is_empty() {
            match a.next() {
                Some(piece) => left = piece,
                // Empty pieces may follow; only bytes count.
                None if right.is_empty() && b.all(<[u8]>::is_empty) => return Ordering::Equal,
                None => return Ordering::Less,
            }
        }
        while right.is_empty() {
            match b.next() {
                Some(piece) => right = piece,
                None => return Ordering::Greater,
            }
        }
        let n = left.len().min(right.len());
        match left[..n].cmp(&right[..n]) {
            Ordering::Equal => (left, right) = (&left[n..], &right[n..]),
            decided => return decided,
        }
    }
}

/// Page for reading.
#[derive(Clone, Copy)]
pub struct PageRef<'a> {
    bytes: &'a [u8],
}

impl<'a> PageRef<'a> {
    /// Opens a page for reading.
    ///
    /// # Panics
    /// If the length is no page size: that is the caller's choice, never the file's.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        assert!(is_page_size(bytes.len()), "{} bytes are no page", bytes.len());
        PageRef { bytes }
    }

    /// Bytes of the whole page.
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Dbtime: modification counter of the database at the last change of this page.
    pub fn dbtime(self) -> u64 {
        get_u64(self.bytes, DBTIME)
    }

    /// Page number of the left neighbour on the leaf level, 0 if none.
    pub fn prev(self) -> u32 {
        get_u32(self.bytes, PREV)
    }

    /// Page number of the right neighbour on the leaf level, 0 if none.
    pub fn next(self) -> u32 {
        get_u32(self.bytes, NEXT)
    }

    /// Object id of the tree.
    pub fn objid(self) -> u32 {
        get_u32(self.bytes, OBJID)
    }

    /// Page flags, see `page_flags`.
    pub fn flags(self) -> u32 {
        get_u32(self.bytes, FLAGS)
    }

    /// The page's own number, which only pages above 8 KiB carry.
    pub fn pgno(self) -> Option<u32> {
        is_large(self.bytes.len()).then(|| get_u32(self.bytes, PGNO))
    }

    /// Whether any of `flags` is set.
    fn has(self, flags: u32) -> bool {
        self.flags() & flags != 0
    }

    /// Whether the page is the root of its tree.
    pub fn is_root(self) -> bool {
        self.has(page_flags::ROOT)
    }

    /// Whether the page is a leaf.
    pub fn is_leaf(self) -> bool {
        self.has(page_flags::LEAF)
    }

    /// Whether the page belongs to an owned- or available-extents tree.
    pub fn is_space(self) -> bool {
        self.has(page_flags::SPACE)
    }

    /// Whether keys of the tree may repeat.
    pub fn is_non_unique(self) -> bool {
        self.has(page_flags::NON_UNIQUE)
    }

    /// All free bytes, wherever they lie, including those held for rollback.
    pub fn free_bytes(self) -> usize {
        usize::from(get_u16(self.bytes, FREE))
    }

    /// Bytes reserved for the rollback of open transactions.
    pub fn uncommitted_free_bytes(self) -> usize {
        usize::from(get_u16(self.bytes, UNCOMMITTED_FREE))
    }

    /// Offset of the first byte that no node has used since the last compaction.
    fn free_mark(self) -> usize {
        usize::from(get_u16(self.bytes, FREE_MARK))
    }

    /// Number of tags with the reserved ones, clamped to what the page can hold.
    fn tag_count(self) -> usize {
        let room = (self.bytes.len() - self.data_start()) / TAG_BYTES;
        usize::from(get_u16(self.bytes, TAGS) & TAG_COUNT_MASK).min(room)
    }

    /// Number of tags in front of the nodes: the external header, and those of newer formats.
    fn reserved_tags(self) -> usize {
        usize::from(get_u16(self.bytes, TAGS) >> 12 & 7).max(1)
    }

    #[inline(always)]
    fn data_start(self) -> usize {
        header_bytes(self.bytes.len())
    }

    /// Range between the free mark and the tag array, whose bytes have no meaning.
    pub fn unused(self) -> std::ops::Range<usize> {
        let end = self.bytes.len() - TAG_BYTES * self.tag_count();
        (self.data_start() + self.free_mark()).min(end)..end
    }

    /// Whether both pages hold the same nodes in the same place of the same tree at the same dbtime. Where the
    /// nodes lie on the page, what is unused, the checksum and the flush type do not count.
    pub fn says_the_same(self, other: PageRef<'a>) -> bool {
        let node = |node: Node<'a>| (node.flags, node.prefix, node.suffix, node.data);
        self.head() == other.head()
            && self.external_header() == other.external_header()
            // Most pages that say the same have the same bytes wherever they mean something: one look instead
            // of one per node.
            && (self.used() == other.used() || self.nodes().map(node).eq(other.nodes().map(node)))
    }

    /// Header fields with a meaning: version, neighbours, tree, kind of page, free bytes.
    fn head(self) -> [u64; 7] {
        let flags = self.flags() & !(page_flags::FLUSH_TYPE | page_flags::NEW_CHECKSUM);
        let [prev, next, objid, flags] = [self.prev(), self.next(), self.objid(), flags].map(u64::from);
        let [free, uncommitted] =
            [self.free_bytes(), self.uncommitted_free_bytes()].map(|bytes| bytes as u64);
        [self.dbtime(), prev, next, objid, flags, free, uncommitted]
    }

    /// Ranges of bytes with a meaning, behind the header.
    fn used(self) -> [&'a [u8]; 2] {
        let unused = self.unused();
        [&self.bytes[self.data_start().min(unused.start)..unused.start], &self.bytes[unused.end..]]
    }

    /// Digest of 128 bits of what [`Self::says_the_same`] compares, and of where nodes lie. Equal pages with equal
    /// places have equal digests; others do not, except by a negligible chance. For this program's memory only, so no
    /// format depends on it.
    pub fn digest(self) -> u128 {
        let [nodes, tags] = self.used().map(XxHash3_128::oneshot);
        let [dbtime, prev, next, objid, flags, free, uncommitted] = self.head().map(u128::from);
        let said = [nodes, tags, dbtime, prev, next, objid, flags, free, uncommitted];
        XxHash3_128::oneshot(said.as_bytes())
    }

    /// Number of bytes between the free mark and the tag array.
    fn gap_bytes(self) -> usize {
        let used = self.data_start() + self.free_mark() + TAG_BYTES * self.tag_count();
        self.bytes.len().saturating_sub(used)
    }

    #[inline(always)]
    fn tag(self, index: usize) -> Tag {
        let word = get_u32(self.bytes, self.bytes.len() - TAG_BYTES * (index + 1));
        let (len, start) = (word as u16, (word >> 16) as u16);
        let mask = self.tag_length_mask();
        let flags = if is_large(self.bytes.len()) { 0 } else { (start >> 13) as u8 };
        Tag { start: usize::from(start & mask), len: usize::from(len & mask), flags }
    }

    /// Bits of both halves of a tag that are a place or a length.
    #[inline(always)]
    fn tag_length_mask(self) -> u16 {
        if is_large(self.bytes.len()) { 0x7FFF } else { LENGTH_MASK }
    }

    #[inline(always)]
    fn body(self, tag: Tag) -> Option<&'a [u8]> {
        let start = self.data_start() + tag.start;
        self.bytes.get(start..start + tag.len)
    }

    /// Tag 0: the space header of a root, the split buffer and prefix of a space-tree root, else the page prefix.
    pub fn external_header(self) -> &'a [u8] {
        if self.tag_count() == 0 {
            return &[];
        }
        self.body(self.tag(0)).unwrap_or(&[])
    }

    /// Prefix of the page's compressed keys.
    pub fn prefix(self) -> &'a [u8] {
        match (self.is_root(), self.is_space()) {
            (false, _) => self.external_header(),
            (true, true) => self.external_header().get(SPLIT_BUFFER_BYTES..).unwrap_or(&[]),
            (true, false) => &[],
        }
    }

    /// Whether the page has not even an external header: it was never formatted and is not valid.
    pub fn is_blank(self) -> bool {
        self.tag_count() == 0
    }

    /// Number of nodes.
    #[inline]
    pub fn node_count(self) -> usize {
        self.tag_count().saturating_sub(self.reserved_tags())
    }

    /// Returns node `slot`. To visit many nodes `nodes` is faster.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn node(self, slot: usize) -> Node<'a> {
        let index = slot + self.reserved_tags();
        assert!(index < self.tag_count(), "slot {slot} of {}", self.node_count());
        let tag = self.tag(index);
        let node = self.body(tag).and_then(|body| {
            // The prefix is a node of its own, and few nodes ask for it.
            Node::decode(|| self.prefix(), body, is_large(self.bytes.len()), tag.flags)
        });
        node.unwrap_or(Node::NONE)
    }

    /// Page number of the child under node `slot` of a branch page, if it is well formed.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn child(self, slot: usize) -> Option<u32> {
        let index = slot + self.reserved_tags();
        assert!(index < self.tag_count(), "slot {slot} of {}", self.node_count());
        let tag = self.tag(index);
        let body = self.body(tag)?;
        // As `Node::decode`, without the key.
        let length_at = |at: usize| Some(u16::from_le_bytes(*body.get(at..)?.first_chunk::<2>()?));
        let first = length_at(0)?;
        let flags = if is_large(self.bytes.len()) { (first >> 13) as u8 } else { tag.flags };
        let (lengths, suffix) =
            if flags & node_flags::COMPRESSED == 0 { (2, first) } else { (4, length_at(2)?) };
        let data = body.get(lengths + usize::from(suffix & LENGTH_MASK)..)?;
        Some(u32::from_le_bytes(data.try_into().ok()?))
    }

    /// All nodes in key order.
    pub fn nodes(self) -> impl DoubleEndedIterator<Item = Node<'a>> + ExactSizeIterator + Clone {
        let prefix = self.prefix();
        (0..self.node_count()).map(move |slot| self.node_with(prefix, slot).unwrap_or(Node::NONE))
    }

    #[inline(always)]
    fn node_with(self, prefix: &'a [u8], slot: usize) -> Option<Node<'a>> {
        let tag = self.tag(slot + self.reserved_tags());
        Node::decode(|| prefix, self.body(tag)?, is_large(self.bytes.len()), tag.flags)
    }

    /// Binary search by key: `Ok` with the slot that has this very key, or `Err` with the slot where it belongs.
    pub fn search(self, key: &[u8]) -> Result<usize, usize> {
        self.partition(self.node_count(), key, |node, head| {
            node.key_head().cmp(&head).then_with(|| node.compare_key(key))
        })
    }

    /// As `search`, for trees with repeating keys: entries are ordered by key and data as one string.
    pub fn search_entry(self, key: &[u8], data: &[u8]) -> Result<usize, usize> {
        self.partition(self.node_count(), key, |node, head| {
            node.compare_long_key(key, head).then_with(|| node.compare_entry(key, data))
        })
    }

    /// Slot of a branch page whose child covers the entry. Separators are exclusive upper bounds; an entry above all
    /// of them belongs to the last child. An empty page gives slot 0. `data` is empty where keys do not repeat; where
    /// they do, separators cut key and data as one string.
    pub fn child_slot_of_entry(self, key: &[u8], data: &[u8]) -> usize {
        let last = self.node_count().saturating_sub(1);
        let found = if data.is_empty() {
            self.partition(last, key, |node, head| {
                node.key_head().cmp(&head).then_with(|| node.compare_key(key))
            })
        } else {
            self.partition(last, key, |node, head| {
                node.compare_long_key(key, head)
                    .then_with(|| compare_pieces(&[node.prefix, node.suffix], &[key, data]))
            })
        };
        let above = match found {
            Ok(slot) => slot + 1,
            Err(slot) => slot,
        };
        above.min(last)
    }

    /// Place of `key` among the first `count` nodes, which `compare` compares with it (given also the head of the
    /// key).
    #[inline(always)]
    fn partition(
        self,
        count: usize,
        key: &[u8],
        compare: impl Fn(Node<'a>, u64) -> Ordering,
    ) -> Result<usize, usize> {
        let (prefix, head) = (self.prefix(), key_head(key));
        let node = |slot| self.node_with(prefix, slot).unwrap_or(Node::NONE);
        let guess = || guess_slot(node(0).key_head(), node(count - 1).key_head(), count, head);
        search_nodes(count, guess, |slot| compare(node(slot), head))
    }

    /// Size of node `slot` with its tag, bytes.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn node_bytes(self, slot: usize) -> usize {
        assert!(slot < self.node_count(), "slot {slot} of {}", self.node_count());
        self.tag(slot + self.reserved_tags()).len + TAG_BYTES
    }

    /// Size that a node with this key and data would have on this page, its tag included, bytes.
    pub fn bytes_needed(self, key: &[u8], data_len: usize) -> usize {
        let taken = prefix_taken(self.prefix(), [key, &[]]);
        body_bytes(taken, key.len() - taken, data_len) + TAG_BYTES
    }

    /// Whether a node with this key and data fits without using bytes reserved for rollback.
    pub fn fits(self, key: &[u8], data_len: usize) -> bool {
        self.bytes_needed(key, data_len) + self.uncommitted_free_bytes() <= self.free_bytes()
    }
}

/// Size of the split buffer before the prefix of a space-tree root, bytes.
pub const SPLIT_BUFFER_BYTES: usize = 16;

/// Length of the page prefix that a key in two parts can share; 0 if that saves nothing.
fn prefix_taken(page_prefix: &[u8], key: [&[u8]; 2]) -> usize {
    let mut shared = common_prefix_len(page_prefix, key[0]);
    if shared == key[0].len() {
        shared += common_prefix_len(&page_prefix[shared..], key[1]);
    }
    if shared >= MIN_PREFIX_BYTES { shared } else { 0 }
}

fn body_bytes(prefix_taken: usize, suffix_len: usize, data_len: usize) -> usize {
    (if prefix_taken > 0 { 4 } else { 2 }) + suffix_len + data_len
}

//! The rules that every page keeps, checked after reading and before writing.

use thiserror::Error;

use super::{
    LENGTH_MASK, MAX_PAGE_BYTES, MIN_PREFIX_BYTES, Node, PageRef, SPLIT_BUFFER_BYTES, TAG_BYTES,
    TAG_COUNT_MASK, TAGS, is_large, node_flags, page_flags,
};
use crate::bytes::get_u16;

/// Reason why a page is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Damage {
    /// The tag array holds too few or too many tags for its place.
    #[error("{tags} tags, {reserved} of them reserved")]
    TagCount {
        /// Number of tags by the header.
        tags: usize,
        /// Number of reserved tags.
        reserved: usize,
    },
    /// Free mark and tag array overlap.
    #[error("the free mark {free_mark} lies inside the tag array")]
    FreeMark {
        /// Free mark in the header.
        free_mark: usize,
    },
    /// More bytes are reserved for rollback than are free.
    #[error("{uncommitted_bytes} bytes held for rollback, {free_bytes} free")]
    UncommittedFree {
        /// Bytes reserved for rollback.
        uncommitted_bytes: usize,
        /// Free bytes.
        free_bytes: usize,
    },
    /// Nodes, free bytes and tags do not add up to the page.
    #[error("{used_bytes} bytes in nodes, {free_bytes} free, {expected_bytes} expected together")]
    Accounting {
        /// Sum of the sizes of all tags.
        used_bytes: usize,
        /// Free bytes in the header.
        free_bytes: usize,
        /// Required sum of both.
        expected_bytes: usize,
    },
    /// A node's tag has length 0.
    #[error("tag {tag} is empty")]
    EmptyNode {
        /// Index of the tag.
        tag: usize,
    },
    /// A tag points beyond the free mark.
    #[error("tag {tag} ends beyond the free mark")]
    OutOfArea {
        /// Index of the tag.
        tag: usize,
    },
    /// Two tags share bytes.
    #[error("tag {tag} overlaps another")]
    Overlap {
        /// Index of the tag.
        tag: usize,
    },
    /// The lengths of a node do not fit its body, it has no data, or it takes too little or too much of the prefix.
    #[error("node {slot} is malformed")]
    Node {
        /// Slot of the node.
        slot: usize,
    },
    /// A branch entry has no child, or no key although it is not the last, or it is the last entry of a root and has a
    /// key.
    #[error("branch entry {slot} is malformed")]
    BranchEntry {
        /// Slot of the entry.
        slot: usize,
    },
    /// The external header is too short for the kind of page.
    #[error("external header of {bytes} bytes")]
    ExternalHeader {
        /// Length of the external header, bytes.
        bytes: usize,
    },
    /// A key is not above the one before it.
    #[error("node {slot} is out of order")]
    Order {
        /// Slot of the later key.
        slot: usize,
    },
}

impl PageRef<'_> {
    /// Checks every rule that one page alone must keep, key order excepted (`check_order`).
    ///
    /// # Errors
    /// The first rule found broken.
    pub fn validate(self) -> Result<(), Damage> {
        // Such a page holds nothing: it was allocated ahead of use.
        if self.has(page_flags::PREINITIALISED) && get_u16(self.bytes, TAGS) & TAG_COUNT_MASK == 0 {
            return Ok(());
        }
        self.check_areas()?;
        self.check_external_header()?;
        self.check_nodes()
    }

    /// Header fields and tags: counts, bounds, overlaps, accounting.
    fn check_areas(self) -> Result<(), Damage> {
        let tags = usize::from(get_u16(self.bytes, TAGS) & TAG_COUNT_MASK);
        let reserved = self.reserved_tags();
        if tags < reserved || tags != self.tag_count() {
            return Err(Damage::TagCount { tags, reserved });
        }
        let room = self.bytes.len() - self.data_start() - TAG_BYTES * tags;
        let free_mark = self.free_mark();
        if free_mark > room {
            return Err(Damage::FreeMark { free_mark });
        }
        let (uncommitted_bytes, free_bytes) = (self.uncommitted_free_bytes(), self.free_bytes());
        if uncommitted_bytes > free_bytes {
            return Err(Damage::UncommittedFree { uncommitted_bytes, free_bytes });
        }
        let areas = self.areas(tags, reserved);
        if areas.has_empty_node || areas.end > free_mark {
            for index in 0..tags {
                let tag = self.tag(index);
                if tag.len == 0 && index >= reserved {
                    return Err(Damage::EmptyNode { tag: index });
                }
                if tag.len > 0 && tag.start + tag.len > free_mark {
                    return Err(Damage::OutOfArea { tag: index });
                }
            }
        }
        // Pages of a new database have their nodes in order, which proves that none overlaps another.
        if !areas.in_order {
            self.check_overlaps(tags)?;
        }
        let used_bytes = areas.used_bytes;
        if used_bytes + free_bytes != room {
            return Err(Damage::Accounting { used_bytes, free_bytes, expected_bytes: room });
        }
        Ok(())
    }

    /// Sums over all tags, without an early return, so that the compiler can vectorise.
    fn areas(self, tags: usize, reserved: usize) -> Areas {
        let length_mask = u32::from(self.tag_length_mask());
        let place = |word: &[u8; TAG_BYTES]| {
            let word = u32::from_le_bytes(*word);
            (word >> 16 & length_mask, word & length_mask)
        };
        let words = self.bytes[self.bytes.len() - TAG_BYTES * tags..].as_chunks::<TAG_BYTES>().0;
        let (mut used_bytes, mut end, mut empty_nodes, mut out_of_order) = (0, 0, 0, 0);
        for word in words {
            let (start, len) = place(word);
            used_bytes += len;
            end = end.max(start + len);
        }
        // The last tag comes first, the reserved ones, which may be empty, last.
        for word in &words[..tags - reserved] {
            empty_nodes |= u32::from(place(word).1 == 0);
        }
        for (word, before) in words.iter().zip(words.get(1..).unwrap_or(&[])) {
            let (start_before, len_before) = place(before);
            out_of_order |= u32::from(place(word).0 < start_before + len_before);
        }
        Areas {
            used_bytes: used_bytes as usize,
            end: end as usize,
            has_empty_node: empty_nodes != 0,
            in_order: out_of_order == 0,
        }
    }

    pub(super) fn check_overlaps(self, tags: usize) -> Result<(), Damage> {
        let mut taken = Occupied::new();
        for index in 0..tags {
            let tag = self.tag(index);
            if !taken.claim(tag.start, tag.len) {
                return Err(Damage::Overlap { tag: index });
            }
        }
        Ok(())
    }

    fn check_external_header(self) -> Result<(), Damage> {
        // A root starts with its space header, the root of a space tree with its split buffer: 16 bytes either way.
        let bytes = self.external_header().len();
        if self.is_root() && bytes < SPLIT_BUFFER_BYTES {
            Err(Damage::ExternalHeader { bytes })
        } else {
            Ok(())
        }
    }

    fn check_nodes(self) -> Result<(), Damage> {
        if self.is_leaf() && self.has_sound_leaf_nodes() {
            return Ok(());
        }
        self.check_each_node()
    }

    pub(super) fn check_each_node(self) -> Result<(), Damage> {
        let prefix = self.prefix();
        let count = self.node_count();
        for slot in 0..count {
            let node = self.node_with(prefix, slot).ok_or(Damage::Node { slot })?;
            let compressed = node.flags & node_flags::COMPRESSED != 0;
            if node.data.is_empty() || compressed && node.prefix.len() < MIN_PREFIX_BYTES {
                return Err(Damage::Node { slot });
            }
            if !self.is_leaf() && !self.is_sound_branch_entry(node, slot + 1 == count) {
                return Err(Damage::BranchEntry { slot });
            }
        }
        Ok(())
    }

    /// Whether a branch entry names a child. Only the last entry may have no key; on the root, the rightmost page of
    /// its level, it has none. A page alone does not show whether another page is the rightmost one.
    fn is_sound_branch_entry(self, node: Node, is_last: bool) -> bool {
        let key_fits = if node.key_len() == 0 { is_last } else { !is_last || !self.is_root() };
        node.child().is_some() && key_fits
    }

    /// Whether `check_each_node` would find nothing on a leaf; by lengths alone and without an early return, because
    /// nearly all pages pass.
    fn has_sound_leaf_nodes(self) -> bool {
        let (prefix_bytes, large) = (self.prefix().len(), is_large(self.bytes.len()));
        let mut is_sound = true;
        for index in self.reserved_tags()..self.tag_count() {
            let tag = self.tag(index);
            let start = self.data_start() + tag.start;
            // The tags are behind all nodes, so there are four bytes, of the node or not.
            let Some(head) = self.bytes.get(start..start + 4) else { return false };
            let (first, second) = (get_u16(head, 0), get_u16(head, 2));
            let flags = if large { (first >> 13) as u8 } else { tag.flags };
            let is_compressed = flags & node_flags::COMPRESSED != 0;
            let suffix_bytes = usize::from((if is_compressed { second } else { first }) & LENGTH_MASK);
            let taken_bytes = usize::from(first & LENGTH_MASK);
            let takes_well = (MIN_PREFIX_BYTES..=prefix_bytes).contains(&taken_bytes) | !is_compressed;
            let head_bytes = if is_compressed { 4 } else { 2 };
            is_sound &= takes_well & (head_bytes + suffix_bytes < tag.len);
        }
        is_sound
    }

    /// Checks that keys ascend strictly; on leaves of trees with repeating keys, keys and data together.
    ///
    /// # Errors
    /// `Damage::Order` with the first node that does not.
    pub fn check_order(self) -> Result<(), Damage> {
        let mut key = Vec::new();
        let mut last: Option<Node> = None;
        for (slot, node) in self.nodes().enumerate() {
            let open_end = !self.is_leaf() && slot + 1 == self.node_count() && node.key_len() == 0;
            if let Some(last) = last
                && !open_end
            {
                last.copy_key_to(&mut key);
                let above = if self.is_leaf() && self.is_non_unique() {
                    node.compare_entry(&key, last.data).is_gt()
                } else {
                    node.compare_key(&key).is_gt()
                };
                if !above {
                    return Err(Damage::Order { slot });
                }
            }
            last = Some(node);
        }
        Ok(())
    }
}

/// Sums over the tags of a page.
struct Areas {
    used_bytes: usize,
    /// Highest end of any tag's bytes.
    end: usize,
    has_empty_node: bool,
    /// Whether each tag starts behind the end of the one before it.
    in_order: bool,
}

/// Bitmap of the used bytes of the data area.
struct Occupied {
    words: [u64; MAX_PAGE_BYTES / 64],
}

impl Occupied {
    fn new() -> Self {
        Occupied { words: [0; MAX_PAGE_BYTES / 64] }
    }

    /// Marks `len` bytes from `start`; false if one of them was marked already.
    fn claim(&mut self, start: usize, len: usize) -> bool {
        let (mut at, end) = (start, start + len);
        while at < end {
            let low = at % 64;
            let bits = (64 - low).min(end - at);
            let mask = (u64::MAX >> (64 - bits)) << low;
            let word = &mut self.words[at / 64];
            if *word & mask != 0 {
                return false;
            }
            *word |= mask;
            at += bits;
        }
        true
    }
}

//! Changes to a page.

use thiserror::Error;

use super::{
    DBTIME, FLAGS, FREE, FREE_MARK, LENGTH_MASK, NEXT, OBJID, PGNO, PREV, PageRef, SPLIT_BUFFER_BYTES,
    TAG_BYTES, TAGS, Tag, body_bytes, header_bytes, is_large, is_page_size, node_flags, page_flags,
    prefix_taken,
};
use crate::bytes::{get_u16, put_u16, put_u32, put_u64};
use crate::checksum;

/// Error: the page has not enough free bytes (or tags). It is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{needed_bytes} bytes needed, {free_bytes} free on the page")]
pub struct Full {
    /// Bytes that the edit needs beyond those that it frees.
    pub needed_bytes: usize,
    /// Free bytes of the page.
    pub free_bytes: usize,
}

/// Page for changes. Edits need a page that `PageRef::validate` accepts (or one made by `format`) and keep it so.
pub struct PageMut<'a> {
    bytes: &'a mut [u8],
}

/// A node to write: key in two parts, so that a compressed key need not be put together first.
struct NewNode<'n> {
    key: [&'n [u8]; 2],
    data: &'n [u8],
    flags: u8,
}

impl<'a> PageMut<'a> {
    /// Opens an existing page.
    ///
    /// # Panics
    /// If the length is no page size.
    pub fn new(bytes: &'a mut [u8]) -> Self {
        assert!(is_page_size(bytes.len()), "{} bytes are no page", bytes.len());
        PageMut { bytes }
    }

    /// Makes `bytes` an empty page of the tree `objid`. `flags` say its level and kind; record and checksum format are
    /// added.
    ///
    /// # Panics
    /// If the length is no page size.
    pub fn format(bytes: &'a mut [u8], pgno: u32, objid: u32, flags: u32, dbtime: u64) -> Self {
        let mut page = PageMut::new(bytes);
        page.bytes.fill(0);
        page.set_dbtime(dbtime);
        page.set_objid(objid);
        page.set_flags(flags | page_flags::NEW_RECORDS | page_flags::NEW_CHECKSUM);
        if is_large(page.bytes.len()) {
            put_u32(page.bytes, PGNO, pgno);
        }
        let room = page.bytes.len() - header_bytes(page.bytes.len()) - TAG_BYTES;
        put_u16(page.bytes, TAGS, 1);
        page.set_free_bytes(room);
        page
    }

    /// Page for reading.
    #[inline(always)]
    pub fn view(&self) -> PageRef<'_> {
        PageRef { bytes: self.bytes }
    }

    /// Sets the dbtime, see `PageRef::dbtime`.
    pub fn set_dbtime(&mut self, dbtime: u64) {
        put_u64(self.bytes, DBTIME, dbtime);
    }

    /// Sets the left neighbour, see `PageRef::prev`.
    pub fn set_prev(&mut self, pgno: u32) {
        put_u32(self.bytes, PREV, pgno);
    }

    /// Sets the right neighbour, see `PageRef::next`.
    pub fn set_next(&mut self, pgno: u32) {
        put_u32(self.bytes, NEXT, pgno);
    }

    /// Sets the object id, see `PageRef::objid`.
    pub fn set_objid(&mut self, objid: u32) {
        put_u32(self.bytes, OBJID, objid);
    }

    /// Sets the page flags, see `page_flags`. Root and space flags decide where the prefix lies, so they may change
    /// only on a page without nodes.
    pub fn set_flags(&mut self, flags: u32) {
        put_u32(self.bytes, FLAGS, flags);
    }

    fn set_free_bytes(&mut self, bytes: usize) {
        put_u16(self.bytes, FREE, bytes as u16);
    }

    fn set_free_mark(&mut self, at: usize) {
        put_u16(self.bytes, FREE_MARK, at as u16);
    }

    fn set_tag_count(&mut self, count: usize) {
        let reserved = get_u16(self.bytes, TAGS) & !super::TAG_COUNT_MASK;
        put_u16(self.bytes, TAGS, reserved | count as u16);
    }

    fn set_tag(&mut self, index: usize, tag: Tag) {
        let start = tag.start as u16 | u16::from(tag.flags) << 13;
        let at = self.bytes.len() - TAG_BYTES * (index + 1);
        put_u32(self.bytes, at, u32::from(start) << 16 | tag.len as u32);
    }

    /// Inserts a node at `slot`; later nodes move up. Compresses the key against the page prefix.
    ///
    /// # Errors
    /// If it does not fit beside what is held for rollback.
    /// # Panics
    /// If `slot` is above the node count.
    pub fn insert(&mut self, slot: usize, key: &[u8], data: &[u8], flags: u8) -> Result<(), Full> {
        self.insert_node(slot, &NewNode { key: [key, &[]], data, flags })
    }

    fn insert_node(&mut self, slot: usize, node: &NewNode) -> Result<(), Full> {
        let page = self.view();
        assert!(slot <= page.node_count(), "slot {slot} of {}", page.node_count());
        debug_assert!(!node.data.is_empty(), "a node has data");
        let taken = prefix_taken(page.prefix(), node.key);
        let key_len = node.key[0].len() + node.key[1].len();
        debug_assert!(key_len <= usize::from(LENGTH_MASK));
        let len = body_bytes(taken, key_len - taken, node.data.len());
        let (index, count) = (slot + page.reserved_tags(), page.tag_count());
        self.need(len + TAG_BYTES)?;
        if count >= usize::from(super::TAG_COUNT_MASK) {
            return Err(Full { needed_bytes: len + TAG_BYTES, free_bytes: 0 });
        }
        if self.view().gap_bytes() < len + TAG_BYTES {
            self.compact();
        }
        let size = self.bytes.len();
        self.bytes
            .copy_within(size - TAG_BYTES * count..size - TAG_BYTES * index, size - TAG_BYTES * (count + 1));
        self.set_tag_count(count + 1);
        let start = self.view().free_mark();
        self.set_free_mark(start + len);
        self.set_free_bytes(self.view().free_bytes() - len - TAG_BYTES);
        self.write_body(index, start, taken, node);
        Ok(())
    }

    /// Writes tag and body of a node whose space is already accounted for.
    fn write_body(&mut self, index: usize, start: usize, taken: usize, node: &NewNode) {
        let large = is_large(self.bytes.len());
        let compressed = if taken > 0 { node_flags::COMPRESSED } else { 0 };
        let flags = node.flags & !node_flags::COMPRESSED | compressed;
        let [first, second] = node.key;
        let suffix = [&first[taken.min(first.len())..], &second[taken.saturating_sub(first.len())..]];
        let suffix_len = (suffix[0].len() + suffix[1].len()) as u16;
        let flag_bits = if large { u16::from(flags) << 13 } else { 0 };
        let mut at = header_bytes(self.bytes.len()) + start;
        if taken > 0 {
            put_u16(self.bytes, at, taken as u16 | flag_bits);
            put_u16(self.bytes, at + 2, suffix_len);
            at += 4;
        } else {
            put_u16(self.bytes, at, suffix_len | flag_bits);
            at += 2;
        }
        for part in [suffix[0], suffix[1], node.data] {
            self.bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        let len = body_bytes(taken, usize::from(suffix_len), node.data.len());
        self.set_tag(index, Tag { start, len, flags: if large { 0 } else { flags } });
    }

    /// Gives node `slot` new data; key and flags stay.
    ///
    /// # Errors
    /// If it grows by more than the page has.
    /// # Panics
    /// If there is no such slot.
    pub fn replace_data(&mut self, slot: usize, data: &[u8]) -> Result<(), Full> {
        debug_assert!(!data.is_empty(), "a node has data");
        let old_data = self.view().node(slot).data.len();
        let index = slot + self.view().reserved_tags();
        let head = self.view().tag(index).len - old_data;
        let start = self.resize(index, head + data.len(), head)?;
        let at = header_bytes(self.bytes.len()) + start + head;
        self.bytes[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }

    /// Sets the external header. Compressed keys refer to the prefix in it, so on pages with nodes that part must not
    /// change; `recompress` does that.
    ///
    /// # Errors
    /// If it grows by more than the page has.
    pub fn set_external_header(&mut self, header: &[u8]) -> Result<(), Full> {
        let start = self.resize(0, header.len(), 0)?;
        let at = header_bytes(self.bytes.len()) + start;
        self.bytes[at..at + header.len()].copy_from_slice(header);
        Ok(())
    }

    /// Resizes tag `index` to `len` bytes, keeping the first `keep`, and returns their offset.
    fn resize(&mut self, index: usize, len: usize, keep: usize) -> Result<usize, Full> {
        let tag = self.view().tag(index);
        if len > tag.len {
            self.need(len - tag.len)?;
        }
        let free = self.view().free_bytes() + tag.len - len;
        let mark = self.view().free_mark();
        let is_last = tag.start + tag.len == mark;
        let start = if len <= tag.len || is_last && self.view().gap_bytes() >= len - tag.len {
            if is_last {
                self.set_free_mark(tag.start + len);
            }
            tag.start
        } else {
            self.move_to_end(index, tag, len, keep)
        };
        self.set_tag(index, Tag { start, len, ..tag });
        self.set_free_bytes(free);
        Ok(start)
    }

    /// Moves the first `keep` bytes of a tag's body behind all others, with room for `len`.
    fn move_to_end(&mut self, index: usize, tag: Tag, len: usize, keep: usize) -> usize {
        let data_start = header_bytes(self.bytes.len());
        if self.view().gap_bytes() >= len {
            let start = self.view().free_mark();
            let from = data_start + tag.start;
            self.bytes.copy_within(from..from + keep, data_start + start);
            self.set_free_mark(start + len);
            return start;
        }
        // The kept head leaves the page during compaction, or the old body would count twice.
        let head = self.bytes[data_start + tag.start..][..keep].to_vec();
        self.set_tag(index, Tag { len: 0, ..tag });
        self.compact();
        let start = self.view().free_mark();
        self.bytes[data_start + start..][..keep].copy_from_slice(&head);
        self.set_free_mark(start + len);
        start
    }

    /// Removes node `slot`; later nodes move down.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn remove(&mut self, slot: usize) {
        let page = self.view();
        assert!(slot < page.node_count(), "slot {slot} of {}", page.node_count());
        let (index, count) = (slot + page.reserved_tags(), page.tag_count());
        let tag = page.tag(index);
        let free = page.free_bytes() + tag.len + TAG_BYTES;
        if tag.start + tag.len == page.free_mark() {
            self.set_free_mark(tag.start);
        }
        let size = self.bytes.len();
        self.bytes.copy_within(
            size - TAG_BYTES * count..size - TAG_BYTES * (index + 1),
            size - TAG_BYTES * (count - 1),
        );
        self.set_tag_count(count - 1);
        self.set_free_bytes(free);
    }

    /// Removes node `slot` and all later nodes.
    pub fn truncate(&mut self, slot: usize) {
        let page = self.view();
        let (index, count) = (slot + page.reserved_tags(), page.tag_count());
        if index >= count {
            return;
        }
        let freed: usize = (index..count).map(|i| page.tag(i).len + TAG_BYTES).sum();
        let mark = (0..index).map(|i| page.tag(i)).map(|tag| tag.start + tag.len).max().unwrap_or(0);
        let free = page.free_bytes() + freed;
        self.set_tag_count(index);
        self.set_free_mark(mark);
        self.set_free_bytes(free);
    }

    /// Sets the flags of node `slot`; the compression flag stays as it is.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn set_node_flags(&mut self, slot: usize, flags: u8) {
        let page = self.view();
        assert!(slot < page.node_count(), "slot {slot} of {}", page.node_count());
        let index = slot + page.reserved_tags();
        let tag = page.tag(index);
        let keep = |old: u8| old & node_flags::COMPRESSED | flags & !node_flags::COMPRESSED;
        if is_large(self.bytes.len()) {
            let high = header_bytes(self.bytes.len()) + tag.start + 1;
            self.bytes[high] = keep(self.bytes[high] >> 5) << 5 | self.bytes[high] & 0x1F;
        } else {
            self.set_tag(index, Tag { flags: keep(tag.flags), ..tag });
        }
    }

    /// Appends nodes `slots` of `from` in their order, compressed against this page's own prefix.
    ///
    /// # Errors
    /// If not all fit; then none was appended.
    pub fn append_from(&mut self, from: PageRef, slots: std::ops::Range<usize>) -> Result<(), Full> {
        let before = self.view().node_count();
        for slot in slots {
            let node = from.node(slot);
            let new = NewNode { key: [node.prefix, node.suffix], data: node.data, flags: node.flags };
            let end = self.view().node_count();
            if let Err(full) = self.insert_node(end, &new) {
                self.truncate(before);
                return Err(full);
            }
        }
        Ok(())
    }

    /// Gives the page another prefix (`best_prefix` finds a good one) and rewrites its nodes without gaps. A root has
    /// no prefix unless it belongs to a space tree.
    ///
    /// # Errors
    /// If the nodes no longer fit.
    pub fn recompress(&mut self, prefix: &[u8]) -> Result<(), Full> {
        let copy = self.bytes.to_vec();
        let old = PageRef { bytes: &copy };
        self.truncate(0);
        let header = match (old.is_root(), old.is_space()) {
            (false, _) => self.set_external_header(prefix),
            (true, true) => {
                let mut header = [0u8; SPLIT_BUFFER_BYTES + LENGTH_MASK as usize];
                let header = &mut header[..SPLIT_BUFFER_BYTES + prefix.len()];
                let split_buffer = old.external_header().get(..SPLIT_BUFFER_BYTES).unwrap_or(&[]);
                header[..split_buffer.len()].copy_from_slice(split_buffer);
                header[SPLIT_BUFFER_BYTES..].copy_from_slice(prefix);
                self.set_external_header(header)
            }
            (true, false) => Ok(()),
        };
        let done = header.and_then(|()| {
            self.compact();
            self.append_from(old, 0..old.node_count())
        });
        if done.is_err() {
            self.bytes.copy_from_slice(&copy);
        }
        done
    }

    /// Rewrites the nodes of a page whose prefix never changed in tag order, without gaps, and clears unused bytes.
    pub fn tidy(&mut self) {
        let page = self.view();
        let mut end = 0;
        let is_tidy = (0..page.tag_count()).map(|index| page.tag(index)).all(|tag| {
            let follows = tag.start == end;
            end = tag.start + tag.len;
            follows
        });
        if !is_tidy || end != page.free_mark() {
            let prefix = page.prefix().to_vec();
            let rewritten = self.recompress(&prefix);
            debug_assert!(rewritten.is_ok(), "the same nodes under the same prefix take no more room");
        }
        let unused = self.view().unused();
        self.bytes[unused].fill(0);
    }

    fn need(&self, needed_bytes: usize) -> Result<(), Full> {
        let page = self.view();
        let free_bytes = page.free_bytes().saturating_sub(page.uncommitted_free_bytes());
        if needed_bytes > free_bytes { Err(Full { needed_bytes, free_bytes }) } else { Ok(()) }
    }

    /// Rewrites all nodes without gaps, in tag order.
    fn compact(&mut self) {
        let data_start = header_bytes(self.bytes.len());
        let copy = self.bytes[data_start..data_start + self.view().free_mark()].to_vec();
        let mut start = 0;
        for index in 0..self.view().tag_count() {
            let tag = self.view().tag(index);
            let body = &copy[tag.start..tag.start + tag.len];
            self.bytes[data_start + start..data_start + start + tag.len].copy_from_slice(body);
            self.set_tag(index, Tag { start, ..tag });
            start += tag.len;
        }
        self.set_free_mark(start);
    }

    /// Stamps the page for writing: number, checksum format, next flush type, checksums. Nothing may change after it.
    pub fn finish(&mut self, pgno: u32) {
        self.prepare(pgno);
        self.seal(pgno);
    }

    /// Part of `finish` before the checksums; once for each write of the page, because it advances the flush type.
    pub fn prepare(&mut self, pgno: u32) {
        let flags = self.view().flags();
        let flush_type = match (flags & page_flags::FLUSH_TYPE) >> 15 {
            3 => 1,
            other => other + 1,
        };
        self.set_flags(flags & !page_flags::FLUSH_TYPE | flush_type << 15 | page_flags::NEW_CHECKSUM);
        if is_large(self.bytes.len()) {
            put_u32(self.bytes, PGNO, pgno);
        }
    }

    /// Computes the checksums of a page whose header says the new format.
    pub fn seal(&mut self, pgno: u32) {
        checksum::stamp(self.bytes, pgno);
    }
}

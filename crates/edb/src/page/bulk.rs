//! Writes whole pages in one pass, for pages whose nodes are computed rather than inserted.

use super::{DBTIME, FLAGS, FREE, FREE_MARK, NEXT, OBJID, PREV, PageMut, TAG_BYTES, TAGS};
use super::{header_bytes, is_page_size, page_flags};
use crate::bytes::{put_u16, put_u32, put_u64};

/// Page that is written from its first node to its last. Old contents do not matter; bytes without a node become zero.
pub struct BulkPage<'a> {
    bytes: &'a mut [u8],
    tags: usize,
    /// End of the written bytes, from the start of the page.
    end: usize,
}

impl<'a> BulkPage<'a> {
    /// Starts a page, see `PageMut::format`. `external_header` is that of a root; else an empty one.
    ///
    /// # Panics
    /// If the length is no page size.
    pub fn format(bytes: &'a mut [u8], objid: u32, flags: u32, dbtime: u64, external_header: &[u8]) -> Self {
        assert!(is_page_size(bytes.len()), "{} bytes are no page", bytes.len());
        let start = header_bytes(bytes.len());
        bytes[..start].fill(0);
        put_u64(bytes, DBTIME, dbtime);
        put_u32(bytes, OBJID, objid);
        put_u32(bytes, FLAGS, flags | page_flags::NEW_RECORDS | page_flags::NEW_CHECKSUM);
        let mut page = BulkPage { bytes, tags: 0, end: start };
        page.push(external_header.len()).copy_from_slice(external_header);
        page
    }

    /// Sets the neighbours of a leaf.
    pub fn set_neighbours(&mut self, prev: u32, next: u32) {
        put_u32(self.bytes, PREV, prev);
        put_u32(self.bytes, NEXT, next);
    }

    /// Body of the next node, to be written completely (`len` bytes): key length as u16, key, data.
    ///
    /// # Panics
    /// If the page is full.
    #[inline(always)]
    pub fn push(&mut self, len: usize) -> &mut [u8] {
        let start = self.end;
        let tag = self.bytes.len() - TAG_BYTES * (self.tags + 1);
        assert!(start + len <= tag, "node {} does not fit", self.tags);
        let ib = start - header_bytes(self.bytes.len());
        put_u32(self.bytes, tag, (ib as u32) << 16 | len as u32);
        self.tags += 1;
        self.end = start + len;
        &mut self.bytes[start..start + len]
    }

    /// Bodies of the next `count` nodes, each of `len` bytes, side by side.
    ///
    /// # Panics
    /// If the page is full.
    #[inline(always)]
    pub fn push_run(&mut self, count: usize, len: usize) -> &mut [u8] {
        let (start, end) = (self.end, self.end + count * len);
        let tags_end = self.bytes.len() - TAG_BYTES * self.tags;
        let tags_start = tags_end.saturating_sub(TAG_BYTES * count);
        assert!(end <= tags_start, "{count} nodes do not fit");
        let mut word = ((start - header_bytes(self.bytes.len())) as u32) << 16 | len as u32;
        for tag in self.bytes[tags_start..tags_end].rchunks_exact_mut(TAG_BYTES) {
            tag.copy_from_slice(&word.to_le_bytes());
            word += (len as u32) << 16;
        }
        self.tags += count;
        self.end = end;
        &mut self.bytes[start..end]
    }

    /// Completes the page and its checksums, see `PageMut::finish`.
    pub fn finish(self, pgno: u32) {
        PageMut::new(self.finish_unsealed(pgno)).seal(pgno);
    }

    /// As `finish`, without the checksums.
    pub fn finish_unsealed(self, pgno: u32) -> &'a mut [u8] {
        let BulkPage { bytes, tags, end } = self;
        let gap = end..bytes.len() - TAG_BYTES * tags;
        put_u16(bytes, FREE, gap.len() as u16);
        put_u16(bytes, FREE_MARK, (end - header_bytes(bytes.len())) as u16);
        put_u16(bytes, TAGS, tags as u16);
        bytes[gap].fill(0);
        PageMut::new(bytes).prepare(pgno);
        bytes
    }
}

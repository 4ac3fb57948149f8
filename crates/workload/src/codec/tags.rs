//! The tag array of a page as raw words, for pages that may be anything.

use std::ops::Range;

use edb::page::header_bytes;

/// Bytes of one tag.
pub const TAG_BYTES: usize = 4;
/// Where the number of tags stands (its low twelve bits).
pub const TAG_COUNT: usize = 34;

/// One tag: a place in the data area, and flag bits on small pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// Start of the body, counted from the start of the page.
    pub start: usize,
    /// Length of the body.
    pub len: usize,
    /// The bits of the word that are neither.
    pub extra: u32,
}

impl Tag {
    /// Where the body stands.
    pub fn body(self) -> Range<usize> {
        self.start..self.start + self.len
    }
}

/// Bits of the tag word that are neither place nor length: node flags on small pages, nothing on large ones.
fn extra_mask(page_bytes: usize) -> u32 {
    if page_bytes <= 8192 { 0xE000_E000 } else { 0x8000_8000 }
}

/// The tags of a page; none if any of them lies outside the data area.
pub fn tags(page: &[u8]) -> Vec<Tag> {
    let count = usize::from(u16::from_le_bytes([page[TAG_COUNT], page[TAG_COUNT + 1]]) & 0xFFF);
    let data = header_bytes(page.len());
    let mask = extra_mask(page.len());
    let Some(data_end) = page.len().checked_sub(TAG_BYTES * count).filter(|end| *end >= data) else {
        return Vec::new();
    };
    let mut tags = Vec::with_capacity(count);
    for word in page[data_end..].rchunks_exact(TAG_BYTES) {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        let place = word & !mask;
        let tag =
            Tag { start: data + (place >> 16) as usize, len: place as usize & 0xFFFF, extra: word & mask };
        if tag.start + tag.len > data_end {
            return Vec::new();
        }
        tags.push(tag);
    }
    tags
}

/// Writes tag `index`; `None` if it does not fit a page.
pub fn put_tag(page: &mut [u8], index: usize, tag: Tag) -> Option<()> {
    let start = tag.start.checked_sub(header_bytes(page.len()))?;
    let word = (u32::try_from(start).ok()? << 16 | tag.len as u32) | tag.extra;
    let at = page.len().checked_sub(TAG_BYTES * (index + 1))?;
    page.get_mut(at..at + TAG_BYTES)?.copy_from_slice(&word.to_le_bytes());
    Some(())
}

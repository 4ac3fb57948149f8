//! The tag array of a page as raw words, for pages that may be anything.

use std::ops::Range;

use edb::page::header_bytes;

/// Size of a tag, bytes.
pub const TAG_BYTES: usize = 4;
/// Offset of the number of tags in the page header (low twelve bits).
pub const TAG_COUNT: usize = 34;

/// Tag of a node: place and length in the data area, and flag bits on small pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// Offset of the node's body from the start of the page.
    pub start: usize,
    /// Length of the node's body, bytes.
    pub len: usize,
    /// Bits of the tag word that are neither place nor length.
    pub extra: u32,
}

impl Tag {
    /// Range of the node's body.
    pub fn body(self) -> Range<usize> {
        self.start..self.start + self.len
    }
}

/// Mask of the bits of a tag word that are neither place nor length: node flags on small pages, none on large ones.
fn extra_mask(page_bytes: usize) -> u32 {
    if page_bytes <= 8192 { 0xE000_E000 } else { 0x8000_8000 }
}

/// Tags of a page, read in place.
#[derive(Clone, Copy)]
pub struct Tags<'a> {
    page_bytes: usize,
    /// Words of the tags; the last tag comes first.
    words: &'a [[u8; TAG_BYTES]],
    extra_mask: u32,
}

/// Number of bytes in the bodies of some tags, with the ends of the last and of the furthest body.
pub struct Extent {
    pub used_bytes: usize,
    pub end: usize,
    pub top: usize,
}

impl<'a> Tags<'a> {
    /// Reads the tags of a page; none if they overlap its header. The bodies may lie anywhere.
    pub fn of(page: &'a [u8]) -> Tags<'a> {
        let count = usize::from(u16::from_le_bytes([page[TAG_COUNT], page[TAG_COUNT + 1]]) & 0xFFF);
        let start =
            page.len().checked_sub(TAG_BYTES * count).filter(|start| *start >= header_bytes(page.len()));
        let words = page[start.unwrap_or(page.len())..].as_chunks::<TAG_BYTES>().0;
        Tags { page_bytes: page.len(), words, extra_mask: extra_mask(page.len()) }
    }

    pub fn len(self) -> usize {
        self.words.len()
    }

    pub fn get(self, index: usize) -> Option<Tag> {
        Some(self.tag(*self.run(index, 1)?.first()?))
    }

    /// Words of `count` tags from `from` on; the last tag comes first.
    pub fn run(self, from: usize, count: usize) -> Option<&'a [[u8; TAG_BYTES]]> {
        let end = self.words.len().checked_sub(from)?;
        self.words.get(end.checked_sub(count)?..end)
    }

    /// Iterates over `count` tags from `from` on.
    pub fn iter(self, from: usize, count: usize) -> impl Iterator<Item = Tag> + use<'a> {
        let words = self.run(from, count).unwrap_or(&[]);
        words.iter().rev().map(move |word| self.tag(*word))
    }

    /// Extent of the bodies of `count` tags from `from` on.
    pub fn extent(self, from: usize, count: usize) -> Option<Extent> {
        let (words, place_mask) = (self.run(from, count)?, !self.extra_mask);
        let last = self.tag(*words.first()?);
        let (mut used_bytes, mut top) = (0, 0);
        // In words of four bytes and without a way out: the compiler takes several at once.
        for word in words {
            let place = u32::from_le_bytes(*word) & place_mask;
            used_bytes += place & 0xFFFF;
            top = top.max((place >> 16) + (place & 0xFFFF));
        }
        let top = header_bytes(self.page_bytes) + top as usize;
        Some(Extent { used_bytes: used_bytes as usize, end: last.start + last.len, top })
    }

    /// Number of leading tags, of `count` from `from` on, for which `holds` is true (bisection).
    pub fn partition_point(self, from: usize, count: usize, holds: impl Fn(Tag) -> bool) -> usize {
        let words = self.run(from, count).unwrap_or(&[]);
        words.len() - words.partition_point(|word| !holds(self.tag(*word)))
    }

    /// Number of tags from `from` on that have the same lengths, extra bits and distances as those of `other` from
    /// `other_from` on.
    pub fn alike(self, from: usize, other: Tags, other_from: usize) -> usize {
        let count = self.words.len().saturating_sub(from).min(other.words.len().saturating_sub(other_from));
        let runs = self.run(from, count).zip(other.run(other_from, count));
        let Some((words, others)) = runs else { return 0 };
        let Some(moved) = words.last().zip(others.last()).map(|(word, other)| distance(*word, *other)) else {
            return 0;
        };
        let mask = self.extra_mask | 0xFFFF;
        let difference = |word: [u8; TAG_BYTES], other: [u8; TAG_BYTES]| {
            let different = (u32::from_le_bytes(word) ^ u32::from_le_bytes(other)) & mask;
            (distance(word, other) ^ moved) | different
        };
        // Most runs are long: several words are looked at at once.
        const STRIDE: usize = 16;
        let mut at = count;
        while at >= STRIDE {
            let (words, others) = (&words[at - STRIDE..at], &others[at - STRIDE..at]);
            if words.iter().zip(others).fold(0, |all, (word, other)| all | difference(*word, *other)) != 0 {
                break;
            }
            at -= STRIDE;
        }
        let rest = words[..at].iter().zip(&others[..at]).rev();
        count - at + rest.take_while(|(word, other)| difference(**word, **other) == 0).count()
    }

    fn tag(self, word: [u8; TAG_BYTES]) -> Tag {
        let word = u32::from_le_bytes(word);
        let place = word & !self.extra_mask;
        let start = header_bytes(self.page_bytes) + (place >> 16) as usize;
        Tag { start, len: place as usize & 0xFFFF, extra: word & self.extra_mask }
    }
}

fn distance(word: [u8; TAG_BYTES], other: [u8; TAG_BYTES]) -> u32 {
    u32::from_le_bytes(word).wrapping_sub(u32::from_le_bytes(other))
}

/// Writes the tag at `index`; `None` if it does not fit into the page.
pub fn put_tag(page: &mut [u8], index: usize, tag: Tag) -> Option<()> {
    let start = tag.start.checked_sub(header_bytes(page.len()))?;
    let word = (u32::try_from(start).ok()? << 16 | tag.len as u32) | tag.extra;
    let at = page.len().checked_sub(TAG_BYTES * (index + 1))?;
    page.get_mut(at..at + TAG_BYTES)?.copy_from_slice(&word.to_le_bytes());
    Some(())
}

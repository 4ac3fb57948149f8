//! Whole pages as the log holds them.

use edb::page::{PageRef, header_bytes, is_page_size};

use crate::wire::{Reader, put_int};

/// Coding of whole pages of a database in the log.
pub trait PageCoding {
    /// Size of a page, bytes.
    fn page_bytes(&self) -> usize;
    /// Appends the page in its coding. Bytes between free mark and tags need not be kept.
    fn encode(&self, pgno: u32, page: &[u8], out: &mut Vec<u8>);
    /// Decodes a page into `page`, except its checksums. False if `encoded` is not an encoding.
    fn decode(&self, pgno: u32, encoded: &[u8], page: &mut [u8]) -> bool;
}

/// Plain coding: the page without its unused middle.
#[derive(Debug, Clone, Copy)]
pub struct PlainCoding {
    /// Size of a page, bytes.
    pub page_bytes: usize,
}

impl PageCoding for PlainCoding {
    fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    fn encode(&self, _pgno: u32, page: &[u8], out: &mut Vec<u8>) {
        let unused = PageRef::new(page).unused();
        put_int(out, unused.start as u64);
        put_int(out, (page.len() - unused.end) as u64);
        out.extend_from_slice(&page[..unused.start]);
        out.extend_from_slice(&page[unused.end..]);
    }

    fn decode(&self, _pgno: u32, encoded: &[u8], page: &mut [u8]) -> bool {
        let mut reader = Reader(encoded);
        let (Some(head), Some(tail)) = (reader.int(), reader.int()) else { return false };
        let (Ok(head), Ok(tail)) = (usize::try_from(head), usize::try_from(tail)) else { return false };
        let sum_fits = head.checked_add(tail).is_some_and(|sum| sum == reader.0.len() && sum <= page.len());
        if !sum_fits || !is_page_size(page.len()) || head < header_bytes(page.len()) {
            return false;
        }
        let tail_at = page.len() - tail;
        page[..head].copy_from_slice(&reader.0[..head]);
        page[head..tail_at].fill(0);
        page[tail_at..].copy_from_slice(&reader.0[head..]);
        true
    }
}

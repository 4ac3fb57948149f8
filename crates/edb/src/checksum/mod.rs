//! Checksums of headers and pages, verification, and correction of single flipped bits.
//!
//! Page checksum, per block: `x` = XOR of all 32-bit words and the page number; `low` = XOR of the indices of all set
//! bits; `high` = the same over the complemented indices. One flipped bit changes `low` by its index and `high` by the
//! complement, which locates it. Pages up to 8 KiB are one block, larger ones four; block 0 covers the checksums of the
//! others, which lie in the page header.
//!
//! Invariants
//! 1. `verify` after `stamp` with the same page number is `Ok`.
//! 2. `correct` changes a page only if the result verifies.
//! 3. The vector path and the portable path give the same value for every input.

mod kernel;
#[cfg(test)]
mod tests;

use crate::bytes::{get_u32, get_u64, put_u32, put_u64};
use crate::page::{FLAGS, PGNO, is_large, is_page_size, page_flags};

use kernel::BlockBits;

/// Start value of the header checksum, and magic number of a database header.
pub const MAGIC: u32 = 0x89AB_CDEF;

/// Offsets of the checksums of blocks 0 to 3 in the page header.
const PLACES: [usize; 4] = [0, 40, 48, 56];

/// Bits of block 0 that hold the checksums of blocks 1 to 3.
const STORED_SUMS_BITS: std::ops::Range<u32> = 320..512;

/// Bit of block 0 that names the page's checksum format.
const FORMAT_BIT: u32 = FLAGS as u32 * 8 + page_flags::NEW_CHECKSUM.trailing_zeros();

/// Checksum over a header: database headers and trailer page (whole page), log header and checkpoint (4096 bytes).
/// The stored checksum, the first word, does not count.
///
/// # Panics
/// If `bytes` is shorter than a word.
pub fn header_sum(bytes: &[u8]) -> u32 {
    let (words, _) = bytes.as_chunks::<4>();
    words[1..].iter().fold(MAGIC, |sum, word| sum ^ u32::from_le_bytes(*word))
}

/// Whether a header's stored checksum is right.
pub fn header_is_intact(bytes: &[u8]) -> bool {
    bytes.len() > 4 && get_u32(bytes, 0) == header_sum(bytes)
}

/// Writes the checksum into a header.
///
/// # Panics
/// If `bytes` is shorter than a word.
pub fn stamp_header(bytes: &mut [u8]) {
    let sum = header_sum(bytes);
    put_u32(bytes, 0, sum);
}

/// Result of the verification of a page's checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The page has the bytes that were written.
    Ok,
    /// All bytes are zero: never written. Not an error.
    Uninitialised,
    /// Flipped bits, at most one in each block, that `correct` can flip back.
    Correctable {
        /// Flipped bits.
        bits: FlippedBits,
    },
    /// The bytes belong to another page: a misdirected read or write.
    WrongNumber {
        /// Page number for which the checksum is right.
        claimed: u32,
    },
    /// The page is damaged beyond correction.
    Bad,
}

/// Up to four bits of a page, one in each block, as bit numbers from the start of the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlippedBits {
    bits: [u32; 4],
    count: usize,
}

impl FlippedBits {
    fn push(&mut self, bit: u32) {
        self.bits[self.count] = bit;
        self.count += 1;
    }

    /// Numbers of the bits: `8 * byte offset + bit`, bit 0 is the least significant.
    pub fn as_slice(&self) -> &[u32] {
        &self.bits[..self.count]
    }

    /// Flips these bits of a page.
    fn flip(&self, page: &mut [u8]) {
        for &bit in self.as_slice() {
            page[bit as usize / 8] ^= 1 << (bit % 8);
        }
    }
}

/// Number of blocks of a page of this size.
const fn block_count(page_bytes: usize) -> usize {
    if is_large(page_bytes) { 4 } else { 1 }
}

/// The checksums that the blocks of this page should have. Those beyond the last block are 0.
///
/// # Panics
/// If the length is no page size.
pub fn page_sums(page: &[u8], pgno: u32) -> [u64; 4] {
    let mut sums = [0; 4];
    for (index, sum) in sums.iter_mut().enumerate().take(block_count(page.len())) {
        *sum = sum_of_block(page, index, pgno);
    }
    sums
}

fn sum_of_block(page: &[u8], index: usize, pgno: u32) -> u64 {
    assert!(is_page_size(page.len()), "{} bytes are no page", page.len());
    let block_bytes = page.len() / block_count(page.len());
    let mut bits = kernel::block_bits(&page[index * block_bytes..][..block_bytes]);
    if index == 0 {
        bits.remove_word(0, get_u32(page, 0));
        bits.remove_word(1, get_u32(page, 4));
    }
    block_sum(bits, block_bytes, pgno)
}

/// Folds the sums of a block into its stored checksum.
fn block_sum(bits: BlockBits, block_bytes: usize, pgno: u32) -> u64 {
    let all = bits.xor;
    let parity = |mask: u32| (all & mask).count_ones() & 1;
    let low = bits.odd_words << 5
        | parity(0xFFFF_0000) << 4
        | parity(0xFF00_FF00) << 3
        | parity(0xF0F0_F0F0) << 2
        | parity(0xCCCC_CCCC) << 1
        | parity(0xAAAA_AAAA);
    let index_mask = block_bytes as u32 * 8 - 1;
    let high = if parity(u32::MAX) == 1 { low ^ index_mask } else { low };
    u64::from(high) << 48 | u64::from(low) << 32 | u64::from(all ^ pgno)
}

/// Computes and stores the checksums of a page with the new checksum format.
///
/// # Panics
/// If the length is no page size.
pub fn stamp(page: &mut [u8], pgno: u32) {
    debug_assert!(has_new_format(page));
    // Block 0 covers the checksums of the others.
    for index in (0..block_count(page.len())).rev() {
        let sum = sum_of_block(page, index, pgno);
        put_u64(page, PLACES[index], sum);
    }
}

fn has_new_format(page: &[u8]) -> bool {
    get_u32(page, FLAGS) & page_flags::NEW_CHECKSUM != 0
}

fn is_zero(page: &[u8]) -> bool {
    let (words, _) = page.as_chunks::<8>();
    words.iter().all(|word| u64::from_ne_bytes(*word) == 0)
}

/// Verifies the checksum of a page that was read as page `pgno`.
///
/// # Panics
/// If the length is no page size.
pub fn verify(page: &[u8], pgno: u32) -> Verdict {
    assert!(is_page_size(page.len()), "{} bytes are no page", page.len());
    if has_new_format(page) {
        let verdict = verify_new(page, pgno);
        // The format flag itself may be wrong: a valid old page must not be "corrected".
        if verdict != Verdict::Ok && verify_old(page, pgno) == Verdict::Ok {
            return Verdict::Ok;
        }
        return verdict;
    }
    if is_zero(page) {
        return Verdict::Uninitialised;
    }
    verify_old(page, pgno)
}

/// Verifies a page of the old format: header checksum, then the page number. It cannot locate a flipped bit.
fn verify_old(page: &[u8], pgno: u32) -> Verdict {
    let claimed = get_u32(page, 4);
    match (header_is_intact(page), claimed == pgno) {
        (true, true) => Verdict::Ok,
        (true, false) => Verdict::WrongNumber { claimed },
        (false, _) => Verdict::Bad,
    }
}

fn verify_new(page: &[u8], pgno: u32) -> Verdict {
    let count = block_count(page.len());
    let computed = page_sums(page, pgno);
    let mut stored = [0; 4];
    for (sum, place) in stored.iter_mut().zip(PLACES).take(count) {
        *sum = get_u64(page, place);
    }
    if stored == computed {
        return match is_large(page.len()) && get_u32(page, PGNO) != pgno {
            true => Verdict::WrongNumber { claimed: get_u32(page, PGNO) },
            false => Verdict::Ok,
        };
    }
    if let Some(difference) = number_difference(&stored[..count], &computed[..count]) {
        return Verdict::WrongNumber { claimed: pgno ^ difference };
    }
    match flipped_bits(stored, computed, page.len()) {
        Some(bits) => Verdict::Correctable { bits },
        None => Verdict::Bad,
    }
}

/// XOR of both numbers, if the page is whole but was summed with another number: then the located parts of all sums
/// agree and the XOR parts differ by one word.
fn number_difference(stored: &[u64], computed: &[u64]) -> Option<u32> {
    let difference = stored[0] ^ computed[0];
    let same = stored.iter().zip(computed).all(|(a, b)| a ^ b == difference);
    (same && difference >> 32 == 0).then_some(difference as u32)
}

/// The flipped bit of each block whose sums differ; `None` if one block has more than a single flipped bit.
fn flipped_bits(mut stored: [u64; 4], computed: [u64; 4], page_bytes: usize) -> Option<FlippedBits> {
    let block_bits = (page_bytes / block_count(page_bytes)) as u32 * 8;
    let mut bits = FlippedBits::default();
    for index in 0..4 {
        let difference = stored[index] ^ computed[index];
        if difference == 0 {
            continue;
        }
        let bit = single_flipped_bit(difference, block_bits)?;
        if index == 0 {
            // The format flag is never flipped back, and the stored sum (64 bits) is not covered by itself.
            if bit == FORMAT_BIT || bit < 64 {
                return None;
            }
            if is_large(page_bytes) && STORED_SUMS_BITS.contains(&bit) {
                // That bit is part of what another block is judged by.
                let place = bit - STORED_SUMS_BITS.start;
                stored[1 + place as usize / 64] ^= 1 << (place % 64);
            }
        }
        bits.push(index as u32 * block_bits + bit);
    }
    Some(bits)
}

/// The one bit that explains the difference between a stored and a computed sum.
fn single_flipped_bit(difference: u64, block_bits: u32) -> Option<u32> {
    let (low, high) = ((difference >> 32) as u32 & 0xFFFF, (difference >> 48) as u32);
    let complementary = low ^ high == block_bits - 1;
    let word = difference as u32;
    // A sum that was never one may name a bit behind the block, in both halves alike.
    (complementary && low < block_bits && word == 1 << (low % 32)).then_some(low)
}

/// Corrects the flipped bits that `verify` locates. After `Correctable` the page verifies; after any other verdict it
/// is unchanged. The caller still has to check the structure of a corrected page.
///
/// # Panics
/// If the length is no page size.
pub fn correct(page: &mut [u8], pgno: u32) -> Verdict {
    let verdict = verify(page, pgno);
    if let Verdict::Correctable { bits } = verdict {
        bits.flip(page);
        if verify(page, pgno) != Verdict::Ok {
            bits.flip(page);
            return Verdict::Bad;
        }
    }
    verdict
}

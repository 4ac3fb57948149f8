//! The pass over the bytes.
//!
//! The checksum needs the XOR of all words and the XOR of the indices of the words with an odd number of set bits. The
//! latter has a form without bit counts: its bit k is the parity of the XOR of all words whose index has bit k set. So
//! the vector path XORs a block into one accumulator per index bit, eight words at a time, and counts only those.

/// Intermediate sums from one pass over a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockBits {
    /// XOR of all 32-bit words.
    pub xor: u32,
    /// XOR of the indices of all words with an odd number of set bits.
    pub odd_words: u32,
}

impl BlockBits {
    /// Removes one word from the sums, as if it were 0.
    pub fn remove_word(&mut self, index: u32, word: u32) {
        *self = self.with(index, word);
    }

    /// Adds a word, or removes it: XOR is its own inverse.
    fn with(self, index: u32, word: u32) -> Self {
        let odd = word.count_ones() % 2;
        BlockBits { xor: self.xor ^ word, odd_words: self.odd_words ^ (index * odd) }
    }
}

/// Computes the sums of a block of 4 or 8 KiB.
pub(super) fn block_bits(block: &[u8]) -> BlockBits {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        // SAFETY: the feature was just detected.
        return unsafe { avx2::block_bits(block) };
    }
    block_bits_portable(block)
}

/// Computes the sums by their definition, word by word.
pub(super) fn block_bits_portable(block: &[u8]) -> BlockBits {
    let (words, _) = block.as_chunks::<4>();
    (0..).zip(words).fold(BlockBits { xor: 0, odd_words: 0 }, |bits, (index, word)| {
        bits.with(index, u32::from_le_bytes(*word))
    })
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _MM_HINT_T0, _mm_prefetch, _mm256_loadu_si256, _mm256_setzero_si256, _mm256_storeu_si256,
        _mm256_xor_si256,
    };

    use super::BlockBits;

    const LANES: usize = 8;
    const VECTOR_BYTES: usize = 32;
    const GROUP_BYTES: usize = 8 * VECTOR_BYTES;
    const CACHE_LINE_BYTES: usize = 64;
    /// Distance of prefetching, bytes: pages are seldom in the processor's caches, and prefetching sums a quarter more
    /// bytes per second.
    const AHEAD_BYTES: usize = 1024;
    /// Number of bits for 32 groups: blocks of up to 8 KiB.
    const GROUP_INDEX_BITS: usize = 5;

    /// Computes the sums with vectors. Bits 0 to 2 of a word's index are its lane, 3 to 5 the vector in the group, the
    /// rest the group.
    #[target_feature(enable = "avx2")]
    pub(super) fn block_bits(block: &[u8]) -> BlockBits {
        let (groups, rest) = block.as_chunks::<GROUP_BYTES>();
        debug_assert!(rest.is_empty() && groups.len() <= 1 << GROUP_INDEX_BITS);
        let zero = _mm256_setzero_si256();
        let mut by_vector_bit = [zero; 3];
        let mut by_group_bit = [zero; GROUP_INDEX_BITS];
        let mut totals = [zero; 1 << GROUP_INDEX_BITS];
        for (group, group_total) in groups.iter().zip(&mut totals) {
            for line in (0..GROUP_BYTES).step_by(CACHE_LINE_BYTES) {
                // An address behind the page does no harm: nothing is read in the sense of the language.
                _mm_prefetch::<_MM_HINT_T0>(group.as_ptr().wrapping_add(AHEAD_BYTES + line).cast());
            }
            let odd = [load(group, 1), load(group, 3), load(group, 5), load(group, 7)];
            let pair_0 = _mm256_xor_si256(load(group, 0), odd[0]);
            let pair_1 = _mm256_xor_si256(load(group, 2), odd[1]);
            let pair_2 = _mm256_xor_si256(load(group, 4), odd[2]);
            let pair_3 = _mm256_xor_si256(load(group, 6), odd[3]);
            let odd_sum =
                _mm256_xor_si256(_mm256_xor_si256(odd[0], odd[1]), _mm256_xor_si256(odd[2], odd[3]));
            let upper = _mm256_xor_si256(pair_2, pair_3);
            *group_total = _mm256_xor_si256(_mm256_xor_si256(pair_0, pair_1), upper);
            by_vector_bit[0] = _mm256_xor_si256(by_vector_bit[0], odd_sum);
            by_vector_bit[1] = _mm256_xor_si256(by_vector_bit[1], _mm256_xor_si256(pair_1, pair_3));
            by_vector_bit[2] = _mm256_xor_si256(by_vector_bit[2], upper);
        }
        // The upper half of the groups has the highest bit of the index set; added to the lower half, it leaves
        // half as many groups, and one bit less.
        for (bit, sum) in by_group_bit.iter_mut().enumerate().rev() {
            let (lower, upper) = totals[..2 << bit].split_at_mut(1 << bit);
            for (lower, upper) in lower.iter_mut().zip(upper) {
                *sum = _mm256_xor_si256(*sum, *upper);
                *lower = _mm256_xor_si256(*lower, *upper);
            }
        }
        let all = lanes(totals[0]);
        let folded = |sum: [u32; LANES]| sum.iter().fold(0, |sum, word| sum ^ word);
        let with_lane_bit = |bit: usize| (0..LANES).filter(move |lane| lane >> bit & 1 == 1);
        let mut odd_words = 0;
        for bit in 0..3 {
            odd_words |= parity(with_lane_bit(bit).fold(0, |sum, lane| sum ^ all[lane])) << bit;
        }
        for (bit, sum) in by_vector_bit.into_iter().chain(by_group_bit).enumerate() {
            odd_words |= parity(folded(lanes(sum))) << (3 + bit);
        }
        BlockBits { xor: folded(all), odd_words }
    }

    fn parity(word: u32) -> u32 {
        word.count_ones() & 1
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(group: &[u8; GROUP_BYTES], vector: usize) -> __m256i {
        let bytes = &group[vector * VECTOR_BYTES..][..VECTOR_BYTES];
        // SAFETY: the slice is one vector long, and this load needs no alignment.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn lanes(vector: __m256i) -> [u32; LANES] {
        let mut lanes = [0u32; LANES];
        // SAFETY: the array is one vector long, and this store needs no alignment.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), vector) };
        lanes
    }
}

//! Record payloads: bytes that are a pure function of (database seed, table, id, version).
//!
//! Invariants
//! 1. The first eight bytes are a marker and (table, version, id), so a payload names itself and two payloads
//!    never repeat.
//! 2. What follows does not compress; the last `compressibility_pct` percent are zero, which compresses away.
//! 3. The first byte is at least 0x38: readers of others take a long-value chunk with a smaller one for compressed.
//!
//! Limits: 24-bit versions, 32-bit ids. Not a cipher: one wide multiplication per 16 bytes, fast enough to fill pages
//! faster than disks take them.

/// Size of the header of a payload, which names its owner, bytes.
pub const HEADER_BYTES: usize = 8;
/// Highest version of a row: versions are stored in three bytes.
pub const VERSION_MAX: u32 = (1 << 24) - 1;

const MARKER: u8 = 0xB0;
const STEP: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xD1B5_4A32_D192_ED03];

/// Owner of a payload: table, row and version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Number of the table's payload column: 0 to 15.
    pub table: u8,
    /// Id of the row.
    pub id: u32,
    /// Version of the row: how often it was replaced.
    pub version: u32,
}

/// Generator of the payloads of one database; it also recognises them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payload {
    seed: u64,
    key: u64,
    compressibility_pct: u8,
}

impl Payload {
    /// Creates payloads for the database with this seed. `compressibility_pct` percent of each payload compress away.
    pub fn new(seed: u64, compressibility_pct: u8) -> Payload {
        // Mixed, or neighbouring seeds would share payloads of neighbouring ids.
        Payload { seed: mix(seed), key: mix(!seed), compressibility_pct: compressibility_pct.min(100) }
    }

    /// Writes the payload of `owner` over all of `out`.
    pub fn fill(&self, owner: Owner, out: &mut [u8]) {
        let (header, body) = out.split_at_mut(HEADER_BYTES);
        header.copy_from_slice(&header_of(owner));
        let (random, zeros) = body.split_at_mut(self.random_bytes(body.len()));
        if !zeros.is_empty() {
            zeros.fill(0);
        }
        let mut left = mix(self.seed ^ u64::from_le_bytes(header_of(owner)));
        let mut right = left.rotate_left(32) ^ self.key;
        let mut chunks = random.chunks_exact_mut(16);
        for chunk in &mut chunks {
            chunk.copy_from_slice(&block(left, right));
            left = left.wrapping_add(STEP[0]);
            right = right.wrapping_add(STEP[1]);
        }
        let rest = chunks.into_remainder();
        if !rest.is_empty() {
            rest.copy_from_slice(&block(left, right)[..rest.len()]);
        }
    }

    /// Owner that the header of `bytes` names. Only the header is checked.
    pub fn owner(bytes: &[u8]) -> Option<Owner> {
        let header = bytes.first_chunk::<HEADER_BYTES>()?;
        if header[0] & 0xF0 != MARKER {
            return None;
        }
        let id = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        Some(Owner {
            table: header[0] & 0x0F,
            id,
            version: u32::from_le_bytes([header[1], header[2], header[3], 0]),
        })
    }

    fn random_bytes(&self, body_bytes: usize) -> usize {
        body_bytes * usize::from(100 - self.compressibility_pct) / 100
    }
}

fn header_of(owner: Owner) -> [u8; HEADER_BYTES] {
    debug_assert!(owner.table < 16 && owner.version <= VERSION_MAX);
    let [v0, v1, v2, _] = owner.version.to_le_bytes();
    let [i0, i1, i2, i3] = owner.id.to_le_bytes();
    [MARKER | owner.table, v0, v1, v2, i0, i1, i2, i3]
}

#[inline(always)]
fn block(left: u64, right: u64) -> [u8; 16] {
    let product = u128::from(left) * u128::from(right);
    let (low, high) = (product as u64, (product >> 64) as u64);
    // The low bits of a product are not even; folding both halves and both factors in makes every bit even.
    let first = low ^ high ^ left.rotate_left(32);
    let second = low.rotate_left(32).wrapping_add(high) ^ right;
    (u128::from(first) | u128::from(second) << 64).to_le_bytes()
}

/// Mixes 64 bits (bijective; the finaliser of splitmix64).
pub fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn payload(seed: u64, owner: Owner, len: usize) -> Vec<u8> {
        let mut out = vec![1; len];
        Payload::new(seed, 0).fill(owner, &mut out);
        out
    }

    #[test]
    fn a_payload_names_its_row_and_starts_with_a_byte_that_readers_accept() {
        let owner = Owner { table: 3, id: 0xFEDC_BA98, version: VERSION_MAX };
        let bytes = payload(1, owner, 100);
        assert_eq!(Payload::owner(&bytes), Some(owner));
        assert!(bytes[0] >= 0x38);
        assert_eq!(Payload::owner(&[0; 100]), None);
        assert_eq!(Payload::owner(&bytes[..7]), None);
    }

    #[test]
    fn nothing_of_eight_bytes_repeats_in_or_between_payloads() {
        let mut seen = BTreeSet::new();
        let mut total = 0;
        for seed in 0..3 {
            for id in 1..400 {
                for version in 0..2 {
                    for word in
                        payload(seed, Owner { table: 1, id, version }, 1984)[HEADER_BYTES..].chunks_exact(8)
                    {
                        seen.insert(u64::from_le_bytes(word.try_into().unwrap()));
                        total += 1;
                    }
                }
            }
        }
        assert_eq!(seen.len(), total);
    }

    #[test]
    fn the_random_part_has_even_bytes_and_bits() {
        let mut bytes = [0u32; 256];
        let mut bits = [0u32; 64];
        let mut words = 0u32;
        for id in 1..1000 {
            for word in payload(5, Owner { table: 1, id, version: 0 }, 1984)[HEADER_BYTES..].chunks_exact(8) {
                words += 1;
                word.iter().for_each(|b| bytes[usize::from(*b)] += 1);
                let word = u64::from_le_bytes(word.try_into().unwrap());
                (0..64).for_each(|bit| bits[bit] += (word >> bit & 1) as u32);
            }
        }
        let mean = f64::from(words) * 8.0 / 256.0;
        assert!(bytes.iter().all(|n| (f64::from(*n) / mean - 1.0).abs() < 0.05), "{bytes:?}");
        assert!(bits.iter().all(|n| (f64::from(*n) / f64::from(words) - 0.5).abs() < 0.01), "{bits:?}");
    }

    #[test]
    fn the_wanted_share_of_a_payload_is_zero() {
        let mut out = vec![1; 1008];
        Payload::new(1, 40).fill(Owner { table: 0, id: 1, version: 0 }, &mut out);
        assert!(out[608..].iter().all(|b| *b == 0));
        assert!(out[592..608].iter().any(|b| *b != 0));
    }
}

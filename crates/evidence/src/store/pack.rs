//! Samples packed per minute.
//!
//! A block holds the samples of one source whose interval starts in one minute, one after another. Each is a row of
//! whole numbers in LEB128 (seven bits per byte, low bits first, the top bit set on all bytes but the last):
//! `t_ms` since the start of the minute, `interval_ms`, then the values.
//!
//! Invariants
//! 1. Appending samples to a block is appending their bytes, so a block grows in place while a run goes on.
//! 2. A block that does not decode to whole samples is an error, never a shorter series.

use results::IoTotals;

/// Length of a packed block of samples: a minute in ms.
pub const BLOCK_MS: u64 = 60_000;

/// The four values of a sample in the order in which a block stores them: count, bytes, sum and maximum of latency.
pub fn values(totals: IoTotals) -> [u64; 4] {
    [totals.count, totals.bytes, totals.latency_ns_sum, totals.latency_ns_max]
}

/// The sample with these stored values.
pub fn totals([count, bytes, latency_ns_sum, latency_ns_max]: [u64; 4]) -> IoTotals {
    IoTotals { count, bytes, latency_ns_sum, latency_ns_max }
}

/// Appends one sample to a block, as variable-length numbers: offset in the minute, length, values.
pub fn append(block: &mut Vec<u8>, t_ms: u64, interval_ms: u64, values: &[u64]) {
    append_number(block, t_ms % BLOCK_MS);
    append_number(block, interval_ms);
    for &value in values {
        append_number(block, value);
    }
}

fn append_number(block: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        block.push(number as u8 | 0x80);
        number >>= 7;
    }
    block.push(number as u8);
}

/// Unpacks a block into (`t_ms`, `interval_ms`, values) of each sample; `None` if it is damaged.
pub fn samples<const VALUES: usize>(minute: u64, block: &[u8]) -> Option<Vec<(u64, u64, [u64; VALUES])>> {
    let mut rest = block;
    let mut samples = Vec::new();
    while !rest.is_empty() {
        let t_ms = minute.checked_mul(BLOCK_MS)?.checked_add(number(&mut rest)?)?;
        let interval_ms = number(&mut rest)?;
        let mut values = [0; VALUES];
        for value in &mut values {
            *value = number(&mut rest)?;
        }
        samples.push((t_ms, interval_ms, values));
    }
    Some(samples)
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back_as_they_were_and_grow_by_appending() {
        let mut block = Vec::new();
        append(&mut block, 7 * BLOCK_MS + 59_999, 1_000, &[0, 1, 127, 128]);
        append(&mut block, 7 * BLOCK_MS, 15_000, &[u64::MAX, 1 << 35, 300, 0]);
        let back = samples::<4>(7, &block).unwrap();
        assert_eq!(back[0], (479_999, 1_000, [0, 1, 127, 128]));
        assert_eq!(back[1], (420_000, 15_000, [u64::MAX, 1 << 35, 300, 0]));
    }

    #[test]
    fn a_damaged_block_is_refused() {
        let mut block = Vec::new();
        append(&mut block, 1, 1_000, &[1, 2, 3, 4]);
        assert!(samples::<4>(0, &block[..block.len() - 1]).is_none(), "cut off");
        assert!(samples::<4>(0, &[0xff; 12]).is_none(), "a number of more than 64 bits");
        assert!(samples::<4>(u64::MAX, &block).is_none(), "a minute beyond all time");
    }
}

//! Differences between two byte strings of equal length, small when they are few or repetitive.
//!
//! Format: pieces in order, each `varint(gap) varint(len << 1 | fill)` and then `len` bytes, or the one byte
//! that fills; the last piece is followed by the end of the encoding.

use std::ops::Range;

use btree::{put_int, take_int};

/// Largest number of equal bytes between two differences that are put into one patch.
const BRIDGE_BYTES: usize = 4;
/// Largest number of different bytes in one step, so that a size limit is noticed early.
const STRETCH_BYTES: usize = 4096;
/// Length from which a run of equal bytes is stored as a fill.
const FILL_BYTES: usize = 16;

/// Appends patches that turn `base` into `wanted`. In the ranges `equal`, which ascend, both are known to be equal and
/// `base` is not read.
pub fn put_patches(base: &[u8], wanted: &[u8], equal: &[Range<usize>], out: &mut Vec<u8>) {
    put_patches_within(base, wanted, equal, usize::MAX, out).expect("no limit");
}

/// As `put_patches`; `None`, with a part of the patches in `out`, once `out` reaches `limit_bytes`.
pub fn put_patches_within(
    base: &[u8],
    wanted: &[u8],
    mut equal: &[Range<usize>],
    limit_bytes: usize,
    out: &mut Vec<u8>,
) -> Option<()> {
    debug_assert_eq!(base.len(), wanted.len());
    let mut next_difference = |from: usize| next_difference(base, wanted, &mut equal, from);
    let mut done = 0;
    let mut next = next_difference(0);
    while let Some(start) = next {
        let mut end = start + 1;
        next = next_difference(end);
        while end < start + STRETCH_BYTES
            && let Some(near) = next.filter(|next| *next <= end + BRIDGE_BYTES)
        {
            end = near + 1;
            next = next_difference(end);
        }
        let mut at = start;
        while at < end {
            let (len, fill) = piece(&wanted[at..end]);
            put_int(out, (at - done) as u64);
            put_int(out, (len as u64) << 1 | u64::from(fill));
            out.extend_from_slice(&wanted[at..at + if fill { 1 } else { len }]);
            at += len;
            done = at;
            if out.len() >= limit_bytes {
                return None;
            }
        }
    }
    Some(())
}

/// Applies patches to a page; `None` if `encoded` is not a sequence of patches.
pub fn apply_patches(mut patches: &[u8], page: &mut [u8]) -> Option<()> {
    let mut at = 0usize;
    while !patches.is_empty() {
        at = at.checked_add(usize::try_from(take_int(&mut patches)?).ok()?)?;
        let word = take_int(&mut patches)?;
        let len = usize::try_from(word >> 1).ok()?;
        let target = page.get_mut(at..at.checked_add(len)?)?;
        if word & 1 == 1 {
            let (byte, rest) = patches.split_first()?;
            target.fill(*byte);
            patches = rest;
        } else {
            let (bytes, rest) = patches.split_at_checked(len)?;
            target.copy_from_slice(bytes);
            patches = rest;
        }
        at += len;
    }
    Some(())
}

/// First piece of `bytes`: a fill, or the bytes before the next fill.
fn piece(bytes: &[u8]) -> (usize, bool) {
    let first = bytes.iter().take_while(|byte| **byte == bytes[0]).count();
    if first >= FILL_BYTES {
        return (first, true);
    }
    // A fill from `at` on has its byte at all places up to `at + FILL_BYTES`, and one that begins between them
    // at the last.
    let mut at = first;
    while let Some(window) = bytes.get(at..at + FILL_BYTES) {
        let last = window[FILL_BYTES - 1];
        match window.iter().rposition(|byte| *byte != last) {
            None => return (at, false),
            Some(other) => at += other + 1,
        }
    }
    (bytes.len(), false)
}

/// Lower bound of the size of patches on zeros for a page with these `bytes`, or a number above `limit_bytes`. Each
/// byte unlike the one before it is stored, or starts a fill or a gap; a piece has two more bytes.
pub fn least_plain_bytes(bytes: &[u8], limit_bytes: usize) -> usize {
    const STEP: usize = 1024;
    let mut least = 0;
    for at in (1..bytes.len()).step_by(STEP) {
        let end = (at + STEP).min(bytes.len());
        least += bytes[at..end].iter().zip(&bytes[at - 1..]).filter(|(byte, before)| byte != before).count();
        if least > limit_bytes {
            break;
        }
    }
    least
}

/// Next difference from `from` on. Removes the ranges of `equal` that end before it.
fn next_difference(
    base: &[u8],
    wanted: &[u8],
    equal: &mut &[Range<usize>],
    mut from: usize,
) -> Option<usize> {
    loop {
        while equal.first().is_some_and(|range| range.end <= from) {
            *equal = &equal[1..];
        }
        let until = match equal.first() {
            Some(range) if range.start <= from => {
                from = range.end;
                continue;
            }
            Some(range) => range.start,
            None => base.len(),
        };
        // Differences come in runs.
        if base.get(from)? != wanted.get(from)? {
            return Some(from);
        }
        from += equal_bytes(&base[from..until], &wanted[from..until]);
        if from < until {
            return Some(from);
        }
    }
}

/// Number of equal leading bytes of two strings of equal length.
pub fn equal_bytes(a: &[u8], b: &[u8]) -> usize {
    let large = equal_blocks::<1024>(a, b);
    let same = large + equal_blocks::<64>(&a[large..], &b[large..]);
    same + equal_bytes_by_words(&a[same..], &b[same..])
}

fn equal_bytes_by_words(a: &[u8], b: &[u8]) -> usize {
    let ((words, rest), (others, other_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut same = 0;
    for (word, other) in words.iter().zip(others) {
        let different = u64::from_le_bytes(*word) ^ u64::from_le_bytes(*other);
        if different != 0 {
            return same + different.trailing_zeros() as usize / 8;
        }
        same += 8;
    }
    same + rest.iter().zip(other_rest).take_while(|(a, b)| a == b).count()
}

/// Number of equal leading bytes, compared in whole blocks.
fn equal_blocks<const BLOCK: usize>(a: &[u8], b: &[u8]) -> usize {
    let ((a, _), (b, _)) = (a.as_chunks::<BLOCK>(), b.as_chunks::<BLOCK>());
    a.iter().zip(b).take_while(|(a, b)| a == b).count() * BLOCK
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn patches_turn_the_base_into_the_wanted_bytes(
            base in prop::collection::vec(any::<u8>(), 1..600),
            edits in prop::collection::vec((any::<prop::sample::Index>(), 1usize..80, any::<u8>(), any::<bool>()), 0..8),
            known in any::<prop::sample::Index>(),
        ) {
            let mut wanted = base.clone();
            for (at, len, byte, fill) in edits {
                let at = at.index(base.len());
                let end = (at + len).min(base.len());
                for (i, b) in wanted[at..end].iter_mut().enumerate() {
                    *b = if fill { byte } else { byte.wrapping_add(i as u8) };
                }
            }
            let mut patches = Vec::new();
            put_patches(&base, &wanted, &[], &mut patches);
            // What is known to be equal changes nothing, and what stands there does not matter.
            let known = known.index(base.len());
            let mut equal: Vec<_> = (known..base.len()).filter(|at| base[*at] == wanted[*at]).map(|at| at..at + 1).collect();
            equal.dedup_by(|next, last| last.end == next.start && last.len() < 30 && { last.end = next.end; true });
            let mut unclear = base.clone();
            for range in &equal {
                unclear[range.clone()].fill(0xEE);
            }
            let mut with_known = Vec::new();
            put_patches(&unclear, &wanted, &equal, &mut with_known);
            prop_assert_eq!(&with_known, &patches);
            let mut page = base.clone();
            prop_assert_eq!(apply_patches(&patches, &mut page), Some(()));
            prop_assert_eq!(page, wanted);
        }

        #[test]
        fn no_patches_on_zeros_are_shorter_than_is_said(
            runs in prop::collection::vec((any::<u8>(), 1usize..40, any::<bool>()), 1..200),
        ) {
            let run = |(byte, len, fill): (u8, usize, bool)| (0..len as u8).map(move |i| if fill { byte & 1 } else { byte.wrapping_add(i) });
            let page: Vec<u8> = runs.into_iter().flat_map(run).collect();
            let mut patches = Vec::new();
            put_patches(&vec![0; page.len()], &page, &[], &mut patches);
            let least = least_plain_bytes(&page, usize::MAX);
            prop_assert!(least <= patches.len(), "{least} {}", patches.len());
            prop_assert!(least_plain_bytes(&page, least) == least);
        }

        #[test]
        fn pieces_are_fills_and_what_is_between_them(
            runs in prop::collection::vec((any::<u8>(), 1usize..40), 1..60),
        ) {
            let bytes: Vec<u8> = runs.into_iter().flat_map(|(byte, len)| vec![byte; len]).collect();
            let fills = bytes.chunk_by(|a, b| a == b);
            let first = fills.clone().next().map_or(0, <[u8]>::len);
            let before_fill: usize = fills.map(<[u8]>::len).take_while(|len| *len < FILL_BYTES).sum();
            let wanted = if before_fill == 0 { (first, true) } else { (before_fill, false) };
            prop_assert_eq!(piece(&bytes), wanted);
        }

        #[test]
        fn equal_bytes_are_counted_up_to_the_first_other_one(
            mut a in prop::collection::vec(any::<u8>(), 1..3000), at in any::<prop::sample::Index>(),
        ) {
            let b = a.clone();
            prop_assert_eq!(equal_bytes(&a, &b), b.len());
            let at = at.index(b.len());
            a[at] ^= 1;
            prop_assert_eq!(equal_bytes(&a, &b), at);
        }

        #[test]
        fn garbage_is_no_patch_but_no_panic_either(garbage in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = apply_patches(&garbage, &mut [0; 64]);
        }
    }

    #[test]
    fn a_long_run_costs_a_few_bytes() {
        let mut patches = Vec::new();
        put_patches(&[0; 4096], &[7; 4096], &[], &mut patches);
        assert!(patches.len() < 6, "{patches:?}");
    }
}

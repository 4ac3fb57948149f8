//! Choice of the page prefix.

use std::ops::Range;

use super::{MIN_PREFIX_BYTES, PageRef};
use crate::bytes::common_prefix_len;

/// Prefix that makes nodes `slots` of `page` small; empty if none saves space.
///
/// For a prefix cut from a given key, a longer cut pays as long as a second key shares it; keys are sorted, so the
/// longest such cut is what the key shares with a neighbour. The keys at the quarters of the range are tried.
pub fn best_prefix(page: PageRef, slots: Range<usize>) -> Vec<u8> {
    let (mut best, mut best_saved) = (Vec::new(), 0);
    let (mut key, mut other) = (Vec::new(), Vec::new());
    for quarter in 1..4 {
        let slot = slots.start + slots.len() * quarter / 4;
        if slot >= slots.end {
            continue;
        }
        page.node(slot).copy_key_to(&mut key);
        let mut cut = 0;
        for neighbour in
            [slot.checked_sub(1), Some(slot + 1)].into_iter().flatten().filter(|s| slots.contains(s))
        {
            page.node(neighbour).copy_key_to(&mut other);
            cut = cut.max(common_prefix_len(&key, &other));
        }
        key.truncate(cut);
        let saved = bytes_saved(page, slots.clone(), &key);
        if saved > best_saved {
            (best, best_saved) = (key.clone(), saved);
        }
    }
    best
}

/// Bytes that `prefix` saves, less its own length.
fn bytes_saved(page: PageRef, slots: Range<usize>, prefix: &[u8]) -> usize {
    let per_node = slots.map(|slot| {
        let node = page.node(slot);
        let shared = super::prefix_taken(prefix, [node.prefix, node.suffix]);
        if shared >= MIN_PREFIX_BYTES { shared - 2 } else { 0 }
    });
    per_node.sum::<usize>().saturating_sub(prefix.len())
}

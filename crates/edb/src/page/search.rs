//! Finding a place among ordered nodes with few looks at them: nodes of a page that is not in the processor's cache are
//! slow to look at.

use std::cmp::Ordering;

/// Least number of nodes for which a guess helps; below, bisection is as good.
const GUESS_NODES_MIN: usize = 16;

/// Compares two short strings; for keys this is faster than a call of the library's comparison.
#[inline]
pub fn compare_keys(a: &[u8], b: &[u8]) -> Ordering {
    let shared = a.len().min(b.len());
    let (mut left, mut right) = (&a[..shared], &b[..shared]);
    while let (Some((x, rest_x)), Some((y, rest_y))) =
        (left.split_first_chunk::<8>(), right.split_first_chunk::<8>())
    {
        if x != y {
            return u64::from_be_bytes(*x).cmp(&u64::from_be_bytes(*y));
        }
        (left, right) = (rest_x, rest_y);
    }
    if let (Some((x, rest_x)), Some((y, rest_y))) =
        (left.split_first_chunk::<4>(), right.split_first_chunk::<4>())
    {
        if x != y {
            return u32::from_be_bytes(*x).cmp(&u32::from_be_bytes(*y));
        }
        (left, right) = (rest_x, rest_y);
    }
    let differing = left.iter().zip(right).find(|(x, y)| x != y);
    differing.map_or(a.len().cmp(&b.len()), |(x, y)| x.cmp(y))
}

/// First eight bytes of a key as a number with the same order.
#[inline]
pub fn key_head(key: &[u8]) -> u64 {
    if let Some(bytes) = key.first_chunk::<8>() {
        return u64::from_be_bytes(*bytes);
    }
    match (key.first_chunk::<4>(), key.last_chunk::<4>()) {
        // Bytes that are in both chunks come to the same place.
        (Some(first), Some(last)) => {
            u64::from(u32::from_be_bytes(*first)) << 32
                | u64::from(u32::from_be_bytes(*last)) << (8 * (8 - key.len()))
        }
        _ => (1..).zip(key).fold(0, |head, (n, byte)| head | u64::from(*byte) << (64 - 8 * n)),
    }
}

/// [`key_head`] of a key given in two parts.
#[inline]
pub(super) fn key_head_of_parts(first: &[u8], second: &[u8]) -> u64 {
    match first.len() {
        0 => key_head(second),
        1..8 => key_head(first) | key_head(second) >> (8 * first.len()),
        _ => key_head(first),
    }
}

/// Slot at which a key with head `wanted` would be among `count` nodes with evenly spread heads between `from` and
/// `to`. Only speed depends on it.
#[inline]
pub fn guess_slot(from: u64, to: u64, count: usize, wanted: u64) -> usize {
    let (span, distance) =
        (to.saturating_sub(from), wanted.saturating_sub(from).min(to.saturating_sub(from)));
    // So that the product does not overflow: slots are far fewer than 2^16.
    let shift = 16u32.saturating_sub(span.leading_zeros());
    let (span, distance) = (span >> shift, distance >> shift);
    ((distance * (count as u64 - 1) + span / 2) / span.max(1)) as usize
}

/// Galloping search in `count` ordered nodes by `compare`, which compares a node with the wanted key: probes `guess`
/// if there are many, then doubles the step until it has passed the key, then bisects.
///
/// # Errors
/// The slot where what is wanted belongs.
#[inline(always)]
pub fn search_nodes(
    count: usize,
    guess: impl FnOnce() -> usize,
    compare: impl Fn(usize) -> Ordering,
) -> Result<usize, usize> {
    let (mut low, mut high) = (0, count);
    let (mut next, mut step) = match count {
        0 => return Err(0),
        GUESS_NODES_MIN.. => (guess().min(count - 1), 1),
        _ => (count / 2, count),
    };
    while low < high {
        match compare(next) {
            Ordering::Equal => return Ok(next),
            Ordering::Less => (low, next) = (next + 1, next + step),
            Ordering::Greater => (high, next) = (next, next.saturating_sub(step)),
        }
        step *= 2;
        if next < low || next >= high || step >= high - low {
            next = (low + high) / 2;
        }
    }
    Err(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    proptest! {
        #[test]
        fn keys_compare_as_slices_do(
            a in prop::collection::vec(0u8..3, 0..30),
            b in prop::collection::vec(0u8..3, 0..30),
            cut in 0usize..30,
        ) {
            prop_assert_eq!(compare_keys(&a, &b), a.cmp(&b));
            // Long common beginnings, too.
            let cut = &a[..cut.min(a.len())];
            prop_assert_eq!(compare_keys(&a, cut), a[..].cmp(cut));
        }

        #[test]
        fn any_guess_finds_the_place(
            keys in prop::collection::btree_set(any::<u16>(), 0..300),
            wanted: u16,
            guess: usize,
        ) {
            let keys: Vec<u16> = keys.into_iter().collect();
            let found = search_nodes(keys.len(), || guess, |slot| keys[slot].cmp(&wanted));
            prop_assert_eq!(found, keys.binary_search(&wanted));
        }

        #[test]
        fn a_guess_is_a_slot(
            first in prop::collection::vec(any::<u8>(), 0..12),
            last in prop::collection::vec(any::<u8>(), 0..12),
            key in prop::collection::vec(any::<u8>(), 0..12),
            count in 1usize..5000,
        ) {
            prop_assert!(guess_slot(key_head(&first), key_head(&last), count, key_head(&key)) < count);
        }

        #[test]
        fn the_head_of_a_key_is_its_first_eight_bytes(
            key in prop::collection::vec(any::<u8>(), 0..12),
            cut in 0usize..12,
        ) {
            let mut bytes = [0; 8];
            key.iter().zip(&mut bytes).for_each(|(from, to)| *to = *from);
            prop_assert_eq!(key_head(&key), u64::from_be_bytes(bytes));
            let (first, second) = key.split_at(cut.min(key.len()));
            prop_assert_eq!(key_head_of_parts(first, second), u64::from_be_bytes(bytes));
        }
    }

    #[test]
    fn even_keys_take_two_looks() {
        let keys: Vec<[u8; 9]> = (0..1300u64)
            .map(|n| {
                let mut key = [0x7F; 9];
                key[1..].copy_from_slice(&(n * 11_000_000_000_000_000).to_be_bytes());
                key
            })
            .collect();
        for wanted in 0..1300 {
            let looks = Cell::new(0);
            let guess =
                || guess_slot(key_head(&keys[0]), key_head(&keys[1299]), 1300, key_head(&keys[wanted]));
            let found = search_nodes(1300, guess, |slot| {
                looks.set(looks.get() + 1);
                compare_keys(&keys[slot], &keys[wanted])
            });
            assert_eq!(found, Ok(wanted));
            assert!(looks.get() <= 2, "{} looks for {wanted}", looks.get());
        }
    }
}

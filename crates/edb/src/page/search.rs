//! Finding a place among ordered nodes with few looks at them: nodes of a page that is not in the processor's cache are
//! slow to look at.

use std::cmp::Ordering;

/// Among fewer nodes halving is as good.
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

/// The first eight bytes of a key given in two parts, as a number that is ordered as they are.
#[inline]
fn head(first: &[u8], second: &[u8]) -> u64 {
    if let (true, Some(bytes)) = (first.is_empty(), second.first_chunk::<8>()) {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(first.iter().chain(second)) {
        *to = *from;
    }
    u64::from_be_bytes(bytes)
}

/// Where among `count` nodes a key stands if keys are spread evenly. Keys are given in two parts; only speed
/// depends on the answer.
#[inline]
pub fn guess_slot(first: [&[u8]; 2], last: [&[u8]; 2], count: usize, key: &[u8]) -> usize {
    let [from, to, wanted] = [head(first[0], first[1]), head(last[0], last[1]), head(&[], key)];
    let (span, distance) =
        (to.saturating_sub(from), wanted.saturating_sub(from).min(to.saturating_sub(from)));
    // So that the product does not overflow: slots are far fewer than 2^16.
    let shift = 16u32.saturating_sub(span.leading_zeros());
    let (span, distance) = (span >> shift, distance >> shift);
    ((distance * (count as u64 - 1) + span / 2) / span.max(1)) as usize
}

/// Searches `count` ordered nodes with `compare`, which says how a node stands to what is wanted: first at
/// `guess` if there are many, then around there in growing steps, and halves what remains.
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
            prop_assert!(guess_slot([&[], &first], [&[], &last], count, &key) < count);
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
            let guess = || guess_slot([&[], &keys[0]], [&[], &keys[1299]], 1300, &keys[wanted]);
            let found = search_nodes(1300, guess, |slot| {
                looks.set(looks.get() + 1);
                compare_keys(&keys[slot], &keys[wanted])
            });
            assert_eq!(found, Ok(wanted));
            assert!(looks.get() <= 2, "{} looks for {wanted}", looks.get());
        }
    }
}

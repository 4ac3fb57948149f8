//! Normalised keys: column values as bytes whose order is the order of the values.
//!
//! Invariants
//! 1. For two values of one type, comparing segments as bytes compares the values; null comes first.
//! 2. No segment is a proper prefix of another one of its column, so segments concatenate.
//!
//! Limits: the types that keys of the catalog have, in ascending order and never null. Text is compared as
//! ASCII without case; Unicode text has no key here (it needs the sort tables of an operating system). Keys are
//! not cut to a maximum length.

const EMPTY: u8 = 0x40;
const VALUE: u8 = 0x7F;
const PIECE_BYTES: usize = 8;
const PIECE_FOLLOWS: u8 = 9;

/// Appends the key segment of a bit.
pub fn push_bit(out: &mut Vec<u8>, value: bool) {
    out.extend_from_slice(&[VALUE, if value { 0xFF } else { 0 }]);
}

/// Appends the key segment of a signed 16-bit number.
pub fn push_i16(out: &mut Vec<u8>, value: i16) {
    out.push(VALUE);
    out.extend_from_slice(&(value ^ i16::MIN).to_be_bytes());
}

/// Appends the key segment of a signed 32-bit number.
pub fn push_i32(out: &mut Vec<u8>, value: i32) {
    out.push(VALUE);
    out.extend_from_slice(&(value ^ i32::MIN).to_be_bytes());
}

/// Appends the key segment of text.
pub fn push_text(out: &mut Vec<u8>, value: &str) {
    if value.is_empty() {
        return out.push(EMPTY);
    }
    out.push(VALUE);
    out.extend(value.bytes().map(|byte| byte.to_ascii_uppercase()));
    out.push(0);
}

/// Appends the key segment of bytes in pieces of eight. The byte behind each piece says whether another follows, or
/// how much of this one counts.
pub fn push_bytes(out: &mut Vec<u8>, value: &[u8]) {
    if value.is_empty() {
        return out.push(EMPTY);
    }
    out.push(VALUE);
    let last = (value.len() - 1) / PIECE_BYTES;
    for (i, piece) in value.chunks(PIECE_BYTES).enumerate() {
        out.extend_from_slice(piece);
        out.resize(out.len() + PIECE_BYTES - piece.len(), 0);
        out.push(if i < last { PIECE_FOLLOWS } else { piece.len() as u8 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn segment(push: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        push(&mut out);
        out
    }

    proptest! {
        #[test]
        fn keys_order_like_integers(a: i32, b: i32) {
            let key = |v: i32| segment(|out| push_i32(out, v));
            prop_assert_eq!(key(a).cmp(&key(b)), a.cmp(&b));
            let key = |v: i32| segment(|out| push_i16(out, v as i16));
            prop_assert_eq!(key(a).cmp(&key(b)), (a as i16).cmp(&(b as i16)));
        }

        #[test]
        fn keys_order_like_bytes_and_none_is_a_prefix_of_another(
            a in prop::collection::vec(0u8..3, 0..30),
            b in prop::collection::vec(0u8..3, 0..30),
        ) {
            let key = |v: &[u8]| segment(|out| push_bytes(out, v));
            prop_assert_eq!(key(&a).cmp(&key(&b)), a.cmp(&b));
            prop_assert!(a == b || !key(&a).starts_with(&key(&b)));
        }
    }

    #[test]
    fn segments_are_those_of_the_genuine_engine() {
        assert_eq!(segment(|out| push_i32(out, 1)), [0x7F, 0x80, 0, 0, 1]);
        assert_eq!(segment(|out| push_bit(out, true)), [0x7F, 0xFF]);
        assert_eq!(segment(|out| push_text(out, "aB1")), *b"\x7FAB1\0");
        assert_eq!(segment(|out| push_text(out, "")), [0x40]);
        assert_eq!(segment(|out| push_bytes(out, b"12345678")), *b"\x7F12345678\x08");
        assert_eq!(segment(|out| push_bytes(out, b"123456789")), *b"\x7F12345678\x099\0\0\0\0\0\0\0\x01");
    }
}

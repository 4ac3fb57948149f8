//! Normalised keys: column values as bytes whose order is the order of the values.
//!
//! Invariants
//! 1. For two values of one type, comparing segments as bytes compares the values; null comes first.
//! 2. No segment is a proper prefix of another one of its column, so segments concatenate.
//!
//! Limits: text is compared as ASCII without case; Unicode text has no key here (it needs the sort tables of an
//! operating system). Keys are not cut to a maximum length.

use crate::column::ColumnType;

const NULL: u8 = 0x00;
const EMPTY: u8 = 0x40;
const VALUE: u8 = 0x7F;
const PIECE_BYTES: usize = 8;
const PIECE_FOLLOWS: u8 = 9;
/// Order in which the bytes of a GUID are compared.
const GUID_ORDER: [usize; 16] = [10, 11, 12, 13, 14, 15, 8, 9, 6, 7, 4, 5, 0, 1, 2, 3];

/// Appends the segment of a value as it is stored in a record; `None` is null. A value of a fixed type has the length
/// of its type, or what is missing counts as zero.
pub fn push_segment(out: &mut Vec<u8>, kind: ColumnType, value: Option<&[u8]>) {
    let Some(value) = value else {
        out.push(NULL);
        return;
    };
    if value.is_empty() && kind.fixed_bytes().is_none() {
        out.push(EMPTY);
        return;
    }
    out.push(VALUE);
    match kind {
        ColumnType::Bit => out.push(if value.iter().all(|byte| *byte == 0) { 0 } else { 0xFF }),
        ColumnType::U8 | ColumnType::U16 | ColumnType::U32 => push_number(out, kind, value, Sign::None),
        ColumnType::I16 | ColumnType::I32 | ColumnType::Currency | ColumnType::I64 => {
            push_number(out, kind, value, Sign::TwosComplement);
        }
        ColumnType::F32 | ColumnType::F64 | ColumnType::DateTime => {
            push_number(out, kind, value, Sign::Float)
        }
        ColumnType::Guid => out.extend(GUID_ORDER.iter().map(|&i| value.get(i).copied().unwrap_or(0))),
        ColumnType::Text | ColumnType::LongText => {
            out.extend(value.iter().map(u8::to_ascii_uppercase));
            out.push(0);
        }
        ColumnType::Binary | ColumnType::LongBinary => push_pieces(out, value),
    }
}

/// As [`push_segment`], for a column in descending order.
pub fn push_descending(out: &mut Vec<u8>, kind: ColumnType, value: Option<&[u8]>) {
    let start = out.len();
    push_segment(out, kind, value);
    out[start..].iter_mut().for_each(|byte| *byte = !*byte);
}

/// How a number shows its sign.
enum Sign {
    None,
    TwosComplement,
    Float,
}

/// Big-endian, so that the bytes order like the numbers.
fn push_number(out: &mut Vec<u8>, kind: ColumnType, value: &[u8], sign: Sign) {
    let start = out.len();
    let bytes = kind.fixed_bytes().unwrap_or(0);
    out.extend((0..bytes).rev().map(|i| value.get(i).copied().unwrap_or(0)));
    let negative = out[start] & 0x80 != 0;
    match sign {
        Sign::None => {}
        Sign::Float if negative => out[start..].iter_mut().for_each(|byte| *byte = !*byte),
        Sign::TwosComplement | Sign::Float => out[start] ^= 0x80,
    }
}

/// Pieces of eight bytes; the byte behind each says whether another one follows or how much of this one counts.
fn push_pieces(out: &mut Vec<u8>, value: &[u8]) {
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

    fn segment(kind: ColumnType, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        push_segment(&mut out, kind, Some(value));
        out
    }

    proptest! {
        #[test]
        fn keys_order_like_integers(a: i64, b: i64) {
            for (kind, bytes) in [(ColumnType::I64, 8), (ColumnType::I32, 4), (ColumnType::I16, 2)] {
                let cut = |v: i64| v << (64 - 8 * bytes) >> (64 - 8 * bytes);
                let key = |v: i64| segment(kind, &v.to_le_bytes()[..bytes]);
                prop_assert_eq!(key(a).cmp(&key(b)), cut(a).cmp(&cut(b)));
            }
            let unsigned = |v: i64| segment(ColumnType::U32, &(v as u32).to_le_bytes());
            prop_assert_eq!(unsigned(a).cmp(&unsigned(b)), (a as u32).cmp(&(b as u32)));
        }

        #[test]
        fn keys_order_like_floats(a in -1e300f64..1e300, b in -1e300f64..1e300) {
            let key = |v: f64| segment(ColumnType::F64, &v.to_le_bytes());
            prop_assert_eq!(key(a).partial_cmp(&key(b)), a.partial_cmp(&b));
        }

        #[test]
        fn keys_order_like_bytes_and_none_is_a_prefix_of_another(
            a in prop::collection::vec(0u8..3, 0..30),
            b in prop::collection::vec(0u8..3, 0..30),
        ) {
            let key = |v: &[u8]| segment(ColumnType::Binary, v);
            prop_assert_eq!(key(&a).cmp(&key(&b)), a.cmp(&b));
            prop_assert!(a == b || !key(&a).starts_with(&key(&b)));
            let mut descending = [Vec::new(), Vec::new()];
            push_descending(&mut descending[0], ColumnType::Binary, Some(&a));
            push_descending(&mut descending[1], ColumnType::Binary, Some(&b));
            prop_assert_eq!(descending[0].cmp(&descending[1]), b.cmp(&a));
        }
    }

    #[test]
    fn known_segments() {
        assert_eq!(segment(ColumnType::I32, &1i32.to_le_bytes()), [0x7F, 0x80, 0, 0, 1]);
        assert_eq!(segment(ColumnType::Bit, &[0xFF]), [0x7F, 0xFF]);
        assert_eq!(segment(ColumnType::Text, b"aB1"), *b"\x7FAB1\0");
        assert_eq!(segment(ColumnType::Text, b""), [0x40]);
        assert_eq!(segment(ColumnType::Binary, b"12345678"), *b"\x7F12345678\x08");
        assert_eq!(segment(ColumnType::Binary, b"123456789"), *b"\x7F12345678\x099\0\0\0\0\0\0\0\x01");
        let guid: [u8; 16] = std::array::from_fn(|i| i as u8);
        assert_eq!(
            segment(ColumnType::Guid, &guid)[1..],
            [10, 11, 12, 13, 14, 15, 8, 9, 6, 7, 4, 5, 0, 1, 2, 3]
        );
        let mut null = Vec::new();
        push_segment(&mut null, ColumnType::I32, None);
        assert_eq!(null, [0]);
    }
}

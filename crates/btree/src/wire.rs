//! Compact encoding: LEB128 integers, strings of bytes behind their length. Reading answers `None` instead of
//! panicking, for all bytes.

/// Appends an unsigned number, seven bits per byte, low bits first.
pub fn put_int(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a number off the front of `from`; `None` if it is cut off or is above 64 bits.
pub fn take_int(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        let bits = u64::from(byte & 0x7F);
        // The tenth byte has room for one bit: what would be shifted out is no part of a number.
        if bits << shift >> shift != bits {
            return None;
        }
        value |= bits << shift;
        if *byte < 0x80 {
            return Some(value);
        }
    }
    None
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_int(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reader over the rest of an encoded record.
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub fn int(&mut self) -> Option<u64> {
        take_int(&mut self.0)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.int()?.try_into().ok()
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.int()?.try_into().ok()
    }

    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.int()?).ok()?;
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_those_above_64_bits_are_refused() {
        for value in [0, 1, 0x7F, 0x80, 1 << 32, u64::MAX >> 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_int(&mut bytes, value);
            assert_eq!(take_int(&mut &bytes[..]), Some(value));
            assert_eq!(take_int(&mut &bytes[..bytes.len() - 1]), None, "cut off");
        }
        let nine = [0x80; 9];
        assert_eq!(take_int(&mut &[&nine[..], &[1]].concat()[..]), Some(1 << 63));
        for tenth in [2, 0x7F, 0x81] {
            assert_eq!(take_int(&mut &[&nine[..], &[tenth]].concat()[..]), None, "{tenth:#x}");
        }
    }
}

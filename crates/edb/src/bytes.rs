//! Little-endian fields at fixed offsets. An offset outside the slice is a programming error and panics, so callers
//! pass slices whose length they have checked.

macro_rules! field {
    ($get:ident, $put:ident, $type:ty) => {
        #[inline(always)]
        pub(crate) fn $get(bytes: &[u8], at: usize) -> $type {
            let mut raw = [0u8; size_of::<$type>()];
            raw.copy_from_slice(&bytes[at..at + size_of::<$type>()]);
            <$type>::from_le_bytes(raw)
        }

        #[inline(always)]
        pub(crate) fn $put(bytes: &mut [u8], at: usize, value: $type) {
            bytes[at..at + size_of::<$type>()].copy_from_slice(&value.to_le_bytes());
        }
    };
}

field!(get_u16, put_u16, u16);
field!(get_u32, put_u32, u32);
field!(get_u64, put_u64, u64);

/// Whether all bytes are zero; in blocks, which the processor compares at once.
pub fn is_zero(bytes: &[u8]) -> bool {
    const BLOCK: usize = 64;
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    blocks.iter().all(|block| *block == [0; BLOCK]) && rest.iter().all(|byte| *byte == 0)
}

/// Length of the common prefix of `a` and `b`.
#[inline]
pub(crate) fn common_prefix_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

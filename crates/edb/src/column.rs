//! Column types and the ranges of column ids.

/// First column id of variable columns.
pub const FIRST_VARIABLE: u16 = 128;
/// First column id of tagged columns.
pub const FIRST_TAGGED: u16 = 256;

/// Type of a column; the numbers are those of the catalog. Values are handled as they are stored: little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ColumnType {
    /// Boolean: 0xFF or 0.
    Bit = 1,
    /// Unsigned, 8 bits.
    U8 = 2,
    /// Signed, 16 bits.
    I16 = 3,
    /// Signed, 32 bits.
    I32 = 4,
    /// Signed, 64 bits, counted in 1/10000.
    Currency = 5,
    /// Float, 32 bits.
    F32 = 6,
    /// Float, 64 bits.
    F64 = 7,
    /// Days since the end of 1899 as a float.
    DateTime = 8,
    /// Up to 255 bytes.
    Binary = 9,
    /// Up to 255 bytes of text.
    Text = 10,
    /// Bytes without a limit, kept in the record or apart.
    LongBinary = 11,
    /// Text without a limit, kept in the record or apart.
    LongText = 12,
    /// Unsigned, 32 bits.
    U32 = 14,
    /// Signed, 64 bits.
    I64 = 15,
    /// 16 bytes.
    Guid = 16,
    /// Unsigned, 16 bits.
    U16 = 17,
}

impl ColumnType {
    /// Size of the type's values, bytes, if all have the same.
    pub fn fixed_bytes(self) -> Option<usize> {
        use ColumnType::*;
        Some(match self {
            Bit | U8 => 1,
            I16 | U16 => 2,
            I32 | U32 | F32 => 4,
            Currency | F64 | DateTime | I64 => 8,
            Guid => 16,
            Binary | Text | LongBinary | LongText => return None,
        })
    }

    /// Whether values of the type may be long values.
    pub fn is_long(self) -> bool {
        matches!(self, ColumnType::LongBinary | ColumnType::LongText)
    }

    /// Whether values of the type are text.
    pub fn is_text(self) -> bool {
        matches!(self, ColumnType::Text | ColumnType::LongText)
    }
}

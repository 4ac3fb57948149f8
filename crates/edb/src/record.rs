//! Table records: fixed, variable and tagged columns.
//!
//! Invariants
//! 1. Reading what `encode` wrote gives the same values, columns that were left out being null.
//! 2. Reading answers `None` for a column that lies outside its record, for all bytes.
//!
//! Limits: a record is at most 32 KiB; one value per column (no multi-values, no compression). Tagged columns
//! are written and not read: nothing that Proofload reads back lies in one.

use crate::bytes::{get_u16, put_u16};
use crate::column::{ColumnType, FIRST_TAGGED, FIRST_VARIABLE};
use crate::page::is_large;

const HEAD_BYTES: usize = 4;
const LAST_FIXED: u8 = 127;
const NULL_VARIABLE: u16 = 0x8000;
const TAGGED_ENTRY_BYTES: usize = 4;
const SMALL_HEADER_PRESENT: u16 = 0x4000;

/// Header bit of a tagged value of a long type.
pub const LONG_TYPE: u8 = 1;

/// Value of a column that is not null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// Column id.
    pub id: u16,
    /// Stored value; of fixed columns with the size of their type.
    pub value: &'a [u8],
    /// [`LONG_TYPE`], or 0; always 0 for fixed and variable columns.
    pub flags: u8,
}

/// Encodes a record. `fixed`: types of the table's fixed columns by id from 1 on; `fields`: values in ascending order
/// of ids.
///
/// # Panics
/// If a fixed value has another size than its type, or `fields` do not ascend.
pub fn encode(fixed: &[ColumnType], fields: &[Field], page_bytes: usize) -> Vec<u8> {
    assert!(fields.is_sorted_by_key(|field| field.id), "fields in another order than their ids");
    let (fixed_fields, rest) = fields.split_at(fields.partition_point(|field| field.id < FIRST_VARIABLE));
    let (variable, tagged) = rest.split_at(rest.partition_point(|field| field.id < FIRST_TAGGED));
    let last_fixed = fixed_fields.last().map_or(0, |field| usize::from(field.id));
    let last_variable = variable.last().map_or(LAST_FIXED, |field| field.id as u8);
    let mut out = vec![last_fixed as u8, last_variable, 0, 0];
    push_fixed(&mut out, &fixed[..last_fixed], fixed_fields);
    let fixed_end = out.len() as u16;
    put_u16(&mut out, 2, fixed_end);
    push_variable(&mut out, usize::from(last_variable - LAST_FIXED), variable);
    push_tagged(&mut out, tagged, is_large(page_bytes));
    out
}

fn push_fixed(out: &mut Vec<u8>, types: &[ColumnType], fields: &[Field]) {
    // Bits of columns that do not exist are set too.
    let mut nulls = vec![0xFFu8; types.len().div_ceil(8)];
    for (i, kind) in types.iter().enumerate() {
        let bytes = kind.fixed_bytes().unwrap_or(0);
        match fields.iter().find(|field| usize::from(field.id) == i + 1) {
            Some(field) => {
                assert_eq!(field.value.len(), bytes, "value of fixed column {}", field.id);
                out.extend_from_slice(field.value);
                nulls[i / 8] &= !(1 << (i % 8));
            }
            None => out.resize(out.len() + bytes, 0),
        }
    }
    out.extend_from_slice(&nulls);
}

fn push_variable(out: &mut Vec<u8>, columns: usize, fields: &[Field]) {
    let mut end = 0;
    for id in (FIRST_VARIABLE..).take(columns) {
        let value = fields.iter().find(|field| field.id == id).map(|field| field.value);
        end += value.map_or(0, <[u8]>::len) as u16;
        let null = if value.is_some() { 0 } else { NULL_VARIABLE };
        out.extend_from_slice(&(end | null).to_le_bytes());
    }
    fields.iter().for_each(|field| out.extend_from_slice(field.value));
}

fn push_tagged(out: &mut Vec<u8>, fields: &[Field], large: bool) {
    let has_header = |field: &Field| large || field.flags != 0;
    let mut offset = TAGGED_ENTRY_BYTES * fields.len();
    for field in fields {
        let mark = if has_header(field) && !large { SMALL_HEADER_PRESENT } else { 0 };
        out.extend_from_slice(&field.id.to_le_bytes());
        out.extend_from_slice(&(offset as u16 | mark).to_le_bytes());
        offset += usize::from(has_header(field)) + field.value.len();
    }
    for field in fields {
        if has_header(field) {
            out.push(field.flags);
        }
        out.extend_from_slice(field.value);
    }
}

/// Record for reading.
#[derive(Clone, Copy)]
pub struct RecordRef<'a> {
    bytes: &'a [u8],
}

impl<'a> RecordRef<'a> {
    /// Opens the record in the data of a node.
    pub fn new(bytes: &'a [u8]) -> RecordRef<'a> {
        RecordRef { bytes }
    }

    fn word(&self, at: usize) -> Option<u16> {
        (at + 2 <= self.bytes.len()).then(|| get_u16(self.bytes, at))
    }

    fn fixed_end(&self) -> Option<usize> {
        self.word(2).map(usize::from)
    }

    /// Value of fixed column `id` at `offset` from the record's start; `None` if null.
    pub fn fixed(&self, id: u16, offset: usize, bytes: usize) -> Option<&'a [u8]> {
        let last = u16::from(*self.bytes.first()?);
        if id == 0 || id > last {
            return None;
        }
        let end = self.fixed_end()?;
        let bit = usize::from(id) - 1;
        let nulls = end.checked_sub(usize::from(last).div_ceil(8))?;
        let is_null = self.bytes.get(nulls + bit / 8)? >> (bit % 8) & 1 == 1;
        if is_null || offset < HEAD_BYTES { None } else { self.bytes.get(offset..offset + bytes) }
    }

    fn variable_columns(&self) -> Option<usize> {
        Some(usize::from(self.bytes.get(1)?.checked_sub(LAST_FIXED)?))
    }

    /// Value of variable column `id`; `None` if null.
    pub fn variable(&self, id: u16) -> Option<&'a [u8]> {
        let columns = self.variable_columns()?;
        let index = usize::from(id.checked_sub(FIRST_VARIABLE)?);
        if index >= columns {
            return None;
        }
        let table = self.fixed_end()?;
        let end = self.word(table + 2 * index)?;
        let start = if index == 0 { 0 } else { self.word(table + 2 * (index - 1))? & !NULL_VARIABLE };
        let data = table + 2 * columns;
        if end & NULL_VARIABLE != 0 {
            None
        } else {
            self.bytes.get(data + usize::from(start)..data + usize::from(end))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Value of tagged column `id` with its header bits; `None` if it is not there.
    fn tagged(record: &[u8], id: u16, large: bool) -> Option<(u8, &[u8])> {
        let mask: u16 = if large { 0x7FFF } else { 0x1FFF };
        let columns = usize::from(record[1] - LAST_FIXED);
        let table = usize::from(get_u16(record, 2));
        let used = match columns {
            0 => 0,
            n => get_u16(record, table + 2 * (n - 1)) & !NULL_VARIABLE,
        };
        let area = &record[table + 2 * columns + usize::from(used)..];
        let entry = |i: usize| (get_u16(area, 4 * i), get_u16(area, 4 * i + 2));
        let count = if area.is_empty() { 0 } else { usize::from(entry(0).1 & mask) / TAGGED_ENTRY_BYTES };
        let index = (0..count).find(|i| entry(*i).0 == id)?;
        let end = if index + 1 < count { usize::from(entry(index + 1).1 & mask) } else { area.len() };
        let value = &area[usize::from(entry(index).1 & mask)..end];
        let has_header = large || entry(index).1 & SMALL_HEADER_PRESENT != 0;
        Some(if has_header { (value[0], &value[1..]) } else { (0, value) })
    }

    const FIXED: [ColumnType; 9] = [
        ColumnType::I32,
        ColumnType::U8,
        ColumnType::I64,
        ColumnType::Guid,
        ColumnType::I16,
        ColumnType::Bit,
        ColumnType::F64,
        ColumnType::U32,
        ColumnType::U16,
    ];

    proptest! {
        #[test]
        fn a_record_gives_back_its_values(
            page_bytes in prop::sample::select(vec![4096usize, 8192, 16384, 32768]),
            fixed in prop::collection::btree_set(1u16..10, 0..10),
            variable in prop::collection::btree_map(128u16..140, prop::collection::vec(any::<u8>(), 0..50), 0..8),
            columns in prop::collection::btree_map(
                256u16..300,
                (prop::collection::vec(any::<u8>(), 0..50), prop::sample::select(vec![0, LONG_TYPE])),
                0..8,
            ),
        ) {
            let offset = |id: u16| 4 + FIXED[..usize::from(id) - 1].iter().map(|k| k.fixed_bytes().unwrap()).sum::<usize>();
            let bytes = |id: u16| FIXED[usize::from(id) - 1].fixed_bytes().unwrap();
            let values: Vec<(u16, Vec<u8>)> = fixed.iter().map(|id| (*id, vec![*id as u8 | 0x80; bytes(*id)])).collect();
            let mut fields: Vec<Field> =
                values.iter().map(|(id, value)| Field { id: *id, value, flags: 0 }).collect();
            fields.extend(variable.iter().map(|(id, value)| Field { id: *id, value, flags: 0 }));
            fields.extend(columns.iter().map(|(id, (value, flags))| Field { id: *id, value, flags: *flags }));
            let encoded = encode(&FIXED, &fields, page_bytes);
            let record = RecordRef::new(&encoded);
            for (id, kind) in (1..).zip(&FIXED) {
                let expected = values.iter().find(|value| value.0 == id).map(|value| &value.1[..]);
                prop_assert_eq!(record.fixed(id, offset(id), kind.fixed_bytes().unwrap()), expected);
            }
            for id in 128..140 {
                prop_assert_eq!(record.variable(id), variable.get(&id).map(|value| &value[..]));
            }
            for id in 256..300 {
                let expected = columns.get(&id).map(|(value, flags)| (*flags, &value[..]));
                prop_assert_eq!(tagged(&encoded, id, page_bytes > 8192), expected);
            }
        }

        #[test]
        fn no_bytes_make_reading_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let record = RecordRef::new(&bytes);
            for id in [0, 1, 7, 120, 128, 129, 200, 256, 257, 0x8000, u16::MAX] {
                let _ = (record.fixed(id, 4, 4), record.variable(id));
            }
        }
    }
}

//! The header page of a new database: clean state, format 1568.20, signature and times from the seed.
//!
//! Invariants
//! 1. All fields that a clean database does not use are zero, and so is everything from byte 668 on: readers of others
//!    leave those bytes out of the checksum.
//!
//! Limits: the file must be attached to a log stream before it is written.

use edb::checksum::{MAGIC, stamp_header};

use crate::payload::mix;
use crate::schema::DatabaseShape;

const FORMAT_VERSION: u32 = 0x620;
const FORMAT_UPDATE: u32 = 20;
const CLEAN: u32 = 3;
/// System version in the header: Windows Server 2012. Readers show it, and nothing depends on it.
const SYSTEM_VERSION: [u32; 3] = [6, 2, 9200];
const FILE_TYPE_DATABASE: u32 = 1;
const FILE_TYPE_AT: usize = 667;

/// Builds the header page of a database of this shape with its highest dbtime and object id.
pub(super) fn header_page(shape: &DatabaseShape, dbtime: u64, last_objid: u32) -> Box<[u8]> {
    let mut page = vec![0; shape.page_bytes as usize].into_boxed_slice();
    let mut put = |at: usize, value: u32| page[at..at + 4].copy_from_slice(&value.to_le_bytes());
    put(4, MAGIC);
    put(8, FORMAT_VERSION);
    put(16, dbtime as u32);
    put(20, (dbtime >> 32) as u32);
    put(24, mix(shape.seed ^ u64::from(shape.rows)) as u32);
    put(52, CLEAN);
    put(104, 1);
    put(212, last_objid);
    for (at, value) in [216, 220, 224].into_iter().zip(SYSTEM_VERSION) {
        put(at, value);
    }
    put(232, FORMAT_UPDATE);
    put(236, shape.page_bytes);
    put(340, FORMAT_VERSION);
    put(344, FORMAT_UPDATE);
    // The table of locales exists.
    put(508, u32::MAX);
    put(512, u32::MAX);
    put(FILE_TYPE_AT, FILE_TYPE_DATABASE);
    // Creation, last consistent, attached, detached.
    for at in [28, 64, 72, 88] {
        page[at..at + 8].copy_from_slice(&creation_time(shape.seed));
    }
    stamp_header(&mut page);
    page
}

/// Fixed creation time in January 2020: second, minute, hour, day, month, year - 1900, UTC flag, milliseconds.
/// Template databases depend on their shape alone, so no clock is read.
fn creation_time(seed: u64) -> [u8; 8] {
    let pick = |shift: u32, values: u64| ((seed >> shift) % values) as u8;
    [pick(0, 60), pick(8, 60), pick(16, 24), 1 + pick(24, 28), 1, 120, 1, 0]
}

//! The ESE database file format as pure functions over byte slices: no I/O, no clock, no threads.
//!
//! Format level 1568.20 (every reader knows it), page sizes 4, 8, 16 and 32 KiB.

mod bytes;
pub mod catalog;
pub mod checkpoint;
pub mod checksum;
pub mod column;
pub mod flush_map;
pub mod header;
pub mod identity;
pub mod key;
pub mod log;
pub mod meta_cache;
pub mod page;
pub mod record;
pub mod verify;

pub use bytes::is_zero;

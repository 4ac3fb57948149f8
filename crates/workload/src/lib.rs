//! The load: what is in a database, what a batch does to it, and how batches are paced.
//!
//! [`schema`] says what every entry of a database is, [`template`] what every page of a new database is,
//! [`codec`] keeps pages in small space with the help of both. The reasons for the numbers: docs/schema.md.

pub mod codec;
pub mod crash_test;
pub mod mix;
pub mod payload;
pub mod schema;
pub mod session;
pub mod shard;
pub mod template;
pub mod verify;

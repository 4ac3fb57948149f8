//! The integration tests of `engine`: one program, which is compiled and linked once.

mod at_once;
mod common;
mod crash;
mod damaged_log;
mod dropped;
mod drops;
mod exhaustive;
mod extension;
mod failures;
mod flush_map;
mod full_volume;
mod instance;
mod jobs;
mod limits;
mod meta_cache;
mod openings;
#[cfg(feature = "planted-bugs")]
mod planted;
mod redo_counts;
mod released;
mod standby;
mod tampered;

//! The integration tests of `replica`: one program, which is compiled and linked once.

mod cluster;
#[path = "../../../engine/tests/it/common/mod.rs"]
mod common;
mod hostile;
mod liars;

//! The integration tests of `btree`: one program, which is compiled and linked once.

mod genuine_files;
mod log_format;

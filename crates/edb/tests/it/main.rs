//! The integration tests of `edb`: one program, which is compiled and linked once.

mod fuzz;
mod genuine_files;
mod log_format;

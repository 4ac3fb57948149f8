//! The integration tests of `solution`: one program, which is compiled and linked once.

mod ranges;
mod settings;
mod solution_file;

//! The integration tests of `workload`: one program, which is compiled and linked once.

mod checkers;
mod classes;
mod codec;
mod common;
mod full_disk;
mod load_shape;
mod log_volume;
mod packed;
mod power_cuts;
mod readers;
mod sparse;
mod template;
mod verified;

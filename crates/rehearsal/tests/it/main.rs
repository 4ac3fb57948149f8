//! The integration tests of `rehearsal`: one program, which is compiled and linked once.

mod common;
mod drawn;
mod drill;
mod drill_seeds;
mod faults;
mod performed;
mod planted_bugs;
mod pools;
mod rehearse;
mod remote_copy;
mod stores;
mod what_if;

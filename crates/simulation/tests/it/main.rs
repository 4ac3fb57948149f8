//! The integration tests of `simulation`: one program, which is compiled and linked once.

mod common;
mod domains;
mod drawn;
mod drill;
mod drill_seeds;
mod faults;
mod measured;
mod performed;
mod planted_bugs;
mod pools;
mod remote_copy;
mod stores;
mod two_hosts;
mod what_if;

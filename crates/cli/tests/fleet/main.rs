//! Fleets of the real program, one program of tests: its hosts live by the clock, so nothing else runs beside them.
#![allow(
    clippy::disallowed_methods,
    reason = "tests of programs work with files, clocks and threads of the machine"
)]

mod drill;
mod drilled;
mod net;
mod performer;
#[path = "../commands/program/mod.rs"]
mod program;
mod runs;
mod scenario;
mod scenarios;
mod test_fleet;

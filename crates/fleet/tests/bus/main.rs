//! The integration tests of `fleet`: one program, which is compiled and linked once.
#![allow(
    clippy::disallowed_methods,
    reason = "tests of programs work with files, clocks and threads of the machine"
)]

mod bus;
#[path = "../../../engine/tests/it/common/mod.rs"]
mod common;
mod copies;
mod copy_port;
mod exchange;
mod membership;
#[allow(dead_code, reason = "other tests use other parts of it")]
#[path = "../../../cli/tests/fleet/net/mod.rs"]
mod net;
#[path = "../../../replica/tests/it/liars/scenario.rs"]
mod scenario;
mod waits;

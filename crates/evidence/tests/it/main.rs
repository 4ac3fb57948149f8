//! The integration tests of `evidence`: one program, which is compiled and linked once.

mod figures;
mod follow;
mod qualification;
mod query;
mod report;
mod seal;
mod store;
#[path = "../../examples/synthetic/mod.rs"]
mod synthetic;

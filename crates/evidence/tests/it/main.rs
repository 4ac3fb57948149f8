//! The integration tests of `evidence`: one program, which is compiled and linked once.

mod explain;
mod figures;
mod follow;
mod page;
mod qualification;
mod query;
mod report;
mod seal;
mod store;

//! The integration tests of `campaign`: one program, which is compiled and linked once.

mod ageing;
mod alone;
mod drill_review;
mod load_shape;
mod programme;
mod shape;
mod simulated;
mod two_worlds;

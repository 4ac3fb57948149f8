//! The integration tests of `campaign`: one program, which is compiled and linked once.

mod ageing;
mod alone;
mod drill_review;
mod load_shape;
mod shape;
mod simulated;
mod small_campaign;
mod two_worlds;

//! The integration tests of `campaign`: one program, which is compiled and linked once.

mod ageing;
mod alone;
mod drill_review;
mod load_shape;
mod lost_path;
mod shape;
mod simulated;
mod small_campaign;
mod two_worlds;

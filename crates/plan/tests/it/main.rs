//! The integration tests of `plan`: one program, which is compiled and linked once.

mod architecture;
mod claims;
mod export;
mod figures;
mod published;
mod rules;
mod search;
mod verdict;
mod views;
mod volumes;

//! The integration tests of `plan`: one program, which is compiled and linked once.

mod architecture;
mod claims;
mod export;
mod figures;
mod published;
mod rules;
mod search;
mod unmeasured;
mod verdict;
mod views;
mod volumes;

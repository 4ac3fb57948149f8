//! Judging and showing evidence instead of making it: lint, compare, import of foreign results, the solution
//! paper, the live views of a run.
//!
//! Everything here reads what others wrote down: runs of ours, result files of Jetstress, published papers.
//! Facts as printed are [`Evidence`], in the same keys and units as `published/*.toml`.
#![allow(
    clippy::disallowed_methods,
    reason = "this crate reads evidence files, writes documents and answers requests for pages"
)]

pub mod answers;
pub mod compare;
pub mod explain;
pub mod import;
pub mod lint;
mod markup;
pub mod paper;
pub mod pdf;
mod printed_figures;
pub mod progress;
mod sources;
pub mod terminal;
pub mod verdict_table;

pub use printed_figures::{Evidence, Instant, TestFigures};
pub use sources::{PRINTED, Source, SourceError, open};

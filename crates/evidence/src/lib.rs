//! The evidence of a run: `run.db`, the report in its forms, the environment, and the folders that a run may touch.
#![allow(
    clippy::disallowed_methods,
    reason = "this crate faces the operating system: files, clock and one thread"
)]

pub mod csv;
pub mod environment;
pub mod folder;
pub mod listing;
pub mod live;
mod merge;
pub mod report;
mod run_data;
mod store;

/// How often a host is sampled. A slice of less than half of it has no rate of its own: it joins a neighbour.
const HOST_INTERVAL_MS: u64 = 1_000;

pub use merge::{Expected, HostRuns};
pub use report::{Report, ReportError};
pub use run_data::{CounterPoint, Point, RunData, SeriesKey, Slice};
pub use store::{
    Broken, BrokenKind, Cell, Chain, KeyError, Query, RunStore, SigningKey, StoreError, check, load,
    public_key, sha256_hex,
};

//! What is done on the real storage of this host: the look before a run, the run itself with its evidence, the
//! crash test, the folder of a probe.
//!
//! A campaign knows neither folders nor files of evidence, and evidence knows no campaign. This crate brings
//! both together: it claims the folders of the solution, opens `run.db`, carries the campaign out, and keeps
//! every row as it arises.
//!
//! Invariants
//! 1. Nothing is written before [`Preflight`] has seen that it may be written and will fit.
//! 2. From the first rows of `run.db` on, a run that is killed can be told from no run at all.
//!
//! Limits: one host. Runs on many hosts (crate `fleet`) carry out their part of each host here.
#![allow(
    clippy::disallowed_methods,
    reason = "this crate faces the operating system: the clock of the calendar and files of evidence"
)]

pub mod crash_test;
mod dry_run;
mod measured;
mod needs;
mod preflight;
pub mod probe;
mod provenance;
mod rules;
mod schedule;

pub use dry_run::DryRun;
pub use measured::{Measured, RunError, ending, run_row, unix_ms};
pub use needs::{FolderNeeds, HostNeeds};
pub use preflight::{PROBE, Preflight, PreflightError};
pub use provenance::{build_row, setting_rows};
pub use rules::rows as rules;
pub use schedule::PlannedTest;

//! The tests of the campaign in order, thresholds and verdicts. Drives the engine in either world.
//!
//! Invariants
//! 1. Every test ends with its row completed and at least one verdict, or the run ends with an event that says why.
//! 2. An error of storage or engine fails the run; it is never retried here.
//! 3. Databases are closed cleanly at the end of every test, also of an interrupted one, except where a test is
//!    about an unclean stop.

mod backups;
pub mod barrier;
mod cache_loss;
mod campaign;
mod checksums;
pub mod choice;
mod classes;
mod climb;
mod devices;
pub mod drill;
mod error;
mod estimate;
mod folders;
mod host;
mod init;
mod lapses;
pub mod load;
mod load_tests;
mod meta_cache;
pub mod progress;
mod recovery;
mod recovery_report;
mod room;
pub mod rule;
mod running;
pub mod sampler;
pub mod tune;
mod tuning;
pub mod verdict;
pub mod window;

pub use campaign::{CampaignFuture, CampaignOutcome, climb, run, run_in_step, titles};
pub use climb::{Climb, Climbed};
pub use error::CampaignError;
pub use host::database_path;
pub use meta_cache::meta_cache_path;

//! The database engine: instances of one log stream with several databases, over a [`world::World`].
//!
//! Invariants (the design's numbers; each module says which of them it keeps, and how)
//! 1. After recovery an instance equals a prefix of its log order that contains every acknowledged durable commit. Lazy
//!    commits may be missing only as a suffix; a commit in flight may be either.
//! 2. No page reaches disk before its log.
//! 3. After a failed write or sync the instance stops; it never retries.
//! 4. The checkpoint is at or before the oldest unwritten change; no log that is needed is removed.
//! 5. Recovery is idempotent and survives crashes of itself.
//! 6. Bytes read are verified, or known pristine, before use.
//! 7. Measured I/O = issued I/O.
//!
//! Limits: an instance belongs to one thread; one page size per instance; at most 255 databases.

/// Whether a test has planted this bug; `false` in every build that is not for tests.
#[cfg(feature = "planted-bugs")]
macro_rules! planted {
    ($bug:ident) => {
        $crate::planted::is_planted($crate::planted::Bug::$bug)
    };
}
#[cfg(not(feature = "planted-bugs"))]
macro_rules! planted {
    ($bug:ident) => {
        false
    };
}

mod background;
mod backup;
mod cache;
mod checkpoint;
mod checksum;
mod config;
mod core;
mod create;
mod database;
mod error;
mod flush_map;
mod header;
mod held;
mod instance;
mod io;
mod judge;
mod listed;
mod log;
mod maintenance;
mod meta_cache;
mod opening;
mod page_table;
mod pieces;
#[cfg(feature = "planted-bugs")]
pub mod planted;
mod recovery;
mod replication;
mod signal;
mod standby;
mod transaction;
mod transactions;

pub use self::core::CommitGate;
pub use backup::BackupReport;
pub use cache::{CacheStatus, PageReads};
pub use checksum::{ChecksumReport, LogChecksumReport, MadeOf, StreamConfig, check_database, check_logs};
pub use config::{DatabaseConfig, InstanceConfig, MetaCacheConfig, Redo};
pub use create::create_database;
pub use edb::log::LogPosition;
pub use error::{Error, Result};
pub use flush_map::{flush_map_bytes_max, flush_map_path};
pub use header::is_closed;
pub use held::Held;
pub use instance::Instance;
pub use io::{Counters, FileCounters, Operation};
pub use log::store::{LogStore, ShippedLog};
pub use log::writer::LogHold;
pub use maintenance::{MaintenanceConfig, MaintenanceReport, maintain_in_recovery};
pub use meta_cache::MetaCacheState;
pub use pieces::{PageFindings, Progress};
pub use recovery::{BranchCounts, RecoveryBranch, RecoveryReport, check_closed};
pub use replication::ReplicationReport;
pub use signal::{Dropped, StopSignal};
pub use standby::{Standby, changed_pages, saved_checkpoint, truncate_log};
pub use transaction::{Durability, Transaction};

//! What an instance is told when it is opened.

use std::rc::Rc;

use btree::NodeFunction;
use world::PageCodec;

use crate::error::{Error, Result};
use crate::io::Counters;
use crate::signal::{Dropped, StopSignal};

/// Configuration of an instance: one log stream and its databases.
#[derive(Clone)]
pub struct InstanceConfig {
    /// Existing directory of the logs and the checkpoint.
    pub log_directory: String,
    /// First part of the names of log files: three characters, "E00".
    pub log_base: String,
    /// Size of a log file, bytes: 1 or 5 MiB; tests use less.
    pub log_bytes: u32,
    /// Size of the log buffer, bytes; when half of it is full, the writer writes without being asked.
    pub log_buffer_bytes: usize,
    /// Whether logs are removed once recovery no longer needs them.
    pub circular_logging: bool,
    /// Checkpoint depth, bytes: pages are written when the log has grown by this much since their first change.
    pub checkpoint_depth_bytes: u64,
    /// Size of a page of all databases, bytes.
    pub page_bytes: usize,
    /// Cache memory for each attached database, bytes.
    pub cache_bytes_per_database: u64,
    /// Share of the cache that must be free or clean; below it pages are written.
    pub flush_start: f64,
    /// Share of free or clean pages at which that stops.
    pub flush_stop: f64,
    /// Order of redo in an opening.
    pub redo: Redo,
    /// Largest number of reads ahead at a time during redo in log order.
    pub recovery_reads_outstanding: usize,
    /// Counters of I/O on logs and checkpoint. A kept handle also shows what closing, or a failed opening, did.
    pub log_counters: Counters,
    /// Databases, numbered from 1 in this order. The order must stay while logs exist.
    pub databases: Vec<DatabaseConfig>,
    /// Instances and standbys with this configuration, or a clone of it, that were dropped. The next opening waits
    /// until they no longer use the files.
    pub dropped: Dropped,
}

/// Order of redo in an opening.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Redo {
    /// In log order on the instance's thread, with the reads of published recoveries.
    #[default]
    InLogOrder,
    /// In log order only within a page: the pages are divided among the shards of the world, and each reads, redoes
    /// and writes its own. If the codec of a database is bound to its thread ([`PageCodec::elsewhere`]), the whole
    /// instance is redone in log order.
    ByPage,
}

/// MetaCache of one database.
#[derive(Clone)]
pub struct MetaCacheConfig {
    /// Path of its file.
    pub path: String,
    /// Largest size of the file, bytes.
    pub bytes: u64,
    /// Set when the volume of the file is taken away: no I/O goes to it any more.
    pub taken_away: StopSignal,
}

/// Configuration of one database of an instance.
#[derive(Clone)]
pub struct DatabaseConfig {
    /// Path of the database file.
    pub path: String,
    /// Codec for whole pages in the log; `None`: plain.
    pub codec: Option<Rc<dyn PageCodec>>,
    /// Identity of the template from which the file was created, if its pages may be read without their bytes.
    pub template_id: Option<u64>,
    /// Nodes of that template, so that its pages can be used without their bytes. Needs the codec of that template.
    pub nodes: Option<Rc<dyn NodeFunction>>,
    /// Step by which the file grows, bytes.
    pub extension_bytes: u64,
    /// Counters of I/O on the file and its MetaCache, like `log_counters` for the log.
    pub counters: Counters,
    /// MetaCache of the database, if it has one.
    pub meta_cache: Option<MetaCacheConfig>,
}

impl InstanceConfig {
    /// Configuration of Exchange 2013 and later, without databases.
    pub fn new(log_directory: &str, page_bytes: usize) -> InstanceConfig {
        InstanceConfig {
            log_directory: log_directory.to_owned(),
            log_base: "E00".to_owned(),
            log_bytes: 1 << 20,
            log_buffer_bytes: 256 << 10,
            circular_logging: true,
            checkpoint_depth_bytes: 20 << 20,
            page_bytes,
            cache_bytes_per_database: 256 << 20,
            flush_start: 0.01,
            flush_stop: 0.02,
            redo: Redo::default(),
            recovery_reads_outstanding: 8,
            log_counters: Counters::default(),
            databases: Vec::new(),
            dropped: Dropped::default(),
        }
    }

    /// Number of segments per log file.
    pub(crate) fn segments(&self) -> Result<u16> {
        let segments = self.log_bytes as usize / world::SECTOR_BYTES;
        u16::try_from(segments).ok().filter(|segments| *segments >= 4).ok_or_else(|| {
            Error::Refused(format!("a log of {} bytes is too small or too large", self.log_bytes))
        })
    }
}

impl DatabaseConfig {
    /// Configuration of a database file without a template.
    pub fn new(path: &str) -> DatabaseConfig {
        DatabaseConfig {
            path: path.to_owned(),
            codec: None,
            template_id: None,
            nodes: None,
            extension_bytes: 8 << 20,
            counters: Counters::default(),
            meta_cache: None,
        }
    }
}

//! What an instance is told when it is opened.

use std::rc::Rc;

use btree::NodeFunction;
use world::PageCodec;

use crate::error::{Error, Result};
use crate::io::Counters;
use crate::signal::Dropped;

/// An instance: one log stream and its databases.
#[derive(Clone)]
pub struct InstanceConfig {
    /// Where the logs and the checkpoint lie. The directory exists.
    pub log_directory: String,
    /// First part of the names of log files: three characters, "E00".
    pub log_base: String,
    /// Bytes per log file: 1 or 5 MiB; tests use less.
    pub log_bytes: u32,
    /// Log kept in memory at most; half of it makes the writer write without being asked.
    pub log_buffer_bytes: usize,
    /// Remove logs that recovery no longer needs.
    pub circular_logging: bool,
    /// Pages are written when the log has grown by this much since their first change.
    pub checkpoint_depth_bytes: u64,
    /// Page size of all databases.
    pub page_bytes: usize,
    /// Cache memory for each attached database.
    pub cache_bytes_per_database: u64,
    /// Share of the cache that has to be free or clean; below it pages are written out.
    pub flush_start: f64,
    /// Share at which that stops.
    pub flush_stop: f64,
    /// How an opening redoes the log that it finds.
    pub redo: Redo,
    /// Reads ahead of redo at most while logs are replayed in their order.
    pub recovery_reads_outstanding: usize,
    /// Counts the I/O on logs and checkpoint. A handle that is kept also shows what closing, or a failed opening, did.
    pub log_counters: Counters,
    /// The databases, numbered from 1 in this order. The order must stay the same while logs exist.
    pub databases: Vec<DatabaseConfig>,
    /// Instances and standbys that were opened with this configuration, or a clone of it, and dropped. The next
    /// opening waits until they touch the files no more.
    pub dropped: Dropped,
}

/// How an opening redoes the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Redo {
    /// In the order of the log, on the thread of the instance, with the reads of the published recoveries.
    #[default]
    InLogOrder,
    /// In the order of the log only within a page: the pages are divided among the shards of the world, and each
    /// reads, redoes and writes its own. A database whose codec stays on its thread
    /// ([`PageCodec::elsewhere`]) is redone in the order of the log, and all others of the instance with it.
    ByPage,
}

/// One database of an instance.
#[derive(Clone)]
pub struct DatabaseConfig {
    /// Its file.
    pub path: String,
    /// How whole pages are written into the log; `None`: plainly.
    pub codec: Option<Rc<dyn PageCodec>>,
    /// The template the file was created from, if its pages may arrive pristine.
    pub template_id: Option<u64>,
    /// The nodes of that template, so that its pages can be used without making their bytes. Needs the codec of
    /// that template.
    pub nodes: Option<Rc<dyn NodeFunction>>,
    /// The file grows in steps of this many bytes.
    pub extension_bytes: u64,
    /// Counts the I/O on the file, as `log_counters` do for the log.
    pub counters: Counters,
}

impl InstanceConfig {
    /// The settings of Exchange 2013 and later, with the databases still to be added.
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

    /// Segments per log file.
    pub(crate) fn segments(&self) -> Result<u16> {
        let segments = self.log_bytes as usize / world::SECTOR_BYTES;
        u16::try_from(segments).ok().filter(|segments| *segments >= 4).ok_or_else(|| {
            Error::Refused(format!("a log of {} bytes is too small or too large", self.log_bytes))
        })
    }
}

impl DatabaseConfig {
    /// A database file without a template.
    pub fn new(path: &str) -> DatabaseConfig {
        DatabaseConfig {
            path: path.to_owned(),
            codec: None,
            template_id: None,
            nodes: None,
            extension_bytes: 8 << 20,
            counters: Counters::default(),
        }
    }
}

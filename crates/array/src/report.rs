//! What each part did: the figures that say which part was the limit.

use std::fmt;

/// Kind of a part of the storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartKind {
    /// A drive.
    Drive,
    /// A link or adapter.
    Link,
    /// A controller and its cache.
    Controller,
    /// A volume, as its host sees it.
    Volume,
    /// Log-structured or replicated store.
    Store,
    /// A flash cache in front of groups.
    ReadCache,
    /// A pool of drives that moves data between them.
    Pool,
}

/// Figures of one part since the last reset. Counts that a kind of part does not have are 0.
#[derive(Debug, Clone, PartialEq)]
pub struct PartReport {
    /// Kind of the part.
    pub kind: PartKind,
    /// Name of the part.
    pub name: String,
    /// Reads that ended (drive), arrived (controller, store) or completed (volume).
    pub reads: u64,
    /// Writes that ended (drive), arrived (controller, store) or completed (volume).
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Share of the time with work under way (drive, volume) or of its capacity in use (link, controller), 0 to 1.
    pub busy_share: f64,
    /// Requests under way, on average over time; drives and volumes only.
    pub mean_queue: Option<f64>,
    /// Mean time of a read, in ms; drives and volumes only. Of a drive by Little's law: time that reads were
    /// under way, by reads that began. Of a volume by direct measurement.
    pub read_ms: Option<f64>,
    /// Mean time of a write, likewise. Of a drive it holds the flushes as well: a write is durable only after
    /// its flush.
    pub write_ms: Option<f64>,
    /// Reads served from a cache in front of the drives (write cache, read-ahead, memory, flash).
    pub cache_hits: u64,
    /// Reads that missed the caches in front of the drives.
    pub cache_misses: u64,
    /// Writes that waited for room in the write cache.
    pub write_waits: u64,
    /// Largest number of dirty bytes in the write cache.
    pub dirty_max_bytes: u64,
    /// State in words, if it is not the normal one: lost, rebuilding, unprotected, ..
    pub state: String,
}

impl PartReport {
    pub(crate) fn new(kind: PartKind, name: &str) -> PartReport {
        PartReport {
            kind,
            name: name.into(),
            reads: 0,
            writes: 0,
            read_bytes: 0,
            write_bytes: 0,
            busy_share: 0.0,
            mean_queue: None,
            read_ms: None,
            write_ms: None,
            cache_hits: 0,
            cache_misses: 0,
            write_waits: 0,
            dirty_max_bytes: 0,
            state: String::new(),
        }
    }
}

/// Figures of all parts since the last reset.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceReport {
    /// Length of that time, s.
    pub seconds: f64,
    /// Figures of drives, links, controllers, stores, pools and volumes.
    pub parts: Vec<PartReport>,
    /// Number of requests to volumes without a placement; they took no time.
    pub unplaced_requests: u64,
    /// Number of requests that failed because their data were lost or no path was left.
    pub failed_requests: u64,
}

impl DeviceReport {
    /// Part with the highest utilisation, which limits the storage.
    pub fn limit(&self) -> Option<&PartReport> {
        let used = self.parts.iter().filter(|part| part.kind != PartKind::Volume);
        used.max_by(|a, b| a.busy_share.total_cmp(&b.busy_share))
    }
}

impl fmt::Display for DeviceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            writeln!(
                f,
                "{:<24} {:>9.1} reads/s {:>9.1} writes/s  busy {:>5.1} %  queue {:>6}  {}",
                part.name,
                part.reads as f64 / self.seconds,
                part.writes as f64 / self.seconds,
                part.busy_share * 100.0,
                part.mean_queue.map_or("–".to_owned(), |queue| format!("{queue:.2}")),
                part.state,
            )?;
        }
        Ok(())
    }
}

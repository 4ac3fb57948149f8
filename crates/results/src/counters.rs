//! Counters by I/O class: how many, how much, how long.
//!
//! Invariant: every I/O that the engine issues is counted in exactly one class, so the sums over classes equal the
//! world's own count.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};
use serde::{Deserialize, Serialize};

/// Purpose of an I/O. The order is that of report columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoClass {
    /// Database pages read for transactions.
    TransactionalRead,
    /// Database pages written back (scavenging, checkpoint depth, shutdown).
    TransactionalWrite,
    /// Background maintenance: sequential 256 KiB reads.
    MaintenanceRead,
    /// Writes of log records.
    LogWrite,
    /// Writes of zeros that prepare the next log file.
    LogPrepareWrite,
    /// Reads of the log by recovery or by the log checksum.
    LogRead,
    /// Reads of closed logs as for shipping to passive copies.
    ReplicationRead,
    /// Reads of a database by a streaming backup.
    BackupRead,
    /// Writes of the copy by a backup to disk.
    BackupWrite,
    /// Reads of a whole database by a checksum test.
    VerifyRead,
    /// Writes that create a database.
    InitWrite,
    /// Reads of database headers and the checkpoint file.
    HousekeepingRead,
    /// Writes of database headers and the checkpoint file.
    HousekeepingWrite,
    /// Database pages read from the MetaCache.
    MetaCacheRead,
    /// Database pages written to the MetaCache.
    MetaCacheWrite,
}

/// Whether an I/O class reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Read from storage.
    Read,
    /// Write to storage.
    Write,
}

/// Gives each class its stable name, as stored in `run.db` and JSON, in report order.
macro_rules! stable_names {
    ($($class:ident: $name:literal,)*) => {
        impl IoClass {
            /// All I/O classes, in report order.
            pub const ALL: [IoClass; 15] = [$(IoClass::$class),*];

            /// Stable name of the class, as stored in `run.db` and JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $(IoClass::$class => $name,)*
                }
            }

            /// Stable name of the measure that counts waiting operations of the class.
            pub(crate) fn waiting_name(self) -> &'static str {
                match self {
                    $(IoClass::$class => concat!($name, "_waiting"),)*
                }
            }

            /// Stable name of the measure of the time for which the load generator held operations of the class.
            pub(crate) fn held_name(self) -> &'static str {
                match self {
                    $(IoClass::$class => concat!($name, "_held"),)*
                }
            }
        }
    };
}

stable_names! {
    TransactionalRead: "transactional_read",
    TransactionalWrite: "transactional_write",
    MaintenanceRead: "maintenance_read",
    LogWrite: "log_write",
    LogPrepareWrite: "log_prepare_write",
    LogRead: "log_read",
    ReplicationRead: "replication_read",
    BackupRead: "backup_read",
    BackupWrite: "backup_write",
    VerifyRead: "verify_read",
    InitWrite: "init_write",
    HousekeepingRead: "housekeeping_read",
    HousekeepingWrite: "housekeeping_write",
    MetaCacheRead: "meta_cache_read",
    MetaCacheWrite: "meta_cache_write",
}

impl IoClass {
    /// I/O class with this stable name.
    pub fn from_name(name: &str) -> Option<IoClass> {
        IoClass::ALL.into_iter().find(|class| class.name() == name)
    }

    /// Whether the class reads or writes.
    pub fn direction(self) -> Direction {
        use IoClass::*;
        match self {
            TransactionalRead | MaintenanceRead | LogRead | ReplicationRead | BackupRead | VerifyRead
            | HousekeepingRead | MetaCacheRead => Direction::Read,
            TransactionalWrite | LogWrite | LogPrepareWrite | BackupWrite | InitWrite | HousekeepingWrite
            | MetaCacheWrite => Direction::Write,
        }
    }
}

/// Sums over operations: count, bytes, sum and maximum of latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct IoTotals {
    /// Number of completed operations.
    pub count: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Sum of latencies, ns.
    pub latency_ns_sum: u64,
    /// Longest latency, ns.
    pub latency_ns_max: u64,
}

impl IoTotals {
    /// Totals of a single operation.
    pub fn one(bytes: u64, latency_ns: u64) -> IoTotals {
        IoTotals { count: 1, bytes, latency_ns_sum: latency_ns, latency_ns_max: latency_ns }
    }

    /// Adds the operations of `other`. Imported figures may be absurd: sums saturate, they do not wrap.
    pub fn add(&mut self, other: IoTotals) {
        self.count = self.count.saturating_add(other.count);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.latency_ns_sum = self.latency_ns_sum.saturating_add(other.latency_ns_sum);
        self.latency_ns_max = self.latency_ns_max.max(other.latency_ns_max);
    }

    /// Mean latency in milliseconds, weighted by operation; `None` if there was none.
    pub fn latency_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.latency_ns_sum as f64 / self.count as f64 / 1e6)
    }

    /// Mean latency in milliseconds of these operations and of those that still wait, each of which counts with the
    /// time that it has waited so far; `None` if there was neither.
    ///
    /// Operations that have just begun pull the mean down: compare it with [`IoTotals::latency_ms`].
    pub fn latency_ms_with(&self, waiting: IoTotals) -> Option<f64> {
        let mut all = *self;
        all.add(waiting);
        all.latency_ms()
    }

    /// Longest latency in milliseconds; `None` if there was no operation.
    pub fn latency_ms_max(&self) -> Option<f64> {
        (self.count > 0).then_some(self.latency_ns_max as f64 / 1e6)
    }

    /// Mean size in bytes; `None` if there was no operation.
    pub fn bytes_mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.bytes as f64 / self.count as f64)
    }
}

/// Totals and latency distribution of one I/O class since they were last taken. Can be merged.
///
/// The histogram holds whole microseconds with two significant digits (an error below 1 %), up to one hour; the
/// totals is exact.
#[derive(Debug, Clone, Default)]
pub struct IoStats {
    /// Counts and sums.
    pub totals: IoTotals,
    latencies: Latencies,
}

const LATENCY_US_MAX: u64 = 3_600_000_000;

/// Number of latencies that are kept one by one before a histogram is used: in a second most databases have fewer, and
/// a histogram takes 26 KiB.
const FEW: usize = 256;

/// Latency distribution, µs.
#[derive(Debug, Clone)]
enum Latencies {
    Few(Vec<u32>),
    Many(Box<Histogram<u64>>),
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies::Few(Vec::new())
    }
}

impl Latencies {
    fn record(&mut self, us: u32) {
        match self {
            Latencies::Few(values) if values.len() < FEW => values.push(us),
            Latencies::Few(_) => self.many().saturating_record(us.into()),
            Latencies::Many(histogram) => histogram.saturating_record(us.into()),
        }
    }

    fn merge(&mut self, other: &Latencies) {
        match other {
            Latencies::Few(values) => values.iter().for_each(|us| self.record(*us)),
            Latencies::Many(histogram) => self.many().add(histogram.as_ref()).expect("equal bounds"),
        }
    }

    /// Replaces single latencies by a histogram.
    fn many(&mut self) -> &mut Histogram<u64> {
        if let Latencies::Few(_) = self {
            *self = Latencies::Many(Box::new(self.histogram()));
        }
        match self {
            Latencies::Many(histogram) => histogram,
            Latencies::Few(_) => unreachable!("it is a histogram now"),
        }
    }

    fn histogram(&self) -> Histogram<u64> {
        match self {
            Latencies::Few(values) => {
                let mut histogram =
                    Histogram::new_with_bounds(1, LATENCY_US_MAX, 2).expect("constant bounds are valid");
                values.iter().for_each(|us| histogram.saturating_record((*us).into()));
                histogram
            }
            Latencies::Many(histogram) => histogram.as_ref().clone(),
        }
    }
}

impl IoStats {
    /// Counts one completed operation.
    pub fn record(&mut self, bytes: u64, latency_ns: u64) {
        self.totals.add(IoTotals::one(bytes, latency_ns));
        let us = (latency_ns / 1_000).clamp(1, LATENCY_US_MAX);
        self.latencies.record(us as u32);
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &IoStats) {
        self.totals.add(other.totals);
        self.latencies.merge(&other.latencies);
    }

    /// Mean latency in milliseconds, weighted by operation; zero if there was none.
    pub fn latency_ms_mean(&self) -> f64 {
        self.totals.latency_ms().unwrap_or(0.0)
    }

    /// Latency in milliseconds below which `quantile` (0..=1) of the operations stayed; never above the exact maximum.
    pub fn latency_ms_at(&self, quantile: f64) -> f64 {
        let us = self.histogram_us().map_or(0, |histogram| histogram.value_at_quantile(quantile));
        (us as f64 / 1e3).min(self.totals.latency_ns_max as f64 / 1e6)
    }

    /// Latency histogram, µs; `None` if nothing was counted.
    pub fn histogram_us(&self) -> Option<Histogram<u64>> {
        match &self.latencies {
            Latencies::Few(values) if values.is_empty() => None,
            latencies => Some(latencies.histogram()),
        }
    }

    /// Latency histogram in the V2 encoding of HDR histograms; `None` if nothing was counted.
    pub fn hdr_v2(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(&self.histogram_us()?, &mut bytes)
            .expect("writing to memory cannot fail");
        Some(bytes)
    }
}

/// Totals of each I/O class, without latency distributions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClassTotals([IoTotals; IoClass::ALL.len()]);

impl ClassTotals {
    /// Totals of one I/O class.
    pub fn class(&self, class: IoClass) -> IoTotals {
        self.0[class as usize]
    }

    /// Adds totals to one I/O class.
    pub fn add(&mut self, class: IoClass, totals: IoTotals) {
        self.0[class as usize].add(totals);
    }

    /// Adds the operations of `other`.
    pub fn merge(&mut self, other: &ClassTotals) {
        self.0.iter_mut().zip(other.0).for_each(|(ours, theirs)| ours.add(theirs));
    }
}

/// Totals and latency distribution of every I/O class.
#[derive(Debug, Clone, Default)]
pub struct IoCounters {
    classes: [IoStats; IoClass::ALL.len()],
    held: ClassTotals,
}

impl IoCounters {
    /// Totals and distribution of one I/O class.
    pub fn class(&self, class: IoClass) -> &IoStats {
        &self.classes[class as usize]
    }

    /// Totals of every I/O class.
    pub fn totals(&self) -> ClassTotals {
        ClassTotals(std::array::from_fn(|class| self.classes[class].totals))
    }

    /// Upper bound of the time for which the load generator held operations of each class; empty where that is not
    /// known.
    pub fn held(&self) -> &ClassTotals {
        &self.held
    }

    /// Counts one completed operation.
    pub fn record(&mut self, class: IoClass, bytes: u64, latency_ns: u64) {
        self.classes[class as usize].record(bytes, latency_ns);
    }

    /// Adds the time for which the load generator held a counted operation.
    pub fn record_held(&mut self, class: IoClass, held_ns: u64) {
        self.held.add(class, IoTotals::one(0, held_ns));
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &IoCounters) {
        for (ours, theirs) in self.classes.iter_mut().zip(&other.classes) {
            ours.merge(theirs);
        }
        self.held.merge(&other.held);
    }

    /// Takes the counts so far and starts again from zero.
    pub fn take(&mut self) -> IoCounters {
        std::mem::take(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_stable_and_unique() {
        for class in IoClass::ALL {
            assert_eq!(IoClass::from_name(class.name()), Some(class));
            assert_eq!(IoClass::ALL[class as usize], class, "the discriminant is the report order");
        }
    }

    #[test]
    fn an_operation_that_waits_counts_with_the_time_that_it_has_waited_so_far() {
        let mut waiting = ClassTotals::default();
        waiting.add(IoClass::LogWrite, IoTotals::one(0, 58_000_000));
        let mut other = ClassTotals::default();
        other.add(IoClass::LogWrite, IoTotals::one(0, 2_000_000));
        other.add(IoClass::LogRead, IoTotals::one(0, 7_000_000));
        waiting.merge(&other);
        let writes = IoTotals { count: 2, bytes: 0, latency_ns_sum: 60_000_000, latency_ns_max: 58_000_000 };
        assert_eq!(waiting.class(IoClass::LogWrite), writes);
        assert_eq!(waiting.class(IoClass::LogRead), IoTotals::one(0, 7_000_000));

        let mut completed = IoTotals::one(4096, 1_000_000);
        completed.add(IoTotals::one(4096, 3_000_000));
        assert_eq!(completed.latency_ms_with(writes), Some(16.0), "(1 + 3 + 58 + 2) / 4");
        assert_eq!(completed.latency_ms_with(IoTotals::default()), completed.latency_ms());
        assert_eq!(IoTotals::default().latency_ms_with(writes), Some(30.0), "nothing completed, work waits");
        assert_eq!(IoTotals::default().latency_ms_with(IoTotals::default()), None);
    }

    #[test]
    fn few_latencies_and_many_make_the_same_histogram() {
        let values = |count: u64| (1..=count).map(|n| n * n * 7_919);
        for (ours, theirs) in [(0, 0), (3, 5), (256, 1), (1, 256), (200, 200), (257, 257), (900, 0)] {
            let (mut a, mut b) = (IoStats::default(), IoStats::default());
            let mut histogram = Histogram::<u64>::new_with_bounds(1, LATENCY_US_MAX, 2).expect("valid");
            values(ours).for_each(|ns| a.record(1, ns));
            values(theirs).for_each(|ns| b.record(1, ns));
            values(ours)
                .chain(values(theirs))
                .for_each(|ns| histogram.saturating_record((ns / 1_000).max(1)));
            a.merge(&b);
            let expected = (ours + theirs > 0).then_some(histogram);
            assert_eq!(a.histogram_us(), expected, "{ours} and {theirs}");
        }
    }

    #[test]
    fn merging_equals_recording_in_one_place() {
        let (mut a, mut b, mut both) = (IoStats::default(), IoStats::default(), IoStats::default());
        for n in 1..=1000u64 {
            let part = if n % 3 == 0 { &mut a } else { &mut b };
            part.record(n, n * 10_000);
            both.record(n, n * 10_000);
        }
        a.merge(&b);
        assert_eq!(a.totals, both.totals);
        assert_eq!(a.hdr_v2(), both.hdr_v2());
        assert_eq!(a.latency_ms_at(0.5), both.latency_ms_at(0.5));
        assert!((a.latency_ms_at(0.5) - 5.0).abs() < 0.05, "within the stated error of 1 %");
    }
}

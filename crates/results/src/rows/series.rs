//! What is counted over time: samples, latency distributions, counters.

use serde::{Deserialize, Serialize};

use super::Origin;
use crate::{IoClass, IoStats, IoTotals};

/// Measure of a sample or histogram: I/O of a class, waiting operations, held operations, or whole batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Measure {
    /// I/O of one class.
    Io(IoClass),
    /// I/O of one class that had begun and not completed at the end of the interval; the latency is the time that it
    /// had waited, and `bytes` is zero.
    Waiting(IoClass),
    /// I/O of one class that completed; the latency is the time that the load generator held it, at most, and `bytes`
    /// is zero. Only of hosts, and only where operations go to a device.
    Held(IoClass),
    /// Batches, latency from their actual start; `bytes` is zero.
    Batch,
    /// Batches, latency from the start that a paced load intended; `bytes` is zero.
    BatchIntended,
}

impl Measure {
    /// Stable name of the measure, as stored in `run.db` and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Io(class) => class.name(),
            Measure::Waiting(class) => class.waiting_name(),
            Measure::Held(class) => class.held_name(),
            Measure::Batch => "batch",
            Measure::BatchIntended => "batch_intended",
        }
    }

    /// The measure with this stable name.
    pub fn from_name(name: &str) -> Option<Measure> {
        match name {
            "batch" => Some(Measure::Batch),
            "batch_intended" => Some(Measure::BatchIntended),
            _ => {
                let of = |suffix| name.strip_suffix(suffix).and_then(IoClass::from_name);
                let io = || IoClass::from_name(name).map(Measure::Io);
                of("_waiting").map(Measure::Waiting).or(of("_held").map(Measure::Held)).or_else(io)
            }
        }
    }
}

impl From<IoClass> for Measure {
    fn from(class: IoClass) -> Measure {
        Measure::Io(class)
    }
}

impl From<Measure> for String {
    fn from(measure: Measure) -> String {
        measure.name().to_owned()
    }
}

impl TryFrom<String> for Measure {
    type Error = String;

    fn try_from(name: String) -> Result<Measure, String> {
        Measure::from_name(&name).ok_or_else(|| format!("`{name}` is not a measure"))
    }
}

/// Totals of one interval: 1 s for a host, [`Test::sample_ms`](super::Test::sample_ms) for instances and databases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Number of the test.
    pub test: u32,
    /// Place where the operations were counted.
    pub origin: Origin,
    /// Measure that was counted.
    pub measure: Measure,
    /// Start of the interval, ms.
    pub t_ms: u64,
    /// Length of the interval, ms.
    pub interval_ms: u64,
    /// Totals of the operations in the interval.
    pub totals: IoTotals,
}

impl Sample {
    /// Builds a sample from totals.
    pub fn new(
        test: u32,
        origin: Origin,
        measure: impl Into<Measure>,
        t_ms: u64,
        interval_ms: u64,
        totals: IoTotals,
    ) -> Sample {
        Sample { test, origin, measure: measure.into(), t_ms, interval_ms, totals }
    }
}

/// Latency distribution of one interval.
///
/// Record host-level histograms about sixty times per window but not more often than each second (they make the heat
/// map, and what a killed run has), and one per instance and database for the whole window. Readers merge what lies in
/// the window.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// Number of the test.
    pub test: u32,
    /// Place where the latencies were measured.
    pub origin: Origin,
    /// Measure of the distribution.
    pub measure: Measure,
    /// Start of the interval, ms.
    pub t_ms: u64,
    /// Length of the interval, ms.
    pub interval_ms: u64,
    /// Longest latency, exact, ns.
    pub latency_ns_max: u64,
    /// Latencies in microseconds as an HDR histogram, V2 encoding.
    pub hdr_v2: Vec<u8>,
}

impl Histogram {
    /// Builds a histogram row from `stats`; `None` if nothing was counted.
    pub fn new(
        test: u32,
        origin: Origin,
        measure: impl Into<Measure>,
        t_ms: u64,
        interval_ms: u64,
        stats: &IoStats,
    ) -> Option<Histogram> {
        let hdr_v2 = stats.hdr_v2()?;
        let latency_ns_max = stats.totals.latency_ns_max;
        Some(Histogram { test, origin, measure: measure.into(), t_ms, interval_ms, latency_ns_max, hdr_v2 })
    }
}

/// A counter or level that is not an I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counter {
    /// Waits of a page read for a free buffer during the interval.
    PageFaultStalls,
    /// Page fault stalls that storage of any speed would have, because the cache is too small for the load.
    SmallCacheStalls,
    /// Size of the page cache at the end of the interval.
    CacheBytes,
    /// Log generations closed during the interval.
    LogGenerations,
    /// Bytes of database pages that came into use during the interval.
    GrowthBytes,
    /// Processor time that the load generator used during the interval, all its threads, in ns.
    CpuBusyNs,
    /// Processor time that the load generator could have used, ns: processors that it may run on x interval.
    CpuAvailableNs,
    /// Processor time of the load generator's busiest thread during the interval, ns. A thread that is always busy is
    /// a limit even on a host with idle processors.
    CpuBusiestThreadNs,
    /// Processor time that everything on the host used during the interval, in ns.
    HostCpuBusyNs,
    /// Processor time that the host had: processors x interval, in ns.
    HostCpuAvailableNs,
    /// Memory that the host could have given to programs at the end of the interval.
    HostMemoryAvailableBytes,
    /// Processor time that other guests of the machine took from the host during the interval, in ns.
    HostCpuStolenNs,
    /// Time of the interval in which some task of the host waited for a processor, in ns.
    HostCpuPressureNs,
    /// Time of the interval by which the load generator woke later than it asked to, in ns: it was stopped, or got no
    /// processor.
    LateNs,
}

impl Counter {
    /// All counters.
    pub const ALL: [Counter; 14] = [
        Counter::PageFaultStalls,
        Counter::SmallCacheStalls,
        Counter::CacheBytes,
        Counter::LogGenerations,
        Counter::GrowthBytes,
        Counter::CpuBusyNs,
        Counter::CpuAvailableNs,
        Counter::CpuBusiestThreadNs,
        Counter::HostCpuBusyNs,
        Counter::HostCpuAvailableNs,
        Counter::HostMemoryAvailableBytes,
        Counter::HostCpuStolenNs,
        Counter::HostCpuPressureNs,
        Counter::LateNs,
    ];

    /// Stable name of the counter, as stored in `run.db` and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Counter::PageFaultStalls => "page_fault_stalls",
            Counter::SmallCacheStalls => "small_cache_stalls",
            Counter::CacheBytes => "cache_bytes",
            Counter::LogGenerations => "log_generations",
            Counter::GrowthBytes => "growth_bytes",
            Counter::CpuBusyNs => "cpu_busy_ns",
            Counter::CpuAvailableNs => "cpu_available_ns",
            Counter::CpuBusiestThreadNs => "cpu_busiest_thread_ns",
            Counter::HostCpuBusyNs => "host_cpu_busy_ns",
            Counter::HostCpuAvailableNs => "host_cpu_available_ns",
            Counter::HostMemoryAvailableBytes => "host_memory_available_bytes",
            Counter::HostCpuStolenNs => "host_cpu_stolen_ns",
            Counter::HostCpuPressureNs => "host_cpu_pressure_ns",
            Counter::LateNs => "late_ns",
        }
    }

    /// Whether the value is a level at the end of the interval, rather than an increase during it.
    pub fn is_level(self) -> bool {
        matches!(self, Counter::CacheBytes | Counter::HostMemoryAvailableBytes)
    }

    /// The counter with this stable name.
    pub fn from_name(name: &str) -> Option<Counter> {
        Counter::ALL.into_iter().find(|counter| counter.name() == name)
    }
}

/// Value of a counter over one interval; the intervals are those of [`Sample`].
#[derive(Debug, Clone, PartialEq)]
pub struct CounterSample {
    /// Number of the test.
    pub test: u32,
    /// Place where the counter was read.
    pub origin: Origin,
    /// Counter of the value.
    pub counter: Counter,
    /// Start of the interval, ms.
    pub t_ms: u64,
    /// Length of the interval, ms.
    pub interval_ms: u64,
    /// Increase during the interval, or level at its end, depending on the counter.
    pub value: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measure_and_counter_is_found_by_its_stable_name() {
        let of_classes = IoClass::ALL
            .into_iter()
            .flat_map(|class| [Measure::Io(class), Measure::Waiting(class), Measure::Held(class)]);
        for measure in of_classes.chain([Measure::Batch, Measure::BatchIntended]) {
            assert_eq!(Measure::from_name(measure.name()), Some(measure));
        }
        assert_eq!(Measure::Waiting(IoClass::LogWrite).name(), "log_write_waiting");
        assert_eq!(Measure::from_name("batch_waiting"), None);
        for counter in Counter::ALL {
            assert_eq!(Counter::from_name(counter.name()), Some(counter));
        }
        assert_eq!(Measure::try_from("reads".to_owned()), Err("`reads` is not a measure".to_owned()));
    }
}

//! `[qualification]`: the rules by which a run is a qualification, where they are not the published ones.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::TestKind;

/// `[qualification]`: rules of the solution's own for the grade *qualified*; the published rule for each key that is
/// not given. Reports list every rule that accepts more than the published one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Qualification {
    /// Kinds of tests that the run must carry out.
    pub tests: Option<Vec<TestKind>>,
    /// Least transactional I/O achieved, of the target, in percent.
    pub target_met_percent: Option<f64>,
    /// Most that a latency limit may be, in percent of the published one.
    pub latency_limits_percent: Option<f64>,
    /// Least measured window of the test `performance`, in seconds.
    pub performance_window_s: Option<f64>,
    /// Least measured window of the test `stress`, in seconds.
    pub stress_window_s: Option<f64>,
    /// Least size of the databases, as a multiple of their cache.
    pub cache_ratio: Option<f64>,
    /// Least size of a database, in percent of the planned one.
    pub database_size_percent: Option<f64>,
    /// Least closed logs that a log checksum verifies, per instance.
    pub verified_logs: Option<f64>,
    /// Least logs that a soft recovery replays, per instance.
    pub recovered_logs: Option<f64>,
    /// Least share of the caches that is filled when the window opens, in percent.
    pub cache_filled_percent: Option<f64>,
    /// Least share of the databases that background maintenance reads, in percent.
    pub maintained_percent: Option<f64>,
    /// Least share of the hosts whose kernel log is read throughout the run, in percent.
    pub kernel_log_percent: Option<f64>,
    /// Least share of the volumes that do not hold the evidence of the run, in percent.
    pub evidence_apart_percent: Option<f64>,
    /// Least transactional I/O of the slowest host, of the fastest host with equal databases, in percent.
    pub equal_hosts_percent: Option<f64>,
    /// Most of the window for which the load generator may be kept from running, in percent.
    pub starved_percent: Option<f64>,
    /// Least and most database page reads per batch.
    pub reads_per_batch: Option<[f64; 2]>,
    /// Least and most database page writes per batch.
    pub writes_per_batch: Option<[f64; 2]>,
    /// Least and most log writes per batch.
    pub log_writes_per_batch: Option<[f64; 2]>,
    /// Least and most log files per batch, in KiB.
    pub log_file_kib_per_batch: Option<[f64; 2]>,
    /// Most that a quarter of the window may differ from its mean in transactional I/O, in percent.
    pub throughput_change_percent: Option<f64>,
    /// Largest deviation of a quarter of the window from its mean in database writes per second, percent.
    pub write_change_percent: Option<f64>,
    /// Least database writes in the first sample of the window, in percent of their mean.
    pub write_start_percent: Option<f64>,
    /// Most that a quarter of the window may differ from its mean in a latency, in percent.
    pub latency_change_percent: Option<f64>,
}

impl Qualification {
    /// Own ranges, by the names of their conditions: least value, largest value, or both.
    pub fn ranges(&self) -> Vec<(&'static str, Option<f64>, Option<f64>)> {
        let least = |name, value: Option<f64>| value.map(|value| (name, Some(value), None));
        let most = |name, value: Option<f64>| value.map(|value| (name, None, Some(value)));
        let both = |name, range: Option<[f64; 2]>| range.map(|[least, most]| (name, Some(least), Some(most)));
        [
            least("target_met_percent", self.target_met_percent),
            most("latency_limits_percent", self.latency_limits_percent),
            least("performance_window_s", self.performance_window_s),
            least("stress_window_s", self.stress_window_s),
            least("cache_ratio", self.cache_ratio),
            least("database_size_percent", self.database_size_percent),
            least("verified_logs", self.verified_logs),
            least("recovered_logs", self.recovered_logs),
            least("cache_filled_percent", self.cache_filled_percent),
            least("maintained_percent", self.maintained_percent),
            least("kernel_log_percent", self.kernel_log_percent),
            least("evidence_apart_percent", self.evidence_apart_percent),
            least("equal_hosts_percent", self.equal_hosts_percent),
            most("starved_percent", self.starved_percent),
            both("reads_per_batch", self.reads_per_batch),
            both("writes_per_batch", self.writes_per_batch),
            both("log_writes_per_batch", self.log_writes_per_batch),
            both("log_file_kib_per_batch", self.log_file_kib_per_batch),
            most("throughput_change_percent", self.throughput_change_percent),
            most("write_change_percent", self.write_change_percent),
            least("write_start_percent", self.write_start_percent),
            most("latency_change_percent", self.latency_change_percent),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

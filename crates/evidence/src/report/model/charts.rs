//! What charts and maps show.

use results::Origin;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A line chart. Times are seconds since the window (or the test, without a window) started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Chart {
    /// Title.
    pub title: String,
    /// Unit of the values.
    pub unit: String,
    /// Length of the time axis.
    pub duration_s: f64,
    /// Seconds that one value stands for.
    pub step_s: f64,
    /// Lines.
    pub lines: Vec<ChartLine>,
    /// Limits to draw as lines.
    pub limits: Vec<ChartLimit>,
}

/// A line of a chart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChartLine {
    /// Name.
    pub name: String,
    /// One value per step; null where there was none.
    pub values: Vec<Option<f64>>,
}

/// A limit in a chart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChartLimit {
    /// Name.
    pub name: String,
    /// Value.
    pub value: f64,
}

/// Heat map of latencies over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyMap {
    /// Stable name of the measure.
    pub measure: String,
    /// Length of the time axis.
    pub duration_s: f64,
    /// Seconds that one column stands for.
    pub step_s: f64,
    /// Latencies between the rows in ms, ascending; one more than there are rows.
    pub bounds_ms: Vec<f64>,
    /// Number of operations per column and row, lowest latency first.
    pub columns: Vec<Vec<u64>>,
}

/// Mean read latency of each instance over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InstanceMap {
    /// Length of the time axis.
    pub duration_s: f64,
    /// Seconds that one value stands for.
    pub step_s: f64,
    /// A row per instance.
    pub rows: Vec<InstanceMapRow>,
}

/// One instance over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InstanceMapRow {
    /// Host and instance.
    #[serde(flatten)]
    pub origin: Origin,
    /// Mean read latency in ms per step; null where nothing was read.
    pub latency_ms_mean: Vec<Option<f64>>,
}

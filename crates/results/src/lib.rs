//! What a run measures: I/O classes and counters, series, histograms, events, verdicts, and the arithmetic that judges
//! them ([`judge`], [`grade`]). The engine counts into [`IoCounters`]; the campaign turns the counts into rows for a
//! [`Recorder`]; the evidence crate stores and shows the rows.

pub mod batch_means;
mod counters;
mod day;
pub mod figures;
pub mod grade;
pub mod judge;
mod merge;
mod recorder;
mod rows;

pub use counters::{ClassTotals, Direction, IoClass, IoCounters, IoStats, IoTotals};
pub use day::Day;
pub use grade::{Claim, Doubt, Grade, Rule};
pub use recorder::{RecordError, Recorder, Row};
pub use rows::{
    Backup, Checksum, Comparison, Counter, CounterSample, Database, DatabaseSize, Ending, Environment, Event,
    Histogram, Host, Instance, Limit, Measure, Origin, Outcome, PagesRead, Parameter, Recovery, RecoveryWork,
    Run, Sample, Severity, StoragePart, Test, TuningStep, Verdict, Volume, WorldKind,
};

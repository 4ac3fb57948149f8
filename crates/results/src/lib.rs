//! What a run measures, as types only: I/O classes and counters, series, histograms, events, verdicts.
//! The engine counts into [`IoCounters`]; the campaign turns them into rows for a [`Recorder`]; the evidence crate
//! stores and shows them.

pub mod batch_means;
mod counters;
pub mod figures;
pub mod grade;
mod merge;
mod recorder;
mod rows;

pub use counters::{Direction, IoClass, IoCounters, IoStats, IoTotals};
pub use grade::{Claim, Grade, Rule};
pub use recorder::{RecordError, Recorder, Row};
pub use rows::{
    Backup, Checksum, Comparison, Counter, CounterSample, Database, DatabaseSize, Ending, Environment, Event,
    Histogram, Host, Instance, Limit, Measure, Origin, Outcome, PagesRead, Parameter, Recovery, Run, Sample,
    Severity, StoragePart, Test, TuningStep, Verdict, Volume, WorldKind,
};

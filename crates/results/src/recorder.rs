//! The way from measuring to keeping: the campaign records rows, the evidence crate stores them.

use crate::grade::{Claim, Rule};
use crate::rows::*;

macro_rules! rows {
    ($($row:ident),+ $(,)?) => {
        /// Row of evidence, of any kind.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Row {
            $(
                #[doc = concat!("See [`", stringify!($row), "`].")]
                $row($row),
            )+
        }
        $(
            impl From<$row> for Row {
                fn from(row: $row) -> Row {
                    Row::$row(row)
                }
            }
        )+
    };
}

rows!(
    Run,
    Rule,
    Claim,
    Host,
    Environment,
    Instance,
    Database,
    Volume,
    Test,
    DatabaseSize,
    Sample,
    CounterSample,
    Histogram,
    TuningStep,
    Checksum,
    Backup,
    Recovery,
    StoragePart,
    Event,
    Verdict,
);

impl Row {
    /// Test to which the row belongs; `None` for rows of the run.
    pub fn test(&self) -> Option<u32> {
        match self {
            Row::Run(_)
            | Row::Rule(_)
            | Row::Claim(_)
            | Row::Host(_)
            | Row::Environment(_)
            | Row::Instance(_)
            | Row::Database(_)
            | Row::Volume(_) => None,
            Row::Test(row) => Some(row.ordinal),
            Row::DatabaseSize(row) => Some(row.test),
            Row::Sample(row) => Some(row.test),
            Row::CounterSample(row) => Some(row.test),
            Row::Histogram(row) => Some(row.test),
            Row::TuningStep(row) => Some(row.test),
            Row::Checksum(row) => Some(row.test),
            Row::Backup(row) => Some(row.test),
            Row::Recovery(row) => Some(row.test),
            Row::StoragePart(row) => Some(row.test),
            Row::Event(row) => row.test,
            Row::Verdict(row) => row.test,
        }
    }
}

/// Receiver of the rows of a run.
///
/// The [`Run`] comes first. Recording returns at once: a slow store does not slow what is measured. A row that
/// could not be kept is an error of this call or of a later one, [`Recorder::flush`] at the latest.
pub trait Recorder {
    /// Stores a row.
    fn record(&mut self, row: Row) -> Result<(), RecordError>;

    /// Returns when all rows so far are stored.
    fn flush(&mut self) -> Result<(), RecordError>;
}

/// Recorder in memory: rows in the order of recording.
impl Recorder for Vec<Row> {
    fn record(&mut self, row: Row) -> Result<(), RecordError> {
        self.push(row);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), RecordError> {
        Ok(())
    }
}

/// Error of a recorder: why a row was not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the results cannot be kept: {0}")]
pub struct RecordError(pub String);

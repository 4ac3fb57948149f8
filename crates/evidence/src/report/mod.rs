//! The report of a run: [`RunData`] -> [`Report`] -> JSON, HTML, JUnit.
//!
//! Invariants
//! 1. HTML and JUnit are made from the [`Report`] alone, so every number in them is in `report.json`.
//! 2. Text from outside (names, notes, paths) never becomes markup.
//! 3. The grade of a run follows from its rows alone. A run that was killed, interrupted or not judged is `incomplete`.

mod build;
mod charts;
mod checks;
mod conditions;
mod equal_hosts;
mod explain;
mod first_page;
mod host_system;
mod hours;
mod html;
mod junit;
mod model;
mod samples;
mod sections;
mod svg;
pub(crate) mod text;
mod verdict;
mod volumes;
mod window;

use std::path::{Path, PathBuf};

pub use conditions::of_tables as conditions_of_tables;
pub use explain::{CAUSES, of_rule as remedy_of_rule, unsteady};
pub use host_system::most_starved;
pub use model::*;
pub use svg::line_chart;
pub use text::{bytes, counted, duration, iso_8601, number, significant, utc_stamp};
pub use verdict::{PREDICTED, counts};

pub(crate) use sections::verdict_row;
pub(crate) use verdict::broken;

use results::{IoTotals, Measure, Test};

use crate::run_data::RunData;

/// The style sheet of all pages: light, dark and for paper.
pub const STYLE: &str = include_str!("../../templates/style.css");

/// What was counted in one sample of a measured window, all hosts together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleFigures {
    /// Start, seconds since the window started.
    pub start_s: f64,
    /// Length.
    pub seconds: f64,
    /// Operations, bytes and latencies that were counted.
    pub totals: IoTotals,
}

impl SampleFigures {
    /// Operations per second of the sample.
    pub fn per_s(&self) -> f64 {
        self.totals.count as f64 / self.seconds
    }
}

/// Latencies of one host in one interval of a measured window.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// The host.
    pub host: String,
    /// Middle of the interval, seconds since the window started.
    pub middle_s: f64,
    /// Lowest and highest latency of each bucket in ms, and its count.
    pub buckets: Vec<(f64, f64, u64)>,
}

/// The measured window of a test, interval by interval, for comparisons.
pub struct Measured<'a>(window::TestView<'a>);

impl<'a> Measured<'a> {
    /// Finds the window and its samples.
    pub fn new(data: &'a RunData, test: &'a Test) -> Measured<'a> {
        Measured(window::TestView::new(data, test))
    }

    /// Length of the window in seconds.
    pub fn seconds(&self) -> f64 {
        self.0.span.seconds()
    }

    /// Figures of `measures` taken together, sample by sample. The samples are those that latency maxima are judged
    /// by.
    pub fn samples(&self, measures: &[Measure]) -> Vec<SampleFigures> {
        let totals = self.0.sample_totals(window::Scope::All, measures);
        let samples = totals.into_iter().enumerate().map(|(n, totals)| SampleFigures {
            start_s: self.0.samples.start_ms(n).saturating_sub(self.0.span.start_ms) as f64 / 1e3,
            seconds: self.0.samples.seconds(n),
            totals,
        });
        samples.collect()
    }

    /// Latency distributions of a measure, from which its percentiles are taken.
    pub fn distributions(&self, measure: Measure) -> Result<Vec<Distribution>, ReportError> {
        let slices = self.0.slices_by_host(measure);
        slices
            .map(|(host, slice)| {
                let hdr = window::decode(slice)?;
                let ms = |us: u64| us as f64 / 1e3;
                let middle_ms = samples::Moment::middle_ms(slice).saturating_sub(self.0.span.start_ms);
                let buckets = hdr.iter_recorded().map(|bucket| {
                    let value = bucket.value_iterated_to();
                    (
                        ms(hdr.lowest_equivalent(value)),
                        ms(hdr.highest_equivalent(value)),
                        bucket.count_at_value(),
                    )
                });
                Ok(Distribution {
                    host: host.to_owned(),
                    middle_s: middle_ms as f64 / 1e3,
                    buckets: buckets.collect(),
                })
            })
            .collect()
    }
}

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A stored latency distribution is not valid HDR V2.
    #[error("run.db is damaged: a latency distribution cannot be decoded")]
    Histogram,
    /// A file could not be written.
    #[error("{}: {source}", path.display())]
    Write {
        /// The file that could not be written.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The HTML template failed.
    #[error("report.html: {0}")]
    Page(#[from] minijinja::Error),
    /// The text is not JSON, or lacks a field that a report of its version has.
    #[error("{0}")]
    Damaged(#[from] serde_json::Error),
    /// The text is JSON, but not a report.
    #[error("it is no report of proofload")]
    NoReport,
    /// The report has a version that this program does not read.
    #[error("it has version {0} of report.json; this program reads version {VERSION}", VERSION = Report::VERSION)]
    Version(serde_json::Value),
}

impl Report {
    /// Value of the field `format` of `report.json`.
    pub const FORMAT: &str = "proofload-report";
    /// Version of `report.json` that this program writes and reads.
    pub const VERSION: u32 = 1;
    /// Version of this program, which a report states.
    pub const PROGRAM: &str = env!("CARGO_PKG_VERSION");

    /// Makes the report of a run from its rows.
    pub fn new(data: &RunData) -> Result<Report, ReportError> {
        build::report(data)
    }

    /// Reads a `report.json`.
    ///
    /// # Errors
    /// The text is no report, one of an unknown version, or damaged.
    pub fn read(text: &str) -> Result<Report, ReportError> {
        let document: serde_json::Value = serde_json::from_str(text)?;
        if document["format"] != Report::FORMAT {
            return Err(ReportError::NoReport);
        }
        // First: another version need not have the same fields.
        if document["version"] != Report::VERSION {
            return Err(ReportError::Version(document["version"].clone()));
        }
        Ok(serde_json::from_value(document)?)
    }

    /// The report as the text of `report.json`.
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a report has only text keys");
        text.push('\n');
        text
    }

    /// The JSON schema of `report.json`.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(Report).to_value()
    }

    /// The report as a page, `report.html`.
    pub fn html(&self) -> Result<String, ReportError> {
        html::page(self)
    }

    /// The report as JUnit XML, `junit.xml`.
    pub fn junit(&self) -> Result<String, ReportError> {
        junit::xml(self)
    }

    /// Writes `report.json`, `report.html` and `junit.xml` into a folder.
    pub fn write(&self, folder: &Path) -> Result<(), ReportError> {
        for (name, text) in
            [("report.json", self.json()), ("report.html", self.html()?), ("junit.xml", self.junit()?)]
        {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(|source| ReportError::Write { path, source })?;
        }
        Ok(())
    }
}

//! Evidence of others in our result model: reports of the load generator (HTML), its configuration (XML),
//! papers (text).
//!
//! Invariants
//! 1. Any bytes give facts or an error that names the cause; nothing panics and nothing is guessed.
//! 2. A document that was cut off is refused, not half imported.

pub mod config;
pub mod counters;
mod document;
mod fields;
mod fio;
pub mod group;
mod judged;
mod report;
mod rows;
mod table;

pub use document::MOST_BYTES;
pub use rows::{About, rows};
pub use table::Reason;

use crate::printed_figures::{Evidence, TestFigures};

/// Why a foreign file could not be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The file has no report of Jetstress.
    #[error(
        "no report of the load generator was found in it: neither a test result nor a table of I/O, checksums, backups or recoveries"
    )]
    NoReport,
    /// The file ends before the report does.
    #[error("the document ends before </html>: it was cut off")]
    CutOff,
    /// A report in the file lacks its end.
    #[error(
        "the {kind} report has no {missing}: it was cut off, or it is not a report of the load generator"
    )]
    Incomplete {
        /// Kind of the incomplete report.
        kind: String,
        /// The part that is missing.
        missing: &'static str,
    },
    /// The text is neither UTF-8 nor UTF-16.
    #[error("it is neither UTF-8 nor UTF-16 text")]
    Encoding,
    /// The file is larger than any report can be.
    #[error("it is larger than {} MiB", MOST_BYTES >> 20)]
    TooLarge,
    /// The file is not a JSON result of fio.
    #[error("it is no whole result of fio: {0}")]
    Fio(String),
    /// The configuration is not valid XML.
    #[error("it is no XML: {0}")]
    Xml(String),
    /// The XML is not a configuration of Jetstress.
    #[error("it is no configuration of the load generator: {0}")]
    Config(String),
    /// The counter logs have no hour with enough samples.
    #[error("no hour has reads and writes of a database for most of its time")]
    NoHour,
    /// Tables of the calculator are damaged or contradict each other.
    #[error("{}", told(.0))]
    Tables(Vec<Reason>),
}

/// The reasons as lines below each other.
fn told(reasons: &[Reason]) -> String {
    let lines: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// The content of a foreign file, by kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Foreign {
    /// Reports of Jetstress or results of fio, as printed figures.
    Reports(Vec<TestFigures>),
    /// A configuration of Jetstress, as the text of a solution file.
    Solution(String),
    /// A performance-counter log, unparsed: several logs make one profile.
    Counters(Vec<u8>),
}

/// Recognises and reads a foreign file of any kind.
pub fn parse(bytes: &[u8]) -> Result<Foreign, ImportError> {
    if counters::is_counters(bytes) {
        return Ok(Foreign::Counters(bytes.to_owned()));
    }
    if bytes.len() > MOST_BYTES {
        return Err(ImportError::TooLarge);
    }
    let text = decode(bytes)?;
    if fio::is_fio(&text) {
        return fio::test(&text).map(|test| Foreign::Reports(vec![test]));
    }
    let start = text.trim_start().to_ascii_lowercase();
    if start.starts_with("<!doctype html") || start.starts_with("<html") {
        return html_reports(&text).map(Foreign::Reports);
    }
    if start.starts_with("<?xml") || start.starts_with("<configuration") {
        // Reports of some versions are XHTML with an XML declaration.
        if start.contains("<html") {
            return html_reports(&text).map(Foreign::Reports);
        }
        return config::solution(&text).map(Foreign::Solution);
    }
    let tests = report::read(&document::text(&text));
    if tests.is_empty() { Err(ImportError::NoReport) } else { Ok(Foreign::Reports(tests)) }
}

fn html_reports(text: &str) -> Result<Vec<TestFigures>, ImportError> {
    let (blocks, complete) = document::html(text);
    let tests = report::read(&blocks);
    if !complete {
        return Err(if tests.is_empty() { ImportError::NoReport } else { ImportError::CutOff });
    }
    if tests.is_empty() {
        return Err(ImportError::NoReport);
    }
    for test in &tests {
        let load = results::grade::is_load(&test.kind);
        if load && test.transactional.is_empty() {
            let missing = "table of transactional I/O";
            return Err(ImportError::Incomplete { kind: test.kind.clone(), missing });
        }
    }
    Ok(tests)
}

/// Decodes UTF-8, or UTF-16 with a byte order mark, as Windows tools write it.
fn decode(bytes: &[u8]) -> Result<String, ImportError> {
    let wide = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        String::from_utf16(&units).map_err(|_| ImportError::Encoding)
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => wide(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => {
            std::str::from_utf8(rest).map(str::to_owned).map_err(|_| ImportError::Encoding)
        }
        _ => std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| ImportError::Encoding),
    }
}

/// Joins the reports of several files into one piece of evidence; servers are numbered by the names of their machines.
/// A page that is given twice counts once.
pub fn gather(title: &str, pages: Vec<TestFigures>) -> Evidence {
    let mut tests: Vec<TestFigures> = Vec::new();
    for page in pages {
        let is_again = page.start.is_some() && tests.contains(&page);
        tests.extend((!is_again).then_some(page));
    }
    let mut machines: Vec<String> = Vec::new();
    let mut kinds: Vec<(String, u32)> = Vec::new();
    for test in &mut tests {
        let server = match machines.iter().position(|machine| *machine == test.machine) {
            Some(at) => at,
            None => {
                machines.push(test.machine.clone());
                machines.len() - 1
            }
        };
        test.server = server as u32 + 1;
        let nth = match kinds.iter_mut().find(|(kind, _)| *kind == test.kind) {
            Some((_, nth)) => {
                *nth += 1;
                *nth
            }
            None => {
                kinds.push((test.kind.clone(), 1));
                1
            }
        };
        test.id = format!("{}-{nth}", test.kind);
    }
    let mut evidence = Evidence { schema_version: 1, test: tests, ..Evidence::default() };
    evidence.solution.title = title.to_owned();
    evidence.solution.servers_tested = Some(machines.len() as f64);
    let engine =
        evidence.test.iter().map(|test| test.ese_version.clone()).find(|version| !version.is_empty());
    evidence.solution.exchange_version = generation(engine.as_deref().unwrap_or_default()).to_owned();
    evidence.solution.ese_version = engine.unwrap_or_default();
    evidence
}

/// The generation of Exchange that an engine version belongs to.
fn generation(engine: &str) -> &'static str {
    let mut parts = engine.split('.').map(|part| part.trim().parse::<u32>().unwrap_or(0));
    match (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) {
        (6, _) => "2003",
        (8, _) => "2007",
        (14, _) => "2010",
        (15, 0) => "2013",
        (15, 1) => "2016",
        (15, _) => "2019",
        _ => "",
    }
}

//! Opening evidence of any kind: run folders, `run.db`, `report.json`, facts as printed (`published/*.toml`).

use std::path::{Path, PathBuf};

use evidence::attestation::{self, ATTESTATION};
use evidence::{Chain, Report, ReportError, RunData, StoreError, misfit};

use crate::lint::Beside;
use crate::printed_figures::Evidence;

/// Name of the file in the folder of an imported run with the printed figures.
pub const PRINTED: &str = "evidence.toml";

/// A piece of evidence that was opened.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// The run folder of a measured, simulated or imported run.
    Run {
        /// All rows of its `run.db`.
        data: Box<RunData>,
        /// The report that the rows give.
        report: Box<Report>,
        /// The files beside its `run.db`.
        beside: Box<Beside>,
        /// The printed figures, if the run was imported.
        printed: Option<Box<Evidence>>,
    },
    /// A `report.json` without its `run.db`.
    Report(Box<Report>),
    /// Printed figures (.toml).
    Printed(Box<Evidence>),
}

/// Why evidence could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file could not be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The `run.db` could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No report can be made of the rows.
    #[error("{}: {source}", path.display())]
    Report {
        /// The run folder.
        path: PathBuf,
        /// The reason.
        source: ReportError,
    },
    /// The content of the file is not what its name says.
    #[error("{}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The file is no kind of evidence that this program knows.
    #[error("{} is neither a run folder, run.db, report.json nor published figures (.toml)", .0.display())]
    Unknown(PathBuf),
}

/// Opens evidence: a run folder, `run.db`, `report.json` or printed figures.
pub fn open(path: &Path) -> Result<Source, SourceError> {
    if path.is_dir() {
        return if path.join("run.db").is_file() {
            run(&path.join("run.db"))
        } else {
            Err(SourceError::Unknown(path.to_owned()))
        };
    }
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("db") => run(path),
        Some("json") => {
            let text = read(path)?;
            Report::read(&text)
                .map(|report| Source::Report(Box::new(report)))
                .map_err(|source| SourceError::Report { path: path.to_owned(), source })
        }
        Some("toml") => printed(path).map(|evidence| Source::Printed(Box::new(evidence))),
        _ if path.exists() => Err(SourceError::Unknown(path.to_owned())),
        _ => read(path).and(Err(SourceError::Unknown(path.to_owned()))),
    }
}

fn run(path: &Path) -> Result<Source, SourceError> {
    let data = evidence::load(path)?;
    let report =
        Report::new(&data).map_err(|source| SourceError::Report { path: path.to_owned(), source })?;
    let neighbour = |name: &str| Some(path.with_file_name(name)).filter(|file| file.is_file());
    let text = |name: &str| neighbour(name).map(|file| read(&file)).transpose();
    let folder = path.parent().unwrap_or(Path::new("."));
    let beside = Beside {
        json: text("report.json")?,
        html: text("report.html")?,
        junit: text("junit.xml")?,
        attestation: text(ATTESTATION)?.and_then(|text| attestation::misfit(&report, folder, &text)),
        unsealed: unsealed(folder),
    };
    let facts = neighbour(PRINTED).map(|file| printed(&file)).transpose()?;
    Ok(Source::Run {
        data: Box::new(data),
        report: Box::new(report),
        beside: Box::new(beside),
        printed: facts.map(Box::new),
    })
}

/// Files of a run folder that are neither sealed nor compared with run.db: journals of a drill, logs of a fleet.
fn unsealed(folder: &Path) -> Vec<String> {
    const COVERED: [&str; 5] = ["report.json", "report.html", "junit.xml", ATTESTATION, PRINTED];
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for path in std::fs::read_dir(&at).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(name) = path.strip_prefix(folder) {
                found.push(name.display().to_string());
            }
        }
    }
    // SQLite keeps files of its own beside run.db until that is closed.
    let is_rows = |name: &String| name.rsplit('/').next().is_some_and(|file| file.starts_with("run.db"));
    found.retain(|name| !COVERED.contains(&name.as_str()) && !is_rows(name));
    found.sort();
    found
}

fn printed(path: &Path) -> Result<Evidence, SourceError> {
    let evidence: Evidence = toml::from_str(&read(path)?).map_err(|error| damaged(path, error.message()))?;
    match evidence.schema_version {
        1 => Ok(evidence),
        0 => Err(damaged(
            path,
            "it has no schema_version, so it holds no published figures (a solution file?)",
        )),
        version => Err(damaged(path, format!("schema_version is {version}, this program reads 1"))),
    }
}

fn read(path: &Path) -> Result<String, SourceError> {
    std::fs::read_to_string(path).map_err(|source| SourceError::Read { path: path.to_owned(), source })
}

fn damaged(path: &Path, what: impl ToString) -> SourceError {
    SourceError::Damaged { path: path.to_owned(), what: what.to_string() }
}

impl Source {
    /// The result of checking the seals; `None` without a `run.db`.
    pub fn seals(&self) -> Option<&Chain> {
        match self {
            Source::Run { data, .. } => Some(&data.seals),
            Source::Report(_) | Source::Printed(_) => None,
        }
    }

    /// Files of its folder that neither a seal nor a comparison covers.
    pub fn unsealed_files(&self) -> &[String] {
        match self {
            Source::Run { beside, .. } => &beside.unsealed,
            Source::Report(_) | Source::Printed(_) => &[],
        }
    }

    /// The sentence that every reader shows first if the rows contradict their seals.
    pub fn misfit(&self) -> Option<String> {
        match self {
            Source::Run { report, .. } | Source::Report(report) => misfit(&report.run.seals_broken),
            Source::Printed(_) => None,
        }
    }

    /// Checks the evidence against itself and its solution.
    pub fn lint(&self) -> Vec<crate::lint::Finding> {
        match self {
            Source::Run { data, report, beside, printed } => {
                let mut findings = crate::lint::lint_run(data, report, beside);
                findings.extend(printed.iter().flat_map(|printed| crate::lint::lint(printed)));
                findings
            }
            Source::Report(report) => crate::lint::lint_report(report),
            Source::Printed(evidence) => crate::lint::lint(evidence),
        }
    }
}

//! What commands answer with `--json`, where no other crate has a form for it. Each form carries its version.

use std::path::{Path, PathBuf};

use edb::verify::{Counts, Finding};
use evidence::Chain;
use evidence::report::{counted, number};
use schemars::JsonSchema;
use serde::Serialize;
use solution::{Mistake, SolutionError};

use crate::lint;

/// The answer of `check --json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Checked {
    /// Version of this answer's form.
    pub schema_version: u32,
    /// Name of the solution file.
    pub file: String,
    /// Name of the solution; none of a file with mistakes.
    pub solution: Option<String>,
    /// Every mistake in the file, in the order of its lines.
    pub mistakes: Vec<ToldMistake>,
    /// What each command would make of the file; empty for a file with mistakes.
    pub commands: Vec<Outlook>,
}

/// A mistake in the solution file or in a setting of the command line.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ToldMistake {
    /// Line of the file, from 1; none if the mistake is in a setting.
    pub line: Option<usize>,
    /// The setting of the command line, as it was given.
    pub setting: Option<String>,
    /// What is wrong.
    pub message: String,
    /// The remedy.
    pub help: Option<String>,
}

impl ToldMistake {
    /// All mistakes that were found in reading the file.
    pub fn all(error: &SolutionError) -> Vec<ToldMistake> {
        let told = |mistake: Mistake| ToldMistake {
            line: error.line_of_mistake(&mistake),
            setting: mistake.setting.as_ref().map(|setting| setting.text().to_owned()),
            message: mistake.message,
            help: mistake.help,
        };
        error.mistakes().map(told).collect()
    }
}

/// What a command would do with the solution file.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Outlook {
    /// The command.
    pub command: String,
    /// Whether the file has all that the command needs.
    pub ready: bool,
    /// What the command would do, or what it lacks.
    pub message: String,
    /// What to add to the file; none where nothing is missing.
    pub help: Option<String>,
    /// Line of the file that the message is about, from 1.
    pub line: Option<usize>,
}

impl Checked {
    /// The answer as text for the terminal.
    pub fn text(&self) -> String {
        let name = self.solution.as_deref().unwrap_or_default();
        let mut out = format!("{}: {name}\n", self.file);
        for Outlook { command, ready, message, help, line } in &self.commands {
            let word = if *ready { "ready" } else { "lacks" };
            let line = line.map_or(String::new(), |line| format!("line {line}: "));
            let help = help.as_ref().map_or(String::new(), |help| format!(" ({help})"));
            out += &format!("  {command:<24}{word}  {line}{message}{help}\n");
        }
        out
    }
}

/// The answer of `clean --json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Cleaned {
    /// Version of this answer's form.
    pub schema_version: u32,
    /// Whether nothing was removed, because `--dry-run` was given.
    pub dry_run: bool,
    /// The folders that were cleaned.
    pub folders: Vec<CleanedFolder>,
}

/// A folder after `clean`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CleanedFolder {
    /// Path of the folder.
    pub folder: PathBuf,
    /// Files that were removed; with `--dry-run`, that would be.
    pub removed: Vec<PathBuf>,
    /// Files that stay because Proofload did not make them.
    pub kept: Vec<PathBuf>,
}

/// The answer of `lint --json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Linted {
    /// Version of this answer's form.
    pub schema_version: u32,
    /// The findings in each piece of evidence, in the order of the command line.
    pub evidence: Vec<LintedEvidence>,
}

/// The findings of `lint` in one piece of evidence.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LintedEvidence {
    /// The file or folder.
    pub evidence: String,
    /// Contradictions in the evidence.
    pub findings: Vec<lint::Finding>,
    /// The result of checking the seals; none without a run.db.
    pub seals: Option<Chain>,
    /// Files of the run folder that neither a seal nor a comparison with run.db covers.
    pub unsealed_files: Vec<String>,
}

/// Most uncovered files that the text names one by one.
const FILES_SHOWN: usize = 6;

impl LintedEvidence {
    /// The findings and seals as text for the terminal.
    pub fn text(&self) -> String {
        let LintedEvidence { evidence, findings, seals, unsealed_files } = self;
        let mut text = format!("{evidence}: {}\n", if findings.is_empty() { "nothing found" } else { "" });
        for finding in findings {
            text += &format!("  {}: {}\n", finding.rule, finding.text);
            for figure in [&finding.one, &finding.other] {
                text += &format!("      {:<24} {}\n", figure.value, figure.place);
            }
        }
        if let Some(chain) = seals {
            text += &format!("  {}\n", seal_line(chain));
        }
        if !unsealed_files.is_empty() {
            let shown =
                unsealed_files.iter().take(FILES_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = unsealed_files.len().saturating_sub(FILES_SHOWN);
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            text += &format!("  no seal covers {shown}{more}\n");
        }
        text
    }
}

/// The line about the seals: what they prove, and what they cannot.
fn seal_line(chain: &Chain) -> String {
    if !chain.broken.is_empty() {
        return "its seals do not fit: see the findings".to_owned();
    }
    let Some(digest) = &chain.digest else {
        return "not sealed yet: the run was killed in its first test, or it goes on".to_owned();
    };
    let reach = match (chain.ended, chain.unsealed_tests.len()) {
        (true, _) => "to the end of the run".to_owned(),
        (false, 0) => "not to the end of the run".to_owned(),
        (false, open) => {
            let sealed = counted(chain.sealed_tests.len() as u64, "test");
            format!(
                "up to {sealed}; {} behind them and the run's end are not sealed",
                counted(open as u64, "test")
            )
        }
    };
    let signed = match &chain.signer {
        Some(key) => format!("signed by {key}; this does not show that the holder of the key ran the tests"),
        None => "not signed: a user who can write the file can change it and seal it again".to_owned(),
    };
    format!("sealed {reach}, last seal {digest}\n  {signed}")
}

/// The answer of `verify --json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Verified {
    /// Version of this answer's form.
    pub schema_version: u32,
    /// The database file.
    pub file: PathBuf,
    /// Whether every page is good.
    pub clean: bool,
    /// Counts of its pages.
    pub pages: Pages,
    /// The first pages with a fault.
    pub findings: Vec<WrongPage>,
    /// Number of pages with a fault beyond those listed.
    pub further_findings: u64,
    /// Remarks on the state of the file, and what a check of pages cannot see.
    pub notes: Vec<String>,
}

/// Counts of a database file's pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct Pages {
    /// Pages read.
    pub seen: u64,
    /// Pages with a wrong checksum or a broken structure, and pages of an older version (lost writes).
    pub bad: u64,
    /// Pages with one flipped bit, which the checksum can correct.
    pub correctable: u64,
    /// Pages that were never written.
    pub uninitialised: u64,
    /// Pages that hold the bytes of another page.
    pub wrong_number: u64,
    /// Highest version (dbtime) of a good page.
    pub highest_dbtime: u64,
}

/// A page with a fault.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WrongPage {
    /// Page number.
    pub page: u32,
    /// The fault in words.
    pub text: String,
}

/// The fault of a page in words; `None` for a good page.
pub fn describe_page(finding: Finding) -> Option<String> {
    match finding {
        Finding::Good { .. } | Finding::Uninitialised | Finding::Trailer => None,
        Finding::Lost => Some("was lost: it is zero, and the database uses it".into()),
        Finding::Correctable { .. } => Some("a single bit is flipped; it can be corrected".into()),
        Finding::Miscorrected => {
            Some("looks like a single flipped bit, but more are wrong; it cannot be corrected".into())
        }
        Finding::WrongNumber { claimed } => Some(format!("holds the bytes of page {claimed}")),
        Finding::Bad => Some("wrong checksum".into()),
        Finding::Damaged(damage) => Some(format!("right checksum, broken structure: {damage}")),
        Finding::Stale => {
            Some("right checksum, but not the version that the flush map names: a write was lost".into())
        }
        Finding::Foreign => Some("right checksum, but an entry is not one that was written".into()),
    }
}

impl Pages {
    /// The page counts of a check.
    pub fn of(counts: &Counts) -> Pages {
        Pages {
            seen: counts.seen,
            bad: counts.bad,
            correctable: counts.correctable,
            uninitialised: counts.uninitialised,
            wrong_number: counts.wrong_number,
            highest_dbtime: counts.dbtime_max,
        }
    }

    /// The page counts as a line for the terminal.
    pub fn text(&self) -> String {
        let Pages { seen, bad, correctable, uninitialised, wrong_number, highest_dbtime } = *self;
        let others = [(bad, "bad"), (correctable, "correctable"), (uninitialised, "uninitialised")];
        let others = others.map(|(count, what)| format!("{} {what}", number(count as f64, 0))).join(", ");
        let wrong_number = number(wrong_number as f64, 0);
        format!(
            "{} seen, {others}, {wrong_number} of a wrong number; highest dbtime {highest_dbtime}\n",
            counted(seen, "page")
        )
    }
}

/// The answer of `examples --json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Examples {
    /// Version of this answer's form.
    pub schema_version: u32,
    /// Example solution files that ship in the program.
    pub examples: Vec<Example>,
}

/// An example solution file that ships in the program.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Example {
    /// The name that `examples NAME` takes.
    pub name: String,
    /// What the file describes.
    pub about: String,
}

/// The answer of `import --json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Imported {
    /// Version of this answer's form.
    pub schema_version: u32,
    /// Number of tests in the imported run; none if only a configuration was imported.
    pub tests: u64,
    /// The run folder and its files that were written.
    #[serde(flatten)]
    pub made: Made,
}

/// The answer of `paper --json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Papered {
    /// Version of this answer's form.
    pub schema_version: u32,
    /// The folder of the paper and its files that were written.
    #[serde(flatten)]
    pub made: Made,
}

/// A folder and the files that a command has written into it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Made {
    /// The folder.
    pub folder: PathBuf,
    /// The files, as paths that begin with the folder.
    pub files: Vec<PathBuf>,
}

impl Made {
    /// Those of the files that lie in the folder.
    pub fn of(folder: &Path, names: &[impl AsRef<Path>]) -> Made {
        let files = names.iter().map(|name| folder.join(name)).filter(|file| file.exists()).collect();
        Made { folder: folder.to_owned(), files }
    }
}

/// The answer of `fleet init --json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FleetMade {
    /// Version of this answer's form.
    pub schema_version: u32,
    /// The folder that was made.
    pub folder: PathBuf,
    /// File with the controller's credentials.
    pub controller: PathBuf,
    /// Configuration file for nats-server.
    pub server_config: PathBuf,
    /// Credentials of the agents, one per host, in the order of the command line.
    pub agents: Vec<AgentFile>,
}

/// The credentials of one host's agent.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AgentFile {
    /// The host.
    pub host: String,
    /// File with its credentials.
    pub credentials: PathBuf,
}

impl FleetMade {
    /// The files that `fleet init` makes in a folder; those of hosts carry their names.
    pub fn of(folder: &Path, hosts: impl Iterator<Item = (String, String)>) -> FleetMade {
        FleetMade {
            schema_version: 1,
            folder: folder.to_owned(),
            controller: folder.join("controller.toml"),
            server_config: folder.join("nats-server.conf"),
            agents: hosts.map(|(host, file)| AgentFile { host, credentials: folder.join(file) }).collect(),
        }
    }
}

/// The answer of `crash-test listen --json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Heard {
    /// Version of this answer's form.
    pub schema_version: u32,
    /// File with the notes of durable commits.
    pub notes: PathBuf,
    /// Durable commits that the writer reported.
    pub durable_commits: u64,
}

/// The answer of `crash-test write --json`, when it ends without a crash.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Committed {
    /// Version of this answer's form.
    pub schema_version: u32,
    /// The folder that was written to.
    pub folder: PathBuf,
    /// Durable commits that the writer reported.
    pub durable_commits: u64,
}

/// The answer of `lint --rules --json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LintRules {
    /// Version of this answer's form.
    pub schema_version: u32,
    /// Every rule of `lint`.
    pub rules: Vec<LintRule>,
}

/// A rule of `lint`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LintRule {
    /// Stable name of the rule, as in findings.
    pub name: &'static str,
    /// What evidence must fulfil.
    pub demand: &'static str,
}

impl LintRules {
    /// Every rule of `lint`.
    pub fn all() -> LintRules {
        let rules = lint::RULES.iter().map(|&(name, demand)| LintRule { name, demand });
        LintRules { schema_version: 1, rules: rules.collect() }
    }

    /// The rules as text for the terminal, a line each.
    pub fn text(&self) -> String {
        self.rules.iter().map(|LintRule { name, demand }| format!("{name:<22} {demand}\n")).collect()
    }
}

//! What commands answer with `--json`, where no other crate has a form for it. Each form carries its version.

use std::path::{Path, PathBuf};

use edb::verify::{Counts, Finding};
use evidence::Chain;
use evidence::report::{counted, number};
use schemars::JsonSchema;
use serde::Serialize;
use solution::{Mistake, SolutionError};

use crate::lint;

/// What `check` answers.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Checked {
    /// Version of this form.
    pub schema_version: u32,
    /// Name of the file.
    pub file: String,
    /// Name of the solution; none of a file with mistakes.
    pub solution: Option<String>,
    /// Everything that is wrong with the file, in its order.
    pub mistakes: Vec<ToldMistake>,
    /// What each command would make of the file; nothing of a file with mistakes.
    pub commands: Vec<Outlook>,
}

/// A mistake of the file.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ToldMistake {
    /// Line of the file; none of a mistake in a setting.
    pub line: Option<usize>,
    /// The setting, as it was given.
    pub setting: Option<String>,
    /// What is wrong.
    pub message: String,
    /// The remedy.
    pub help: Option<String>,
}

impl ToldMistake {
    /// All mistakes that reading a file found.
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

/// What a command would make of the file.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Outlook {
    /// The command.
    pub command: String,
    /// The file says all that the command needs.
    pub ready: bool,
    /// What it would do, or what it lacks.
    pub message: String,
    /// What to add.
    pub help: Option<String>,
    /// Line of the file that is meant.
    pub line: Option<usize>,
}

impl Checked {
    /// The answer for people.
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

/// What `clean` answers.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Cleaned {
    /// Version of this form.
    pub schema_version: u32,
    /// Nothing was removed.
    pub dry_run: bool,
    /// The folders.
    pub folders: Vec<CleanedFolder>,
}

/// What became of a folder.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CleanedFolder {
    /// The folder.
    pub folder: PathBuf,
    /// Files that were removed, or would be.
    pub removed: Vec<PathBuf>,
    /// Files that proofload did not make.
    pub kept: Vec<PathBuf>,
}

/// What `lint` answers.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Linted {
    /// Version of this form.
    pub schema_version: u32,
    /// What was looked at, in the order of the command line.
    pub evidence: Vec<LintedEvidence>,
}

/// What was found in one piece of evidence.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LintedEvidence {
    /// The file or folder.
    pub evidence: String,
    /// What contradicts itself.
    pub findings: Vec<lint::Finding>,
    /// What the seals say; none without a run.db.
    pub seals: Option<Chain>,
    /// Files of the run's folder that neither a seal nor a comparison with run.db covers.
    pub unsealed_files: Vec<String>,
}

/// Most files that the text names one by one.
const FILES_SHOWN: usize = 6;

impl LintedEvidence {
    /// The findings and the seals for people.
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

/// What the seals say, and what they cannot say.
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

/// What `verify` answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Verified {
    /// Version of this form.
    pub schema_version: u32,
    /// The file.
    pub file: PathBuf,
    /// Nothing is wrong.
    pub clean: bool,
    /// Its pages.
    pub pages: Pages,
    /// The first pages with something wrong.
    pub findings: Vec<WrongPage>,
    /// How many more there are.
    pub further_findings: u64,
    /// What else there is to say.
    pub notes: Vec<String>,
}

/// Pages of a database file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct Pages {
    /// Pages read.
    pub seen: u64,
    /// With a wrong checksum or a broken structure, and lost ones.
    pub bad: u64,
    /// With a single flipped bit.
    pub correctable: u64,
    /// Never written.
    pub uninitialised: u64,
    /// With the bytes of another page.
    pub wrong_number: u64,
    /// Highest version of a good page.
    pub highest_dbtime: u64,
}

/// A page that is not right.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WrongPage {
    /// Its number.
    pub page: u32,
    /// What is wrong.
    pub text: String,
}

/// What is wrong with a page, in words; `None` if nothing is.
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
    /// The counts of a check.
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

    /// The counts as a line for people.
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

/// What `examples` answers.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Examples {
    /// Version of this form.
    pub schema_version: u32,
    /// The solution files inside the program.
    pub examples: Vec<Example>,
}

/// A solution file inside the program.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Example {
    /// The name that `examples NAME` takes.
    pub name: String,
    /// What the file describes.
    pub about: String,
}

/// What `import` answers.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Imported {
    /// Version of this form.
    pub schema_version: u32,
    /// Tests of the run; none of a configuration alone.
    pub tests: u64,
    /// The run folder and its files.
    #[serde(flatten)]
    pub made: Made,
}

/// What `paper` answers.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Papered {
    /// Version of this form.
    pub schema_version: u32,
    /// The folder of the paper and its files.
    #[serde(flatten)]
    pub made: Made,
}

/// A folder and the files that a command wrote into it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Made {
    /// The folder.
    pub folder: PathBuf,
    /// The files, as paths that begin with the folder.
    pub files: Vec<PathBuf>,
}

impl Made {
    /// Those of the files that are in the folder.
    pub fn of(folder: &Path, names: &[impl AsRef<Path>]) -> Made {
        let files = names.iter().map(|name| folder.join(name)).filter(|file| file.exists()).collect();
        Made { folder: folder.to_owned(), files }
    }
}

/// What `fleet init` answers.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FleetMade {
    /// Version of this form.
    pub schema_version: u32,
    /// The folder.
    pub folder: PathBuf,
    /// Credentials of the controller.
    pub controller: PathBuf,
    /// Configuration of nats-server.
    pub server_config: PathBuf,
    /// Credentials of the hosts, in the order of the command line.
    pub agents: Vec<AgentFile>,
}

/// The credentials of a host.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AgentFile {
    /// The host.
    pub host: String,
    /// Its file.
    pub credentials: PathBuf,
}

impl FleetMade {
    /// The files in a folder, those of hosts by their names below it.
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

/// What `crash-test listen` answers.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Heard {
    /// Version of this form.
    pub schema_version: u32,
    /// The file of the notes.
    pub notes: PathBuf,
    /// Durable commits that the writer reported.
    pub durable_commits: u64,
}

/// What `crash-test write` answers when it ends without a crash.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Committed {
    /// Version of this form.
    pub schema_version: u32,
    /// The folder that was written to.
    pub folder: PathBuf,
    /// Durable commits that the writer reported.
    pub durable_commits: u64,
}

/// What `lint --rules` answers.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LintRules {
    /// Version of this form.
    pub schema_version: u32,
    /// The rules.
    pub rules: Vec<LintRule>,
}

/// A rule of `lint`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LintRule {
    /// Its stable name, as in findings.
    pub name: &'static str,
    /// What it demands.
    pub demand: &'static str,
}

impl LintRules {
    /// Every rule.
    pub fn all() -> LintRules {
        let rules = lint::RULES.iter().map(|&(name, demand)| LintRule { name, demand });
        LintRules { schema_version: 1, rules: rules.collect() }
    }

    /// The rules for people, a line each.
    pub fn text(&self) -> String {
        self.rules.iter().map(|LintRule { name, demand }| format!("{name:<22} {demand}\n")).collect()
    }
}

//! The solution file: one description of a deployment that every command takes.
//!
//! The types of the file are plain data ([`SolutionFile`]): what is left out stays out, so that a reader can tell a wish
//! from a default. [`Solution::deployment`] turns them into the fully resolved [`Deployment`] that a run needs; the planner
//! resolves what it needs itself.
//!
//! Invariants
//! 1. Every error names one place in the text: the line that asks for what cannot be.
//! 2. An unknown key is an error, never ignored.
//! 3. The range of a number is checked when the file is read ([`ranges`]), so it is the same for every command.
//! 4. Nothing here touches a file: text in, data out.
//!
//! Limits: at most [`MAX_NAMES`] hosts, and as many volumes and instances per host.

mod array;
mod deployment;
mod drill;
mod error;
mod expand;
mod hardware;
mod locate;
mod profile;
mod programme;
mod qualification;
pub mod ranges;
mod resolve;
mod template;

pub use array::{
    Compression, Deduplication, ErasureCoding, ReadCache, RemoteCopy, ReplicatedStore, Scope, StorageArray,
    Store, WhenLinkLost,
};
pub use deployment::{
    DatabaseSpec, Deployment, EngineSpec, InstanceSpec, LoadMode, LoadSpec, TestSpec, Thresholds, VolumeSpec,
};
pub use drill::{Drill, DrillEvent, DrillEventKind, DrillSpec, Failure, MountDial, Partner};
pub use error::{Mistake, Result, SolutionError, did_you_mean};
pub use expand::{HostSpec, VolumeInfo, gib_of_disks};
pub use hardware::{
    BuildingBlock, Database, Databases, Disk, Enclosure, Host, Instance, Pool, PoolIo, Raid, Role, Site,
    Volume,
};
pub use profile::{Copies, Dag, Generation, LagLogRule, Layout, LayoutRow, Profile, RemoteRule};
pub use programme::{
    Engine, Fault, FaultKind, Fleet, Load, Mix, Sizing, Test, TestKind, ThresholdWishes, UnderTest, WhenLost,
};
pub use qualification::Qualification;

pub use template::matches as name_matches;

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most hosts in a file, and most volumes or instances on a host.
pub const MAX_NAMES: u32 = 4096;

/// Version of the solution file that this program reads.
pub const SCHEMA: u32 = 1;

/// `[solution]`: what this is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Title {
    /// Name of the solution.
    pub name: String,
    /// Version of this file format: 1.
    pub schema: u32,
    /// Where the facts come from, or anything else worth a line.
    pub description: Option<String>,
}

/// A solution file as it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SolutionFile {
    /// What this is.
    pub solution: Title,
    /// The users.
    pub profile: Option<Profile>,
    /// Database availability groups.
    pub dag: Option<Dag>,
    /// Copies of each database.
    pub copies: Option<Copies>,
    /// How copies lie on servers.
    pub layout: Option<Layout>,
    /// Sites; one without a name when there is none.
    #[serde(default)]
    pub site: Vec<Site>,
    /// Hosts.
    #[serde(default)]
    pub host: Vec<Host>,
    /// Enclosures, arrays, clusters.
    #[serde(default)]
    pub enclosure: Vec<Enclosure>,
    /// Kinds of disk.
    #[serde(default)]
    pub disk: Vec<Disk>,
    /// Disks that volumes share.
    #[serde(default)]
    pub pool: Vec<Pool>,
    /// The solution is one block of several.
    pub building_block: Option<BuildingBlock>,
    /// Volumes.
    #[serde(default)]
    pub volume: Vec<Volume>,
    /// Database instances of the test.
    #[serde(default)]
    pub instance: Vec<Instance>,
    /// How large the test databases are.
    pub sizing: Option<Sizing>,
    /// The part of the solution that is tested.
    pub under_test: Option<UnderTest>,
    /// How hard the databases are driven.
    pub load: Option<Load>,
    /// The database engine.
    #[serde(default)]
    pub engine: Engine,
    /// Latencies that must not be exceeded.
    pub thresholds: Option<ThresholdWishes>,
    /// Tests in their order.
    #[serde(default)]
    pub test: Vec<Test>,
    /// Rules by which a run is a qualification.
    pub qualification: Option<Qualification>,
    /// Faults that are expected.
    #[serde(default)]
    pub fault: Vec<Fault>,
    /// What a run on several hosts does when one of its parts is lost.
    #[serde(default)]
    pub fleet: Fleet,
    /// Model of the storage for simulated time.
    pub array: Option<StorageArray>,
}

/// A solution file and its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// What the file says.
    pub file: SolutionFile,
    text: String,
    file_name: String,
}

impl Solution {
    /// Reads the text of a solution file. `file_name` is only for messages.
    pub fn parse(text: &str, file_name: &str) -> Result<Solution> {
        let file: SolutionFile = read_toml(text, file_name, ranges::SOLUTION)?;
        let solution = Solution { file, text: text.to_owned(), file_name: file_name.to_owned() };
        if solution.file.solution.schema != SCHEMA {
            let wrong = solution.file.solution.schema;
            return Err(solution.error(
                "solution.schema",
                format!("the file is of format {wrong}, this program reads format {SCHEMA}"),
                Some(format!("write schema = {SCHEMA}")),
            ));
        }
        solution.faults()?;
        Ok(solution)
    }

    /// The text of the file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The name given to [`Solution::parse`].
    pub fn file_name(&self) -> &str {
        &self.file_name
    }

    /// An error at the value at `path` (`host[2].name`), or at its nearest table when the value is left to its default.
    pub fn error(&self, path: &str, message: impl Into<String>, help: Option<String>) -> Box<SolutionError> {
        error_at(&self.text, &self.file_name, path, message, help)
    }

    /// Where the value at `path` stands, if it does.
    pub fn span(&self, path: &str) -> Option<Range<usize>> {
        let place = locate::locate(&self.text, path);
        place.exact.then_some(place.span)
    }

    /// The line (from 1) of the value at `path` or of its nearest table.
    pub fn line(&self, path: &str) -> usize {
        self.error(path, "", None).line()
    }

    /// A name that counts, written out; an error at `path` when its template is wrong.
    pub fn numbered(&self, template: &str, n: u32, path: &str) -> Result<String> {
        self.name(template, template::Names { n, host: None }, path)
    }

    /// The JSON schema of the file.
    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(SolutionFile).to_value()
    }
}

/// An error at the value at `path` of a TOML text, or at its nearest table.
pub fn error_at(
    text: &str,
    file_name: &str,
    path: &str,
    message: impl Into<String>,
    help: Option<String>,
) -> Box<SolutionError> {
    Box::new(SolutionError {
        message: message.into(),
        help,
        span: locate::locate(text, path).span,
        others: Vec::new(),
        file_name: file_name.to_owned(),
        text: text.to_owned(),
    })
}

/// Reads any TOML file of ours, with the same messages as a solution file, and numbers in their ranges. All mistakes that do not
/// hide each other are told at once. `file_name` is only for messages.
pub fn read_toml<T: serde::de::DeserializeOwned>(
    text: &str,
    file_name: &str,
    rows: &ranges::Rows,
) -> Result<T> {
    let mut mistakes = ranges::mistakes(text, rows);
    let read = toml::from_str(text);
    if let Err(error) = &read {
        let other = syntax_error(error, text);
        // The reader stops at a number that its type cannot hold; the range says it better, and at its place.
        if mistakes.is_empty() || !is_of_number(error.message()) {
            mistakes.push(other);
            mistakes.sort_by_key(|mistake| mistake.span.start);
        }
    }
    let mut mistakes = mistakes.into_iter();
    match (mistakes.next(), read) {
        (None, Ok(read)) => Ok(read),
        (first, read) => {
            let first = first.or_else(|| read.err().map(|error| syntax_error(&error, text)));
            let Mistake { message, help, span } = first.unwrap_or_default();
            Err(Box::new(SolutionError {
                message,
                help,
                span,
                others: mistakes.collect(),
                file_name: file_name.to_owned(),
                text: text.to_owned(),
            }))
        }
    }
}

/// An error of the TOML reader in the words and with the place of ours.
fn syntax_error(error: &toml::de::Error, text: &str) -> Mistake {
    let message = error.message();
    let span = error.span().unwrap_or(0..0);
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let unknown = message.starts_with("unknown field") || message.starts_with("unknown variant");
    let (message, help) = match quoted.split_first() {
        Some((wrong, known)) if unknown => {
            let what = if message.starts_with("unknown field") { "key" } else { "value" };
            let all = || format!("known here: {}", known.join(", "));
            let near = did_you_mean(wrong, known.iter().copied());
            // The nearest number is seldom the one that is meant.
            let near = near.filter(|_| wrong.parse::<f64>().is_err());
            (
                format!("unknown {what} `{wrong}`"),
                Some(near.map_or_else(all, |near| format!("did you mean `{near}`?"))),
            )
        }
        _ if text.trim().is_empty() => {
            ("the file is empty".into(), Some("begin with [solution], its name, and schema = 1".into()))
        }
        Some((missing, _)) if message.starts_with("missing field") => {
            (format!("`{missing}` is missing here"), None)
        }
        _ => (plain(message.lines().next().unwrap_or_default()), None),
    };
    Mistake { message, help, span }
}

/// Types of numbers as the reader calls them.
const NUMBERS: [&str; 6] =
    ["u32", "u64", "f64", "i64", "a number of databases", "a positive number of databases"];

/// Whether the reader wanted a number and found something else.
fn is_of_number(message: &str) -> bool {
    let wanted = message.lines().next().and_then(|line| line.rsplit_once("expected "));
    wanted.is_some_and(|(_, wanted)| NUMBERS.iter().any(|number| wanted.starts_with(number)))
}

/// A message about a wrong type without the types of this program.
fn plain(message: &str) -> String {
    if message == "wanted string or table" {
        return "this must be one of the known words, in quotes".into();
    }
    let Some((found, wanted)) =
        message.strip_prefix("invalid type: ").and_then(|rest| rest.split_once(", expected "))
    else {
        return message.to_owned();
    };
    let wanted = match wanted {
        "u32" | "u64" => "a whole number of at least 0",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a string" | "string" => "text in quotes",
        "a sequence" => "a list",
        wanted if wanted.starts_with("struct ") => "a table of keys",
        wanted if wanted.starts_with("a tuple of size ") => "a list of fixed length",
        wanted => wanted,
    };
    let found = match found {
        "sequence" => "a list",
        "map" => "a table",
        found => found,
    };
    format!("this must be {wanted}, not {found}")
}

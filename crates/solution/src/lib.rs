//! The solution file: one description of a deployment that every command takes.
//!
//! The types of the file are plain data ([`SolutionFile`]): what is left out stays out, so that a reader can tell a wish
//! from a default. [`Solution::deployment`] turns them into the fully resolved [`Deployment`] that a run needs; the planner
//! resolves what it needs itself.
//!
//! Invariants
//! 1. Every error names one place in the text: the line that asks for what cannot be.
//! 2. An unknown key is an error, never ignored.
//! 3. Nothing here touches a file: text in, data out.
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
pub use error::{Result, SolutionError, did_you_mean};
pub use expand::{HostSpec, VolumeInfo, gib_of_disks};
pub use hardware::{
    BuildingBlock, Database, Databases, Disk, Enclosure, Host, Instance, Pool, PoolIo, Raid, Role, Site,
    Volume,
};
pub use profile::{Copies, Dag, Generation, LagLogRule, Layout, LayoutRow, Profile, RemoteRule};
pub use programme::{
    Engine, Fault, Fleet, Load, Mix, Sizing, Test, TestKind, ThresholdWishes, UnderTest, WhenLost,
};

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
        let file: SolutionFile = read_toml(text, file_name)?;
        let solution = Solution { file, text: text.to_owned(), file_name: file_name.to_owned() };
        if solution.file.solution.schema != SCHEMA {
            let wrong = solution.file.solution.schema;
            return Err(solution.error(
                "solution.schema",
                format!("the file is of format {wrong}, this program reads format {SCHEMA}"),
                Some(format!("write schema = {SCHEMA}")),
            ));
        }
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
        file_name: file_name.to_owned(),
        text: text.to_owned(),
    })
}

/// Reads any TOML file of ours, with the same messages as a solution file. `file_name` is only for messages.
pub fn read_toml<T: serde::de::DeserializeOwned>(text: &str, file_name: &str) -> Result<T> {
    toml::from_str(text).map_err(|error| syntax_error(&error, text, file_name))
}

/// An error of the TOML reader in the words and with the place of ours.
fn syntax_error(error: &toml::de::Error, text: &str, file_name: &str) -> Box<SolutionError> {
    let message = error.message();
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let unknown = message.starts_with("unknown field") || message.starts_with("unknown variant");
    let (message, help) = match quoted.split_first() {
        Some((wrong, known)) if unknown => {
            let what = if message.starts_with("unknown field") { "key" } else { "value" };
            let help = match did_you_mean(wrong, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known here: {}", known.join(", ")),
            };
            (format!("unknown {what} `{wrong}`"), Some(help))
        }
        _ => (message.lines().next().unwrap_or_default().to_owned(), None),
    };
    Box::new(SolutionError {
        message,
        help,
        span: error.span().unwrap_or(0..0),
        file_name: file_name.to_owned(),
        text: text.to_owned(),
    })
}

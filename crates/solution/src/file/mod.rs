//! The solution file as it is written, as plain data for serde and for the schema.
//!
//! What is left out has its default here, unless that depends on other keys: then it stays out, and nothing but
//! this crate reads the key. [`crate::Solution`] is what the whole file says.

mod array;
mod campaign;
mod drill;
mod hardware;
mod qualification;
mod users;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use array::{
    Compression, Deduplication, ErasureCoding, ReadCache, RemoteCopy, ReplicatedStore, Scope, StorageArray,
    Store, WhenLinkLost,
};
pub use campaign::{
    Classes, Engine, EngineGeneration, Fault, FaultWord, Fleet, Load, Mix, Sizing, Test, TestKind,
    ThresholdWishes, UnderTest, WhenLost,
};
pub use drill::{Drill, DrillEvent, DrillEventKind, MountDial, Partner};
pub use hardware::{
    BuildingBlock, Databases, Disk, Enclosure, Host, Instance, Pool, PoolIo, Raid, Role, Site, Snapshots,
    Tiering, Volume,
};
pub use qualification::Qualification;
pub use users::{Copies, Dag, Generation, LagLogRule, Layout, LayoutRow, RemoteRule, Users};

/// Default of a number that the file leaves out.
fn number<const N: u32>() -> f64 {
    f64::from(N)
}

/// Default of a count that the file leaves out.
fn count<const N: u32>() -> u32 {
    N
}

/// Default `true` of a choice that the file leaves out.
fn yes() -> bool {
    true
}

/// `[solution]`: name and description of the solution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Title {
    /// Name of the solution.
    pub name: String,
    /// Version of this file format: 1.
    pub schema: u32,
    /// Free text, such as the source of the facts.
    pub description: Option<String>,
}

/// Parsed solution file, without defaults resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SolutionFile {
    /// Name and description of the solution.
    pub solution: Title,
    /// Profile of the users.
    pub profile: Option<Users>,
    /// Database availability groups.
    pub dag: Option<Dag>,
    /// Copies of each database.
    pub copies: Option<Copies>,
    /// Layout of the copies.
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
    /// Pools: disks that volumes share.
    #[serde(default)]
    pub pool: Vec<Pool>,
    /// Growth of the solution in equal blocks.
    pub building_block: Option<BuildingBlock>,
    /// Volumes.
    #[serde(default)]
    pub volume: Vec<Volume>,
    /// Database instances of the test.
    #[serde(default)]
    pub instance: Vec<Instance>,
    /// Size of the test databases.
    pub sizing: Option<Sizing>,
    /// Part of the solution that the tests use.
    pub under_test: Option<UnderTest>,
    /// Load of the tests.
    pub load: Option<Load>,
    /// Parameters of the database engine.
    #[serde(default)]
    pub engine: Engine,
    /// Latency limits.
    pub thresholds: Option<ThresholdWishes>,
    /// Tests in their order.
    #[serde(default)]
    pub test: Vec<Test>,
    /// Own rules for the grade *qualified*.
    pub qualification: Option<Qualification>,
    /// Planned faults.
    #[serde(default)]
    pub fault: Vec<Fault>,
    /// Reaction of a fleet run to a lost part.
    #[serde(default)]
    pub fleet: Fleet,
    /// Model of the storage for simulated time.
    pub array: Option<StorageArray>,
}

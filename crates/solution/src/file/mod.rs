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
    Engine, Fault, FaultWord, Fleet, Load, Mix, Sizing, Test, TestKind, ThresholdWishes, UnderTest, WhenLost,
};
pub use drill::{Drill, DrillEvent, DrillEventKind, MountDial, Partner};
pub use hardware::{
    BuildingBlock, Databases, Disk, Enclosure, Host, Instance, Pool, PoolIo, Raid, Role, Site, Snapshots,
    Tiering, Volume,
};
pub use qualification::Qualification;
pub use users::{Copies, Dag, Generation, LagLogRule, Layout, LayoutRow, RemoteRule, Users};

/// What stands for a number that is left out.
fn number<const N: u32>() -> f64 {
    f64::from(N)
}

/// What stands for a number of things that is left out.
fn count<const N: u32>() -> u32 {
    N
}

/// What stands for a choice that is left out, where that is not `false`.
fn yes() -> bool {
    true
}

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
    pub profile: Option<Users>,
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

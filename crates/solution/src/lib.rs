//! The solution file: one description of a deployment that every command takes.
//!
//! [`Solution`] is what the file says with nothing left to default: names written out, numbers in their ranges,
//! each thing that another one names found. Every command works on it and on nothing else, so what one command
//! accepts no other refuses for what the file says. What the file leaves out is another matter: a plan needs
//! users, a run needs instances, and each says so ([`Solution::users`], [`Solution::deployment`]).
//!
//! Invariants
//! 1. Every mistake names one place in the text: the line that asks for what cannot be. All mistakes that do
//!    not hide each other are told at once.
//! 2. An unknown key is an error, never ignored.
//! 3. The range of a number is checked when the file is read ([`ranges`]), and a default stands in one place of
//!    this crate.
//! 4. Nothing here touches a file: text in, data out.
//!
//! Limits: at most [`MAX_NAMES`] hosts, as many volumes and instances per host, and 65,536 of each on all hosts.

mod array;
mod capacity;
mod deployment;
mod drill;
mod error;
mod examples;
mod faults;
mod file;
mod group;
mod hosts;
mod instances;
mod locate;
mod names;
mod qualification;
pub mod ranges;
mod read;
mod setting;
mod settings;
mod source;
mod storage;
mod template;
mod tests;
mod users;

pub use capacity::fits;
pub use deployment::{Deployment, EngineSpec, LoadMode, LoadSpec, TestSpec, Thresholds, VolumeSpec};
pub use drill::{DrillSpec, Failure};
pub use error::{Mistake, Result, SolutionError, did_you_mean};
pub use examples::{EXAMPLES, Example};
pub use faults::{Fault, FaultKind};
pub use file::{
    BuildingBlock, Classes, Compression, Copies, Dag, Deduplication, Disk, DrillEventKind, Enclosure,
    EngineGeneration, ErasureCoding, Fleet, Generation, LagLogRule, Mix, MountDial, Partner, PoolIo,
    Qualification, Raid, ReadCache, RemoteCopy, RemoteRule, ReplicatedStore, Role, Scope, Site, Snapshots,
    StorageArray, Store, TestKind, Users, WhenLinkLost, WhenLost,
};
pub use group::{ListedDatabase, MAX_DATABASES, MAX_MOUNTED, Placement};
pub use hosts::{DatabaseSpec, HostSpec, InstanceSpec, MAX_MEMBERS, MetaCacheSpec, VolumeInfo};
pub use read::read_toml;
pub use setting::{Setting, VARIABLE_PREFIX};
pub use storage::{Behind, FastTier, PoolSpec, TieringSpec, VolumeKind, gib_of_disks};
pub use tests::IO_PER_BATCH;

use std::ops::Range;

use error::{Checked, Wrong};
use file::SolutionFile;
use names::DefinedNames;
use source::{Mistakes, Source};
use tests::AnywhereTest;

/// Largest number of hosts in a file, and of volumes or instances on a host.
pub const MAX_NAMES: u32 = 4096;

/// Version of the solution file that this program reads.
pub const SCHEMA: u32 = 1;

/// Solution: a solution file with all defaults resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// Name of the solution.
    pub name: String,
    /// Free text about the solution, such as the source of its facts.
    pub description: Option<String>,
    /// Exchange generation, from which defaults follow.
    pub generation: Generation,
    /// Sites, at least one.
    pub sites: Vec<Site>,
    /// Enclosures, arrays, clusters.
    pub enclosures: Vec<Enclosure>,
    /// Hosts of one group with their volumes.
    pub hosts: Vec<HostSpec>,
    /// Kinds of disk.
    pub disks: Vec<Disk>,
    /// Pools: disks that volumes share.
    pub pools: Vec<PoolSpec>,
    /// Kinds of volume.
    pub volumes: Vec<VolumeKind>,
    /// Parts between hosts and disks, for simulations.
    pub array: Option<StorageArray>,
    /// Growth in building blocks; `None` if the file does not ask for it.
    pub building_block: Option<BuildingBlock>,
    /// Groups of hosts. Sites and hosts of the file are those of one group.
    pub dag: Dag,
    /// Copies of each database.
    pub copies: Copies,
    /// Placement of the copies on hosts.
    pub placement: Placement,
    /// Number of databases of a group; `None`: derived from the storage.
    pub databases: Option<u32>,
    /// Names of the hosts, enclosures and sites whose loss is tested; empty: nothing is lost.
    pub failed: Vec<String>,
    /// Size of every test database, MiB, if the file states one for all.
    pub test_database_mib: Option<u64>,
    /// Load of the tests.
    pub load: LoadSpec,
    /// Parameters of the database engine.
    pub engine: EngineSpec,
    /// Rules of the solution's own for the grade *qualified*; else the published ones.
    pub qualification: Qualification,
    /// Planned faults.
    pub faults: Vec<Fault>,
    /// Reaction of a fleet run to a lost part.
    pub fleet: Fleet,
    users: Checked<Users>,
    tests: Vec<AnywhereTest>,
    source: Source,
}

impl Solution {
    /// Parses the text of a solution file. `file_name` is only for messages.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(text: &str, file_name: &str) -> Result<Solution> {
        Solution::parse_with(text, file_name, &[])
    }

    /// Parses the text of a solution file with settings applied; later settings replace earlier ones.
    ///
    /// # Errors
    /// Everything that is wrong with the file, at its line, and with the settings, at the setting.
    pub fn parse_with(text: &str, file_name: &str, settings: &[Setting]) -> Result<Solution> {
        let source = Source::with(text, file_name, settings)?;
        let (file, misread) = read::read::<SolutionFile>(&source.text, ranges::SOLUTION);
        let mut mistakes = Mistakes::new(&source, misread);
        let resolved = file.and_then(|file| resolve(file, &mut mistakes));
        let resolved = mistakes.told(resolved)?;
        Ok(Solution { source, ..resolved })
    }

    /// Profile of the users.
    ///
    /// # Errors
    /// A file that does not say enough about them to size anything.
    pub fn users(&self) -> Result<&Users> {
        self.users.as_ref().map_err(|lack| self.source.error(lack.clone()))
    }

    /// Settings that were applied to the file.
    pub fn settings(&self) -> impl Iterator<Item = &Setting> {
        self.source.settings()
    }

    /// Text of the file with the settings applied.
    pub fn text(&self) -> &str {
        &self.source.text
    }

    /// File name given to [`Solution::parse`].
    pub fn file_name(&self) -> &str {
        &self.source.file_name
    }

    /// Error at the value at `path` (`host[2].name`), or at its nearest table if the file leaves the value out.
    pub fn error(&self, path: &str, message: impl Into<String>, help: Option<String>) -> Box<SolutionError> {
        self.source.error(Wrong { path: path.to_owned(), message: message.into(), help })
    }

    /// Byte range of the value at `path`, if the text contains it.
    pub fn span(&self, path: &str) -> Option<Range<usize>> {
        let place = locate::locate(self.text(), path);
        place.exact.then_some(place.span)
    }

    /// The JSON schema of the file.
    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(SolutionFile).to_value()
    }

    /// Kind of disk with this name.
    pub fn disk(&self, name: &str) -> &Disk {
        // Names of disks in the file were checked when it was read.
        self.disks.iter().find(|disk| disk.name == name).expect("a disk of the file")
    }

    /// Indexes of the hosts that are lost with a host, enclosure or site of this name; empty for an unknown name.
    pub fn hosts_lost_with(&self, name: &str) -> Vec<usize> {
        names::hosts_lost_with(name, &self.sites, &self.enclosures, &self.hosts)
    }

    /// Key of a controller pair: the host's name, or the name of the enclosure or site whose hosts share it.
    pub fn place_of(&self, host: &HostSpec) -> String {
        let scope = self.array.as_ref().map_or(Scope::Host, |array| array.scope);
        names::place_of(host, scope, &self.sites, &self.enclosures)
    }
}

/// Error at the value at `path` of a TOML text, or at its nearest table.
pub fn error_at(
    text: &str,
    file_name: &str,
    path: &str,
    message: impl Into<String>,
    help: Option<String>,
) -> Box<SolutionError> {
    let source = Source::plain(text, file_name);
    source.error(Wrong { path: path.to_owned(), message: message.into(), help })
}

/// Resolves a parsed file; `None` if a table of names is wrong.
fn resolve(file: SolutionFile, mistakes: &mut Mistakes<'_>) -> Option<Solution> {
    mistakes.keep(known_schema(&file));
    let engine = mistakes.keep(tests::engine(&file.engine));
    let qualification = mistakes.keep(qualification::qualification(&file));
    let mut named = DefinedNames::of(&file, mistakes)?;
    let generation = users::generation(&file);
    mistakes.keep(users::meta_cache(&file, generation));
    let (dag, copies) = (file.dag.clone().unwrap_or_default(), file.copies.clone().unwrap_or_default());
    let placement = group::placement(&file, (&dag, &copies), &named, mistakes);
    let databases = mistakes.keep(group::databases(&file, (&dag, &copies), &placement, &named.hosts));
    let load = tests::load(&file, generation, &copies, mistakes);
    instances::instances(&file, generation, &mut named.hosts, mistakes);
    let tests = tests::tests(&file, generation, &copies, &named, mistakes);
    mistakes.keep(array::check_array(&file));
    if let Some(array) = file.array.as_ref().filter(|_| !mistakes.is_misread("array")) {
        array::check_volumes(array, &named, mistakes);
    }
    let faults = faults::faults(&file, &named, mistakes);
    capacity::check(&named, file.array.as_ref(), mistakes);
    let failed = file.under_test.as_ref().map(|part| part.failed.clone()).unwrap_or_default();
    named.check_failed(&failed, mistakes);
    let DefinedNames { sites, enclosures, hosts, disks, pools, volumes } = named;
    Some(Solution {
        users: users::users(&file),
        failed,
        test_database_mib: file.sizing.and_then(|sizing| sizing.database_mib),
        name: file.solution.name,
        description: file.solution.description,
        generation,
        sites,
        enclosures,
        hosts,
        disks,
        pools,
        volumes,
        array: file.array,
        building_block: file.building_block,
        dag,
        copies,
        placement,
        databases: databases?,
        load,
        engine: engine?,
        qualification: qualification?,
        faults,
        fleet: file.fleet,
        tests,
        source: Source::default(),
    })
}

fn known_schema(file: &SolutionFile) -> Checked<()> {
    let schema = file.solution.schema;
    if schema == SCHEMA {
        return Ok(());
    }
    let message = format!("the file is of format {schema}, this program reads format {SCHEMA}");
    Err(Wrong::new("solution.schema", message).help(format!("write schema = {SCHEMA}")))
}

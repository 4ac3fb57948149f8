//! The catalogue that a search chooses from: kinds of disks and servers, and what may be varied.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use solution::ranges::Allowed::{Above, From, Whole};
use solution::ranges::Rows;
use solution::{Disk, Raid, Result, SolutionError};

use crate::storage::DiskSet;

/// Most designs that a search looks at.
pub const MAX_CANDIDATES: usize = 5_000_000;

/// The numeric keys of a catalogue.
const NUMBERS: &Rows = &[
    ("search.servers_per_site", Whole(1.0, 16.0)),
    ("search.copies_per_site", Whole(0.0, 16.0)),
    ("search.copies_per_site.0", Whole(1.0, 16.0)),
    ("search.databases_per_volume", Whole(1.0, 100.0)),
    ("search.volume.disks", Whole(1.0, 10_000.0)),
    ("search.max_database_gb", Above(0.0, 1e6)),
    ("search.max_use_percent", Above(0.0, 100.0)),
    ("disk.capacity_gb", From(1.0, 1e6)),
    ("disk.random_iops", Above(0.0, 1e8)),
    ("disk.sequential_iops", Above(0.0, 1e8)),
    ("disk.rpm", Whole(1.0, 100_000.0)),
    ("server.bays", Whole(0.0, 100_000.0)),
    ("server.cores", Whole(1.0, 65_536.0)),
    ("server.specint_rate", Above(0.0, 1e6)),
    ("server.specint2017_rate", Above(0.0, 1e6)),
    ("server.memory_gib", Above(0.0, 1e6)),
];

/// What to choose from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    /// What may be varied.
    pub search: Variation,
    /// Kinds of disk.
    pub disk: Vec<Disk>,
    /// Kinds of server.
    pub server: Vec<ServerKind>,
}

/// What may be varied, and what must be survived.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variation {
    /// Failure that must lose no database.
    pub survive: Survive,
    /// Numbers of servers in each site.
    pub servers_per_site: Vec<u32>,
    /// Copies in the home site and in the sites after it, one list for each way.
    pub copies_per_site: Vec<Vec<u32>>,
    /// Databases on a volume.
    pub databases_per_volume: Vec<u32>,
    /// Protection and number of disks of a volume.
    pub volume: Vec<VolumeKind>,
    /// Largest database in GB; as in a plan when not given.
    pub max_database_gb: Option<f64>,
    /// Share of capacity, I/O and processor that may be used, in percent; 100 when not given.
    pub max_use_percent: Option<f64>,
}

/// A failure to survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Survive {
    /// Any one server.
    Server,
    /// Any two servers.
    TwoServers,
    /// Any site.
    Site,
    /// Any site and one more server.
    SiteAndServer,
}

/// The disks of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeKind {
    /// Protection.
    pub raid: Raid,
    /// Disks.
    pub disks: u32,
}

/// A kind of server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerKind {
    /// Name.
    pub name: String,
    /// Bays for database disks.
    pub bays: u32,
    /// Processor cores.
    pub cores: Option<u32>,
    /// SPECint2006 rate.
    pub specint_rate: Option<f64>,
    /// SPECint2017 rate (base), where there is no SPECint2006 rate.
    pub specint2017_rate: Option<f64>,
    /// Memory in GiB.
    pub memory_gib: Option<f64>,
}

impl Catalogue {
    /// The catalogue that ships inside the program.
    ///
    /// # Errors
    /// None: a test reads it.
    pub fn shipped() -> Result<Catalogue> {
        let shipped = solution::EXAMPLES.iter().find(|example| example.name == "catalogue");
        Catalogue::parse(shipped.map_or("", |example| example.text), "catalogue.toml")
    }

    /// Reads a catalogue. `file_name` is only for messages.
    pub fn parse(text: &str, file_name: &str) -> Result<Catalogue> {
        let catalogue: Catalogue = solution::read_toml(text, file_name, NUMBERS)?;
        let refuse = |path: &str, message: &str, help: Option<String>| -> Box<SolutionError> {
            solution::error_at(text, file_name, path, message, help)
        };
        let wish = &catalogue.search;
        for (key, empty) in [
            ("search.servers_per_site", wish.servers_per_site.is_empty()),
            (
                "search.copies_per_site",
                wish.copies_per_site.iter().any(Vec::is_empty) || wish.copies_per_site.is_empty(),
            ),
            ("search.databases_per_volume", wish.databases_per_volume.is_empty()),
            ("search.volume", wish.volume.is_empty()),
        ] {
            if empty {
                return Err(refuse(key, "there is nothing to choose from", None));
            }
        }
        for (i, volume) in wish.volume.iter().enumerate() {
            if let Some(lacking) = volume.raid.lacks(volume.disks) {
                let message =
                    format!("a volume cannot be made at this RAID level with disks = {}", volume.disks);
                return Err(refuse(&format!("search.volume[{i}].disks"), &message, Some(lacking)));
            }
        }
        for (i, disk) in catalogue.disk.iter().enumerate() {
            let path = format!("disk[{i}]");
            if DiskSet::new(disk, 1, Raid::Jbod, 1).random_iops.is_none() {
                let message = format!("the I/O of disk `{}` is not known", disk.name);
                return Err(refuse(&path, &message, Some("add random_iops".into())));
            }
        }
        let combinations = [
            catalogue.server.iter().map(|server| server.bays as usize).sum::<usize>(),
            catalogue.disk.len(),
            wish.servers_per_site.len(),
            wish.copies_per_site.len(),
            wish.databases_per_volume.len(),
            wish.volume.len(),
        ];
        let count = combinations.iter().try_fold(1usize, |product, &factor| product.checked_mul(factor));
        if count.is_none_or(|count| count > MAX_CANDIDATES) {
            let message = format!("more than {MAX_CANDIDATES} designs are asked for");
            return Err(refuse("search", &message, Some("vary less at a time".into())));
        }
        Ok(catalogue)
    }
}

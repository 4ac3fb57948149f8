//! The catalogue that a search chooses from: kinds of disks and servers, and what may be varied.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use solution::ranges::Allowed::{Above, From, Whole};
use solution::ranges::Rows;
use solution::{Disk, Raid, Result, SolutionError};

use crate::storage::DiskSet;

/// Largest number of designs in a search.
pub const MAX_CANDIDATES: usize = 5_000_000;

/// Numeric keys of a catalogue, with their ranges.
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

/// Catalogue of a search: disks, servers, and what may vary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    /// Choices of the search.
    pub search: Variation,
    /// Kinds of disk.
    pub disk: Vec<Disk>,
    /// Kinds of server.
    pub server: Vec<ServerKind>,
}

/// Choices that a search may combine, and the failure that a design must survive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variation {
    /// Failure that must lose no database.
    pub survive: Survive,
    /// Choices for the number of servers in each site.
    pub servers_per_site: Vec<u32>,
    /// Choices for the copies: lists of the number in the home site and in the sites after it.
    pub copies_per_site: Vec<Vec<u32>>,
    /// Choices for the number of databases on a volume.
    pub databases_per_volume: Vec<u32>,
    /// Choices for protection and number of disks of a volume.
    pub volume: Vec<VolumeKind>,
    /// Largest database, GB; if missing, as in a plan.
    pub max_database_gb: Option<f64>,
    /// Largest share of capacity, I/O and processor that a design may use, percent; 100 if missing.
    pub max_use_percent: Option<f64>,
}

/// Failure that a design must survive without the loss of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Survive {
    /// Loss of any one server.
    Server,
    /// Loss of any two servers.
    TwoServers,
    /// Loss of any site.
    Site,
    /// Loss of any site and one more server.
    SiteAndServer,
}

/// Kind of volume: its disks and their protection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeKind {
    /// Protection (RAID level or JBOD).
    pub raid: Raid,
    /// Number of disks.
    pub disks: u32,
}

/// A kind of server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerKind {
    /// Name of the kind of server.
    pub name: String,
    /// Number of bays for database disks.
    pub bays: u32,
    /// Number of processor cores.
    pub cores: Option<u32>,
    /// SPECint2006 rate of the server.
    pub specint_rate: Option<f64>,
    /// SPECint2017 rate (base) of the server, if it has no SPECint2006 rate.
    pub specint2017_rate: Option<f64>,
    /// Memory of the server, GiB.
    pub memory_gib: Option<f64>,
}

impl Catalogue {
    /// Catalogue that ships with the program.
    ///
    /// # Errors
    /// None: a test reads it.
    pub fn shipped() -> Result<Catalogue> {
        let shipped = solution::EXAMPLES.iter().find(|example| example.name == "catalogue");
        Catalogue::parse(shipped.map_or("", |example| example.text), "catalogue.toml")
    }

    /// Parses a catalogue. `file_name` is only for messages.
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

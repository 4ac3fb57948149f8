//! Does it fit on the disks: capacity and I/O of every kind of volume, of shared pools and of enclosures.

mod disks;
mod fit;
mod raid;
mod ratios;

pub use disks::DiskSet;
pub use fit::fit;
pub use raid::{RaidChoice, choices};

use results::figures::{counted, number};
use schemars::JsonSchema;
use serde::Serialize;
use solution::{Behind, Solution};

/// Limit that is nearer for a volume or a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// Capacity is used to a larger share than I/O.
    Capacity,
    /// I/O is used to a larger share than capacity.
    Iops,
}

/// Use of one kind of volume, or of one pool.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Use {
    /// Name of the entry in the file.
    pub name: String,
    /// Role, as a word.
    pub role: &'static str,
    /// Number of volumes of this kind in one group, or of pools in the environment.
    pub count: u32,
    /// Number of disks in each; 0 for a part of a pool.
    pub disks: u32,
    /// Number of disks of all of them in the environment.
    pub disks_in_all: u32,
    /// Number of databases on the fullest one.
    pub databases: u32,
    /// Formatted capacity of each, GiB, if known.
    pub formatted_gib: Option<f64>,
    /// Capacity after compression and deduplication, GiB, if different.
    pub effective_gib: Option<f64>,
    /// Needed space, free space included, GiB.
    pub needed_gib: f64,
    /// Needed space divided by (effective) capacity.
    pub capacity_share: Option<f64>,
    /// Database I/O per second of all copies.
    pub iops: f64,
    /// Back-end I/O per second, behind RAID.
    pub back_end_iops: f64,
    /// Planned random I/O per second of the disks.
    pub disk_iops: Option<f64>,
    /// Back-end I/O of all copies divided by that of the disks.
    pub iops_share: Option<f64>,
    /// The same during a rebuild; `None` where nothing is rebuilt.
    pub iops_share_rebuilding: Option<f64>,
    /// The same with the active copies of the worst failure only.
    pub iops_share_worst_active: Option<f64>,
    /// Log writes per second divided by the sequential I/O of the disks.
    pub log_share: Option<f64>,
    /// Limit that is nearer: capacity or I/O.
    pub binds: Option<Binding>,
    /// What has to change if it does not fit.
    pub advice: Option<String>,
    /// Index of the `[[volume]]` or `[[pool]]` entry in the file.
    #[serde(skip)]
    pub entry: usize,
}

/// Disks of an enclosure against its bays.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct EnclosureUse {
    /// Name of the enclosure.
    pub name: String,
    /// Number of disks for databases and logs.
    pub database_disks: u32,
    /// Number of hot spares, restore and AutoReseed disks, and others.
    pub other_disks: u32,
    /// Number of bays, if given.
    pub bays: Option<u32>,
    /// Needed space of all volumes divided by their capacity.
    pub capacity_share: Option<f64>,
    /// Back-end I/O divided by that of the disks.
    pub iops_share: Option<f64>,
}

/// Ratios as papers print them, over the database disks of the part under test.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Ratios {
    /// Raw capacity, TB (10^12 bytes).
    pub raw_tb: f64,
    /// Formatted capacity, TiB.
    pub formatted_tib: f64,
    /// Effective capacity, TiB, if different.
    pub effective_tib: Option<f64>,
    /// Size of the planned databases, TiB.
    pub database_tib: f64,
    /// Size of the test databases, TiB, if `[sizing]` gives it.
    pub test_database_tib: Option<f64>,
    /// Formatted divided by raw capacity, both in bytes.
    pub formatted_of_raw: f64,
    /// Formatted TiB divided by raw TB, as papers print it.
    pub formatted_of_raw_as_printed: f64,
    /// Test databases (planned ones if there are none) divided by formatted capacity.
    pub database_of_formatted: f64,
    /// Test databases divided by raw capacity, in the mixed units of the papers.
    pub database_of_raw_as_printed: f64,
    /// Test databases divided by effective capacity.
    pub database_of_effective: Option<f64>,
}

/// Use of all storage of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Storage {
    /// Use of each kind of volume.
    pub volumes: Vec<Use>,
    /// Use of each shared pool.
    pub pools: Vec<Use>,
    /// Use of each enclosure.
    pub enclosures: Vec<EnclosureUse>,
    /// Ratios of the papers; `None` if no disk is described.
    pub ratios: Option<Ratios>,
}

impl Storage {
    /// Sentences about what does not fit; empty if all does.
    pub fn misfits(&self) -> Vec<String> {
        self.volumes.iter().chain(&self.pools).flat_map(Use::misfits).collect()
    }

    /// Sentences about what the file lacks for a judgement; empty if nothing.
    pub fn unknowns(&self, solution: &Solution) -> Vec<String> {
        // Parts of a pool are judged with it.
        let in_pool = |used: &&Use| matches!(solution.volumes[used.entry].behind, Behind::Pool(_));
        let own = self.volumes.iter().filter(|used| !in_pool(used));
        own.filter_map(|used| used.unknown("capacity_gib, or disk"))
            .chain(self.pools.iter().filter_map(|used| used.unknown("random_iops of its disk")))
            .collect()
    }
}

impl Use {
    /// Sentence about what cannot be judged for a volume or pool, and the keys that the file lacks; `None` if all is
    /// known.
    fn unknown(&self, keys: &str) -> Option<String> {
        let space = self.needed_gib > 0.0 && self.capacity_share.is_none();
        let logs_alone = self.role == "log" && self.log_share.is_none();
        let io = (self.iops > 0.0 && self.iops_share.is_none()) || logs_alone;
        let what = match (space, io) {
            (true, true) => "its space and its I/O are",
            (true, false) => "its space is",
            (false, true) => "its I/O is",
            (false, false) => return None,
        };
        let keys = if space { keys } else { "random_iops and sequential_iops of its disk" };
        Some(format!("{}: {what} not known ({keys})", self.name))
    }

    /// Sentences about what does not fit; empty if all does.
    pub fn misfits(&self) -> Vec<String> {
        let mut sentences: Vec<String> = self.advice.iter().cloned().collect();
        let name = &self.name;
        if let (Some(share), Some(gib)) = (self.capacity_share, self.effective_gib.or(self.formatted_gib))
            && share > 1.0
        {
            let fewer = f64::from(self.databases) / share;
            let hint = if self.databases > 1 && fewer >= 1.0 {
                format!(", or {} instead of {} databases on each", fewer.floor(), self.databases)
            } else {
                String::new()
            };
            sentences.push(format!(
                "{name}: {} GiB are needed and {} GiB there: {} times the capacity{hint}",
                number(self.needed_gib, 0),
                number(gib, 0),
                number(share, 2)
            ));
        }
        if let (Some(share), Some(iops)) = (self.iops_share, self.disk_iops)
            && share > 1.0
        {
            let disks = (f64::from(self.disks.max(1)) * share).ceil();
            sentences.push(format!(
                "{name}: {} back-end I/O per second are needed and the disks give {}: {} instead of {}",
                number(self.back_end_iops, 1),
                number(iops, 1),
                counted(disks as u64, "disk"),
                self.disks.max(1)
            ));
        }
        if let Some(share) = self.log_share.filter(|&share| self.role == "log" && share > 1.0) {
            sentences.push(format!("{name}: log writes are {} times what the disks give", number(share, 2)));
        }
        sentences
    }
}

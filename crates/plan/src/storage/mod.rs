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

/// What binds a volume or a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// Capacity is used more than I/O.
    Capacity,
    /// I/O is used more than capacity.
    Iops,
}

/// Use of one kind of volume, or of one pool.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Use {
    /// Name in the file.
    pub name: String,
    /// What it is for, in a word.
    pub role: &'static str,
    /// How many alike there are in one group (volumes), or in the environment (pools).
    pub count: u32,
    /// Disks in each; 0 for a part of a pool.
    pub disks: u32,
    /// Disks of all of them in the environment.
    pub disks_in_all: u32,
    /// Databases on the fullest.
    pub databases: u32,
    /// Formatted capacity of each in GiB, where it is known.
    pub formatted_gib: Option<f64>,
    /// Capacity in GiB after compression and deduplication, where it differs.
    pub effective_gib: Option<f64>,
    /// Space that is needed in GiB, free space included.
    pub needed_gib: f64,
    /// Needed space over (effective) capacity.
    pub capacity_share: Option<f64>,
    /// Database I/O per second, all copies counted.
    pub iops: f64,
    /// The same behind RAID.
    pub back_end_iops: f64,
    /// Random I/O per second that the disks are planned with.
    pub disk_iops: Option<f64>,
    /// Back-end I/O over what the disks give, all copies counted.
    pub iops_share: Option<f64>,
    /// The same while a failed disk is rebuilt; `None` where nothing is rebuilt.
    pub iops_share_rebuilding: Option<f64>,
    /// The same when only active copies of the worst failure are counted.
    pub iops_share_worst_active: Option<f64>,
    /// Log writes per second over the sequential I/O of the disks.
    pub log_share: Option<f64>,
    /// Which of the two is nearer to its limit.
    pub binds: Option<Binding>,
    /// What would have to change, when it does not fit.
    pub advice: Option<String>,
    /// Index of the entry in the file (`[[volume]]` or `[[pool]]`).
    #[serde(skip)]
    pub entry: usize,
}

/// Disks of an enclosure against its bays.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct EnclosureUse {
    /// Name.
    pub name: String,
    /// Disks for databases and logs.
    pub database_disks: u32,
    /// Hot spares, restore and AutoReseed disks, and others.
    pub other_disks: u32,
    /// Bays, where given.
    pub bays: Option<u32>,
    /// Needed space of all volumes over their capacity.
    pub capacity_share: Option<f64>,
    /// Back-end I/O over what the disks give.
    pub iops_share: Option<f64>,
}

/// The ratios that papers print, over the database disks of the part under test.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Ratios {
    /// Raw capacity in TB (10^12 bytes).
    pub raw_tb: f64,
    /// Formatted capacity in TiB.
    pub formatted_tib: f64,
    /// Effective capacity in TiB, where it differs.
    pub effective_tib: Option<f64>,
    /// Planned databases in TiB.
    pub database_tib: f64,
    /// Test databases in TiB, where `[sizing]` gives them.
    pub test_database_tib: Option<f64>,
    /// Formatted over raw, both in bytes.
    pub formatted_of_raw: f64,
    /// Formatted TiB over raw TB, as papers print it.
    pub formatted_of_raw_as_printed: f64,
    /// Test databases (planned ones where there are none) over formatted.
    pub database_of_formatted: f64,
    /// The same over raw, in the mixed units of the papers.
    pub database_of_raw_as_printed: f64,
    /// The same over effective capacity.
    pub database_of_effective: Option<f64>,
}

/// The whole picture.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Storage {
    /// Kinds of volume.
    pub volumes: Vec<Use>,
    /// Shared pools.
    pub pools: Vec<Use>,
    /// Enclosures.
    pub enclosures: Vec<EnclosureUse>,
    /// Ratios; `None` when no disk is described.
    pub ratios: Option<Ratios>,
}

impl Storage {
    /// Sentences about what does not fit; empty when all does.
    pub fn misfits(&self) -> Vec<String> {
        self.volumes.iter().chain(&self.pools).flat_map(Use::misfits).collect()
    }

    /// Sentences about what cannot be judged because the file does not say it; empty when it says everything.
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
    /// What is not known of it although the plan needs it, and the keys that would say so.
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

    /// Sentences about what does not fit; empty when all does.
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

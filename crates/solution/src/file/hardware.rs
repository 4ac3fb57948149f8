//! What there is: `[[site]]`, `[[host]]`, `[[enclosure]]`, `[[disk]]`, `[[pool]]`, `[[volume]]`, `[[instance]]`.

use schemars::JsonSchema;
use serde::de::{SeqAccess, Visitor, value::SeqAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize};

use super::{count, yes};

/// `[[site]]`: hosts that can be lost together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// Name of the site.
    pub name: String,
    /// Whether databases are normally active in the site; true when not given.
    #[serde(default = "yes")]
    pub active: bool,
}

/// `[[host]]`: one server, or `count` alike whose names differ by `{n}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Name, a template when `count` is given.
    pub name: String,
    /// Number of hosts of this form; 1 when not given.
    #[serde(default = "count::<1>")]
    pub count: u32,
    /// Running number of the first host; 1 when not given.
    #[serde(default = "count::<1>")]
    pub first: u32,
    /// Site; the only one when not given.
    pub site: Option<String>,
    /// Enclosure (or array, or cluster) whose loss takes this host with it.
    pub enclosure: Option<String>,
    /// Where the other hosts reach its copies in a drill, `host:port`, a template as the name is.
    pub copy_address: Option<String>,
    /// Number of processor cores.
    pub cores: Option<u32>,
    /// SPECint2006 rate of the whole server.
    pub specint_rate: Option<f64>,
    /// SPECint2017 rate (base) of the whole server, where it has no SPECint2006 rate.
    pub specint2017_rate: Option<f64>,
    /// Memory, GiB.
    pub memory_gib: Option<f64>,
    /// Most databases that may be active at once; no limit when not given.
    pub max_active: Option<u32>,
}

/// `[[enclosure]]`: a shelf, array or cluster; a fault domain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Enclosure {
    /// Name of the enclosure.
    pub name: String,
    /// Disk bays; not checked when not given.
    pub bays: Option<u32>,
    /// Hot spares in it; 0 when not given.
    #[serde(default)]
    pub hot_spares: u32,
    /// Restore disks in it; 0 when not given.
    #[serde(default)]
    pub restore_disks: u32,
}

/// Kind of disk with its defaults resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "DiskEntry")]
pub struct Disk {
    /// Name that volumes and pools use.
    pub name: String,
    /// Its name in `assumptions.toml`, for simulated time.
    pub model: String,
    /// Capacity in GB of the vendor (10^9 bytes).
    pub capacity_gb: f64,
    /// Random I/O per second that one disk is planned with, where that is known.
    pub random_iops: Option<f64>,
    /// Sequential I/O per second that one disk is planned with, where that is known.
    pub sequential_iops: Option<f64>,
    /// Whether the disk has no rotating parts (SSD).
    pub solid_state: bool,
    /// Revolutions per minute.
    pub rpm: Option<u32>,
}

/// Random and sequential I/O per second of a rotating disk of 7,200 rpm. Source: the calculator's spindle table
/// as quoted in the MD3260 paper; other kinds have no published value.
const IOPS_AT_7200_RPM: (f64, f64) = (57.5, 300.0);

impl From<DiskEntry> for Disk {
    fn from(entry: DiskEntry) -> Disk {
        let DiskEntry { name, model, capacity_gb, random_iops, sequential_iops, solid_state, rpm } = entry;
        let known = (rpm == Some(7200) && !solid_state).then_some(IOPS_AT_7200_RPM);
        Disk {
            model: model.unwrap_or_else(|| name.clone()),
            name,
            capacity_gb,
            random_iops: random_iops.or(known.map(|both| both.0)),
            sequential_iops: sequential_iops.or(known.map(|both| both.1)),
            solid_state,
            rpm,
        }
    }
}

/// `[[disk]]`: a kind of disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskEntry {
    /// Name that volumes and pools use.
    pub name: String,
    /// Its name in `assumptions.toml`, for simulated time; the same name when not given.
    pub model: Option<String>,
    /// Capacity in GB of the vendor (10^9 bytes).
    pub capacity_gb: f64,
    /// Random I/O per second that one disk is planned with.
    pub random_iops: Option<f64>,
    /// Sequential I/O per second that one disk is planned with.
    pub sequential_iops: Option<f64>,
    /// Whether the disk has no rotating parts (SSD).
    #[serde(default)]
    pub solid_state: bool,
    /// Revolutions per minute.
    pub rpm: Option<u32>,
}

/// Protection of data on disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Raid {
    /// Single disks (or RAID 0 of one disk); database copies are the protection.
    #[default]
    Jbod,
    /// Striping without protection.
    Raid0,
    /// Mirror.
    Raid1,
    /// Striped mirrors.
    Raid10,
    /// Single parity.
    Raid5,
    /// Double parity.
    Raid6,
    /// Triple parity.
    TripleParity,
    /// Two copies of everything on different nodes.
    Replica2,
    /// Three copies of everything on different nodes.
    Replica3,
}

impl Raid {
    /// Name of the protection for people.
    pub fn words(self) -> &'static str {
        match self {
            Raid::Jbod => "single disks",
            Raid::Raid0 => "RAID 0",
            Raid::Raid1 => "RAID 1",
            Raid::Raid10 => "RAID 10",
            Raid::Raid5 => "RAID 5",
            Raid::Raid6 => "RAID 6",
            Raid::TripleParity => "triple parity",
            Raid::Replica2 => "two copies on different nodes",
            Raid::Replica3 => "three copies on different nodes",
        }
    }

    /// Requirement that a set of this many disks does not meet; `None` when it can be built.
    pub fn lacks(self, disks: u32) -> Option<String> {
        let least = match self {
            Raid::Jbod | Raid::Raid0 => 1,
            Raid::Raid1 | Raid::Replica2 => 2,
            Raid::Raid5 | Raid::Replica3 => 3,
            Raid::Raid10 | Raid::Raid6 | Raid::TripleParity => 4,
        };
        if matches!(self, Raid::Raid1 | Raid::Raid10) && !disks.is_multiple_of(2) {
            return Some("mirrors need an even number of disks".into());
        }
        (disks < least).then(|| format!("at least {least}"))
    }
}

/// `[[pool]]`: disks that several volumes share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Name of the pool, which volumes use.
    pub name: String,
    /// Pools of this form (for example one per array); 1 when not given.
    #[serde(default = "count::<1>")]
    pub count: u32,
    /// Kind of disk.
    pub disk: String,
    /// Disks in one pool.
    pub disks: u32,
    /// Kind of the disks of a faster tier that counts as capacity.
    pub fast_disk: Option<String>,
    /// Disks of the faster tier in one pool; 0 when not given.
    #[serde(default)]
    pub fast_disks: u32,
    /// Protection of the pool.
    #[serde(default)]
    pub raid: Raid,
    /// Tiering between the disks and the faster tier, for simulated time.
    pub tiering: Option<Tiering>,
    /// Disks of one parity group; all disks of the pool when not given.
    pub group_disks: Option<u32>,
    /// Usable capacity in GiB as the vendor states it; from disks and protection when not given.
    pub formatted_gib: Option<f64>,
    /// Effective capacity in GiB after compression and deduplication, as the vendor states it.
    pub effective_gib: Option<f64>,
    /// Space saved by compression and deduplication, in percent; 0 when not given.
    #[serde(default)]
    pub saving_percent: f64,
    /// Back-end writes per random write, where the RAID level does not say it.
    pub write_penalty: Option<f64>,
    /// Whether the I/O of the pool follows from its disks or from the array.
    #[serde(default)]
    pub io: PoolIo,
    /// Volumes take room in chunks of this many KiB when they are first written (thin provisioning), for
    /// simulated time; all of it from the start when not given.
    pub thin_chunk_kib: Option<u64>,
    /// Snapshots of its volumes, for simulated time; needs `thin_chunk_kib`.
    pub snapshots: Option<Snapshots>,
}

/// Tiering: slices of a pool's volumes move to the faster tier by their reads and writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tiering {
    /// Kind of tiering, of the tables of `assumptions.toml`.
    pub model: String,
    /// Protection of the faster tier; that of the pool when not given.
    pub raid: Option<Raid>,
    /// Minutes from one relocation to the next.
    pub every_min: f64,
    /// Whether every slice starts where the first relocation would move it; false when not given.
    #[serde(default)]
    pub settled: bool,
}

/// Snapshots of all volumes of a pool at equal intervals. A write after a snapshot goes to a new chunk.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Snapshots {
    /// Minutes between two snapshots.
    pub every_min: f64,
    /// Number of snapshots that are kept.
    pub keep: u32,
}

/// Origin of a pool's I/O rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PoolIo {
    /// The rate follows from the disks.
    #[default]
    Disks,
    /// The array gathers writes or reads from flash, so the rate does not follow from the disks. Only tests show it.
    Array,
}

/// Role of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Databases, and their logs unless there is a volume for logs.
    #[default]
    Database,
    /// Logs only.
    Log,
    /// Room to restore one volume.
    Restore,
    /// Spare that AutoReseed takes.
    AutoReseed,
    /// Transport queue database.
    Transport,
    /// Operating system.
    System,
    /// Backup to disk.
    Backup,
    /// MetaCache databases of Exchange 2019 and SE, on SSD.
    MetaCache,
}

/// `[[volume]]`: one volume, or `count` alike, on each host that `host` names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Name, unique on its host; a template when `count` is given.
    pub name: String,
    /// Number of volumes per host; 1 when not given.
    #[serde(default = "count::<1>")]
    pub count: u32,
    /// Host name, `*` allowed; every host when not given.
    pub host: Option<String>,
    /// Folder on the file system under test; may use `{n}` and `{host}`.
    pub path: Option<String>,
    /// Role of the volume.
    #[serde(default)]
    pub role: Role,
    /// Kind of disk, for a volume with disks of its own.
    pub disk: Option<String>,
    /// Disks of its own; 1 when not given.
    #[serde(default = "count::<1>")]
    pub disks: u32,
    /// Protection of its own disks.
    #[serde(default)]
    pub raid: Raid,
    /// Pool that it is a part of, instead of disks of its own.
    pub pool: Option<String>,
    /// Capacity in GiB; from the disks when not given.
    pub capacity_gib: Option<f64>,
    /// Enclosure that holds its disks; the host's when not given.
    pub enclosure: Option<String>,
}

/// `[building_block]`: growth of the solution in equal blocks within one array.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BuildingBlock {
    /// Largest number of blocks to show; 8 when not given.
    #[serde(default = "count::<8>")]
    pub blocks: u32,
    /// Disks that the array takes.
    pub max_disks: Option<u32>,
    /// Hosts that the array serves.
    pub max_hosts: Option<u32>,
    /// Raw capacity that the array takes, in TB (10^12 bytes).
    pub max_capacity_tb: Option<f64>,
}

/// `[[instance]]`: one log stream with its databases, or `count` alike, on each host that `host` names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    /// Name, unique on its host; a template when `count` is given.
    pub name: String,
    /// Number of instances per host; 1 when not given.
    #[serde(default = "count::<1>")]
    pub count: u32,
    /// Host name, `*` allowed; every host under test when not given.
    pub host: Option<String>,
    /// Volume of the databases, a template.
    pub volume: Option<String>,
    /// Volume of the logs, a template; the volume of the databases when not given.
    pub log_volume: Option<String>,
    /// Size of one log generation in KiB; by generation (1024, 5120 for 2003) when not given.
    pub log_file_kib: Option<u32>,
    /// Page size in KiB; by generation (32) when not given.
    pub page_kib: Option<u32>,
    /// Number of databases, or a list of them; 1 when not given.
    #[serde(default)]
    pub databases: Databases,
}

/// Databases of an instance: a number or a list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Databases {
    /// Number of databases, all on the instance's volume.
    Count(u32),
    /// List of databases.
    List(Vec<Database>),
}

impl Databases {
    /// Number of databases.
    pub fn count(&self) -> u32 {
        match self {
            Databases::Count(count) => *count,
            Databases::List(list) => list.len() as u32,
        }
    }
}

impl Default for Databases {
    fn default() -> Self {
        Databases::Count(1)
    }
}

/// One database of an instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// Name, unique on its host.
    pub name: String,
    /// Volume, a template; the instance's when not given.
    pub volume: Option<String>,
    /// Size in MiB; by `[sizing]` when not given.
    pub size_mib: Option<u64>,
}

/// Written by hand, because a derived untagged enum would lose place and text of an error inside the list.
impl<'de> Deserialize<'de> for Databases {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CountOrList;
        impl<'de> Visitor<'de> for CountOrList {
            type Value = Databases;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number of databases, or a list of databases")
            }

            fn visit_i64<E: serde::de::Error>(self, count: i64) -> Result<Databases, E> {
                u32::try_from(count).map(Databases::Count).map_err(|_| {
                    E::invalid_value(serde::de::Unexpected::Signed(count), &"a positive number of databases")
                })
            }

            fn visit_u64<E: serde::de::Error>(self, count: u64) -> Result<Databases, E> {
                u32::try_from(count).map(Databases::Count).map_err(|_| {
                    E::invalid_value(
                        serde::de::Unexpected::Unsigned(count),
                        &"a number of databases below 2^32",
                    )
                })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Databases, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(Databases::List)
            }
        }
        deserializer.deserialize_any(CountOrList)
    }
}

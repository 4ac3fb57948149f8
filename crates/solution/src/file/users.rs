//! Users and what they do: `[profile]`, `[dag]`, `[copies]`, `[layout]`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{number, yes};

/// Generation of the mailbox database, which decides formulas and defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Generation {
    /// Exchange 2003: 4 KiB pages, 5 MiB logs, storage groups of up to five databases.
    #[serde(rename = "2003")]
    E2003,
    /// Exchange 2007: 8 KiB pages.
    #[serde(rename = "2007")]
    E2007,
    /// Exchange 2010: 32 KiB pages, first with database availability groups.
    #[serde(rename = "2010")]
    E2010,
    /// Exchange 2013.
    #[serde(rename = "2013")]
    E2013,
    /// Exchange 2016.
    #[serde(rename = "2016")]
    E2016,
    /// Exchange 2019.
    #[serde(rename = "2019")]
    E2019,
    /// Exchange Server Subscription Edition.
    #[serde(rename = "se")]
    Se,
}

impl Generation {
    /// Database page size in KiB.
    pub fn page_kib(self) -> u32 {
        match self {
            Generation::E2003 => 4,
            Generation::E2007 => 8,
            _ => 32,
        }
    }

    /// Size of one log generation in KiB.
    pub fn log_file_kib(self) -> u32 {
        if self == Generation::E2003 { 5120 } else { 1024 }
    }

    /// Year of the product, which is a part of its name up to 2019.
    pub fn year(self) -> u32 {
        match self {
            Generation::E2003 => 2003,
            Generation::E2007 => 2007,
            Generation::E2010 => 2010,
            Generation::E2013 => 2013,
            Generation::E2016 => 2016,
            Generation::E2019 => 2019,
            Generation::Se => 2025,
        }
    }

    /// Product name without "Exchange".
    pub fn name(self) -> String {
        if self == Generation::Se { "SE".into() } else { self.year().to_string() }
    }
}

/// `[profile]`: profile of the users. Each derived figure can be replaced here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Users {
    /// Generation of Exchange.
    pub exchange: Generation,
    /// Mailboxes in the whole environment.
    pub mailboxes: u64,
    /// Messages sent and received per mailbox and day.
    pub messages_per_day: Option<f64>,
    /// Mean message size in KB; 75 when not given.
    #[serde(default = "number::<75>")]
    pub message_kb: f64,
    /// Mailbox quota in MB.
    pub quota_mb: Option<f64>,
    /// Room added to the I/O of a mailbox, in percent; 20 when not given.
    #[serde(default = "number::<20>")]
    pub headroom_percent: f64,
    /// I/O per second of one mailbox without headroom; derived from `messages_per_day` when not given.
    pub iops_per_mailbox: Option<f64>,
    /// I/O per second of one mailbox with headroom, as tests print it (0.121); used for the test target only.
    pub test_iops_per_mailbox: Option<f64>,
    /// Factor on the I/O of `iops_multiplied_percent` of the users (mobile devices, archiving); 1 when not given.
    #[serde(default = "number::<1>")]
    pub iops_multiplier: f64,
    /// Users that `iops_multiplier` applies to, in percent; 100 when not given.
    #[serde(default = "number::<100>")]
    pub iops_multiplied_percent: f64,
    /// I/O per second added to each server; 0 when not given.
    #[serde(default = "number::<0>")]
    pub extra_iops_per_server: f64,
    /// Share of reads in the database I/O, in percent; 60 when not given.
    #[serde(default = "number::<60>")]
    pub read_percent: f64,
    /// Transaction logs per mailbox and day; derived when not given.
    pub logs_per_mailbox_day: Option<f64>,
    /// Share of mailboxes moved per week, in percent; 1 when not given.
    #[serde(default = "number::<1>")]
    pub moves_percent_per_week: f64,
    /// Mailbox size on disk in MB; derived when not given.
    pub mailbox_mb: Option<f64>,
    /// Days that deleted items are kept; 14 when not given.
    #[serde(default = "number::<14>")]
    pub deleted_item_days: f64,
    /// Single item recovery keeps deleted items for the whole time; on when not given.
    pub(crate) single_item_recovery: Option<bool>,
    /// Calendar versions are logged; on when not given.
    pub(crate) calendar_versions: Option<bool>,
    /// Growth of the database beyond its mailboxes, in percent; by generation when not given.
    pub(crate) data_overhead_percent: Option<f64>,
    /// Content index, in percent of the database; by generation when not given.
    pub(crate) content_index_percent: Option<f64>,
    /// Room for one index merge per volume, in percent of one database; by generation when not given.
    pub(crate) index_merge_percent: Option<f64>,
    /// Free space kept on each volume, in percent; 5 when not given.
    #[serde(default = "number::<5>")]
    pub free_percent: f64,
    /// Days of logs kept when truncation fails; 3 when not given.
    #[serde(default = "number::<3>")]
    pub truncation_days: f64,
    /// Days of logs kept when the network between copies fails; 0 when not given.
    #[serde(default = "number::<0>")]
    pub network_days: f64,
    /// Background maintenance per copy in MB/s; 1 when not given.
    #[serde(default = "number::<1>")]
    pub maintenance_mb_per_s: f64,
    /// Days of mail that the transport queue may hold; 2 when not given.
    #[serde(default = "number::<2>")]
    pub queue_days: f64,
    /// Days of mail that Safety Net holds; 2 when not given.
    #[serde(default = "number::<2>")]
    pub safety_net_days: f64,
    /// Database cache per active mailbox in MB; derived when not given.
    pub cache_mb_per_mailbox: Option<f64>,
    /// Processor megacycles per active mailbox; derived when not given.
    pub active_mcycles: Option<f64>,
    /// Processor megacycles per passive mailbox; derived when not given.
    pub passive_mcycles: Option<f64>,
    /// Servers carry the client access part as well; on from Exchange 2013 when not given.
    pub(crate) multi_role: Option<bool>,
    /// Largest share of a day's logs that falls into one hour, in percent; 10 when not given.
    #[serde(default = "number::<10>")]
    pub peak_hour_log_percent: f64,
}

/// `[dag]`: database availability groups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Dag {
    /// Groups of the same form in the environment; 1 when not given. Sites and hosts describe one of them.
    pub count: u32,
    /// Databases per group; derived from the storage when not given.
    pub(crate) databases: Option<u32>,
    /// Databases on one volume; 1 when not given.
    pub databases_per_volume: u32,
    /// Largest database in GB that the plan accepts; as the calculator recommends (2,000, with one copy 200)
    /// when not given.
    pub max_database_gb: Option<f64>,
    /// Databases per volume that the calculator's pane was run with, where the paper contradicts itself.
    pub(crate) sized_databases_per_volume: Option<u32>,
    /// Round the databases up so that every failure of a server spreads evenly; off when not given.
    pub symmetric: bool,
    /// Name of a database, a template; `DB{n}` when not given.
    pub(crate) database_name: String,
}

impl Default for Dag {
    fn default() -> Self {
        Dag {
            count: 1,
            databases: None,
            databases_per_volume: 1,
            max_database_gb: None,
            sized_databases_per_volume: None,
            symmetric: false,
            database_name: "DB{n}".into(),
        }
    }
}

/// `[copies]`: copies of each database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Copies {
    /// Copies in the site where a database is normally active, then in each other site in the order of `[[site]]`.
    pub per_site: Vec<u32>,
    /// Number of lagged copies, the last in activation preference; 0 when not given.
    #[serde(default)]
    pub lagged: u32,
    /// Replay lag of the lagged copies in days; 7 when not given.
    #[serde(default = "number::<7>")]
    pub lag_days: f64,
    /// A lagged copy may be activated like any other (it plays its logs forward); on when not given.
    #[serde(default = "yes")]
    pub lagged_can_activate: bool,
    /// Rule for the days of logs that a lagged copy keeps; `beyond_lag` when not given.
    #[serde(default)]
    pub lag_log_rule: LagLogRule,
}

/// Default: one copy of each database.
impl Default for Copies {
    fn default() -> Self {
        Copies {
            per_site: vec![1],
            lagged: 0,
            lag_days: number::<7>(),
            lagged_can_activate: true,
            lag_log_rule: LagLogRule::default(),
        }
    }
}

/// Days of logs kept beside a lagged copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LagLogRule {
    /// The longer of the truncation tolerance and the lag: what the calculator does.
    Longer,
    /// The lag and three days beyond it: what the documentation says.
    #[default]
    BeyondLag,
}

/// `[layout]`: placement of copies on servers; by the published rule when not given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// Copies in other sites repeat the picture of the first site (`mirrored`, the published rule) or are shifted
    /// further (`rotated`), which spreads a double failure over more servers.
    #[serde(default)]
    pub remote: RemoteRule,
    /// Layout made elsewhere, which the plan checks instead of making one.
    #[serde(default)]
    pub database: Vec<LayoutRow>,
}

/// Placement rule for copies in sites after the home site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RemoteRule {
    /// Same picture as in the home site.
    #[default]
    Mirrored,
    /// Shifted by one server more in each round.
    Rotated,
}

/// One row of an imported layout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LayoutRow {
    /// Database name.
    pub name: String,
    /// Volume number on every server that holds a copy.
    pub volume: Option<u32>,
    /// Server and activation preference of each copy.
    pub copies: Vec<(String, u32)>,
}

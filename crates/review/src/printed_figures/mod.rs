//! Evidence as it was printed: the tables of a published paper or of a load generator's report, in the keys of
//! `published/*.toml` (`published/README.md` explains them). What was not printed is absent; NaN means unreadable.
//!
//! Units are in the names. `mb` is MiB, as in the published reports.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::value::Datetime;

pub use report::*;

/// A moment without a time zone, as reports print it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Instant(pub Datetime);

impl Instant {
    /// Seconds since 1970, taken as UTC; `None` for a time without a date.
    pub fn unix_s(&self) -> Option<i64> {
        let date = self.0.date?;
        let time = self.0.time;
        let (year, month, day) = (i64::from(date.year), i64::from(date.month), i64::from(date.day));
        // Days from the civil calendar: years begin in March, so that leap days come last.
        let y = if month <= 2 { year - 1 } else { year };
        let era = y.div_euclid(400);
        let of_era = y - era * 400;
        let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
        let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
        let seconds = time.map_or(0, |t| {
            i64::from(t.hour) * 3600 + i64::from(t.minute) * 60 + i64::from(t.second.unwrap_or(0))
        });
        Some(days * 86_400 + seconds)
    }
}

macro_rules! printed {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name {
            $($(#[$field_doc])* #[serde(skip_serializing_if = "is_absent")] pub $field: $type,)*
        }
    };
}

mod report;

/// Whether there is nothing to write down.
fn is_absent<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

printed! {
    /// Everything that one document says.
    Evidence {
        /// Version of these keys: 1.
        schema_version: u32,
        /// What was built and how it was loaded.
        solution: SolutionClaims,
        /// What it was built from.
        hardware: HardwareClaims,
        /// Where the copies lie.
        layout: LayoutFigures,
        /// Sizing table: per database, server, group, environment.
        calculator: BTreeMap<String, toml::Value>,
        /// The result section.
        summary: Summary,
        /// One report of the load generator each.
        test: Vec<TestFigures>,
    }
}

printed! {
    /// `[solution]`.
    SolutionClaims {
        /// Title.
        title: String,
        /// Generation of Exchange.
        exchange_version: String,
        /// Engine version in the reports.
        ese_version: String,
        /// Engine version in the software table.
        ese_version_in_software_table: String,
        /// Mailboxes.
        mailboxes: Option<f64>,
        /// Quota.
        mailbox_quota_mb: Option<f64>,
        /// Quota as stated in the conclusion.
        mailbox_quota_mb_in_conclusion: Option<f64>,
        /// I/O per second and mailbox, headroom included.
        iops_per_mailbox: Option<f64>,
        /// The same as the paper says was reached.
        stated_achieved_iops_per_mailbox: Option<f64>,
        /// Headroom.
        headroom_pct: Option<f64>,
        /// Headroom as stated elsewhere.
        stated_headroom_pct: Option<f64>,
        /// Servers.
        servers: Option<f64>,
        /// Servers that were tested.
        servers_tested: Option<f64>,
        /// Databases.
        databases: Option<f64>,
        /// Databases of a server under test.
        databases_per_server_tested: Option<PerServer>,
        /// Mailboxes of a database.
        mailboxes_per_database: Option<f64>,
        /// Mailboxes of a server when nothing has failed.
        mailboxes_per_server_normal: Option<f64>,
        /// Mailboxes of a server in the failure that was tested.
        mailboxes_per_server_tested: Option<f64>,
        /// Test databases, all servers, TiB.
        total_test_database_tb: Option<f64>,
        /// Share of the capacity that the test databases take.
        storage_used_pct: Option<f64>,
        /// Target of a server.
        target_iops_per_server: Option<f64>,
        /// Initiator version in the list of changes.
        initiator_version_elsewhere: String,
    }
}

printed! {
    /// Databases of a server.
    PerServer {
        /// Copies.
        total: Option<f64>,
        /// Active ones.
        active: Option<f64>,
        /// Passive ones.
        passive: Option<f64>,
    }
}

printed! {
    /// `[hardware]`.
    HardwareClaims {
        /// The host: model, software.
        host: BTreeMap<String, toml::Value>,
        /// The storage.
        storage_model: String,
        /// Adapters.
        hba: String,
        /// Switches.
        switch: String,
        /// Shelves: model, bays.
        enclosure: BTreeMap<String, toml::Value>,
        /// Disks tested.
        disks_tested: Option<f64>,
        /// Disks tested in a server.
        disks_tested_per_server: Option<f64>,
        /// Raw capacity.
        raw_capacity_tb: BTreeMap<String, f64>,
        /// Raw capacity of a cluster.
        raw_capacity_gb: Option<f64>,
        /// Formatted capacity.
        formatted_capacity_tb: Option<f64>,
        /// Unit that was printed beside it, where it is not TB.
        formatted_capacity_printed_unit: String,
        /// Formatted capacity of a volume.
        formatted_capacity_gb_per_lun: Option<f64>,
        /// Formatted by raw.
        storage_utilization_pct: Option<f64>,
        /// Data by formatted, or by raw.
        database_utilization_pct: Option<f64>,
        /// Short keywords.
        features: Vec<String>,
        /// Models of hardware that the text names outside the tables.
        models_in_prose: Vec<String>,
        /// Groups of disks.
        disks: Vec<DiskFigures>,
    }
}

printed! {
    /// `[[hardware.disks]]`.
    DiskFigures {
        /// What they are for.
        role: String,
        /// Model.
        model: String,
        /// Kind, such as `NL-SAS` or `SATA SSD`.
        #[serde(rename = "type")]
        drive_type: String,
        /// Turns per minute; none of flash.
        rpm: Option<f64>,
        /// Decimal size of one.
        capacity_gb: Option<f64>,
        /// How many.
        count: Option<f64>,
        /// RAID level.
        raid: String,
        /// Disks of a volume.
        disks_per_lun: Option<f64>,
        /// Raw capacity of the group.
        raw_gb: Option<f64>,
        /// Formatted capacity of the group.
        formatted_gb: Option<f64>,
        /// Volumes that the text says they make.
        volumes_printed: Option<f64>,
    }
}

printed! {
    /// `[layout]`.
    LayoutFigures {
        /// Servers by name.
        servers: Vec<String>,
        /// Servers of each site or enclosure.
        server_groups: BTreeMap<String, Vec<String>>,
        /// Without a failure.
        normal: LoadPerServer,
        /// In the failure that was tested.
        failed: LoadPerServer,
        /// Copies of each database.
        databases: Vec<DatabaseCopies>,
    }
}

printed! {
    /// Load of a server.
    LoadPerServer {
        /// Active databases.
        active_databases_per_server: Option<f64>,
        /// Mailboxes.
        mailboxes_per_server: Option<f64>,
    }
}

printed! {
    /// Copies of a database.
    DatabaseCopies {
        /// Name.
        db: String,
        /// Server and activation preference.
        copies: Vec<(String, u32)>,
    }
}

printed! {
    /// `[summary]`.
    Summary {
        /// A row per server.
        server: Vec<SummaryRow>,
        /// All servers: sums of rates, means of latencies.
        aggregate: Option<SummaryRow>,
        /// I/O per second and mailbox that the stress test is said to have reached.
        stated_stress_iops_per_mailbox: Option<f64>,
        /// I/O per second of a server that the stress test is said to have reached.
        stated_stress_iops: Option<f64>,
        /// Length of the performance test.
        performance_hours: Option<f64>,
        /// Length of the stress test.
        stress_hours: Option<f64>,
        /// Backup.
        backup_mb_per_s: Option<BackupSummary>,
        /// Backup to disk.
        backup_to_disk: Option<BackupToDiskSummary>,
        /// Soft recovery.
        recovery: Option<RecoverySummary>,
    }
}

printed! {
    /// A row of the result table.
    SummaryRow {
        /// Server, from 1.
        server: u32,
        /// Target.
        target_iops: Option<f64>,
        /// Transactional I/O per second.
        achieved_iops: Option<f64>,
        /// Database reads.
        reads_per_s: Option<f64>,
        /// Database writes.
        writes_per_s: Option<f64>,
        /// Mean read latency.
        read_latency_ms: Option<f64>,
        /// Mean write latency.
        write_latency_ms: Option<f64>,
        /// Log writes.
        log_writes_per_s: Option<f64>,
        /// Mean log write latency.
        log_write_latency_ms: Option<f64>,
        /// Backup, each database.
        backup_mb_per_s_per_database: Option<f64>,
        /// Backup of the server.
        backup_mb_per_s: Option<f64>,
        /// Replay of one log.
        recovery_seconds_per_log: Option<f64>,
    }
}

printed! {
    /// Backup in the summary.
    BackupSummary {
        /// Each database.
        per_database: Option<f64>,
        /// Each server.
        per_server: Option<f64>,
    }
}

printed! {
    /// Backup to disk in the summary.
    BackupToDiskSummary {
        /// Size of the storage group.
        storage_group_mb: Option<f64>,
        /// Unit that was printed beside it, where it is not MB.
        storage_group_printed_unit: String,
        /// Time it took.
        elapsed_s: Option<f64>,
        /// Rate.
        mb_per_s: Option<f64>,
    }
}

printed! {
    /// Soft recovery in the summary.
    RecoverySummary {
        /// Logs replayed.
        logs: Option<f64>,
        /// The same as stated elsewhere.
        logs_stated_elsewhere: Option<f64>,
        /// Replay of one log.
        seconds_per_log: Option<f64>,
    }
}

impl Evidence {
    /// The text form: the file that [`crate::open`] reads again.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    /// Tests of a kind with the tables or the total of a server.
    pub fn tests<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a TestFigures> {
        self.test.iter().filter(move |test| test.kind == kind)
    }
}

/// A figure that was printed and could be read.
pub fn known(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

/// A count that sums can hold.
pub fn bounded(value: f64, most: u64) -> u64 {
    (value.max(0.0) as u64).min(most)
}

/// A printed figure as a whole number. Damaged or hostile ones are cut to what sums can hold: 2^50 of anything printed
/// (a pebibyte), from at most 4,096 rows.
pub fn whole(value: Option<f64>) -> u64 {
    bounded(known(value).unwrap_or(0.0), 1 << 50)
}

/// All figures, or none if one is missing.
pub fn all_known(values: impl IntoIterator<Item = Option<f64>>) -> Option<Vec<f64>> {
    let values: Option<Vec<f64>> = values.into_iter().map(known).collect();
    values.filter(|values| !values.is_empty())
}

/// The sum, if every part is known.
pub fn sum(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    all_known(values).map(|values| values.iter().sum())
}

/// The mean, if every part is known.
pub fn mean(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    all_known(values).map(|values| values.iter().sum::<f64>() / values.len() as f64)
}

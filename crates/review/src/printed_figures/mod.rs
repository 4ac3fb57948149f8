//! Evidence as it was printed: the tables of a published paper or of a load generator's report, in the keys of
//! `published/*.toml` (`published/README.md` explains them). What was not printed is absent; NaN means unreadable.
//!
//! Units are in the names. `mb` is MiB, as in the published reports.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::value::Datetime;

pub use report::*;

/// A date and time without a time zone, as reports print it.
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

/// Whether a value is empty, so that the text form leaves it out.
fn is_absent<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

printed! {
    /// Printed figures: everything that one published paper or foreign report states.
    Evidence {
        /// Version of these keys: 1.
        schema_version: u32,
        /// The solution and its load, as stated.
        solution: SolutionClaims,
        /// The hardware, as stated.
        hardware: HardwareClaims,
        /// Which servers hold copies of which database.
        layout: LayoutFigures,
        /// Sizing table: per database, server, group, environment.
        calculator: BTreeMap<String, toml::Value>,
        /// The table of results.
        summary: Summary,
        /// A report of the load generator for each test and server.
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
        /// Mailbox quota in MB.
        mailbox_quota_mb_in_conclusion: Option<f64>,
        /// I/O per second and mailbox that the solution is for, headroom included.
        iops_per_mailbox: Option<f64>,
        /// I/O per second and mailbox that the text says was reached.
        stated_achieved_iops_per_mailbox: Option<f64>,
        /// Headroom in percent.
        headroom_pct: Option<f64>,
        /// Headroom in percent as another place of the text states it.
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
        /// Target in I/O per second of a server.
        target_iops_per_server: Option<f64>,
        /// Initiator version in the list of changes.
        initiator_version_elsewhere: String,
    }
}

printed! {
    /// Databases of a server, by the state of their copies.
    PerServer {
        /// Copies.
        total: Option<f64>,
        /// Active copies.
        active: Option<f64>,
        /// Passive copies.
        passive: Option<f64>,
    }
}

printed! {
    /// `[hardware]`.
    HardwareClaims {
        /// Model and software of the servers.
        host: BTreeMap<String, toml::Value>,
        /// Model of the storage.
        storage_model: String,
        /// Host bus adapters.
        hba: String,
        /// Switches.
        switch: String,
        /// Shelves: model and number of bays.
        enclosure: BTreeMap<String, toml::Value>,
        /// Disks tested.
        disks_tested: Option<f64>,
        /// Disks tested in a server.
        disks_tested_per_server: Option<f64>,
        /// Raw capacity in TB.
        raw_capacity_tb: BTreeMap<String, f64>,
        /// Raw capacity of a cluster in GB.
        raw_capacity_gb: Option<f64>,
        /// Formatted capacity in TB.
        formatted_capacity_tb: Option<f64>,
        /// Unit that was printed beside it, where it is not TB.
        formatted_capacity_printed_unit: String,
        /// Formatted capacity of a volume in GB.
        formatted_capacity_gb_per_lun: Option<f64>,
        /// Formatted capacity in percent of raw capacity.
        storage_utilization_pct: Option<f64>,
        /// Data in percent of formatted (or raw) capacity.
        database_utilization_pct: Option<f64>,
        /// Keywords for features of the storage.
        features: Vec<String>,
        /// Models of hardware that the text names outside the tables.
        models_in_prose: Vec<String>,
        /// Groups of equal disks.
        disks: Vec<DiskFigures>,
    }
}

printed! {
    /// `[[hardware.disks]]`.
    DiskFigures {
        /// Purpose of the disks, such as databases or logs.
        role: String,
        /// Model of the disk.
        model: String,
        /// Kind, such as `NL-SAS` or `SATA SSD`.
        #[serde(rename = "type")]
        drive_type: String,
        /// Turns per minute; none of flash.
        rpm: Option<f64>,
        /// Capacity of one disk in GB (10^9 bytes).
        capacity_gb: Option<f64>,
        /// Number of disks.
        count: Option<f64>,
        /// RAID level.
        raid: String,
        /// Disks that a volume is made of.
        disks_per_lun: Option<f64>,
        /// Raw capacity of the group in GB.
        raw_gb: Option<f64>,
        /// Formatted capacity of the group in GB.
        formatted_gb: Option<f64>,
        /// Number of volumes that the text says they make.
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
        /// Load of each server without a failure.
        normal: LoadPerServer,
        /// Load of each server in the failure that was tested.
        failed: LoadPerServer,
        /// Copies of each database, by server.
        databases: Vec<DatabaseCopies>,
    }
}

printed! {
    /// Databases and mailboxes of a server.
    LoadPerServer {
        /// Active databases of a server.
        active_databases_per_server: Option<f64>,
        /// Mailboxes of a server.
        mailboxes_per_server: Option<f64>,
    }
}

printed! {
    /// A database and the servers with its copies.
    DatabaseCopies {
        /// Name of the database.
        db: String,
        /// Activation preference of the copy by server.
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
        /// Result of the backup test.
        backup_mb_per_s: Option<BackupSummary>,
        /// Result of the backup-to-disk test.
        backup_to_disk: Option<BackupToDiskSummary>,
        /// Result of the soft recovery test.
        recovery: Option<RecoverySummary>,
    }
}

printed! {
    /// A row of the result table.
    SummaryRow {
        /// Number of the server, from 1.
        server: u32,
        /// Target in transactional I/O per second.
        target_iops: Option<f64>,
        /// Transactional I/O per second.
        achieved_iops: Option<f64>,
        /// Database reads per second.
        reads_per_s: Option<f64>,
        /// Database writes per second.
        writes_per_s: Option<f64>,
        /// Mean read latency in ms.
        read_latency_ms: Option<f64>,
        /// Mean write latency in ms.
        write_latency_ms: Option<f64>,
        /// Log writes per second.
        log_writes_per_s: Option<f64>,
        /// Mean log write latency in ms.
        log_write_latency_ms: Option<f64>,
        /// Backup rate of each database in MB per second.
        backup_mb_per_s_per_database: Option<f64>,
        /// Backup rate of the server in MB per second.
        backup_mb_per_s: Option<f64>,
        /// Seconds to replay one log.
        recovery_seconds_per_log: Option<f64>,
    }
}

printed! {
    /// Backup rates in the summary.
    BackupSummary {
        /// MB per second of each database.
        per_database: Option<f64>,
        /// MB per second of each server.
        per_server: Option<f64>,
    }
}

printed! {
    /// Backup to disk in the summary.
    BackupToDiskSummary {
        /// Size of the storage group in MB.
        storage_group_mb: Option<f64>,
        /// Unit that was printed beside it, where it is not MB.
        storage_group_printed_unit: String,
        /// Seconds that it took.
        elapsed_s: Option<f64>,
        /// MB per second.
        mb_per_s: Option<f64>,
    }
}

printed! {
    /// Soft recovery in the summary.
    RecoverySummary {
        /// Logs replayed.
        logs: Option<f64>,
        /// Logs replayed, as another place of the text states it.
        logs_stated_elsewhere: Option<f64>,
        /// Seconds to replay one log.
        seconds_per_log: Option<f64>,
    }
}

impl Evidence {
    /// The figures as text: the file that [`crate::open`] reads again.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    /// Reports of a kind with the instance tables or the total of a server.
    pub fn tests<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a TestFigures> {
        self.test.iter().filter(move |test| test.kind == kind)
    }
}

/// The value of a figure that was printed and could be read.
pub fn known(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

/// A count of at most `most`, so that sums cannot overflow.
pub fn bounded(value: f64, most: u64) -> u64 {
    (value.max(0.0) as u64).min(most)
}

/// A printed figure as a whole number, cut to 2^50 (a pebibyte, if bytes) so that sums of at most 4,096 rows cannot
/// overflow; damaged or hostile figures can be larger.
pub fn whole(value: Option<f64>) -> u64 {
    bounded(known(value).unwrap_or(0.0), 1 << 50)
}

/// All figures, or `None` if one is missing.
pub fn all_known(values: impl IntoIterator<Item = Option<f64>>) -> Option<Vec<f64>> {
    let values: Option<Vec<f64>> = values.into_iter().map(known).collect();
    values.filter(|values| !values.is_empty())
}

/// The sum; `None` if a part is not known.
pub fn sum(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    all_known(values).map(|values| values.iter().sum())
}

/// The mean; `None` if a part is not known.
pub fn mean(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    all_known(values).map(|values| values.iter().sum::<f64>() / values.len() as f64)
}

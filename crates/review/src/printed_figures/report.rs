//! Reports of the load generator, as printed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Instant, is_absent};

printed! {
    /// One report of the load generator.
    TestFigures {
        /// Name of the report in this document.
        id: String,
        /// `performance`, `stress`, `checksum`, `backup`, `backup_to_disk`, `log_generation`, `soft_recovery`,
        /// `max_throughput`.
        kind: String,
        /// Number of the server, from 1; zero for all together.
        server: u32,
        /// Name of the machine.
        machine: String,
        /// `Pass` or `Fail`.
        result: String,
        /// Version of Jetstress.
        jetstress_version: String,
        /// Name and version of the load generator, if it is not Jetstress.
        generator: String,
        /// Version of the ESE engine.
        ese_version: String,
        /// Operating system.
        operating_system: String,
        /// Hours that the title states.
        title_hours: Option<f64>,
        /// Start of the test.
        start: Option<Instant>,
        /// End of the test.
        end: Option<Instant>,
        /// Seconds from start to end.
        duration_s: Option<f64>,
        /// Start of the measured window.
        collection_start: Option<Instant>,
        /// End of the measured window.
        collection_end: Option<Instant>,
        /// Length of the measured window in seconds.
        collection_s: Option<f64>,
        /// Length of the measured window in seconds in reports of 2003.
        run_s: Option<f64>,
        /// Times in the test log, by event.
        events: BTreeMap<String, Instant>,
        /// Sessions or threads.
        threads: Option<f64>,
        /// Copies of a database whose log reading is imitated.
        copies_simulated: Option<f64>,
        /// Number of database files.
        database_files: Option<f64>,
        /// Smallest page cache in MB.
        cache_min_mb: Option<f64>,
        /// Largest page cache in MB.
        cache_max_mb: Option<f64>,
        /// Shares of inserts, replaces, deletes and lazy commits.
        op_mix: BTreeMap<String, f64>,
        /// Latency limits that the report states.
        thresholds: Option<ThresholdClaims>,
        /// Seconds between samples.
        sample_interval_s: Option<f64>,
        /// Target in transactional I/O per second.
        target_iops: Option<f64>,
        /// Transactional I/O per second.
        achieved_iops: Option<f64>,
        /// Database reads per second, where no instance table was printed.
        reads_per_s: Option<f64>,
        /// Database writes per second, where no instance table was printed.
        writes_per_s: Option<f64>,
        /// Mean read latency in ms, where no instance table was printed.
        read_latency_ms: Option<f64>,
        /// Mean write latency in ms, where no instance table was printed.
        write_latency_ms: Option<f64>,
        /// Log writes per second, where no instance table was printed.
        log_writes_per_s: Option<f64>,
        /// Mean log write latency in ms, where no instance table was printed.
        log_write_latency_ms: Option<f64>,
        /// Bytes of all databases at the start.
        initial_database_bytes: Option<f64>,
        /// Bytes of all databases at the end.
        final_database_bytes: Option<f64>,
        /// Growth of all databases in bytes, as printed.
        growth_bytes: Option<f64>,
        /// Batches of all databases together.
        batch_transactions_total: Option<f64>,
        /// Transactional I/O by instance.
        transactional: Vec<InstanceRow>,
        /// Background maintenance by instance (BDM).
        bdm: Vec<MaintenanceRow>,
        /// Log replication by instance.
        log_replication: Vec<ReplicationRow>,
        /// All I/O by instance.
        total: Vec<InstanceRow>,
        /// Processor and memory counters of the host.
        host: Vec<CounterRow>,
        /// Results of checking page checksums, by database.
        checksum: Vec<ChecksumFigures>,
        /// Sums printed below the checksum table.
        checksum_sum: Option<ChecksumFigures>,
        /// Results of the backup, by database.
        backup: Vec<BackupClaims>,
        /// Sizes in MB of the databases that were backed up.
        backup_database_mb: Vec<f64>,
        /// Mean of the backup table in MB per second, as printed.
        backup_avg_mb_per_s: Option<f64>,
        /// Sum of the backup table in MB per second, as printed.
        backup_sum_mb_per_s: Option<f64>,
        /// Results of the soft recovery, by instance.
        recovery: Vec<RecoveryClaims>,
        /// Sum of the recovery table's logs, as printed.
        recovery_sum_logs: Option<f64>,
        /// Seconds to replay one log, as printed.
        seconds_per_log: Option<f64>,
        /// Lines of the test log.
        log: Vec<String>,
        /// Damaged cells of the scan that were repaired.
        ocr_repaired: Vec<Mark>,
        /// Cells of the scan that are kept though they may be misread.
        ocr_suspect: Vec<Mark>,
    }
}

printed! {
    /// Latency limits of a test, in ms.
    ThresholdClaims {
        /// Limit on the mean read latency.
        read_avg_ms: Option<f64>,
        /// Limit on the highest sample of the read latency.
        read_max_ms: Option<f64>,
        /// Limit on the mean log write latency.
        log_write_avg_ms: Option<f64>,
        /// Limit on the highest sample of the log write latency.
        log_write_max_ms: Option<f64>,
    }
}

printed! {
    /// I/O of one instance.
    InstanceRow {
        /// Number of the instance, from 1.
        n: u32,
        /// Name of the instance, where one was printed.
        name: String,
        /// Mean read latency in ms.
        db_read_latency_ms: Option<f64>,
        /// Mean write latency in ms.
        db_write_latency_ms: Option<f64>,
        /// Database reads per second.
        db_reads_per_s: Option<f64>,
        /// Database writes per second.
        db_writes_per_s: Option<f64>,
        /// Mean bytes of a read.
        db_read_avg_bytes: Option<f64>,
        /// Mean bytes of a write.
        db_write_avg_bytes: Option<f64>,
        /// Mean log read latency in ms.
        log_read_latency_ms: Option<f64>,
        /// Mean log write latency in ms.
        log_write_latency_ms: Option<f64>,
        /// Log reads per second.
        log_reads_per_s: Option<f64>,
        /// Log writes per second.
        log_writes_per_s: Option<f64>,
        /// Mean bytes of a log read.
        log_read_avg_bytes: Option<f64>,
        /// Mean bytes of a log write.
        log_write_avg_bytes: Option<f64>,
    }
}

printed! {
    /// Background maintenance of one instance.
    MaintenanceRow {
        /// Number of the instance, from 1.
        n: u32,
        /// Reads per second.
        reads_per_s: Option<f64>,
        /// Mean bytes of a read.
        read_avg_bytes: Option<f64>,
    }
}

printed! {
    /// Log replication of one instance.
    ReplicationRow {
        /// Number of the instance, from 1.
        n: u32,
        /// Log reads per second.
        log_reads_per_s: Option<f64>,
        /// Mean bytes of a log read.
        log_read_avg_bytes: Option<f64>,
    }
}

printed! {
    /// A host counter.
    CounterRow {
        /// Name of the counter.
        counter: String,
        /// Mean.
        avg: Option<f64>,
        /// Lowest.
        min: Option<f64>,
        /// Highest.
        max: Option<f64>,
    }
}

printed! {
    /// Checksum of one database.
    ChecksumFigures {
        /// Number of the database, from 1.
        n: u32,
        /// File of the database.
        database: String,
        /// Pages seen.
        pages: Option<f64>,
        /// Bad pages.
        bad: Option<f64>,
        /// Correctable pages.
        correctable: Option<f64>,
        /// Pages that hold another page's number.
        wrong_page_number: Option<f64>,
        /// Size in MB.
        size_mb: Option<f64>,
        /// Seconds that it took.
        seconds: Option<f64>,
        /// MB per second.
        mb_per_s: Option<f64>,
    }
}

printed! {
    /// Backup of one database.
    BackupClaims {
        /// Number of the database, from 1.
        n: u32,
        /// Size in MB.
        size_mb: Option<f64>,
        /// Seconds that it took.
        elapsed_s: Option<f64>,
        /// MB per second.
        mb_per_s: Option<f64>,
    }
}

printed! {
    /// Recovery of one instance.
    RecoveryClaims {
        /// Number of the instance, from 1.
        n: u32,
        /// Logs replayed.
        logs: Option<f64>,
        /// Seconds that it took.
        seconds: Option<f64>,
    }
}

printed! {
    /// A mark on a cell that a scan damaged.
    Mark {
        /// The cell: `table[row].column`, or `table[*].column` with `rows`.
        cell: String,
        /// The rows that `[*]` stands for.
        rows: Vec<u32>,
        /// The text as the scan reads it.
        read: toml_text::Text,
    }
}

/// Reads and writes a mark's texts: one as a string, several as a list.
mod toml_text {
    use serde::{Deserialize, Serialize};

    /// One text or several, for keys that allow both.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(untagged)]
    pub enum Text {
        /// A single text.
        One(String),
        /// Several texts.
        Many(Vec<String>),
    }

    impl Default for Text {
        fn default() -> Text {
            Text::Many(Vec::new())
        }
    }
}

pub use toml_text::Text;

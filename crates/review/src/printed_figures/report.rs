//! Reports of the load generator, as printed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Instant, is_absent};

printed! {
    /// One report of the load generator.
    TestFigures {
        /// Name in this document.
        id: String,
        /// `performance`, `stress`, `checksum`, `backup`, `backup_to_disk`, `log_generation`, `soft_recovery`,
        /// `max_throughput`.
        kind: String,
        /// Server, from 1; zero for all.
        server: u32,
        /// Name of the machine.
        machine: String,
        /// `Pass` or `Fail`.
        result: String,
        /// Version of the load generator.
        jetstress_version: String,
        /// Name and version of another load generator.
        generator: String,
        /// Version of the engine.
        ese_version: String,
        /// Operating system.
        operating_system: String,
        /// Length that the title promises.
        title_hours: Option<f64>,
        /// Start.
        start: Option<Instant>,
        /// End.
        end: Option<Instant>,
        /// Length of the whole test.
        duration_s: Option<f64>,
        /// Start of the measured window.
        collection_start: Option<Instant>,
        /// End of the measured window.
        collection_end: Option<Instant>,
        /// Length of the measured window.
        collection_s: Option<f64>,
        /// Length of the measured window in reports of 2003.
        run_s: Option<f64>,
        /// Times of the test log.
        events: BTreeMap<String, Instant>,
        /// Sessions or threads.
        threads: Option<f64>,
        /// Copies of a database whose log reading is imitated.
        copies_simulated: Option<f64>,
        /// Database files.
        database_files: Option<f64>,
        /// Smallest page cache.
        cache_min_mb: Option<f64>,
        /// Largest page cache.
        cache_max_mb: Option<f64>,
        /// Operation mix.
        op_mix: BTreeMap<String, f64>,
        /// Limits.
        thresholds: Option<ThresholdClaims>,
        /// Interval of the samples.
        sample_interval_s: Option<f64>,
        /// Target.
        target_iops: Option<f64>,
        /// Transactional I/O per second.
        achieved_iops: Option<f64>,
        /// Database reads, where no instance table was printed.
        reads_per_s: Option<f64>,
        /// Database writes, likewise.
        writes_per_s: Option<f64>,
        /// Mean read latency, likewise.
        read_latency_ms: Option<f64>,
        /// Mean write latency, likewise.
        write_latency_ms: Option<f64>,
        /// Log writes, likewise.
        log_writes_per_s: Option<f64>,
        /// Mean log write latency, likewise.
        log_write_latency_ms: Option<f64>,
        /// Bytes of all databases at the start.
        initial_database_bytes: Option<f64>,
        /// Bytes of all databases at the end.
        final_database_bytes: Option<f64>,
        /// Difference of both, as printed.
        growth_bytes: Option<f64>,
        /// Batches of all databases.
        batch_transactions_total: Option<f64>,
        /// Transactional I/O by instance.
        transactional: Vec<InstanceRow>,
        /// Background maintenance by instance.
        bdm: Vec<MaintenanceRow>,
        /// Log replication by instance.
        log_replication: Vec<ReplicationRow>,
        /// All I/O by instance.
        total: Vec<InstanceRow>,
        /// Host counters.
        host: Vec<CounterRow>,
        /// Checksum by database.
        checksum: Vec<ChecksumFigures>,
        /// Sum of the checksum table.
        checksum_sum: Option<ChecksumFigures>,
        /// Backup by database.
        backup: Vec<BackupClaims>,
        /// Sizes of the databases that were backed up.
        backup_database_mb: Vec<f64>,
        /// Mean of the backup table.
        backup_avg_mb_per_s: Option<f64>,
        /// Sum of the backup table.
        backup_sum_mb_per_s: Option<f64>,
        /// Recovery by instance.
        recovery: Vec<RecoveryClaims>,
        /// Sum of the logs of the recovery table.
        recovery_sum_logs: Option<f64>,
        /// Replay of one log.
        seconds_per_log: Option<f64>,
        /// Lines of the test log.
        log: Vec<String>,
        /// Cells that are repaired.
        ocr_repaired: Vec<Mark>,
        /// Cells that are kept though something uncertain speaks against them.
        ocr_suspect: Vec<Mark>,
    }
}

printed! {
    /// Limits of a test.
    ThresholdClaims {
        /// Mean read latency.
        read_avg_ms: Option<f64>,
        /// Highest sample of the read latency.
        read_max_ms: Option<f64>,
        /// Mean log write latency.
        log_write_avg_ms: Option<f64>,
        /// Highest sample of the log write latency.
        log_write_max_ms: Option<f64>,
    }
}

printed! {
    /// I/O of one instance.
    InstanceRow {
        /// Instance, from 1.
        n: u32,
        /// Name, where one was printed.
        name: String,
        /// Mean read latency.
        db_read_latency_ms: Option<f64>,
        /// Mean write latency.
        db_write_latency_ms: Option<f64>,
        /// Reads.
        db_reads_per_s: Option<f64>,
        /// Writes.
        db_writes_per_s: Option<f64>,
        /// Mean size of a read.
        db_read_avg_bytes: Option<f64>,
        /// Mean size of a write.
        db_write_avg_bytes: Option<f64>,
        /// Mean log read latency.
        log_read_latency_ms: Option<f64>,
        /// Mean log write latency.
        log_write_latency_ms: Option<f64>,
        /// Log reads.
        log_reads_per_s: Option<f64>,
        /// Log writes.
        log_writes_per_s: Option<f64>,
        /// Mean size of a log read.
        log_read_avg_bytes: Option<f64>,
        /// Mean size of a log write.
        log_write_avg_bytes: Option<f64>,
    }
}

printed! {
    /// Background maintenance of one instance.
    MaintenanceRow {
        /// Instance, from 1.
        n: u32,
        /// Reads.
        reads_per_s: Option<f64>,
        /// Mean size of a read.
        read_avg_bytes: Option<f64>,
    }
}

printed! {
    /// Log replication of one instance.
    ReplicationRow {
        /// Instance, from 1.
        n: u32,
        /// Reads.
        log_reads_per_s: Option<f64>,
        /// Mean size of a read.
        log_read_avg_bytes: Option<f64>,
    }
}

printed! {
    /// A host counter.
    CounterRow {
        /// Name.
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
        /// Database, from 1.
        n: u32,
        /// Its file.
        database: String,
        /// Pages seen.
        pages: Option<f64>,
        /// Bad pages.
        bad: Option<f64>,
        /// Correctable pages.
        correctable: Option<f64>,
        /// Pages with another's number.
        wrong_page_number: Option<f64>,
        /// Size.
        size_mb: Option<f64>,
        /// Time.
        seconds: Option<f64>,
        /// Rate.
        mb_per_s: Option<f64>,
    }
}

printed! {
    /// Backup of one database.
    BackupClaims {
        /// Database, from 1.
        n: u32,
        /// Size.
        size_mb: Option<f64>,
        /// Time.
        elapsed_s: Option<f64>,
        /// Rate.
        mb_per_s: Option<f64>,
    }
}

printed! {
    /// Recovery of one instance.
    RecoveryClaims {
        /// Instance, from 1.
        n: u32,
        /// Logs replayed.
        logs: Option<f64>,
        /// Time.
        seconds: Option<f64>,
    }
}

printed! {
    /// A cell that a scan damaged.
    Mark {
        /// `table[row].column`, or `table[*].column` with `rows`.
        cell: String,
        /// Rows of `[*]`.
        rows: Vec<u32>,
        /// As read.
        read: toml_text::Text,
    }
}

/// Marks quote one text or a list of them.
mod toml_text {
    use serde::{Deserialize, Serialize};

    /// One text or several.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(untagged)]
    pub enum Text {
        /// One.
        One(String),
        /// Several.
        Many(Vec<String>),
    }

    impl Default for Text {
        fn default() -> Text {
            Text::Many(Vec::new())
        }
    }
}

pub use toml_text::Text;

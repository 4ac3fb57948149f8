//! A run that did not take place: rows of every kind, from a seed, in the proportions of a real one.
//!
//! Host rows are the sums of the rows of databases and logs, and histograms hold as many operations as samples do, so
//! that checks of the report against `run.db` can demand equality.

mod load;

use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Serializer, V2Serializer};
use results::*;

/// Shape of a synthetic run.
pub struct Shape {
    /// Number of databases of all hosts.
    pub databases: u32,
    /// Number of hosts.
    pub hosts: u32,
    /// Number of databases that share one log.
    pub databases_per_instance: u32,
    /// Length of the stress window, s; the performance window has 2 h at most.
    pub window_s: u64,
    /// Length of a sample, s.
    pub sample_s: u64,
    /// World that the run claims: real or simulated.
    pub world: WorldKind,
    /// Whether the last load test breaks its latency limits.
    pub fails: bool,
    /// Whether the run is cut off in the middle of the stress test.
    pub cut: bool,
    /// Text that is appended to every name and note, to test escaping.
    pub hostile: &'static str,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            databases: 4,
            hosts: 1,
            databases_per_instance: 1,
            window_s: 20,
            sample_s: 1,
            world: WorldKind::Real,
            fails: false,
            cut: false,
            hostile: "",
        }
    }
}

/// Random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn around(&mut self, mean: f64, share: f64) -> f64 {
        mean * (1.0 + share * (self.unit() + self.unit() - 1.0))
    }
}

struct Generator<'a> {
    shape: &'a Shape,
    to: &'a mut dyn Recorder,
    random: Random,
    now_ms: u64,
    ordinal: u32,
}

/// Records the synthetic run.
pub fn record(shape: &Shape, to: &mut dyn Recorder) -> Result<(), RecordError> {
    let mut run = Run {
        id: format!("2026-11-21T06-00-00Z-7f3a{}", shape.hostile),
        solution: format!("Synthetic run of {} databases{}", shape.databases, shape.hostile),
        solution_text: format!("[solution]\nname = \"synthetic\" # {}\n", shape.hostile),
        started_unix_ms: 1_795_240_800_000,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        world: shape.world,
        world_detail: if shape.world == WorldKind::Real { "io_uring, direct" } else { "virtual time" }
            .to_owned(),
        seed: 18_446_744_073_709_551_557,
        ended_ms: None,
        ending: None,
    };
    to.record(run.clone().into())?;
    let mut generator = Generator { shape, to, random: Random(1), now_ms: 0, ordinal: 0 };
    generator.setup()?;
    generator.plain("init", "Initialisation", IoClass::InitWrite, 1_048_576)?;
    generator.tune()?;
    generator.load("performance", "Performance", shape.fails && shape.cut, false)?;
    generator.checksum("Checksum after performance")?;
    generator.load("stress", "Stress", shape.fails, shape.cut)?;
    if shape.cut {
        return generator.to.flush();
    }
    generator.checksum("Checksum after stress")?;
    generator.backup("backup", "Backup", false)?;
    generator.backup("backup_to_disk", "Backup to disk", true)?;
    generator.backup("restore", "Restore", true)?;
    generator.recovery()?;
    generator.event(Severity::Info, None, "The databases are shut down.")?;
    run.ended_ms = Some(generator.now_ms);
    run.ending = Some(Ending::Completed);
    to.record(run.into())?;
    to.flush()
}

impl Generator<'_> {
    fn host_name(&self, n: u32) -> String {
        format!("mbx{}{}", 1 + n, self.shape.hostile)
    }

    fn host(&self, database: u32) -> String {
        self.host_name(database / self.shape.databases_per_instance % self.shape.hosts)
    }

    fn instance_name(&self, database: u32) -> String {
        format!("db{:03}{}", 1 + database / self.shape.databases_per_instance, self.shape.hostile)
    }

    fn database_origin(&self, database: u32) -> Origin {
        let name = format!("db{:03}{}", 1 + database, self.shape.hostile);
        Origin::database(&self.host(database), &self.instance_name(database), &name)
    }

    fn log_origin(&self, database: u32) -> Origin {
        Origin::instance(&self.host(database), &self.instance_name(database))
    }

    fn event(&mut self, severity: Severity, test: Option<u32>, text: &str) -> Result<(), RecordError> {
        let host = self.host(0);
        let text = format!("{text}{}", self.shape.hostile);
        self.to.record(Event { t_ms: self.now_ms, severity, test, host, text }.into())
    }

    fn setup(&mut self) -> Result<(), RecordError> {
        for condition in &results::grade::CONDITIONS {
            self.to.record(Rule::published(condition).into())?;
        }
        let claim = Claim {
            mailboxes: Some(15_000.0),
            iops_per_server: Some(40.0 * f64::from(self.shape.databases) / f64::from(self.shape.hosts)),
            failure: Some("Site A".to_owned()),
            hosts: (0..self.shape.hosts).map(|n| self.host_name(n)).collect(),
            tests: results::grade::TESTS.map(str::to_owned).to_vec(),
            ..Claim::default()
        };
        self.to.record(claim.into())?;
        for n in 0..self.shape.hosts {
            let name = self.host_name(n);
            self.to.record(Host { name, description: "2 cores, 24 GiB, Linux 6.1".to_owned() }.into())?;
        }
        let rows = [
            ("System", "Kernel", "Linux 6.1.0-28-amd64", Severity::Info, ""),
            ("System", "Clock source", "tsc", Severity::Info, ""),
            (
                "Volume data1",
                "File system",
                "btrfs (rw,relatime)",
                Severity::Warning,
                "copy-on-write: every page written moves, so reads become random",
            ),
            ("Volume data1", "Storage is memory", "no", Severity::Info, ""),
            ("Volume data1", "Holds the evidence", "no", Severity::Info, ""),
            (
                "Volume data1",
                "Device",
                "nvme0n1, Samsung SSD 980 PRO 2TB, firmware 5B2QGXA7",
                Severity::Info,
                "",
            ),
            ("Volume data1", "Write cache", "write back", Severity::Info, ""),
        ];
        for (area, name, value, severity, note) in rows {
            let host = self.host(0);
            let value =
                if value == "no" { value.to_owned() } else { format!("{value}{}", self.shape.hostile) };
            let (area, name, note) = (area.to_owned(), name.to_owned(), note.to_owned());
            self.to.record(Environment { host, area, name, value, severity, note }.into())?;
        }
        for n in 0..self.shape.hosts {
            let (host, name) = (self.host_name(n), format!("data1{}", self.shape.hostile));
            self.to.record(Volume { host, name, path: "/srv/data1".to_owned() }.into())?;
        }
        for n in 0..self.shape.databases {
            let origin = self.database_origin(n);
            if n % self.shape.databases_per_instance == 0 {
                let (host, name) = (self.host(n), self.instance_name(n));
                let log_path = format!("/srv/data1/{name}/log");
                let (cache_min_bytes, cache_max_bytes) = (32 << 20, 256 << 20);
                let log_file_bytes = 1 << 20;
                let row = Instance { host, name, log_path, log_file_bytes, cache_min_bytes, cache_max_bytes };
                self.to.record(row.into())?;
            }
            let path = format!("/srv/data1/{}.edb", origin.database.as_deref().unwrap_or_default());
            self.to.record(Database { origin, path, page_bytes: 32_768 }.into())?;
        }
        self.event(Severity::Info, None, "The run starts.")?;
        self.event(Severity::Warning, None, "The kernel log cannot be read: it is not compared.")
    }

    fn start(&mut self, kind: &str, name: &str) -> Result<Test, RecordError> {
        self.ordinal += 1;
        let test = Test {
            ordinal: self.ordinal,
            kind: kind.to_owned(),
            name: format!("{name}{}", self.shape.hostile),
            started_ms: self.now_ms,
            ended_ms: None,
            window_start_ms: None,
            window_end_ms: None,
            window_planned_ms: None,
            sample_ms: self.shape.sample_s * 1_000,
            sessions: None,
            target_iops: None,
            target_batches_per_s: None,
            day: None,
            iops_per_mailbox: None,
            copies: 2,
            parameters: Vec::new(),
            limits: Vec::new(),
        };
        self.to.record(test.clone().into())?;
        Ok(test)
    }

    fn end(&mut self, mut test: Test) -> Result<(), RecordError> {
        test.ended_ms = Some(self.now_ms);
        self.to.record(test.into())
    }

    /// Records a test that does one class of I/O in one stream per database.
    fn plain(&mut self, kind: &str, name: &str, class: IoClass, size: u64) -> Result<(), RecordError> {
        let test = self.start(kind, name)?;
        self.stream(test.ordinal, class, size)?;
        self.end(test)
    }

    fn stream(&mut self, test: u32, class: IoClass, size: u64) -> Result<u64, RecordError> {
        let length_s = self.shape.window_s.clamp(4, 3_600);
        let mut elapsed_ms = 0;
        for _ in 0..length_s {
            for n in 0..self.shape.hosts {
                let count = self.random.around(2_000.0, 0.2) as u64;
                let mean_ns = self.random.around(1.6e6, 0.2) as u64;
                let row = Sample {
                    test,
                    origin: Origin::host(&self.host_name(n)),
                    measure: class.into(),
                    t_ms: self.now_ms,
                    interval_ms: 1_000,
                    totals: IoTotals {
                        count,
                        bytes: count * size,
                        latency_ns_sum: count * mean_ns,
                        latency_ns_max: mean_ns * 9,
                    },
                };
                let histogram = distribution(&row);
                self.to.record(row.into())?;
                self.to.record(histogram.into())?;
            }
            self.now_ms += 1_000;
            elapsed_ms += 1_000;
        }
        Ok(elapsed_ms)
    }

    fn tune(&mut self) -> Result<(), RecordError> {
        let test = self.start("tune", "Tuning")?;
        for ordinal in 1..=4 {
            self.now_ms += 5_000;
            let load = f64::from(1u32 << ordinal);
            self.to.record(
                TuningStep {
                    test: test.ordinal,
                    ordinal,
                    load: format!("{load} sessions{}", self.shape.hostile),
                    iops: 90.0 * load.sqrt() * f64::from(ordinal),
                    read_latency_ms: 3.0 * load,
                    log_write_latency_ms: 1.0 + 0.1 * load,
                    outcome: if ordinal < 4 { Outcome::Pass } else { Outcome::Fail },
                    note: if ordinal < 4 { "doubled" } else { "reads too slow: step back" }.to_owned(),
                }
                .into(),
            )?;
        }
        self.end(test)
    }

    fn checksum(&mut self, name: &str) -> Result<(), RecordError> {
        let test = self.start("database_checksum", name)?;
        let elapsed_ms = self.stream(test.ordinal, IoClass::VerifyRead, 65_536)?;
        for n in 0..self.shape.databases {
            self.to.record(
                Checksum {
                    test: test.ordinal,
                    origin: self.database_origin(n),
                    read: PagesRead {
                        pages: 33_554_432,
                        uninitialised_pages: 12_512,
                        bytes: 1 << 40,
                        bytes_expected: Some(1 << 40),
                        ..PagesRead::default()
                    },
                    elapsed_ms: elapsed_ms - u64::from(n) * 7,
                }
                .into(),
            )?;
        }
        self.to.record(
            Verdict {
                test: Some(test.ordinal),
                origin: Origin::host(&self.host(0)),
                rule: "bad_pages".to_owned(),
                text: "no bad page".to_owned(),
                measured: Some(0.0),
                limit: Some(0.0),
                comparison: Comparison::AtMost,
                unit: "pages".to_owned(),
                outcome: Outcome::Pass,
            }
            .into(),
        )?;
        self.end(test)
    }

    fn backup(&mut self, kind: &str, name: &str, copies: bool) -> Result<(), RecordError> {
        let test = self.start(kind, name)?;
        let elapsed_ms = self.stream(test.ordinal, IoClass::BackupRead, 262_144)?;
        for n in 0..self.shape.databases {
            let origin = self.database_origin(n);
            let name = origin.database.clone().unwrap_or_default();
            let destination = copies.then(|| format!("/srv/backup/{name}.edb"));
            let bytes = 1 << 40;
            let bytes_expected = Some(bytes);
            let row = Backup { test: test.ordinal, origin, destination, bytes, bytes_expected, elapsed_ms };
            self.to.record(row.into())?;
        }
        self.end(test)
    }

    fn recovery(&mut self) -> Result<(), RecordError> {
        let test = self.start("soft_recovery", "Soft recovery")?;
        for n in (0..self.shape.databases).step_by(self.shape.databases_per_instance as usize) {
            let origin = self.log_origin(n);
            for (class, per_log, size, latency_ms, is_log) in [
                (IoClass::TransactionalRead, 426, 38_500, 48.0, false),
                (IoClass::TransactionalWrite, 4, 34_000, 1.2, false),
                (IoClass::LogRead, 5, 209_000, 3.1, true),
            ] {
                let count = per_log * 500;
                let io = IoTotals {
                    count,
                    bytes: count * size,
                    latency_ns_sum: (count as f64 * latency_ms * 1e6) as u64,
                    latency_ns_max: (latency_ms * 6e6) as u64,
                };
                let at = if is_log { origin.clone() } else { self.database_origin(n) };
                let row = Sample::new(test.ordinal, at, class, self.now_ms, 4_000, io);
                self.to.record(distribution(&row).into())?;
                self.to.record(row.into())?;
            }
            let elapsed_ms = 3_688 * 500 / 1_000;
            let work = RecoveryWork {
                page_changes: 1_200_000,
                pages_repaired: 3,
                transactions_undone: 12,
                branches: [("transaction_undone".to_owned(), 12)].into(),
                ..RecoveryWork::default()
            };
            let row = Recovery { test: test.ordinal, origin, logs: 500, elapsed_ms, work: Some(work) };
            self.to.record(row.into())?;
        }
        self.storage_parts(test.ordinal)?;
        self.now_ms += 4_000;
        self.end(test)
    }

    /// Records parts of the storage, as a simulation does.
    fn storage_parts(&mut self, test: u32) -> Result<(), RecordError> {
        for (number, kind) in (1..).zip(["drive", "controller", "processor"]) {
            let part = StoragePart {
                test,
                kind: kind.to_owned(),
                name: format!("{kind} 1{}", self.shape.hostile),
                seconds: 4.0,
                busy_share: 0.125 * f64::from(number),
                queue_mean: (kind == "drive").then_some(1.5),
                reads: 4_200,
                writes: 1_300,
                read_bytes: 4_200 << 15,
                write_bytes: 1_300 << 15,
                read_latency_ms: (kind == "drive").then_some(8.25),
                write_latency_ms: (kind == "drive").then_some(0.75),
                cache_hits: 70,
                cache_misses: 4_130,
                cache_waits: 3,
                cache_dirty_bytes_max: 5 << 20,
                state: "rebuilding".to_owned(),
            };
            self.to.record(part.into())?;
        }
        Ok(())
    }
}

/// Skewed latency distribution with the count, about the mean and exactly the maximum of a sample.
fn distribution(sample: &Sample) -> Histogram {
    let mut hdr = Hdr::<u64>::new_with_bounds(1, 3_600_000_000, 2).expect("constant bounds are valid");
    let totals = sample.totals;
    let mean_us = totals.latency_ns_sum as f64 / totals.count as f64 / 1e3;
    let max_us = (totals.latency_ns_max / 1_000).max(1);
    let steps = totals.count.min(40);
    let mut left = totals.count;
    for step in 0..steps {
        let count = left / (steps - step);
        left -= count;
        let quantile = (step as f64 + 0.5) / steps as f64;
        // Exponential, cut at the maximum.
        let us = (-(1.0 - quantile).ln() * mean_us) as u64;
        let us = if step + 1 == steps { max_us } else { us.clamp(1, max_us) };
        let count_here = if step + 1 == steps { 1 } else { count };
        hdr.saturating_record_n(us, count_here);
        if step + 1 == steps && count > 1 {
            hdr.saturating_record_n((max_us / 2).max(1), count - 1);
        }
    }
    let mut hdr_v2 = Vec::new();
    V2Serializer::new().serialize(&hdr, &mut hdr_v2).expect("writing to memory cannot fail");
    Histogram {
        test: sample.test,
        origin: sample.origin.clone(),
        measure: sample.measure,
        t_ms: sample.t_ms,
        interval_ms: sample.interval_ms,
        latency_ns_max: totals.latency_ns_max,
        hdr_v2,
    }
}

//! A run that meets every condition of a qualification.

use evidence::RunData;
use results::grade::{CONDITIONS, TESTS};
use results::*;

pub const HOST: &str = "mbx1";
pub const SAMPLE_MS: u64 = 300_000;
pub const PAGES: u64 = 4_000_000;
pub const CACHE: u64 = 64 << 20;

/// The rows of a made-up run at the published lengths: two databases, each with its own log.
pub struct Honest {
    rows: Vec<Row>,
    now_ms: u64,
    ordinal: u32,
}

fn names() -> [(Origin, Origin); 2] {
    ["DB1", "DB2"].map(|name| (Origin::instance(HOST, name), Origin::database(HOST, name, name)))
}

fn totals(count: u64, bytes: u64, latency_ms: f64) -> IoTotals {
    let latency_ns_sum = (count as f64 * latency_ms * 1e6) as u64;
    IoTotals { count, bytes: count * bytes, latency_ns_sum, latency_ns_max: (latency_ms * 4e6) as u64 }
}

impl Honest {
    fn add(&mut self, row: impl Into<Row>) {
        self.rows.push(row.into());
    }

    pub fn run(world: WorldKind) -> RunData {
        let mut run = Run { started_unix_ms: 1_795_240_800_000, world, ..testkit::rows::run() };
        let mut honest = Honest { rows: vec![run.clone().into()], now_ms: 0, ordinal: 0 };
        honest.set_up();
        honest.plain("init");
        honest.load("performance", 7_200);
        honest.checksum();
        honest.load("stress", 86_400);
        honest.checksum();
        honest.plain("backup");
        honest.plain("log_generation");
        honest.log_checksum();
        honest.recovery();
        (run.ended_ms, run.ending) = (Some(honest.now_ms), Some(Ending::Completed));
        honest.add(run);
        RunData::from_rows(honest.rows).expect("there is a run among the rows")
    }

    fn set_up(&mut self) {
        CONDITIONS.iter().for_each(|condition| self.add(Rule::published(condition)));
        self.add(Claim {
            mailboxes: Some(15_000.0),
            iops_per_server: Some(90.0),
            failure: Some("Site A".into()),
            hosts: vec![HOST.into()],
            tests: TESTS.map(str::to_owned).to_vec(),
            iops_per_mailbox: Some(0.121),
            profile_iops_per_mailbox: Some(0.1206),
            database_bytes: Some((PAGES * 32_768) as f64),
            storage: "1 volume V1 of 24 DISK (RAID 10)".into(),
            copies: Some(2),
            engine: "database engine of Exchange 2013 with pages of 32 KiB and logs of 1024 KiB".into(),
            day_mean_percent: None,
            doubts: Vec::new(),
        });
        self.add(Host { name: HOST.into(), description: String::new() });
        self.add(Volume { host: HOST.into(), name: "V1".into(), path: "/srv/v1".into() });
        self.environment("Volume V1", "Storage is memory", "no", Severity::Info);
        self.environment("Volume V1", "Holds the evidence", "no", Severity::Info);
        self.environment("Volume V1", "File system", "ext4 on /srv", Severity::Info);
        self.environment("After the tests", "Kernel log", "no storage error or warning", Severity::Info);
        for (log, database) in names() {
            self.add(Instance {
                host: HOST.into(),
                name: log.instance.clone().unwrap_or_default(),
                log_path: "/srv/v1/log".into(),
                log_file_bytes: 1 << 20,
                cache_min_bytes: CACHE,
                cache_max_bytes: CACHE,
            });
            self.add(Database { origin: database, path: "/srv/v1/db.edb".into(), page_bytes: 32_768 });
        }
    }

    fn environment(&mut self, area: &str, name: &str, value: &str, severity: Severity) {
        let (host, note) = (HOST.to_owned(), String::new());
        self.add(Environment {
            host,
            area: area.into(),
            name: name.into(),
            value: value.into(),
            severity,
            note,
        });
    }

    fn begin(&mut self, kind: &str) -> Test {
        self.ordinal += 1;
        for (_, origin) in names() {
            let bytes = PAGES * 32_768;
            self.add(DatabaseSize {
                test: self.ordinal,
                origin,
                bytes_before: bytes,
                bytes_after: Some(bytes),
            });
        }
        Test {
            ordinal: self.ordinal,
            kind: kind.into(),
            name: format!("{kind} {}", self.ordinal),
            started_ms: self.now_ms,
            ended_ms: None,
            window_start_ms: None,
            window_end_ms: None,
            window_planned_ms: None,
            sessions: None,
            ..testkit::rows::load_test(0, SAMPLE_MS)
        }
    }

    fn end(&mut self, test: Test) {
        self.now_ms += 1_000;
        self.add(Test { ended_ms: Some(self.now_ms), ..test });
    }

    fn plain(&mut self, kind: &str) {
        let test = self.begin(kind);
        self.end(test);
    }

    fn load(&mut self, kind: &str, seconds: u64) {
        let mut test = self.begin(kind);
        let ordinal = test.ordinal;
        test.target_iops = Some(90.0);
        self.now_ms += SAMPLE_MS;
        self.levels(ordinal, self.now_ms - SAMPLE_MS);
        test.window_start_ms = Some(self.now_ms);
        test.window_planned_ms = Some(seconds * 1_000);
        for _ in 0..seconds * 1_000 / SAMPLE_MS {
            let (t, span) = (self.now_ms, SAMPLE_MS);
            for (log, database) in names() {
                let mut sample = |origin: &Origin, measure: Measure, totals| {
                    self.rows.push(Sample::new(ordinal, origin.clone(), measure, t, span, totals).into());
                };
                sample(&database, Measure::Batch, totals(330, 0, 500.0));
                sample(&database, IoClass::TransactionalRead.into(), totals(330 * 282 / 10, 32_768, 14.0));
                sample(&database, IoClass::TransactionalWrite.into(), totals(330 * 13, 32_768, 7.0));
                sample(&database, IoClass::MaintenanceRead.into(), totals(9 * 300, 262_144, 9.0));
                sample(&log, IoClass::LogWrite.into(), totals(330 * 307 / 100, 20_480, 2.5));
                let counter = Counter::LogGenerations;
                let row = CounterSample {
                    test: ordinal,
                    origin: log,
                    counter,
                    t_ms: t,
                    interval_ms: span,
                    value: 10,
                };
                self.add(row);
            }
            self.levels(ordinal, t);
            let (origin, counter) = (Origin::host(HOST), Counter::LateNs);
            let row = CounterSample {
                test: ordinal,
                origin,
                counter,
                t_ms: t,
                interval_ms: span,
                value: span * 5_000,
            };
            self.add(row);
            self.now_ms += SAMPLE_MS;
        }
        test.window_end_ms = Some(self.now_ms);
        for (rule, limit) in [("read_latency_avg", 20.0), ("log_write_latency_avg", 10.0)] {
            let unit = "ms".into();
            test.limits.push(Limit { rule: rule.into(), value: limit, unit, published: Some(limit) });
            self.judge(ordinal, rule, 9.0, limit);
        }
        self.end(test);
    }

    /// Caches are filled to 95 % at the end of the interval that begins at `t_ms`.
    fn levels(&mut self, test: u32, t_ms: u64) {
        for (origin, _) in names() {
            let (counter, interval_ms) = (Counter::CacheBytes, SAMPLE_MS);
            self.add(CounterSample { test, origin, counter, t_ms, interval_ms, value: CACHE / 100 * 95 });
        }
    }

    fn judge(&mut self, test: u32, rule: &str, measured: f64, limit: f64) {
        for (log, database) in names() {
            self.add(Verdict {
                test: Some(test),
                origin: if rule.starts_with("log") { log } else { database },
                rule: rule.into(),
                text: format!("{rule} stays at or below {limit}"),
                measured: Some(measured),
                limit: Some(limit),
                comparison: Comparison::AtMost,
                unit: "ms".into(),
                outcome: Outcome::Pass,
            });
        }
    }

    fn checksum(&mut self) {
        let test = self.begin("database_checksum");
        for (_, origin) in names() {
            self.found(test.ordinal, origin, 0, PAGES);
        }
        self.judge(test.ordinal, "bad_pages", 0.0, 0.0);
        self.end(test);
    }

    fn log_checksum(&mut self) {
        let test = self.begin("log_checksum");
        for (origin, _) in names() {
            self.found(test.ordinal, origin, 500, 128_000);
        }
        self.end(test);
    }

    fn recovery(&mut self) {
        let test = self.begin("soft_recovery");
        for (origin, _) in names() {
            self.add(Recovery { test: test.ordinal, origin, logs: 500, elapsed_ms: 1_000, work: None });
        }
        self.end(test);
    }

    fn found(&mut self, test: u32, origin: Origin, files: u64, pages: u64) {
        self.add(Checksum {
            test,
            origin,
            read: PagesRead {
                files,
                pages,
                bytes: pages * 32_768,
                bytes_expected: Some(pages * 32_768),
                ..PagesRead::default()
            },
            elapsed_ms: 1_000,
        });
    }
}

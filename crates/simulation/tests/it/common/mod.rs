//! A question to a small solution on modelled disks, and the answer of its simulation.
#![allow(dead_code, reason = "each test uses a part of it")]

use campaign::CampaignError;
use campaign::progress::{Progress, Watcher};
use results::{IoClass, Measure, Outcome, Row, StoragePart, Verdict};
use simulation::{
    Assumptions, Domain, SimulationPlan, StoragePlan, planned, simulate, storage, storage_plan,
    with_databases,
};
use solution::{Deployment, Solution};

/// A flash drive of `assumptions.toml`.
pub const FLASH: &str = "SSDSC2BX800G4";

/// Two small databases on the volumes `V1` and `V2` of each host, with a load that soon fills their caches.
pub const TWO_DATABASES: &str = r#"
[[instance]]
name = "DB{n}"
count = 2
volume = "V{n}"

[sizing]
database_mib = 128

[load]
sessions = 4
target_iops = 10

[engine]
cache_min_mib = 4
cache_max_mib = 8
flush_start_percent = 4
flush_stop_percent = 8
"#;

/// Simulated set-up: two databases on disks of 7,200 rpm behind an array with two controllers, unless fields say
/// otherwise. The page cache is too small to hold the databases.
#[derive(Clone)]
pub struct Question {
    /// Number of hosts on the array: one `h`, or `h1`, `h2` and so on.
    pub hosts: u32,
    pub load: String,
    pub disk: &'static str,
    pub raid: &'static str,
    pub disks: u32,
    pub controller: &'static str,
    pub controllers: u32,
    pub links: u32,
    pub link: &'static str,
    pub hot_spares: u32,
    pub stripe_element_kib: Option<u32>,
    pub database_mib: u64,
    pub cache_mib: u64,
    pub warmup_s: u32,
    pub duration_s: u32,
    pub tests: String,
    pub faults: String,
    /// `[[pool]]` and `[[volume]]` tables instead of the default volume; the databases lie on volumes `LUN*`.
    pub volumes: String,
    /// Additional lines of `[array]`.
    pub array: &'static str,
    /// Additional lines of `[engine]`.
    pub engine: &'static str,
    /// Values that replace those of the shipped `assumptions.toml`.
    pub assumptions: &'static str,
}

impl Question {
    pub fn new(load: &str) -> Question {
        Question {
            hosts: 1,
            load: load.to_owned(),
            disk: "ST4000NM0023",
            raid: "raid1",
            disks: 2,
            controller: "sas-array-2013",
            controllers: 2,
            links: 2,
            link: "sas-6g-x4",
            hot_spares: 0,
            stripe_element_kib: Some(512),
            database_mib: 200_000,
            cache_mib: 8,
            warmup_s: 20,
            duration_s: 40,
            tests: String::new(),
            faults: String::new(),
            volumes: String::new(),
            array: "",
            engine: "",
            assumptions: "",
        }
    }

    pub fn with_fault(self, fault: &str) -> Question {
        Question { faults: format!("[[fault]]\n{fault}\n"), ..self }
    }

    fn text(&self) -> String {
        let Question { load, cache_mib, database_mib, warmup_s, duration_s, tests, faults, engine, .. } =
            self;
        let volume = if self.volumes.is_empty() { "LUN" } else { "LUN{n}" };
        let storage = self.text_of_storage();
        format!(
            r#"
[solution]
name = "What if"
schema = 1

{storage}

[[instance]]
name = "DB{{n}}"
count = 2
volume = "{volume}"

[sizing]
database_mib = {database_mib}

[load]
{load}

[engine]
cache_min_mib = 4
cache_max_mib = {cache_mib}
flush_start_percent = 4
flush_stop_percent = 8
{engine}

[[test]]
kind = "performance"
duration_s = {duration_s}
warmup_limit_s = {warmup_s}

{tests}
{faults}
"#
        )
    }

    fn text_of_storage(&self) -> String {
        let Question { disk, raid, disks, links, link, hot_spares, controller, controllers, array, .. } =
            self;
        let host = match self.hosts {
            1 => "name = \"h\"".to_owned(),
            count => format!("name = \"h{{n}}\"\ncount = {count}"),
        };
        let stripe =
            self.stripe_element_kib.map(|kib| format!("stripe_element_kib = {kib}")).unwrap_or_default();
        let capacity_gb = if *disk == FLASH { 800 } else { 4000 };
        let own = format!(
            "[[volume]]\nname = \"LUN\"\ndisk = \"{disk}\"\ndisks = {disks}\nraid = \"{raid}\"\npath = \"/lun\"\n"
        );
        let volumes = if self.volumes.is_empty() { &own } else { &self.volumes };
        format!(
            r#"
[[enclosure]]
name = "E"
bays = 60
hot_spares = {hot_spares}

[[host]]
{host}
enclosure = "E"

[[disk]]
name = "{disk}"
capacity_gb = {capacity_gb}

{volumes}

[array]
scope = "shared"
controller = "{controller}"
controllers = {controllers}
cache_mib = 64
{stripe}
link = "{link}"
links_per_host = {links}
{array}
"#
        )
    }

    /// Number of the line at which the additional lines of `[array]` begin.
    pub fn line_of_array(&self) -> usize {
        let text = Question { array: "here", ..self.clone() }.text();
        1 + text.lines().position(|line| line == "here").expect("a line of its own")
    }

    pub fn solution(&self) -> Solution {
        Solution::parse(&self.text(), "what_if.toml").unwrap_or_else(|error| panic!("{error}"))
    }

    fn deployments(solution: &Solution) -> Vec<Deployment> {
        let of = |host: &str| solution.deployment(Some(host)).unwrap_or_else(|error| panic!("{error}"));
        solution.hosts.iter().map(|host| of(&host.name)).collect()
    }

    fn storage(&self, solution: &Solution, deployments: &[Deployment]) -> StoragePlan {
        let assumptions = Assumptions::shipped().with(self.assumptions);
        let assumptions = assumptions.unwrap_or_else(|error| panic!("{error}"));
        let all: Vec<usize> = (0..deployments.len()).collect();
        storage_plan(solution, deployments, &all, &assumptions, 1).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Message with which its storage is refused.
    pub fn refused_storage(&self) -> String {
        let solution = match Solution::parse(&self.text(), "what_if.toml") {
            Ok(solution) => solution,
            Err(error) => return error.to_string(),
        };
        let deployments = Question::deployments(&solution);
        let refused = storage(&solution, &deployments, &Assumptions::shipped(), 1);
        refused.err().expect("it cannot be").to_string()
    }

    /// Why its faults cannot be.
    pub fn refusal(&self) -> String {
        let solution = match Solution::parse(&self.text(), "what_if.toml") {
            Ok(solution) => solution,
            Err(error) => return error.to_string(),
        };
        let deployments = Question::deployments(&solution);
        let storage = self.storage(&solution, &deployments);
        planned(&solution, &deployments, &storage.parts).expect_err("it cannot be").to_string()
    }

    pub fn answer(&self) -> Answer {
        let (answer, error) = self.outcome();
        assert!(error.is_none(), "{error:?}");
        answer
    }

    /// Message of the error that ends its tests.
    pub fn breakdown(&self) -> String {
        self.outcome().1.expect("it cannot go on").to_string()
    }

    fn outcome(&self) -> (Answer, Option<CampaignError>) {
        let solution = self.solution();
        let deployments = Question::deployments(&solution);
        let storage = self.storage(&solution, &deployments);
        let faults =
            planned(&solution, &deployments, &storage.parts).unwrap_or_else(|error| panic!("{error}"));
        let tests = with_databases(&deployments[0].tests);
        let mut rows: Vec<Row> = Vec::new();
        let domains = vec![Domain::new((0..deployments.len()).collect(), storage)];
        let plan = SimulationPlan { deployments, tests, seed: 1, domains, faults, threads: 1 };
        let simulated = simulate(plan, &mut rows, &mut Silent);
        (Answer { rows, verdicts: simulated.outcome.verdicts }, simulated.outcome.error)
    }
}

/// Result of a simulation.
pub struct Answer {
    pub rows: Vec<Row>,
    pub verdicts: Vec<Verdict>,
}

/// Rate and mean latency of a class of I/O in a part of the measured window.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Phase {
    pub per_s: f64,
    pub latency_ms: f64,
}

impl Answer {
    pub fn iops(&self) -> f64 {
        self.measured("achieved_iops")[0]
    }

    /// Mean read latency of the slower database, ms.
    pub fn read_ms(&self) -> f64 {
        self.measured("read_latency_avg").into_iter().fold(0.0, f64::max)
    }

    pub fn measured(&self, rule: &str) -> Vec<f64> {
        let of_rule = self.verdicts.iter().filter(|verdict| verdict.rule == rule);
        of_rule.map(|verdict| verdict.measured.expect("it was measured")).collect()
    }

    pub fn failed(&self) -> Vec<&str> {
        let failed = self.verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Fail);
        failed.map(|verdict| verdict.rule.as_str()).collect()
    }

    pub fn count(&self, measure: Measure) -> u64 {
        let samples = self.rows.iter().filter_map(|row| match row {
            Row::Sample(sample) if sample.origin.instance.is_none() && sample.measure == measure => {
                Some(sample)
            }
            _ => None,
        });
        samples.map(|sample| sample.totals.count).sum()
    }

    /// Last row of a kind of storage part: its state at the end of the last measured window.
    pub fn part(&self, kind: &str) -> Option<&StoragePart> {
        self.rows.iter().rev().find_map(|row| match row {
            Row::StoragePart(part) if part.kind == kind => Some(part),
            _ => None,
        })
    }

    /// Kind of the busiest storage part in the measured window; volumes do not count.
    pub fn limit(&self) -> &str {
        let parts = self.rows.iter().filter_map(|row| match row {
            Row::StoragePart(part) if part.kind != "volume" && part.seconds > 1.0 => Some(part),
            _ => None,
        });
        let most = parts.max_by(|a, b| a.busy_share.total_cmp(&b.busy_share));
        &most.expect("the model was looked at").kind
    }

    /// Start and end of the measured window, ms since the start of the run.
    pub fn window_ms(&self) -> (u64, u64) {
        let mut windows = self.rows.iter().filter_map(|row| match row {
            Row::Test(test) => test.window_start_ms.zip(test.window_end_ms),
            _ => None,
        });
        windows.next_back().expect("a test with a window was carried out")
    }

    /// I/O of a class in seconds `from_s` to `to_s` of the measured window.
    pub fn phase(&self, class: IoClass, from_s: u64, to_s: u64) -> Phase {
        let start_ms = self.window_ms().0;
        let inside = start_ms + from_s * 1000..start_ms + to_s * 1000;
        let (mut count, mut latency_ns) = (0, 0);
        for row in &self.rows {
            if let Row::Sample(sample) = row
                && sample.origin.instance.is_none()
                && sample.measure == class.into()
                && inside.contains(&sample.t_ms)
            {
                count += sample.totals.count;
                latency_ns += sample.totals.latency_ns_sum;
            }
        }
        let latency_ms = latency_ns as f64 / (count as f64).max(1.0) / 1e6;
        Phase { per_s: count as f64 / (to_s - from_s) as f64, latency_ms }
    }

    /// Time, in seconds of the measured window, and text of each event.
    pub fn events(&self) -> Vec<(f64, &str)> {
        let start_ms = self.window_ms().0 as f64;
        let events = self.rows.iter().filter_map(|row| match row {
            Row::Event(event) => Some(((event.t_ms as f64 - start_ms) / 1e3, event.text.as_str())),
            _ => None,
        });
        events.collect()
    }

    /// Time and text of the event whose text begins with `begins`.
    pub fn event(&self, begins: &str) -> (f64, &str) {
        let events = self.events();
        let found = events.iter().find(|(_, text)| text.starts_with(begins));
        *found.unwrap_or_else(|| panic!("no event begins with `{begins}`: {events:#?}"))
    }
}

struct Silent;

impl Watcher for Silent {
    fn progress(&mut self, _progress: &Progress) {}
    fn line(&mut self, _text: &str) {}
    fn interrupted(&self) -> bool {
        false
    }
}

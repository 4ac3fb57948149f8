//! Small solutions on modelled storage, with and without something that goes wrong and that the evidence does not
//! name.

use campaign::progress::{Progress, Watcher};
use evidence::RunData;
use results::{Outcome, Row, Run, Verdict};
use simulation::{Assumptions, Domain, SimulationPlan, planned, simulate, storage_plan, with_databases};
use solution::Solution;

/// Number of solutions.
pub const SOLUTIONS: u32 = 3;

/// A small solution, given by what may vary.
#[derive(Debug, Clone)]
pub struct Case {
    /// Whether the load is paced at the target; otherwise it has sessions.
    pub is_paced: bool,
    pub sessions: u32,
    pub target: f64,
    pub raid: &'static str,
    pub disks: u32,
    pub databases: u32,
    pub volumes: u32,
    pub is_thin: bool,
    pub database_mib: u64,
    pub cache_mib: u64,
    /// Free pages at which writing back starts and stops, in percent of the cache.
    pub flush_percent: [u32; 2],
    /// Cache of the array.
    pub array_cache_mib: u64,
    pub warmup_s: u32,
    pub duration_s: u32,
    /// Additional lines of `[array]`.
    pub array: &'static str,
    pub fault: String,
    pub assumptions: String,
    pub seed: u64,
}

/// A mirrored pair, two groups with a database each, and a paced load on one group of eight disks.
pub fn solution(which: u32, seed: u64) -> Case {
    let mirror = Case {
        is_paced: false,
        sessions: 4,
        target: 140.0,
        raid: "raid1",
        disks: 2,
        databases: 2,
        volumes: 1,
        is_thin: false,
        database_mib: 200_000,
        cache_mib: 8,
        flush_percent: [4, 8],
        array_cache_mib: 64,
        warmup_s: 15,
        duration_s: 40,
        array: "",
        fault: String::new(),
        assumptions: String::new(),
        seed,
    };
    let groups = Case { raid: "raid10", disks: 4, volumes: 2, sessions: 16, target: 700.0, ..mirror.clone() };
    match which {
        0 => mirror,
        1 => groups,
        _ => Case {
            is_paced: true,
            target: 500.0,
            disks: 8,
            databases: 4,
            volumes: 1,
            database_mib: 30_000,
            ..groups
        },
    }
}

impl Case {
    /// Multiplies the load; the target of a load with sessions stays.
    pub fn with_load(self, times: f64) -> Case {
        let target = if self.is_paced { self.target * times } else { self.target };
        Case { sessions: (f64::from(self.sessions) * times) as u32, target, ..self }
    }

    fn text(&self) -> String {
        let Case { databases, volumes, database_mib, cache_mib, array, array_cache_mib, target, .. } = self;
        let (cache_min_mib, [flush_start, flush_stop]) = ((cache_mib / 2).max(1), self.flush_percent);
        let disk = "ST4000NM0023";
        let load = match self.is_paced {
            true => format!("iops = {target}\ntarget_iops = {}", target * 0.97),
            false => format!("sessions = {}\ntarget_iops = {target}", self.sessions),
        };
        let storage = self.storage(disk);
        let volume = if *volumes == *databases { "V{n}" } else { "V1" };
        let fault =
            if self.fault.is_empty() { String::new() } else { format!("[[fault]]\n{}\n", self.fault) };
        format!(
            r#"
[solution]
name = "Explain"
schema = 1

[[enclosure]]
name = "E"
bays = 60
hot_spares = 1

[[host]]
name = "h"
enclosure = "E"

[[disk]]
name = "{disk}"
capacity_gb = 4000

{storage}

[array]
scope = "shared"
controller = "sas-array-2013"
controllers = 2
cache_mib = {array_cache_mib}
stripe_element_kib = 512
link = "sas-6g-x4"
links_per_host = 2
{array}

[[instance]]
name = "DB{{n}}"
count = {databases}
volume = "{volume}"

[sizing]
database_mib = {database_mib}

[load]
{load}

[engine]
cache_min_mib = {cache_min_mib}
cache_max_mib = {cache_mib}
flush_start_percent = {flush_start}
flush_stop_percent = {flush_stop}

[[test]]
kind = "performance"
duration_s = {}
warmup_limit_s = {}

{fault}
"#,
            self.duration_s, self.warmup_s
        )
    }

    fn storage(&self, disk: &str) -> String {
        let Case { raid, disks, volumes, .. } = self;
        match self.is_thin {
            true => format!(
                "[[pool]]\nname = \"Pool\"\ndisk = \"{disk}\"\ndisks = {disks}\nraid = \"{raid}\"\nthin_chunk_kib = 256\n\
                 [[volume]]\nname = \"V{{n}}\"\ncount = {volumes}\npool = \"Pool\"\ncapacity_gib = 512\npath = \"/v{{n}}\"\n"
            ),
            false => format!(
                "[[volume]]\nname = \"V{{n}}\"\ncount = {volumes}\ndisk = \"{disk}\"\ndisks = {disks}\nraid = \"{raid}\"\n\
                 path = \"/v{{n}}\"\n"
            ),
        }
    }

    /// Simulates the case. No row names the planted cause: events, states of parts and excuses are removed.
    pub fn run(&self) -> RunData {
        let solution =
            Solution::parse(&self.text(), "explain.toml").unwrap_or_else(|error| panic!("{error}"));
        let deployments = vec![solution.deployment(Some("h")).unwrap_or_else(|error| panic!("{error}"))];
        let assumptions = Assumptions::shipped().with(&self.assumptions);
        let assumptions = assumptions.unwrap_or_else(|error| panic!("{error}"));
        let storage = storage_plan(&solution, &deployments, &[0], &assumptions, self.seed)
            .unwrap_or_else(|error| panic!("{error}"));
        let faults =
            planned(&solution, &deployments, &storage.parts).unwrap_or_else(|error| panic!("{error}"));
        let tests = with_databases(&deployments[0].tests);
        let domains = vec![Domain::new(vec![0], storage)];
        let mut rows: Vec<Row> = vec![Run { ..testkit::rows::run() }.into()];
        let plan = SimulationPlan { deployments, tests, seed: self.seed, domains, faults, threads: 1 };
        let simulated = simulate(plan, &mut rows, &mut Silent);
        assert!(simulated.outcome.error.is_none(), "{:?}", simulated.outcome.error);
        let mut data = RunData::from_rows(rows).expect("a run");
        data.events.clear();
        data.parts.iter_mut().for_each(|part| part.state.clear());
        data.verdicts.iter_mut().filter(|verdict| verdict.is_excused()).for_each(|verdict: &mut Verdict| {
            verdict.outcome = Outcome::Fail;
            verdict.text = verdict.rule.clone();
        });
        data
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

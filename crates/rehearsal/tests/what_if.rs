//! What a planner would ask, and the answer that physics gives: one mirrored pair of nearline disks with two databases.

use campaign::progress::{Progress, Watcher};
use rehearsal::{Rehearsal, planned, rehearse, storage, with_databases};
use results::{IoClass, Measure, Outcome, Row, Verdict};
use solution::Solution;

/// What is asked about.
struct Question {
    load: String,
    database_mib: u64,
    cache_mib: u64,
    fault: &'static str,
}

impl Question {
    fn new(load: &str) -> Question {
        Question { load: load.to_owned(), database_mib: 200_000, cache_mib: 8, fault: "" }
    }

    fn text(&self) -> String {
        let Question { load, database_mib, cache_mib, fault } = self;
        format!(
            r#"
[solution]
name = "What if"
schema = 1

[[host]]
name = "h"

[[disk]]
name = "ST4000NM0023"
capacity_gb = 4000

[[volume]]
name = "LUN"
disk = "ST4000NM0023"
disks = 2
raid = "raid1"
path = "/lun"

[array]
scope = "shared"
controller = "sas-array-2013"
controllers = 2
link = "sas-6g-x4"
links_per_host = 2

[[instance]]
name = "DB{{n}}"
count = 2
volume = "LUN"

[sizing]
database_mib = {database_mib}

[load]
{load}

[engine]
cache_min_mib = 4
cache_max_mib = {cache_mib}
flush_start_percent = 4
flush_stop_percent = 8

[[test]]
kind = "performance"
duration_s = 40
warmup_limit_s = 20
{fault}
"#
        )
    }

    fn answer(&self) -> Answer {
        let solution =
            Solution::parse(&self.text(), "what_if.toml").unwrap_or_else(|error| panic!("{error}"));
        let deployments = vec![solution.deployment(None).unwrap_or_else(|error| panic!("{error}"))];
        let storage = storage(&solution, &deployments, 1).unwrap_or_else(|error| panic!("{error}"));
        let faults =
            planned(&solution, &deployments, &storage.parts).unwrap_or_else(|error| panic!("{error}"));
        let tests = with_databases(&deployments[0].tests);
        let mut rows: Vec<Row> = Vec::new();
        let faults = storage.array.map(|array| (array, faults));
        let plan = Rehearsal { deployments, tests, seed: 1, storage: storage.model, faults };
        let rehearsed = rehearse(plan, &mut rows, &mut Silent);
        assert!(rehearsed.outcome.error.is_none(), "{:?}", rehearsed.outcome.error);
        Answer { rows, verdicts: rehearsed.outcome.verdicts }
    }
}

struct Answer {
    rows: Vec<Row>,
    verdicts: Vec<Verdict>,
}

impl Answer {
    fn iops(&self) -> f64 {
        self.measured("achieved_iops")[0]
    }

    /// Of the database that has it worse.
    fn read_ms(&self) -> f64 {
        self.measured("read_latency_avg").into_iter().fold(0.0, f64::max)
    }

    fn measured(&self, rule: &str) -> Vec<f64> {
        let of_rule = self.verdicts.iter().filter(|verdict| verdict.rule == rule);
        of_rule.map(|verdict| verdict.measured.expect("it was measured")).collect()
    }

    fn failed(&self) -> Vec<&str> {
        let failed = self.verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Fail);
        failed.map(|verdict| verdict.rule.as_str()).collect()
    }

    fn count(&self, measure: Measure) -> u64 {
        let samples = self.rows.iter().filter_map(|row| match row {
            Row::Sample(sample) if sample.origin.instance.is_none() && sample.measure == measure => {
                Some(sample)
            }
            _ => None,
        });
        samples.map(|sample| sample.count).sum()
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

#[test]
fn more_sessions_raise_throughput_and_latency_together() {
    let [one, four, sixteen] =
        [1, 4, 16].map(|sessions| Question::new(&format!("sessions = {sessions}")).answer());
    assert!(
        one.iops() * 1.5 < four.iops() && four.iops() < sixteen.iops(),
        "{} {} {}",
        one.iops(),
        four.iops(),
        sixteen.iops()
    );
    assert!(one.read_ms() < four.read_ms() && four.read_ms() < sixteen.read_ms());
    let (gained, paid) = (sixteen.iops() / four.iops(), sixteen.read_ms() / four.read_ms());
    assert!(gained < paid, "beyond the knee more latency is paid ({paid}) than throughput gained ({gained})");
}

#[test]
fn twice_the_mailboxes_on_a_disk_break_the_threshold() {
    let enough = Question::new("target_iops = 60").answer();
    assert!(enough.failed().is_empty(), "{:?}", enough.failed());
    let twice = Question::new("target_iops = 240").answer();
    assert!(twice.failed().contains(&"read_latency_avg"), "{:?}", twice.failed());
}

#[test]
fn a_database_larger_than_its_cache_share_reads_more_per_batch() {
    let reads_per_batch = |database_mib| {
        let answer = Question { database_mib, cache_mib: 64, ..Question::new("sessions = 4") }.answer();
        answer.count(IoClass::TransactionalRead.into()) as f64 / answer.count(Measure::Batch) as f64
    };
    let (small, large) = (reads_per_batch(96), reads_per_batch(200_000));
    assert!(small * 1.5 < large, "{small} {large}");
}

#[test]
fn a_lost_disk_is_an_event_and_its_mirror_carries_on_slower() {
    let fault =
        "[[fault]]\nkind = \"disk_fails\"\ntest = \"performance\"\nvolume = \"LUN\"\ndisk = 2\nat_s = 5\n";
    let whole = Question::new("sessions = 4").answer();
    let degraded = Question { fault, ..Question::new("sessions = 4") }.answer();
    let said = degraded.rows.iter().any(|row| {
        matches!(row, Row::Event(event) if event.text == "expected fault: disk 2 of LUN fails" && event.t_ms >= 5_000)
    });
    assert!(said, "the report must say when it happened");
    assert!(degraded.read_ms() > whole.read_ms() && degraded.iops() < whole.iops());
}

#[test]
fn a_fault_that_cannot_be_is_refused_where_it_stands() {
    let refused = |fault: &'static str| {
        let question = Question { fault, ..Question::new("sessions = 1") };
        let solution =
            Solution::parse(&question.text(), "what_if.toml").unwrap_or_else(|error| panic!("{error}"));
        let deployments = vec![solution.deployment(None).unwrap_or_else(|error| panic!("{error}"))];
        let storage = storage(&solution, &deployments, 1).unwrap_or_else(|error| panic!("{error}"));
        planned(&solution, &deployments, &storage.parts).expect_err("it cannot be").to_string()
    };
    assert!(refused("[[fault]]\nkind = \"meteorite\"\n").contains("meteorite"));
    assert!(refused("[[fault]]\nkind = \"disk_fails\"\ndisk = 3\n").contains("2 disks"));
    assert!(refused("[[fault]]\nkind = \"disk_fails\"\nduration_s = 3\n").contains("no end"));
}

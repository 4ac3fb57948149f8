//! What a run proves: its grade, and the conditions under which a run that broke no limit is a qualification.
//!
//! [`CONDITIONS`] is the one table of thresholds. A run records the rules that it was started with as [`Rule`] rows and
//! what it set out to show as a [`Claim`] row, so that its grade follows from its rows alone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rows::Ending;

/// Grade of a run: what it proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// No limit is broken and every condition of a qualification is met.
    Qualified,
    /// No limit is broken, but at least one condition of a qualification is not met.
    Held,
    /// A limit is broken.
    Failed,
    /// The campaign did not come to its end, or no limit was judged: nothing is proved.
    Incomplete,
}

impl Grade {
    /// Stable name, as in JSON and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Grade::Qualified => "qualified",
            Grade::Held => "held",
            Grade::Failed => "failed",
            Grade::Incomplete => "incomplete",
        }
    }

    /// Name of the grade in texts for people.
    pub fn words(self) -> &'static str {
        match self {
            Grade::Held => "limits held",
            other => other.name(),
        }
    }

    /// Grade of a run with these verdicts; `qualifies` says whether it meets every condition of a qualification.
    pub fn of(counts: Counts, ending: Option<Ending>, qualifies: bool) -> Grade {
        let Counts { passed, failed, unproved, open_tests } = counts;
        let is_complete = ending == Some(Ending::Completed) && passed > 0 && unproved == 0 && open_tests == 0;
        match (failed, is_complete, qualifies) {
            (1.., _, _) => Grade::Failed,
            (0, false, _) => Grade::Incomplete,
            (0, true, true) => Grade::Qualified,
            (0, true, false) => Grade::Held,
        }
    }
}

/// Numbers of verdicts of a run, by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Number of verdicts that passed.
    pub passed: u64,
    /// Number of verdicts that failed.
    pub failed: u64,
    /// Number of rules that could not be judged.
    pub unproved: u64,
    /// Number of tests that began and did not end.
    pub open_tests: u64,
}

/// A condition of a qualification: a figure of the run and the range that it must lie in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Condition {
    /// Stable name; a solution states its own range under this name in `[qualification]`.
    pub name: &'static str,
    /// Description of the figure.
    pub text: &'static str,
    /// Unit of the figure.
    pub unit: &'static str,
    /// Least value that the published programme accepts.
    pub least: Option<f64>,
    /// Largest value that the published programme accepts.
    pub most: Option<f64>,
    /// Whether a solution may state its own range.
    pub adjustable: bool,
    /// Source of the range.
    pub source: &'static str,
    /// Remedy if the condition is not met.
    pub remedy: &'static str,
}

const fn least(name: &'static str, least: f64, unit: &'static str, adjustable: bool) -> Condition {
    Condition { name, unit, least: Some(least), most: None, adjustable, text: "", source: "", remedy: "" }
}

const fn most(name: &'static str, most: f64, unit: &'static str, adjustable: bool) -> Condition {
    Condition { name, unit, least: None, most: Some(most), adjustable, text: "", source: "", remedy: "" }
}

/// Range of a figure per batch: the published range, widened by 10 % on both sides.
const fn shape(
    name: &'static str,
    published: (f64, f64),
    unit: &'static str,
    text: &'static str,
) -> Condition {
    Condition {
        name,
        text,
        unit,
        least: Some(published.0 * 0.9),
        most: Some(published.1 * 1.1),
        adjustable: true,
        source: "logs of published Exchange 2013 tests, range widened by 10 % (docs/fidelity.md)",
        remedy: "make the databases larger or the cache smaller, and keep the mix of the generation",
    }
}

/// The condition with this stable name.
pub fn condition(name: &str) -> Option<&'static Condition> {
    CONDITIONS.iter().find(|condition| condition.name == name)
}

/// Tests that a qualification needs, by kind: the programme of the published papers (ESRP-Storage 4.0).
pub const TESTS: [&str; 6] =
    ["performance", "stress", "database_checksum", "log_checksum", "backup", "soft_recovery"];

/// Database page reads per batch in published tests of the 2013 mix: the least and the most.
pub const READS_PER_BATCH: (f64, f64) = (27.6, 28.8);
/// Database page writes per batch in the same tests as [`READS_PER_BATCH`]: the least and the most.
pub const WRITES_PER_BATCH: (f64, f64) = (12.9, 13.1);
/// Log writes per batch in the same tests: the least and the most.
pub const LOG_WRITES_PER_BATCH: (f64, f64) = (3.05, 3.08);
/// KiB of log files per batch in the same tests: the least and the most.
pub const LOG_FILE_KIB_PER_BATCH: (f64, f64) = (30.2, 30.7);
/// Background maintenance reads per second and database in the same tests: the least and the most.
pub const MAINTENANCE_READS_PER_S: (f64, f64) = (8.46, 9.14);

/// Whether the load of tests of this kind counts for a qualification.
pub fn is_load(kind: &str) -> bool {
    ["performance", "stress"].contains(&kind)
}

/// Least background maintenance reads per second and database in the published tests, less 10 %.
pub const MAINTENANCE_READS_PER_S_LEAST: f64 = MAINTENANCE_READS_PER_S.0 * 0.9;

/// Every condition, in the order in which reports list what is missing.
pub const CONDITIONS: [Condition; 39] = [
    Condition {
        text: "rules of this table that the run recorded when it started",
        source: "a rule that is chosen after the run proves nothing",
        remedy: "run the tests again with this version of Proofload",
        ..least("rules_percent", 100.0, "% of rules", false)
    },
    Condition {
        text: "performance and stress tests that put a mailbox load on the databases",
        source: "without a load nothing is known of the storage under load",
        remedy: "run the tests performance and stress",
        ..least("load_tests", 1.0, "tests", false)
    },
    Condition {
        text: "load tests that had a target",
        source: "the published papers test a load that was derived beforehand",
        remedy: "set target_iops in [load]; `proofload plan --write-targets` fills it in",
        ..least("target_set_percent", 100.0, "% of load tests", false)
    },
    Condition {
        text: "transactional I/O achieved of the target, in the load test with the least",
        source: "the published programme fails a test below its target",
        remedy: "lower the load that the solution promises, or improve the storage",
        ..least("target_met_percent", 100.0, "%", true)
    },
    Condition {
        text: "target of the load tests, of what the plan says for the worst failure",
        source: "the published papers test the load of the servers that are left after the worst failure",
        remedy: "set target_iops to the plan's figure with `proofload plan --write-targets --yes`",
        ..least("worst_failure_percent", 100.0, "%", false)
    },
    Condition {
        text: "parts of the claim that neither the plan nor the solution backs",
        source: "ours: a sentence says no more than what was planned, described and loaded",
        remedy: "mend the design until `proofload plan` holds; describe the storage; load all hosts that share it",
        ..most("claim_doubts", 0.0, "doubts", false)
    },
    Condition {
        text: "I/O per mailbox in the tests, of what the profile of the mailboxes needs",
        source: "the published papers test the I/O of their profile",
        remedy: "leave test_iops_per_mailbox out, or set it to the profile's figure (`proofload plan` prints it)",
        ..least("iops_per_mailbox_percent", 100.0, "%", false)
    },
    Condition {
        text: "latency limits of the load tests, of the published ones, where they are loosest",
        source: "the published limits; a looser one lets slower storage pass",
        remedy: "leave [thresholds] out",
        ..most("latency_limits_percent", 100.0, "%", true)
    },
    Condition {
        text: "measured window of the performance test",
        source: "default length of the published test",
        remedy: "give the test performance its published length: leave duration_s out",
        ..least("performance_window_s", 7_200.0, "s", true)
    },
    Condition {
        text: "measured window of the stress test",
        source: "length of the published test",
        remedy: "give the test stress its published length: leave duration_s out",
        ..least("stress_window_s", 86_400.0, "s", true)
    },
    Condition {
        text: "measured window, of the planned one, in the load test with the least",
        source: "ours: a part of a window is an estimate of the whole",
        remedy: "leave --until out, so that the whole planned window is measured",
        ..least("window_percent", 100.0, "%", false)
    },
    Condition {
        text: "database size, as a multiple of its cache, where it is least",
        source: "published tests have 1,000 and more; below 500 the cache hides a tenth of the reads (docs/fidelity.md)",
        remedy: "make the databases larger ([sizing]) or the cache smaller ([engine] cache_max_mib)",
        ..least("cache_ratio", 500.0, "x", true)
    },
    Condition {
        text: "database size, of the planned one, where it is least",
        source: "published papers test 92 to 156 % of the planned size; a smaller database moves heads less and fits into more cache",
        remedy: "size the databases as planned: `mailboxes` in [sizing]",
        ..least("database_size_percent", 90.0, "%", true)
    },
    Condition {
        text: "share of the caches that was filled when the window opened, where it is least",
        source: "the published test opens its window at 90 %",
        remedy: "raise warmup_limit_s of the test, or the load",
        ..least("cache_filled_percent", 90.0, "%", true)
    },
    Condition {
        text: "databases that background maintenance read at its published rate, in the load test with the fewest",
        source: "published tests: 8.46 to 9.14 reads per second and database in the window, 10 % less passes",
        remedy: "leave `maintenance = false` and `maintenance_pause_ms` out of [engine], and use cores enough for it",
        ..least("maintained_percent", 100.0, "% of databases", true)
    },
    shape("reads_per_batch", READS_PER_BATCH, "reads per batch", "database page reads per batch"),
    shape("writes_per_batch", WRITES_PER_BATCH, "writes per batch", "database page writes per batch"),
    shape("log_writes_per_batch", LOG_WRITES_PER_BATCH, "log writes per batch", "log writes per batch"),
    shape(
        "log_file_kib_per_batch",
        LOG_FILE_KIB_PER_BATCH,
        "KiB of log files per batch",
        "log files per batch",
    ),
    Condition {
        text: "change of transactional I/O: the quarter of the window furthest from the mean",
        source: "ours: a load that changes by more is not one load",
        remedy: "make the window longer, and find what changes: events, other load, caches",
        ..most("throughput_change_percent", 5.0, "%", true)
    },
    Condition {
        text: "change of database writes: the quarter of the window furthest from the mean",
        source: "ours: as long as writes grow, the storage has not seen its load",
        remedy: "raise warmup_limit_s, so that writes have settled before the window opens, or make the window longer",
        ..most("write_change_percent", 10.0, "%", true)
    },
    Condition {
        text: "database writes in the first sample of the window, of their mean",
        source: "ours: writes that start late flatter the storage",
        remedy: "raise warmup_limit_s of the test, so that writes have begun before its window opens",
        ..least("write_start_percent", 50.0, "%", true)
    },
    Condition {
        text: "change of read, write or log latency: the quarter of the window furthest from the mean",
        source: "ours: a latency that moves has not shown where it ends",
        remedy: "make the window longer, and find what changes: events, other load, caches",
        ..most("latency_change_percent", 10.0, "%", true)
    },
    Condition {
        text: "transactional I/O of the slowest host, of the fastest host with equal databases",
        source: "ours: the sum of hosts that should be equal and are not says little of any of them",
        remedy: "find what holds the slowest host back: its disks, its processors, other work on it",
        ..least("equal_hosts_percent", 80.0, "%", true)
    },
    Condition {
        text: "time for which the load generator of a host was kept from running, in the worst case",
        source: "ours: a load generator that waits for a processor puts less load on the storage than it should",
        remedy: "give each agent a machine of its own with free processors; on a virtual machine reserve them",
        ..most("starved_percent", 10.0, "% of the window", true)
    },
    Condition {
        text: "kinds of tests of the published programme that ended",
        source: "evidence that the published programme asks for (ESRP-Storage 4.0)",
        remedy: "run every test of the published programme in one run",
        ..least("tests", TESTS.len() as f64, "kinds of tests", true)
    },
    Condition {
        text: "databases whose pages were all read and verified after the last load",
        source: "the published programme verifies every page after each load",
        remedy: "put a database_checksum without duration_s behind the last load test",
        ..least("verified_percent", 100.0, "% of databases", false)
    },
    Condition {
        text: "pages read, of the pages there, in the database checksum that read least",
        source: "the published programme verifies every page",
        remedy: "leave duration_s out of the test database_checksum",
        ..least("coverage_percent", 100.0, "% of pages", false)
    },
    Condition {
        text: "instances with a closed log that was verified",
        source: "the published programme verifies the logs",
        remedy: "put log_checksum where closed logs exist: behind log_generation",
        ..least("logs_verified_percent", 100.0, "% of instances", false)
    },
    Condition {
        text: "closed logs that were verified, in the instance with the fewest",
        source: "ours: a checkpoint depth of 20 MiB keeps that many logs of 1 MiB; one log shows nothing",
        remedy: "put log_checksum behind log_generation, and leave its `logs` out",
        ..least("verified_logs", 20.0, "logs", true)
    },
    Condition {
        text: "logs replayed by a soft recovery, in the instance with the fewest",
        source: "the published recovery replays 500 logs and more",
        remedy: "leave `logs` of log_generation out",
        ..least("recovered_logs", 500.0, "logs", true)
    },
    Condition {
        text: "hosts under test that took part",
        source: "the published papers load all hosts that share storage at the same time",
        remedy: "run on every host at once: `fleet run`, or `simulate --servers`",
        ..least("hosts_percent", 100.0, "% of hosts under test", false)
    },
    Condition {
        text: "parts that hosts share although the solution file does not say so",
        source: "ours: figures of hosts that share a machine or storage do not add up to those of separate hosts",
        remedy: "run one agent on each machine; describe shared storage: [array] scope = \"shared\", or one [[pool]]",
        ..most("undeclared_sharing", 0.0, "shared parts", false)
    },
    Condition {
        text: "hosts that are known to bypass the page cache of the system",
        source: "the published tests use unbuffered I/O; buffered I/O measures memory",
        remedy: "use a file system that takes O_DIRECT",
        ..least("unbuffered_percent", 100.0, "% of hosts", false)
    },
    Condition {
        text: "volumes that are known not to be in memory",
        source: "a memory file system says nothing about disks",
        remedy: "put the volumes on the storage under test, and leave --allow-memory out",
        ..least("on_storage_percent", 100.0, "% of volumes", false)
    },
    Condition {
        text: "volumes without the evidence of the run on their file system",
        source: "ours: what the evidence writes goes to the storage that is measured",
        remedy: "keep the evidence on another file system: `run --out FOLDER`, `fleet agent --state FOLDER`",
        ..least("evidence_apart_percent", 100.0, "% of volumes", true)
    },
    Condition {
        text: "hosts whose kernel log was read throughout the run",
        source: "the published programme asks for clean event logs; a log that was not read is not known to be clean",
        remedy: "let Proofload read the kernel log: root, CAP_SYSLOG, or kernel.dmesg_restrict = 0",
        ..least("kernel_log_percent", 100.0, "% of hosts", true)
    },
    Condition {
        text: "limits that were broken while a scheduled fault excused it",
        source: "ours: a limit that was broken was not held, whatever broke it",
        remedy: "take the faults out of the solution file",
        ..most("excused_limits", 0.0, "limits", false)
    },
    Condition {
        text: "errors noted about the hosts and during the run",
        source: "the published programme asks for clean event logs",
        remedy: "see “Environment” and “Events”, and remove the cause",
        ..most("errors", 0.0, "errors", false)
    },
];

/// Condition with the range that was in force when the run started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rule {
    /// Stable name of the condition.
    pub name: String,
    /// Unit of the figure.
    pub unit: String,
    /// Least value that passes. A rule without bounds cannot be met, because no reference exists.
    pub least: Option<f64>,
    /// Largest value that passes.
    pub most: Option<f64>,
    /// Least value that the published programme accepts.
    pub published_least: Option<f64>,
    /// Largest value that the published programme accepts.
    pub published_most: Option<f64>,
}

impl Rule {
    /// Published rule of a condition.
    pub fn published(condition: &Condition) -> Rule {
        Rule {
            name: condition.name.to_owned(),
            unit: condition.unit.to_owned(),
            least: condition.least,
            most: condition.most,
            published_least: condition.least,
            published_most: condition.most,
        }
    }

    /// Whether a figure meets the rule. A figure that was not measured meets none.
    pub fn holds(&self, measured: Option<f64>) -> bool {
        let bounded = self.least.is_some() || self.most.is_some();
        let inside = |value: f64| {
            self.least.is_none_or(|least| value >= least) && self.most.is_none_or(|most| value <= most)
        };
        bounded && measured.is_some_and(inside)
    }

    /// Whether the rule accepts figures that the published programme does not.
    pub fn is_weaker(&self) -> bool {
        let lower = match (self.least, self.published_least) {
            (Some(own), Some(published)) => own < published,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        let higher = match (self.most, self.published_most) {
            (Some(own), Some(published)) => own > published,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        let unpublished = self.published_least.is_none() && self.published_most.is_none();
        lower || higher || (unpublished && (self.least.is_some() || self.most.is_some()))
    }
}

/// Claim of a run: what it sets out to show, recorded when it starts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// Mailboxes in service while the failure lasts; `None` if the solution has no plan.
    pub mailboxes: Option<f64>,
    /// Transactional I/O per second and mailbox that the tests put on the storage.
    #[serde(default)]
    pub iops_per_mailbox: Option<f64>,
    /// Transactional I/O per second and mailbox of the profile, with its headroom.
    #[serde(default)]
    pub profile_iops_per_mailbox: Option<f64>,
    /// Transactional I/O per second and server that the plan derives for the worst failure; `None` without a plan.
    pub iops_per_server: Option<f64>,
    /// Mean load of the day that the tests follow, in percent of its peak hour; `None` if they stay at the peak.
    #[serde(default)]
    pub day_mean_percent: Option<f64>,
    /// Failure for which this load is planned, in the plan's words.
    pub failure: Option<String>,
    /// Names of the hosts under test.
    pub hosts: Vec<String>,
    /// Kinds of tests that the rules of the run require.
    pub tests: Vec<String>,
    /// Planned size of a database, bytes.
    #[serde(default)]
    pub database_bytes: Option<f64>,
    /// Volumes under test with their disks; empty in files of earlier builds, as are the next two.
    #[serde(default)]
    pub storage: String,
    /// Copies of each database, the active one included.
    #[serde(default)]
    pub copies: Option<u32>,
    /// Generation of the database engine, its pages and its log files.
    #[serde(default)]
    pub engine: String,
    /// Doubts: parts of the claim that nothing backs.
    #[serde(default)]
    pub doubts: Vec<Doubt>,
}

/// Doubt: part of a claim that neither the plan nor the solution backs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Doubt {
    /// Doubtful part: `plan`, `hosts`, `storage`, `databases` or `copies`.
    pub part: String,
    /// Reason why nothing backs it.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_condition_says_what_it_asks_for_where_from_and_what_to_do() {
        for condition in CONDITIONS {
            let name = condition.name;
            for text in [condition.text, condition.unit, condition.source, condition.remedy] {
                assert!(!text.is_empty(), "{name}");
            }
            assert!(condition.least.is_some() || condition.most.is_some(), "{name} can be missed");
            assert_eq!(CONDITIONS.iter().filter(|other| other.name == name).count(), 1, "{name} is unique");
        }
    }

    /// Repeats the thresholds beside their sources: a change of the table must be made here as well.
    #[test]
    fn thresholds_are_those_of_their_sources() {
        let (least, most) = (|value: f64| (Some(value), None::<f64>), |value: f64| (None, Some(value)));
        let published = [
            ("rules_percent", least(100.0)),
            ("load_tests", least(1.0)),
            ("target_set_percent", least(100.0)),
            ("target_met_percent", least(100.0)),
            ("worst_failure_percent", least(100.0)),
            ("claim_doubts", most(0.0)),
            ("iops_per_mailbox_percent", least(100.0)),
            ("database_size_percent", least(90.0)),
            ("verified_logs", least(20.0)),
            ("recovered_logs", least(500.0)),
            ("latency_limits_percent", most(100.0)),
            ("maintained_percent", least(100.0)),
            ("performance_window_s", least(2.0 * 3_600.0)),
            ("stress_window_s", least(24.0 * 3_600.0)),
            ("window_percent", least(100.0)),
            ("cache_ratio", least(500.0)),
            ("cache_filled_percent", least(90.0)),
            ("throughput_change_percent", most(5.0)),
            ("write_change_percent", most(10.0)),
            ("write_start_percent", least(50.0)),
            ("latency_change_percent", most(10.0)),
            ("equal_hosts_percent", least(80.0)),
            ("starved_percent", most(10.0)),
            ("tests", least(6.0)),
            ("verified_percent", least(100.0)),
            ("coverage_percent", least(100.0)),
            ("logs_verified_percent", least(100.0)),
            ("hosts_percent", least(100.0)),
            ("undeclared_sharing", most(0.0)),
            ("unbuffered_percent", least(100.0)),
            ("on_storage_percent", least(100.0)),
            ("evidence_apart_percent", least(100.0)),
            ("kernel_log_percent", least(100.0)),
            ("excused_limits", most(0.0)),
            ("errors", most(0.0)),
        ];
        for (name, bounds) in published {
            let condition = super::condition(name);
            assert_eq!(condition.map(|c| (c.least, c.most)), Some(bounds), "{name}");
        }
        let shape = [
            ("reads_per_batch", 27.6, 28.8),
            ("writes_per_batch", 12.9, 13.1),
            ("log_writes_per_batch", 3.05, 3.08),
            ("log_file_kib_per_batch", 30.2, 30.7),
        ];
        for (name, low, high) in shape {
            let condition = super::condition(name);
            assert_eq!(
                condition.map(|c| (c.least, c.most)),
                Some((Some(low * 0.9), Some(high * 1.1))),
                "{name}"
            );
        }
        assert_eq!(published.len() + shape.len(), CONDITIONS.len(), "no condition is left out");
    }

    #[test]
    fn only_a_completed_run_without_failures_is_held_and_only_with_every_condition_qualified() {
        let counts = Counts { passed: 3, ..Counts::default() };
        let completed = Some(Ending::Completed);
        assert_eq!(Grade::of(counts, completed, true), Grade::Qualified);
        assert_eq!(Grade::of(counts, completed, false), Grade::Held);
        for ending in [None, Some(Ending::Interrupted), Some(Ending::Aborted)] {
            assert_eq!(Grade::of(counts, ending, true), Grade::Incomplete);
        }
        for incomplete in [
            Counts { passed: 0, ..counts },
            Counts { unproved: 1, ..counts },
            Counts { open_tests: 1, ..counts },
        ] {
            assert_eq!(Grade::of(incomplete, completed, true), Grade::Incomplete, "{incomplete:?}");
            let failed = Counts { failed: 1, ..incomplete };
            assert_eq!(Grade::of(failed, completed, true), Grade::Failed, "{failed:?}");
        }
    }

    #[test]
    fn each_rule_passes_at_its_bounds_and_fails_beyond_them() {
        for condition in CONDITIONS {
            let rule = Rule::published(&condition);
            for bound in [rule.least, rule.most].into_iter().flatten() {
                assert!(rule.holds(Some(bound)), "{}", rule.name);
            }
            let step = |bound: f64| bound.abs().max(1.0) * 1e-9;
            assert!(rule.least.is_none_or(|least| !rule.holds(Some(least - step(least)))), "{}", rule.name);
            assert!(rule.most.is_none_or(|most| !rule.holds(Some(most + step(most)))), "{}", rule.name);
            assert!(!rule.holds(None), "{}: what was not measured meets no rule", rule.name);
            assert!(!rule.is_weaker(), "{}", rule.name);
        }
    }

    #[test]
    fn weaker_rules_are_told_from_stricter_ones() {
        let published = condition("reads_per_batch").unwrap();
        let rule = |least, most| Rule { least, most, ..Rule::published(published) };
        let (low, high) = (published.least.unwrap(), published.most.unwrap());
        assert!(rule(Some(8.0), Some(high)).is_weaker() && rule(Some(low), Some(40.0)).is_weaker());
        assert!(rule(None, Some(high)).is_weaker() && rule(Some(low), None).is_weaker());
        assert!(!rule(Some(27.0), Some(29.0)).is_weaker(), "a stricter rule is none that is weaker");
        let unpublished = Rule { published_least: None, published_most: None, ..rule(Some(5.0), Some(9.0)) };
        assert!(unpublished.is_weaker() && unpublished.holds(Some(6.0)));
        let without = Rule { least: None, most: None, ..unpublished };
        assert!(!without.holds(Some(6.0)) && !without.is_weaker(), "without a reference nothing is met");
    }
}

//! Drills as a user meets them: `proofload fleet agent` on four hosts in network namespaces of this machine, a
//! real nats-server, `proofload fleet run` of a solution with a drill. Processes with copies are killed and cut
//! off while users work.
//!
//! Beside the verdicts of the run the journals of the hosts are read here once more, by another rule than the
//! program's: in each epoch of a database one host acknowledges.
//!
//! Needs root and `ip netns`; skipped by name otherwise.
#![allow(clippy::disallowed_methods, reason = "tests face the operating system")]

use std::collections::{BTreeMap, BTreeSet};

use crate::drilled::Drilled;
use crate::net::{can_run, wait_for};
use crate::test_fleet::TestFleet;
use campaign::drill::{Compared, Entry, JournalContent, Observed};
use serde_json::Value;

fn solution(databases: u32, per_site: &str, sites: &[&str], duration_s: u32, drill: &str) -> String {
    let (hosts, batches_per_s, log_file_kib) = (4, 3, 1024);
    let drilled =
        Drilled { hosts, databases, per_site, sites, batches_per_s, log_file_kib, duration_s, drill };
    drilled.text()
}

/// Evidence and output of a drill.
struct Performed {
    report: Value,
    events: String,
    console: String,
    journals: Vec<(usize, Vec<Entry>)>,
}

fn perform(solution: &str) -> Performed {
    let fleet = TestFleet::new(solution);
    let _agents = fleet.agents();
    let status = fleet.run(&["--nats-server", "nats-server"]).wait();
    assert_eq!(status, 0, "{}", fleet.all_logs());
    fleet.assert_everyone_took_part(1);
    let journal = |host: usize| {
        let path = fleet.run_folder().join(format!("hosts/h{host}/drill.jsonl"));
        let text = std::fs::read_to_string(path).expect("each host keeps a journal");
        let lines = text.lines().skip(1).map(|line| serde_json::from_str(line).expect("a line"));
        (
            host,
            lines
                .map(|line: Value| serde_json::from_value(line["said"].clone()).expect("an entry"))
                .collect(),
        )
    };
    let (report, events, console) = (fleet.report(), fleet.events(), fleet.text("controller.log"));
    Performed { report, events, console, journals: (1..=4).map(journal).collect() }
}

impl Performed {
    /// Measured values of a rule, one for each database.
    fn measured(&self, rule: &str) -> Vec<f64> {
        let tests = self.report["tests"].as_array().expect("a list");
        let verdicts = tests.iter().flat_map(|test| test["verdicts"].as_array().expect("a list"));
        let of_rule = verdicts.filter(|verdict| verdict["rule"] == rule);
        of_rule.filter_map(|verdict| verdict["measured"].as_f64()).collect()
    }

    /// Hosts that acknowledged commits, by database and epoch.
    fn reigns(&self) -> BTreeMap<(usize, u32), BTreeSet<usize>> {
        let mut reigns: BTreeMap<_, BTreeSet<usize>> = BTreeMap::new();
        for (host, entries) in &self.journals {
            for entry in entries {
                if let JournalContent::Observed(Observed::Acknowledged { database, epoch, .. }) = &entry.said
                {
                    reigns.entry((*database, epoch.0)).or_default().insert(*host);
                }
            }
        }
        reigns
    }

    /// Asserts what must hold in every drill.
    fn assert_sound(&self, databases: usize, copies: usize) {
        assert!(!self.console.contains("a verdict failed"), "none did: {}", self.console);
        let rows = self.console.lines().filter(|line| line.contains(" drill_outage "));
        let names =
            |row: &&str| row.split_whitespace().rev().nth(1).is_some_and(|host| host.starts_with('h'));
        assert_eq!(rows.filter(names).count(), 1, "the row names host and database: {}", self.console);
        let reigns = self.reigns();
        assert!(reigns.values().all(|hosts| hosts.len() == 1), "two hosts in one epoch: {reigns:?}");
        for rule in ["drill_two_active", "drill_copies_equal", "drill_copies_compared", "drill_errors"] {
            assert_eq!(self.measured(rule), vec![0.0; databases], "{rule}\n{}", self.events);
        }
        let said = self.journals.iter().flat_map(|(_, entries)| entries);
        let compared: Vec<&Compared> = said
            .filter_map(|entry| match &entry.said {
                JournalContent::Compared(compared) => Some(compared),
                _ => None,
            })
            .flatten()
            .collect();
        assert_eq!(compared.len(), databases * copies, "each copy says what its pages say");
        assert!(compared.iter().all(|copy| copy.changed > 0), "{compared:?}");
    }

    /// Number of epochs of a database in which a host acknowledged commits.
    fn epochs(&self, database: usize) -> usize {
        self.reigns().keys().filter(|(of, _)| *of == database).count()
    }
}

#[test]
fn a_server_is_lost_and_comes_back_and_no_acknowledged_commit_is_gone() {
    if !can_run() {
        return;
    }
    let killed = r#"
[test.drill]
[[test.drill.event]]
kind = "host_killed"
host = "h1"
at_s = 5
back_after_s = 15
"#;
    let performed = perform(&solution(4, "[2]", &[], 40, killed));
    performed.assert_sound(4, 2);
    assert_eq!(performed.measured("drill_lost_commits"), [0.0; 4]);
    let outages = performed.measured("drill_outage");
    assert!(outages.iter().any(|outage_s| *outage_s > 3.0), "an active copy was lost: {outages:?}");
    assert!((0..4).any(|database| performed.epochs(database) > 1), "another copy took over");
    assert!(performed.events.contains("host h1 is killed"), "{}", performed.events);
}

#[test]
fn a_site_is_lost_and_the_other_one_has_every_acknowledged_commit() {
    if !can_run() {
        return;
    }
    let lost = r#"
[test.drill]
partner = "other_site"
[[test.drill.event]]
kind = "site_lost"
site = "A"
at_s = 5
back_after_s = 20
"#;
    let performed = perform(&solution(2, "[2, 2]", &["A", "B"], 45, lost));
    performed.assert_sound(2, 4);
    assert_eq!(performed.measured("drill_lost_commits"), [0.0; 2]);
    let outages = performed.measured("drill_outage");
    assert!(outages.iter().any(|outage_s| *outage_s > 3.0), "an active copy was lost: {outages:?}");
    assert!(performed.events.contains("site A is lost"), "{}", performed.events);
}

#[test]
fn a_lossy_dial_loses_no_more_than_it_may_when_hosts_are_killed_cut_off_and_lose_a_volume() {
    if !can_run() {
        return;
    }
    let events = r#"
[test.drill]
mount_dial = "good_availability"
[[test.drill.event]]
kind = "host_killed"
host = "h1"
at_s = 4
back_after_s = 14
[[test.drill.event]]
kind = "volume_failed"
host = "h2"
volume = "V"
at_s = 28
back_after_s = 6
[[test.drill.event]]
kind = "host_cut_off"
host = "h3"
at_s = 40
back_after_s = 12
"#;
    let performed = perform(&solution(4, "[2]", &[], 62, events));
    performed.assert_sound(4, 2);
    let lost = performed.measured("drill_lost_logs");
    // The dial, and the two generations that the arbiter need not have heard of.
    assert!(lost.len() == 4 && lost.iter().all(|logs| *logs <= 8.0), "{lost:?}");
    assert_eq!(performed.measured("drill_lost_changes").len(), 4, "{}", performed.console);
    for what in ["host h1 is killed", "volume V of host h2 fails", "host h3 is cut off", "is seeded"] {
        assert!(performed.events.contains(what), "{what}\n{}", performed.events);
    }
}

/// The process with the copies of a host whose agent is this program.
fn process_with_copies(agent: u32) -> Option<u32> {
    let is_it = |process: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse::<u32>().ok());
        let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        parent == Some(agent) && String::from_utf8_lossy(&line).contains("drill-work")
    };
    let entries = std::fs::read_dir("/proc").expect("Linux").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(is_it)
}

/// A process with copies that no failure was to kill: the drill does not hide it, does not wait for it, and
/// compares what is left.
#[test]
fn a_process_with_copies_that_dies_is_named_at_once_and_the_copies_that_live_are_compared() {
    if !can_run() {
        return;
    }
    let events = r#"
[test.drill]
mount_dial = "good_availability"
[[test.drill.event]]
kind = "host_cut_off"
host = "h4"
at_s = 20
back_after_s = 3
"#;
    let fleet = TestFleet::new(&solution(4, "[2]", &[], 35, events));
    let agents = fleet.agents();
    let controller = fleet.run(&["--nats-server", "nats-server"]);
    fleet.wait_until_measuring();
    let victim = process_with_copies(agents[1].id()).expect("h2 has copies").to_string();
    let killed = std::process::Command::new("kill").args(["-9", &victim]).status();
    assert!(killed.expect("kill starts").success());
    let said =
        "h2: could not go on: the process with the copies of this host has ended (signal: 9 (SIGKILL))";
    let is_said = || fleet.text("controller.log").contains(said);
    assert!(wait_for(is_said), "{}", fleet.all_logs());
    let others_work = |console: &str| !console.contains("h1: has carried out its tests");
    assert!(others_work(&fleet.text("controller.log")), "it is said while the others work");
    assert_eq!(controller.wait(), 1, "{}", fleet.all_logs());

    let outcomes: Vec<String> = fleet.took_part().into_iter().map(|(_, _, outcome)| outcome).collect();
    assert_eq!(outcomes, ["pass", "unproved", "pass", "pass"], "{}", fleet.all_logs());
    assert!(fleet.events().contains("goes on without h2"), "{}", fleet.events());
    let report = fleet.report();
    let tests = report["tests"].as_array().expect("a list");
    let verdicts: Vec<&Value> =
        tests.iter().flat_map(|test| test["verdicts"].as_array().expect("a list")).collect();
    let of = |rule: &str| verdicts.iter().filter(|verdict| verdict["rule"] == rule).collect::<Vec<_>>();
    let unproved: Vec<_> =
        of("drill_journal").into_iter().filter(|row| row["outcome"] == "unproved").collect();
    assert!(unproved.len() == 1 && unproved[0]["host"] == "h2", "{unproved:?}");
    assert!(
        of("drill_copies_equal").iter().all(|row| row["measured"] == 0.0),
        "{:?}",
        of("drill_copies_equal")
    );
    // Each host has two of the eight copies.
    let unread: f64 = of("drill_copies_compared").iter().filter_map(|row| row["measured"].as_f64()).sum();
    assert_eq!(unread, 2.0, "those of h2: {}", fleet.all_logs());
    let compared = [1, 3, 4].map(|host| {
        let path = fleet.run_folder().join(format!("hosts/h{host}/drill.jsonl"));
        let text = std::fs::read_to_string(path).expect("each host that lives keeps a journal");
        let lines = text.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).expect("a line"));
        let entries =
            lines.map(|line| serde_json::from_value::<Entry>(line["said"].clone()).expect("an entry"));
        let said = entries.filter_map(|entry| match entry.said {
            JournalContent::Compared(compared) => Some(compared),
            _ => None,
        });
        said.flatten().filter(|copy| copy.digests.is_some()).count()
    });
    assert_eq!(compared, [2, 2, 2], "every copy that lives was read");
}

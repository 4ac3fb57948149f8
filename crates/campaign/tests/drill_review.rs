//! Journals of hosts whose clocks are not the same, made into one history of a drill.

use std::collections::BTreeMap;
use std::rc::Rc;

use campaign::drill::{Compared, CopySample, Entry, HostJournal, Observed, Said, Site, review};
use copies::{
    ArbiterEvent, Boot, DatabaseId, Epoch, Health, HostId, Lineage, Position, Report, WhyDismounted,
};
use results::{Outcome, Tally, Verdict};
use solution::Solution;

const TEXT: &str = r#"
[solution]
name = "review"
schema = 1
[profile]
exchange = "2016"
mailboxes = 10
messages_per_day = 150
quota_mb = 64
[dag]
databases = 1
[copies]
per_site = [2]
[[host]]
name = "h{n}"
count = 2
[[volume]]
name = "V"
path = "/v"
capacity_gib = 100
[[instance]]
name = "DB"
volume = "V"
[sizing]
database_mib = 64
[load]
batches_per_s = 1
[[test]]
kind = "drill"
duration_s = 60
[test.drill]
[[test.drill.event]]
kind = "host_killed"
host = "h1"
at_s = 10
back_after_s = 20
"#;

const MS: u64 = 1_000_000;
/// When the window opens.
const OPENS_MS: u64 = 1_000_000;

fn entry(at_ms: u64, error_ms: u64, said: Said) -> Entry {
    Entry { unix_ns: (OPENS_MS + at_ms) * MS, error_ns: error_ms * MS, said }
}

fn opened(epoch: u32, version: u32) -> Said {
    let found = BTreeMap::from([(7, version)]);
    Said::Observed(Observed::Opened { database: 0, epoch: Epoch(epoch), found })
}

fn acknowledged(epoch: u32, version: u32) -> Said {
    let folders = BTreeMap::from([(7, version)]);
    Said::Observed(Observed::Acknowledged { database: 0, epoch: Epoch(epoch), folders })
}

fn compared() -> Said {
    let digests = Some(BTreeMap::from([(9, 1)]));
    Said::Compared(vec![Compared { database: 0, changed: 1, digests }])
}

/// The rules that are broken by what the two hosts wrote.
fn broken(first: Vec<Entry>, second: Vec<Entry>) -> Vec<String> {
    let failed = reviewed(first, second, &[]).into_iter().filter(|verdict| verdict.outcome == Outcome::Fail);
    failed.map(|verdict| verdict.rule).collect()
}

/// The judgements of what the two hosts and the arbiter wrote.
fn reviewed(first: Vec<Entry>, second: Vec<Entry>, arbiter: &[Entry]) -> Vec<Verdict> {
    let solution = Solution::parse(TEXT, "review.toml").expect("it is valid");
    let test = solution.deployment(Some("h1")).expect("it is valid").tests.remove(0);
    let drill = test.drill.clone().expect("a drill");
    let site = Rc::new(Site::of(&solution, &test, &drill).expect("it has copies"));
    let journal = |host, entries: Vec<Entry>| {
        let opens = [entry(0, 0, Said::WindowOpens)];
        let entries = opens.into_iter().chain(entries).chain([entry(61_000, 0, compared())]).collect();
        HostJournal { host, entries }
    };
    let hosts = [journal(0, first), journal(1, second)];
    let reviewed = review(&site, &test, &drill, 1, &hosts, arbiter);
    assert!(!reviewed.verdicts.is_empty());
    reviewed.verdicts
}

fn full_copy(host: u16) -> Said {
    let report = Report {
        database: DatabaseId(0),
        host: HostId(host),
        boot: Boot(1),
        promised: Epoch(1),
        lineage: Lineage::first(),
        end: Position::START,
        log_start: 1,
        replayed: Position::START,
        health: Health::Healthy,
        mountable: true,
        copy_queue: 0,
        host_tier: 0,
    };
    Said::Sample(vec![CopySample {
        database: 0,
        active_in: None,
        report,
        failure: None,
        reads: Tally::default(),
        log_writes: Tally::default(),
        batches: Tally::default(),
        events: Vec::new(),
    }])
}

#[test]
fn what_the_arbiter_sees_after_the_hosts_have_ended_counts_for_nothing() {
    let dismounted = |at_ms| {
        let event = ArbiterEvent::Dismounted { why: WhyDismounted::NoProof };
        let arbiter = [entry(at_ms, 0, Said::Decided { database: 0, event })];
        let first = vec![entry(100, 0, opened(1, 0)), entry(5_000, 0, acknowledged(1, 1))];
        let second = vec![entry(20_000, 0, opened(2, 1)), entry(21_000, 0, acknowledged(2, 2))];
        let failed = reviewed(first, second, &arbiter).into_iter().filter(|v| v.outcome == Outcome::Fail);
        failed.map(|verdict| verdict.rule).collect::<Vec<_>>()
    };
    assert_eq!(dismounted(70_000), Vec::<String>::new());
    assert_eq!(dismounted(50_000), ["drill_dismounted"]);
}

#[test]
fn a_second_that_a_host_did_not_see_the_end_of_takes_no_redundancy_away() {
    let last_of_first = |last_s: u64| {
        let samples = |host: u16, from_s: u64, to_s: u64, ms: u64| {
            (from_s..=to_s).map(move |s| entry(s * 1000 + ms, 0, full_copy(host)))
        };
        let mut first = vec![entry(100, 0, opened(1, 0)), entry(5_000, 0, acknowledged(1, 1))];
        first.extend(samples(0, 6, 9, 0));
        first.extend(samples(0, 30, last_s, 0));
        let mut second: Vec<Entry> = samples(1, 1, 19, 300).collect();
        second.extend([entry(20_000, 0, opened(2, 1)), entry(21_000, 0, acknowledged(2, 2))]);
        second.extend(samples(1, 21, 94, 300));
        let verdicts = reviewed(first, second, &[]);
        let redundancy = verdicts.into_iter().find(|verdict| verdict.rule == "drill_full_redundancy");
        redundancy.expect("it is stated").measured
    };
    assert_eq!(last_of_first(95), Some(20.5));
    assert_eq!(last_of_first(97), Some(20.5), "it ends a little later");
}

#[test]
fn an_acknowledgement_is_late_only_if_no_error_of_the_clocks_explains_it() {
    let late = |error_ms| {
        let first = vec![entry(100, error_ms, opened(1, 0)), entry(12_030, error_ms, acknowledged(1, 5))];
        let second = vec![entry(12_000, error_ms, opened(2, 5)), entry(13_000, error_ms, acknowledged(2, 6))];
        broken(first, second)
    };
    assert_eq!(late(20), Vec::<String>::new(), "30 ms apart, each known to 20 ms");
    assert_eq!(late(10), ["drill_two_active"], "each known to 10 ms");
}

#[test]
fn what_one_host_wrote_stays_in_its_order_however_wrong_its_clock_may_be() {
    // Its first acknowledgement could be from before its mount, by its clock alone; then it would be forgotten there.
    let first = vec![entry(100, 500, opened(1, 0)), entry(101, 500, acknowledged(1, 5))];
    let second = |found| vec![entry(20_000, 500, opened(2, found)), entry(21_000, 500, acknowledged(2, 9))];
    assert_eq!(broken(first.clone(), second(5)), Vec::<String>::new());
    assert_eq!(broken(first, second(4)), ["drill_lost_commits"]);
}

#[test]
fn a_drill_whose_window_never_opened_is_not_judged() {
    let solution = Solution::parse(TEXT, "review.toml").expect("it is valid");
    let test = solution.deployment(Some("h1")).expect("it is valid").tests.remove(0);
    let drill = test.drill.clone().expect("a drill");
    let site = Rc::new(Site::of(&solution, &test, &drill).expect("it has copies"));
    let journal = HostJournal { host: 0, entries: vec![entry(0, 0, opened(1, 0))] };
    assert_eq!(review(&site, &test, &drill, 1, &[journal], &[]).verdicts, []);
}

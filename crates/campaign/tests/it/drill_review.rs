//! Journals of hosts whose clocks are not the same, made into one history of a drill.

use std::collections::BTreeMap;

use campaign::drill::{
    ARBITER_NAME, Compared, CopySample, Entry, JournalContent, JournalEnd, JournalHead, Observed,
    PlannedDrill, ReadJournal, read_journal, review,
};
use replication::{
    ArbiterEvent, Boot, DatabaseId, Epoch, Health, HostId, Lineage, Position, Report, WhyDismounted,
};
use results::{IoTotals, Outcome, Verdict};
use solution::Solution;
use testkit::solutions::SMALL_DRILL;

const MS: u64 = 1_000_000;
/// Time at which the window opens, ms.
const OPENS_MS: u64 = 1_000_000;

fn entry(at_ms: u64, error_ms: u64, said: JournalContent) -> Entry {
    Entry { unix_ns: (OPENS_MS + at_ms) * MS, error_ns: error_ms * MS, said }
}

fn opened(epoch: u32, version: u32) -> JournalContent {
    let found = BTreeMap::from([(7, version)]);
    JournalContent::Observed(Observed::Opened { database: 0, epoch: Epoch(epoch), found })
}

fn acknowledged(epoch: u32, version: u32) -> JournalContent {
    let folders = BTreeMap::from([(7, version)]);
    JournalContent::Observed(Observed::Acknowledged { database: 0, epoch: Epoch(epoch), folders })
}

fn compared() -> JournalContent {
    let digests = Some(BTreeMap::from([(9, 1)]));
    JournalContent::Compared(vec![Compared { database: 0, changed: 1, digests }])
}

/// Names of the rules that fail for the journals of the two hosts.
fn broken(first: Vec<Entry>, second: Vec<Entry>) -> Vec<String> {
    rules(reviewed(first, second, vec![]), Outcome::Fail)
}

fn rules(verdicts: Vec<Verdict>, outcome: Outcome) -> Vec<String> {
    verdicts.into_iter().filter(|verdict| verdict.outcome == outcome).map(|verdict| verdict.rule).collect()
}

fn head(host: &str) -> JournalHead {
    JournalHead::new("run", host, SMALL_DRILL)
}

/// Lines of a complete journal with these entries.
fn lines(host: &str, entries: Vec<Entry>) -> Vec<Vec<u8>> {
    let (mut end, first) = JournalEnd::begin(&head(host));
    let mut lines = vec![first];
    lines.extend(entries.iter().map(|entry| end.entry(entry)));
    let entries = end.entries();
    lines.push(end.entry(&entry(62_000, 0, JournalContent::Ended { entries })));
    lines
}

/// Lines of the journal of host `number` (from 0), with the opening and the closing of the window.
fn host_lines(number: usize, entries: Vec<Entry>) -> Vec<Vec<u8>> {
    let failures = [entry(10_000, 0, JournalContent::Fails(0)), entry(30_000, 0, JournalContent::IsOver(0))];
    let failures = failures.into_iter().filter(|_| number == 0);
    let mut entries: Vec<Entry> = [entry(0, 0, JournalContent::WindowOpens)]
        .into_iter()
        .chain(entries)
        .chain(failures)
        .chain([entry(60_000, 0, JournalContent::WindowCloses), entry(61_000, 0, compared())])
        .collect();
    // In the order of time, as a host writes it.
    entries.sort_by_key(|entry| entry.unix_ns);
    lines(["h1", "h2"][number], entries)
}

/// Verdicts on these journals of the two hosts and of the arbiter; `None`: the journal is missing.
fn judged(hosts: [Option<Vec<u8>>; 2], arbiter: Option<Vec<u8>>) -> Vec<Verdict> {
    let solution =
        Solution::parse(&format!("{SMALL_DRILL}back_after_s = 20\n"), "review.toml").expect("it is valid");
    let test = solution.deployment(Some("h1")).expect("it is valid").tests.remove(0);
    let drill = test.drill.clone().expect("a drill");
    let planned = PlannedDrill::of(&solution, &test, &drill, 1, "Drill").expect("it has copies");
    let read = |bytes: Option<Vec<u8>>, host: &str| match bytes {
        Some(bytes) => read_journal(&bytes, &head(host)),
        None => ReadJournal::missing(),
    };
    let [first, second] = hosts;
    let hosts = vec![read(first, "h1"), read(second, "h2")];
    review(&planned, &hosts, &read(arbiter, ARBITER_NAME)).verdicts
}

/// Verdicts on what the two hosts and the arbiter wrote.
fn reviewed(first: Vec<Entry>, second: Vec<Entry>, arbiter: Vec<Entry>) -> Vec<Verdict> {
    let hosts = [(0, first), (1, second)].map(|(number, entries)| Some(host_lines(number, entries).concat()));
    let verdicts = judged(hosts, Some(lines(ARBITER_NAME, arbiter).concat()));
    assert_eq!(rules(verdicts.clone(), Outcome::Unproved), Vec::<String>::new());
    verdicts
}

fn full_copy(host: u16) -> JournalContent {
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
    JournalContent::Sample(vec![CopySample {
        database: 0,
        active_in: None,
        report,
        failure: None,
        reads: IoTotals::default(),
        log_writes: IoTotals::default(),
        batches: IoTotals::default(),
        events: Vec::new(),
    }])
}

#[test]
fn what_the_arbiter_sees_after_the_hosts_have_ended_counts_for_nothing() {
    let dismounted = |at_ms| {
        let event = ArbiterEvent::Dismounted { why: WhyDismounted::NoProof };
        let arbiter = [entry(at_ms, 0, JournalContent::Decided { database: 0, event })];
        let first = vec![entry(100, 0, opened(1, 0)), entry(5_000, 0, acknowledged(1, 1))];
        let second = vec![entry(20_000, 0, opened(2, 1)), entry(21_000, 0, acknowledged(2, 2))];
        rules(reviewed(first, second, arbiter.into()), Outcome::Fail)
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
        let verdicts = reviewed(first, second, vec![]);
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

/// Journals of a drill: host 1 acknowledges commit 5, then host 2 finds `found` commits.
fn history(found: u32) -> [Vec<Vec<u8>>; 2] {
    let first = vec![entry(100, 0, opened(1, 0)), entry(5_000, 0, acknowledged(1, 5))];
    let second = vec![entry(20_000, 0, opened(2, found)), entry(21_000, 0, acknowledged(2, 9))];
    [host_lines(0, first), host_lines(1, second)]
}

fn arbiter() -> Option<Vec<u8>> {
    Some(lines(ARBITER_NAME, vec![]).concat())
}

#[test]
fn a_drill_without_the_journal_of_a_host_or_of_the_arbiter_proves_nothing() {
    let whole = || history(5).map(|lines| Some(lines.concat()));
    assert_eq!(rules(judged(whole(), arbiter()), Outcome::Unproved), Vec::<String>::new());
    let without = |number: usize| {
        let mut journals = whole();
        journals[number] = None;
        judged(journals, arbiter())
    };
    for verdicts in [without(0), without(1), judged(whole(), None), judged([None, None], None)] {
        assert_eq!(
            rules(verdicts.clone(), Outcome::Fail),
            Vec::<String>::new(),
            "a lost file is no lost commit"
        );
        let unproved = verdicts.iter().find(|verdict| verdict.outcome == Outcome::Unproved);
        let unproved = unproved.expect("something is not proved");
        assert_eq!(unproved.rule, "drill_journal");
        assert!(unproved.text.contains("missing"), "{}", unproved.text);
        let passed = verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Pass);
        let passed: Vec<&str> = passed.map(|verdict| verdict.rule.as_str()).collect();
        assert!(passed.iter().all(|rule| *rule == "drill_journal" || *rule == "drill_failure_performed"));
    }
}

#[test]
fn no_lost_or_changed_line_makes_a_drill_pass_that_lost_a_commit() {
    let failed = |journals: [Vec<Vec<u8>>; 2]| {
        let verdicts = judged(journals.map(|lines| Some(lines.concat())), arbiter());
        let is_proved = rules(verdicts.clone(), Outcome::Unproved).is_empty();
        (rules(verdicts, Outcome::Fail).contains(&"drill_lost_commits".to_owned()), is_proved)
    };
    assert_eq!(failed(history(4)), (true, true));
    for host in 0..2 {
        for line in 0..history(4)[host].len() {
            let mut missing = history(4);
            missing[host].remove(line);
            assert!(!failed(missing).1, "line {line} of host {host} is missing");
            for at in (0..history(4)[host][line].len()).step_by(7) {
                let mut changed = history(4);
                changed[host][line][at] ^= 1;
                let (lost, is_proved) = failed(changed);
                assert!(lost || !is_proved, "byte {at} of line {line} of host {host}");
            }
        }
    }
}

#[test]
fn a_journal_that_names_what_the_drill_does_not_have_is_refused() {
    let strange = [
        JournalContent::Observed(Observed::Opened { database: 99, epoch: Epoch(1), found: BTreeMap::new() }),
        JournalContent::Compared(vec![Compared { database: 7, changed: 1, digests: None }]),
        JournalContent::Fails(3),
    ];
    for said in strange {
        let [_, second] = history(5);
        let first = host_lines(0, vec![entry(100, 0, opened(1, 0)), entry(200, 0, said)]);
        let verdicts = judged([Some(first.concat()), Some(second.concat())], arbiter());
        let unproved = verdicts.iter().find(|verdict| verdict.outcome == Outcome::Unproved);
        assert!(unproved.expect("it is refused").text.contains("does not have"));
    }
}

#[test]
fn a_failure_that_did_not_take_place_is_not_proved() {
    let entries = vec![entry(100, 0, opened(1, 0)), entry(5_000, 0, acknowledged(1, 5))];
    let opens_and_closes =
        [JournalContent::WindowOpens, JournalContent::WindowCloses].map(|said| entry(0, 0, said));
    let first = lines("h1", opens_and_closes.into_iter().chain(entries).collect());
    let [_, second] = history(5);
    let verdicts = judged([Some(first.concat()), Some(second.concat())], arbiter());
    assert!(rules(verdicts, Outcome::Unproved).contains(&"drill_failure_performed".to_owned()));
}

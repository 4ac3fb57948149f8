//! What a run has to be for the grade `qualified`: one honest run, and the many ways to be worth less.
#![allow(clippy::disallowed_methods, reason = "tests face the operating system")]

pub mod honest;

use evidence::report::ConditionRow;
use evidence::{Report, RunData};
use results::grade::CONDITIONS;
use results::*;

use honest::{CACHE, HOST, Honest, PAGES, SAMPLE_MS};

const PERFORMANCE: u32 = 2;
const FIRST_CHECKSUM: u32 = 3;
const STRESS: u32 = 4;
const LAST_CHECKSUM: u32 = 5;

fn test(data: &mut RunData, ordinal: u32) -> &mut Test {
    data.tests.get_mut(&ordinal).expect("the test is there")
}

/// Sets the planned and the measured length of the window.
fn shorten(test: &mut Test, window_ms: u64) {
    test.window_planned_ms = Some(window_ms);
    test.window_end_ms = test.window_start_ms.map(|start| start + window_ms);
}

/// Removes all rows of a test.
fn without(data: &mut RunData, ordinal: u32) {
    data.tests.remove(&ordinal);
    data.series.retain(|key, _| key.0 != ordinal);
    data.counters.retain(|key, _| key.0 != ordinal);
    data.checksums.retain(|row| row.test != ordinal);
    data.verdicts.retain(|row| row.test != Some(ordinal));
    data.sizes.retain(|row| row.test != ordinal);
}

fn claim(data: &mut RunData) -> &mut Claim {
    data.claim.as_mut().expect("there is a claim")
}

fn without_kind(data: &mut RunData, kind: &str) {
    let of_kind: Vec<u32> =
        data.tests.values().filter(|test| test.kind == kind).map(|test| test.ordinal).collect();
    of_kind.into_iter().for_each(|ordinal| without(data, ordinal));
}

/// Changes each sample of a measure in a test; `phase` runs from 0 to 1 over the window.
pub fn change(
    data: &mut RunData,
    ordinal: u32,
    measure: impl Into<Measure>,
    with: impl Fn(f64, IoTotals) -> IoTotals,
) {
    let measure = measure.into();
    let (start, end) = (test(data, ordinal).window_start_ms, test(data, ordinal).window_end_ms);
    let (start, end) = (start.expect("a load") as f64, end.expect("a load") as f64);
    for (_, points) in data.series.iter_mut().filter(|(key, _)| key.0 == ordinal && key.2 == measure) {
        for point in points {
            point.totals = with((point.t_ms as f64 - start) / (end - start), point.totals);
        }
    }
}

pub fn scaled(totals: IoTotals, count: f64, latency: f64) -> IoTotals {
    IoTotals {
        count: (totals.count as f64 * count) as u64,
        bytes: (totals.bytes as f64 * count) as u64,
        latency_ns_sum: (totals.latency_ns_sum as f64 * count * latency) as u64,
        ..totals
    }
}

pub fn counter(data: &mut RunData, counter: Counter, value: u64) {
    let of_it = data.counters.iter_mut().filter(|(key, _)| key.2 == counter);
    of_it.for_each(|(_, points)| points.iter_mut().for_each(|point| point.value = value));
}

pub const READ: IoClass = IoClass::TransactionalRead;
const WRITE: IoClass = IoClass::TransactionalWrite;

/// A change that makes the run worthless: its description, and the condition that is then not met.
type Spoiled = (&'static str, &'static str, fn(&mut RunData));

const HELD: [Spoiled; 55] = [
    ("performance is short", "performance_window_s", |data| {
        shorten(test(data, PERFORMANCE), 1_200_000);
    }),
    ("stress is short", "stress_window_s", |data| {
        shorten(test(data, STRESS), 7_200_000);
    }),
    ("performance is an estimate", "window_percent", |data| {
        let row = test(data, PERFORMANCE);
        row.window_planned_ms = row.window_planned_ms.map(|planned| planned + 3_600_000);
    }),
    ("nobody knows what was planned", "window_percent", |data| test(data, STRESS).window_planned_ms = None),
    ("the caches are cold", "cache_filled_percent", |data| {
        counter(data, Counter::CacheBytes, CACHE / 100 * 54)
    }),
    ("the fill of the caches is not known", "cache_filled_percent", |data| {
        data.counters.retain(|key, _| key.2 != Counter::CacheBytes);
    }),
    ("reads may take 500 ms", "latency_limits_percent", |data| {
        test(data, STRESS).limits[0].value = 500.0;
    }),
    ("the published limits are not known", "latency_limits_percent", |data| {
        test(data, PERFORMANCE).limits.iter_mut().for_each(|limit| limit.published = None);
    }),
    ("no background maintenance", "maintained_percent", |data| {
        change(data, STRESS, IoClass::MaintenanceRead, |_, totals| scaled(totals, 0.0, 1.0));
    }),
    ("the databases fit into 1/21", "cache_ratio", |data| {
        data.sizes.iter_mut().for_each(|size| size.bytes_before = 21 * CACHE);
    }),
    ("the sizes are not known", "cache_ratio", |data| data.sizes.clear()),
    ("a part of the claim is doubtful", "claim_doubts", |data| {
        let doubt = Doubt { part: "plan".into(), text: "the plan fails: copies per site".into() };
        claim(data).doubts.push(doubt);
    }),
    ("half of the I/O of a mailbox", "iops_per_mailbox_percent", |data| {
        claim(data).iops_per_mailbox = Some(0.06);
    }),
    ("a third of the planned database", "database_size_percent", |data| {
        claim(data).database_bytes = Some((3 * PAGES * 32_768) as f64);
    }),
    ("maintenance outside of the window only", "maintained_percent", |data| {
        change(data, STRESS, IoClass::MaintenanceRead, |phase, totals| {
            scaled(totals, if phase < 0.0 { 1.0 } else { 0.0 }, 1.0)
        });
    }),
    ("maintenance at half its rate", "maintained_percent", |data| {
        change(data, STRESS, IoClass::MaintenanceRead, |_, totals| scaled(totals, 0.5, 1.0));
    }),
    ("one log is verified", "verified_logs", |data| {
        data.checksums.iter_mut().filter(|row| row.read.files > 0).for_each(|row| row.read.files = 1);
    }),
    ("one log is replayed", "recovered_logs", |data| data.recoveries[0].logs = 1),
    ("a target 1.1 % below the plan's", "worst_failure_percent", |data| target_of_plan(data, 0.989)),
    ("no target", "target_set_percent", |data| {
        data.tests.values_mut().for_each(|test| test.target_iops = None);
    }),
    ("a day that the load did not follow", "throughput_change_percent", |data| {
        let hours: [f64; 24] = std::array::from_fn(|hour| if hour < 12 { 50.0 } else { 100.0 });
        let stress = test(data, STRESS);
        stress.day = Some(results::Day::of_window(hours, 86_400.0));
        // Its mean is what was achieved.
        stress.target_iops = Some(90.0);
    }),
    ("a target for one test only", "target_set_percent", |data| test(data, STRESS).target_iops = None),
    ("the target is half of the plan's", "worst_failure_percent", |data| target_of_plan(data, 0.5)),
    ("the target is missed within a tolerance", "target_met_percent", |data| target_of_plan(data, 1.05)),
    ("a checksum read 12.8 % of the pages", "coverage_percent", |data| {
        let row = data.checksums.iter_mut().find(|row| row.test == FIRST_CHECKSUM).expect("it is there");
        row.read.bytes = PAGES * 32_768 / 1_000 * 128;
    }),
    ("a checksum missed 1 % of the pages", "coverage_percent", |data| {
        let row = data.checksums.iter_mut().rfind(|row| row.test == LAST_CHECKSUM).expect("it is there");
        row.read.bytes = PAGES * 32_768 / 100 * 99;
    }),
    ("no checksum after the last load", "verified_percent", |data| without(data, LAST_CHECKSUM)),
    ("a checksum of one database", "verified_percent", |data| {
        data.checksums
            .retain(|row| row.test != LAST_CHECKSUM || row.origin.database.as_deref() == Some("DB1"));
    }),
    ("no load", "load_tests", |data| {
        without(data, PERFORMANCE);
        without(data, STRESS);
    }),
    ("tests of load that loaded nothing", "load_tests", |data| data.series.clear()),
    ("no stress", "tests", |data| without(data, STRESS)),
    ("no performance", "tests", |data| without(data, PERFORMANCE)),
    ("no backup", "tests", |data| without_kind(data, "backup")),
    ("no soft recovery", "tests", |data| without_kind(data, "soft_recovery")),
    ("no log checksum", "tests", |data| without_kind(data, "log_checksum")),
    ("no closed log was there", "logs_verified_percent", |data| {
        data.checksums.iter_mut().for_each(|row| row.read.files = 0);
    }),
    ("the logs of one instance", "logs_verified_percent", |data| {
        data.checksums.retain(|row| row.read.files == 0 || row.origin.instance.as_deref() == Some("DB2"));
    }),
    ("the load fades", "throughput_change_percent", |data| {
        for class in [READ, WRITE] {
            change(data, STRESS, class, |phase, io| scaled(io, if phase < 0.75 { 1.1 } else { 0.9 }, 1.0));
        }
    }),
    ("throttled in the middle", "throughput_change_percent", |data| {
        for class in [READ, WRITE] {
            change(data, PERFORMANCE, class, |phase, io| {
                scaled(io, if (0.5..0.75).contains(&phase) { 0.5 } else { 1.2 }, 1.0)
            });
        }
    }),
    ("writes climb", "write_change_percent", |data| {
        change(data, PERFORMANCE, WRITE, |phase, io| scaled(io, 0.7 + 0.6 * phase, 1.0));
    }),
    ("no writes in the first sample", "write_start_percent", |data| {
        change(data, STRESS, WRITE, |phase, io| if phase == 0.0 { IoTotals::default() } else { io });
    }),
    ("read latency climbs from 14.2 to 17.6 ms", "latency_change_percent", |data| {
        change(data, PERFORMANCE, READ, |phase, io| {
            scaled(io, 1.0, [14.2, 15.3, 16.5, 17.6][(phase * 4.0) as usize] / 14.0)
        });
    }),
    ("write latency climbs", "latency_change_percent", |data| {
        change(data, STRESS, WRITE, |phase, io| scaled(io, 1.0, 1.0 + phase));
    }),
    ("log latency climbs", "latency_change_percent", |data| {
        change(data, STRESS, IoClass::LogWrite, |phase, io| scaled(io, 1.0, 1.0 + phase));
    }),
    ("reads come from the cache", "reads_per_batch", |data| {
        change(data, STRESS, READ, |_, io| scaled(io, 0.33, 1.0));
    }),
    ("writes are merged", "writes_per_batch", |data| {
        change(data, STRESS, WRITE, |_, io| scaled(io, 0.6, 1.0));
    }),
    ("commits are not durable", "log_writes_per_batch", |data| {
        change(data, STRESS, IoClass::LogWrite, |_, io| scaled(io, 0.1, 1.0));
    }),
    ("hardly any log", "log_file_kib_per_batch", |data| counter(data, Counter::LogGenerations, 1)),
    ("one host of three", "hosts_percent", |data| {
        let claim = data.claim.as_mut().expect("a claim");
        claim.hosts.extend(["mbx2".to_owned(), "mbx3".to_owned()]);
    }),
    ("a host with equal databases does a tenth of the I/O", "equal_hosts_percent", |data| {
        let mut slow = data.clone();
        let rename = |host: &mut String| *host = "mbx2".to_owned();
        slow.hosts.iter_mut().for_each(|host| rename(&mut host.name));
        slow.instances.iter_mut().for_each(|instance| rename(&mut instance.host));
        slow.databases.iter_mut().for_each(|database| rename(&mut database.origin.host));
        data.hosts.extend(slow.hosts);
        data.instances.extend(slow.instances);
        data.databases.extend(slow.databases);
        for ((test, mut origin, measure), mut points) in slow.series {
            rename(&mut origin.host);
            points.iter_mut().for_each(|point| point.totals = scaled(point.totals, 0.1, 1.0));
            data.series.insert((test, origin, measure), points);
        }
    }),
    ("a scheduled fault excuses a limit", "excused_limits", |data| {
        let verdict = data.verdicts.first_mut().expect("a verdict");
        (verdict.measured, verdict.outcome) = (Some(25.0), Outcome::Info);
    }),
    ("the kernel noted an error", "errors", |data| {
        let (host, area, name) = (HOST.to_owned(), "After the tests".to_owned(), "Kernel log".to_owned());
        let (value, severity, note) = ("1 error".to_owned(), Severity::Error, String::new());
        data.environment.push(Environment { host, area, name, value, severity, note });
    }),
    ("no rules, as in files of earlier builds", "rules_percent", |data| {
        data.rules.clear();
        data.claim = None;
    }),
    ("a rule was taken out", "rules_percent", |data| drop(data.rules.pop())),
    ("a mix that nobody published", "reads_per_batch", |data| {
        let rule = data.rules.iter_mut().find(|rule| rule.name == "reads_per_batch").expect("it is there");
        *rule = Rule { least: None, most: None, published_least: None, published_most: None, ..rule.clone() };
    }),
];

/// Sets the target of each load test to this share of the planned figure.
fn target_of_plan(data: &mut RunData, share: f64) {
    data.tests.values_mut().for_each(|test| test.target_iops = test.target_iops.map(|target| target * share));
}

fn found(host: &str, area: &str, name: &str, value: &str) -> Environment {
    let [host, area, name, value] = [host, area, name, value].map(str::to_owned);
    Environment { host, area, name, value, severity: Severity::Info, note: String::new() }
}

fn kernel_log(data: &mut RunData) -> &mut Environment {
    data.environment.iter_mut().find(|row| row.name == "Kernel log").expect("it was read")
}

/// Only on real storage.
const HELD_REAL: [Spoiled; 14] = [
    ("two hosts run on one machine", "undeclared_sharing", |data| {
        for host in [HOST, "mbx2"] {
            data.environment.push(found(host, "System", "Boot id", "dc63ae13"));
        }
    }),
    ("two hosts have one export", "undeclared_sharing", |data| {
        for host in [HOST, "mbx2"] {
            data.environment.push(found(host, "Volume V1", "Identity", "export nas:/srv"));
        }
    }),
    ("the load generator was stopped for 90 ms of every 100", "starved_percent", |data| {
        counter(data, Counter::LateNs, SAMPLE_MS * 790_000);
    }),
    ("it is not known whether the load generator got to run", "starved_percent", |data| {
        data.counters.retain(|key, _| key.2 != Counter::LateNs);
    }),
    ("buffered", "unbuffered_percent", |data| {
        data.run.world_detail = "polling, buffered (page cache)".into()
    }),
    ("imported", "unbuffered_percent", |data| {
        data.run.world_detail = "imported from Performance.html".into()
    }),
    ("the evidence is on a volume under test", "evidence_apart_percent", |data| {
        let row = data.environment.iter_mut().find(|row| row.name == "Holds the evidence").unwrap();
        (row.value, row.severity) = ("yes".into(), Severity::Warning);
    }),
    ("it is not known where the evidence is", "evidence_apart_percent", |data| {
        data.environment.retain(|row| row.name != "Holds the evidence");
    }),
    ("in memory", "on_storage_percent", |data| {
        data.environment[0].value = "yes: tmpfs on /srv".into();
        data.environment[0].severity = Severity::Error;
    }),
    ("perhaps in memory", "on_storage_percent", |data| {
        data.environment[0].value = "not known: nfs4 on /srv is not local".into();
    }),
    ("nobody looked for memory", "on_storage_percent", |data| data.environment.clear()),
    ("nobody may read the kernel log", "kernel_log_percent", |data| {
        data.environment.retain(|row| row.name != "Kernel log");
    }),
    ("the kernel log was not readable after the tests", "kernel_log_percent", |data| {
        kernel_log(data).value = "not readable (Operation not permitted)".into();
    }),
    ("the kernel has overwritten part of its log", "kernel_log_percent", |data| {
        let gap = Environment {
            value: "part of the kernel log was overwritten".into(),
            ..kernel_log(data).clone()
        };
        data.environment.push(gap);
    }),
];

/// A change after which the run is not even held: its description, the grade, and a text of the reasons.
type Worse = (&'static str, Grade, &'static str, fn(&mut RunData));

const WORSE: [Worse; 7] = [
    ("interrupted", Grade::Incomplete, "was interrupted", |data| data.run.ending = Some(Ending::Interrupted)),
    ("killed", Grade::Incomplete, "did not end by itself", |data| data.run.ending = None),
    ("could not go on", Grade::Incomplete, "could not go on", |data| data.run.ending = Some(Ending::Aborted)),
    ("a test is open", Grade::Incomplete, "did not end", |data| test(data, LAST_CHECKSUM).ended_ms = None),
    ("nothing was judged", Grade::Incomplete, "Nothing was judged", |data| data.verdicts.clear()),
    ("a check was cut off", Grade::Incomplete, "is not proved", |data| {
        data.verdicts.last_mut().expect("a verdict").outcome = Outcome::Unproved;
    }),
    ("a limit is broken", Grade::Failed, "on mbx1/DB1/DB1, first 1 h into the window", |data| {
        change(data, PERFORMANCE, READ, |phase, io| scaled(io, 1.0, if phase < 0.5 { 1.0 } else { 2.5 }));
        let verdict = data.verdicts.first_mut().expect("a verdict");
        (verdict.measured, verdict.outcome) = (Some(24.5), Outcome::Fail);
    }),
];

fn report(data: &RunData) -> Report {
    Report::new(data).expect("a report")
}

fn missing(report: &Report) -> Vec<&ConditionRow> {
    report.verdict.conditions.iter().filter(|row| !row.met).collect()
}

#[test]
fn an_honest_run_is_qualified_and_says_what_the_storage_carries() {
    let carries = "he storage carries 15,000 mailboxes (90.00 transactional I/O per second and server, 0.121 per mailbox) with Site A lost, with databases of 100 % of the planned size.";
    for (world, begins) in [(WorldKind::Real, "T"), (WorldKind::Simulated, "Predicted, not tested: T")] {
        let report = report(&Honest::run(world));
        assert!(missing(&report).is_empty(), "{:#?}", missing(&report));
        assert_eq!(report.verdict.grade, Grade::Qualified);
        assert_eq!(report.verdict.headline, format!("{begins}{carries}"));
        let applying = if world == WorldKind::Real { CONDITIONS.len() - 1 } else { CONDITIONS.len() - 7 };
        assert_eq!(report.verdict.conditions.len(), applying, "every condition was looked at");
    }
}

#[test]
fn no_worthless_run_is_qualified_and_each_says_why() {
    for world in [WorldKind::Real, WorldKind::Simulated] {
        let honest = Honest::run(world);
        let real: &[Spoiled] = if world == WorldKind::Real { &HELD_REAL } else { &[] };
        for (what, condition, spoil) in HELD.iter().chain(real) {
            let mut data = honest.clone();
            spoil(&mut data);
            let report = report(&data);
            assert_eq!(report.verdict.grade, Grade::Held, "{what}: {:?}", report.verdict.reasons);
            let row = missing(&report).into_iter().find(|row| row.name == *condition);
            let row =
                row.unwrap_or_else(|| panic!("{what}: {condition} is not met: {:#?}", missing(&report)));
            let reason = report.verdict.reasons.iter().find(|reason| reason.contains(&row.note));
            let reason = reason.unwrap_or_else(|| panic!("{what}: {} is among the reasons", row.note));
            assert!(reason.contains(&row.remedy), "{what}: {reason}");
            assert!(!report.verdict.headline.contains("carries"), "{what}: {}", report.verdict.headline);
            let predicted = report.verdict.headline.starts_with("Predicted, not tested");
            assert_eq!(predicted, world == WorldKind::Simulated, "{what}");
        }
        for (what, grade, reason, spoil) in &WORSE {
            let mut data = honest.clone();
            spoil(&mut data);
            let verdict = report(&data).verdict;
            assert_eq!(verdict.grade, *grade, "{what}");
            assert!(
                verdict.reasons.iter().any(|told| told.contains(reason)),
                "{what}: {:?}",
                verdict.reasons
            );
            assert!(!verdict.headline.contains("carries"), "{what}: {}", verdict.headline);
        }
    }
}

/// Published papers print rounded targets.
#[test]
fn a_target_within_one_percent_of_the_plans_figure_is_the_plans_figure() {
    let mut data = Honest::run(WorldKind::Real);
    target_of_plan(&mut data, 0.991);
    let report = report(&data);
    assert_eq!(report.verdict.grade, Grade::Qualified, "{:#?}", missing(&report));
}

/// The first half of the day has half the load of the second, at half the latency.
#[test]
fn a_load_that_follows_its_day_is_steady_and_the_sentence_names_the_day() {
    let mut data = Honest::run(WorldKind::Real);
    let hours: [f64; 24] = std::array::from_fn(|hour| if hour < 12 { 50.0 } else { 100.0 });
    claim(&mut data).day_mean_percent = Some(75.0);
    for ordinal in [PERFORMANCE, STRESS] {
        let share = |phase: f64| if (0.0..0.5).contains(&phase) { 0.5 } else { 1.0 };
        for measure in [Measure::Batch, READ.into(), WRITE.into(), IoClass::LogWrite.into()] {
            change(&mut data, ordinal, measure, |phase, totals| scaled(totals, share(phase), share(phase)));
        }
        let row = test(&mut data, ordinal);
        let (start_ms, planned_ms) = row.window_start_ms.zip(row.window_planned_ms).expect("a window");
        row.day = Some(Day::of_window(hours, planned_ms as f64 / 1e3));
        row.target_iops = row.target_iops.map(|target| 0.75 * target);
        let logs = data.counters.iter_mut().filter(|(key, _)| key.0 == ordinal);
        for point in logs.filter(|(key, _)| key.2 == Counter::LogGenerations).flat_map(|(_, points)| points) {
            let is_early = (start_ms..start_ms + planned_ms / 2).contains(&point.t_ms);
            point.value /= if is_early { 2 } else { 1 };
        }
    }
    let report = report(&data);
    assert_eq!(report.verdict.grade, Grade::Qualified, "{:#?}", missing(&report));
    let sentence = "0.121 per mailbox, in the peak hour of a day whose mean is 75 % of it) with Site A lost";
    assert!(report.verdict.headline.contains(sentence), "{}", report.verdict.headline);
    let stress = report.tests.iter().find(|test| test.ordinal == STRESS).expect("it took place");
    assert!(
        stress.steadiness.as_ref().is_some_and(|steadiness| steadiness.steady),
        "{:?}",
        stress.steadiness
    );
    assert_eq!((stress.target_iops(), stress.peak_target_iops()), (Some(67.5), Some(90.0)));
    assert_eq!((stress.hours.len(), stress.causes.len()), (24, 0));
    for row in &stress.hours {
        assert_eq!(row.seconds, 3_600.0);
        let target = row.target_iops.expect("it has a target");
        assert!((target..1.01 * target).contains(&row.achieved_iops), "{row:?}");
    }
}

#[test]
fn a_run_without_a_load_says_nothing_of_the_storage_under_load() {
    let mut data = Honest::run(WorldKind::Real);
    without(&mut data, PERFORMANCE);
    without(&mut data, STRESS);
    let verdict = report(&data).verdict;
    assert_eq!(verdict.grade, Grade::Held);
    assert!(verdict.headline.contains("no load test took place"), "{}", verdict.headline);
}

#[test]
fn missing_conditions_are_named_with_figure_requirement_and_remedy() {
    let mut data = Honest::run(WorldKind::Real);
    for (_, _, spoil) in HELD.iter().filter(|(what, ..)| {
        [
            "performance is short",
            "the caches are cold",
            "the databases fit into 1/21",
            "no target",
            "reads come from the cache",
        ]
        .contains(what)
    }) {
        spoil(&mut data);
    }
    let verdict = report(&data).verdict;
    assert!(
        verdict.headline.ends_with("transactional I/O per second; no target was set."),
        "{}",
        verdict.headline
    );
    for note in [
        "no target was set",
        "performance window 1,200 s of 7,200 s",
        "database 21 x its cache; 500 x or more behaves like the published runs",
        "cache filled to 54 % when the window of performance 2 opened",
        "9.3 reads per batch in stress 4, published 27.6 to 28.8, 10 % more or less passes",
    ] {
        assert!(verdict.reasons.iter().any(|reason| reason.contains(note)), "{note}: {:#?}", verdict.reasons);
    }
}

#[test]
fn a_run_by_its_own_rules_says_so_and_lists_where_they_are_weaker() {
    let mut data = Honest::run(WorldKind::Real);
    shorten(test(&mut data, PERFORMANCE), 1_200_000);
    let rule = data.rules.iter_mut().find(|rule| rule.name == "performance_window_s").expect("it is there");
    rule.least = Some(1_000.0);
    let verdict = report(&data).verdict;
    assert_eq!(verdict.grade, Grade::Qualified, "{:?}", verdict.reasons);
    assert!(verdict.headline.starts_with("By its own rules, the storage carries"), "{}", verdict.headline);
    let own =
        "Own rule: measured window of the performance test: at least 1,000 s (published: at least 7,200).";
    assert!(verdict.reasons.iter().any(|reason| reason == own), "{:?}", verdict.reasons);
}

#[test]
fn junit_marks_what_was_not_proved_as_skipped_with_the_reason() {
    let mut data = Honest::run(WorldKind::Real);
    data.tests.values_mut().for_each(|test| test.target_iops = None);
    let xml = report(&data).junit().unwrap();
    let case = "<testcase classname=\"qualification\" name=\"target_set_percent\"><skipped message=\"no target was set;";
    assert!(xml.contains(case), "{xml}");
    assert!(
        xml.find("name=\"qualification\"") < xml.find("name=\"performance 2\""),
        "what is proved comes first"
    );
}

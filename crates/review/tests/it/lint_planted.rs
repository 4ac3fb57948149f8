//! Each rule fires on its planted error once and only it; clean evidence fires none.
#![allow(clippy::disallowed_methods, reason = "tests face the operating system")]

use std::collections::BTreeSet;

use evidence::{Report, RunData};
use results::{Claim, Comparison, Origin, Outcome, Row, Test, WorldKind};
use review::Evidence;
use review::lint::{Beside, Finding, RULES, lint, lint_report, lint_run};
use testkit::synthetic;
use testkit::synthetic::Shape;

/// A paper of two servers that agrees with itself everywhere.
const CLEAN: &str = include_str!("data/clean.toml");

fn clean() -> Evidence {
    toml::from_str(CLEAN).expect("the fixture is TOML")
}

fn data(shape: &Shape) -> RunData {
    let mut rows: Vec<Row> = Vec::new();
    synthetic::record(shape, &mut rows).expect("memory takes every row");
    RunData::from_rows(rows).expect("a run")
}

fn report(shape: &Shape) -> Report {
    Report::new(&data(shape)).expect("a report")
}

fn beside(json: &str) -> Beside {
    Beside { json: Some(json.to_owned()), ..Beside::default() }
}

fn rules(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.rule).collect()
}

/// Rules that fire on a report, without those about the grade, which `lint_grades.rs` tests.
fn rules_beside_the_grade(report: &Report) -> Vec<&'static str> {
    let findings = lint_report(report);
    findings.iter().map(|finding| finding.rule).filter(|rule| !OF_GRADES.contains(rule)).collect()
}

#[test]
fn clean_evidence_fires_no_rule() {
    assert_eq!(lint(&clean()), []);
    for (name, shape) in [
        ("pass", Shape::default()),
        ("fail", Shape { fails: true, ..Shape::default() }),
        ("cut", Shape { cut: true, ..Shape::default() }),
        ("simulated", Shape { world: WorldKind::Simulated, sample_s: 2, window_s: 30, ..Shape::default() }),
        (
            "hosts",
            Shape {
                hosts: 2,
                databases: 8,
                databases_per_instance: 4,
                window_s: 600,
                sample_s: 15,
                ..Shape::default()
            },
        ),
    ] {
        let (data, report) = (data(&shape), report(&shape));
        assert_eq!(lint_run(&data, &report, &beside(&report.json())), [], "{name}");
    }
}

type Plant = (&'static str, fn(&mut Evidence));

const PLANTED: &[Plant] = &[
    ("iops_sum", |e| e.test[2].achieved_iops = Some(260.0)),
    ("aggregate_sum", |e| e.summary.aggregate.as_mut().unwrap().log_writes_per_s = Some(52.0)),
    ("aggregate_latency", |e| e.summary.aggregate.as_mut().unwrap().write_latency_ms = Some(9.0)),
    ("repeated_cell", |e| {
        // The reports are gone, so only the aggregate can tell.
        e.test.clear();
        e.summary.server[1].read_latency_ms = Some(10.1234);
        e.summary.server[0].read_latency_ms = Some(10.1234);
    }),
    ("stress_as_performance", |e| {
        e.summary.aggregate = None;
        let row = &mut e.summary.server[0];
        (row.achieved_iops, row.reads_per_s, row.writes_per_s) = (Some(200.0), Some(140.0), Some(60.0));
        (row.read_latency_ms, row.write_latency_ms) = (Some(12.0), Some(6.0));
        row.log_writes_per_s = Some(22.0);
    }),
    ("maintenance_counted", |e| {
        e.summary.server[0].achieved_iops = Some(228.0);
        e.summary.server[0].reads_per_s = Some(168.0);
        e.summary.aggregate = None;
    }),
    ("host_mixup", |e| {
        e.test.truncate(2);
        e.test.remove(1);
        e.test[0].server = 2;
    }),
    ("summary_differs", |e| {
        e.summary.server[0].log_write_latency_ms = Some(1.0);
        e.summary.aggregate = None;
    }),
    ("one_server_as_all", |e| e.summary.backup_mb_per_s.as_mut().unwrap().per_server = Some(100.0)),
    ("target_differs", |e| e.solution.target_iops_per_server = Some(140.0)),
    ("wrong_scenario", |e| {
        e.solution.target_iops_per_server = Some(75.0);
        e.test
            .iter_mut()
            .filter(|test| test.target_iops.is_some())
            .for_each(|test| test.target_iops = Some(75.0));
    }),
    ("mailbox_arithmetic", |e| e.solution.mailboxes_per_database = Some(501.0)),
    ("failure_arithmetic", |e| e.solution.databases_per_server_tested.as_mut().unwrap().active = Some(3.0)),
    ("layout_activation", |e| e.layout.failed.active_databases_per_server = Some(3.0)),
    ("iops_per_mailbox", |e| e.solution.stated_achieved_iops_per_mailbox = Some(0.3)),
    ("stated_twice", |e| e.solution.mailbox_quota_mb_in_conclusion = Some(1000.0)),
    ("calculator_divisor", |e| {
        e.calculator.insert(
            "logs_per_day".into(),
            toml::Value::Array(vec![10.into(), 100.into(), 400.into(), 400.into()]),
        );
    }),
    ("unit", |e| e.hardware.formatted_capacity_printed_unit = "GB".into()),
    ("used_capacity", |e| e.solution.storage_used_pct = Some(55.0)),
    ("database_utilization", |e| e.hardware.database_utilization_pct = Some(33.0)),
    ("one_server_capacity", |e| {
        e.hardware.formatted_capacity_tb = Some(8.0);
        e.hardware.storage_utilization_pct = Some(50.0);
        e.solution.storage_used_pct = Some(50.0);
        e.hardware.database_utilization_pct = Some(50.0);
    }),
    ("raw_capacity", |e| e.hardware.disks[0].raw_gb = Some(15_000.0)),
    ("volume_count", |e| e.hardware.disks[0].volumes_printed = Some(5.0)),
    ("tested_disks", |e| e.hardware.disks_tested = Some(3.0)),
    ("raid_level", |e| e.hardware.disks[0].raid = "RAID 5".into()),
    ("foreign_model", |e| e.hardware.models_in_prose.push("Other 9000".into())),
    ("total_of_parts", |e| {
        let mut sum = e.test[6].checksum[0].clone();
        sum.pages = Some(3_199_999.0);
        e.test[6].checksum_sum = Some(sum);
    }),
    ("rate", |e| e.test[6].backup[0].mb_per_s = Some(12.0)),
    ("read_sum", |e| e.test[0].total[1].db_reads_per_s = Some(99.0)),
    ("growth", |e| e.test[0].growth_bytes = Some(5e9)),
    ("average_outside_range", |e| e.test[0].host[0].avg = Some(0.1)),
    ("threshold_exceeded", |e| {
        e.test[2].transactional[0].db_read_latency_ms = Some(25.0);
    }),
    ("littles_law", |e| e.test[0].threads = Some(9_000.0)),
    ("read_floor", |e| {
        e.hardware.disks[0].rpm = Some(15_000.0);
        let test = &mut e.test[0];
        test.transactional.iter_mut().chain(&mut test.total).for_each(|row| {
            row.db_read_latency_ms = row.db_read_latency_ms.map(|ms| ms / 1e3);
        });
        e.summary = Default::default();
    }),
    ("lenient_threshold", |e| e.test[0].thresholds.as_mut().unwrap().read_max_ms = Some(200.0)),
    ("load_after_window", |e| {
        let late: toml::value::Datetime = "2026-01-01T13:00:00".parse().unwrap();
        e.test[0].events.insert("dispatch_end".into(), review::Instant(late));
    }),
    ("duration_title", |e| e.test[2].title_hours = Some(2.0)),
    ("short_window", |e| {
        e.test[3].collection_s = Some(80_000.0);
        e.test[3].title_hours = None;
    }),
    ("bad_pages", |e| e.test[6].checksum[0].bad = Some(2.0)),
];

#[test]
fn each_planted_error_fires_its_rule_once_and_no_other() {
    for (rule, plant) in PLANTED {
        let mut evidence = clean();
        plant(&mut evidence);
        let findings = lint(&evidence);
        assert_eq!(rules(&findings), [*rule], "{findings:#?}");
        let finding = &findings[0];
        assert!(!finding.one.place.is_empty() && !finding.other.place.is_empty(), "{rule} names both places");
        // The one rule about figures that must not be equal.
        assert_eq!(finding.one.value == finding.other.value, *rule == "repeated_cell", "{rule}");
    }
}

#[test]
fn a_short_window_may_close_one_sample_late() {
    let titled_otherwise = |window_s| {
        let mut evidence = clean();
        evidence.test[2].title_hours = Some(4.0 / 3600.0);
        evidence.test[2].collection_s = Some(window_s);
        rules(&lint(&evidence)).contains(&"duration_title")
    };
    assert!(!titled_otherwise(4.13));
    assert!(titled_otherwise(5.2));
}

/// Verdicts, solution and report.json belong to runs of ours.
#[test]
fn errors_planted_in_a_run_of_ours_fire_their_rule_once() {
    let fires = |rule: &str, change: &dyn Fn(&mut Report)| {
        let mut report = report(&Shape::default());
        change(&mut report);
        assert_eq!(rules_beside_the_grade(&report), [rule]);
    };
    fires("verdict_outcome", &|report| {
        let verdict = report.tests[2].verdicts.iter_mut().find(|v| v.rule == "read_latency_avg").unwrap();
        verdict.limit = Some(1.0);
        // A limit of the load generator's table would be a second witness.
        verdict.origin = Origin::host("mbx1");
        report.tests[2].outcome = Some(Outcome::Fail);
    });
    fires("verdict_figure", &|report| {
        let verdict = report.tests[2].verdicts.iter_mut().find(|v| v.rule == "achieved_iops").unwrap();
        assert_eq!(verdict.comparison, Comparison::AtLeast);
        verdict.measured = verdict.measured.map(|iops| iops * 1.1);
    });
    fires("iops_sum", &|report| {
        report.tests[4].throughput.as_mut().unwrap().transactional_iops *= 1.1;
        report.tests[4].verdicts.retain(|verdict| verdict.rule != "achieved_iops");
    });
    fires("maintenance_counted", &|report| {
        let maintenance: f64 = report.tests[4]
            .instances
            .iter()
            .filter_map(|row| row.maintenance)
            .map(|figures| figures.per_s)
            .sum();
        report.tests[4].throughput.as_mut().unwrap().transactional_iops += maintenance;
        report.tests[4].verdicts.retain(|verdict| verdict.rule != "achieved_iops");
    });
    fires("duration_title", &|report| report.tests[4].window.as_mut().unwrap().planned_s = Some(3600.0));
    fires("rate", &|report| report.tests[6].backups[0].mib_per_s = Some(1.0));
    fires("coverage", &|report| report.tests[3].checksums[1].read.bytes_expected = Some(1 << 42));
    fires("bad_pages", &|report| report.tests[3].checksums[0].read.bad_pages = 3);
}

#[test]
fn a_solution_with_other_limits_or_a_larger_load_is_found() {
    let shipped =
        include_str!("../../../../solutions/laptop.toml").replace("name = \"laptop\"", "name = \"mbx1\"");
    let with = |extra: &str| {
        shipped.replace("kind = \"performance\"\n", &format!("kind = \"performance\"\n{extra}\n"))
    };
    let found = |text: String, target: f64| {
        let parsed = solution::Solution::parse(&text, "s").expect("a solution file");
        parsed.deployment(Some("mbx1")).expect("a deployment");
        plan::plan(&parsed, &[]).expect("a plan");
        let mut report = report(&Shape::default());
        report.run.solution_text = text;
        for test in &mut report.tests {
            test.planned
                .iter_mut()
                .filter(|row| row.name == "Transactional I/O")
                .for_each(|row| row.planned = Some(target));
        }
        rules_beside_the_grade(&report)
    };
    assert_eq!(found(with(""), 1e6), [""; 0]);
    assert_eq!(found(with("thresholds = { read_avg_ms = 15 }"), 1e6), ["solution_threshold"]);
    // Both load tests carry the target.
    assert_eq!(found(with(""), 0.001), ["wrong_scenario", "wrong_scenario"]);
}

/// Two performance tests of two hosts, each with a load and limits of its own, contradict neither each other
/// nor the file.
#[test]
fn the_tests_of_a_kind_are_looked_at_one_by_one() {
    let shape = Shape { hosts: 2, databases: 8, world: WorldKind::Simulated, ..Shape::default() };
    let mut rows: Vec<Row> = Vec::new();
    synthetic::record(&shape, &mut rows).expect("memory takes every row");
    // The second load test becomes a performance test of thrice the load.
    for row in &mut rows {
        match row {
            Row::Test(test) if test.ordinal == 5 => {
                (test.kind, test.name) = ("performance".into(), "Performance 2".into());
            }
            Row::Sample(sample) if sample.test == 5 => {
                let totals = &mut sample.totals;
                (totals.count, totals.bytes) = (3 * totals.count, 3 * totals.bytes);
                totals.latency_ns_sum *= 3;
            }
            Row::Verdict(verdict) if verdict.test == Some(5) && verdict.rule == "read_latency_avg" => {
                verdict.limit = Some(30.0);
            }
            Row::Verdict(verdict) if verdict.test == Some(5) && verdict.rule == "achieved_iops" => {
                verdict.measured = verdict.measured.map(|iops| 3.0 * iops);
            }
            _ => {}
        }
    }
    let mut report = Report::new(&RunData::from_rows(rows).expect("a run")).expect("a report");
    for test in &mut report.tests {
        test.planned.clear();
        // The distributions are those of the thrice as large load, too.
        test.measures.iter_mut().for_each(|row| row.percentiles.count = row.figures.count);
    }
    let shipped =
        include_str!("../../../../solutions/laptop.toml").replace("name = \"laptop\"", "name = \"mbx1\"");
    let second = |limit: u32| {
        let test = format!("[[test]]\nkind = \"performance\"\nthresholds = {{ read_avg_ms = {limit} }}\n");
        format!("{shipped}\n{test}")
    };
    report.run.solution_text = second(30);
    assert_eq!(rules_beside_the_grade(&report), [""; 0]);
    report.run.solution_text = second(25);
    assert_eq!(rules_beside_the_grade(&report), ["solution_threshold"], "the second is still looked at");
    report.run.solution_text = second(30);
    report.tests[4].throughput.as_mut().expect("a load").log_writes_per_s *= 2.0;
    assert_eq!(rules_beside_the_grade(&report), ["aggregate_sum"], "the first and the second alike");
    report.tests[2].throughput.as_mut().expect("a load").log_writes_per_s *= 2.0;
    assert_eq!(rules_beside_the_grade(&report), ["aggregate_sum", "aggregate_sum"]);
}

/// A maximum above that of a performance test is found, unless the solution file of the run asks for it.
#[test]
fn a_maximum_that_the_solution_file_sets_is_no_stress_maximum() {
    let shipped =
        include_str!("../../../../solutions/laptop.toml").replace("name = \"laptop\"", "name = \"mbx1\"");
    let own = shipped.replace(
        "kind = \"performance\"\n",
        "kind = \"performance\"\nthresholds = { read_max_ms = 60000 }\n",
    );
    let found = |text: &str, limit: f64| {
        let mut report = report(&Shape::default());
        report.run.solution_text = text.to_owned();
        let mut verdict = report.tests[2].verdicts[1].clone();
        verdict.rule = "read_latency_max".into();
        (verdict.limit, verdict.measured) = (Some(limit), None);
        report.tests[2].verdicts.push(verdict);
        report.tests[2].planned.clear();
        report.tests[4].planned.clear();
        rules_beside_the_grade(&report)
    };
    assert_eq!(found(&own, 60_000.0), [""; 0]);
    assert_eq!(found(&shipped, 200.0), ["lenient_threshold", "solution_threshold"]);
    assert_eq!(found("imported", 200.0), ["lenient_threshold"]);
}

#[test]
fn a_report_that_was_changed_after_the_run_is_found() {
    let (data, whole) = (data(&Shape::default()), report(&Shape::default()));
    let mut changed = whole.clone();
    changed.tests[2].measures[0].figures.latency_ms_mean = Some(3.0);
    let findings = lint_run(&data, &whole, &beside(&changed.json()));
    assert_eq!(rules(&findings), ["report_differs"]);
    assert_eq!(findings[0].one.place, "report.json: tests[2].measures[0].figures.latency_ms_mean");
    assert_eq!(rules(&lint_run(&data, &whole, &beside("{"))), ["report_differs"]);
    // A field of another version is no contradiction, one that this version does not write is.
    let with_field = |report: &Report| beside(&report.json().replacen('{', "{\"new\": 1, ", 1));
    assert_eq!(rules(&lint_run(&data, &whole, &with_field(&whole))), ["report_differs"]);
    let newer = Report { program: "99.0.0".into(), ..whole.clone() };
    let findings = lint_run(&data, &whole, &with_field(&newer));
    assert_eq!(findings.iter().map(|finding| finding.one.place.as_str()).collect::<Vec<_>>(), [""; 0]);
}

/// What a run set out to show follows from the solution file that it carries.
#[test]
fn claim_that_its_solution_does_not_make_is_found() {
    let found = |change: &dyn Fn(&mut Claim)| {
        let mut data = data(&Shape::default());
        data.run.solution_text = include_str!("../../../../solutions/laptop.toml").to_owned();
        data.run.tool_version = env!("CARGO_PKG_VERSION").to_owned();
        let solution = solution::Solution::parse(&data.run.solution_text, "s").expect("a solution file");
        let mut claim = plan::claim(&solution, data.run.world, None, Vec::new());
        change(&mut claim);
        data.claim = Some(claim);
        let report = Report::new(&data).expect("a report");
        let findings = lint_run(&data, &report, &Beside::default());
        findings.iter().filter(|finding| finding.rule == "claim").count()
    };
    assert_eq!(found(&|_| {}), 0);
    assert_eq!(found(&|claim| claim.mailboxes = Some(15_000.0)), 1);
    assert_eq!(found(&|claim| claim.failure = Some("Site B".to_owned())), 1);
    assert_eq!(found(&|claim| claim.doubts.clear()), 1, "the storage of the laptop is not described");
}

/// Lengths, targets and sizes of the solution file that a real run carries are those of its rows.
#[test]
fn real_run_with_another_solution_text_is_found() {
    let shipped =
        include_str!("../../../../solutions/laptop.toml").replace("name = \"laptop\"", "name = \"mbx1\"");
    let found = |world: WorldKind, change: &dyn Fn(&mut Test)| {
        let mut data = data(&Shape { world, ..Shape::default() });
        data.run.solution_text = shipped.clone();
        data.tests.values_mut().filter(|test| test.window_start_ms.is_some()).for_each(change);
        let report = Report::new(&data).expect("a report");
        let findings = lint_run(&data, &report, &Beside::default());
        findings.iter().filter(|finding| finding.rule == "solution_test").count()
    };
    let solution = solution::Solution::parse(&shipped, "s").expect("a solution file");
    let deployment = solution.deployment(Some("mbx1")).expect("a deployment");
    let as_stated = |test: &mut Test| {
        let spec = deployment.tests.iter().find(|spec| spec.kind.name() == test.kind).expect("it is there");
        test.window_planned_ms = Some((spec.duration_s * 1e3) as u64);
        test.target_iops = deployment.load.target_iops;
    };
    assert_eq!(found(WorldKind::Real, &as_stated), 0);
    let shorter = |test: &mut Test| {
        as_stated(test);
        test.window_planned_ms = test.window_planned_ms.map(|planned| planned / 2);
    };
    assert_eq!(found(WorldKind::Real, &shorter), 2, "both load tests");
    assert_eq!(found(WorldKind::Simulated, &shorter), 0, "simulate --duration");
}

/// Rules that only a whole `run.db` can break: `forgeries.rs` breaks each.
const OF_RUN_FILES: [&str; 18] = [
    "stray_rows",
    "world_mixed",
    "distribution_count",
    "instance_sum",
    "limit_announced",
    "verdict_missing",
    "error_unjudged",
    "window_gap",
    "solution_test",
    "page_differs",
    "rows_changed",
    "seal_broken",
    "ending_missing",
    "file_size",
    "logs_read",
    "host_unknown",
    "signature",
    "attestation",
];

/// Rules about the grade and the counts of a report: `lint_grades.rs` bends a report for each.
const OF_GRADES: [&str; 13] = [
    "grade",
    "grade_sentence",
    "condition_met",
    "condition_range",
    "condition_figure",
    "condition_missing",
    "qualified_without",
    "percentile_order",
    "load_shape",
    "host_figures",
    "read_share",
    "steadiness",
    "io_driver",
];

#[test]
fn every_rule_has_a_planted_error() {
    let of_runs =
        ["coverage", "verdict_outcome", "verdict_figure", "solution_threshold", "report_differs", "claim"];
    let planted: BTreeSet<&str> =
        PLANTED.iter().map(|(rule, _)| *rule).chain(of_runs).chain(OF_RUN_FILES).chain(OF_GRADES).collect();
    let known: BTreeSet<&str> = RULES.iter().map(|(rule, _)| *rule).collect();
    assert_eq!(planted, known);
}

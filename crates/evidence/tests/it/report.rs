//! What reports promise.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "tests face the operating system")]

use std::path::Path;
use std::process::Command;

use evidence::report::CheckOutcome;
use evidence::{HostRuns, Report, RunData, RunStore, load};
use results::*;
use testkit::rows::load_test;
use testkit::synthetic;
use testkit::synthetic::Shape;

fn rows(shape: &Shape) -> Vec<Row> {
    let mut rows = Vec::new();
    synthetic::record(shape, &mut rows).unwrap();
    rows
}

fn report(shape: &Shape) -> Report {
    Report::new(&RunData::from_rows(rows(shape)).unwrap()).unwrap()
}

fn shapes() -> Vec<(&'static str, Shape)> {
    vec![
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
        (
            "small hosts",
            Shape {
                hosts: 2,
                databases: 4,
                databases_per_instance: 2,
                window_s: 24,
                sample_s: 3,
                ..Shape::default()
            },
        ),
        ("one database", Shape { databases: 1, window_s: 30, ..Shape::default() }),
        ("many databases", Shape { databases: 100, window_s: 60, sample_s: 3, ..Shape::default() }),
    ]
}

#[test]
fn an_independent_program_finds_the_same_figures() {
    let place = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/check_report");
    if !testkit::has_python() {
        return;
    }
    for (name, shape) in shapes() {
        let folder = place.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        let mut store = RunStore::create(&folder.join("run.db")).unwrap();
        synthetic::record(&shape, &mut store).unwrap();
        store.close().unwrap();
        let report = Report::new(&load(&folder.join("run.db")).unwrap()).unwrap();
        report.write(&folder).unwrap();
        let check = |arguments: &[&str]| {
            let output = Command::new("python3").arg(&script).arg(&folder).args(arguments).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            println!(
                "{name} {arguments:?}: {}",
                text.lines().find(|line| line.contains(',')).unwrap_or_default()
            );
            (output.status.success(), text + &String::from_utf8_lossy(&output.stderr))
        };
        let (agrees, text) = check(&[]);
        assert!(agrees, "{name}: {text}");
        // The check can fail: a changed number of any field of the JSON is found, and so is a changed cell of the page.
        if name != "small hosts" {
            continue;
        }
        for way in ["--every-figure", "--planted"] {
            let (all_noticed, text) = check(&[way]);
            assert!(all_noticed, "{name}: {text}");
            let all_planted = text.contains(", 0 without a place in this run");
            assert_eq!(all_planted, way == "--planted", "{name}: {text}");
        }
        let page = report.html().unwrap();
        let cell =
            format!("<td class=\"r\">{:.2}</td>", report.tests[2].throughput.unwrap().log_writes_per_s);
        for (file, text) in [
            ("report.html", page.replacen(&cell, "<td class=\"r\">1.25</td>", 1)),
            ("junit.xml", report.junit().unwrap().replacen("tests=\"", "tests=\"1", 1)),
        ] {
            let whole = std::fs::read_to_string(folder.join(file)).unwrap();
            assert_ne!(whole, text, "{name}: {file} was changed");
            std::fs::write(folder.join(file), text).unwrap();
            assert!(!check(&[]).0, "{name}: a change of {file} is found");
            std::fs::write(folder.join(file), whole).unwrap();
        }
    }
}

#[test]
fn every_database_has_its_figures_also_where_each_has_a_log_of_its_own() {
    let report = report(&Shape { databases: 3, databases_per_instance: 1, ..Shape::default() });
    let loads: Vec<_> = report.tests.iter().filter(|test| test.throughput.is_some()).collect();
    assert!(!loads.is_empty());
    for test in loads {
        assert_eq!((test.instances.len(), test.databases.len()), (3, 3), "{}", test.name);
    }
    assert!(!report.html().unwrap().contains("by database"), "the page does not say everything twice");
}

#[test]
fn a_run_that_was_killed_says_so_at_the_top_and_until_when_it_is_known() {
    let report = report(&Shape { cut: true, ..Shape::default() });
    assert_eq!((report.verdict.grade, report.run.ending), (Grade::Incomplete, None));
    let known_until = evidence::report::duration(report.run.duration_s);
    let wanted = format!("The run did not end by itself; what is known ends after {known_until}.");
    assert_eq!(report.verdict.reasons[0], wanted);
    let html = report.html().unwrap();
    let at = |text: &str| html.find(text).unwrap_or_else(|| panic!("the page says {text:?}"));
    assert!(at("nothing is proved") < at(&wanted) && at(&wanted) < at("The campaign"), "before any figure");
    let stress = report.tests.last().unwrap();
    assert!(stress.window.unwrap().cut && stress.lead.contains("until then"), "{}", stress.lead);
    assert!(stress.throughput.unwrap().transactional_iops > 0.0, "what was measured is shown");
}

#[test]
fn the_json_keeps_to_its_schema_and_comes_back_equal() {
    let schema = Report::schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for (name, shape) in shapes() {
        let report = report(&shape);
        let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        let errors: Vec<String> = validator.iter_errors(&json).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
        assert_eq!(serde_json::from_value::<Report>(json.clone()).unwrap(), report, "{name}");
        let mut without_host = json;
        without_host["tests"][2]["instances"][0].as_object_mut().unwrap().remove("host");
        assert!(!validator.is_valid(&without_host), "the schema demands the host of a record");
    }
}

#[test]
fn hostile_text_never_becomes_markup() {
    let hostile = "</title></style></svg>\"'><script>alert(1)</script>{{ 7*7 }}<!-- ]]>\u{1}";
    let report = report(&Shape { hostile, fails: true, hosts: 2, ..Shape::default() });
    let html = report.html().unwrap();
    assert!(html.contains("&lt;script&gt;alert(1)"), "the text is shown");
    assert!(!html.contains("<script"), "and is no markup");
    assert!(html.contains("{{ 7*7 }}") && !html.contains("49}}"), "nor a template");
    for (tag, ours) in [("</title", 1), ("</style", 1), ("<!--", 0)] {
        assert_eq!(html.matches(tag).count(), ours, "{tag}");
    }
    assert_eq!(html.matches("</svg>").count(), html.matches("<svg ").count());
    let xml = report.junit().unwrap();
    assert!(!xml.contains("<script") && !xml.contains('\u{1}'));
    assert_eq!(xml.matches("<failure").count(), report.verdict.failed as usize);
}

#[test]
fn the_page_takes_nothing_from_elsewhere() {
    for (name, shape) in shapes() {
        let html = report(&shape).html().unwrap();
        let without_names = html.replace("http://www.w3.org/2000/svg", "");
        for outside in ["http:", "https:", "src=", "<link", "@import", "url("] {
            assert!(!without_names.contains(outside), "{name}: {outside}");
        }
        assert!(!html.contains("NaN") && !html.contains("inf "), "{name}");
    }
}

#[test]
fn a_run_holds_only_if_it_was_completed_and_judged_and_nothing_failed() {
    let outcome = |change: &dyn Fn(&mut Vec<Row>)| {
        let mut rows = rows(&Shape::default());
        change(&mut rows);
        Report::new(&RunData::from_rows(rows).unwrap()).unwrap().verdict.grade
    };
    let each_run = |rows: &mut Vec<Row>, ending| {
        for row in rows {
            if let Row::Run(run) = row {
                run.ending = ending;
            }
        }
    };
    assert_eq!(outcome(&|_| ()), Grade::Held);
    assert_eq!(outcome(&|rows| each_run(rows, None)), Grade::Incomplete);
    assert_eq!(outcome(&|rows| each_run(rows, Some(Ending::Interrupted))), Grade::Incomplete);
    assert_eq!(outcome(&|rows| rows.retain(|row| !matches!(row, Row::Verdict(_)))), Grade::Incomplete);
    let one_fails = |rows: &mut Vec<Row>| {
        let verdict = rows.iter_mut().find_map(|row| if let Row::Verdict(v) = row { Some(v) } else { None });
        verdict.unwrap().outcome = Outcome::Fail;
    };
    assert_eq!(outcome(&one_fails), Grade::Failed);
}

/// Whether I/O is unbuffered follows only from rows about the run's own I/O, and separately for each host.
#[test]
fn unbuffered_io_is_told_by_the_run_itself_and_for_each_host() {
    let found = |detail: &str, own: &[(&str, &str)]| {
        let mut rows = rows(&Shape { hosts: 2, ..Shape::default() });
        for row in &mut rows {
            if let Row::Run(run) = row {
                run.world_detail = detail.into();
            }
        }
        for (host, value) in own {
            let (area, name) = ("System".to_owned(), "I/O".to_owned());
            let (severity, note) = (Severity::Info, String::new());
            rows.push(
                Environment { host: (*host).into(), area, name, value: (*value).into(), severity, note }
                    .into(),
            );
        }
        let checks = Report::new(&RunData::from_rows(rows).unwrap()).unwrap().checks;
        let ours = checks.into_iter().filter(|row| row.name == "Unbuffered I/O");
        ours.map(|row| (row.host, row.outcome)).collect::<Vec<_>>()
    };
    let both = |outcome| vec![("mbx1".to_owned(), outcome), ("mbx2".to_owned(), outcome)];
    let (direct, buffered) = ("io_uring, direct (O_DIRECT)", "polling, buffered (through the page cache)");
    assert_eq!(found(direct, &[]), both(CheckOutcome::Good));
    assert_eq!(found(buffered, &[]), both(CheckOutcome::Warning));
    for foreign in ["imported from Performance.html", "imported from a, direct, buffered.html", "io", ""] {
        assert_eq!(found(foreign, &[]), [], "{foreign}");
    }
    let fleet = format!("{direct}; {buffered}");
    assert_eq!(found(&fleet, &[]), [], "whose is whose is not known");
    let own = [("mbx1", direct), ("mbx2", buffered)];
    let expected = [("mbx1".to_owned(), CheckOutcome::Good), ("mbx2".to_owned(), CheckOutcome::Warning)];
    assert_eq!(found(&fleet, &own), expected);
}

#[test]
fn hosts_of_a_fleet_that_differ_in_their_io_keep_what_is_theirs() {
    let checks = |details: [&str; 2]| {
        let place = tempfile::tempdir().unwrap();
        let mut dbs = Vec::new();
        for (n, detail) in details.into_iter().enumerate() {
            dbs.push(place.path().join(format!("{n}.db")));
            let mut store = RunStore::create(&dbs[n]).unwrap();
            for mut row in rows(&Shape::default()) {
                match &mut row {
                    Row::Run(run) => run.world_detail = detail.into(),
                    Row::Host(host) => host.name = format!("host{n}"),
                    _ => {}
                }
                store.record(row).unwrap();
            }
            store.close().unwrap();
        }
        let run = load(&dbs[0]).unwrap().run;
        let into = place.path().join("run.db");
        HostRuns::open(&dbs).unwrap().write(run, Vec::new(), &into, None).unwrap();
        let report = Report::new(&load(&into).unwrap()).unwrap();
        let told = report.environment.iter().filter(|row| row.name == "I/O").count();
        let ours = report.checks.into_iter().filter(|row| row.name == "Unbuffered I/O");
        (ours.map(|row| (row.host, row.outcome)).collect::<Vec<_>>(), told)
    };
    let (direct, buffered) = ("io_uring, direct (O_DIRECT)", "io_uring, buffered (through the page cache)");
    let each = |a, b| vec![("host0".to_owned(), a), ("host1".to_owned(), b)];
    assert_eq!(checks([direct, direct]), (each(CheckOutcome::Good, CheckOutcome::Good), 0));
    assert_eq!(checks([direct, buffered]), (each(CheckOutcome::Good, CheckOutcome::Warning), 2));
}

#[test]
fn a_simulated_run_is_never_called_tested() {
    let html = report(&Shape { world: WorldKind::Simulated, ..Shape::default() }).html().unwrap();
    assert!(html.contains("Predicted, not tested") && !html.contains("Storage test report"));
}

fn window_of_a_minute() -> Test {
    Test { copies: 2, ..load_test(60_000, 15_000) }
}

/// Averages as the published reports have them, on figures small enough to follow by hand.
#[test]
fn means_of_samples_count_empty_samples_as_zero_and_plain_means_do_not() {
    let mut rows: Vec<Row> = rows(&Shape::default());
    rows.retain(|row| matches!(row, Row::Run(_)));
    let origin = Origin::database("h", "i", "d");
    let mut test = |n: u64, count: u64, latency_ms: u64, bytes: u64| {
        rows.push(
            Sample {
                test: 1,
                origin: origin.clone(),
                measure: IoClass::ReplicationRead.into(),
                t_ms: n * 15_000,
                interval_ms: 15_000,
                totals: IoTotals {
                    count,
                    bytes: count * bytes,
                    latency_ns_sum: count * latency_ms * 1_000_000,
                    latency_ns_max: latency_ms * 1_000_000,
                },
            }
            .into(),
        );
    };
    // Four samples of which two are empty, as when a log closes every other sample.
    test(0, 9, 2, 232_500);
    test(2, 3, 6, 232_500);
    for n in 0..4 {
        let (t_ms, interval_ms) = (n * 15_000, 15_000);
        let counter = Counter::LogGenerations;
        rows.push(
            CounterSample {
                test: 1,
                origin: Origin::instance("h", "i"),
                counter,
                t_ms,
                interval_ms,
                value: 0,
            }
            .into(),
        );
    }
    rows.push(window_of_a_minute().into());
    let report = Report::new(&RunData::from_rows(rows).unwrap()).unwrap();
    let figures = &report.tests[0].measures[0].figures;
    assert_eq!(figures.latency_ms_mean, Some(3.0), "(9 x 2 + 3 x 6) / 12");
    assert_eq!(figures.latency_ms_sample_mean, Some(2.0), "(2 + 0 + 6 + 0) / 4");
    assert_eq!(figures.bytes_mean, Some(232_500.0));
    assert_eq!(figures.bytes_sample_mean, Some(116_250.0), "half of the samples have no read");
    assert_eq!((figures.latency_ms_sample_max, figures.worst_sample_window_s), (Some(6.0), Some(30.0)));
    assert_eq!(figures.per_s, 0.2);
    assert!((figures.outstanding - 0.0006).abs() < 1e-12, "36 ms of I/O in 60 s");
}

#[test]
fn a_load_that_does_not_change_is_steady_in_a_window_that_four_does_not_divide() {
    let mut rows = rows(&Shape { window_s: 21, ..Shape::default() });
    for row in &mut rows {
        if let Row::Sample(sample) = row
            && sample.origin.instance.is_none()
        {
            sample.totals.count = 100;
            sample.totals.latency_ns_sum = 1_000_000_000;
        }
    }
    let report = Report::new(&RunData::from_rows(rows).unwrap()).unwrap();
    let steadiness = report.tests[2].steadiness.as_ref().unwrap();
    assert_eq!(steadiness.quarter_iops, [200.0; 4], "100 reads and 100 writes each second");
    assert!(steadiness.steady);
}

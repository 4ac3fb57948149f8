//! Importing foreign files. The fixtures are made here, after the tables and labels of each generation; figures
//! are ours.
#![allow(clippy::disallowed_methods, reason = "tests face the operating system")]

mod made;

use std::fmt::Write;

use evidence::{Report, RunData};
use results::Outcome;
use review::Evidence;
use review::compare::{Subject, compare};
use review::import::{About, Foreign, ImportError, gather, parse, rows};
use review::lint::{Beside, lint, lint_run};
use solution::Solution;

use made::{by_volume, modern, paper_text, row, table};

fn reports(text: &str) -> Vec<review::TestFigures> {
    match parse(text.as_bytes()).expect("a report") {
        Foreign::Reports(tests) => tests,
        other => panic!("no report: {other:?}"),
    }
}

fn imported(evidence: &Evidence, source: &str) -> (RunData, Report) {
    let about = About { id: "imported".into(), source: source.into(), solution_text: String::new() };
    let data = RunData::from_rows(rows(evidence, &about)).expect("a run");
    let report = Report::new(&data).expect("a report");
    (data, report)
}

/// The report of an imported run, which agrees with itself.
fn report_of(evidence: &Evidence, source: &str) -> Report {
    let (data, report) = imported(evidence, source);
    assert_eq!(lint_run(&data, &report, &Beside::default()), []);
    report
}

#[test]
fn reports_of_2010_and_2013_come_in_whole() {
    for (version, ese, generation) in
        [("14.01.0225.017", "14.01.0218.012", "2010"), ("15.00.0775.000", "15.00.0712.008", "2013")]
    {
        let tests = reports(&modern("Performance", version, ese, "HOST-1"));
        assert_eq!(tests.len(), 1);
        let test = &tests[0];
        assert_eq!(
            (test.kind.as_str(), test.result.as_str(), test.machine.as_str()),
            ("performance", "Pass", "HOST-1")
        );
        assert_eq!(
            (test.achieved_iops, test.target_iops, test.threads),
            (Some(90.5), Some(60.5), Some(16.0))
        );
        assert_eq!((test.collection_s, test.duration_s), (Some(7200.0), Some(9017.0)));
        assert_eq!(test.growth_bytes, Some(100_000_000.0));
        assert_eq!(test.op_mix.len(), 5);
        assert_eq!(
            (test.transactional.len(), test.bdm.len(), test.log_replication.len(), test.total.len()),
            (2, 2, 2, 2)
        );
        assert_eq!(test.transactional[1].log_write_latency_ms, Some(2.445));
        assert_eq!(test.bdm[0].read_avg_bytes, Some(261_851.56));
        assert_eq!((test.host.len(), test.host[0].max), (2, Some(3.382)));
        assert_eq!(test.events.len(), 2);
        let evidence = gather("Imported", tests);
        assert_eq!(evidence.solution.exchange_version, generation);
        assert_eq!(lint(&evidence), [], "a report that agrees with itself");
        let report = report_of(&evidence, "Performance.html");
        let throughput = report.tests[0].throughput.expect("a load");
        assert!((throughput.transactional_iops - 90.5).abs() < 0.01, "{throughput:?}");
        assert!((throughput.log_writes_per_s - 6.608).abs() < 0.01);
        let reads = report.tests[0].instances[0].reads.expect("reads");
        assert!((reads.latency_ms_mean.unwrap() - 15.142).abs() < 1e-3);
        assert!((reads.bytes_mean.unwrap() - 33_595.779).abs() < 1.0);
        assert!(report.run.world_detail.contains("imported from Performance.html"));
        assert!(report.checks.iter().all(|check| check.name != "Unbuffered I/O"), "{:?}", report.checks);
        // The facts as printed survive being written down.
        let again: Evidence = toml::from_str(&evidence.to_toml().unwrap()).unwrap();
        assert_eq!(again, evidence);
    }
}

/// The load before a soft recovery writes a page with the title of a performance test; its log tells it apart.
#[test]
fn pages_of_a_campaign_on_two_machines_are_the_same_tests_in_any_order() {
    let page = |machine: &str, day: u32, is_generation: bool| {
        let html = modern("Performance", "15.00.0775.000", "15.00.0712.008", machine);
        let html = html.replace("2/9/2014", &format!("2/{day}/2014"));
        let generates = "-- Generating log files ...\n2/9/2014 4:22:00 PM -- Performance logging begins";
        let html =
            if is_generation { html.replace("-- Performance logging has ended", generates) } else { html };
        let busier = [("31.125", "41.125"), ("40.175", "50.175"), ("90.500", "110.500")];
        let changes = if day == 10 { &busier[..] } else { &[] };
        reports(&changes.iter().fold(html, |html, (from, to)| html.replace(from, to))).remove(0)
    };
    let first = [page("A", 9, false), page("A", 10, false), page("A", 11, true)];
    let second = [page("B", 11, true), page("B", 10, false), page("B", 9, false)];
    let evidence = gather("Campaign", [&first[..], &second, &first[1..]].concat());
    let report = report_of(&evidence, "pages");
    let tests: Vec<_> = report.tests.iter().map(|test| (test.kind.as_str(), test.instances.len())).collect();
    assert_eq!(tests, [("performance", 4), ("performance", 4), ("log_generation", 4)]);
    let iops = [0, 1].map(|test: usize| report.tests[test].throughput.as_ref().unwrap().transactional_iops);
    assert!((iops[0] - 181.0).abs() < 0.02 && (iops[1] - 221.0).abs() < 0.02, "{iops:?}");
}

/// The log of a report prints its limits; they are those that its figures are judged by.
#[test]
fn latency_limits_of_the_log_are_imported_and_the_figures_judged_again() {
    let limits = |read: &str, log: &str| {
        format!(
            "2/9/2014 4:21:00 PM -- Database read latency thresholds: (average: {read} msec/read, maximum: 100 msec/read).\n\
             2/9/2014 4:21:00 PM -- Log write latency thresholds: (average: {log} msec/write, maximum: 100 msec/write).\n\
             2/9/2014 4:21:00 PM -- Dispatching"
        )
    };
    let report = |limits: &str| {
        let html = modern("Performance", "15.00.0775.000", "15.00.0712.008", "HOST-1");
        let html = html.replacen("2/9/2014 4:21:00 PM -- Dispatching", limits, 1);
        let evidence = gather("Limits", reports(&html));
        let (data, _) = imported(&evidence, "Performance.html");
        let rows = &data.tests.values().next().expect("a test").limits;
        let announced: Vec<_> = rows.iter().map(|limit| (limit.rule.clone(), limit.value)).collect();
        (announced, report_of(&evidence, "Performance.html"))
    };
    let judged = |report: &Report, rule: &str| {
        let found = report.tests[0].verdicts.iter().filter(|verdict| verdict.rule == rule);
        found.map(|verdict| (verdict.limit, verdict.outcome)).collect::<Vec<_>>()
    };
    let (announced, kept) = report(&limits("20", "10"));
    let expected = [("read_latency_avg".to_owned(), 20.0), ("log_write_latency_avg".to_owned(), 10.0)];
    assert_eq!(announced, expected, "charts and lint know the limits");
    assert_eq!(judged(&kept, "read_latency_avg"), [(Some(20.0), Outcome::Pass); 2]);
    assert_eq!(judged(&kept, "log_write_latency_avg"), [(Some(10.0), Outcome::Pass); 2]);
    assert_eq!(judged(&kept, "printed_result"), [(None, Outcome::Pass)]);
    assert!(kept.environment.iter().all(|row| row.name != "Latency limits"), "nothing was assumed");
    let (_, broken) = report(&limits("15", "10"));
    assert_eq!(judged(&broken, "read_latency_avg"), [(Some(15.0), Outcome::Fail); 2]);
    let said = broken.tests[0].verdicts.iter().find(|verdict| verdict.rule == "printed_result").unwrap();
    assert_eq!(said.outcome, Outcome::Fail, "{}", said.text);
    assert!(said.text.contains("says “Pass”, which does not follow"), "{}", said.text);
    assert!(said.text.contains("Instance3068.1 is 15.142 ms, the limit 15, and 1 more"), "{}", said.text);
}

/// A report without limits is judged by those of the programme for its generation, and says that they are assumed.
#[test]
fn limits_of_the_programme_are_assumed_where_a_report_prints_none() {
    for (html, generation, log_limit) in [
        (modern("Performance", "15.00.0775.000", "15.00.0712.008", "HOST-1"), "2013", 10.0),
        (by_volume("08.01.0177.000", "08.01.0240.005"), "2007", 10.0),
        (by_volume("6.5.7830.0", "6.5.7638.2"), "2003", 20.0),
    ] {
        let slow = html.replace("15.142", "25.142").replace("0.014", "0.025");
        for (html, outcome) in [(html, Outcome::Pass), (slow, Outcome::Fail)] {
            let report = report_of(&gather("Assumed", reports(&html)), "Performance.html");
            let test = &report.tests[0];
            let of = |rule: &str| test.verdicts.iter().find(|verdict| verdict.rule == rule).unwrap();
            let (read, log) = (of("read_latency_avg"), of("log_write_latency_avg"));
            assert_eq!((read.limit, read.outcome), (Some(20.0), outcome), "{generation}");
            assert_eq!((log.limit, log.outcome), (Some(log_limit), Outcome::Pass), "{generation}");
            assert!(read.text.contains("assumed") && read.text.contains(generation), "{}", read.text);
            assert_eq!(of("printed_result").outcome, outcome, "{generation}: {}", of("printed_result").text);
            let warning = report.environment.iter().find(|row| row.name == "Latency limits").unwrap();
            assert!(warning.value.contains("assumed for 1 of 1 tests"), "{}", warning.value);
        }
    }
}

#[test]
fn reports_by_volume_of_2003_and_2007_come_in_with_seconds_as_milliseconds() {
    for (version, ese, generation, page) in
        [("6.5.7830.0", "6.5.7638.2", "2003", 4096), ("08.01.0177.000", "08.01.0240.005", "2007", 8192)]
    {
        let tests = reports(&by_volume(version, ese));
        assert_eq!(tests[0].transactional.len(), 1, "{:?}", tests[0].transactional);
        let volume = &tests[0].transactional[0];
        assert_eq!((volume.db_read_latency_ms, volume.log_write_latency_ms), (Some(14.0), Some(1.0)));
        assert_eq!((volume.log_writes_per_s, volume.log_write_avg_bytes), (Some(47.63), Some(6144.0)));
        let evidence = gather("Old", tests);
        assert_eq!(evidence.solution.exchange_version, generation);
        assert_eq!(lint(&evidence), []);
        let report = report_of(&evidence, "old.html");
        assert_eq!(report.databases[0].page_bytes, page);
        assert_eq!(report.tests[0].verdicts.iter().filter(|v| v.rule == "achieved_iops").count(), 1);
    }
}

#[test]
fn checksums_backups_and_recoveries_come_in_from_html_and_from_text() {
    let checksum = [
        row(&[
            "Database",
            "Seen pages",
            "Bad pages",
            "Correctable pages",
            "Wrong page-number pages",
            "File length / seconds",
            "MB/sec",
        ]),
        row(&["C:\\DB1\\Jetstress001001.edb", "32242432", "0", "0", "0", "1007576", "52.07"]),
        row(&["(Sum)", "32242432", "0", "0", "0", "1007576", "52.07"]),
    ];
    let backup = [
        row(&[
            "Database Instance",
            "Database Size (MBytes)",
            "Elapsed Backup Time (seconds)",
            "MBytes Transferred/sec",
        ]),
        row(&["Instance1.1", "100000.00", "2000", "50.00"]),
        row(&["Instance1.2", "100000.00", "1600", "62.50"]),
        row(&["Avg", "", "", "56.25"]),
        row(&["Sum", "", "", "112.50"]),
    ];
    let recovery = [
        row(&["Database Instance", "Log files replayed", "Elapsed seconds"]),
        row(&["Instance1.1", "502", "1286.73"]),
        row(&["Instance1.2", "506", "1400.10"]),
        row(&["Sum", "1008", "2686.83"]),
    ];
    let parts: [(&str, &str, &[Vec<String>]); 3] = [
        ("Database Checksum", "Checksum Statistics - All", &checksum),
        ("Database Backup", "Database Backup Statistics - All", &backup),
        ("Soft Recovery", "Soft-Recovery Statistics - All", &recovery),
    ];
    let mut html = "<html><body>".to_owned();
    let mut text = String::new();
    for (title, heading, rows) in parts {
        let _ = write!(html, "<h2>{title} Test Result Report</h2>{}", table(heading, &[], rows));
        let _ = writeln!(text, "{title} Test Result Report\n{heading}");
        for row in rows {
            let cells: Vec<&str> =
                row.iter().map(|cell| if cell.is_empty() { "-" } else { cell.as_str() }).collect();
            let _ = writeln!(text, "{}", cells.join("   "));
        }
    }
    html.push_str("</body></html>");
    for document in [html, text] {
        let tests = reports(&document);
        let kinds: Vec<&str> = tests.iter().map(|test| test.kind.as_str()).collect();
        assert_eq!(kinds, ["checksum", "backup", "soft_recovery"]);
        assert_eq!((tests[0].checksum.len(), tests[0].checksum[0].pages), (1, Some(32_242_432.0)));
        assert_eq!(tests[0].checksum_sum.as_ref().and_then(|sum| sum.mb_per_s), Some(52.07));
        assert_eq!(
            (tests[1].backup.len(), tests[1].backup_avg_mb_per_s, tests[1].backup_sum_mb_per_s),
            (2, Some(56.25), Some(112.5))
        );
        assert_eq!((tests[2].recovery.len(), tests[2].recovery_sum_logs), (2, Some(1008.0)));
        let evidence = gather("Three tests", tests);
        assert_eq!(lint(&evidence), []);
        let report = report_of(&evidence, "all");
        assert_eq!(report.tests[1].backups[0].mib_per_s, Some(50.0));
        assert!((report.tests[2].recoveries[0].s_per_log.unwrap() - 2.5632).abs() < 1e-3);
    }
}

/// A checksum report of two databases: bad pages, those with a wrong number, seconds.
fn checksum(head: [&str; 3], databases: [[&str; 3]; 2]) -> Report {
    let head = ["Database", "Seen pages", head[0], head[1], head[2]];
    let rows = databases.map(|[bad, wrong, seconds]| row(&["DB.edb", "32000", bad, wrong, seconds]));
    let tables = table("Checksum Statistics - All", &head, &rows);
    let html = format!("<html><body><h2>Database Checksum Test Result Report</h2>{tables}</body></html>");
    report_of(&gather("Checksum", reports(&html)), "checksum.html")
}

#[test]
fn bad_pages_that_are_not_known_are_not_taken_for_none() {
    let head = ["Bad pages", "Wrong page-number pages", "Elapsed seconds"];
    let judged = |report: &Report| {
        let verdict = report.tests[0].verdicts.iter().find(|verdict| verdict.rule == "bad_pages");
        let verdict = verdict.expect("a verdict");
        (verdict.outcome, verdict.measured)
    };
    let told = |report: &Report, text: &str| report.events.iter().any(|event| event.text.contains(text));
    let clean = checksum(head, [["0", "0", "20"], ["0", "0", "30"]]);
    assert_eq!((judged(&clean), clean.events.len()), ((Outcome::Pass, Some(0.0)), 0));
    // A damaged scan, and a report that does not print the column at all.
    let unreadable = checksum(head, [["l7", "0", "20"], ["1O", "0", "30"]]);
    let missing = checksum(["Correctable pages", head[1], head[2]], [["0", "0", "20"], ["0", "0", "30"]]);
    let one = checksum(head, [["0", "0", "20"], ["0", "2B", "30"]]);
    for (report, unknown) in [(&unreadable, 2), (&missing, 2), (&one, 1)] {
        assert_eq!(judged(report), (Outcome::Info, None));
        assert!(told(report, &format!("{unknown} of 2 databases")), "{:?}", report.events);
        assert_eq!(report.tests[0].checksums.len(), 2 - unknown, "no row says that there are none");
    }
    assert_eq!(unreadable.verdict.grade, results::Grade::Incomplete);
    assert!(!unreadable.html().expect("a page").contains("none is bad"));
    let found = checksum(head, [["3", "0", "20"], ["l7", "0", "30"]]);
    assert_eq!(judged(&found), (Outcome::Fail, Some(3.0)), "what is known suffices to fail");
}

#[test]
fn an_unreadable_cell_of_any_table_counts_as_the_mean_of_its_column() {
    let head = ["Bad pages", "Wrong page-number pages", "Elapsed seconds"];
    let report = checksum(head, [["0", "0", "20"], ["0", "0", "3O"]]);
    assert_eq!(report.tests[0].checksums[1].elapsed_s, 20.0);
    assert!(report.events.iter().any(|event| event.text.contains("could not be read: 1.")));
    let none = checksum(head, [["0", "0", "2O"], ["0", "0", "3O"]]);
    assert!(none.events.iter().any(|event| event.text.contains("could not be read: 2.")));
}

#[test]
fn the_name_of_the_product_is_no_kind_of_test() {
    for (kind, expected) in
        [("Performance", "performance"), ("Stress", "stress"), ("Database Checksum", "checksum")]
    {
        let title = format!("Microsoft Exchange Jetstress 2013 {kind}");
        let tests = reports(&modern(&title, "15.00.0775.000", "15.00.0712.008", "HOST-1"));
        assert_eq!((tests.len(), tests[0].kind.as_str()), (1, expected));
    }
}

#[test]
fn the_text_of_a_paper_comes_in_with_its_tables() {
    let text = paper_text();
    let tests = reports(&text);
    assert_eq!((tests.len(), tests[0].kind.as_str(), tests[0].transactional.len()), (1, "stress", 2));
    assert!(
        tests[0].transactional[0].log_write_avg_bytes.is_some_and(f64::is_nan),
        "a damaged cell is marked, not guessed"
    );
    let report = report_of(&gather("Paper", tests), "paper.txt");
    assert!(report.events.iter().all(|event| !event.text.contains("NaN")));
}

#[test]
fn foreign_and_truncated_files_get_a_clear_error() {
    let whole = modern("Performance", "15.00.0775.000", "15.00.0712.008", "HOST-1");
    let error = |bytes: &[u8]| parse(bytes).expect_err("refused");
    assert_eq!(error(&whole.as_bytes()[..whole.len() - 20]), ImportError::CutOff);
    assert_eq!(error(&whole.as_bytes()[..200]), ImportError::NoReport);
    assert_eq!(error(b"<html><body><p>Hello</p></body></html>"), ImportError::NoReport);
    assert_eq!(error(b"Dear reader,\nnothing here."), ImportError::NoReport);
    assert_eq!(error(b""), ImportError::NoReport);
    assert_eq!(error(&[0xff, 0x00, 0x80]), ImportError::Encoding);
    assert!(matches!(error(b"<?xml version=\"1.0\"?><configuration>"), ImportError::Xml(_)));
    assert!(matches!(error(b"<?xml version=\"1.0\"?><other/>"), ImportError::Config(_)));
    let entities =
        b"<?xml version=\"1.0\"?><!DOCTYPE a [<!ENTITY b \"c\">]><configuration>&b;</configuration>";
    assert!(matches!(error(entities), ImportError::Xml(_)), "entities are refused, not expanded");
    let without_table = "<html><h2>Stress Test Result Report</h2><table><tr><td>Overall Test Result</td><td>Pass</td></tr></table></html>";
    assert!(matches!(error(without_table.as_bytes()), ImportError::Incomplete { .. }));
}

#[test]
fn utf_16_with_its_mark_is_read() {
    let text = by_volume("6.5.7830.0", "6.5.7638.2");
    let mut bytes = vec![0xff, 0xfe];
    text.encode_utf16().for_each(|unit| bytes.extend(unit.to_le_bytes()));
    assert!(matches!(parse(&bytes), Ok(Foreign::Reports(tests)) if tests.len() == 1));
}

const HOSTILE: &str = "&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;";

#[test]
fn hostile_text_never_becomes_markup() {
    let tests = reports(&modern("Performance", "15.00.0775.000", "15.00.0712.008", HOSTILE));
    assert!(tests[0].machine.contains("<script>"), "the importer gives the text as it is");
    let evidence = gather("</title><script>alert(2)</script>", tests);
    let about = About { id: "<script>".into(), source: "<script>.html".into(), solution_text: String::new() };
    let data = RunData::from_rows(rows(&evidence, &about)).expect("a run");
    let report = Report::new(&data).expect("a report");
    let source = review::Source::Report(Box::new(report.clone()));
    let subject = Subject::new("<script>alert(3)</script>", source).expect("a subject");
    let comparison = compare(&[subject.clone(), subject]).html();
    let laptop = include_str!("../../../../solutions/laptop.toml");
    let solution = Solution::parse(laptop, "laptop.toml").expect("a solution");
    for html in [report.html().expect("a page"), comparison, paper_of(&solution, report)] {
        assert!(
            !html.contains("<script") && !html.contains("<img") && html.contains("&lt;"),
            "text stays text"
        );
        assert_eq!(html.matches("</title").count(), 1);
    }
}

fn paper_of(solution: &Solution, mut report: Report) -> String {
    report.run.solution.clone_from(&solution.name);
    let plan = plan::plan(solution, &[]).expect("a plan");
    review::paper::paper(solution, &plan, &[report], false).expect("a paper").html()
}

const CONFIG: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<configuration>
  <JetstressVersionGenerated>15.00.0775.000</JetstressVersionGenerated>
  <TestDesignInfo>
    <Type>Performance</Type>
    <Description>Two &lt;databases&gt; "here"
[host]</Description>
    <Duration>P0Y0M1DT0H0M0S</Duration>
    <VerifyChecksum>true</VerifyChecksum>
    <LogFilesToReplay>500</LogFilesToReplay>
    <SluggishSessions>1</SluggishSessions>
    <OperationMix LockOps="true" InsertOps="40" DeleteOps="20" ReplaceOps="5" LazyCommits="70" />
    <Thresholds Name="Strict" TestRunTypes="Performance">
      <AverageDatabaseReadLatency>20</AverageDatabaseReadLatency>
      <MaximumDatabaseReadLatency>100</MaximumDatabaseReadLatency>
    </Thresholds>
    <Thresholds Name="Lenient" TestRunTypes="Stress">
      <AverageDatabaseReadLatency>20</AverageDatabaseReadLatency>
      <MaximumDatabaseReadLatency>200</MaximumDatabaseReadLatency>
    </Thresholds>
  </TestDesignInfo>
  <ExchangeProfile>
    <ThreadCount>16</ThreadCount>
    <DatabaseSizing>Profile</DatabaseSizing>
    <CapacityPercentage>100</CapacityPercentage>
    <MailboxCount>500</MailboxCount>
    <MailboxQuota>1024</MailboxQuota>
    <MailboxIops>0.12</MailboxIops>
    <DatabaseCopyCount>2</DatabaseCopyCount>
    <EseInstances>
      <EseInstance IopsBias="1"><DatabasePaths><Path>C:\mounts\DB1</Path></DatabasePaths><LogPath>L:\DB1</LogPath></EseInstance>
      <EseInstance IopsBias="1"><DatabasePaths><Path>C:\mounts\DB2</Path></DatabasePaths><LogPath>L:\DB2</LogPath></EseInstance>
    </EseInstances>
  </ExchangeProfile>
  <JetSystemParams><DatabasePageSize>32768</DatabasePageSize><LogFileSize>1024</LogFileSize></JetSystemParams>
</configuration>
"#;

fn solution_of(config: &str) -> String {
    match parse(config.as_bytes()).expect("a configuration") {
        Foreign::Solution(text) => text,
        other => panic!("no configuration: {other:?}"),
    }
}

#[test]
fn a_configuration_becomes_a_solution_file_that_can_be_run() {
    let text = solution_of(CONFIG);
    let solution =
        Solution::parse(&text, "solution").unwrap_or_else(|error| panic!("{}: {text}", error.message));
    let deployment =
        solution.deployment(Some("host")).unwrap_or_else(|error| panic!("{}: {text}", error.message));
    let plan = plan::plan(&solution, &[]).unwrap_or_else(|error| panic!("{}: {text}", error.message));
    // Its databases are larger than the planner recommends; the configuration is taken over as it is.
    let failed: Vec<&str> = plan
        .checks
        .iter()
        .filter(|check| check.outcome == plan::Outcome::Fail)
        .map(|check| check.name)
        .collect();
    assert_eq!(failed, ["database size"], "{:?}", plan.checks);
    assert!((plan.targets.target_iops - 60.0).abs() < 1e-9, "{:?}", plan.targets);
    let volumes: Vec<(&str, u32)> =
        plan.storage.volumes.iter().map(|volume| (volume.role, volume.count)).collect();
    assert_eq!(
        volumes,
        [("database", 2), ("log", 1)],
        "a drive letter is a volume, a folder on C: a mount point"
    );
    assert_eq!(deployment.instances.len(), 2);
    assert_eq!(deployment.instances[1].log_dir, "./volumes/L1/Instance2");
    assert_eq!(deployment.instances[0].page_bytes, 32_768);
    assert_eq!(deployment.load.target_iops, Some(60.0));
    assert_eq!((deployment.load.copies, deployment.load.mix.read), (2, 35));
    let stress = deployment
        .tests
        .iter()
        .find(|test| test.kind == solution::TestKind::Stress)
        .expect("24 h are a stress run");
    assert_eq!((stress.duration_s, stress.thresholds.read_max_ms), (86_400.0, Some(200.0)));
    assert!(deployment.tests.iter().any(|test| test.kind == solution::TestKind::DatabaseChecksum));
    for (wrong, instead, says) in [
        ("InsertOps=\"40\"", "InsertOps=\"80\"", "105 %"),
        ("P0Y0M1DT0H0M0S", "soon", "soon"),
        ("<Type>Performance", "<Type>Other", "Other"),
        ("<MailboxCount>500", "<MailboxCount>many", "many"),
    ] {
        let error = parse(CONFIG.replace(wrong, instead).as_bytes()).expect_err("refused").to_string();
        assert!(error.contains(says), "{error}");
    }
    let all_wrong = CONFIG
        .replace("InsertOps=\"40\"", "InsertOps=\"80\"")
        .replace("P0Y0M1DT0H0M0S", "soon")
        .replace("<MailboxCount>500", "<MailboxCount>many")
        .replace("<Path>C:\\mounts\\DB2</Path>", "");
    let error = parse(all_wrong.as_bytes()).expect_err("refused").to_string();
    for reason in ["105 %", "`soon`", "`many`", "<EseInstance> 2 has no database"] {
        assert_eq!(error.matches(reason).count(), 1, "every reason once: {error}");
    }
}

/// Databases of two instances below one drive letter compete for one volume.
#[test]
fn databases_below_one_drive_letter_lie_on_one_volume() {
    let text = solution_of(&CONFIG.replace("C:\\mounts\\", "F:\\"));
    let solution =
        Solution::parse(&text, "solution").unwrap_or_else(|error| panic!("{}: {text}", error.message));
    let deployment = solution.deployment(Some("host")).expect("a deployment");
    let folders: Vec<&str> = deployment
        .instances
        .iter()
        .flat_map(|instance| &instance.databases)
        .map(|one| one.dir.as_str())
        .collect();
    assert!(folders.iter().all(|dir| dir.starts_with("./volumes/V1/")), "{folders:?}: {text}");
}

/// The load generator was to find the number of threads itself.
#[test]
fn configuration_with_tuning_gets_a_tuning_test_and_no_fixed_sessions() {
    let has = |config: &str, kind: solution::TestKind| {
        let text = solution_of(config);
        let solution =
            Solution::parse(&text, "s").unwrap_or_else(|error| panic!("{}: {text}", error.message));
        let deployment = solution.deployment(Some("host")).expect("a deployment");
        (deployment.tests.iter().any(|test| test.kind == kind), text.contains("\nsessions = 16\n"))
    };
    let with = |value: &str| {
        CONFIG.replace("<Description>", &format!("<SuppressTuning>{value}</SuppressTuning><Description>"))
    };
    assert_eq!(has(CONFIG, solution::TestKind::Tune), (false, true));
    assert_eq!(has(&with("true"), solution::TestKind::Tune), (false, true));
    assert_eq!(has(&with("false"), solution::TestKind::Tune), (true, false));
}

/// Changed, cut and doubled bytes of real files never panic, and what comes in always makes a report.
#[test]
fn damaged_files_never_panic() {
    let files = [
        modern("Performance", "15.00.0775.000", "15.00.0712.008", "HOST-1"),
        by_volume("6.5.7830.0", "6.5.7638.2"),
        CONFIG.to_owned(),
        paper_text(),
    ];
    testkit::fuzz("import", &files.map(String::into_bytes), |bytes| match parse(bytes) {
        Ok(Foreign::Reports(tests)) => {
            let evidence = gather("damaged", tests);
            let (data, report) = imported(&evidence, "damaged");
            assert!(!report.html().expect("a page").contains("<script"));
            lint(&evidence);
            lint_run(&data, &report, &Beside::default());
        }
        Ok(Foreign::Solution(text)) => drop(Solution::parse(&text, "solution")),
        Ok(Foreign::Counters(_)) => {}
        Err(error) => assert!(!error.to_string().is_empty()),
    });
}

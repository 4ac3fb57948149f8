//! Results of fio become a load test that can be compared.

use evidence::{Report, RunData};
use review::import::{About, Foreign, gather, parse, rows};
use review::lint::{Beside, lint_run};

/// Two copies of a database job for 100 s and a job that writes logs for 50 s, as JSON+ of fio 3.
fn result(latency: &str, per_ms: u64, bytes: &str) -> String {
    let io = |count: u64, ms: u64, mean_ms: u64, size: u64| {
        let kept = if bytes == "io_kbytes" {
            format!("\"io_bytes\": {}, \"io_kbytes\": {}", count * size, count * size / 1024)
        } else {
            format!("\"io_bytes\": {}", count * size / 1024)
        };
        format!(
            "{{ {kept}, \"iops\": 1.0, \"runtime\": {ms}, \"total_ios\": {count}, \
             \"{latency}\": {{ \"min\": 1, \"max\": 9, \"mean\": {}, \"percentile\": {{ \"50.000000\": {}, \
             \"99.000000\": {}, \"99.900000\": {} }}, \"bins\": {{ \"1234\": 1 }} }} }}",
            mean_ms * per_ms,
            mean_ms * per_ms,
            3 * mean_ms * per_ms,
            9 * mean_ms * per_ms
        )
    };
    let none = "{ \"io_bytes\": 0, \"total_ios\": 0, \"runtime\": 0 }";
    let database = format!(
        "{{ \"jobname\": \"db\", \"read\": {}, \"write\": {}, \"trim\": {none} }}",
        io(40_000, 100_000, 8, 32_768),
        io(20_000, 100_000, 2, 32_768)
    );
    let log = format!(
        "{{ \"jobname\": \"log-writer\", \"read\": {none}, \"write\": {} }}",
        io(5_000, 50_000, 1, 4096)
    );
    format!(
        "{{ \"fio version\": \"fio-3.36\", \"jobs\": [{database}, {database}, {log}], \"disk_util\": [] }}"
    )
}

#[test]
fn results_of_fio_3_and_2_become_rates_latencies_and_sizes_of_each_job() {
    for (latency, per_ms, bytes) in [("lat_ns", 1_000_000, "io_kbytes"), ("lat", 1_000, "io_bytes")] {
        // Some engines talk before and after the document.
        let text = format!("fio: engine says hello\n{}\nbye\n", result(latency, per_ms, bytes));
        let tests = match parse(text.as_bytes()).expect("a result") {
            Foreign::Reports(tests) => tests,
            other => panic!("{other:?}"),
        };
        let test = &tests[0];
        assert_eq!((test.kind.as_str(), test.generator.as_str()), ("performance", "fio-3.36"));
        assert_eq!((test.achieved_iops, test.collection_s), (Some(1200.0), Some(100.0)));
        let names: Vec<&str> = test.transactional.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["db", "db 2", "log-writer"]);
        let (database, log) = (&test.transactional[1], &test.transactional[2]);
        assert_eq!((database.db_reads_per_s, database.db_writes_per_s), (Some(400.0), Some(200.0)));
        assert_eq!((database.db_read_latency_ms, database.db_write_latency_ms), (Some(8.0), Some(2.0)));
        assert_eq!(database.db_read_avg_bytes, Some(32_768.0));
        assert_eq!((log.log_writes_per_s, log.log_write_latency_ms), (Some(100.0), Some(1.0)));
        assert_eq!((log.db_reads_per_s, log.db_writes_per_s), (None, None));
        assert_eq!(test.log[0], "db, read latency: p50 8.000 ms, p99 24.000 ms, p99.9 72.000 ms");

        let evidence = gather("fio", tests);
        let about = About { id: "i".into(), source: "f.json".into(), solution_text: String::new() };
        let data = RunData::from_rows(rows(&evidence, &about)).expect("a run");
        let report = Report::new(&data).expect("a report");
        assert_eq!(report.run.tool_version, "fio-3.36");
        assert_eq!(lint_run(&data, &report, &Beside::default()), []);
    }
}

#[test]
fn results_that_were_cut_off_or_did_nothing_are_refused() {
    let whole = result("lat_ns", 1_000_000, "io_kbytes");
    let cut = parse(&whole.as_bytes()[..whole.len() - 30]).expect_err("it is cut off").to_string();
    assert!(cut.starts_with("it is no whole result of fio: EOF while parsing"), "{cut}");
    let idle = parse(b"{ \"fio version\": \"fio-3.36\", \"jobs\": [] }").expect_err("no job").to_string();
    assert_eq!(idle, "it is no whole result of fio: no job has reads or writes");
}

#[test]
fn damaged_results_never_panic() {
    let seeds = [result("lat_ns", 1_000_000, "io_kbytes").into_bytes()];
    testkit::fuzz("fio", &seeds, |bytes| match parse(bytes) {
        Ok(Foreign::Reports(tests)) => {
            let about = About { id: "i".into(), source: "f".into(), solution_text: String::new() };
            let data = RunData::from_rows(rows(&gather("fio", tests), &about)).expect("a run");
            Report::new(&data).expect("a report");
        }
        Ok(_) => {}
        Err(error) => assert!(!error.to_string().is_empty()),
    });
}

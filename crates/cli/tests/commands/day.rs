//! A day of counters, imported and replayed: the same load on the new storage, hour by hour.

use crate::program::{folder_with, output};
use evidence::{RunData, load};
use results::{IoClass, Measure};
use testkit::claims::HONEST;

/// I/O per second of the servers in each hour of the day.
const SERVERS_IOPS: [f64; 24] = [
    20.0, 15.0, 12.0, 10.0, 10.0, 15.0, 25.0, 45.0, 80.0, 100.0, 95.0, 85.0, 75.0, 85.0, 90.0, 85.0, 75.0,
    60.0, 45.0, 40.0, 35.0, 30.0, 25.0, 20.0,
];
/// Target of the peak hour.
const PEAK_IOPS: f64 = 48.4;
/// Length of an hour of the shortened day, s.
const HOUR_S: u64 = 100;

/// Counter log of a server with one database over a day.
fn counters() -> String {
    let path = |counter: &str| {
        format!(
            r#""\\S1\MSExchange Database ==> Instances(Information Store - DB1/_Total)\I/O Database {counter} (Attached)/sec""#
        )
    };
    let mut log = format!("\"(PDH-CSV 4.0)\",{},{}\r\n", path("Reads"), path("Writes"));
    for minute in 0..=24 * 60 {
        // A sample counts for the minute before it.
        let iops = SERVERS_IOPS[(minute as usize).saturating_sub(1) / 60];
        let (day, hour) = (2 + minute / 1440, minute / 60 % 24);
        let (reads, writes) = (iops * 0.7, iops * 0.3);
        log +=
            &format!("\"11/{day:02}/2026 {hour:02}:{:02}:00.000\",\"{reads}\",\"{writes}\"\r\n", minute % 60);
    }
    log
}

#[test]
fn a_day_of_counters_is_replayed_hour_by_hour_in_a_shorter_window() {
    let folder = folder_with("s1.csv", &counters());
    let (status, _, stderr) = output(folder.path(), &["import", "s1.csv", "--out", "counters"]);
    assert_eq!(status, 0, "{stderr}");
    let profile = std::fs::read_to_string(folder.path().join("counters/profile.toml")).expect("it is there");
    let (_, day) = profile.split_once("[load]\n").expect("it has a day");
    let window_s = 24 * HOUR_S;
    let solution = HONEST
        .replace("database_mib = 163840", "database_mib = 16384")
        .replace("target_iops = 48.4\n", &format!("target_iops = 48.4\n{day}"));
    let tests = format!("\n[[test]]\nkind = \"performance\"\nduration_s = {window_s}\n");
    std::fs::write(folder.path().join("s.toml"), solution + &tests).expect("writable");
    let (status, stdout, stderr) = output(folder.path(), &["simulate", "s.toml", "--json"]);
    assert_eq!(status, 0, "{stdout}{stderr}");

    let mut runs = std::fs::read_dir(folder.path().join("runs")).expect("runs").flatten();
    let run = runs.next().expect("a run").path();
    let data = load(&run.join("run.db")).expect("it is readable");
    for (hour, (iops, asked)) in rates(&data).into_iter().zip(SERVERS_IOPS).enumerate() {
        let asked = PEAK_IOPS * asked / 100.0;
        let text = format!("hour {hour}: {iops} I/O per second, not {asked}");
        assert!((iops - asked).abs() < 0.05 * PEAK_IOPS, "{text}");
    }

    let report: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    let rows = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let is_missing = |name: &str| {
        rows(&report["verdict"]["conditions"]).iter().any(|row| row["name"] == name && row["met"] == false)
    };
    for of_a_steady_load in [
        "target_met_percent",
        "throughput_change_percent",
        "write_change_percent",
        "write_start_percent",
        "latency_change_percent",
    ] {
        assert!(!is_missing(of_a_steady_load), "{of_a_steady_load}: {}", report["verdict"]);
    }
    let headline = report["verdict"]["headline"].as_str().unwrap_or_default();
    assert!(headline.contains("in the mean of a day"), "{headline}");
    let test = rows(&report["tests"]).into_iter().find(|test| test["kind"] == "performance").expect("it ran");
    assert_eq!((rows(&test["hours"]).len(), rows(&test["causes"]).len()), (24, 0), "{test}");
    let is_peak = |row: &serde_json::Value| row["name"] == "Transactional I/O in the peak hour";
    let peak = rows(&test["planned"]).into_iter().find(is_peak).expect("it is planned");
    assert!((peak["planned"].as_f64().unwrap_or(0.0) / PEAK_IOPS - 1.0).abs() < 1e-9, "{peak}");
}

/// Transactional I/O per second in each hour of the day.
fn rates(data: &RunData) -> [f64; 24] {
    let row = data.tests.values().find(|test| test.kind == "performance").expect("it ran");
    let opened_ms = row.window_start_ms.expect("a window");
    let mut counts = [0.0; 24];
    let transactional = [IoClass::TransactionalRead, IoClass::TransactionalWrite].map(Measure::Io);
    for ((test, origin, measure), points) in &data.series {
        if *test != row.ordinal || origin.instance.is_some() || !transactional.contains(measure) {
            continue;
        }
        for point in points.iter().filter(|point| point.t_ms >= opened_ms) {
            let hour = (point.t_ms + point.interval_ms / 2 - opened_ms) / (HOUR_S * 1000);
            if let Some(count) = counts.get_mut(hour as usize) {
                *count += point.totals.count as f64;
            }
        }
    }
    counts.map(|count| count / HOUR_S as f64)
}

//! What SQL over a run and its CSV promise.
#![allow(clippy::disallowed_methods, reason = "tests face the operating system")]

use std::path::{Path, PathBuf};

use evidence::{Cell, Query, RunData, RunStore, StoreError, csv, load};
use testkit::synthetic;
use testkit::synthetic::Shape;

fn recorded(folder: &Path, shape: &Shape) -> PathBuf {
    let path = folder.join("run.db");
    let mut store = RunStore::create(&path).unwrap();
    synthetic::record(shape, &mut store).unwrap();
    store.close().unwrap();
    path
}

fn rows(query: &Query, sql: &str) -> Result<Vec<Vec<Cell>>, StoreError> {
    let mut rows = Vec::new();
    query.run(
        sql,
        |_| Ok(()),
        |cells| -> Result<(), StoreError> {
            rows.push(cells.to_vec());
            Ok(())
        },
    )?;
    Ok(rows)
}

/// Count and sums of all samples, as [`RunData`] has them.
fn sums(data: &RunData) -> Vec<Cell> {
    let points = || data.series.values().flatten();
    let sum = |value: fn(&evidence::Point) -> u64| Cell::Integer(points().map(value).sum::<u64>() as i64);
    vec![
        Cell::Integer(points().count() as i64),
        sum(|p| p.t_ms),
        sum(|p| p.totals.count),
        sum(|p| p.totals.bytes),
        sum(|p| p.totals.latency_ns_sum / 1000),
    ]
}

#[test]
fn the_views_hold_every_sample_of_the_packed_series() {
    let place = tempfile::tempdir().unwrap();
    let shape = Shape { hosts: 2, databases: 6, databases_per_instance: 3, window_s: 90, ..Shape::default() };
    let path = recorded(place.path(), &shape);
    let data = load(&path).unwrap();
    let query = Query::open(&path).unwrap();
    let sql = "SELECT count(*), sum(t_ms), sum(count), sum(bytes), sum(latency_ns_sum / 1000) FROM sample";
    assert_eq!(rows(&query, sql).unwrap(), [sums(&data)]);
    let counters: u64 = data.counters.values().flatten().map(|point| point.value).sum();
    let points = data.counters.values().flatten().count();
    assert_eq!(
        rows(&query, "SELECT count(*), sum(value) FROM counter_sample").unwrap(),
        [[Cell::Integer(points as i64), Cell::Integer(counters as i64)]]
    );
    // One second of one host, by hand.
    let ((test, origin, measure), series) =
        data.series.iter().find(|((_, origin, _), _)| origin.instance.is_none()).unwrap();
    let point = series[3];
    let sql = format!(
        "SELECT count, per_s, latency_ms FROM sample WHERE test = {test} AND host = '{}' AND instance IS NULL
         AND measure = '{}' AND t_ms = {}",
        origin.host,
        measure.name(),
        point.t_ms
    );
    let latency_ms = point.totals.latency_ns_sum as f64 / 1e6 / point.totals.count as f64;
    let expected = [
        Cell::Integer(point.totals.count as i64),
        Cell::Real(point.totals.count as f64),
        Cell::Real(latency_ms),
    ];
    assert_eq!(rows(&query, &sql).unwrap(), [expected]);
    let medians = rows(
        &query,
        "SELECT percentile_ms(hdr_v2, 0.5), max(latency_ms_max) FROM distribution WHERE measure = 'transactional_read'",
    );
    let [Cell::Real(median), Cell::Real(longest)] = medians.unwrap()[0][..] else { panic!("two numbers") };
    assert!(0.0 < median && median < longest);
}

#[test]
fn nothing_can_be_written_through_a_query() {
    let place = tempfile::tempdir().unwrap();
    let path = recorded(place.path(), &Shape::default());
    let before = std::fs::read(&path).unwrap();
    let query = Query::open(&path).unwrap();
    let outside = place.path().join("outside.db");
    for sql in [
        "DELETE FROM verdict",
        "UPDATE run SET solution = 'x'",
        "CREATE TABLE x (y)",
        "CREATE TEMP TABLE x (y)",
        "DROP VIEW sample",
        &format!("ATTACH '{}' AS x", outside.display()),
        &format!("VACUUM INTO '{}'", outside.display()),
        "PRAGMA user_version = 7",
        "PRAGMA writable_schema = 1",
        "BEGIN IMMEDIATE",
        "SELECT load_extension('x')",
    ] {
        assert!(rows(&query, sql).is_err(), "{sql}");
    }
    assert!(!outside.exists());
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert!(
        rows(
            &query,
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT i FROM n"
        )
        .is_ok()
    );
}

#[test]
fn every_table_and_view_is_listed_and_documented() {
    let place = tempfile::tempdir().unwrap();
    let query = Query::open(&recorded(place.path(), &Shape::default())).unwrap();
    let tables = query.tables().unwrap();
    let documentation =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/run-db.md")).unwrap();
    for (table, columns) in &tables {
        assert!(documentation.contains(&format!("`{table}`")), "{table} is not documented");
        assert!(!columns.is_empty());
    }
    let names: Vec<&str> = tables.iter().map(|(name, _)| name.as_str()).collect();
    assert!(
        names.contains(&"run") && names.ends_with(&["sample", "counter_sample", "distribution"]),
        "{names:?}"
    );
}

#[test]
fn a_damaged_block_is_an_error_and_not_a_shorter_series() {
    let place = tempfile::tempdir().unwrap();
    let path = recorded(place.path(), &Shape::default());
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute("UPDATE series SET samples = X'FF' WHERE source = 1", []).unwrap();
    drop(db);
    assert!(rows(&Query::open(&path).unwrap(), "SELECT count(*) FROM sample").is_err());
}

#[test]
fn the_series_become_csv_with_host_and_world_on_every_line() {
    let place = tempfile::tempdir().unwrap();
    let path = recorded(place.path(), &Shape { hostile: ",\"quoted\"\n", ..Shape::default() });
    let data = load(&path).unwrap();
    let files = csv::write_series(&path, place.path()).unwrap();
    assert_eq!(files, [place.path().join("series.csv"), place.path().join("counters.csv")]);
    let text = std::fs::read_to_string(&files[0]).unwrap();
    let samples = data.series.values().flatten().count();
    assert_eq!(text.matches("\r\n").count(), samples + 1);
    assert!(
        text.starts_with("world,test,test_name,host,instance,database,measure,t_ms,interval_ms,count,bytes,")
    );
    for line in text.split("\r\n").skip(1).filter(|line| !line.is_empty()) {
        assert!(line.starts_with("real,") && line.contains("\"mbx1,\"\"quoted\"\"\n\""), "{line:?}");
    }
    let counters = std::fs::read_to_string(&files[1]).unwrap();
    assert_eq!(counters.matches("\r\n").count(), data.counters.values().flatten().count() + 1);
}

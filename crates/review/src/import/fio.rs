//! Results of fio, JSON and JSON+, as a load test: each job an instance, reads and writes by their totals.
//!
//! A job whose name has the word *log* writes logs. Latencies are total ones (`lat`), or those of completion where fio
//! measured no others. Percentiles stay as printed: what they are of is not known well enough to judge by them.
//!
//! Limits: fio 3, whose latencies are in nanoseconds, and 2, in microseconds.

use serde_json::{Map, Value};

use super::ImportError;
use crate::printed_figures::{InstanceRow, TestFigures};

/// Latency percentiles of fio that are imported.
const PERCENTILES: [&str; 4] = ["50.000000", "95.000000", "99.000000", "99.900000"];

/// Whether a text is a JSON result of fio; messages may stand around it.
pub fn is_fio(text: &str) -> bool {
    text.contains("\"fio version\"")
}

/// Imports a result of fio as one test.
///
/// # Errors
/// The text is cut off or damaged, or says of no job what it did.
pub fn test(text: &str) -> Result<TestFigures, ImportError> {
    let start = text.find('{').unwrap_or(0);
    let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
    let document = match values.next() {
        Some(Ok(document)) => document,
        Some(Err(error)) => return Err(ImportError::Fio(error.to_string())),
        None => return Err(ImportError::Fio("it has no object".into())),
    };
    let none = Vec::new();
    let list = |key: &str| document[key].as_array().unwrap_or(&none);
    // Of several clients, the last entry is the sum of the others.
    let jobs: Vec<&Value> = list("jobs")
        .iter()
        .chain(list("client_stats").iter().filter(|job| job["jobname"] != "All clients"))
        .collect();
    let mut test = TestFigures {
        kind: "performance".into(),
        generator: document["fio version"].as_str().unwrap_or("fio").to_owned(),
        machine: machine(&jobs).to_owned(),
        ..TestFigures::default()
    };
    let mut run_s: f64 = 0.0;
    for job in jobs {
        let name = name(job, &test.transactional);
        let row = row(job, name, &mut test);
        run_s = run_s.max(seconds(job, "read")).max(seconds(job, "write"));
        test.transactional.extend(row);
    }
    if test.transactional.is_empty() {
        return Err(ImportError::Fio("no job has reads or writes".into()));
    }
    for (row, n) in test.transactional.iter_mut().zip(1..) {
        row.n = n;
    }
    let rate = |row: &InstanceRow| row.db_reads_per_s.unwrap_or(0.0) + row.db_writes_per_s.unwrap_or(0.0);
    test.achieved_iops = Some(test.transactional.iter().map(rate).sum());
    test.collection_s = Some(run_s);
    Ok(test)
}

/// The host that all jobs ran on; `None` if they ran on several.
fn machine<'a>(jobs: &[&'a Value]) -> &'a str {
    let of = |job: &&'a Value| job["hostname"].as_str().unwrap_or("");
    let first = jobs.first().map_or("", of);
    if !first.is_empty() && jobs.iter().all(|job| of(job) == first) { first } else { "fio" }
}

/// Name of a job's row, which no earlier row has; clones of a job share one.
fn name(job: &Value, rows: &[InstanceRow]) -> String {
    let given = job["jobname"].as_str().unwrap_or("job");
    let host = job["hostname"].as_str().map_or(String::new(), |host| format!("{host} "));
    let whole = format!("{host}{given}");
    let mut names = std::iter::once(whole.clone()).chain((2..).map(|n| format!("{whole} {n}")));
    names.find(|name| rows.iter().all(|row| row.name != *name)).unwrap_or(whole)
}

/// Reads and writes of a job as a row; none if it did no I/O.
fn row(job: &Value, name: String, test: &mut TestFigures) -> Option<InstanceRow> {
    let is_log = name.split(|c: char| !c.is_alphanumeric()).any(|word| word.eq_ignore_ascii_case("log"));
    let [read, write] = ["read", "write"].map(|direction| Io::of(job, direction));
    for (direction, io) in [("read", &read), ("write", &write)] {
        if let Some(percentiles) = io.as_ref().map(|io| &io.percentiles).filter(|found| !found.is_empty()) {
            test.log.push(format!("{name}, {direction} latency: {percentiles}"));
        }
    }
    read.as_ref().or(write.as_ref())?;
    let of = |io: &Option<Io>, figure: fn(&Io) -> f64| io.as_ref().map(figure);
    let mut row = InstanceRow { name, ..InstanceRow::default() };
    if is_log {
        row.log_reads_per_s = of(&read, |io| io.rate);
        row.log_read_latency_ms = of(&read, |io| io.latency_ms);
        row.log_read_avg_bytes = of(&read, |io| io.bytes);
        row.log_writes_per_s = of(&write, |io| io.rate);
        row.log_write_latency_ms = of(&write, |io| io.latency_ms);
        row.log_write_avg_bytes = of(&write, |io| io.bytes);
    } else {
        row.db_reads_per_s = of(&read, |io| io.rate);
        row.db_read_latency_ms = of(&read, |io| io.latency_ms);
        row.db_read_avg_bytes = of(&read, |io| io.bytes);
        row.db_writes_per_s = of(&write, |io| io.rate);
        row.db_write_latency_ms = of(&write, |io| io.latency_ms);
        row.db_write_avg_bytes = of(&write, |io| io.bytes);
    }
    Some(row)
}

/// Reads or writes of a fio job.
struct Io {
    rate: f64,
    latency_ms: f64,
    bytes: f64,
    percentiles: String,
}

impl Io {
    fn of(job: &Value, direction: &str) -> Option<Io> {
        let io = job[direction].as_object()?;
        let count = number(io, "total_ios").filter(|count| *count > 0.0)?;
        let seconds = seconds(job, direction);
        let (latency, per_ms) = latency(io)?;
        // Before fio 3 bytes are in KiB.
        let bytes = match io.contains_key("io_kbytes") {
            true => number(io, "io_bytes")?,
            false => number(io, "io_bytes")? * 1024.0,
        };
        let mean = latency.get("mean")?.as_f64()?;
        Some(Io {
            rate: if seconds > 0.0 { count / seconds } else { number(io, "iops")? },
            latency_ms: mean / per_ms,
            bytes: bytes / count,
            percentiles: percentiles(io),
        })
    }
}

/// Total latency, or completion latency where that is missing; and how many of its units make a millisecond.
fn latency(io: &Map<String, Value>) -> Option<(&Map<String, Value>, f64)> {
    let known = [("lat_ns", 1e6), ("lat", 1e3), ("clat_ns", 1e6), ("clat", 1e3)];
    known.into_iter().find_map(|(key, per_ms)| {
        let found = io.get(key)?.as_object()?;
        found.get("mean")?.as_f64().filter(|mean| *mean > 0.0)?;
        Some((found, per_ms))
    })
}

/// The latency percentiles that are kept, as text.
fn percentiles(io: &Map<String, Value>) -> String {
    let known = [("clat_ns", 1e6), ("lat_ns", 1e6), ("clat", 1e3), ("lat", 1e3)];
    let found = known.into_iter().find_map(|(key, per_ms)| {
        let all = io.get(key)?.get("percentile")?.as_object()?;
        let one = |name: &&str| {
            let value = all.get(*name)?.as_f64()?;
            Some(format!("p{} {:.3} ms", name.trim_end_matches('0').trim_end_matches('.'), value / per_ms))
        };
        Some(PERCENTILES.iter().filter_map(one).collect::<Vec<_>>().join(", "))
    });
    found.unwrap_or_default()
}

/// Seconds that a job read or wrote.
fn seconds(job: &Value, direction: &str) -> f64 {
    job[direction]["runtime"].as_f64().filter(|ms| ms.is_finite() && *ms >= 0.0).unwrap_or(0.0) / 1e3
}

fn number(io: &Map<String, Value>, key: &str) -> Option<f64> {
    io.get(key)?.as_f64().filter(|value| value.is_finite() && *value >= 0.0)
}

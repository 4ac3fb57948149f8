//! Results of fio in place of a probe: `--output-format=json` or `json+`.
//!
//! Jobs that ran side by side (`numjobs`, or several of one group) are one point: their operations under way add up.

use serde_json::Value;

use crate::check::check_row;
use crate::point::{Latency, Load, Pattern, Point, ProbeError, Row};

/// I/O engines of fio that ignore `iodepth` and keep one operation under way.
const ONE_AT_A_TIME: [&str; 6] = ["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"];
const FORM: &str =
    "run fio with --output-format=json, jobs of one block size, and `stonewall` between points";

/// Whether a text is a result of fio (JSON) rather than a `probe.csv`.
pub fn is_fio(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// Reads the points of a fio result.
///
/// # Errors
/// If it is no result of fio, or if a point cannot be told from it or cannot have been measured.
pub fn read(text: &str) -> Result<Vec<Row>, ProbeError> {
    let document: Value = serde_json::from_str(text)
        .map_err(|error| ProbeError::new(format!("neither a probe.csv nor JSON: {error}"), FORM))?;
    let jobs = document["jobs"].as_array().filter(|jobs| !jobs.is_empty());
    let jobs = jobs.ok_or_else(|| ProbeError::new("JSON without jobs of fio", FORM))?;
    let mut groups: Vec<(Option<u64>, Vec<Job>)> = Vec::new();
    for value in jobs {
        let job = Job::of(value, &document["global options"])?;
        let group = value["groupid"].as_u64();
        match groups.last_mut() {
            Some((last, jobs)) if *last == group && group.is_some() => jobs.push(job),
            _ => groups.push((group, vec![job])),
        }
    }
    groups.iter().map(|(_, jobs)| together(jobs)).collect()
}

/// Combines fio jobs that ran at the same time into one point.
fn together(jobs: &[Job]) -> Result<Row, ProbeError> {
    let first = &jobs[0];
    let named = |message: String| ProbeError::new(format!("job `{}`: {message}", first.name), FORM);
    if jobs.iter().any(|job| job.block_bytes != first.block_bytes || job.pattern != first.pattern) {
        return Err(named("jobs of other block sizes or patterns ran beside it".into()));
    }
    let sum = |of: &dyn Fn(&Job) -> f64| jobs.iter().map(of).sum::<f64>();
    let (reads, writes) = (sum(&|job| job.reads.iops), sum(&|job| job.writes.iops));
    let iops = reads + writes;
    if iops <= 0.0 {
        return Err(named("no operation completed".into()));
    }
    // Clones of a job each name the number of all of them.
    let mut outstanding = 0.0;
    for (index, job) in jobs.iter().enumerate() {
        let clones = jobs.iter().filter(|other| other.name == job.name).count();
        if jobs[..index].iter().all(|earlier| earlier.name != job.name) {
            outstanding += job.depth * job.clones.max(clones as f64);
        }
    }
    let row = Row {
        point: Point {
            block_bytes: first.block_bytes,
            read_share: reads / iops,
            pattern: first.pattern,
            load: Load::Outstanding(outstanding),
        },
        iops: Some(iops),
        reads: joined(jobs, |job| &job.reads),
        writes: joined(jobs, |job| &job.writes),
        seconds: Some(jobs.iter().map(|job| job.seconds).fold(0.0, f64::max)),
        steady: None,
    };
    check_row(&row).map_err(|error| ProbeError { message: named(error.message).message, ..error })?;
    Ok(row)
}

/// Combines the latencies of several jobs: the mean of all; percentiles only if there is one job.
fn joined(jobs: &[Job], side: impl Fn(&Job) -> &Side) -> Latency {
    let active: Vec<&Side> = jobs.iter().map(&side).filter(|side| side.iops > 0.0).collect();
    let all: f64 = active.iter().map(|side| side.iops).sum();
    match active[..] {
        [one] => one.latency,
        _ => {
            let means = active.iter().map(|side| Some(side.latency.mean_ms? * side.iops / all));
            let mean_ms = means.sum::<Option<f64>>().filter(|_| !active.is_empty());
            Latency { mean_ms, ..Latency::default() }
        }
    }
}

/// Figures of the reads, or of the writes, of a fio job.
struct Side {
    iops: f64,
    latency: Latency,
}

impl Side {
    fn of(value: &Value) -> Side {
        let in_ms = |value: &Value| value.as_f64().map(|ns| ns / 1e6);
        let percentiles = [&value["clat_ns"]["percentile"], &value["lat_ns"]["percentile"]]
            .into_iter()
            .find(|one| one.is_object());
        let at = |percent: &str| percentiles.and_then(|all| in_ms(&all[percent]));
        let mean_ms = in_ms(&value["lat_ns"]["mean"]).or_else(|| in_ms(&value["clat_ns"]["mean"]));
        Side {
            iops: value["iops"].as_f64().unwrap_or_default(),
            latency: Latency {
                mean_ms,
                p50_ms: at("50.000000"),
                p95_ms: at("95.000000"),
                p99_ms: at("99.000000"),
            },
        }
    }
}

/// A job in the JSON of fio.
struct Job {
    name: String,
    block_bytes: u64,
    pattern: Pattern,
    depth: f64,
    clones: f64,
    seconds: f64,
    reads: Side,
    writes: Side,
}

impl Job {
    fn of(job: &Value, globals: &Value) -> Result<Job, ProbeError> {
        let name = job["jobname"].as_str().unwrap_or("?").to_owned();
        let wrong = |message: String| ProbeError::new(format!("job `{name}`: {message}"), FORM);
        let option = |key: &str| job["job options"][key].as_str().or_else(|| globals[key].as_str());
        let number = |key: &str| match option(key) {
            None => Ok(1.0),
            Some(text) => text.parse().map_err(|_| wrong(format!("`{key}` is {text}: not a number"))),
        };
        let block = option("bs").or_else(|| option("blocksize")).unwrap_or("4k");
        let block_bytes =
            bytes(block).ok_or_else(|| wrong(format!("`bs` is {block}: not one block size")))?;
        let rw = option("rw").or_else(|| option("readwrite")).unwrap_or("read");
        let synced = ["fsync", "fdatasync"].iter().any(|key| option(key) == Some("1"));
        let engine = option("ioengine").unwrap_or("psync");
        Ok(Job {
            block_bytes,
            pattern: match rw.contains("rand") {
                true => Pattern::Random,
                false if synced => Pattern::Sync,
                false => Pattern::Sequential,
            },
            depth: if ONE_AT_A_TIME.contains(&engine) { 1.0 } else { number("iodepth")? },
            clones: number("numjobs")?,
            seconds: job["job_runtime"].as_f64().unwrap_or_default() / 1e3,
            reads: Side::of(&job["read"]),
            writes: Side::of(&job["write"]),
            name,
        })
    }
}

/// Parses a size as fio writes it: 4096, 4k, 1m, 64KiB.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str = r#"{"jobname": "mix", "groupid": 0, "job_runtime": 5000,
        "job options": {"rw": "randrw", "numjobs": "2", "bs": "16k"},
        "read": {"iops": 700.0, "lat_ns": {"mean": 4000000.0},
                 "clat_ns": {"percentile": {"50.000000": 3000000, "95.000000": 8000000, "99.000000": 9000000}}},
        "write": {"iops": 300.0, "lat_ns": {"mean": 3900000.0}}}"#;

    fn with_jobs(jobs: &[&str]) -> String {
        let globals = r#""global options": {"ioengine": "libaio", "iodepth": "4"}"#;
        format!(r#"{{"fio version": "fio-3.36", {globals}, "jobs": [{}]}}"#, jobs.join(","))
    }

    #[test]
    fn clones_and_their_depth_are_one_point() {
        let rows = read(&with_jobs(&[JOB, JOB])).unwrap();
        let point = rows[0].point;
        assert_eq!(rows.len(), 1);
        assert_eq!((point.block_bytes, point.read_share, point.pattern), (16384, 0.7, Pattern::Random));
        assert_eq!((point.load, rows[0].iops), (Load::Outstanding(8.0), Some(2000.0)));
        assert_eq!(
            (rows[0].reads.mean_ms, rows[0].reads.p99_ms, rows[0].seconds),
            (Some(4.0), None, Some(5.0))
        );
    }

    #[test]
    fn jobs_behind_a_stonewall_are_points_of_their_own() {
        let slower = JOB.replace("\"groupid\": 0", "\"groupid\": 1").replace("\"numjobs\": \"2\", ", "");
        let one_by_one = JOB.replace("\"numjobs\": \"2\", ", "");
        let rows = read(&with_jobs(&[&one_by_one, &slower])).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[1].point.load, rows[1].reads.p99_ms), (Load::Outstanding(4.0), Some(9.0)));
    }

    #[test]
    fn what_is_no_point_is_refused_by_job() {
        let other = JOB.replace("16k", "64k").replace("mix", "big");
        let impossible = JOB.replace("700.0", "70.0");
        let range = JOB.replace("16k", "4k-64k");
        for (jobs, wanted) in [
            (vec![JOB, &other], "job `mix`: jobs of other block sizes"),
            (vec![&impossible], "job `mix`: breaks Little's law"),
            (vec![&range], "job `mix`: `bs` is 4k-64k"),
            (vec![], "JSON without jobs"),
        ] {
            let error = read(&with_jobs(&jobs)).unwrap_err();
            assert!(error.message.starts_with(wanted), "{wanted}: {}", error.message);
        }
    }
}

//! SQLite into rows.

use std::path::Path;

use results::*;
use rusqlite::types::FromSql;
use rusqlite::{Connection, Row as SqlRow};
use serde::de::DeserializeOwned;

use super::open::{damaged, explain, open};
use super::{StoreError, pack, seal};
use crate::run_data::{CounterPoint, Point, RunData, Slice};

/// Reads all rows of a run that has ended, goes on or was killed.
pub fn load(path: &Path) -> Result<RunData, StoreError> {
    let db = open(path)?;
    // One transaction: a run that goes on is seen at one moment.
    let read = || -> rusqlite::Result<Option<RunData>> {
        db.execute_batch("BEGIN")?;
        let Some(run) = runs(&db)?.pop() else { return Ok(None) };
        let mut data = RunData::new(run);
        read_tables(&db, &mut data)?;
        read_series(&db, &mut data)?;
        data.sort();
        Ok(Some(data))
    };
    match read() {
        Ok(Some(data)) => Ok(data),
        Ok(None) => Err(StoreError::NoRun(path.to_owned())),
        Err(error) => Err(explain(path, error)),
    }
}

/// The rows of the table `run`; at most one.
pub fn runs(db: &Connection) -> rusqlite::Result<Vec<Run>> {
    query(db, "SELECT * FROM run", run)
}

/// Hosts in the order recorded.
pub fn hosts(db: &Connection) -> rusqlite::Result<Vec<Host>> {
    query(db, "SELECT * FROM host ORDER BY rowid", |r| {
        Ok(Host { name: get(r, "name")?, description: get(r, "description")? })
    })
}

/// Tests by ordinal.
pub fn tests(db: &Connection) -> rusqlite::Result<Vec<Test>> {
    query(db, "SELECT * FROM test ORDER BY ordinal", test)
}

/// Events recorded after the one with this `rowid`, each with its own `rowid`.
pub fn events_after(db: &Connection, rowid: i64) -> rusqlite::Result<Vec<(i64, Event)>> {
    query(db, &format!("SELECT rowid AS place, * FROM event WHERE rowid > {rowid} ORDER BY rowid"), |r| {
        Ok((get(r, "place")?, event(r)?))
    })
}

/// Verdicts recorded after the one with this `rowid`, each with its own `rowid`.
pub fn verdicts_after(db: &Connection, rowid: i64) -> rusqlite::Result<Vec<(i64, Verdict)>> {
    query(db, &format!("SELECT rowid AS place, * FROM verdict WHERE rowid > {rowid} ORDER BY rowid"), |r| {
        Ok((get(r, "place")?, verdict(r)?))
    })
}

/// Environment rows recorded after the one with this `rowid`, each with its own `rowid`.
pub fn environment_after(db: &Connection, rowid: i64) -> rusqlite::Result<Vec<(i64, Environment)>> {
    let sql = format!("SELECT rowid AS place, * FROM environment WHERE rowid > {rowid} ORDER BY rowid");
    query(db, &sql, |r| Ok((get(r, "place")?, environment(r)?)))
}

/// The rules and ranges that the run was started with. Files of earlier builds have none.
pub fn rules(db: &Connection) -> rusqlite::Result<Vec<Rule>> {
    match db.table_exists(None, "rule")? {
        true => query(db, "SELECT * FROM rule ORDER BY rowid", rule),
        false => Ok(Vec::new()),
    }
}

/// Sources of series: id, test, where it was counted, measure.
pub fn sources(db: &Connection) -> rusqlite::Result<Vec<(i64, u32, Origin, String)>> {
    query(db, "SELECT * FROM source ORDER BY id", |r| {
        Ok((get(r, "id")?, get(r, "test")?, origin(r)?, get(r, "measure")?))
    })
}

fn query<T>(
    db: &Connection,
    sql: &str,
    row: impl Fn(&SqlRow<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    db.prepare(sql)?.query_map([], |sql_row| row(sql_row))?.collect()
}

fn read_tables(db: &Connection, data: &mut RunData) -> rusqlite::Result<()> {
    data.hosts = hosts(db)?;
    data.rules = rules(db)?;
    // Files of earlier builds do not say what their runs set out to show.
    if db.table_exists(None, "claim")? {
        data.claim = query(db, "SELECT * FROM claim", claim)?.pop();
    }
    data.environment = query(db, "SELECT * FROM environment ORDER BY rowid", environment)?;
    data.instances = query(db, "SELECT * FROM instance ORDER BY rowid", instance)?;
    data.databases = query(db, "SELECT *, name AS database FROM database ORDER BY rowid", |r| {
        Ok(Database { origin: origin(r)?, path: get(r, "path")?, page_bytes: get(r, "page_bytes")? })
    })?;
    // Files of earlier builds have no volumes: later versions of the format only add.
    if db.table_exists(None, "volume")? {
        data.volumes = query(db, "SELECT * FROM volume ORDER BY rowid", |r| {
            Ok(Volume { host: get(r, "host")?, name: get(r, "name")?, path: get(r, "path")? })
        })?;
    }
    data.tests = tests(db)?.into_iter().map(|test| (test.ordinal, test)).collect();
    data.sizes = query(db, "SELECT * FROM database_size ORDER BY rowid", |r| {
        Ok(DatabaseSize {
            test: get(r, "test")?,
            origin: origin(r)?,
            bytes_before: int(r, "bytes_before")?,
            bytes_after: maybe_int(r, "bytes_after")?,
        })
    })?;
    data.tuning_steps = query(db, "SELECT * FROM tuning_step ORDER BY rowid", tuning_step)?;
    data.checksums = query(db, "SELECT * FROM checksum ORDER BY rowid", checksum)?;
    data.backups = query(db, "SELECT * FROM backup ORDER BY rowid", |r| {
        Ok(Backup {
            test: get(r, "test")?,
            origin: origin(r)?,
            destination: get(r, "destination")?,
            bytes: int(r, "bytes")?,
            bytes_expected: later_int(r, "bytes_expected")?,
            elapsed_ms: int(r, "elapsed_ms")?,
        })
    })?;
    data.recoveries = query(db, "SELECT * FROM recovery ORDER BY rowid", |r| {
        Ok(Recovery {
            test: get(r, "test")?,
            origin: origin(r)?,
            logs: int(r, "logs")?,
            elapsed_ms: int(r, "elapsed_ms")?,
            work: recovery_work(r)?,
        })
    })?;
    if db.table_exists(None, "storage_part")? {
        data.parts = query(db, "SELECT * FROM storage_part ORDER BY rowid", storage_part)?;
    }
    data.events = query(db, "SELECT * FROM event ORDER BY rowid", event)?;
    data.verdicts = query(db, "SELECT * FROM verdict ORDER BY rowid", verdict)?;
    data.seals = seal::of(db)?;
    Ok(())
}

fn read_series(db: &Connection, data: &mut RunData) -> rusqlite::Result<()> {
    let sources = sources(db)?;
    let mut blocks = db.prepare("SELECT minute, samples FROM series WHERE source = ? ORDER BY minute")?;
    for (source, test, origin, measure) in sources {
        let blocks = blocks
            .query_map([source], |r| Ok((int(r, "minute")?, get::<Vec<u8>>(r, "samples")?)))?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        let what = |minute: u64| damaged(&format!("samples of {measure} in minute {minute}"));
        if let Some(counter) = Counter::from_name(&measure) {
            let points = data.counters.entry((test, origin, counter)).or_default();
            for (minute, block) in &blocks {
                let samples = pack::samples(*minute, block).ok_or_else(|| what(*minute))?;
                points.extend(samples.into_iter().map(|(t_ms, interval_ms, [value])| CounterPoint {
                    t_ms,
                    interval_ms,
                    value,
                }));
            }
        } else {
            let measure =
                Measure::from_name(&measure).ok_or_else(|| damaged(&format!("measure {measure}")))?;
            read_distributions(db, data, source, (test, origin.clone(), measure))?;
            let mut points = Vec::new();
            for (minute, block) in &blocks {
                let samples = pack::samples(*minute, block).ok_or_else(|| what(*minute))?;
                points.extend(samples.into_iter().map(|(t_ms, interval_ms, values)| Point {
                    t_ms,
                    interval_ms,
                    totals: pack::totals(values),
                }));
            }
            if !points.is_empty() {
                data.series.insert((test, origin, measure), points);
            }
        }
    }
    Ok(())
}

fn read_distributions(
    db: &Connection,
    data: &mut RunData,
    source: i64,
    key: (u32, Origin, Measure),
) -> rusqlite::Result<()> {
    let mut slices = db.prepare_cached("SELECT * FROM histogram WHERE source = ? ORDER BY t_ms")?;
    let slices = slices
        .query_map([source], |r| {
            Ok(Slice {
                t_ms: int(r, "t_ms")?,
                interval_ms: int(r, "interval_ms")?,
                latency_ns_max: int(r, "latency_ns_max")?,
                hdr_v2: get(r, "hdr_v2")?,
            })
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    if !slices.is_empty() {
        data.histograms.insert(key, slices);
    }
    Ok(())
}

fn run(r: &SqlRow<'_>) -> rusqlite::Result<Run> {
    let seed: String = get(r, "seed")?;
    Ok(Run {
        id: get(r, "id")?,
        solution: get(r, "solution")?,
        solution_text: get(r, "solution_text")?,
        started_unix_ms: int(r, "started_unix_ms")?,
        tool_version: get(r, "tool_version")?,
        world: name(r, "world")?,
        world_detail: get(r, "world_detail")?,
        seed: seed.parse().map_err(|_| damaged(&format!("seed {seed}")))?,
        ended_ms: maybe_int(r, "ended_ms")?,
        ending: maybe_name(r, "ending")?,
    })
}

fn rule(r: &SqlRow<'_>) -> rusqlite::Result<Rule> {
    Ok(Rule {
        name: get(r, "name")?,
        unit: get(r, "unit")?,
        least: get(r, "least")?,
        most: get(r, "most")?,
        published_least: get(r, "published_least")?,
        published_most: get(r, "published_most")?,
    })
}

fn claim(r: &SqlRow<'_>) -> rusqlite::Result<Claim> {
    let names = |column| {
        let text: String = get(r, column)?;
        serde_json::from_str(&text).map_err(|error| damaged(&error.to_string()))
    };
    // Files of earlier builds have no such column.
    let known = |column: &str| r.as_ref().column_index(column).is_ok();
    let figure = |column| if known(column) { get(r, column) } else { Ok(None) };
    let text = |column| if known(column) { get::<Option<String>>(r, column) } else { Ok(None) };
    let doubts = text("doubts")?;
    let doubts = doubts.map_or(Ok(Vec::new()), |text| serde_json::from_str(&text));
    Ok(Claim {
        mailboxes: get(r, "mailboxes")?,
        iops_per_mailbox: figure("iops_per_mailbox")?,
        profile_iops_per_mailbox: figure("profile_iops_per_mailbox")?,
        iops_per_server: get(r, "iops_per_server")?,
        failure: get(r, "failure")?,
        hosts: names("hosts")?,
        tests: names("tests")?,
        database_bytes: figure("database_bytes")?,
        storage: text("storage")?.unwrap_or_default(),
        copies: if known("copies") { get(r, "copies")? } else { None },
        engine: text("engine")?.unwrap_or_default(),
        day_mean_percent: figure("day_mean_percent")?,
        doubts: doubts.map_err(|error| damaged(&error.to_string()))?,
    })
}

fn environment(r: &SqlRow<'_>) -> rusqlite::Result<Environment> {
    Ok(Environment {
        host: get(r, "host")?,
        area: get(r, "area")?,
        name: get(r, "name")?,
        value: get(r, "value")?,
        severity: name(r, "severity")?,
        note: get(r, "note")?,
    })
}

fn instance(r: &SqlRow<'_>) -> rusqlite::Result<Instance> {
    Ok(Instance {
        host: get(r, "host")?,
        name: get(r, "name")?,
        log_path: get(r, "log_path")?,
        log_file_bytes: int(r, "log_file_bytes")?,
        cache_min_bytes: int(r, "cache_min_bytes")?,
        cache_max_bytes: int(r, "cache_max_bytes")?,
    })
}

fn test(r: &SqlRow<'_>) -> rusqlite::Result<Test> {
    let parameters: String = get(r, "parameters")?;
    Ok(Test {
        ordinal: get(r, "ordinal")?,
        kind: get(r, "kind")?,
        name: get(r, "name")?,
        started_ms: int(r, "started_ms")?,
        ended_ms: maybe_int(r, "ended_ms")?,
        window_start_ms: maybe_int(r, "window_start_ms")?,
        window_end_ms: maybe_int(r, "window_end_ms")?,
        window_planned_ms: maybe_int(r, "window_planned_ms")?,
        sample_ms: int(r, "sample_ms")?,
        sessions: get(r, "sessions")?,
        target_iops: get(r, "target_iops")?,
        target_batches_per_s: get(r, "target_batches_per_s")?,
        iops_per_mailbox: get_later(r, "iops_per_mailbox")?,
        day: day(get_later::<Option<String>>(r, "day")?.flatten())?,
        limits: match get_later::<String>(r, "limits")? {
            Some(limits) => serde_json::from_str(&limits).map_err(|error| damaged(&error.to_string()))?,
            None => Vec::new(),
        },
        copies: get(r, "copies")?,
        parameters: serde_json::from_str(&parameters).map_err(|error| damaged(&error.to_string()))?,
    })
}

/// The day that a load followed; a window has some length, and a day has some load.
fn day(text: Option<String>) -> rusqlite::Result<Option<Day>> {
    let Some(text) = text else { return Ok(None) };
    let day: Day = serde_json::from_str(&text).map_err(|error| damaged(&error.to_string()))?;
    let hours = || day.hours_percent.iter();
    let is_sound = day.length_s >= 1.0 && hours().all(|hour| (0.0..=100.0).contains(hour));
    if !is_sound || hours().all(|hour| *hour == 0.0) {
        return Err(damaged("the day of a load is none"));
    }
    Ok(Some(day))
}

/// The redo and undo work of a recovery. Files of earlier builds and imported reports have none.
fn recovery_work(r: &SqlRow<'_>) -> rusqlite::Result<Option<RecoveryWork>> {
    let Some(branches) = get_later::<Option<String>>(r, "branches")?.flatten() else { return Ok(None) };
    Ok(Some(RecoveryWork {
        segments_corrected: int(r, "segments_corrected")?,
        segments_given_up: int(r, "segments_given_up")?,
        segments_unexplained: int(r, "segments_unexplained")?,
        page_changes: int(r, "page_changes")?,
        pages_repaired: int(r, "pages_repaired")?,
        transactions_undone: int(r, "transactions_undone")?,
        branches: serde_json::from_str(&branches).map_err(|error| damaged(&error.to_string()))?,
    }))
}

fn tuning_step(r: &SqlRow<'_>) -> rusqlite::Result<TuningStep> {
    Ok(TuningStep {
        test: get(r, "test")?,
        ordinal: get(r, "ordinal")?,
        load: get(r, "load")?,
        iops: get(r, "iops")?,
        read_latency_ms: get(r, "read_latency_ms")?,
        log_write_latency_ms: get(r, "log_write_latency_ms")?,
        outcome: name(r, "outcome")?,
        note: get(r, "note")?,
    })
}

fn checksum(r: &SqlRow<'_>) -> rusqlite::Result<Checksum> {
    Ok(Checksum {
        test: get(r, "test")?,
        origin: origin(r)?,
        read: PagesRead {
            files: int(r, "files")?,
            pages: int(r, "pages")?,
            uninitialised_pages: int(r, "uninitialised_pages")?,
            bad_pages: int(r, "bad_pages")?,
            correctable_pages: int(r, "correctable_pages")?,
            wrong_number_pages: int(r, "wrong_number_pages")?,
            bytes: int(r, "bytes")?,
            bytes_expected: later_int(r, "bytes_expected")?,
        },
        elapsed_ms: int(r, "elapsed_ms")?,
    })
}

fn storage_part(r: &SqlRow<'_>) -> rusqlite::Result<StoragePart> {
    // Older files have 0 for what was not measured.
    let measured = |column| Ok::<_, rusqlite::Error>(get::<Option<f64>>(r, column)?.filter(|ms| *ms > 0.0));
    Ok(StoragePart {
        test: get(r, "test")?,
        kind: get(r, "kind")?,
        name: get(r, "name")?,
        seconds: get(r, "seconds")?,
        busy_share: get(r, "busy_share")?,
        queue_mean: get(r, "queue_mean")?,
        reads: int(r, "reads")?,
        writes: int(r, "writes")?,
        read_bytes: int(r, "read_bytes")?,
        write_bytes: int(r, "write_bytes")?,
        read_latency_ms: measured("read_latency_ms")?,
        write_latency_ms: measured("write_latency_ms")?,
        cache_hits: int(r, "cache_hits")?,
        cache_misses: int(r, "cache_misses")?,
        cache_waits: int(r, "cache_waits")?,
        cache_dirty_bytes_max: int(r, "cache_dirty_bytes_max")?,
        state: get(r, "state")?,
    })
}

fn event(r: &SqlRow<'_>) -> rusqlite::Result<Event> {
    Ok(Event {
        t_ms: int(r, "t_ms")?,
        severity: name(r, "severity")?,
        test: get(r, "test")?,
        host: get(r, "host")?,
        text: get(r, "text")?,
    })
}

fn verdict(r: &SqlRow<'_>) -> rusqlite::Result<Verdict> {
    Ok(Verdict {
        test: get(r, "test")?,
        origin: origin(r)?,
        rule: get(r, "rule")?,
        text: get(r, "text")?,
        measured: get(r, "measured")?,
        limit: get(r, "threshold")?,
        comparison: name(r, "comparison")?,
        unit: get(r, "unit")?,
        outcome: name(r, "outcome")?,
    })
}

fn origin(r: &SqlRow<'_>) -> rusqlite::Result<Origin> {
    Ok(Origin { host: get(r, "host")?, instance: get(r, "instance")?, database: get(r, "database")? })
}

fn get<T: FromSql>(r: &SqlRow<'_>, column: &str) -> rusqlite::Result<T> {
    r.get(column)
}

/// The value of a column that was added later; `None` in files of earlier builds, which lack the column.
fn get_later<T: FromSql>(r: &SqlRow<'_>, column: &str) -> rusqlite::Result<Option<T>> {
    match r.get(column) {
        Err(rusqlite::Error::InvalidColumnName(_)) => Ok(None),
        value => value,
    }
}

fn int(r: &SqlRow<'_>, column: &str) -> rusqlite::Result<u64> {
    maybe_int(r, column)?.ok_or_else(|| damaged(&format!("{column} is missing")))
}

fn maybe_int(r: &SqlRow<'_>, column: &str) -> rusqlite::Result<Option<u64>> {
    whole(r.get(column)?, column)
}

/// The whole number of a column that was added later; `None` in files of earlier builds.
fn later_int(r: &SqlRow<'_>, column: &str) -> rusqlite::Result<Option<u64>> {
    whole(get_later::<Option<i64>>(r, column)?.flatten(), column)
}

fn whole(number: Option<i64>, column: &str) -> rusqlite::Result<Option<u64>> {
    number.map(|n| u64::try_from(n).map_err(|_| damaged(&format!("{column} is {n}")))).transpose()
}

fn name<T: DeserializeOwned>(r: &SqlRow<'_>, column: &str) -> rusqlite::Result<T> {
    maybe_name(r, column)?.ok_or_else(|| damaged(&format!("{column} is missing")))
}

fn maybe_name<T: DeserializeOwned>(r: &SqlRow<'_>, column: &str) -> rusqlite::Result<Option<T>> {
    let name: Option<String> = r.get(column)?;
    let value = name.map(|name| serde_json::from_value(serde_json::Value::String(name))).transpose();
    value.map_err(|error| damaged(&format!("{column}: {error}")))
}

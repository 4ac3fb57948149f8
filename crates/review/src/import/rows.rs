//! Facts as printed into the rows of a run, so that report, compare and lint work on them.
//!
//! Invariants
//! 1. Rates, latencies and sizes of the rows are those printed: one sample covers the whole window.
//! 2. Every such run says that it was imported, from what, and what that leaves unknown.
//!
//! 3. A number of bad pages that is not known is never taken for none.
//!
//! Limits: there is no series and no percentile in a printed report. Printed read latencies mix transactional
//! reads with background maintenance; both get the mixture. A cell that could not be read gets the mean of its
//! column, with an event that says so. Sizes that were not printed count as zero bytes.

use std::collections::BTreeMap;

use results::*;

use super::judged::{self, Limits};
use crate::Instant;
use crate::printed_figures::{Evidence, InstanceRow, TestFigures, bounded, known, whole};

const MIB: f64 = (1 << 20) as f64;

/// Facts about an imported run that its rows need in addition to the printed figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Id of the imported run.
    pub id: String,
    /// Names of the files that the figures come from.
    pub source: String,
    /// Text of the solution file, if there is one.
    pub solution_text: String,
}

/// Makes rows of `run.db` from figures that were measured elsewhere.
pub fn rows(evidence: &Evidence, about: &About) -> Vec<Row> {
    let groups = groups(evidence);
    let origin_s = evidence.test.iter().filter_map(started).min().unwrap_or(0);
    let mut writer = Writer {
        rows: Vec::new(),
        page_bytes: page_bytes(evidence),
        generation: evidence.solution.exchange_version.clone(),
        set_up: BTreeMap::new(),
    };
    let mut run = run_row(evidence, about, origin_s);
    writer.rows.push(run.clone().into());
    for host in hosts(evidence) {
        let description =
            evidence.hardware.host.get("model").and_then(|value| value.as_str()).unwrap_or("imported");
        writer.rows.push(Host { name: host, description: description.to_owned() }.into());
    }
    writer.environment(evidence, about);
    let mut now_ms = 0;
    for (ordinal, group) in (1u32..).zip(&groups) {
        let same =
            groups[..ordinal as usize - 1].iter().filter(|other| other[0].kind == group[0].kind).count();
        now_ms = writer.test(ordinal, &title(&group[0].kind, same), group, origin_s, now_ms);
    }
    run.ended_ms = Some(now_ms);
    run.ending = Some(Ending::Completed);
    writer.rows.push(run.into());
    writer.rows
}

fn run_row(evidence: &Evidence, about: &About, origin_s: i64) -> Run {
    let known = |of: fn(&TestFigures) -> &str| evidence.test.iter().map(of).find(|text| !text.is_empty());
    let jetstress = known(|test| &test.jetstress_version).unwrap_or("of unknown version");
    let generator = known(|test| &test.generator).map(str::to_owned);
    Run {
        id: about.id.clone(),
        solution: evidence.solution.title.clone(),
        solution_text: about.solution_text.clone(),
        started_unix_ms: u64::try_from(origin_s).unwrap_or(0) * 1_000,
        tool_version: generator.unwrap_or_else(|| format!("Jetstress {jetstress}")),
        world: WorldKind::Real,
        world_detail: format!("imported from {}", about.source),
        seed: 0,
        ended_ms: None,
        ending: None,
    }
}

fn started(test: &TestFigures) -> Option<i64> {
    test.start.as_ref().or(test.collection_start.as_ref()).and_then(Instant::unix_s)
}

fn host_name(test: &TestFigures) -> String {
    match (test.machine.as_str(), test.server) {
        ("", 0) => "all servers".to_owned(),
        ("", server) => format!("server {server}"),
        (machine, _) => machine.to_owned(),
    }
}

fn hosts(evidence: &Evidence) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for test in &evidence.test {
        let name = host_name(test);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Page size in bytes of a generation of Exchange.
fn page_bytes(evidence: &Evidence) -> u32 {
    match evidence.solution.exchange_version.as_str() {
        "2003" => 4_096,
        "2007" => 8_192,
        _ => 32_768,
    }
}

/// Groups the reports of several servers into tests: those of one kind at the same place of the campaign are one test.
/// Places go by the times of the reports; those without one come in the order given.
fn groups(evidence: &Evidence) -> Vec<Vec<&TestFigures>> {
    let mut seen: BTreeMap<(&str, String), usize> = BTreeMap::new();
    let mut groups: Vec<((&str, usize), Vec<&TestFigures>)> = Vec::new();
    let mut order: Vec<usize> = (0..evidence.test.len()).collect();
    order.sort_by_key(|at| started(&evidence.test[*at]).unwrap_or(i64::MAX));
    let mut nth_of = vec![0; order.len()];
    for at in order {
        let test = &evidence.test[at];
        let nth = seen.entry((&test.kind, host_name(test))).or_default();
        nth_of[at] = *nth;
        *nth += 1;
    }
    for (test, nth) in evidence.test.iter().zip(nth_of) {
        let key = (test.kind.as_str(), nth);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push(test),
            None => groups.push((key, vec![test])),
        }
    }
    groups.sort_by_key(|(_, group)| group.iter().filter_map(|test| started(test)).min().unwrap_or(i64::MAX));
    groups.into_iter().map(|(_, group)| group).collect()
}

/// The figure in a printed cell. An unreadable one is counted and gets the mean of its column, if any cell of that is
/// readable; a missing column gives nothing.
fn cell<R>(rows: &[R], row: &R, column: fn(&R) -> Option<f64>, unreadable: &mut usize) -> Option<f64> {
    let value = column(row)?;
    if value.is_finite() {
        return Some(value);
    }
    *unreadable += 1;
    let rest: Vec<f64> = rows.iter().filter_map(|row| known(column(row))).collect();
    (!rest.is_empty()).then(|| rest.iter().sum::<f64>() / rest.len() as f64)
}

/// Length of the measured window in seconds.
fn window_s(test: &TestFigures) -> f64 {
    [test.collection_s, test.run_s, test.duration_s]
        .into_iter()
        .find_map(known)
        .filter(|s| *s > 0.0)
        .unwrap_or(1.0)
}

struct Writer {
    rows: Vec<Row>,
    page_bytes: u32,
    /// Generation of Exchange; empty if it is not known.
    generation: String,
    /// Instances whose setup rows are written already.
    set_up: BTreeMap<(String, String), ()>,
}

impl Writer {
    fn environment(&mut self, evidence: &Evidence, about: &About) {
        let host = hosts(evidence).first().cloned().unwrap_or_default();
        let mut row = |name: &str, value: &str, severity: Severity, note: &str| {
            if !value.is_empty() {
                let (area, name) = ("Import".to_owned(), name.to_owned());
                let (value, note) = (value.to_owned(), note.to_owned());
                self.rows.push(Environment { host: host.clone(), area, name, value, severity, note }.into());
            }
        };
        row(
            "Source",
            &about.source,
            Severity::Warning,
            "not measured by proofload: averages as printed, no series, no percentiles; read latencies include \
             background maintenance; sizes that were not printed count as zero bytes",
        );
        let assumed: Vec<String> =
            evidence.test.iter().filter_map(|test| Limits::of(test, &self.generation).assumed).collect();
        if let Some(whose) = assumed.first() {
            row(
                "Latency limits",
                &format!("assumed for {} of {} tests: {whose}", assumed.len(), evidence.test.len()),
                Severity::Warning,
                "the reports print no limits: the figures are judged by those of the programme",
            );
        }
        let test = evidence.test.iter().find(|test| !test.operating_system.is_empty());
        row("Operating system", test.map_or("", |test| &test.operating_system), Severity::Info, "");
        let engine = evidence.test.iter().map(|test| test.ese_version.as_str()).find(|v| !v.is_empty());
        row("Engine", engine.unwrap_or(&evidence.solution.ese_version), Severity::Info, "");
    }

    /// Adds the rows of one test; gives its end in ms since the run began.
    fn test(&mut self, ordinal: u32, name: &str, group: &[&TestFigures], origin_s: i64, now_ms: u64) -> u64 {
        let Some(first) = group.first() else { return now_ms };
        let after_ms = |instant: Option<&Instant>| {
            let seconds = instant.and_then(Instant::unix_s)? - origin_s;
            u64::try_from(seconds).ok().map(|seconds| seconds * 1_000)
        };
        let started_ms = group.iter().filter_map(|t| after_ms(t.start.as_ref())).min().unwrap_or(now_ms);
        let window_start = group.iter().filter_map(|t| after_ms(t.collection_start.as_ref())).max();
        let window_start = window_start.unwrap_or(started_ms).max(started_ms);
        // One window for all servers: rates are per second, so its exact length changes nothing.
        let length_s = group.iter().map(|test| window_s(test)).fold(0.0, f64::max);
        let length_ms = bounded(length_s * 1e3, 1 << 40).max(1);
        let window_end = window_start + length_ms;
        let ended =
            group.iter().filter_map(|t| after_ms(t.end.as_ref())).max().unwrap_or(window_end).max(window_end);
        let target = group.iter().filter_map(|test| known(test.target_iops)).sum::<f64>();
        let loaded = group.iter().any(|test| known(test.achieved_iops).is_some());
        self.rows.push(
            Test {
                ordinal,
                kind: kind(&first.kind).to_owned(),
                name: name.to_owned(),
                started_ms,
                ended_ms: Some(ended),
                window_start_ms: Some(window_start),
                window_end_ms: Some(window_end),
                window_planned_ms: None,
                sample_ms: length_ms,
                sessions: known(first.threads).map(|threads| threads as u32),
                target_iops: (target > 0.0 && loaded).then_some(target),
                target_batches_per_s: None,
                day: None,
                iops_per_mailbox: None,
                copies: known(first.copies_simulated).map_or(1, |copies| copies as u32),
                parameters: parameters(first),
                limits: Limits::of(first, &self.generation).rows(),
            }
            .into(),
        );
        let place = ImportedWindow { ordinal, t_ms: window_start, length_ms };
        for test in group {
            self.tables(test, place);
            self.rows
                .extend(judged::verdicts(test, &host_name(test), ordinal, &self.generation).map(Row::from));
            self.events(test, ordinal, origin_s);
        }
        ended
    }

    fn instance(&mut self, host: &str, name: &str, test: &TestFigures) {
        if self.set_up.insert((host.to_owned(), name.to_owned()), ()).is_some() {
            return;
        }
        let databases = known(test.database_files).unwrap_or(1.0).max(1.0);
        let cache = |mb: Option<f64>| whole(mb.map(|mb| mb / databases * MIB));
        let log_file_bytes = if self.page_bytes == 4_096 { 5 << 20 } else { 1 << 20 };
        self.rows.push(
            Instance {
                host: host.to_owned(),
                name: name.to_owned(),
                log_path: String::new(),
                log_file_bytes,
                cache_min_bytes: cache(test.cache_min_mb),
                cache_max_bytes: cache(test.cache_max_mb),
            }
            .into(),
        );
        let origin = Origin::database(host, name, name);
        self.rows.push(Database { origin, path: String::new(), page_bytes: self.page_bytes }.into());
    }

    fn tables(&mut self, test: &TestFigures, place: ImportedWindow) {
        let host = host_name(test);
        let read_class = match test.kind.as_str() {
            "backup" => IoClass::BackupRead,
            _ => IoClass::TransactionalRead,
        };
        let mut unreadable = self.instances(test, &host, place, read_class);
        if test.transactional.is_empty() {
            self.host_figures(test, &host, place);
        }
        unreadable += self.checksums(test, &host, place);
        for row in &test.backup {
            let mut cell = |column| cell(&test.backup, row, column, &mut unreadable);
            let name = format!("Instance{}", row.n);
            let destination = (test.kind == "backup_to_disk").then(|| "copy".to_owned());
            self.rows.push(
                Backup {
                    test: place.ordinal,
                    origin: Origin::database(&host, &name, &name),
                    destination,
                    bytes: whole(cell(|row| row.size_mb).map(|mb| mb * MIB)),
                    bytes_expected: None,
                    elapsed_ms: whole(cell(|row| row.elapsed_s).map(|seconds| seconds * 1e3)),
                }
                .into(),
            );
        }
        for row in &test.recovery {
            let mut cell = |column| cell(&test.recovery, row, column, &mut unreadable);
            self.rows.push(
                Recovery {
                    test: place.ordinal,
                    origin: Origin::instance(&host, &format!("Instance{}", row.n)),
                    logs: whole(cell(|row| row.logs)),
                    elapsed_ms: whole(cell(|row| row.seconds).map(|seconds| seconds * 1e3)),
                    work: None,
                }
                .into(),
            );
        }
        if unreadable > 0 {
            let text = format!(
                "Cells that could not be read: {unreadable}. Each counts as the mean of its column, or as not printed \
                 where nothing of the column could be read."
            );
            self.event(place.t_ms, Severity::Warning, place.ordinal, &host, text);
        }
    }

    /// Adds the checksum table. Databases whose bad pages are not known are left out, because they must not look like
    /// good ones. Gives the number of other unreadable cells.
    fn checksums(&mut self, test: &TestFigures, host: &str, place: ImportedWindow) -> usize {
        let (mut unreadable, mut unknown) = (0, 0);
        for row in &test.checksum {
            let Some((bad_pages, wrong_number_pages)) = judged::bad_pages(row) else {
                unknown += 1;
                continue;
            };
            let mut cell = |column| cell(&test.checksum, row, column, &mut unreadable);
            let name = format!("Instance{}", row.n);
            self.rows.push(
                Checksum {
                    test: place.ordinal,
                    origin: Origin::database(host, &name, &name),
                    read: PagesRead {
                        pages: whole(cell(|row| row.pages)),
                        bad_pages,
                        correctable_pages: whole(cell(|row| row.correctable)),
                        wrong_number_pages,
                        bytes: whole(cell(|row| row.size_mb).map(|mb| mb * MIB)),
                        ..PagesRead::default()
                    },
                    elapsed_ms: whole(cell(|row| row.seconds).map(|seconds| seconds * 1e3)),
                }
                .into(),
            );
        }
        if unknown > 0 {
            let text = format!(
                "How many pages are bad is not known of {unknown} of {} databases, unreadable or not printed: they have \
                 no row of their checksum, and cannot pass.",
                test.checksum.len()
            );
            self.event(place.t_ms, Severity::Warning, place.ordinal, host, text);
        }
        unreadable
    }

    /// Adds the instance tables; gives the number of unreadable cells.
    fn instances(
        &mut self,
        test: &TestFigures,
        host: &str,
        place: ImportedWindow,
        read_class: IoClass,
    ) -> usize {
        let mut unreadable = 0;
        let mut samples = Vec::new();
        for row in &test.transactional {
            let name = instance_name(row);
            for (class, [rate, latency, bytes]) in io_of(test, row, read_class, &mut unreadable) {
                let is_log = matches!(class, IoClass::LogWrite | IoClass::LogRead | IoClass::ReplicationRead);
                let origin = match is_log {
                    true => Origin::instance(host, &name),
                    false => Origin::database(host, &name, &name),
                };
                samples.extend(place.sample(origin, class.into(), rate, latency, bytes));
            }
        }
        for row in &test.transactional {
            self.instance(host, &instance_name(row), test);
        }
        self.rows.extend(samples.into_iter().map(Row::from));
        unreadable
    }

    /// Adds figures of the whole server, for reports without an instance table.
    fn host_figures(&mut self, test: &TestFigures, host: &str, place: ImportedWindow) {
        let origin = || Origin::host(host);
        let read = IoClass::TransactionalRead.into();
        let write = IoClass::TransactionalWrite.into();
        let log = IoClass::LogWrite.into();
        let samples = [
            place.sample(origin(), read, test.reads_per_s, test.read_latency_ms, None),
            place.sample(origin(), write, test.writes_per_s, test.write_latency_ms, None),
            place.sample(origin(), log, test.log_writes_per_s, test.log_write_latency_ms, None),
        ];
        self.rows.extend(samples.into_iter().flatten().map(Row::from));
    }

    fn event(&mut self, t_ms: u64, severity: Severity, test: u32, host: &str, text: String) {
        self.rows.push(Event { t_ms, severity, test: Some(test), host: host.to_owned(), text }.into());
    }

    fn events(&mut self, test: &TestFigures, ordinal: u32, origin_s: i64) {
        let host = host_name(test);
        let at = |instant: &Instant| instant.unix_s().and_then(|s| u64::try_from(s - origin_s).ok());
        for (name, instant) in &test.events {
            if let Some(seconds) = at(instant) {
                self.event(seconds * 1_000, Severity::Info, ordinal, &host, name.replace('_', " "));
            }
        }
        let started_ms = test.start.as_ref().and_then(at).unwrap_or(0) * 1_000;
        for line in &test.log {
            self.event(started_ms, Severity::Info, ordinal, &host, line.clone());
        }
    }
}

/// The measured window that samples of an imported test belong to: test, start and length.
#[derive(Clone, Copy)]
struct ImportedWindow {
    ordinal: u32,
    t_ms: u64,
    length_ms: u64,
}

impl ImportedWindow {
    fn sample(
        self,
        origin: Origin,
        measure: Measure,
        rate: Option<f64>,
        latency_ms: Option<f64>,
        bytes: Option<f64>,
    ) -> Option<Sample> {
        let count = whole(Some((known(rate)? * self.length_ms as f64 / 1e3).round()));
        let latency_ns = known(latency_ms).unwrap_or(0.0).clamp(0.0, 1e9) * 1e6;
        (count > 0).then(|| Sample {
            test: self.ordinal,
            origin,
            measure,
            t_ms: self.t_ms,
            interval_ms: self.length_ms,
            totals: IoTotals {
                count,
                bytes: bounded(count as f64 * known(bytes).unwrap_or(0.0), 1 << 62),
                latency_ns_sum: bounded(count as f64 * latency_ns, 1 << 62),
                // The longest is not printed; the mean is what is known of it.
                latency_ns_max: latency_ns as u64,
            },
        })
    }
}

fn kind(printed: &str) -> &str {
    match printed {
        "checksum" => "database_checksum",
        other => other,
    }
}

/// Title of a test that comes after `before` tests of the same kind.
fn title(kind: &str, before: usize) -> String {
    let words = kind.replace('_', " ");
    let mut letters = words.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    let number = if before == 0 { String::new() } else { format!(" {}", before + 1) };
    format!("{first}{}{number}", letters.as_str())
}

fn instance_name(row: &InstanceRow) -> String {
    if row.name.is_empty() { format!("Instance{}", row.n) } else { row.name.clone() }
}

/// Operations per second, mean latency in ms and mean bytes of a class of I/O.
type Io = [Option<f64>; 3];

/// Figures of an instance by class of I/O, from the tables. `unreadable` counts the cells that could not be read.
fn io_of(
    test: &TestFigures,
    row: &InstanceRow,
    read_class: IoClass,
    unreadable: &mut usize,
) -> Vec<(IoClass, Io)> {
    let mut cells = |columns: [fn(&InstanceRow) -> Option<f64>; 3]| {
        columns.map(|column| cell(&test.transactional, row, column, unreadable))
    };
    let reads = cells([|r| r.db_reads_per_s, |r| r.db_read_latency_ms, |r| r.db_read_avg_bytes]);
    let writes = cells([|r| r.db_writes_per_s, |r| r.db_write_latency_ms, |r| r.db_write_avg_bytes]);
    let log = cells([|r| r.log_writes_per_s, |r| r.log_write_latency_ms, |r| r.log_write_avg_bytes]);
    let mut io = vec![(read_class, reads), (IoClass::TransactionalWrite, writes), (IoClass::LogWrite, log)];
    if test.kind == "soft_recovery" {
        let log = cells([|r| r.log_reads_per_s, |r| r.log_read_latency_ms, |r| r.log_read_avg_bytes]);
        io.push((IoClass::LogRead, log));
    }
    if let Some(bdm) = test.bdm.iter().find(|bdm| bdm.n == row.n) {
        let read = [known(bdm.reads_per_s), reads[1], known(bdm.read_avg_bytes)];
        io.push((IoClass::MaintenanceRead, read));
    }
    if let Some(replication) = test.log_replication.iter().find(|other| other.n == row.n) {
        let total = test.total.iter().find(|total| total.n == row.n);
        let latency = total.and_then(|total| known(total.log_read_latency_ms));
        let read = [known(replication.log_reads_per_s), latency, known(replication.log_read_avg_bytes)];
        io.push((IoClass::ReplicationRead, read));
    }
    io
}

fn parameters(test: &TestFigures) -> Vec<Parameter> {
    let mut parameters = Vec::new();
    let mut add = |name: &str, value: String| parameters.push(Parameter { name: name.to_owned(), value });
    if !test.op_mix.is_empty() {
        let parts: Vec<String> = test
            .op_mix
            .iter()
            .map(|(name, share)| format!("{} {share} %", name.trim_end_matches("_pct")))
            .collect();
        add("Operation mix", parts.join(", "));
    }
    let figures = [
        ("Database files", test.database_files, ""),
        ("Initial size of all databases", test.initial_database_bytes.map(|b| b / MIB), " MiB"),
        ("Final size of all databases", test.final_database_bytes.map(|b| b / MIB), " MiB"),
        ("Batches of all databases, drain included", test.batch_transactions_total, ""),
        ("Interval of the samples", test.sample_interval_s, " s"),
    ];
    for (name, value, unit) in figures {
        if let Some(value) = known(value) {
            add(name, format!("{value}{unit}"));
        }
    }
    for row in &test.host {
        if let (Some(avg), Some(min), Some(max)) = (known(row.avg), known(row.min), known(row.max)) {
            add(&format!("Host: {}", row.counter.replace('_', " ")), format!("{avg} ({min} to {max})"));
        }
    }
    parameters
}

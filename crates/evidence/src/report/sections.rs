//! [`RunData`] into [`TestReport`]: one test.

use results::grade;
use results::{
    Counter, DatabaseSize, IoClass, IoTotals, Measure, Origin, Outcome, Rule, StoragePart, Test, Verdict,
};

use super::model::*;
use super::samples::{Moment, of_test};
use super::window::{Scope, TestView};
use super::{ReportError, charts, explain, host_system, hours, text, volumes};
use crate::run_data::RunData;

const READ: Measure = Measure::Io(IoClass::TransactionalRead);
const WRITE: Measure = Measure::Io(IoClass::TransactionalWrite);
const MAINTENANCE: Measure = Measure::Io(IoClass::MaintenanceRead);
const LOG_WRITE: Measure = Measure::Io(IoClass::LogWrite);
const LOG_PREPARE: Measure = Measure::Io(IoClass::LogPrepareWrite);
const LOG_READ: Measure = Measure::Io(IoClass::LogRead);
const REPLICATION: Measure = Measure::Io(IoClass::ReplicationRead);
const MIB: f64 = (1 << 20) as f64;

/// A verdict as a row of the table under its test.
pub fn verdict_row(verdict: &Verdict) -> Verdict {
    Verdict { test: None, ..verdict.clone() }
}

pub fn test(data: &RunData, test: &Test) -> Result<TestReport, ReportError> {
    let view = TestView::new(data, test);
    let verdicts: Vec<Verdict> =
        data.verdicts.iter().filter(|v| v.test == Some(test.ordinal)).map(verdict_row).collect();
    let throughput = throughput(&view);
    let instance_names = instances(data, test.ordinal);
    let hours = hours::rows(&view);
    let host_system = host_system::rows(&view);
    let until_ms = test.ended_ms.unwrap_or(view.span.end_ms).max(test.started_ms);
    let mut report = TestReport {
        ordinal: test.ordinal,
        kind: test.kind.clone(),
        name: test.name.clone(),
        outcome: worst(&verdicts),
        ended: test.ended_ms.is_some(),
        lead: String::new(),
        started_s: seconds(test.started_ms),
        duration_s: seconds(until_ms - test.started_ms),
        window: test.window_start_ms.map(|_| window(&view)),
        planned: planned(&view, throughput.as_ref(), &hours),
        parameters: test.parameters.clone(),
        measures: measure_rows(&view, Scope::All)?
            .into_iter()
            .map(|(measure, figures, percentiles)| {
                let held_ms = held_ms(&view, &measure);
                MeasureRow { measure, figures, percentiles, held_ms }
            })
            .collect(),
        hosts: host_rows(&view)?,
        instances: instance_names
            .iter()
            .map(|origin| instance_io(&view, origin))
            .collect::<Result<_, ReportError>>()?,
        databases: database_rows(&view)?,
        load_shape: throughput.as_ref().map(|_| load_shape(&view)).unwrap_or_default(),
        hours,
        steadiness: throughput.as_ref().and_then(|_| steadiness(&view)),
        page_fault_stalls: stalls(&view),
        generator: host_system::generator(&host_system),
        host_system,
        volumes: volumes::rows(&view),
        cache_bytes_max: cache_bytes_max(&view),
        charts: charts::lines(&view, throughput.is_some(), &verdicts),
        latency_map: charts::latency_map(&view, READ)?,
        instance_map: charts::instance_map(&view, READ, &instance_names),
        sizes: sizes(data, test.ordinal),
        tuning: tuning(data, test.ordinal),
        headroom: headroom(data, test.ordinal),
        checksums: checksums(data, test.ordinal),
        backups: backups(data, test.ordinal),
        recoveries: recoveries(&view),
        storage_parts: storage_parts(&view),
        throughput,
        verdicts,
        causes: Vec::new(),
    };
    report.causes = explain::causes(&view, &report);
    report.lead = text::lead(&report, test.sessions);
    Ok(report)
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1e3
}

fn worst(verdicts: &[Verdict]) -> Option<Outcome> {
    Outcome::worst(verdicts.iter().map(|verdict| verdict.outcome))
}

fn window(view: &TestView<'_>) -> Window {
    Window {
        start_s: seconds(view.span.start_ms),
        duration_s: view.span.seconds(),
        planned_s: view.test.window_planned_ms.map(seconds),
        sample_s: seconds(view.test.sample_ms),
        samples: view.samples.len() as u32,
        cut: view.cut,
    }
}

/// Instances in the order they were set up, then any that only samples name.
fn instances(data: &RunData, test: u32) -> Vec<Origin> {
    let set_up = data.instances.iter().map(|instance| Origin::instance(&instance.host, &instance.name));
    let measured = of_test(&data.series, test)
        .filter_map(|((_, o, _), _)| Some(Origin::instance(&o.host, o.instance.as_deref()?)));
    let mut seen: Vec<Origin> = set_up.collect();
    for origin in measured {
        if !seen.contains(&origin) {
            seen.push(origin);
        }
    }
    seen.retain(|origin| {
        of_test(&data.series, test)
            .any(|((_, o, _), _)| o.host == origin.host && o.instance == origin.instance)
    });
    seen
}

/// The throughput of a test with a mailbox load. Tuning has none: its steps are different loads, whose mean says
/// nothing.
fn throughput(view: &TestView<'_>) -> Option<Throughput> {
    let seconds = view.span.seconds();
    let batches = view.totals(Scope::All, &[Measure::Batch]).count;
    let is_tuning = view.data.tuning_steps.iter().any(|step| step.test == view.test.ordinal);
    let per_s = |measure| view.totals(Scope::All, &[measure]).count as f64 / seconds;
    let (reads_per_s, writes_per_s) = (per_s(READ), per_s(WRITE));
    let iops = reads_per_s + writes_per_s;
    // Imported figures may lack batches; a target and I/O towards it are a load as well.
    let is_load = batches > 0 || (view.test.target_iops.is_some() && iops > 0.0);
    if !is_load || seconds <= 0.0 || is_tuning {
        return None;
    }
    let by_database = || {
        of_test(&view.data.series, view.test.ordinal)
            .filter(|((_, origin, measure), _)| *measure == Measure::Batch && origin.database.is_some())
            .map(|(_, points)| {
                points.iter().filter(|p| view.span.holds(p.middle_ms())).map(|p| p.totals.count).sum::<u64>()
            })
    };
    Some(Throughput {
        transactional_iops: iops,
        reads_per_s,
        writes_per_s,
        read_share: (iops > 0.0).then_some(reads_per_s / iops),
        log_writes_per_s: per_s(LOG_WRITE),
        batches,
        batches_per_s: batches as f64 / seconds,
        database_batches_min: by_database().min(),
        database_batches_max: by_database().max(),
        database_bytes_before: database_bytes(view, |size| Some(size.bytes_before)),
        database_bytes_after: database_bytes(view, |size| size.bytes_after),
    })
}

/// Bytes of all databases together; `None` if the size of one is not known.
fn database_bytes(view: &TestView<'_>, size: fn(&DatabaseSize) -> Option<u64>) -> Option<u64> {
    let mut sizes = view.data.sizes.iter().filter(|row| row.test == view.test.ordinal).peekable();
    sizes.peek()?;
    sizes.map(size).sum()
}

fn planned(view: &TestView<'_>, throughput: Option<&Throughput>, hours: &[HourRow]) -> Vec<PlannedRow> {
    let row = |name: &str, planned: Option<f64>, achieved: Option<f64>, unit: &str| {
        planned.map(|_| PlannedRow { name: name.to_owned(), planned, achieved, unit: unit.to_owned() })
    };
    let window_s = view.test.window_start_ms.map(|_| view.span.seconds());
    let per_mailbox = view.test.iops_per_mailbox.filter(|iops| *iops > 0.0);
    let mailboxes = |iops: Option<f64>| Some(iops? / per_mailbox?);
    let achieved = throughput.map(|t| t.transactional_iops);
    let (peak, at_peak) = match view.test.day {
        None => (view.test.target_iops, achieved),
        Some(_) => (hours::peak_target(view), hours::achieved_at_peak(hours)),
    };
    [
        row("Measured window", view.test.window_planned_ms.map(seconds), window_s, "s"),
        row(PLANNED_IO, view.test.target_iops, achieved, "1/s"),
        row(PLANNED_PEAK, view.test.day.and(peak), at_peak, "1/s"),
        row("Mailboxes that this I/O carries", mailboxes(peak), mailboxes(at_peak), ""),
        row(
            "I/O per mailbox, for the planned mailboxes",
            peak.and(per_mailbox),
            mailboxes(peak).zip(at_peak).map(|(planned, achieved)| achieved / planned),
            "1/s",
        ),
        row("Batches", view.test.target_batches_per_s, throughput.map(|t| t.batches_per_s), "1/s"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn measure_rows<'a>(
    view: &TestView<'a>,
    scope: Scope<'a>,
) -> Result<Vec<(String, Figures, Percentiles)>, ReportError> {
    charts::measures()
        .filter_map(|measure| Some((measure, view.figures(scope, &[measure])?)))
        .map(|(measure, figures)| Ok((measure.name().to_owned(), figures, view.percentiles(scope, measure)?)))
        .collect()
}

fn held_ms(view: &TestView<'_>, measure: &str) -> Option<f64> {
    let class = IoClass::from_name(measure)?;
    view.totals(Scope::All, &[Measure::Held(class)]).latency_ms()
}

fn host_rows(view: &TestView<'_>) -> Result<Vec<HostRow>, ReportError> {
    if view.data.hosts.len() < 2 {
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    for host in &view.data.hosts {
        for (measure, figures, percentiles) in measure_rows(view, Scope::Host(&host.name))? {
            rows.push(HostRow { host: host.name.clone(), measure, figures, percentiles });
        }
    }
    Ok(rows)
}

fn instance_io(view: &TestView<'_>, origin: &Origin) -> Result<InstanceIo, ReportError> {
    let scope = Scope::Instance(&origin.host, origin.instance.as_deref().unwrap_or_default());
    io_of(view, scope, origin)
}

fn io_of<'a>(view: &TestView<'a>, scope: Scope<'a>, origin: &Origin) -> Result<InstanceIo, ReportError> {
    Ok(InstanceIo {
        origin: origin.clone(),
        batches: view.totals(scope, &[Measure::Batch]).count,
        reads: view.figures(scope, &[READ]),
        read_percentiles: view.percentiles(scope, READ)?,
        writes: view.figures(scope, &[WRITE]),
        maintenance: view.figures(scope, &[MAINTENANCE]),
        all_reads: view.figures(scope, &[READ, MAINTENANCE]),
        log_writes: view.figures(scope, &[LOG_WRITE]),
        log_write_percentiles: view.percentiles(scope, LOG_WRITE)?,
        log_reads: view.figures(scope, &[LOG_READ]),
        replication: view.figures(scope, &[REPLICATION]),
    })
}

fn database_rows(view: &TestView<'_>) -> Result<Vec<InstanceIo>, ReportError> {
    let measured =
        |origin: &Origin| of_test(&view.data.series, view.test.ordinal).any(|((_, o, _), _)| o == origin);
    let databases = view.data.databases.iter().filter(|database| measured(&database.origin));
    databases.map(|database| io_of(view, Scope::Database(&database.origin), &database.origin)).collect()
}

/// What the parts of the storage did, in the order in which a request meets them.
fn storage_parts(view: &TestView<'_>) -> Vec<StoragePart> {
    const ORDER: [&str; 9] =
        ["processor", "link", "controller", "read_cache", "store", "pool", "volume", "drive", "device"];
    let of_kind = |kind| view.data.parts.iter().filter(move |part| part.kind == kind);
    let parts = ORDER.into_iter().flat_map(of_kind);
    parts.filter(|part| part.test == view.test.ordinal).cloned().collect()
}

/// I/O per batch beside the published ranges, which are those of tests with the 2013 mix, 32 KiB pages and small
/// caches.
fn load_shape(view: &TestView<'_>) -> Vec<ShapeRow> {
    let batches = view.totals(Scope::All, &[Measure::Batch]).count as f64;
    let total = |measure| view.totals(Scope::All, &[measure]);
    let (reads, writes, log_writes) = (total(READ), total(WRITE), total(LOG_WRITE));
    // The published counter has every write to a log file, the zero-filling of the next one included.
    let log_written = view.totals(Scope::All, &[LOG_WRITE, LOG_PREPARE]);
    let per_batch = |amount: f64| (batches > 0.0).then(|| amount / batches);
    let both = reads.count + writes.count;
    let (logs, log_bytes) = logs_closed(view);
    let growth = view.counter_sum(Scope::All, Counter::GrowthBytes);
    let extra_copies = f64::from(view.test.copies.saturating_sub(1));
    let shipped = logs.map(|logs| logs as f64 * extra_copies).filter(|shipped| *shipped > 0.0);
    let databases = of_test(&view.data.series, view.test.ordinal)
        .filter(|((_, o, m), _)| *m == MAINTENANCE && o.database.is_some())
        .count() as f64;
    let row = |name: &str, unit: &str, measured, (published_min, published_max)| ShapeRow {
        name: name.to_owned(),
        unit: unit.to_owned(),
        measured,
        published_min,
        published_max,
    };
    vec![
        row("Database page reads per batch", "", per_batch(reads.count as f64), grade::READS_PER_BATCH),
        row("Database page writes per batch", "", per_batch(writes.count as f64), grade::WRITES_PER_BATCH),
        row(
            "Reads among database I/O",
            "%",
            (both > 0).then(|| 100.0 * reads.count as f64 / both as f64),
            (67.5, 68.9),
        ),
        row("Log writes per batch", "", per_batch(log_writes.count as f64), grade::LOG_WRITES_PER_BATCH),
        row("Log written per batch", "KiB", per_batch(log_written.bytes as f64 / 1024.0), (61.2, 62.6)),
        row(
            "Log files per batch",
            "KiB",
            log_bytes.and_then(|bytes| per_batch(bytes as f64 / 1024.0)),
            grade::LOG_FILE_KIB_PER_BATCH,
        ),
        row(
            "Database growth per batch",
            "B",
            growth.and_then(|bytes| per_batch(bytes as f64)),
            (13_852.0, 14_019.0),
        ),
        row(
            "Replication reads per log and extra copy",
            "",
            shipped.map(|shipped| total(REPLICATION).count as f64 / shipped),
            (8.94, 9.11),
        ),
        row(
            "Maintenance reads per database",
            "1/s",
            (databases > 0.0).then(|| total(MAINTENANCE).count as f64 / databases / view.span.seconds()),
            grade::MAINTENANCE_READS_PER_S,
        ),
    ]
}

/// Log generations that were closed in the window, and their bytes.
fn logs_closed(view: &TestView<'_>) -> (Option<u64>, Option<u64>) {
    let logs = view.counter_sum(Scope::All, Counter::LogGenerations);
    let bytes = view.data.instances.iter().map(|instance| {
        let scope = Scope::Instance(&instance.host, &instance.name);
        view.counter_sum(scope, Counter::LogGenerations).unwrap_or(0) * instance.log_file_bytes
    });
    (logs, logs.map(|_| bytes.sum()))
}

/// Whether a share is within the published limit of the condition `name`, which is in percent.
pub fn holds(name: &str, share: Option<f64>) -> bool {
    let rule = grade::condition(name).map(Rule::published);
    rule.is_some_and(|rule| rule.holds(share.map(|share| 100.0 * share)))
}

/// Steadiness of a load over the quarters of its window. Quarters are whole samples: a second more or less would look
/// like a change in a short window. The rates of a load that follows a day are held against what its hours ask for.
fn steadiness(view: &TestView<'_>) -> Option<Steadiness> {
    let samples = view.samples.len();
    // Without a window the filling of the cache would count as load.
    if samples < 4 || view.test.window_start_ms.is_none() {
        return None;
    }
    let quarter = |sample: usize| sample * 4 / samples;
    let mut seconds = [0.0; 4];
    (0..samples).for_each(|sample| seconds[quarter(sample)] += view.samples.seconds(sample));
    let day = view.test.day;
    let bounds: Vec<usize> = (0..=4).map(|n| (n * samples).div_ceil(4)).collect();
    let asked: Vec<f64> = bounds.windows(2).map(|of| hours::asked_share(view, of[0], of[1])).collect();
    let quarters = |measure| {
        let mut totals = [IoTotals::default(); 4];
        for (sample, total) in view.sample_totals(Scope::All, &[measure]).into_iter().enumerate() {
            totals[quarter(sample)].add(total);
        }
        totals
    };
    let [reads, writes, log_writes] = [READ, WRITE, LOG_WRITE].map(quarters);
    let rate = |n: usize, count: u64| count as f64 / seconds[n];
    let quarter_iops: Vec<f64> = (0..4).map(|n| rate(n, reads[n].count + writes[n].count)).collect();
    let quarter_writes_per_s: Vec<f64> = (0..4).map(|n| rate(n, writes[n].count)).collect();
    let mean = |count: u64| count as f64 / seconds.iter().sum::<f64>();
    let [all_reads, all_writes, all_log_writes] = [&reads, &writes, &log_writes].map(whole);
    let change = |rates: &[f64], mean: f64| {
        furthest(rates.iter().zip(&asked).map(|(rate, asked)| Some(rate - mean * (asked - 1.0))), Some(mean))
    };
    let iops_change_max = change(&quarter_iops, mean(all_reads.count + all_writes.count));
    let writes_change_max = change(&quarter_writes_per_s, mean(all_writes.count));
    let latencies = [(&reads, all_reads), (&writes, all_writes), (&log_writes, all_log_writes)]
        .map(|(quarters, all)| furthest(quarters.iter().map(IoTotals::latency_ms), all.latency_ms()));
    let latency_change_max = latencies.into_iter().try_fold(0.0f64, |most, change| Some(most.max(change?)));
    let latency_change_max = latency_change_max.filter(|_| day.is_none());
    let write_start = (all_writes.count > 0).then(|| {
        let (from, to) = hours::first_load(view);
        let first: u64 = view.sample_totals(Scope::All, &[WRITE])[from..to].iter().map(|of| of.count).sum();
        let first_s: f64 = (from..to).map(|sample| view.samples.seconds(sample)).sum();
        first as f64 / first_s / (mean(all_writes.count) * hours::asked_share(view, from, to))
    });
    Some(Steadiness {
        quarter_read_latency_ms: reads.iter().map(IoTotals::latency_ms).collect(),
        quarter_write_latency_ms: writes.iter().map(IoTotals::latency_ms).collect(),
        quarter_log_write_latency_ms: log_writes.iter().map(IoTotals::latency_ms).collect(),
        iops_change: (quarter_iops[0] > 0.0 && day.is_none())
            .then(|| quarter_iops[3] / quarter_iops[0] - 1.0),
        steady: holds("throughput_change_percent", iops_change_max)
            && holds("write_change_percent", writes_change_max)
            && (day.is_some() || holds("latency_change_percent", latency_change_max))
            && holds("write_start_percent", write_start),
        quarter_asked: if day.is_some() { asked } else { Vec::new() },
        quarter_iops,
        quarter_writes_per_s,
        iops_change_max,
        writes_change_max,
        latency_change_max,
        write_start,
    })
}

fn whole(quarters: &[IoTotals; 4]) -> IoTotals {
    let mut whole = IoTotals::default();
    quarters.iter().for_each(|quarter| whole.add(*quarter));
    whole
}

/// Distance of the furthest quarter from the mean, as a share of the mean; `None` if a quarter is not known.
fn furthest(quarters: impl Iterator<Item = Option<f64>>, mean: Option<f64>) -> Option<f64> {
    let mean = mean.filter(|mean| *mean > 0.0)?;
    quarters
        .map(|quarter| Some((quarter? - mean).abs() / mean))
        .try_fold(0.0f64, |most, next| Some(most.max(next?)))
}

/// Page fault stalls per second of all hosts, over the samples of the window; `None` without such rows.
fn stalls(view: &TestView<'_>) -> Option<StallRow> {
    let mut samples = vec![0u64; view.samples.len()];
    for point in view.counters(Scope::All, Counter::PageFaultStalls) {
        if let Some(index) = view.samples.of(point) {
            samples[index] += point.value;
        }
    }
    view.counters(Scope::All, Counter::PageFaultStalls).next()?;
    let rates: Vec<f64> =
        samples.iter().enumerate().map(|(n, &stalls)| stalls as f64 / view.samples.seconds(n)).collect();
    Some(StallRow {
        per_s_mean: rates.iter().sum::<f64>() / rates.len().max(1) as f64,
        per_s_min: rates.iter().copied().reduce(f64::min)?,
        per_s_max: rates.iter().copied().reduce(f64::max)?,
        samples_with_stalls: samples.iter().filter(|&&stalls| stalls > 0).count() as u32,
    })
}

fn cache_bytes_max(view: &TestView<'_>) -> Option<u64> {
    let mut samples = vec![0u64; view.samples.len()];
    for point in view.counters(Scope::All, Counter::CacheBytes) {
        if let Some(index) = view.samples.of(point) {
            samples[index] += point.value;
        }
    }
    samples.into_iter().max().filter(|&bytes| bytes > 0)
}

fn mib_per_s(bytes: u64, elapsed_ms: u64) -> Option<f64> {
    (elapsed_ms > 0).then(|| bytes as f64 / MIB / seconds(elapsed_ms))
}

fn sizes(data: &RunData, test: u32) -> Vec<SizeRow> {
    let rows = data.sizes.iter().filter(|row| row.test == test);
    rows.map(|row| SizeRow {
        origin: row.origin.clone(),
        bytes_before: row.bytes_before,
        bytes_after: row.bytes_after,
    })
    .collect()
}

fn tuning(data: &RunData, test: u32) -> Vec<TuningRow> {
    let rows = data.tuning_steps.iter().filter(|row| row.test == test);
    let target = target_iops(data, test);
    rows.map(|row| TuningRow {
        ordinal: row.ordinal,
        load: row.load.clone(),
        iops: row.iops,
        of_target: target.map(|target| row.iops / target),
        read_latency_ms: row.read_latency_ms,
        log_write_latency_ms: row.log_write_latency_ms,
        outcome: row.outcome,
        note: row.note.clone(),
    })
    .collect()
}

/// The target of a tuning test: its own, else that of the first load test.
fn target_iops(data: &RunData, test: u32) -> Option<f64> {
    let own = data.tests.get(&test).and_then(|test| test.target_iops);
    own.or_else(|| data.tests.values().find_map(|test| test.target_iops)).filter(|target| *target > 0.0)
}

fn headroom(data: &RunData, test: u32) -> Option<Headroom> {
    let steps = || data.tuning_steps.iter().filter(|step| step.test == test);
    steps().next()?;
    let iops_of =
        |outcome: Outcome| steps().filter(move |step| step.outcome == outcome).map(|step| step.iops);
    let held_iops = iops_of(Outcome::Pass).reduce(f64::max);
    let target_iops = target_iops(data, test);
    Some(Headroom {
        target_iops,
        held_iops,
        broken_iops: iops_of(Outcome::Fail).reduce(f64::min),
        beyond_target: held_iops.zip(target_iops).map(|(held, target)| held / target - 1.0),
    })
}

fn checksums(data: &RunData, test: u32) -> Vec<ChecksumRow> {
    let rows = data.checksums.iter().filter(|row| row.test == test);
    rows.map(|row| ChecksumRow {
        origin: row.origin.clone(),
        read: row.read,
        read_share: row.read.share(),
        elapsed_s: seconds(row.elapsed_ms),
        mib_per_s: mib_per_s(row.read.bytes, row.elapsed_ms),
    })
    .collect()
}

fn backups(data: &RunData, test: u32) -> Vec<BackupRow> {
    let rows = data.backups.iter().filter(|row| row.test == test);
    rows.map(|row| BackupRow {
        origin: row.origin.clone(),
        destination: row.destination.clone(),
        bytes: row.bytes,
        bytes_expected: row.bytes_expected,
        read_share: row.share(),
        elapsed_s: seconds(row.elapsed_ms),
        mib_per_s: mib_per_s(row.bytes, row.elapsed_ms),
    })
    .collect()
}

fn recoveries(view: &TestView<'_>) -> Vec<RecoveryRow> {
    let rows = view.data.recoveries.iter().filter(|row| row.test == view.test.ordinal);
    rows.map(|row| {
        let scope = Scope::Instance(&row.origin.host, row.origin.instance.as_deref().unwrap_or_default());
        // A restore does batches before it and copies around it: its I/O is not that of the replay alone.
        let countable = row.logs > 0 && view.test.kind != "restore";
        let per_log =
            |measure| countable.then(|| view.totals(scope, &[measure]).count as f64 / row.logs as f64);
        RecoveryRow {
            origin: row.origin.clone(),
            logs: row.logs,
            elapsed_s: seconds(row.elapsed_ms),
            s_per_log: (row.logs > 0).then(|| seconds(row.elapsed_ms) / row.logs as f64),
            reads_per_log: per_log(READ),
            writes_per_log: per_log(WRITE),
            log_reads_per_log: per_log(LOG_READ),
            work: row.work.clone(),
        }
    })
    .collect()
}

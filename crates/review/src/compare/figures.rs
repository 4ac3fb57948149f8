//! The figures of a test that runs are compared by: value, and the interval by the same estimator.

use evidence::report::{Distribution, MeasureRow, Measured, SampleFigures, TestReport};
use results::batch_means::{Confidence, Spread, shown};
use results::{IoClass, IoTotals, Measure};

use super::statistics::{alarm, interval_pct, percentile_spread};
use super::{Better, Cell, Row, Subject};

const READ: Measure = Measure::Io(IoClass::TransactionalRead);
const WRITE: Measure = Measure::Io(IoClass::TransactionalWrite);
const LOG_WRITE: Measure = Measure::Io(IoClass::LogWrite);
const MAINTENANCE: Measure = Measure::Io(IoClass::MaintenanceRead);
const BACKUP: Measure = Measure::Io(IoClass::BackupRead);
const CHECKSUM: Measure = Measure::Io(IoClass::VerifyRead);
const LOG_READ: Measure = Measure::Io(IoClass::LogRead);
const MIB: f64 = (1 << 20) as f64;

/// Rates and latencies of a test over time, all hosts together. Empty for a report without its run.db.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    pub iops: Vec<SampleFigures>,
    pub reads: Vec<SampleFigures>,
    writes: Vec<SampleFigures>,
    pub log_writes: Vec<SampleFigures>,
    maintenance: Vec<SampleFigures>,
    read_latencies: Vec<Distribution>,
    log_write_latencies: Vec<Distribution>,
    backups: Vec<Reading>,
    checksums: Vec<Reading>,
    log_reads: Vec<Reading>,
    pub duration_s: f64,
}

/// Bytes read in a sample, and the seconds that all readers together spent reading in it.
type Reading = (f64, f64);

impl Series {
    pub fn of(subject: &Subject, test: Option<&TestReport>) -> Series {
        let (Some(data), Some(test)) = (&subject.data, test) else { return Series::default() };
        let Some(row) = data.tests.get(&test.ordinal) else { return Series::default() };
        let measured = Measured::new(data, row);
        if test.throughput.is_none() {
            return Series::of_reading(test, &measured);
        }
        // The report was made of the same distributions, so none is damaged.
        let latencies = |measure| measured.distributions(measure).unwrap_or_default();
        Series {
            iops: measured.samples(&[READ, WRITE]),
            reads: measured.samples(&[READ]),
            writes: measured.samples(&[WRITE]),
            log_writes: measured.samples(&[LOG_WRITE]),
            maintenance: measured.samples(&[MAINTENANCE]),
            read_latencies: latencies(READ),
            log_write_latencies: latencies(LOG_WRITE),
            duration_s: measured.seconds(),
            ..Series::default()
        }
    }

    /// The series of a test that reads files from end to end: backup, restore, checksum.
    fn of_reading(test: &TestReport, measured: &Measured<'_>) -> Series {
        let elapsed_s = match test.kind.as_str() {
            "backup" | "backup_to_disk" => test.backups.iter().map(|row| row.elapsed_s).collect(),
            "database_checksum" | "log_checksum" => test.checksums.iter().map(|row| row.elapsed_s).collect(),
            "soft_recovery" => test.recoveries.iter().map(|row| row.elapsed_s).collect(),
            // A restore reads one file after the other.
            _ => Vec::new(),
        };
        let read = |measure| reading(&measured.samples(&[measure]), &elapsed_s);
        Series {
            backups: read(BACKUP),
            checksums: read(CHECKSUM),
            log_reads: read(LOG_READ),
            ..Series::default()
        }
    }
}

/// Bytes and reading time of each sample. Readers begin together; the samples in which the first read and the last one
/// end are left out, because the part of them that was spent reading is not known.
fn reading(samples: &[SampleFigures], elapsed_s: &[f64]) -> Vec<Reading> {
    let reads = |sample: &SampleFigures| sample.totals.bytes > 0;
    let ends = (samples.iter().position(reads), samples.iter().rposition(reads));
    let (Some(first), Some(last)) = ends else { return Vec::new() };
    let began_s = samples[first].start_s;
    let inside = samples.iter().take(last).skip(first + 1).map(|sample| {
        let from_s = sample.start_s - began_s;
        let spent = elapsed_s.iter().map(|elapsed_s| (elapsed_s - from_s).clamp(0.0, sample.seconds));
        (sample.totals.bytes as f64, spent.sum())
    });
    inside.filter(|(_, spent_s)| *spent_s > 0.0).collect()
}

type Value = fn(&TestReport) -> Option<f64>;
type Interval = fn(&Series, &Confidence) -> Option<Spread>;

struct Figure {
    name: &'static str,
    unit: &'static str,
    better: Option<Better>,
    value: Value,
    interval: Interval,
}

/// The figures that runs are compared by: those of load tests, then of other tests.
const FIGURES: [Figure; 15] = [
    Figure {
        name: "Transactional I/O",
        unit: "1/s",
        better: Some(Better::Higher),
        value: |t| Some(t.throughput?.transactional_iops),
        interval: |s, c| rate(&s.iops, c),
    },
    Figure {
        name: "Database reads",
        unit: "1/s",
        better: None,
        value: |t| Some(t.throughput?.reads_per_s),
        interval: |s, c| rate(&s.reads, c),
    },
    Figure {
        name: "Database writes",
        unit: "1/s",
        better: None,
        value: |t| Some(t.throughput?.writes_per_s),
        interval: |s, c| rate(&s.writes, c),
    },
    Figure {
        name: "Log writes",
        unit: "1/s",
        better: None,
        value: |t| Some(t.throughput?.log_writes_per_s),
        interval: |s, c| rate(&s.log_writes, c),
    },
    Figure {
        name: "Read latency, mean",
        unit: "ms",
        better: Some(Better::Lower),
        value: |t| of_load(t, READ)?.figures.latency_ms_mean,
        interval: |s, c| mean_latency(&s.reads, c),
    },
    Figure {
        name: READ_P99,
        unit: "ms",
        better: Some(Better::Lower),
        value: |t| of_load(t, READ)?.percentiles.p99_ms,
        interval: |s, c| percentile_spread(&s.read_latencies, s.duration_s, 100.0, c),
    },
    Figure {
        name: "Read latency, worst sample",
        unit: "ms",
        better: None,
        value: |t| of_load(t, READ)?.figures.latency_ms_sample_max,
        interval: |_, _| None,
    },
    Figure {
        name: "Write latency, mean",
        unit: "ms",
        better: None,
        value: |t| of_load(t, WRITE)?.figures.latency_ms_mean,
        interval: |s, c| mean_latency(&s.writes, c),
    },
    Figure {
        name: "Log write latency, mean",
        unit: "ms",
        better: Some(Better::Lower),
        value: |t| of_load(t, LOG_WRITE)?.figures.latency_ms_mean,
        interval: |s, c| mean_latency(&s.log_writes, c),
    },
    Figure {
        name: LOG_WRITE_P99,
        unit: "ms",
        better: Some(Better::Lower),
        value: |t| of_load(t, LOG_WRITE)?.percentiles.p99_ms,
        interval: |s, c| percentile_spread(&s.log_write_latencies, s.duration_s, 100.0, c),
    },
    Figure {
        name: "Maintenance reads",
        unit: "1/s",
        better: None,
        value: |t| Some(of_load(t, MAINTENANCE)?.figures.per_s),
        interval: |s, c| rate(&s.maintenance, c),
    },
    Figure {
        name: "Backup of a database",
        unit: "MiB/s",
        better: Some(Better::Higher),
        value: |t| mib_per_s(t.backups.iter().map(|row| (row.bytes, row.elapsed_s))),
        interval: |s, c| Spread::of_scan(&s.backups, c),
    },
    Figure {
        name: "Checksum of a database",
        unit: "MiB/s",
        better: Some(Better::Higher),
        value: |t| checksum(t, true),
        interval: |s, c| Spread::of_scan(&s.checksums, c),
    },
    Figure {
        name: "Checksum of the logs of an instance",
        unit: "MiB/s",
        better: Some(Better::Higher),
        value: |t| checksum(t, false),
        interval: |s, c| Spread::of_scan(&s.log_reads, c),
    },
    Figure {
        name: "Replay of one log",
        unit: "s",
        better: Some(Better::Lower),
        value: |t| {
            let logs: u64 = t.recoveries.iter().map(|row| row.logs).sum();
            let elapsed_s: f64 = t.recoveries.iter().map(|row| row.elapsed_s).sum();
            (logs > 0).then(|| elapsed_s / logs as f64)
        },
        interval: |s, c| {
            let seconds_of_bytes: Vec<_> =
                s.log_reads.iter().map(|(bytes, spent_s)| (*spent_s, *bytes)).collect();
            Spread::of_scan(&seconds_of_bytes, c)
        },
    },
];

const READ_P99: &str = "Read latency, p99";
const LOG_WRITE_P99: &str = "Log write latency, p99";

/// The row of a measure, if the test has a load.
fn of_load(test: &TestReport, measure: Measure) -> Option<&MeasureRow> {
    let row = test.measures.iter().find(|row| row.measure == measure.name());
    row.filter(|_| test.throughput.is_some())
}

/// MiB per second and reader: bytes by seconds, over all readers together.
fn mib_per_s(rows: impl Iterator<Item = (u64, f64)>) -> Option<f64> {
    let (bytes, elapsed_s) = rows.fold((0.0, 0.0), |(bytes, s), row| (bytes + row.0 as f64, s + row.1));
    (bytes > 0.0 && elapsed_s > 0.0).then(|| bytes / MIB / elapsed_s)
}

/// Read rate of a checksum test. A backup verifies what it reads anyhow, and has a figure of its own.
fn checksum(test: &TestReport, of_databases: bool) -> Option<f64> {
    let rows = test.checksums.iter().filter(|row| row.origin.database.is_some() == of_databases);
    mib_per_s(rows.filter(|_| test.backups.is_empty()).map(|row| (row.read.bytes, row.elapsed_s)))
}

fn spread(
    samples: &[SampleFigures],
    confidence: &Confidence,
    parts: fn(&IoTotals, f64) -> (f64, f64),
) -> Option<Spread> {
    let pairs: Vec<_> = samples.iter().map(|sample| parts(&sample.totals, sample.seconds)).collect();
    Spread::of_ratio(&pairs, confidence)
}

fn rate(samples: &[SampleFigures], confidence: &Confidence) -> Option<Spread> {
    spread(samples, confidence, |totals, seconds| (totals.count as f64, seconds))
}

fn mean_latency(samples: &[SampleFigures], confidence: &Confidence) -> Option<Spread> {
    spread(samples, confidence, |totals, _| (totals.latency_ns_sum as f64, totals.count as f64))
}

/// Every figure that at least one run has. `is_printed` says of each run whether it has no series from which noise can
/// be estimated, `judged` how many of its figures are judged in all tests.
pub fn figures(
    tests: &[Option<&TestReport>],
    series: &[Series],
    is_printed: &[bool],
    judged: &[usize],
) -> Vec<Row> {
    let is_printed_base = is_printed.first().is_some_and(|is_printed| *is_printed);
    let row = |figure: &Figure| {
        let values: Vec<Option<f64>> = tests.iter().map(|test| test.and_then(figure.value)).collect();
        let is_percentile = [READ_P99, LOG_WRITE_P99].contains(&figure.name);
        values.iter().any(Option::is_some).then(|| {
            let mut cells = cells(&values, judged, |n, confidence| (figure.interval)(&series[n], confidence));
            for (cell, is_printed) in cells.iter_mut().zip(is_printed) {
                let by_value = !is_percentile && (*is_printed || is_printed_base);
                let can_be = cell.alarm_interval_pct.is_some() || by_value;
                cell.judged = figure.better.is_some() && cell.difference_pct.is_some() && can_be;
            }
            let (name, unit, better) = (figure.name, figure.unit, figure.better);
            Row { name, unit, better, is_percentile, cells, runs: Vec::new() }
        })
    };
    FIGURES.iter().filter_map(row).collect()
}

fn cells(
    values: &[Option<f64>],
    judged: &[usize],
    spread: impl Fn(usize, &Confidence) -> Option<Spread>,
) -> Vec<Cell> {
    let base = values.first().copied().flatten().filter(|base| *base != 0.0);
    values
        .iter()
        .enumerate()
        .map(|(n, value)| {
            let (Some(base), Some(own), true) = (base, *value, n > 0) else {
                return Cell { value: *value, ..Cell::default() };
            };
            let interval = |confidence: &Confidence| {
                let spreads = spread(0, confidence).zip(spread(n, confidence));
                spreads.and_then(|(a, b)| interval_pct((base, a), (own, b)))
            };
            Cell {
                value: *value,
                difference_pct: Some(100.0 * (own - base) / base),
                interval_pct: interval(&shown()),
                alarm_interval_pct: interval(&alarm(judged[n])),
                ..Cell::default()
            }
        })
        .collect()
}

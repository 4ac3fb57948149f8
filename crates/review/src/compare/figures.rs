//! The figures of a test that runs are compared by: value, and the interval by the same estimator.

use evidence::report::{Distribution, MeasureRow, Measured, SampleFigures, TestReport};
use results::{IoClass, Measure, Tally};

use super::statistics::{ALARM, Confidence, SHOWN, Spread, interval_pct};
use super::{Better, Cell, Row, Subject};

const READ: Measure = Measure::Io(IoClass::TransactionalRead);
const WRITE: Measure = Measure::Io(IoClass::TransactionalWrite);
const LOG_WRITE: Measure = Measure::Io(IoClass::LogWrite);
const MAINTENANCE: Measure = Measure::Io(IoClass::MaintenanceRead);
const BACKUP: Measure = Measure::Io(IoClass::BackupRead);
const CHECKSUM: Measure = Measure::Io(IoClass::VerifyRead);

/// What a test did over time, all hosts together. Empty where only a report is there.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    pub iops: Vec<SampleFigures>,
    pub reads: Vec<SampleFigures>,
    writes: Vec<SampleFigures>,
    pub log_writes: Vec<SampleFigures>,
    maintenance: Vec<SampleFigures>,
    read_latencies: Vec<Distribution>,
    log_write_latencies: Vec<Distribution>,
    /// Of a backup or a checksum.
    read_through: Vec<SampleFigures>,
    pub duration_s: f64,
}

impl Series {
    pub fn of(subject: &Subject, test: Option<&TestReport>) -> Series {
        let (Some(data), Some(test)) = (&subject.data, test) else { return Series::default() };
        let Some(row) = data.tests.get(&test.ordinal) else { return Series::default() };
        let measured = Measured::new(data, row);
        if test.throughput.is_none() {
            return Series { read_through: measured.samples(&[BACKUP, CHECKSUM]), ..Series::default() };
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
            read_through: Vec::new(),
            duration_s: measured.seconds(),
        }
    }
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

/// Figures of loads, then of other tests.
const FIGURES: [Figure; 14] = [
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
        interval: |s, c| Spread::of_percentile(&s.read_latencies, s.duration_s, 100.0, c),
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
        interval: |s, c| Spread::of_percentile(&s.log_write_latencies, s.duration_s, 100.0, c),
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
        value: |t| mean_of(t.backups.iter().map(|row| row.mib_per_s)),
        interval: |s, c| bandwidth(&s.read_through, c),
    },
    Figure {
        name: "Checksum of a database",
        unit: "MiB/s",
        better: Some(Better::Higher),
        value: |t| mean_of(t.checksums.iter().map(|row| row.mib_per_s)),
        interval: |s, c| bandwidth(&s.read_through, c),
    },
    Figure {
        name: "Replay of one log",
        unit: "s",
        better: Some(Better::Lower),
        value: |t| mean_of(t.recoveries.iter().map(|row| row.s_per_log)),
        interval: |_, _| None,
    },
];

const READ_P99: &str = "Read latency, p99";
const LOG_WRITE_P99: &str = "Log write latency, p99";

/// A measure of a test with a load.
fn of_load(test: &TestReport, measure: Measure) -> Option<&MeasureRow> {
    let row = test.measures.iter().find(|row| row.measure == measure.name());
    row.filter(|_| test.throughput.is_some())
}

fn mean_of(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.flatten().collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn spread(
    samples: &[SampleFigures],
    confidence: &Confidence,
    parts: fn(&Tally, f64) -> (f64, f64),
) -> Option<Spread> {
    let pairs: Vec<_> = samples.iter().map(|sample| parts(&sample.tally, sample.seconds)).collect();
    Spread::of_ratio(&pairs, confidence)
}

fn rate(samples: &[SampleFigures], confidence: &Confidence) -> Option<Spread> {
    spread(samples, confidence, |tally, seconds| (tally.count as f64, seconds))
}

fn bandwidth(samples: &[SampleFigures], confidence: &Confidence) -> Option<Spread> {
    spread(samples, confidence, |tally, seconds| (tally.bytes as f64, seconds))
}

fn mean_latency(samples: &[SampleFigures], confidence: &Confidence) -> Option<Spread> {
    spread(samples, confidence, |tally, _| (tally.latency_ns_sum as f64, tally.count as f64))
}

/// Every figure that at least one run has.
pub fn figures(tests: &[Option<&TestReport>], series: &[Series]) -> Vec<Row> {
    let row = |figure: &Figure| {
        let values: Vec<Option<f64>> = tests.iter().map(|test| test.and_then(figure.value)).collect();
        values.iter().any(Option::is_some).then(|| Row {
            name: figure.name,
            unit: figure.unit,
            better: figure.better,
            is_percentile: [READ_P99, LOG_WRITE_P99].contains(&figure.name),
            cells: cells(&values, |confidence| {
                series.iter().map(|series| (figure.interval)(series, confidence)).collect()
            }),
        })
    };
    FIGURES.iter().filter_map(row).collect()
}

fn cells(values: &[Option<f64>], spreads: impl Fn(&Confidence) -> Vec<Option<Spread>>) -> Vec<Cell> {
    let base = values.first().copied().flatten().filter(|base| *base != 0.0);
    let (shown, alarm) = (spreads(&SHOWN), spreads(&ALARM));
    values
        .iter()
        .enumerate()
        .map(|(n, value)| {
            let (Some(base), Some(own), true) = (base, *value, n > 0) else {
                return Cell { value: *value, ..Cell::default() };
            };
            let interval = |spreads: &[Option<Spread>]| {
                spreads[0].zip(spreads[n]).and_then(|(a, b)| interval_pct((base, a), (own, b)))
            };
            Cell {
                value: *value,
                difference_pct: Some(100.0 * (own - base) / base),
                interval_pct: interval(&shown),
                alarm_interval_pct: interval(&alarm),
            }
        })
        .collect()
}

//! A running run as OpenMetrics text, for Prometheus and its like.
//!
//! Every sample carries the labels `run` and `world`, and where it was measured: `host`, and for a database
//! `instance` and `database`. All are gauges: figures of the newest interval, not totals.

use std::fmt::Write;

use results::WorldKind;

use super::{LiveRates, LiveView};

type Figure = (&'static str, &'static str, fn(&LiveRates) -> Option<f64>);

const FIGURES: [Figure; 8] = [
    ("batches_per_second", "Batches per second.", |r| Some(r.batches_per_s)),
    ("transactional_io_per_second", "Database reads and writes for transactions per second.", |r| {
        Some(r.iops)
    }),
    ("bytes_per_second", "Bytes moved per second, all classes.", |r| Some(r.mib_per_s * f64::from(1 << 20))),
    ("read_latency_seconds", "Mean latency of database reads for transactions.", |r| Some(r.read_ms? / 1e3)),
    ("read_latency_max_seconds", "Longest latency of a database read.", |r| Some(r.read_max_ms? / 1e3)),
    ("write_latency_seconds", "Mean latency of database writes.", |r| Some(r.write_ms? / 1e3)),
    ("log_write_latency_seconds", "Mean latency of log writes.", |r| Some(r.log_write_ms? / 1e3)),
    ("generator_busy_ratio", "Processor time of the load generator, of what it could use.", |r| {
        r.generator_busy
    }),
];

/// The figures of all `views` in the text form of OpenMetrics, `# EOF` included.
pub fn open_metrics(views: &[LiveView]) -> String {
    let mut text = String::new();
    for (scope, rows) in
        [("host", (|v| &v.hosts) as fn(&LiveView) -> &Vec<LiveRates>), ("database", |v| &v.databases)]
    {
        for (name, help, figure) in FIGURES {
            let name = format!("proofload_{scope}_{name}");
            let mut samples = String::new();
            for view in views {
                for rates in rows(view) {
                    if let Some(value) = figure(rates) {
                        let _ = writeln!(samples, "{name}{{{}}} {value}", labels(view, Some(rates)));
                    }
                }
            }
            if !samples.is_empty() {
                let _ = write!(text, "# TYPE {name} gauge\n# HELP {name} {help}\n{samples}");
            }
        }
    }
    type OfRun = (&'static str, &'static str, fn(&LiveView) -> f64);
    let of_run: [OfRun; 4] = [
        ("proofload_elapsed_seconds", "Time since the run started.", |v| v.elapsed_s),
        ("proofload_test", "Place of the running test in the campaign.", |v| {
            v.tests.last().map_or(0.0, |test| f64::from(test.ordinal))
        }),
        ("proofload_verdicts_passed", "Judgements that passed so far.", |v| f64::from(v.passed)),
        ("proofload_verdicts_failed", "Judgements that failed so far.", |v| f64::from(v.failed)),
    ];
    for (name, help, value) in of_run {
        if !views.is_empty() {
            let _ = write!(text, "# TYPE {name} gauge\n# HELP {name} {help}\n");
        }
        for view in views {
            let _ = writeln!(text, "{name}{{{}}} {}", labels(view, None), value(view));
        }
    }
    text.push_str("# EOF\n");
    text
}

fn labels(view: &LiveView, rates: Option<&LiveRates>) -> String {
    let world = if view.world == WorldKind::Real { "real" } else { "simulated" };
    let mut pairs = vec![("run", view.id.as_str()), ("world", world)];
    if let Some(rates) = rates {
        pairs.push(("host", &rates.origin.host));
        pairs.extend(rates.origin.instance.as_deref().map(|name| ("instance", name)));
        pairs.extend(rates.origin.database.as_deref().map(|name| ("database", name)));
    }
    pairs.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect::<Vec<_>>().join(",")
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

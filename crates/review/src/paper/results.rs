//! What came out: reliability, throughput per server and together, backup, replay, and the details.

use evidence::Report;
use evidence::report::{PLANNED_IO, TestReport, bytes, duration, number, significant};
use results::Outcome;

use super::Subject;
use super::document::{Block, Section};

const LOAD_HEAD: [&str; 9] = [
    "Server",
    "I/O per s",
    "Reads per s",
    "Writes per s",
    "Read ms",
    "Write ms",
    "Log writes per s",
    "Log write ms",
    "Read p99 ms",
];

/// The summary of the results.
pub fn summary(subject: &Subject<'_>) -> Section {
    let mut section = Section::new(subject.title("Test result summary"));
    reliability(subject, &mut section);
    for (report, test) in tests(subject).filter(|(_, test)| test.throughput.is_some()) {
        section.heading(subject.title(&format!("{}: servers and aggregate", test.name)));
        section.text(test.lead.clone());
        section.table(&LOAD_HEAD, load_rows(report, test));
        let target = test.planned.iter().find(|row| row.name == PLANNED_IO);
        if let Some((planned, achieved)) = target.and_then(|row| row.planned.zip(row.achieved)) {
            section.text(format!(
                "Target: {} I/O per second; {}: {}.",
                significant(planned),
                subject.done(),
                significant(achieved)
            ));
        }
    }
    let mut backups: Vec<Vec<String>> = Vec::new();
    for (_, test) in tests(subject).filter(|(_, test)| !test.backups.is_empty()) {
        backups.extend(test.backups.iter().map(|row| {
            vec![
                test.name.clone(),
                row.origin.host.clone(),
                row.origin.database.clone().unwrap_or_default(),
                bytes(row.bytes as f64),
                duration(row.elapsed_s),
                row.mib_per_s.map_or("–".to_owned(), |rate| number(rate, 2)),
            ]
        }));
        backups.extend(backup_sums(test));
    }
    if !backups.is_empty() {
        section.heading(subject.title("Backup"));
    }
    section.table(&["Test", "Server", "Database", "Size", "Time", "MiB/s"], backups);
    let mut replays: Vec<Vec<String>> = tests(subject)
        .flat_map(|(_, test)| &test.recoveries)
        .map(|row| {
            vec![
                row.origin.host.clone(),
                row.origin.instance.clone().unwrap_or_default(),
                row.logs.to_string(),
                duration(row.elapsed_s),
                row.s_per_log.map_or("–".to_owned(), |seconds| number(seconds, 3)),
            ]
        })
        .collect();
    let rows = || tests(subject).flat_map(|(_, test)| &test.recoveries);
    let (logs, elapsed_s) = rows().fold((0, 0.0), |(logs, s), row| (logs + row.logs, s + row.elapsed_s));
    if logs > 0 {
        let per_log = number(elapsed_s / logs as f64, 3);
        replays.push(vec!["all".into(), String::new(), logs.to_string(), duration(elapsed_s), per_log]);
    }
    if !replays.is_empty() {
        section.heading(subject.title("Log replay"));
    }
    section.table(&["Server", "Instance", "Logs", "Time", "Seconds per log"], replays);
    section
}

fn tests<'a>(subject: &'a Subject<'_>) -> impl Iterator<Item = (&'a Report, &'a TestReport)> {
    subject.runs.iter().flat_map(|report| report.tests.iter().map(move |test| (report, test)))
}

fn reliability(subject: &Subject<'_>, section: &mut Section) {
    section.heading(subject.title("Reliability"));
    let rows = tests(subject)
        .map(|(_, test)| {
            let judged = test.verdicts.iter().filter(|verdict| verdict.outcome != Outcome::Info).count();
            let kept = test.verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Pass).count();
            let bad: u64 = test.checksums.iter().map(|row| row.read.damaged()).sum();
            vec![
                test.name.clone(),
                duration(test.window.map_or(test.duration_s, |window| window.duration_s)),
                format!("{kept} of {judged}"),
                if test.checksums.is_empty() { "–".to_owned() } else { bad.to_string() },
                if test.ended { "yes" } else { "no" }.to_owned(),
            ]
        })
        .collect();
    section.table(&["Test", "Length", "Limits kept", "Bad pages", "Carried out to its end"], rows);
}

/// Operations per second, mean latency and 99th percentile in ms.
type Measured = Option<(f64, Option<f64>, Option<f64>)>;

fn load_rows(report: &Report, test: &TestReport) -> Vec<Vec<String>> {
    let row = |name: &str, of: &dyn Fn(&str) -> Measured| {
        let (read, write, log) = (of("transactional_read"), of("transactional_write"), of("log_write"));
        let rate = |figures: Measured| figures.map_or(0.0, |(rate, _, _)| rate);
        let latency = |figures: Measured| {
            figures.and_then(|(_, latency, _)| latency).map_or("–".to_owned(), |ms| number(ms, 3))
        };
        vec![
            name.to_owned(),
            number(rate(read) + rate(write), 2),
            number(rate(read), 2),
            number(rate(write), 2),
            latency(read),
            latency(write),
            number(rate(log), 2),
            latency(log),
            read.and_then(|(_, _, p99)| p99).map_or("–".to_owned(), |ms| number(ms, 3)),
        ]
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    let aggregate = |measure: &str| {
        let found = test.measures.iter().find(|row| row.measure == measure)?;
        Some((found.figures.per_s, found.figures.latency_ms_mean, found.percentiles.p99_ms))
    };
    for host in &report.hosts {
        rows.push(row(&host.name, &|measure| {
            // Reports have rows by host only where there are several.
            if report.hosts.len() == 1 {
                return aggregate(measure);
            }
            let found = test.hosts.iter().find(|row| row.host == host.name && row.measure == measure)?;
            Some((found.figures.per_s, found.figures.latency_ms_mean, found.percentiles.p99_ms))
        }));
    }
    rows.push(row("Aggregate", &aggregate));
    if rows.len() > 2 {
        rows.push(row("Aggregate, latency as the mean of the servers", &|measure| {
            let (rate, _, _) = aggregate(measure)?;
            let of_hosts = test.hosts.iter().filter(|row| row.measure == measure);
            let latencies: Vec<f64> = of_hosts.filter_map(|row| row.figures.latency_ms_mean).collect();
            let mean = latencies.iter().sum::<f64>() / latencies.len() as f64;
            Some((rate, (!latencies.is_empty()).then_some(mean), None))
        }));
    }
    rows
}

/// Rates of a backup as papers print them: mean of the databases and sum of each server.
fn backup_sums(test: &TestReport) -> Vec<Vec<String>> {
    let rates: Vec<(&str, f64)> =
        test.backups.iter().filter_map(|row| Some((row.origin.host.as_str(), row.mib_per_s?))).collect();
    let mut hosts: Vec<&str> = rates.iter().map(|(host, _)| *host).collect();
    hosts.dedup();
    let line = |host: &str, what: &str, rate: f64| {
        let cells = [&test.name, host, what, "", "", &number(rate, 2)];
        cells.map(str::to_owned).to_vec()
    };
    let of_all = rates.iter().map(|(_, rate)| rate).sum::<f64>() / rates.len().max(1) as f64;
    let mut lines = vec![line("all", "mean of the databases", of_all)];
    for host in hosts {
        let sum = rates.iter().filter(|(at, _)| *at == host).map(|(_, rate)| rate).sum();
        lines.push(line(host, "sum of the server", sum));
    }
    lines
}

/// The section about backup: what was measured, and a place for the author's strategy.
pub fn backup_strategy(subject: &Subject<'_>) -> Section {
    let mut section = Section::new("Backup strategy");
    section.author("how this solution is backed up and restored, and which copies stand in for a backup");
    for (_, test) in tests(subject).filter(|(_, test)| !test.backups.is_empty()) {
        section.text(format!("{} ({}): {}", test.name, subject.done(), test.lead));
    }
    section
}

/// The appendices: limits and instances of every test, and a link to the whole report.
pub fn appendices(subject: &Subject<'_>) -> Vec<Section> {
    let runs = subject.runs.iter().enumerate();
    runs.map(|(n, report)| {
        let mut section = Section::new(subject.title(&format!("Appendix {}: run {}", n + 1, report.run.id)));
        section.blocks.push(Block::File(file_name(n), format!("The whole report of run {}", report.run.id)));
        for test in &report.tests {
            section.heading(subject.title(&test.name));
            section.text(test.lead.clone());
            section.table(&["Limit", "Of", "Measured", "Limit is", "Outcome"], verdicts(test));
            section.table(
                &[
                    "Instance",
                    "Reads per s",
                    "Read ms",
                    "Writes per s",
                    "Write ms",
                    "Log writes per s",
                    "Log write ms",
                ],
                instances(test),
            );
        }
        section
    })
    .collect()
}

/// Name of the file beside the paper that holds the report of a run.
pub fn file_name(run: usize) -> String {
    format!("appendix-{}.html", run + 1)
}

fn verdicts(test: &TestReport) -> Vec<Vec<String>> {
    let value = |value: Option<f64>, unit: &str| {
        value.map_or("–".to_owned(), |value| format!("{} {unit}", significant(value)).trim_end().to_owned())
    };
    test.verdicts
        .iter()
        .map(|verdict| {
            let at = &verdict.origin;
            let of = at.database.as_ref().or(at.instance.as_ref()).unwrap_or(&at.host);
            let outcome = match verdict.outcome {
                Outcome::Pass => "pass",
                Outcome::Fail => "FAIL",
                Outcome::Unproved => "not proved",
                Outcome::Info => "–",
            };
            vec![
                verdict.text.clone(),
                of.clone(),
                value(verdict.measured, &verdict.unit),
                value(verdict.limit, &verdict.unit),
                outcome.to_owned(),
            ]
        })
        .collect()
}

fn instances(test: &TestReport) -> Vec<Vec<String>> {
    if test.throughput.is_none() {
        return Vec::new();
    }
    test.instances
        .iter()
        .map(|row| {
            let rate = |figures: Option<evidence::report::Figures>| {
                figures.map_or("–".to_owned(), |f| number(f.per_s, 3))
            };
            let latency = |figures: Option<evidence::report::Figures>| {
                figures.and_then(|f| f.latency_ms_mean).map_or("–".to_owned(), |ms| number(ms, 3))
            };
            vec![
                format!("{} {}", row.origin.host, row.origin.instance.as_deref().unwrap_or_default()),
                rate(row.reads),
                latency(row.reads),
                rate(row.writes),
                latency(row.writes),
                rate(row.log_writes),
                latency(row.log_writes),
            ]
        })
        .collect()
}

//! What the counters say of the users: the tables of a solution file, with what they do not say.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::super::config::comment;
use super::columns::{Figure, Subject};
use super::log::{Hour, Logs, Queue, Series};

/// Share of an hour that must have samples before the hour counts.
const COVERED: f64 = 0.8;
/// Hours of a day that must have counts of log files before the day counts.
const HOURS_OF_A_DAY: usize = 23;
/// Largest factor between rate times latency and queue length that is still agreement.
const AGREES: f64 = 1.5;
/// Queue length below which the two cannot be compared.
const SHORT_QUEUE: f64 = 0.1;
/// Smallest number of samples on which a contradiction is reported.
const MANY: u32 = 30;

/// The profile of users as part of a solution file, and warnings.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// The TOML text of `[profile]` and `[load]`, with comments.
    pub text: String,
    /// Limits of its figures, a sentence each.
    pub warnings: Vec<String>,
}

/// Database reads and writes of one hour, summed up.
#[derive(Debug, Clone, Copy, Default)]
struct Load {
    reads: f64,
    writes: f64,
    log_writes: f64,
    logs: Option<f64>,
    covered: f64,
}

impl Load {
    fn io(self) -> f64 {
        self.reads + self.writes
    }

    /// Adds the hour of one database on one server.
    fn add(&mut self, hour: &Hour) {
        let mean = |figure| hour.mean(figure).unwrap_or(0.0);
        self.reads += mean(Figure::Reads);
        self.writes += mean(Figure::Writes);
        self.log_writes += mean(Figure::LogWrites);
        self.logs = hour.logs().map(|logs| logs + self.logs.unwrap_or(0.0)).or(self.logs);
        self.covered = self.covered.max(hour.covered(Figure::Reads).min(hour.covered(Figure::Writes)));
    }
}

/// Hours of each database, summed over all servers that have a copy.
type Databases<'a> = BTreeMap<&'a str, BTreeMap<i64, Load>>;

/// Makes the profile; `mailboxes` are those of the databases in the logs. None where no log has reads and writes of a
/// database for most of an hour.
pub fn profile(logs: &Logs, mailboxes: Option<u64>) -> Option<Profile> {
    let databases = databases(logs);
    let mut warnings = warnings(logs);
    let measured = measured_hours(&databases, &mut warnings);
    let (&peak, _) = measured.iter().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let hours = HoursOfDay::new(&measured, peak);
    warnings.extend(hours.told());
    let at_peak: Vec<(&str, Load)> = databases
        .iter()
        .map(|(name, hours)| (*name, hours.get(&peak).copied().unwrap_or_default()))
        .collect();
    let total = sum(at_peak.iter().map(|(_, load)| *load));
    let day = busiest_day(&databases);
    if day.is_none() {
        warnings
            .push(format!("no day has log counts for {HOURS_OF_A_DAY} hours, so logs per day are not known"));
    }
    let mut text = String::from("# Made of performance counters.\n");
    for warning in &warnings {
        let _ = writeln!(text, "# Note: {}.", comment(warning));
    }
    head(&mut text, logs, peak, total);
    text += "\n[profile]\n";
    figures(&mut text, total, day, mailboxes);
    distribution(&mut text, &at_peak);
    hours.write(&mut text, &databases);
    Some(Profile { text, warnings })
}

fn databases(logs: &Logs) -> Databases<'_> {
    let mut databases = Databases::new();
    for (subject, series) in &logs.series {
        if let Subject::Database { name, .. } = subject {
            let hours = databases.entry(name).or_default();
            for (hour, sums) in &series.hours {
                hours.entry(*hour).or_default().add(sums);
            }
        }
    }
    databases
}

fn sum(loads: impl Iterator<Item = Load>) -> Load {
    loads.fold(Load::default(), |sum, load| Load {
        reads: sum.reads + load.reads,
        writes: sum.writes + load.writes,
        log_writes: sum.log_writes + load.log_writes,
        logs: load.logs.map(|logs| logs + sum.logs.unwrap_or(0.0)).or(sum.logs),
        covered: 0.0,
    })
}

/// I/O per second of each hour that has samples of every database; if there is none, of the most databases.
fn measured_hours(databases: &Databases<'_>, warnings: &mut Vec<String>) -> BTreeMap<i64, f64> {
    let mut found = BTreeMap::<i64, (usize, f64)>::new();
    for hours in databases.values() {
        for (hour, load) in hours.iter().filter(|(_, load)| load.covered >= COVERED) {
            let (count, io) = found.entry(*hour).or_default();
            *count += 1;
            *io += load.io();
        }
    }
    let most = found.values().map(|(count, _)| *count).max().unwrap_or(0);
    if (1..databases.len()).contains(&most) {
        let all = databases.len();
        warnings
            .push(format!("no hour has samples of all {all} databases; the peak hour has {most} of them"));
    }
    let complete = found.into_iter().filter(|(_, (count, _))| *count == most);
    complete.map(|(hour, (_, io))| (hour, io)).collect()
}

/// Log files of the day with the most, and of that day's busiest hour.
fn busiest_day(databases: &Databases<'_>) -> Option<(f64, f64)> {
    let mut hours = BTreeMap::<i64, (usize, f64)>::new();
    for (hour, load) in databases.values().flatten() {
        if let Some(logs) = load.logs {
            let (count, sum) = hours.entry(*hour).or_default();
            *count += 1;
            *sum += logs;
        }
    }
    let mut days = BTreeMap::<i64, Vec<f64>>::new();
    for (hour, (count, logs)) in hours {
        if count == databases.len() {
            days.entry(hour.div_euclid(24)).or_default().push(logs);
        }
    }
    let whole = days.into_values().filter(|hours| hours.len() >= HOURS_OF_A_DAY);
    let figures = whole.map(|hours| {
        let logs = hours.iter().sum::<f64>() * 24.0 / hours.len() as f64;
        (logs, hours.iter().copied().fold(0.0, f64::max))
    });
    figures.max_by(|a, b| a.0.total_cmp(&b.0))
}

fn head(text: &mut String, logs: &Logs, peak: i64, total: Load) {
    let count =
        |is_meant: fn(&Subject) -> bool| logs.series.keys().filter(|subject| is_meant(subject)).count();
    let _ = writeln!(
        text,
        "# {} to {}, times of the servers; {} samples, {} copies of databases, {} disks.\n\
         # Peak hour: from {}, {:.2} I/O per second ({:.2} reads, {:.2} writes), {:.2} log writes per second.",
        moment(logs.first_s.unwrap_or(0)),
        moment(logs.last_s.unwrap_or(0)),
        logs.samples,
        count(|subject| matches!(subject, Subject::Database { .. })),
        count(|subject| matches!(subject, Subject::Disk { .. })),
        moment(peak * 3600),
        total.io(),
        total.reads,
        total.writes,
        total.log_writes
    );
}

/// The keys of the profile; those per mailbox stay comments while the number of mailboxes is not known.
fn figures(text: &mut String, total: Load, day: Option<(f64, f64)>, mailboxes: Option<u64>) {
    let per_mailbox = |value: f64| mailboxes.map(|count| value / count as f64);
    let mut key = |name: &str, value: Option<f64>, unknown: &str| {
        let _ = match value {
            Some(value) => writeln!(text, "{name} = {value:.6}"),
            None => writeln!(text, "# {name} = {unknown}"),
        };
    };
    key("iops_per_mailbox", per_mailbox(total.io()), &format!("{:.2} / mailboxes", total.io()));
    let share = (total.io() > 0.0).then(|| 100.0 * total.reads / total.io());
    key("read_percent", share, "not known: no I/O");
    let logs = day.map(|(logs, _)| logs);
    let unknown = logs.map_or("not known".to_owned(), |logs| format!("{logs:.1} / mailboxes"));
    key("logs_per_mailbox_day", logs.and_then(per_mailbox), &unknown);
    let share = day.filter(|(logs, _)| *logs > 0.0).map(|(logs, most)| 100.0 * most / logs);
    key("peak_hour_log_percent", share, "not known");
    let _ = match mailboxes {
        Some(count) => writeln!(text, "mailboxes = {count}"),
        None => writeln!(text, "# mailboxes = not known: active mailboxes of these databases"),
    };
    text.push_str(
        "# Not in counters: exchange, messages_per_day, quota_mb. The figures hold no room for growth:\n\
         # headroom_percent adds it.\n",
    );
}

fn distribution(text: &mut String, at_peak: &[(&str, Load)]) {
    let mut loads = at_peak.to_vec();
    loads.sort_by(|(_, a), (_, b)| b.io().total_cmp(&a.io()));
    let mean = loads.iter().map(|(_, load)| load.io()).sum::<f64>() / loads.len() as f64;
    let busiest = loads.first().map_or(0.0, |(_, load)| load.io());
    let _ = writeln!(
        text,
        "\n# Databases in the peak hour; the busiest has {:.2} times the mean of {mean:.2} I/O per second.\n\
         # {:>10} {:>10} {:>10} {:>10}  database",
        if mean > 0.0 { busiest / mean } else { 0.0 },
        "I/O/s",
        "reads/s",
        "writes/s",
        "log/s"
    );
    for (name, load) in loads {
        let (io, Load { reads, writes, log_writes, .. }) = (load.io(), load);
        let _ =
            writeln!(text, "# {io:>10.2} {reads:>10.2} {writes:>10.2} {log_writes:>10.2}  {}", comment(name));
    }
}

/// Hours of the peak hour's day, relative to the peak hour.
struct HoursOfDay {
    /// Day since 1970, in the time of the servers.
    day: i64,
    /// Load in percent of the peak hour.
    percent: [f64; 24],
    /// Whether the hour was measured.
    is_measured: [bool; 24],
}

impl HoursOfDay {
    /// An hour that was not measured gets the load of the busier of the measured hours before and after it: rather too
    /// much load than too little.
    fn new(measured: &BTreeMap<i64, f64>, peak: i64) -> HoursOfDay {
        let day = peak.div_euclid(24);
        let of_hour = |hour: usize| measured.get(&(day * 24 + hour as i64)).copied();
        let beside = |hour: usize| {
            let after = (1..24).find_map(|hours| of_hour((hour + hours) % 24));
            let before = (1..24).find_map(|hours| of_hour((hour + 24 - hours) % 24));
            after.unwrap_or(0.0).max(before.unwrap_or(0.0))
        };
        let io: [f64; 24] = std::array::from_fn(|hour| of_hour(hour).unwrap_or_else(|| beside(hour)));
        let most = measured.get(&peak).copied().unwrap_or(0.0);
        HoursOfDay {
            day,
            percent: io.map(|io| if most > 0.0 { 100.0 * io / most } else { 100.0 }),
            is_measured: std::array::from_fn(|hour| of_hour(hour).is_some()),
        }
    }

    /// A warning about the hours that were not measured.
    fn told(&self) -> Option<String> {
        let missing: Vec<String> =
            (0..24).filter(|&hour| !self.is_measured[hour]).map(|hour: usize| hour.to_string()).collect();
        (!missing.is_empty()).then(|| {
            format!(
                "hours of the peak hour's day without enough samples: {}; in hours_percent each has the load of the \
                 busier of the measured hours before and after it",
                missing.join(", ")
            )
        })
    }

    /// Writes `[load]`, below comments with reads, writes and logs of each hour, all databases together.
    fn write(&self, text: &mut String, databases: &Databases<'_>) {
        let _ = writeln!(
            text,
            "\n# The day of the peak hour, all databases; - marks an hour without enough samples.\n\
             # {:>5} {:>10} {:>10} {:>10} {:>10}",
            "hour", "reads/s", "writes/s", "log/s", "logs"
        );
        for (hour, is_measured) in self.is_measured.into_iter().enumerate() {
            let at = self.day * 24 + hour as i64;
            let loads = databases.values().filter_map(|hours| hours.get(&at).copied());
            let Load { reads, writes, log_writes, logs, .. } = sum(loads);
            let logs = logs.map_or("-".to_owned(), |logs| format!("{logs:.0}"));
            let rates = [reads, writes, log_writes].map(|rate| match is_measured {
                true => format!("{rate:.2}"),
                false => "-".to_owned(),
            });
            let _ =
                writeln!(text, "# {hour:>5} {:>10} {:>10} {:>10} {logs:>10}", rates[0], rates[1], rates[2]);
        }
        text.push_str(
            "\n# Tests follow this day from midnight on; without the key they stay at the peak.\n[load]\n",
        );
        text.push_str("hours_percent = [\n");
        for hours in self.percent.chunks(6) {
            let line: Vec<String> = hours.iter().map(|percent| format!("{percent:.3}")).collect();
            let _ = writeln!(text, "    {},", line.join(", "));
        }
        text.push_str("]\n");
    }
}

fn warnings(logs: &Logs) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut count = |count: u64, what: &str| {
        if count > 0 {
            warnings.push(format!("{count} {what}"));
        }
    };
    count(logs.gaps, "gaps between samples; a gap counts as one interval");
    count(logs.invalid, "values are no figures (negative, or beyond any server) and are left out");
    count(logs.restarts, "counts of log files began again, as after a restart");
    warnings.extend(logs.series.iter().flat_map(|(subject, series)| contradictions(subject, series)));
    warnings
}

/// Contradictions by Little's law: requests under way are the rate times the latency.
fn contradictions<'a>(subject: &'a Subject, series: &'a Series) -> impl Iterator<Item = String> + 'a {
    let (server, name, what) = match subject {
        Subject::Database { server, name } => (server, name, "database"),
        Subject::Disk { server, name } => (server, name, "disk"),
    };
    series.queues.iter().zip(["read", "write"]).filter_map(move |(queue, kind)| {
        let Queue { rate_times_latency, queue, samples } = *queue;
        let (expected, queue) = (rate_times_latency / f64::from(samples), queue / f64::from(samples));
        let is_short = expected.max(queue) < SHORT_QUEUE;
        let ratio = expected / queue;
        let agrees = (1.0 / AGREES..=AGREES).contains(&ratio);
        (samples >= MANY && !is_short && !agrees).then(|| {
            format!(
                "{what} `{name}` on {server}: {kind} rate times {kind} latency is {expected:.3}, the queue says \
                 {queue:.3}; the latency, the rate or the queue counter is wrong ({})",
                factor(ratio)
            )
        })
    })
}

/// How far a ratio is from one, in words: `3.0 times too much`.
fn factor(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 1.0 && ratio.is_finite() => format!("{ratio:.1} times too much"),
        ratio if ratio > 0.0 && ratio.is_finite() => format!("{:.1} times too little", 1.0 / ratio),
        _ => "one of them is zero".to_owned(),
    }
}

/// A time of the server as text.
fn moment(seconds: i64) -> String {
    let stamp = evidence::report::utc_stamp(u64::try_from(seconds).unwrap_or(0) * 1000);
    let digits: String = stamp.chars().filter(char::is_ascii_digit).collect();
    match digits.get(..12) {
        Some(all) => format!("{}-{}-{} {}:{}", &all[..4], &all[4..6], &all[6..8], &all[8..10], &all[10..12]),
        None => stamp,
    }
}

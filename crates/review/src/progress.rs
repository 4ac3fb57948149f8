//! How far a command is, for people and for programs: lines, events in JSON, and when one is due.

use std::time::{Duration, Instant};

use campaign::progress::{Progress, Rates, Watcher};
use evidence::report::{counted, duration, number};
use schemars::JsonSchema;
use serde::Serialize;

/// Number of plain progress lines at the beginning that come more often, because a person looks at the first ones.
const EARLY_LINES: u32 = 5;
/// Least time between these first lines, unless a test begins.
const EARLY_INTERVAL: Duration = Duration::from_secs(10);
/// Least time between all later plain lines.
const INTERVAL: Duration = Duration::from_secs(60);
/// Least time between JSON events, unless a test begins.
const EVENT_INTERVAL: Duration = Duration::from_secs(1);

/// A line on stderr of a command with `--progress json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Event {
    /// Version of this line's form.
    pub schema_version: u32,
    /// Time of day on the host of the command: ISO 8601, UTC.
    pub time: String,
    /// The content of the line.
    #[serde(flatten)]
    pub told: Told,
}

/// The content of a progress line, by kind.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Told {
    /// Progress of the tests of one host or of a simulation.
    Test(TestProgress),
    /// Progress of the hosts of a fleet.
    Hosts(HostsProgress),
    /// Progress of a crash test's writer.
    Commits {
        /// Durable commits so far.
        durable: u64,
    },
    /// A message without a form of its own.
    Message {
        /// The message.
        text: String,
    },
    /// The error by which the command fails.
    Error {
        /// The message.
        text: String,
        /// The remedy, where one is known.
        help: Option<String>,
    },
}

/// Progress of the tests of one host or of a simulation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TestProgress {
    /// Name of the test.
    pub test: String,
    /// Place of the test in the campaign, from 1.
    pub ordinal: u32,
    /// Tests in the campaign.
    pub tests: u32,
    /// Phase of the test: preparing, warming up, measuring and so on.
    pub phase: String,
    /// Share of the test that is done, 0 to 1.
    pub done: f64,
    /// Seconds left for the test, where they are known.
    pub left_s: Option<f64>,
    /// Batches per second in the last second.
    pub batches_per_s: f64,
    /// Transactional I/O per second in the last second.
    pub iops: f64,
    /// Mean transactional read latency of the test so far, in ms.
    pub read_latency_ms: f64,
    /// Mean latency of durable log writes of the test so far, in ms.
    pub log_write_latency_ms: f64,
    /// Bytes read and written per second in the last second.
    pub bytes_per_s: f64,
}

/// Progress of the hosts of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HostsProgress {
    /// Share of the campaign that is done, 0 to 1.
    pub done: f64,
    /// Hosts of the run.
    pub hosts: u64,
    /// Hosts that carry out a test.
    pub working: u64,
    /// Hosts among them that wait for the other hosts.
    pub waiting: u64,
    /// Transactional I/O per second of all hosts.
    pub iops: f64,
    /// Hosts that do not answer the controller.
    pub missing: Vec<String>,
}

impl From<&Progress> for TestProgress {
    fn from(progress: &Progress) -> TestProgress {
        let Rates { batches_per_s, iops, read_latency_ms, log_write_latency_ms, bytes_per_s } =
            progress.rates;
        TestProgress {
            test: progress.test.clone(),
            ordinal: progress.ordinal,
            tests: progress.tests,
            phase: progress.phase.clone(),
            done: progress.done,
            left_s: progress.left.map(|left| left.as_secs_f64()),
            batches_per_s,
            iops,
            read_latency_ms,
            log_write_latency_ms,
            bytes_per_s,
        }
    }
}

impl Event {
    /// An event with this time.
    pub fn at(unix_ms: u64, told: Told) -> Event {
        Event { schema_version: 1, time: evidence::report::iso_8601(unix_ms), told }
    }

    /// The event as a line of JSON.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("an event has only text keys")
    }
}

impl Told {
    /// The progress as a line for the terminal.
    pub fn line(&self) -> String {
        match self {
            Told::Test(progress) => test_line(progress),
            Told::Hosts(progress) => hosts_line(progress),
            Told::Commits { durable } => counted(*durable, "durable commit"),
            Told::Message { text } | Told::Error { text, .. } => text.clone(),
        }
    }
}

fn test_line(progress: &TestProgress) -> String {
    let TestProgress { test, ordinal, tests, phase, done, left_s, .. } = progress;
    let left = left_s.map_or(String::new(), |left_s| format!(", {} left", duration(left_s.round())));
    let percent = done * 100.0;
    format!("[{ordinal:>2}/{tests}] {test:<18} {percent:>3.0} %{left}  {phase}{}", rates(progress))
}

fn rates(progress: &TestProgress) -> String {
    if progress.batches_per_s > 0.0 {
        return format!(
            "  {} batches/s  {} IOPS  read {:.2} ms  log write {:.2} ms",
            number(progress.batches_per_s, 0),
            number(progress.iops, 0),
            progress.read_latency_ms,
            progress.log_write_latency_ms
        );
    }
    if progress.bytes_per_s > 0.0 {
        format!("  {} MiB/s", number(progress.bytes_per_s / f64::from(1 << 20), 0))
    } else {
        String::new()
    }
}

fn hosts_line(progress: &HostsProgress) -> String {
    let HostsProgress { done, hosts, working, waiting, iops, missing } = progress;
    let absent =
        if missing.is_empty() { String::new() } else { format!(", not heard of: {}", missing.join(", ")) };
    let (percent, hosts, iops) = (done * 100.0, counted(*hosts, "host"), number(*iops, 0));
    format!("{percent:>3.0} %  {working} of {hosts} at work, {waiting} waiting, {iops} IOPS{absent}")
}

/// Decides when the next progress line is due.
#[derive(Debug, Default)]
pub struct Pacer {
    shown: u32,
    last: Option<Duration>,
}

impl Pacer {
    /// Whether a plain line is due at `now`; if so, counts it as shown. `begins`: a test begins.
    pub fn is_line_due(&mut self, now: Duration, begins: bool) -> bool {
        let early = self.shown < EARLY_LINES;
        self.is_due(now, early && begins, if early { EARLY_INTERVAL } else { INTERVAL })
    }

    /// Whether a JSON event is due at `now`; if so, counts it as shown. `begins`: a test begins.
    pub fn is_event_due(&mut self, now: Duration, begins: bool) -> bool {
        self.is_due(now, begins, EVENT_INTERVAL)
    }

    fn is_due(&mut self, now: Duration, at_once: bool, interval: Duration) -> bool {
        let due = at_once || self.last.is_none_or(|last| now >= last + interval);
        if due {
            self.last = Some(now);
            self.shown += 1;
        }
        due
    }
}

/// A watcher of a simulation that shows the time left by the clock on the wall, because virtual time runs faster.
pub struct WallTime<W> {
    watcher: W,
    /// The phase that goes on: when it began, and the share of it that was done then.
    phase: Option<(String, Instant, f64)>,
}

impl<W: Watcher> Watcher for WallTime<W> {
    fn progress(&mut self, progress: &Progress) {
        let mut shown = progress.clone();
        shown.left = progress.left.and_then(|_| self.wall_time(&progress.phase, progress.done));
        self.watcher.progress(&shown);
    }

    fn line(&mut self, text: &str) {
        self.watcher.line(text);
    }

    fn interrupted(&self) -> bool {
        self.watcher.interrupted()
    }
}

impl<W> WallTime<W> {
    /// A watcher that corrects the time left for `watcher`.
    pub fn new(watcher: W) -> WallTime<W> {
        WallTime { watcher, phase: None }
    }

    /// Wall-clock seconds that the rest of a phase takes at its speed so far.
    fn wall_time(&mut self, phase: &str, done: f64) -> Option<Duration> {
        match &self.phase {
            Some((known, since, begun)) if known == phase && done >= *begun => {
                let rest = (1.0 - done) / (done - begun);
                (rest.is_finite() && rest >= 0.0).then(|| since.elapsed().mul_f64(rest.min(1e6)))
            }
            // The share of the phase before may be shown once more.
            _ => {
                self.phase = Some((phase.to_owned(), Instant::now(), done));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress() -> Progress {
        Progress {
            test: "Performance".into(),
            ordinal: 3,
            tests: 13,
            phase: "measuring".into(),
            done: 0.4,
            left: Some(Duration::from_secs(3700)),
            rates: Rates {
                batches_per_s: 812.0,
                iops: 31_000.0,
                read_latency_ms: 1.25,
                log_write_latency_ms: 3.5,
                bytes_per_s: 1e9,
            },
        }
    }

    #[test]
    fn a_line_fits_a_terminal_and_says_what_is_left() {
        assert_eq!(
            Told::Test((&progress()).into()).line(),
            "[ 3/13] Performance         40 %, 1 h 1 min left  measuring  812 batches/s  31,000 IOPS  read 1.25 ms  log write 3.50 ms"
        );
        let hosts = HostsProgress {
            done: 0.5,
            hosts: 1,
            working: 1,
            waiting: 0,
            iops: 1e4,
            missing: vec!["h1".into()],
        };
        let line = Told::Hosts(hosts).line();
        assert_eq!(line, " 50 %  1 of 1 host at work, 0 waiting, 10,000 IOPS, not heard of: h1");
    }

    #[test]
    fn an_event_is_one_line_that_names_itself() {
        let event = Event::at(1_764_111_600_000, Told::Test((&progress()).into()));
        let line = event.line();
        let read: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert!(!line.contains('\n') && read["event"] == "test", "{line}");
        assert_eq!((&read["time"], &read["left_s"]), (&"2025-11-25T23:00:00Z".into(), &3700.0.into()));
    }

    #[test]
    fn plain_lines_come_at_most_once_a_minute_after_the_first_five() {
        let mut pacer = Pacer::default();
        // A day in seconds; a test begins every 7 s.
        let lines: Vec<u64> =
            (0..86_400).filter(|s| pacer.is_line_due(Duration::from_secs(*s), s % 7 == 0)).collect();
        assert_eq!(lines[..5], [0, 7, 14, 21, 28]);
        assert!(lines[4..].windows(2).all(|pair| pair[1] - pair[0] == 60), "{lines:?}");
        let mut events = Pacer::default();
        let half_seconds = (0..20).filter(|n| events.is_event_due(Duration::from_millis(n * 500), *n == 3));
        assert_eq!(half_seconds.collect::<Vec<_>>(), [0, 2, 3, 5, 7, 9, 11, 13, 15, 17, 19]);
    }
}

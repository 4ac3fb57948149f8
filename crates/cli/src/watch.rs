//! Progress of a run on stderr: one line that rewrites itself on a terminal, a plain line now and then elsewhere.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use campaign::progress::{Progress, Rates, Watcher};
use evidence::report::{duration, number};

/// Plain progress lines come at most this often.
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);

/// Writes the progress of a run to stderr.
pub struct TerminalWatcher {
    is_terminal: bool,
    line_open: bool,
    last_plain: Option<(u32, Instant)>,
    interrupts: Arc<AtomicU32>,
}

impl TerminalWatcher {
    /// Looks at what stderr is. `interrupts` counts the requests to end the run.
    pub fn new(interrupts: Arc<AtomicU32>) -> TerminalWatcher {
        let is_terminal = std::io::stderr().is_terminal();
        TerminalWatcher { is_terminal, line_open: false, last_plain: None, interrupts }
    }

    /// Ends a line that is still being rewritten.
    pub fn close_line(&mut self) {
        if std::mem::take(&mut self.line_open) {
            say!();
        }
    }
}

impl Watcher for TerminalWatcher {
    fn progress(&mut self, progress: &Progress) {
        let text = describe(progress);
        if self.is_terminal {
            // Carriage return, the text, erase what is left of the old line.
            show!("\r{text}\x1b[K");
            self.line_open = true;
            return;
        }
        let due = self
            .last_plain
            .is_none_or(|(ordinal, at)| ordinal != progress.ordinal || at.elapsed() >= PLAIN_INTERVAL);
        if due {
            self.last_plain = Some((progress.ordinal, Instant::now()));
            say!("{text}");
        }
    }

    fn line(&mut self, text: &str) {
        if self.line_open {
            show!("\r\x1b[K");
            self.line_open = false;
        }
        say!("{text}");
    }

    fn interrupted(&self) -> bool {
        self.interrupts.load(Ordering::SeqCst) > 0
    }
}

fn describe(progress: &Progress) -> String {
    let Progress { test, ordinal, tests, phase, done, left, rates } = progress;
    let left = left.map_or(String::new(), |left| format!(", {} left", duration(left.as_secs_f64().round())));
    format!(
        "[{ordinal:>2}/{tests}] {test:<18} {:>3.0} %{left}  {phase}{}",
        done * 100.0,
        describe_rates(rates)
    )
}

fn describe_rates(rates: &Rates) -> String {
    if rates.batches_per_s > 0.0 {
        return format!(
            "  {} batches/s  {} IOPS  read {:.2} ms  log write {:.2} ms",
            number(rates.batches_per_s, 0),
            number(rates.iops, 0),
            rates.read_latency_ms,
            rates.log_write_latency_ms
        );
    }
    if rates.bytes_per_s > 0.0 {
        format!("  {} MiB/s", number(rates.bytes_per_s / f64::from(1 << 20), 0))
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_a_terminal_and_says_what_is_left() {
        let progress = Progress {
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
        };
        let line = describe(&progress);
        assert_eq!(
            line,
            "[ 3/13] Performance         40 %, 1 h 1 min left  measuring  812 batches/s  31,000 IOPS  read 1.25 ms  log write 3.50 ms"
        );
    }
}

//! A run on the whole terminal: one frame of the live view, as lines of at most its width.

use campaign::progress::Progress;
use evidence::live::{LiveRates, LiveView};
use evidence::report::{counted, duration};
use results::Severity;

const PLAIN: &str = "";
const DIM: &str = "\x1b[2m";
const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[31m";
const RESET: &str = "\x1b[0m";
/// Height of a chart, in rows of the terminal.
const CHART_ROWS: usize = 6;
/// Rows that stay free for the event log.
const LOG_ROWS: usize = 4;

/// A text in one colour or weight.
struct Span(&'static str, String);

/// A line of the screen.
type Line = Vec<Span>;

fn plain(text: impl Into<String>) -> Line {
    vec![Span(PLAIN, text.into())]
}

fn dim(text: impl Into<String>) -> Line {
    vec![Span(DIM, text.into())]
}

/// The whole screen for a terminal of these columns and rows.
pub fn draw(
    view: &LiveView,
    progress: &Progress,
    footer: &str,
    (width, height): (usize, usize),
) -> Vec<String> {
    let mut lines = head(view, progress, width);
    // What is left for charts, tables and log, without the footer.
    let room = |lines: &Vec<Line>| height.saturating_sub(lines.len() + 1);
    if room(&lines) >= CHART_ROWS + 1 + LOG_ROWS + 3 {
        lines.extend(charts(view, width));
    }
    let limit = limit(view, "read_latency_avg");
    let log_limit = limit_of_log(view);
    if view.hosts.len() > 1 && room(&lines) > LOG_ROWS + 2 {
        lines.extend(table("Host", &view.hosts, room(&lines) / 3, limit, log_limit));
    }
    if room(&lines) > LOG_ROWS + 2 {
        let rows = room(&lines) - LOG_ROWS - 1;
        lines.extend(table("Database", &view.databases, rows, limit, log_limit));
    }
    lines.push(Line::new());
    let log_rows = room(&lines);
    let newest = view.events.len().saturating_sub(log_rows);
    for event in &view.events[newest..] {
        let style = match event.severity {
            Severity::Info => PLAIN,
            Severity::Warning => BOLD,
            Severity::Error => RED,
        };
        lines.push(vec![Span(DIM, format!("{:>8.1} s  ", event.t_s)), Span(style, event.text.clone())]);
    }
    lines.truncate(height.saturating_sub(1));
    lines.resize_with(height.saturating_sub(1), Line::new);
    lines.push(dim(footer));
    lines.iter().map(|line| painted(line, width)).collect()
}

fn head(view: &LiveView, progress: &Progress, width: usize) -> Vec<Line> {
    let world = if view.world == results::WorldKind::Simulated { "  simulated" } else { "" };
    let elapsed = duration(view.elapsed_s.round());
    let left = progress.left.map(|left| duration(left.as_secs_f64().round()));
    let left = left.map_or(String::new(), |left| format!("  {left} left"));
    let bar = bar(progress.done, (width / 4).clamp(8, 40));
    let rates = &progress.rates;
    let target = view.tests.last().and_then(|test| test.target_iops);
    let target = target.map_or(String::new(), |target| format!(" of {target:.0}"));
    let mut figures = if rates.batches_per_s > 0.0 {
        format!(
            "{:.0} IOPS{target}   {:.0} batches/s   read {:.2} ms   log write {:.2} ms   ",
            rates.iops, rates.batches_per_s, rates.read_latency_ms, rates.log_write_latency_ms
        )
    } else {
        String::new()
    };
    figures.push_str(&format!("{:.0} MiB/s", rates.bytes_per_s / f64::from(1 << 20)));
    let mut verdicts = dim(format!("   {} kept", counted(view.passed.into(), "limit")));
    if view.failed > 0 {
        verdicts.push(Span(RED, format!(", {} broken", view.failed)));
    }
    let mut second = vec![
        Span(BOLD, format!("{}/{} {}", progress.ordinal, progress.tests, progress.test)),
        Span(PLAIN, format!("  {}  {bar} {:.0} %{left}", progress.phase, progress.done * 100.0)),
    ];
    second.extend(verdicts);
    vec![
        vec![Span(BOLD, view.solution.clone()), Span(DIM, format!("{world}  {elapsed}  run {}", view.id))],
        second,
        plain(figures),
        Line::new(),
    ]
}

fn bar(done: f64, width: usize) -> String {
    let full = (done.clamp(0.0, 1.0) * width as f64).round() as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(width - full))
}

fn limit(view: &LiveView, rule: &str) -> Option<f64> {
    view.limits.iter().find(|limit| limit.rule == rule).map(|limit| limit.value)
}

fn limit_of_log(view: &LiveView) -> Option<f64> {
    limit(view, "log_write_latency_avg")
}

/// Charts of read latency with its limit and, if both fit, of transactional I/O beside it.
fn charts(view: &LiveView, width: usize) -> Vec<Line> {
    let columns = if width >= 90 { (width - 4) / 2 } else { width };
    let series = |value: fn(&evidence::live::LiveSecond) -> Option<f64>| -> Vec<Option<f64>> {
        view.history.iter().map(value).collect()
    };
    let line = |what, value: Option<f64>| value.map(|value| (what, value));
    let read_limit = line("limit", limit(view, "read_latency_avg"));
    let left = chart("Read latency, ms", &series(|s| s.read_ms), read_limit, columns);
    if columns == width {
        return left;
    }
    let has_load = view.history.iter().any(|second| second.iops > 0.0);
    let right = if has_load {
        let target = view.tests.last().and_then(|test| test.target_iops);
        chart("Transactional I/O per second", &series(|s| Some(s.iops)), line("target", target), columns)
    } else {
        chart("MiB per second", &series(|s| Some(s.mib_per_s)), None, columns)
    };
    left.into_iter()
        .zip(right)
        .map(|(mut left, right)| {
            let used: usize = left.iter().map(|Span(_, text)| text.chars().count()).sum();
            left.push(Span(PLAIN, " ".repeat((columns + 4).saturating_sub(used))));
            left.extend(right);
            left
        })
        .collect()
}

/// A bar chart of the newest values, a column each, with a named line: a `limit`, which must not be exceeded, or a
/// `target`.
fn chart(title: &str, values: &[Option<f64>], line: Option<(&str, f64)>, width: usize) -> Vec<Line> {
    const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let label = 9;
    let columns = width.saturating_sub(label).max(1);
    let values = &values[values.len().saturating_sub(columns)..];
    let highest = values.iter().flatten().copied().fold(0.0, f64::max);
    // A line far above everything would press the bars into the lowest row: it is named then, not drawn.
    let drawn = line.map(|(_, value)| value).filter(|value| highest == 0.0 || *value <= 4.0 * highest);
    let top = drawn.unwrap_or(0.0).max(highest).max(1e-9);
    let line_row = drawn
        .map(|value| ((1.0 - value / top) * CHART_ROWS as f64).floor().min(CHART_ROWS as f64 - 1.0) as usize);
    let named = match (line, drawn) {
        (Some((what, value)), None) => format!("  ({what} {}, far above)", figure(value)),
        (Some((what, value)), Some(_)) => format!("  (┄ {what} {})", figure(value)),
        (None, _) => String::new(),
    };
    let (must_not_exceed, line_style) = match line {
        Some(("limit", value)) => (value, RED),
        _ => (f64::INFINITY, DIM),
    };
    let mut lines = vec![vec![Span(BOLD, title.to_owned()), Span(DIM, named)]];
    for row in 0..CHART_ROWS {
        let axis = match row {
            0 => figure(top),
            _ if row + 1 == CHART_ROWS => "0".to_owned(),
            _ => String::new(),
        };
        let mut line = dim(format!("{axis:>7} │"));
        let below = (CHART_ROWS - 1 - row) as f64;
        for column in 0..columns {
            let value = values.get(column).copied().flatten();
            let filled = value.map_or(0.0, |value| value / top * CHART_ROWS as f64 - below).clamp(0.0, 1.0);
            let over = value.is_some_and(|value| value > must_not_exceed);
            let eighth = (filled * 8.0).round() as usize;
            let (style, text) = match eighth {
                0 if line_row == Some(row) => (line_style, '┄'),
                0 => (PLAIN, ' '),
                n => (if over { RED } else { PLAIN }, EIGHTHS[n]),
            };
            match line.last_mut() {
                Some(Span(last, run)) if *last == style => run.push(text),
                _ => line.push(Span(style, text.to_string())),
            }
        }
        lines.push(line);
    }
    lines
}

fn figure(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// A table of at most `rows` lines with its head; if not all fit, those with the slowest reads.
fn table(
    what: &str,
    rates: &[LiveRates],
    rows: usize,
    read_limit: Option<f64>,
    log_limit: Option<f64>,
) -> Vec<Line> {
    if rates.is_empty() || rows < 2 {
        return Vec::new();
    }
    let mut lines = vec![dim(format!(
        "{what:<24}{:>10}{:>11}{:>10}{:>10}{:>10}{:>11}{:>10}",
        "IOPS", "batches/s", "read ms", "max ms", "write ms", "log write", "MiB/s"
    ))];
    let fits = rates.len() < rows;
    let mut shown: Vec<&LiveRates> = rates.iter().collect();
    if !fits {
        shown.sort_by(|a, b| b.read_ms.unwrap_or(-1.0).total_cmp(&a.read_ms.unwrap_or(-1.0)));
        shown.truncate(rows - 2);
    }
    for rates in &shown {
        let origin = &rates.origin;
        let name = origin.database.as_deref().unwrap_or(&origin.host);
        let name: String = name.chars().take(23).collect();
        let latency = |value: Option<f64>, limit: Option<f64>, width: usize| {
            let over = value.zip(limit).is_some_and(|(value, limit)| value > limit);
            let text = value.map_or("–".to_owned(), figure);
            Span(if over { RED } else { PLAIN }, format!("{text:>width$}"))
        };
        lines.push(vec![
            Span(PLAIN, format!("{name:<24}{:>10.0}{:>11.1}", rates.iops, rates.batches_per_s)),
            latency(rates.read_ms, read_limit, 10),
            latency(rates.read_max_ms, None, 10),
            latency(rates.write_ms, None, 10),
            latency(rates.log_write_ms, log_limit, 11),
            Span(PLAIN, format!("{:>10.1}", rates.mib_per_s)),
        ]);
    }
    if !fits {
        lines.push(dim(format!("… and {} more with faster reads", rates.len() - shown.len())));
    }
    lines
}

/// A line cut to `width`, with its colours; control characters in it cannot move the cursor.
fn painted(line: &Line, width: usize) -> String {
    let mut left = width;
    let mut text = String::new();
    for Span(style, part) in line {
        let part: String =
            part.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(left).collect();
        left -= part.chars().count();
        if style.is_empty() || part.is_empty() {
            text.push_str(&part);
        } else {
            text.push_str(&format!("{style}{part}{RESET}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use campaign::progress::Rates;
    use evidence::live::LiveRun;
    use results::*;

    use super::*;

    fn unpainted(line: &str) -> String {
        [DIM, BOLD, RED, RESET].iter().fold(line.to_owned(), |text, code| text.replace(code, ""))
    }

    /// The screen of a test run that measures: `databases` of them, one slow, reads of `read_ms` on the host.
    fn frame(databases: u32, read_ms: u64, note: &str, size: (usize, usize)) -> Vec<String> {
        frame_of(1, databases, None, read_ms, note, size)
    }

    /// The screen of a test run on several hosts, each with its share of the databases, and a target.
    fn frame_of(
        hosts: u32,
        databases: u32,
        target_iops: Option<f64>,
        read_ms: u64,
        note: &str,
        size: (usize, usize),
    ) -> Vec<String> {
        let host = |n: u32| if hosts == 1 { "h".to_owned() } else { format!("host{:02}", n % hosts) };
        let mut live = begun(target_iops);
        let mut reads = |origin: Origin, t_ms: u64, ms: u64| {
            let totals = IoTotals {
                count: 100,
                bytes: 3_276_800,
                latency_ns_sum: 100 * ms * 1_000_000,
                latency_ns_max: ms * 2_000_000,
            };
            live.apply(&Sample::new(3, origin, IoClass::TransactionalRead, t_ms, 1_000, totals).into());
        };
        for second in 0..40 {
            for n in 0..hosts {
                // The last host is slow.
                let slower = if n + 1 == hosts && hosts > 1 { 66 } else { 0 };
                reads(Origin::host(&host(n)), 1_000 + second * 1_000, read_ms + slower);
            }
        }
        for n in 0..databases {
            let ms = if n == databases / 2 { 77 } else { 5 };
            reads(Origin::database(&host(n), "i", &format!("DB{n:03}")), 40_000, ms);
        }
        let (host, text) = (host(0), note.to_owned());
        live.apply(&Event { t_ms: 2_000, severity: Severity::Warning, test: Some(3), host, text }.into());
        let progress = Progress {
            test: "Performance".into(),
            ordinal: 3,
            tests: 13,
            phase: "measuring".into(),
            done: 0.5,
            left: Some(std::time::Duration::from_secs(30)),
            rates: Rates { batches_per_s: 10.0, iops: 400.0, read_latency_ms: 5.0, ..Rates::default() },
        };
        draw(&live.view().expect("there is a run"), &progress, "the footer", size)
    }

    /// A test run whose performance test has begun.
    fn begun(target_iops: Option<f64>) -> LiveRun {
        let mut live = LiveRun::default();
        let limit =
            Limit { rule: "read_latency_avg".into(), value: 20.0, unit: "ms".into(), published: None };
        let test = Test {
            ordinal: 3,
            kind: "performance".into(),
            name: "Performance".into(),
            started_ms: 0,
            ended_ms: None,
            window_start_ms: Some(1_000),
            window_end_ms: None,
            window_planned_ms: Some(60_000),
            sample_ms: 3_000,
            sessions: Some(8),
            target_iops,
            target_batches_per_s: None,
            day: None,
            iops_per_mailbox: None,
            copies: 1,
            parameters: Vec::new(),
            limits: vec![limit],
        };
        let run = Run {
            id: "r1".into(),
            solution: "Laptop".into(),
            solution_text: String::new(),
            started_unix_ms: 0,
            tool_version: String::new(),
            world: WorldKind::Real,
            world_detail: String::new(),
            seed: 1,
            ended_ms: None,
            ending: None,
        };
        live.apply(&run.into());
        live.apply(&test.into());
        live
    }

    #[test]
    fn a_frame_has_the_size_of_the_terminal() {
        for size in [(80, 24), (120, 40), (200, 60), (40, 12), (20, 5)] {
            for databases in [1, 14, 100] {
                let lines = frame(
                    databases,
                    5,
                    "a note that is longer than the terminal is wide ".repeat(5).as_str(),
                    size,
                );
                assert_eq!(lines.len(), size.1, "{size:?}");
                let widest = lines.iter().map(|line| unpainted(line).chars().count()).max();
                assert!(widest <= Some(size.0), "{size:?}: {widest:?}");
                assert!(unpainted(&lines[size.1 - 1]).starts_with("the footer"));
                assert!(unpainted(&lines[1]).starts_with("3/13 Performance"));
            }
        }
    }

    #[test]
    fn the_limit_is_a_line_and_what_is_above_it_stands_out() {
        let text = |lines: Vec<String>| lines.join("\n");
        let below = text(frame(4, 10, "note", (100, 40)));
        assert!(below.contains("┄┄┄") && below.contains("limit 20.0"), "{below}");
        let far = text(frame(4, 1, "note", (100, 40)));
        assert!(!far.contains("┄┄┄") && far.contains("limit 20.0, far above"), "{far}");
        let red_bar = format!("{RED}█");
        assert!(!below.contains(&red_bar) && text(frame(4, 30, "note", (100, 40))).contains(&red_bar));
    }

    #[test]
    fn the_slowest_database_is_shown_however_many_there_are() {
        let lines = frame(100, 5, "note", (80, 24));
        let slow = lines.iter().find(|line| line.contains("DB050")).expect("the slow one is shown");
        assert!(slow.contains(&format!("{RED}      77.0")), "{slow}");
        assert!(lines.iter().any(|line| line.contains("more with faster reads")));
    }

    #[test]
    fn many_hosts_are_shown_by_the_slowest_and_a_target_is_called_a_target() {
        let lines = frame_of(24, 96, Some(1_000.0), 5, "note", (120, 40));
        assert_eq!(lines.len(), 40);
        let slow = lines.iter().position(|line| line.contains("host23")).expect("the slow host is shown");
        assert!(lines[slow].contains(&format!("{RED}      71.0")), "{}", lines[slow]);
        assert!(lines[slow..].iter().any(|line| line.contains("more with faster reads")));
        let slow = lines.iter().position(|line| line.contains("DB048")).expect("and the slow database");
        assert!(lines[..slow].iter().any(|line| line.contains("Database")), "below the hosts");
        let whole = lines.join("\n");
        assert!(whole.contains("limit 20.0") && whole.contains("target 1000"), "{whole}");
    }

    #[test]
    fn a_note_cannot_move_the_cursor() {
        let lines = frame(1, 5, "bad\x1b[2Jnote\r\n\u{9b}31m", (80, 24));
        let whole = unpainted(&lines.join(""));
        assert!(!whole.contains(['\x1b', '\r', '\n', '\u{9b}']), "{whole:?}");
        assert!(whole.contains("bad\u{fffd}[2Jnote"));
    }
}

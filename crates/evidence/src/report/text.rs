//! Sentences, names and figures as people read them.

pub use results::figures::{counted, number};
use time::OffsetDateTime;

use super::model::*;

/// A time of the clock as date and time in UTC; later than the year 9999 is its end.
fn moment(unix_ms: u64) -> OffsetDateTime {
    const LAST_S: i64 = 253_402_300_799;
    let unix_s = i64::try_from(unix_ms / 1_000).unwrap_or(LAST_S).min(LAST_S);
    OffsetDateTime::from_unix_timestamp(unix_s).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// A time as ISO 8601, UTC, to the second.
pub fn iso_8601(unix_ms: u64) -> String {
    let (date, (hour, minute, second)) = (moment(unix_ms).date(), moment(unix_ms).to_hms());
    let (year, month, day) = (date.year(), u8::from(date.month()), date.day());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// A time as part of a file name, UTC, to the second: `20261121-094500`.
pub fn utc_stamp(unix_ms: u64) -> String {
    iso_8601(unix_ms).replace(['-', ':', 'Z'], "").replace('T', "-")
}

/// A duration in its two largest units: `2 h 5 min`.
pub fn duration(seconds: f64) -> String {
    if seconds < 0.001 {
        return "0 s".to_owned();
    }
    if seconds < 1.0 {
        return format!("{:.0} ms", seconds * 1e3);
    }
    if seconds < 10.0 && seconds.fract() > 0.05 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    let parts =
        [(whole / 86_400, "d"), (whole / 3_600 % 24, "h"), (whole / 60 % 60, "min"), (whole % 60, "s")];
    let first = parts.iter().position(|(amount, _)| *amount > 0).unwrap_or(3);
    let shown = parts[first..].iter().take(2).filter(|(amount, _)| *amount > 0);
    shown.map(|(amount, unit)| format!("{amount} {unit}")).collect::<Vec<_>>().join(" ")
}

/// A number with three significant digits.
pub fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        v => (2.0 - v.log10().floor()).min(6.0) as usize,
    };
    number(value, decimals)
}

/// A planned or achieved figure with four decimals where it is small: loads of one mailbox differ in the fourth.
pub fn planned(value: f64) -> String {
    number(value, if value.abs() < 1.0 && value != 0.0 { 4 } else { 2 })
}

/// A size in bytes in the largest binary unit that fits: `1.50 GiB`.
pub fn bytes(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut size = bytes;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < units.len() {
        size /= 1024.0;
        unit += 1;
    }
    let decimals = if unit == 0 || size.fract() < 1e-9 { 0 } else { 2 };
    format!("{} {}", number(size, decimals), units[unit])
}

/// A figure for a sentence: without zeros at the end of its decimals.
pub fn bare(value: f64) -> String {
    let text = significant(value);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// The name of a measure as tables print it.
pub fn measure(name: &str) -> &str {
    match name {
        "transactional_read" => "Database reads",
        "transactional_write" => "Database writes",
        "maintenance_read" => "Maintenance reads",
        "log_write" => "Log writes",
        "log_prepare_write" => "Log preparation",
        "log_read" => "Log reads",
        "replication_read" => "Replication reads",
        "backup_read" => "Backup reads",
        "backup_write" => "Backup writes",
        "verify_read" => "Checksum reads",
        "init_write" => "Initialisation writes",
        "housekeeping_read" => "Header and checkpoint reads",
        "housekeeping_write" => "Header and checkpoint writes",
        "meta_cache_read" => "MetaCache reads",
        "meta_cache_write" => "MetaCache writes",
        "batch" => "Batches",
        "batch_intended" => "Batches, from intended start",
        other => other,
    }
}

/// The share of all bytes, for a test that did not read everything; stands after the bytes that it read.
fn of_all(read: u64, expected: Option<u64>) -> String {
    match expected.filter(|expected| read < *expected) {
        Some(expected) => {
            format!(" ({} % of {})", number(100.0 * read as f64 / expected as f64, 1), bytes(expected as f64))
        }
        None => String::new(),
    }
}

/// The sentence that says what a test did and found.
pub fn lead(test: &TestReport, sessions: Option<u32>) -> String {
    let length = duration(test.window.map_or(test.duration_s, |window| window.duration_s));
    let mut sentences = Vec::new();
    if let Some(throughput) = &test.throughput {
        let load = sessions.map_or(String::new(), |n| format!(" with {}", counted(u64::from(n), "session")));
        let latency = |measure: &str| {
            let row = test.measures.iter().find(|row| row.measure == measure);
            row.and_then(|row| row.figures.latency_ms_mean)
                .map_or("–".to_owned(), |ms| format!("{} ms", significant(ms)))
        };
        sentences.push(format!(
            "In {length} of load{load} the databases did {} transactional I/O per second; a read took {} and a log \
             write {} on average.",
            significant(throughput.transactional_iops),
            latency("transactional_read"),
            latency("log_write"),
        ));
    }
    if !test.checksums.is_empty() {
        let sum = |field: fn(&ChecksumRow) -> u64| test.checksums.iter().map(field).sum::<u64>();
        let bad = sum(|row| row.read.damaged());
        let found =
            if bad == 0 { "none is bad".to_owned() } else { format!("{} bad", number(bad as f64, 0)) };
        let expected = test.checksums.iter().map(|row| row.read.bytes_expected).sum::<Option<u64>>();
        sentences.push(format!(
            "{}{} were read and verified in {}, {}: {found}.",
            bytes(sum(|row| row.read.bytes) as f64),
            of_all(sum(|row| row.read.bytes), expected),
            duration(test.duration_s),
            counted(sum(|row| row.read.pages), "page"),
        ));
    }
    if !test.backups.is_empty() {
        let total: u64 = test.backups.iter().map(|row| row.bytes).sum();
        let copied = test.backups.iter().any(|row| row.destination.is_some());
        let verb = if copied { "copied" } else { "read" };
        let expected = test.backups.iter().map(|row| row.bytes_expected).sum::<Option<u64>>();
        sentences.push(format!(
            "{}{} of {} were {verb} in {}.",
            bytes(total as f64),
            of_all(total, expected),
            counted(test.backups.len() as u64, "database"),
            duration(test.duration_s)
        ));
    }
    sentences.extend(recovered(test));
    if !test.tuning.is_empty() {
        sentences.push(format!("{} were tried.", counted(test.tuning.len() as u64, "load")));
    }
    if sentences.is_empty() {
        sentences.push(format!("It took {}.", duration(test.duration_s)));
    }
    if test.window.is_some_and(|window| window.cut) {
        sentences
            .push("The run ended before the measured window did; the figures are those until then.".into());
    }
    sentences.join(" ")
}

/// The work of a test's recoveries in words: what was replayed, and what was rolled back.
fn recovered(test: &TestReport) -> Vec<String> {
    if test.recoveries.is_empty() {
        return Vec::new();
    }
    let logs: u64 = test.recoveries.iter().map(|row| row.logs).sum();
    // Of all logs, not of the instances: a short recovery counts less than a long one.
    let elapsed_s: f64 = test.recoveries.iter().map(|row| row.elapsed_s).sum();
    let mean = elapsed_s / logs.max(1) as f64;
    let mut sentences = vec![format!(
        "{} were replayed by {}, {} per log on average.",
        counted(logs, "log"),
        counted(test.recoveries.len() as u64, "instance"),
        duration(mean)
    )];
    let work = test.recoveries.iter().filter_map(|row| row.work.as_ref());
    let given_up: u64 = work.map(|work| work.segments_given_up).sum();
    if given_up > 0 {
        sentences
            .push(format!("{} behind the end of a log were given up.", counted(given_up, "log segment")));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_right_around_leap_days_and_centuries() {
        assert_eq!(iso_8601(0), "1970-01-01T00:00:00Z");
        assert_eq!(iso_8601(951_782_400_000), "2000-02-29T00:00:00Z");
        assert_eq!(iso_8601(4_107_542_399_999), "2100-02-28T23:59:59Z");
        assert_eq!(iso_8601(4_107_542_400_000), "2100-03-01T00:00:00Z");
        assert_eq!(iso_8601(u64::MAX), "9999-12-31T23:59:59Z");
        assert_eq!(utc_stamp(951_782_399_999), "20000228-235959");
        assert_eq!(utc_stamp(1_795_254_300_000), "20261121-094500");
    }

    #[test]
    fn figures_read_well_at_every_size() {
        assert_eq!(duration(0.0042), "4 ms");
        assert_eq!(duration(2.5), "2.5 s");
        assert_eq!(duration(7_200.0), "2 h");
        assert_eq!(duration(86_399.6), "1 d");
        assert_eq!(duration(3_725.0), "1 h 2 min");
        assert_eq!(number(1_234_567.891, 2), "1,234,567.89");
        assert_eq!(number(-0.001, 2), "0.00");
        assert_eq!(number(-1_234.5, 1), "−1,234.5");
        assert_eq!(bytes(1_610_612_736.0), "1.50 GiB");
        assert_eq!(bytes(512.0), "512 B");
        assert_eq!(significant(633.738), "634");
        assert_eq!((significant(0.121), significant(0.0605)), ("0.121".into(), "0.0605".into()));
        assert_eq!((significant(0.0), significant(1e-9)), ("0".into(), "0.000000".into()));
        assert_eq!((planned(0.12345), planned(633.738)), ("0.1235".into(), "633.74".into()));
    }
}

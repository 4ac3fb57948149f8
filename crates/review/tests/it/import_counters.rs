//! Performance counters: the rates that went into a log come out of it, in any encoding and language, with gaps,
//! restarts and counters that wrap.

use review::import::counters::{Profile, is_counters, profile};

const DATABASES: u32 = 4;
const STEP_S: u32 = 60;

/// I/O of a database: reads, writes and log writes per second, logs per hour.
fn load(database: u32, hour: u32) -> [f64; 4] {
    let of_day = [1.0, 2.0, 0.5][usize::from(hour % 24 == 10) + 2 * usize::from(hour % 24 == 4)];
    let base = f64::from(database) * of_day;
    [30.0 * base, 10.0 * base, 7.0 * base, 360.0 * base]
}

/// How a log is written.
#[derive(Clone, Copy)]
struct Style {
    german: bool,
    separator: char,
    has_files: bool,
}

const ENGLISH: Style = Style { german: false, separator: ',', has_files: true };

fn header(server: &str, databases: std::ops::RangeInclusive<u32>, style: Style) -> String {
    let (object, names) = match style.german {
        false => (
            "MSExchange Database ==> Instances",
            ["I/O Database Reads (Attached)/sec", "I/O Database Writes (Attached)/sec", "I/O Log Writes/sec"],
        ),
        true => (
            "MSExchange-Datenbank  ==> Instanzen",
            [
                "E/A: Datenbankleseoperationen (angefügt)/Sek.",
                "E/A: Datenbankschreiboperationen (angefügt)/Sek.",
                "E/A: Protokollschreiboperationen/Sek",
            ],
        ),
    };
    let logs = match (style.german, style.has_files) {
        (false, true) => "Log Files Generated",
        (true, true) => "Generierte Protokolldateien",
        (false, false) => "Log Bytes Generated/sec",
        (true, false) => "Protokoll: generierte Bytes/Sek.",
    };
    let mut fields = vec!["\"(PDH-CSV 4.0) (W. Europe Standard Time)(-60)\"".to_owned()];
    for database in databases {
        for name in names.into_iter().chain([logs]) {
            let path = format!(r"\\{server}\{object}(Information Store - DB{database}/_Total)\{name}");
            fields.push(format!("\"{path}\""));
        }
    }
    fields.join(&style.separator.to_string()) + "\r\n"
}

/// Counter log of a server over some hours. `change` gives the text for each value.
fn log(
    server: &str,
    databases: std::ops::RangeInclusive<u32>,
    hours: std::ops::Range<u32>,
    style: Style,
    change: &dyn Fn(u32, usize, f64) -> String,
) -> String {
    let mut text = header(server, databases.clone(), style);
    for second in (hours.start * 3600..=hours.end * 3600).step_by(STEP_S as usize) {
        let (day, time) = (second / 86_400, second % 86_400);
        let time = format!("{:02}:{:02}:{:02}", time / 3600, time / 60 % 60, time % 60);
        let date = match style.german {
            false => format!("11/{:02}/2026 {time}.123", day + 2),
            true => format!("{:02}.11.2026 {time}", day + 2),
        };
        let mut fields = vec![format!("\"{date}\"")];
        for database in databases.clone() {
            // A sample counts for the time before it.
            let of_hour = load(database, second.saturating_sub(1) / 3600);
            let files: f64 = (0..second / STEP_S)
                .map(|step| load(database, step * STEP_S / 3600)[3] * f64::from(STEP_S) / 3600.0)
                .sum();
            let logs = if style.has_files { files } else { of_hour[3] * 1_048_576.0 / 3600.0 };
            for (figure, value) in of_hour[..3].iter().copied().chain([logs]).enumerate() {
                let value = change(second, figure, value);
                fields.push(format!("\"{}\"", if style.german { value.replace('.', ",") } else { value }));
            }
        }
        text += &(fields.join(&style.separator.to_string()) + "\r\n");
    }
    text
}

fn plain(_: u32, _: usize, value: f64) -> String {
    format!("{value:.6}")
}

fn profile_of(logs: &[String], mailboxes: Option<u64>) -> Profile {
    let files: Vec<(String, Vec<u8>)> =
        logs.iter().enumerate().map(|(n, log)| (format!("{n}.csv"), log.clone().into_bytes())).collect();
    profile(&files, mailboxes).unwrap_or_else(|error| panic!("{error}"))
}

fn key(profile: &Profile, name: &str) -> f64 {
    let table: toml::Table = profile.text.parse().unwrap_or_else(|error| panic!("{error}\n{}", profile.text));
    let value = &table["profile"][name];
    value.as_float().or(value.as_integer().map(|value| value as f64)).expect("a number")
}

/// Load of each hour, in percent of the peak hour.
fn hours(profile: &Profile) -> Vec<f64> {
    let table: toml::Table = profile.text.parse().unwrap_or_else(|error| panic!("{error}\n{}", profile.text));
    let hours = table["load"]["hours_percent"].as_array().expect("a list");
    hours.iter().map(|percent| percent.as_float().expect("a number")).collect()
}

/// The keys are those of the load within 1 %: 4 databases with 1 + 2 + 3 + 4 = 10 times the base, twice that at 10 h,
/// half at 4 h.
fn assert_round_trip(profile: &Profile) {
    let expected = [
        ("iops_per_mailbox", 800.0 / 1000.0),
        ("read_percent", 75.0),
        ("logs_per_mailbox_day", 3600.0 * 24.5 / 1000.0),
        ("peak_hour_log_percent", 100.0 * 2.0 / 24.5),
        ("mailboxes", 1000.0),
    ];
    for (name, value) in expected {
        let found = key(profile, name);
        assert!((found / value - 1.0).abs() < 0.01, "{name}: {found}, not {value}\n{}", profile.text);
    }
    let hours = hours(profile);
    for (hour, percent) in hours.into_iter().enumerate() {
        let io = |hour: usize| load(1, hour as u32)[0];
        let expected = 100.0 * io(hour) / io(10);
        assert!((percent / expected - 1.0).abs() < 0.01, "{hour} h: {percent}, not {expected}");
    }
    assert!(profile.text.contains("# Peak hour: from 2026-11-02 10:00, 800.00 I/O"), "{}", profile.text);
}

#[test]
fn rates_come_back_within_one_percent_in_english_and_german_with_both_counts_of_logs() {
    for german in [false, true] {
        for separator in [',', ';'] {
            for has_files in [false, true] {
                let style = Style { german, separator, has_files };
                let profile = profile_of(&[log("S1", 1..=DATABASES, 0..24, style, &plain)], Some(1000));
                assert_round_trip(&profile);
                assert_eq!(profile.warnings, Vec::<String>::new());
            }
        }
    }
}

/// The samples of a counter log as `Get-Counter` gives them: one to a row, counters in lower case.
fn samples(log: &str) -> String {
    let cells =
        |line: &str| line.split(',').map(|cell| cell.trim_matches('"').to_owned()).collect::<Vec<_>>();
    let mut lines = log.lines();
    let paths = cells(lines.next().expect("a header"));
    let mut text = "#TYPE Microsoft.PowerShell.Commands.GetCounter.PerformanceCounterSample\r\n\
                    \"Path\",\"InstanceName\",\"CookedValue\",\"Timestamp\",\"Status\"\r\n"
        .to_owned();
    for row in lines.map(cells) {
        for (path, value) in paths.iter().zip(&row).skip(1) {
            let (path, time) = (path.to_lowercase(), &row[0]);
            text += &format!("\"{path}\",\"x\",\"{value}\",\"{time}\",\"0\"\r\n");
        }
    }
    text
}

#[test]
fn samples_of_get_counter_give_the_rates_that_went_in_and_a_damaged_row_is_named() {
    let text = samples(&log("S1", 1..=DATABASES, 0..24, ENGLISH, &plain));
    assert!(is_counters(text.as_bytes()));
    assert_round_trip(&profile_of(std::slice::from_ref(&text), Some(1000)));
    let damaged = text.replacen("\\\\s1", "s1", 1);
    let error = profile(&[("a.csv".into(), damaged.into_bytes())], None).expect_err("it is refused");
    assert!(error.to_string().contains("a.csv:3: 1 rows are no samples"), "{error}");
}

#[test]
fn umlauts_of_any_encoding_are_understood() {
    let style = Style { german: true, ..ENGLISH };
    let text = log("S1", 1..=DATABASES, 0..24, style, &plain);
    for umlaut in [0xfc, 0x81] {
        let mut bytes = Vec::new();
        text.chars().for_each(|c| bytes.push(if c == 'ü' { umlaut } else { c as u8 }));
        assert!(is_counters(&bytes));
        assert_round_trip(&profile(&[("a.csv".into(), bytes)], Some(1000)).expect("a profile"));
    }
    let wide: Vec<u8> =
        [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(|unit| unit.to_le_bytes()).collect();
    assert!(is_counters(&wide));
    assert_round_trip(&profile(&[("a.csv".into(), wide)], Some(1000)).expect("a profile"));
}

#[test]
fn several_servers_and_files_in_any_order_make_one_profile() {
    let logs = [
        log("S2", 3..=DATABASES, 12..24, ENGLISH, &plain),
        log("S1", 1..=2, 0..24, ENGLISH, &plain),
        log("S2", 3..=DATABASES, 0..12, ENGLISH, &plain),
    ];
    assert_round_trip(&profile_of(&logs, Some(1000)));
}

#[test]
fn log_counts_that_wrap_or_begin_again_lose_no_logs() {
    let wraps = |_: u32, figure: usize, value: f64| match figure {
        3 => format!("{:.3}", (value + 4_294_967_296.0 - 2_000.0) % 4_294_967_296.0),
        _ => plain(0, figure, value),
    };
    let profile = profile_of(&[log("S1", 1..=DATABASES, 0..24, ENGLISH, &wraps)], Some(1000));
    assert_round_trip(&profile);
    assert_eq!(profile.warnings, Vec::<String>::new());
    let restarts = |second: u32, figure: usize, value: f64| match figure {
        // Twenty hours of the lowest database are 7,560 files: all counts begin again at 15 h.
        3 if second > 15 * 3600 => format!("{:.3}", value / 100.0),
        _ => plain(0, figure, value),
    };
    let profile = profile_of(&[log("S1", 1..=DATABASES, 0..24, ENGLISH, &restarts)], Some(1000));
    assert_eq!(profile.warnings, ["4 counts of log files began again, as after a restart"]);
}

#[test]
fn values_that_no_server_has_and_gaps_are_left_out_and_told() {
    let wraps = |second: u32, figure: usize, value: f64| match (second % 1200, figure) {
        (0, 0) => "-71582788.2".to_owned(),
        (600, 1) => "4294967295000".to_owned(),
        (300, _) => " ".to_owned(),
        _ => plain(0, figure, value),
    };
    let text = log("S1", 1..=DATABASES, 0..24, ENGLISH, &wraps);
    let lines = text.lines().enumerate();
    // Ten minutes without a sample in every sixth hour.
    let kept = lines.filter(|(n, _)| *n < 2 || n % 360 > 10).map(|(_, line)| format!("{line}\n"));
    let profile = profile_of(&[kept.collect()], Some(1000));
    assert_round_trip(&profile);
    assert_eq!(profile.warnings[0], "4 gaps between samples; a gap counts as one interval");
    assert!(
        profile.warnings[1]
            .ends_with("values are no figures (negative, or beyond any server) and are left out")
    );
}

#[test]
fn what_needs_the_mailboxes_stays_marked_without_them() {
    let profile = profile_of(&[log("S1", 1..=DATABASES, 0..24, ENGLISH, &plain)], None);
    for line in [
        "# iops_per_mailbox = 800.00 / mailboxes",
        "# logs_per_mailbox_day = 88200.0 / mailboxes",
        "# mailboxes = not known: active mailboxes of these databases",
    ] {
        assert!(profile.text.contains(line), "{line}\n{}", profile.text);
    }
    let short = profile_of(&[log("S1", 1..=DATABASES, 9..12, ENGLISH, &plain)], None);
    assert!(short.text.contains("# logs_per_mailbox_day = not known"), "{}", short.text);
    let told = &short.warnings;
    assert!(told[1].starts_with("no day has log counts for 23 hours"), "{told:?}");
    assert!(
        told[0].starts_with("hours of the peak hour's day without enough samples: 0, 1, 2, 3,"),
        "{told:?}"
    );
    // Hours 9 and 11 have half the load of the peak hour between them, and all others lie between 11 and 9.
    let hours = hours(&short);
    let expected: Vec<f64> = (0..24).map(|hour| if hour == 10 { 100.0 } else { 50.0 }).collect();
    assert_eq!(hours, expected);
    let rises = profile_of(&[log("S1", 1..=DATABASES, 3..6, ENGLISH, &plain)], None);
    let hours = self::hours(&rises);
    assert_eq!((hours[3], hours[4], hours[5], hours[20]), (100.0, 50.0, 100.0, 100.0));
}

#[test]
fn latencies_that_contradict_rate_and_queue_are_named() {
    let disk = |latency: f64| {
        let paths = ["Disk Reads/sec", "Avg. Disk sec/Read", "Avg. Disk Read Queue Length"]
            .map(|counter| format!(r#""\\S1\LogicalDisk(C:\V\1)\{counter}""#));
        let header = header("S1", 1..=1, ENGLISH);
        let mut text = format!("{},{}\r\n", header.trim_end(), paths.join(","));
        for minute in 0..=120 {
            let time = format!("11/02/2026 {:02}:{:02}:00.000", minute / 60, minute % 60);
            text += &format!("\"{time}\",\"30\",\"10\",\"7\",\"{minute}\",\"100\",\"{latency}\",\"2\"\r\n");
        }
        profile_of(&[text], None).warnings
    };
    let contradicts =
        |warnings: Vec<String>| warnings.into_iter().find(|warning| warning.contains("latency"));
    assert_eq!(contradicts(disk(0.02)), None);
    let told = contradicts(disk(20.0)).expect("it is a thousand times too much");
    assert_eq!(
        told,
        r"disk `C:\V\1` on S1: read rate times read latency is 2000.000, the queue says 2.000; the latency, the rate or the queue counter is wrong (1000.0 times too much)"
    );
}

#[test]
fn logs_without_known_counters_are_refused_with_their_line() {
    let files = [(
        "a.csv".to_owned(),
        b"\"(PDH-CSV 4.0)\",\"\\\\S\\Memory\\Available Bytes\"\r\n\"11/02/2026\",\"1\"".to_vec(),
    )];
    let error = profile(&files, None).expect_err("no counter is known").to_string();
    assert!(error.starts_with("a.csv:1: no counter of a database or a disk is in its header"), "{error}");
    let text = log("S1", 1..=1, 0..2, ENGLISH, &plain).replacen("\"11/02/2026 00:05", "\"today 00:05", 1);
    let error =
        profile(&[("b.csv".into(), text.into_bytes())], None).expect_err("a row is damaged").to_string();
    assert_eq!(error, "b.csv:7: 1 rows are no samples of this header, this one first");
}

#[test]
fn damaged_logs_never_panic_and_their_profiles_are_toml() {
    let seeds = [
        log("S1", 1..=2, 0..2, ENGLISH, &plain),
        log("S1", 1..=1, 0..2, Style { german: true, separator: ';', has_files: false }, &plain),
    ];
    testkit::fuzz("counters", &seeds.map(String::into_bytes), |bytes| {
        match profile(&[("a.csv".into(), bytes.to_owned())], Some(10)) {
            Ok(profile) => assert!(profile.text.parse::<toml::Table>().is_ok(), "{}", profile.text),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    });
}

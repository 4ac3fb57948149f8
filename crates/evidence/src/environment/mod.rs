//! The environment of a run: captured before, compared after.
//!
//! Invariants
//! 1. Only reads: no setting of the host is changed, and no file is written.
//! 2. What cannot be read is said to be unreadable, never left out as if it were fine.
//!
//! Limits: Linux. Kernel log and SMART counters need rights that an ordinary user may not have.

mod devices;
mod kernel_log;
mod kernel_messages;
mod memory;
pub mod mounts;
pub mod sharing;
mod smart;
pub mod storage_model;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use results::{Comparison, Environment, Origin, Outcome, Row, Severity, Verdict};

use devices::{Device, Names};
pub use memory::check_memory;
use memory::{InMemory, in_memory};
use mounts::{Mount, Nature};

/// A volume of the solution file on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// Name, as in the solution file.
    pub name: String,
    /// Its folder.
    pub dir: PathBuf,
}

/// The environment of a host at one moment: system, volumes, disks, error counters, position in the kernel log.
#[derive(Debug, Clone)]
pub struct Capture {
    /// Rows for the `environment` table of `run.db`.
    pub rows: Vec<Environment>,
    kernel_log: Result<kernel_log::Position, String>,
    names: Names,
    smart: SmartCounters,
}

/// SMART error counters, by disk and counter name.
type SmartCounters = BTreeMap<(String, String), u64>;

/// Area of the environment rows that compare the host after the tests with before.
pub const AFTER: &str = "After the tests";
/// Name of the environment rows with kernel messages about storage.
pub const KERNEL_LOG: &str = "Kernel log";
/// Value of such a row when the kernel has overwritten records before they were read.
pub const OVERWRITTEN: &str = "part of the kernel log was overwritten";
/// Prefix of the value of an environment row whose source could not be read.
pub const NOT_READABLE: &str = "not readable";

/// Captures the environment of a host and of its volumes. `io_uring` is the result of setting up a ring: the kernel
/// may allow it and a sandbox refuse it.
pub fn capture(host: &str, volumes: &[Volume], io_uring: Result<(), String>) -> Capture {
    let mut found = Findings { host, rows: Vec::new() };
    let root = Path::new("/");
    system(&mut found, root, io_uring);
    sharing::machine_rows(&mut found, root);
    let mounts = mounts::parse(&read(root, "proc/self/mountinfo").unwrap_or_default());
    let mut disks: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for volume in volumes {
        for disk in volume_rows(&mut found, root, volume, &mounts) {
            disks.entry(disk).or_default().insert(&volume.name);
        }
    }
    for (disk, sharing) in &disks {
        if sharing.len() > 1 {
            let names = sharing.iter().copied().collect::<Vec<_>>().join(", ");
            found.doubt(
                "Volumes",
                &format!("Share {disk}"),
                &names,
                Severity::Warning,
                "volumes on one device compete with each other: their figures do not add up to those of separate devices",
            );
        }
    }
    let kernel_log = kernel_log::position();
    match &kernel_log {
        Ok(_) => found.row("Kernel log", "Compared", "yes"),
        Err(why) => found.row("Kernel log", "Compared", &format!("no: not readable ({why})")),
    }
    let smart = smart_rows(&mut found, disks.keys());
    let names = Names::below(root, volumes.iter().filter_map(|volume| mounts::of(&mounts, &volume.dir)));
    Capture { rows: found.rows, kernel_log, names, smart }
}

/// The kernel log during the tests: a thread reads it every minute, because the kernel overwrites old records.
#[derive(Debug)]
pub struct KernelLog(Result<kernel_log::Reading, String>);

impl KernelLog {
    /// Starts the thread; it keeps what is logged after this capture.
    pub fn since(before: &Capture) -> KernelLog {
        KernelLog(before.kernel_log.clone().map(kernel_log::Reading::begin))
    }
}

/// Compares two captures: SMART counters, kernel messages, load. Gives rows for `run.db`; among them a verdict on the
/// kernel log, unless it holds no storage error.
pub fn compare(host: &str, before: &Capture, after: &Capture, kernel_log: KernelLog) -> Vec<Row> {
    let mut found = Findings { host, rows: Vec::new() };
    let since = kernel_log.0.and_then(kernel_log::Reading::end);
    let errors = match &since {
        Ok(since) => kernel_log_rows(&mut found, since, &before.names),
        Err(why) => {
            // That it could not be read before either is said there.
            if before.kernel_log.is_ok() {
                found.row(AFTER, KERNEL_LOG, &format!("{NOT_READABLE} ({why})"));
            }
            None
        }
    };
    smart_changes(&mut found, &before.smart, &after.smart);
    let verdict = (errors != Some(0)).then(|| kernel_log_verdict(host, errors).into());
    found.rows.into_iter().map(Row::from).chain(verdict).collect()
}

/// The verdict on kernel errors about the storage under test; only for information if the log could not be read in
/// full.
fn kernel_log_verdict(host: &str, errors: Option<u64>) -> Verdict {
    Verdict {
        test: None,
        origin: Origin::host(host),
        rule: "kernel_log_storage_errors".into(),
        text: "the kernel logs no error of the storage under test".into(),
        measured: errors.map(|errors| errors as f64),
        limit: Some(0.0),
        comparison: Comparison::AtMost,
        unit: "messages".into(),
        outcome: if errors.is_some() { Outcome::Fail } else { Outcome::Info },
    }
}

/// Adds rows with the kernel messages. Gives the number of errors about the storage under test; `None` if records are
/// missing and those that are left hold none.
fn kernel_log_rows(found: &mut Findings<'_>, since: &kernel_log::Since, names: &Names) -> Option<u64> {
    if since.overwritten {
        found.doubt(
            AFTER,
            KERNEL_LOG,
            OVERWRITTEN,
            Severity::Warning,
            "whether that part had errors or warnings about storage is not known",
        );
    } else if since.lines.is_empty() {
        found.row(AFTER, KERNEL_LOG, "no storage error or warning");
    }
    let mut errors = 0;
    for line in &since.lines {
        let of_another = names.means_another(&line.text);
        let severity = if of_another { Severity::Warning } else { line.severity };
        errors += u64::from(severity == Severity::Error);
        let mut note = "logged during the tests".to_owned();
        if of_another {
            note += " about a device that is not under test";
        }
        if let Some(source) = line.source {
            note += &format!(" ({source})");
        }
        found.doubt(AFTER, KERNEL_LOG, &line.text, severity, &note);
    }
    if since.more > 0 {
        let more = format!("{} more lines about storage", since.more);
        found.doubt(AFTER, KERNEL_LOG, &more, Severity::Warning, "only the first lines of a run are kept");
    }
    (errors > 0 || !since.overwritten).then_some(errors)
}

fn smart_changes(found: &mut Findings<'_>, before: &SmartCounters, after: &SmartCounters) {
    let lost = disks_with_more(before, after);
    for disk in &lost {
        found.doubt(
            AFTER,
            &format!("{disk}: SMART counters"),
            "was readable before, not after",
            Severity::Warning,
            "whether the disk counted errors during the tests is not known",
        );
    }
    let new = disks_with_more(after, before);
    for disk in &new {
        found.row(AFTER, "SMART counters", &format!("{disk}: not readable before the tests, not compared"));
    }
    let mut rose = false;
    for ((disk, counter), value) in after {
        match before.get(&(disk.clone(), counter.clone())) {
            Some(old) if value > old => {
                rose = true;
                found.doubt(
                    AFTER,
                    &format!("{disk}: {counter}"),
                    &format!("{old} before, {value} after"),
                    Severity::Error,
                    "the disk counted errors during the tests",
                );
            }
            _ => {}
        }
    }
    if lost.is_empty() && new.is_empty() && !rose && !after.is_empty() {
        found.row(AFTER, "SMART counters", "unchanged");
    }
}

/// Disks with a SMART counter in `these` that `those` lack.
fn disks_with_more<'a>(these: &'a SmartCounters, those: &SmartCounters) -> BTreeSet<&'a str> {
    these.keys().filter(|key| !those.contains_key(*key)).map(|(disk, _)| disk.as_str()).collect()
}

/// Environment rows of one host while they are collected.
struct Findings<'a> {
    host: &'a str,
    rows: Vec<Environment>,
}

impl Findings<'_> {
    fn row(&mut self, area: &str, name: &str, value: &str) {
        self.doubt(area, name, value, Severity::Info, "");
    }

    fn doubt(&mut self, area: &str, name: &str, value: &str, severity: Severity, note: &str) {
        self.rows.push(Environment {
            host: self.host.to_owned(),
            area: area.to_owned(),
            name: name.to_owned(),
            value: value.to_owned(),
            severity,
            note: note.to_owned(),
        });
    }
}

/// The content of a file of `/proc` or `/sys` without the blanks around; `None` if it is not there or empty.
fn read(root: &Path, path: &str) -> Option<String> {
    let text = std::fs::read_to_string(root.join(path)).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn system(found: &mut Findings<'_>, root: &Path, io_uring: Result<(), String>) {
    const AREA: &str = "System";
    if let Some(kernel) = read(root, "proc/sys/kernel/osrelease") {
        found.row(AREA, "Kernel", &format!("Linux {kernel}"));
    }
    let release = read(root, "etc/os-release").unwrap_or_default();
    if let Some(name) = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")) {
        found.row(AREA, "Distribution", name.trim_matches('"'));
    }
    let vendor = read(root, "sys/class/dmi/id/sys_vendor");
    let product = read(root, "sys/class/dmi/id/product_name");
    let machine: Vec<String> = vendor.into_iter().chain(product).collect();
    if !machine.is_empty() {
        found.row(AREA, "Machine", &machine.join(" "));
    }
    let cpuinfo = read(root, "proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        cpuinfo
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| key.trim() == name)
            .map(|(_, v)| v.trim())
    };
    let count = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    found.row(
        AREA,
        "Processor",
        &format!("{count} x {}", field("model name").unwrap_or(std::env::consts::ARCH)),
    );
    let meminfo = read(root, "proc/meminfo").unwrap_or_default();
    let kib = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()
    };
    if let Some(total) = kib("MemTotal") {
        found.row(AREA, "Memory", &crate::report::text::bytes((total * 1024) as f64));
    }
    clock(found, root);
    match io_uring {
        Ok(()) => found.row(AREA, "io_uring", "works"),
        Err(why) => {
            let setting = read(root, "proc/sys/kernel/io_uring_disabled").filter(|value| value != "0");
            let setting =
                setting.map_or(String::new(), |value| format!("; kernel.io_uring_disabled = {value}"));
            found.doubt(
                AREA,
                "io_uring",
                &format!("refused ({why}{setting})"),
                Severity::Warning,
                "polling threads take its place, and the load generator may become the limit",
            );
        }
    }
    if let Some(load) =
        read(root, "proc/loadavg").and_then(|text| text.split(' ').next()?.parse::<f64>().ok())
    {
        let text = format!("{load} on {count} processors");
        if load > 0.5 * count as f64 {
            let note = "other work on this host competes with the tests";
            found.doubt(AREA, LOAD_BEFORE, &text, Severity::Warning, note);
        } else {
            found.row(AREA, LOAD_BEFORE, &text);
        }
    }
}

fn clock(found: &mut Findings<'_>, root: &Path) {
    let path = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    match read(root, path).as_deref() {
        Some(slow @ ("hpet" | "acpi_pm" | "jiffies" | "refined-jiffies")) => found.doubt(
            "System",
            "Clock source",
            slow,
            Severity::Warning,
            "reading this clock takes about a microsecond or is coarse: short latencies are less exact",
        ),
        Some(source) => found.row("System", "Clock source", source),
        None => {}
    }
}

/// Adds rows about what a volume stands on: mount, file system, devices. Gives its disks by kernel name.
fn volume_rows(found: &mut Findings<'_>, root: &Path, volume: &Volume, mounts: &[Mount]) -> BTreeSet<String> {
    let area = format!("Volume {}", volume.name);
    found.row(&area, "Folder", &volume.dir.display().to_string());
    let Some(mount) = mounts::of(mounts, &volume.dir) else {
        found.doubt(
            &area,
            Environment::FILE_SYSTEM,
            "unknown",
            Severity::Warning,
            "no mount holds this folder",
        );
        return BTreeSet::new();
    };
    let text = format!("{} on {} ({})", mount.file_system, mount.point.display(), mount.options);
    let (severity, note) = match mount.nature() {
        // What is memory has a row of its own.
        Nature::Plain | Nature::Memory => (Severity::Info, ""),
        Nature::CopyOnWrite => (
            Severity::Warning,
            "copy-on-write: every page written moves, so files become fragmented as the tests go on",
        ),
        Nature::Overlay => (Severity::Warning, "a layer over other file systems: what is below is not known"),
        Nature::Network => {
            (Severity::Warning, "not local: the network and another host are part of what is measured")
        }
    };
    found.doubt(&area, Environment::FILE_SYSTEM, &text, severity, note);
    memory_row(found, &area, &in_memory(root, mounts, &volume.dir));
    let unsafe_options = ["nobarrier", "barrier=0", "data=writeback", "async_flush"];
    for option in mount.options.split(',').filter(|option| unsafe_options.contains(option)) {
        let note = "with this option a power cut may lose or mix up what was synced";
        found.doubt(&area, "Mount option", option, Severity::Warning, note);
    }
    let devices = devices::below(root, mount);
    if devices.is_empty() && mount.nature() == Nature::Plain {
        found.row(&area, "Device", &format!("{}: not a block device that this host can see", mount.source));
    }
    for device in &devices {
        device_rows(found, &area, device);
    }
    let disks = devices.into_iter().filter(|device| device.is_leaf).map(|device| device.name).collect();
    sharing::volume_rows(found, root, &area, mount, &disks);
    disks
}

/// Name of the environment row with the load of other programs on the host before the tests.
pub const LOAD_BEFORE: &str = "Load before the tests";

/// Name of the environment row that says of each volume whether its files are in memory.
pub const STORAGE_IS_MEMORY: &str = "Storage is memory";

/// Whether a row of the environment says of a volume whether it is in memory.
pub fn is_about_memory(row: &Environment) -> bool {
    row.area.starts_with("Volume ") && row.name == STORAGE_IS_MEMORY
}

/// Value of a volume's row where a condition (in memory, holds the evidence) is known not to hold.
pub const NO: &str = "no";

/// Name of the row that says of each volume whether the evidence of the run is on its file system.
pub const HOLDS_EVIDENCE: &str = "Holds the evidence";

/// A row for each volume: whether the evidence in `folder` is on the same file system, so that writing it disturbs the
/// test.
pub fn evidence_rows(host: &str, volumes: &[Volume], folder: &Path) -> Vec<Environment> {
    let mounts = mounts::of_this_process();
    let device = |dir: &Path| mounts::of(&mounts, dir).map(|mount| mount.device.as_str());
    let mut found = Findings { host, rows: Vec::new() };
    for volume in volumes {
        let area = format!("Volume {}", volume.name);
        match device(&volume.dir).zip(device(folder)) {
            Some((ours, evidence)) if ours == evidence => found.doubt(
                &area,
                HOLDS_EVIDENCE,
                "yes",
                Severity::Warning,
                "what the evidence writes goes to the storage that is measured",
            ),
            Some(_) => found.row(&area, HOLDS_EVIDENCE, NO),
            None => found.row(&area, HOLDS_EVIDENCE, "not known: a folder is on no mount of this host"),
        }
    }
    found.rows
}

fn memory_row(found: &mut Findings<'_>, area: &str, in_memory: &InMemory) {
    match in_memory {
        InMemory::No => found.row(area, STORAGE_IS_MEMORY, NO),
        InMemory::Yes(what) => found.doubt(
            area,
            STORAGE_IS_MEMORY,
            &format!("yes: {what}"),
            Severity::Error,
            "memory, not storage: the results say nothing about disks",
        ),
        InMemory::Unknown(why) => found.row(area, STORAGE_IS_MEMORY, &format!("not known: {why}")),
    }
}

fn device_rows(found: &mut Findings<'_>, area: &str, device: &Device) {
    found.row(area, &format!("Device {}", device.name), &device.description.join(", "));
    for (doubt, note) in &device.doubts {
        found.doubt(area, &format!("Device {}", device.name), doubt, Severity::Warning, note);
    }
}

fn smart_rows<'d>(found: &mut Findings<'_>, disks: impl Iterator<Item = &'d String>) -> SmartCounters {
    let mut counters = SmartCounters::new();
    for disk in disks {
        match smart::counters(disk) {
            Ok(of_disk) => {
                let text = of_disk
                    .iter()
                    .map(|(name, value)| format!("{name} {value}"))
                    .collect::<Vec<_>>()
                    .join(", ");
                found.row("SMART", disk, &text);
                counters.extend(of_disk.into_iter().map(|(name, value)| ((disk.clone(), name), value)));
            }
            Err(why) => found.row("SMART", disk, &format!("not readable ({why})")),
        }
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Capture {
        let (kernel_log, names) = (Err("not allowed".to_owned()), Names::default());
        Capture { rows: Vec::new(), kernel_log, names, smart: BTreeMap::new() }
    }

    /// The comparison of two captures as rows: facts, and the verdict on the kernel log.
    fn compared(before: &Capture, after: &Capture) -> (Vec<Environment>, Option<Verdict>) {
        let (mut rows, mut verdict) = (Vec::new(), None);
        for row in compare("host", before, after, KernelLog::since(before)) {
            match row {
                Row::Environment(row) => rows.push(row),
                Row::Verdict(of_kernel) => verdict = Some(of_kernel),
                other => panic!("{other:?}"),
            }
        }
        (rows, verdict)
    }

    #[test]
    fn this_host_can_be_captured_and_says_what_it_could_not_read() {
        let volume = Volume { name: "here".to_owned(), dir: std::env::temp_dir().join("not-there-yet") };
        let capture = capture("host", &[volume], Err("not tried".into()));
        let value =
            |name: &str| capture.rows.iter().find(|row| row.name == name).map(|row| row.value.as_str());
        assert!(value("Kernel").is_some_and(|kernel| kernel.starts_with("Linux ")));
        assert!(value(Environment::FILE_SYSTEM).is_some(), "{:?}", capture.rows);
        assert!(value(STORAGE_IS_MEMORY).is_some(), "{:?}", capture.rows);
        assert_eq!(value("io_uring"), Some("refused (not tried)"));
        assert!(value("Compared").is_some(), "the kernel log is compared, or it is said why not");
        assert!(capture.rows.iter().all(|row| row.host == "host"));
    }

    #[test]
    fn a_counter_that_rose_during_the_tests_is_an_error() {
        let key = |name: &str| ("sda".to_owned(), name.to_owned());
        let (mut before, mut after) = (empty(), empty());
        before.smart = BTreeMap::from([(key("media_errors"), 3), (key("crc_errors"), 7)]);
        after.smart = BTreeMap::from([(key("media_errors"), 4), (key("crc_errors"), 7)]);
        let (rows, verdict) = compared(&before, &after);
        assert_eq!(rows.len(), 1);
        assert_eq!(verdict.map(|verdict| verdict.outcome), Some(Outcome::Info), "nobody could read the log");
        assert_eq!((rows[0].severity, rows[0].value.as_str()), (Severity::Error, "3 before, 4 after"));
        assert_eq!(compared(&after, &after).0[0].value, "unchanged");
    }

    fn counters(of: &[(&str, &str, u64)]) -> SmartCounters {
        of.iter().map(|(disk, name, value)| (((*disk).to_owned(), (*name).to_owned()), *value)).collect()
    }

    /// Rows for the counters that grew between two captures, as name, value and severity.
    fn changes(before: &SmartCounters, after: &SmartCounters) -> Vec<(String, String, Severity)> {
        let mut found = Findings { host: "host", rows: Vec::new() };
        smart_changes(&mut found, before, after);
        found.rows.into_iter().map(|row| (row.name, row.value, row.severity)).collect()
    }

    #[test]
    fn a_disk_that_cannot_be_read_any_more_is_named_and_nothing_is_called_unchanged() {
        let two = counters(&[("sda", "crc_errors", 7), ("sdb", "crc_errors", 0), ("sdb", "media_errors", 0)]);
        let one = counters(&[("sda", "crc_errors", 7)]);
        let lost = |disk: &str| {
            let (name, value) =
                (format!("{disk}: SMART counters"), "was readable before, not after".to_owned());
            (name, value, Severity::Warning)
        };
        assert_eq!(changes(&two, &one), [lost("sdb")], "once for a disk");
        assert_eq!(changes(&two, &SmartCounters::new()), [lost("sda"), lost("sdb")]);
        let fewer = counters(&[("sda", "crc_errors", 7), ("sdb", "crc_errors", 0)]);
        assert_eq!(changes(&two, &fewer), [lost("sdb")], "one of its counters is gone");
        assert!(changes(&SmartCounters::new(), &SmartCounters::new()).is_empty(), "nothing could be read");
        let rose = counters(&[("sda", "crc_errors", 8)]);
        let rows = changes(&two, &rose);
        assert_eq!((rows[0].2, rows[1].2, rows.len()), (Severity::Warning, Severity::Error, 2), "{rows:?}");
        let rows = changes(&one, &two);
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!(
            (rows[0].1.as_str(), rows[0].2),
            ("sdb: not readable before the tests, not compared", Severity::Info)
        );
    }

    fn logged(last: u64, records: Vec<kernel_log::Record>) -> kernel_log::Since {
        let mut found = kernel_log::Found::after(Some(last));
        found.take(records);
        found.since
    }

    #[test]
    fn a_kernel_log_of_which_part_is_gone_is_not_called_clean() {
        let said = |last: u64, records: Vec<kernel_log::Record>| {
            let mut found = Findings { host: "host", rows: Vec::new() };
            kernel_log_rows(&mut found, &logged(last, records), &Names::default());
            found.rows.into_iter().map(|row| (row.value, row.severity)).collect::<Vec<_>>()
        };
        let line = |sequence: u64| (sequence, 3, "sda: I/O error".to_owned());
        let row = |value: &str, severity: Severity| (value.to_owned(), severity);
        let gone = || row("part of the kernel log was overwritten", Severity::Warning);
        let error = || row("sda: I/O error", Severity::Error);
        assert_eq!(said(10, vec![line(10)]), [row("no storage error or warning", Severity::Info)]);
        assert_eq!(said(10, vec![line(10), line(11)]), [error()]);
        assert_eq!(said(10, vec![line(12)]), [gone(), error()], "what was found is still listed");
        assert_eq!(said(10, vec![(12, 6, "usb 1-1: new device".to_owned())]), [gone()]);
    }

    #[test]
    fn a_kernel_error_fails_the_run_and_a_log_with_a_hole_is_not_clean() {
        let judged = |records: &[(u64, u32, &str)]| {
            let mut found = Findings { host: "host", rows: Vec::new() };
            let records = records.iter().map(|(n, level, text)| (*n, *level, (*text).to_owned())).collect();
            kernel_log_rows(&mut found, &logged(10, records), &Names::default())
        };
        let no_space = "critical space allocation error, dev loop1, sector 8 op 0x1:(WRITE) flags 0x8800";
        assert_eq!(judged(&[(11, 3, no_space)]), Some(1));
        assert_eq!(
            judged(&[(11, 4, "mpt3sas_cm0: log_info(0x31110e03)")]),
            Some(0),
            "a warning fails nothing"
        );
        assert_eq!(judged(&[(12, 3, no_space)]), Some(1), "what is left says enough");
        assert_eq!(judged(&[(12, 6, "usb 1-1: new device")]), None);
        let outcome = |errors| kernel_log_verdict("host", errors).outcome;
        assert_eq!((outcome(Some(1)), outcome(None)), (Outcome::Fail, Outcome::Info));
    }
}

//! Environment validation: what was looked at before and after the tests, from the rows of the environment.

use results::{Environment, Severity, WorldKind};

use super::model::{CheckOutcome, CheckRow};
use crate::environment::LOAD_BEFORE;
use crate::run_data::RunData;

/// Environment rows that the table of checks shows even when they cast no doubt: area (for volumes its first word),
/// name, title in the table.
const CHECKED: [(&str, &str, &str); 7] = [
    ("System", "io_uring", "Way to the kernel"),
    ("System", "Clock source", "Clock"),
    ("System", LOAD_BEFORE, "Other work on the host"),
    ("Volume", Environment::FILE_SYSTEM, "File system"),
    ("Kernel log", "Compared", "Kernel log can be compared"),
    ("After the tests", "Kernel log", "Kernel log after the tests"),
    ("After the tests", "SMART counters", "Disk counters after the tests"),
];

/// Title of the check whether I/O bypasses the page cache.
pub const UNBUFFERED: &str = "Unbuffered I/O";

/// The table of checks: a row per thing that was looked at, in the order of the capture; the check of unbuffered I/O
/// comes first.
pub fn rows(data: &RunData) -> Vec<CheckRow> {
    let mut rows: Vec<CheckRow> = data.environment.iter().filter_map(check).collect();
    if data.run.world == WorldKind::Real {
        rows.splice(0..0, data.hosts.iter().filter_map(|host| unbuffered(data, &host.name)));
    }
    rows
}

/// The check of unbuffered I/O of a host: from its own row in a fleet whose hosts differ, else from the run's.
/// Imported figures do not say.
fn unbuffered(data: &RunData, host: &str) -> Option<CheckRow> {
    let own = |row: &&Environment| {
        (row.host.as_str(), row.area.as_str(), row.name.as_str()) == (host, "System", "I/O")
    };
    let found = data.environment.iter().find(own).map_or(&data.run.world_detail, |row| &row.value);
    let (driver, mode) = found.split_once(", ")?;
    if !["io_uring", "polling"].contains(&driver) || found.contains("; ") {
        return None;
    }
    let (outcome, note) = match mode {
        mode if mode.starts_with("direct") => (CheckOutcome::Good, ""),
        mode if mode.starts_with("buffered") => {
            (CheckOutcome::Warning, "the page cache of the system is part of what is measured")
        }
        _ => return None,
    };
    let (host, name) = (host.to_owned(), UNBUFFERED.to_owned());
    Some(CheckRow { host, name, outcome, found: found.clone(), note: note.to_owned() })
}

fn check(row: &Environment) -> Option<CheckRow> {
    let known = CHECKED.iter().find(|(area, name, _)| {
        (row.area == *area || *area == "Volume" && row.area.starts_with("Volume ")) && row.name == *name
    });
    let unreadable = row.value.contains("not readable");
    if known.is_none() && row.severity == Severity::Info && row.area != "SMART" {
        return None;
    }
    let title = known.map_or(row.name.as_str(), |(_, _, title)| title);
    let name = if row.area.starts_with("Volume ") || known.is_none() {
        format!("{}: {title}", row.area)
    } else {
        title.to_owned()
    };
    let outcome = match row.severity {
        Severity::Error => CheckOutcome::Error,
        Severity::Warning => CheckOutcome::Warning,
        Severity::Info if unreadable => CheckOutcome::Unknown,
        Severity::Info => CheckOutcome::Good,
    };
    Some(CheckRow { host: row.host.clone(), name, outcome, found: row.value.clone(), note: row.note.clone() })
}

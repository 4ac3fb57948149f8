//! `fleet.log`: what a controller saw happen, a line of JSON each, for the report.
//!
//! Several controllers of one run write to it one after the other. A line that is not whole, as a killed
//! controller leaves it, is passed over.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use results::Severity;
use serde::{Deserialize, Serialize};

/// Entry of the event log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Time by the controller's calendar, ms since 1970.
    pub unix_ms: u64,
    /// Host that the event is about; `None` for the whole run.
    pub host: Option<String>,
    /// Text of the event.
    pub text: String,
}

impl Entry {
    /// Event row of the evidence, for a run that started at this moment.
    pub fn event(self, started_unix_ms: u64) -> results::Event {
        let host = self.host.unwrap_or_else(|| "controller".to_owned());
        let t_ms = self.unix_ms.saturating_sub(started_unix_ms);
        let text = format!("controller: {}", self.text);
        results::Event { t_ms, severity: Severity::Info, test: None, host, text }
    }
}

/// Event log under construction (`fleet.log`).
pub struct EventLog(File);

fn path(folder: &Path) -> std::path::PathBuf {
    folder.join("fleet.log")
}

impl EventLog {
    /// Continues the event log of a run.
    ///
    /// # Errors
    /// Failed I/O.
    pub fn open(folder: &Path) -> std::io::Result<EventLog> {
        let mut file = OpenOptions::new().create(true).append(true).open(path(folder))?;
        // Behind half a line a new one would be lost, too.
        if std::fs::read(path(folder))?.last().is_some_and(|last| *last != b'\n') {
            file.write_all(b"\n")?;
        }
        Ok(EventLog(file))
    }

    /// Appends a line.
    ///
    /// # Errors
    /// Failed I/O.
    pub fn add(&mut self, entry: &Entry) -> std::io::Result<()> {
        let line = serde_json::to_string(entry).expect("an entry has only text keys");
        self.0.write_all(format!("{line}\n").as_bytes())
    }
}

/// Reads all entries.
///
/// # Errors
/// Failed I/O.
pub fn read(folder: &Path) -> std::io::Result<Vec<Entry>> {
    let text = String::from_utf8_lossy(&std::fs::read(path(folder))?).into_owned();
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_line_of_a_killed_controller_costs_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let entry = |text: &str| Entry { unix_ms: 1, host: None, text: text.into() };
        let add = |text: &str| EventLog::open(folder.path()).and_then(|mut log| log.add(&entry(text)));
        add("first").expect("writable");
        let whole = std::fs::read(path(folder.path())).expect("readable");
        std::fs::write(path(folder.path()), [&whole[..], &whole[..10]].concat()).expect("writable");
        add("second").expect("writable");
        assert_eq!(read(folder.path()).expect("readable"), [entry("first"), entry("second")]);
    }
}

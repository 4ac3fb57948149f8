//! Which column of a counter log is what: by the path of its counter, in English or German.
//!
//! Names are compared by their ASCII letters and digits: logs come in several encodings, and umlauts get lost.

use std::collections::BTreeMap;

/// A figure that counter logs have of a database or of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Reads per second.
    Reads,
    /// Writes per second.
    Writes,
    /// Log writes per second.
    LogWrites,
    /// Mean latency of a read: in ms for a database, in seconds for a disk.
    ReadLatency,
    /// Mean latency of a write, in the same unit.
    WriteLatency,
    /// Mean latency of a log write in ms.
    LogWriteLatency,
    /// Reads that wait or run, on average (queue length).
    ReadQueue,
    /// Writes that wait or run, on average.
    WriteQueue,
    /// Bytes of log generated per second.
    LogBytes,
    /// Log files generated since the Exchange process started.
    LogFiles,
}

/// Number of figures.
pub const FIGURES: usize = Figure::LogFiles as usize + 1;

/// The database or disk that a column of a counter log belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A database on a server.
    Database { server: String, name: String },
    /// A disk of a server.
    Disk { server: String, name: String },
}

/// The counter names of a figure, in order of preference.
type Names = (Figure, &'static [&'static str]);

const DATABASE_OBJECTS: [&str; 2] =
    ["MSExchange Database ==> Instances", "MSExchange-Datenbank ==> Instanzen"];

const DATABASE: [Names; 10] = [
    (
        Figure::Reads,
        &[
            "I/O Database Reads (Attached)/sec",
            "E/A: Datenbankleseoperationen (angefügt)/Sek.",
            "I/O Database Reads/sec",
            "E/A: Datenbankleseoperationen/Sek.",
        ],
    ),
    (
        Figure::Writes,
        &[
            "I/O Database Writes (Attached)/sec",
            "E/A: Datenbankschreiboperationen (angefügt)/Sek.",
            "I/O Database Writes/sec",
            "E/A: Datenbankschreiboperationen/Sek.",
        ],
    ),
    (Figure::LogWrites, &["I/O Log Writes/sec", "E/A: Protokollschreiboperationen/Sek"]),
    (
        Figure::ReadLatency,
        &[
            "I/O Database Reads (Attached) Average Latency",
            "E/A: Durchschnittliche Wartezeit für Datenbankleseoperationen (angefügt)",
        ],
    ),
    (
        Figure::WriteLatency,
        &[
            "I/O Database Writes (Attached) Average Latency",
            "E/A: Durchschnittliche Wartezeit für Datenbankschreiboperationen (angefügt)",
        ],
    ),
    (
        Figure::LogWriteLatency,
        &[
            "I/O Log Writes Average Latency",
            "E/A: Durchschnittliche Wartezeit für Protokollschreiboperationen",
        ],
    ),
    (Figure::ReadQueue, &["I/O Database Reads (Attached) Async Pending"]),
    (Figure::WriteQueue, &["I/O Database Writes (Attached) Async Pending"]),
    (Figure::LogBytes, &["Log Bytes Generated/sec", "Protokoll: generierte Bytes/Sek."]),
    (Figure::LogFiles, &["Log Files Generated", "Generierte Protokolldateien"]),
];

const DISK_OBJECTS: [&str; 4] =
    ["LogicalDisk", "PhysicalDisk", "Logischer Datenträger", "Physikalischer Datenträger"];

const DISK: [Names; 6] = [
    (Figure::Reads, &["Disk Reads/sec", "Lesevorgänge/s"]),
    (Figure::Writes, &["Disk Writes/sec", "Schreibvorgänge/s"]),
    (Figure::ReadLatency, &["Avg. Disk sec/Read", "Mittlere Sek./Lesevorgänge"]),
    (Figure::WriteLatency, &["Avg. Disk sec/Write", "Mittlere Sek./Schreibvorgänge"]),
    (
        Figure::ReadQueue,
        &["Avg. Disk Read Queue Length", "Durchschnittl. Warteschlangenlänge der Datenträger-Lesevorgänge"],
    ),
    (
        Figure::WriteQueue,
        &[
            "Avg. Disk Write Queue Length",
            "Durchschnittl. Warteschlangenlänge der Datenträger-Schreibvorgänge",
        ],
    ),
];

/// The columns of each database and disk, by figure.
pub type Columns = BTreeMap<Subject, [Option<usize>; FIGURES]>;

/// The columns of a counter log whose counters are known.
pub fn columns(header: &[String]) -> Columns {
    let mut ranked = BTreeMap::<Subject, [Option<(usize, usize)>; FIGURES]>::new();
    for (at, path) in header.iter().enumerate() {
        let Some((subject, figure, rank)) = column(path) else { continue };
        let slot = &mut ranked.entry(subject).or_default()[figure as usize];
        if slot.is_none_or(|(other, _)| rank < other) {
            *slot = Some((rank, at));
        }
    }
    let places = |figures: [Option<(usize, usize)>; FIGURES]| figures.map(|slot| slot.map(|(_, at)| at));
    ranked.into_iter().map(|(subject, figures)| (subject, places(figures))).collect()
}

/// The database or disk of the counter `\\server\object(instance)\counter`, and the rank of its name among those of
/// the figure.
fn column(path: &str) -> Option<(Subject, Figure, usize)> {
    let (server, rest) = path.strip_prefix(r"\\")?.split_once('\\')?;
    // Instances are mount points with backslashes, too.
    let (head, counter) = rest.rsplit_once(r")\")?;
    let (object, instance) = head.split_once('(')?;
    let server = server.to_owned();
    if is_one_of(object, &DATABASE_OBJECTS) {
        let (figure, rank) = figure_of(counter, &DATABASE)?;
        let name = database(instance)?;
        return Some((Subject::Database { server, name }, figure, rank));
    }
    if is_one_of(object, &DISK_OBJECTS) && !instance.eq_ignore_ascii_case("_Total") {
        let (figure, rank) = figure_of(counter, &DISK)?;
        return Some((Subject::Disk { server, name: instance.to_owned() }, figure, rank));
    }
    None
}

/// The database in the instance of a counter: `Information Store - DB1/_Total` since 2013, `Information Store/DB1`
/// before.
fn database(instance: &str) -> Option<String> {
    let (process, part) = instance.split_once('/')?;
    let store = process.get(.."information store".len())?;
    if !store.eq_ignore_ascii_case("information store") {
        return None;
    }
    let is_total = part.eq_ignore_ascii_case("_total");
    match process[store.len()..].strip_prefix(" - ") {
        Some(name) => is_total.then(|| name.to_owned()),
        None => (!is_total && process.len() == store.len()).then(|| part.to_owned()),
    }
}

fn figure_of(counter: &str, names: &[Names]) -> Option<(Figure, usize)> {
    let wanted = letters(counter);
    let place = |known: &[&str]| known.iter().position(|name| letters(name) == wanted);
    names.iter().find_map(|(figure, known)| Some((*figure, place(known)?)))
}

fn is_one_of(text: &str, names: &[&str]) -> bool {
    names.iter().any(|name| letters(name) == letters(text))
}

/// The ASCII letters and digits of a counter's name. Windows and Exchange translate *operations* differently.
fn letters(name: &str) -> String {
    let letters: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    letters.replace("vorgnge", "operationen")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_english_and_german_paths() {
        let database = |name: &str| Subject::Database { server: "S1".into(), name: name.into() };
        for (path, subject, figure) in [
            (
                r"\\S1\MSExchange Database ==> Instances(Information Store - DB1/_Total)\I/O Database Reads (Attached)/sec",
                database("DB1"),
                Figure::Reads,
            ),
            (
                r"\\S1\MSExchange-Datenbank  ==> Instanzen(Information Store - DB1/_Total)\E/A: Datenbankschreiboperationen (angef\u{fffd}gt)/Sek.",
                database("DB1"),
                Figure::Writes,
            ),
            (
                r"\\S1\MSExchange Database ==> Instances(Information Store/DB1)\Log Bytes Generated/sec",
                database("DB1"),
                Figure::LogBytes,
            ),
            (
                r"\\S1\LogicalDisk(C:\ExchangeVolumes\ExVol1)\Avg. Disk sec/Read",
                Subject::Disk { server: "S1".into(), name: r"C:\ExchangeVolumes\ExVol1".into() },
                Figure::ReadLatency,
            ),
        ] {
            let path = path.replace(r"\u{fffd}", "\u{fffd}");
            let (found, as_what, _) = column(&path).unwrap_or_else(|| panic!("{path}"));
            assert_eq!((found, as_what), (subject, figure));
        }
        for other in [
            r"\\S1\MSExchange Database ==> Instances(Information Store/_Total)\I/O Log Writes/sec",
            r"\\S1\MSExchange Database ==> Instances(edgetransport/Transport Mail Database)\I/O Log Writes/sec",
            r"\\S1\LogicalDisk(_Total)\Disk Reads/sec",
            r"\\S1\Memory\Available Bytes",
        ] {
            assert_eq!(column(other).map(|found| found.0), None, "{other}");
        }
    }
}

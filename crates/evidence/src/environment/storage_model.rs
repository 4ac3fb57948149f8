//! Rows of a simulated run that hold every value of its storage model, so that the evidence stands without the file of
//! assumptions.

use results::{Environment, Row, Severity};

use crate::store::sha256_hex;

/// Area of the environment rows with the values of the storage model of a simulated run.
pub const AREA: &str = "Storage model";
/// Name of the environment row with the SHA-256 of these values.
pub const DIGEST: &str = "SHA-256 of all values";
/// Name of the environment rows with values that no drive of its kind can have.
pub const DOUBT: &str = "Doubtful";

/// The environment rows of `host` about its storage model: the SHA-256 of the lines `key = value # source`, each value
/// with its source, each doubtful value.
pub fn rows<'a>(
    host: &str,
    values: impl Iterator<Item = (&'a str, &'a str, &'a str)> + Clone,
    doubts: &[String],
) -> Vec<Row> {
    let row = |name: &str, value: &str, severity: Severity, note: &str| -> Row {
        Environment {
            host: host.to_owned(),
            area: AREA.to_owned(),
            name: name.to_owned(),
            value: value.to_owned(),
            severity,
            note: note.to_owned(),
        }
        .into()
    };
    let lines: String =
        values.clone().map(|(key, value, source)| format!("{key} = {value} # {source}\n")).collect();
    let digest = sha256_hex(lines.as_bytes());
    let mut rows = vec![row(DIGEST, &digest, Severity::Info, "of the lines `key = value # source` below")];
    rows.extend(values.map(|(key, value, source)| row(key, value, Severity::Info, source)));
    let beyond = "no drive of this kind can do that";
    rows.extend(doubts.iter().map(|doubt| row(DOUBT, doubt, Severity::Warning, beyond)));
    rows
}

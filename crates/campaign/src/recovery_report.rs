//! What a recovery did, as a row and in words.

use engine::RecoveryReport;
use results::RecoveryWork;
use results::figures::counted;

/// Counts of a recovery's work as stored in `run.db`.
pub fn work_of(report: &RecoveryReport) -> RecoveryWork {
    let branches =
        report.branches.taken().map(|(branch, times)| (snake_case(&format!("{branch:?}")), times.into()));
    RecoveryWork {
        segments_corrected: report.segments_corrected,
        segments_given_up: report.segments_given_up,
        segments_unexplained: report.segments_unexplained,
        page_changes: report.changes_applied,
        pages_repaired: report.pages_repaired,
        transactions_undone: report.transactions_rolled_back.into(),
        branches: branches.collect(),
    }
}

/// Converts a name to lower case with underscores, as in `run.db`.
fn snake_case(name: &str) -> String {
    let words = name.char_indices().map(|(at, letter)| match letter.is_uppercase() && at > 0 {
        true => format!("_{}", letter.to_ascii_lowercase()),
        false => letter.to_ascii_lowercase().to_string(),
    });
    words.collect()
}

/// Text about a recovery for people.
pub fn told(report: &RecoveryReport) -> String {
    format!(
        "{} made again, {} repaired, {} taken back, {} given up",
        counted(report.changes_applied, "page change"),
        counted(report.pages_repaired, "torn page"),
        counted(report.transactions_rolled_back.into(), "open transaction"),
        counted(report.segments_given_up, "log segment")
    )
}

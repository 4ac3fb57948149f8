//! Performance counters of servers that run today, as `relog -f csv`, `typeperf` and `Get-Counter` write them, into
//! a profile.
//!
//! Limits: rates and counts only; what a counter does not say (who uses a database) stays marked. Times are those of
//! the servers, so logs of several time zones do not belong together.

mod columns;
mod log;
mod profile;
mod samples;

pub use profile::Profile;

use super::{ImportError, decode};
use log::Logs;

/// Whether a file is a counter log of Windows, by its beginning.
pub fn is_counters(bytes: &[u8]) -> bool {
    let start: Vec<u8> = bytes.iter().take(512).copied().filter(|&byte| byte != 0).collect();
    let has = |what: &[u8]| start.windows(what.len()).any(|part| part == what);
    has(b"(PDH-") || has(b"CookedValue")
}

/// Makes the profile of users from counter logs, each with the name of its file. `mailboxes` are those of the
/// databases in the logs.
///
/// # Errors
/// Every file that is no log with known counters; or no log has an hour of reads and writes.
pub fn profile(files: &[(String, Vec<u8>)], mailboxes: Option<u64>) -> Result<Profile, ImportError> {
    let (mut logs, mut reasons) = (Logs::default(), Vec::new());
    let mut texts: Vec<(&str, String)> = files
        .iter()
        .map(|(name, bytes)| {
            // Names of counters are found without their umlauts, so that any encoding will do.
            let text = decode(bytes).unwrap_or_else(|_| String::from_utf8_lossy(bytes).into_owned());
            let text = match samples::is_samples(&text) {
                true => samples::wide(name, &text, &mut reasons),
                false => text,
            };
            (name.as_str(), text)
        })
        .collect();
    texts.sort_by_key(|(_, text)| log::begins(text));
    for (name, text) in &texts {
        logs.add(name, text, &mut reasons);
    }
    if !reasons.is_empty() {
        return Err(ImportError::Tables(reasons));
    }
    profile::profile(&logs, mailboxes).ok_or(ImportError::NoHour)
}

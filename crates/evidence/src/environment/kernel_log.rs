//! What the kernel said about storage during the tests.

use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;

use results::Severity;

use super::kernel_messages;

/// A place in the kernel log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    last_sequence: Option<u64>,
}

/// A line that matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    sequence: u64,
    /// An error, or a warning.
    pub severity: Severity,
    /// The file of Linux that writes it, where that is known.
    pub source: Option<&'static str>,
    /// The message.
    pub text: String,
}

/// What was logged after a [`Position`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Since {
    /// Warnings and errors about storage.
    pub lines: Vec<Line>,
    /// Records are missing: the kernel keeps so many, and overwrites the oldest.
    pub overwritten: bool,
}

/// The end of the log as it is now.
pub fn position() -> Result<Position, String> {
    let lines = read_all()?;
    Ok(Position { last_sequence: lines.last().map(|(sequence, ..)| *sequence) })
}

/// Warnings and errors about storage since then, and whether the kernel still had everything.
pub fn since(position: &Position) -> Result<Since, String> {
    Ok(after(position.last_sequence, read_all()?))
}

/// What of these records, the oldest first, came after the one with the number `last`.
pub fn after(last: Option<u64>, records: Vec<Record>) -> Since {
    // The kernel counts records from 0 and leaves no number out.
    let first = last.map_or(0, |last| last + 1);
    let newer: Vec<Record> = records.into_iter().filter(|(sequence, ..)| *sequence >= first).collect();
    let overwritten = newer.iter().zip(first..).any(|((sequence, ..), expected)| *sequence != expected);
    let lines =
        newer.into_iter().filter_map(|(sequence, level, text)| judge(sequence, level, text)).collect();
    Since { lines, overwritten }
}

fn judge(sequence: u64, level: u32, text: String) -> Option<Line> {
    let (severity, source) = kernel_messages::judge(level, &text)?;
    Some(Line { sequence, severity, source, text })
}

/// Number, level and message.
pub type Record = (u64, u32, String);

/// Every record that the kernel still has.
fn read_all() -> Result<Vec<Record>, String> {
    let mut file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/kmsg")
        .map_err(|error| error.to_string())?;
    let mut records = Vec::new();
    // One read returns one record; the kernel's own limit for one is 8 KiB.
    let mut buffer = [0u8; 8192];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(records),
            Ok(length) => records.extend(parse(&String::from_utf8_lossy(&buffer[..length]))),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(records),
            // The oldest record was overwritten while we read: the next read goes on with the oldest that is left.
            Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// `facility and level,sequence,time,flags;message`, then lines of details.
fn parse(record: &str) -> Option<Record> {
    let (head, message) = record.split_once(';')?;
    let mut head = head.split(',');
    let level = head.next()?.parse::<u32>().ok()? & 7;
    let sequence = head.next()?.parse().ok()?;
    Some((sequence, level, message.lines().next().unwrap_or_default().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_taken_apart_and_its_first_line_is_the_message() {
        let record =
            "3,1201,5140900,-;blk_update_request: I/O error, dev sdb, sector 4096\n SUBSYSTEM=block\n";
        let message = "blk_update_request: I/O error, dev sdb, sector 4096".to_owned();
        assert_eq!(parse(record), Some((1201, 3, message)));
        assert_eq!(parse("nonsense"), None);
    }

    #[test]
    fn what_the_kernel_has_overwritten_is_not_taken_for_silence() {
        let records = |sequences: &[u64]| -> Vec<Record> {
            sequences.iter().map(|n| (*n, 3, format!("sda: I/O error {n}"))).collect()
        };
        let found = |last: Option<u64>, sequences: &[u64]| {
            let since = after(last, records(sequences));
            (since.overwritten, since.lines.iter().map(|line| line.sequence).collect::<Vec<u64>>())
        };
        assert_eq!(found(Some(10), &[8, 9, 10]), (false, vec![]), "nothing was logged");
        assert_eq!(found(Some(10), &[9, 10, 11, 12]), (false, vec![11, 12]));
        assert_eq!(found(Some(10), &[11, 12]), (false, vec![11, 12]), "what came before may be gone");
        assert_eq!(found(Some(10), &[15, 16]), (true, vec![15, 16]), "11 to 14 are gone");
        assert_eq!(found(Some(10), &[11, 15]), (true, vec![11, 15]), "overwritten while it was read");
        assert_eq!(found(None, &[0, 1]), (false, vec![0, 1]), "the log was empty");
        assert_eq!(found(None, &[3, 4]), (true, vec![3, 4]));
        let of_others = after(Some(10), vec![(15, 4, "usb 1-1: device descriptor read error".to_owned())]);
        assert_eq!(
            (of_others.overwritten, of_others.lines),
            (true, vec![]),
            "also where nothing else is found"
        );
    }
}

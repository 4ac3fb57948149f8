//! What the kernel said about storage during the tests.

use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;

/// A place in the kernel log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    last_sequence: Option<u64>,
}

/// A line that matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    sequence: u64,
    /// Logged as an error or worse.
    pub is_error: bool,
    /// The message.
    pub text: String,
}

/// Words of lines about storage. A line must have one to matter: a network card's warnings are not our subject.
const STORAGE: [&str; 22] = [
    "i/o error",
    "blk_",
    "buffer i/o",
    "nvme",
    "ata",
    "scsi",
    "sd ",
    "mpt",
    "megaraid",
    "multipath",
    "device-mapper",
    "md/",
    "raid",
    "ext4",
    "xfs",
    "btrfs",
    "zfs",
    "nfs",
    "hung_task",
    "blocked for more than",
    "critical medium",
    "dm-",
];
/// The kernel's number for "error"; higher numbers matter less.
const ERROR: u32 = 3;
const WARNING: u32 = 4;

/// The end of the log as it is now.
pub fn position() -> Result<Position, String> {
    let lines = read_all()?;
    Ok(Position { last_sequence: lines.last().map(|(sequence, ..)| *sequence) })
}

/// Warnings and errors about storage since then.
pub fn since(position: &Position) -> Result<Vec<Line>, String> {
    let lines = read_all()?;
    Ok(lines
        .into_iter()
        .filter(|(sequence, ..)| position.last_sequence.is_none_or(|last| *sequence > last))
        .filter_map(|(sequence, level, text)| judge(sequence, level, text))
        .collect())
}

fn judge(sequence: u64, level: u32, text: String) -> Option<Line> {
    let lower = text.to_lowercase();
    let about_storage = STORAGE.iter().any(|word| lower.contains(word));
    (about_storage && level <= WARNING).then_some(Line { sequence, is_error: level <= ERROR, text })
}

type Record = (u64, u32, String);

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
    fn storage_errors_and_warnings_matter_and_others_do_not() {
        let judged = |record: &str| {
            let (sequence, level, text) = parse(record).unwrap();
            judge(sequence, level, text).map(|line| line.is_error)
        };
        let error =
            "3,1201,5140900,-;blk_update_request: I/O error, dev sdb, sector 4096\n SUBSYSTEM=block\n";
        assert_eq!(judged(error), Some(true));
        assert_eq!(judged("4,1202,5140901,-;nvme nvme0: I/O 12 QID 3 timeout, aborting"), Some(false));
        assert_eq!(judged("6,1203,5140902,-;EXT4-fs (sda1): mounted filesystem"), None, "not a warning");
        assert_eq!(judged("4,1204,5140903,-;usb 1-1: device descriptor read error"), None, "not storage");
        assert_eq!(parse("nonsense"), None);
    }
}

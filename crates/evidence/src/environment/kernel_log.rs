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

/// What was logged after a [`Position`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Since {
    /// Warnings and errors about storage.
    pub lines: Vec<Line>,
    /// Records are missing: the kernel keeps so many, and overwrites the oldest.
    pub overwritten: bool,
}

/// What only lines about storage say. A line must have something of it to matter: a network card's warnings are not our
/// subject.
const STORAGE: [&str; 18] = [
    "i/o error",
    "buffer i/o",
    "beyond end of device",
    "critical medium",
    "hung_task",
    "blocked for more than",
    "blk_",
    "mmcblk",
    "nvme",
    "scsi",
    "sata",
    "pata_",
    "megaraid",
    "aacraid",
    "multipath",
    "device-mapper",
    "ext4",
    "btrfs",
];
/// Words so short that others hold them (data, preempt, amd/): they count where a word begins, and those of letters and
/// digits alone where no letter follows (`ata1.00`).
const STORAGE_WORDS: [&str; 16] = [
    "ata", "libata", "sd ", "md/", "dm-", "mpt2sas", "mpt3sas", "mptbase", "mptsas", "mptspi", "raid",
    "jbd2", "xfs", "zfs", "nfs", "nfsd",
];
/// The kernel's number for "error"; higher numbers matter less.
const ERROR: u32 = 3;
const WARNING: u32 = 4;

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
    let lower = text.to_lowercase();
    let about_storage = STORAGE.iter().any(|part| lower.contains(part))
        || STORAGE_WORDS.iter().any(|word| has_word(&lower, word));
    (about_storage && level <= WARNING).then_some(Line { sequence, is_error: level <= ERROR, text })
}

fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let begins = !text[..at].ends_with(char::is_alphanumeric);
        let goes_on = text[at + word.len()..].starts_with(char::is_alphabetic);
        begins && !(goes_on && word.ends_with(char::is_alphanumeric))
    })
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

    #[test]
    fn what_the_kernel_has_overwritten_is_not_taken_for_silence() {
        let records = |sequences: &[u64]| -> Vec<Record> {
            sequences.iter().map(|n| (*n, ERROR, format!("sda: I/O error {n}"))).collect()
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
        let of_others =
            after(Some(10), vec![(15, WARNING, "usb 1-1: device descriptor read error".to_owned())]);
        assert_eq!(
            (of_others.overwritten, of_others.lines),
            (true, vec![]),
            "also where nothing else is found"
        );
    }

    #[test]
    fn a_short_word_inside_another_is_not_about_storage() {
        let about_storage = |text: &str| judge(1, WARNING, text.to_owned()).is_some();
        for text in [
            "e1000e 0000:00:19.0 eth0: bad data in the receive ring",
            "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks",
            "WARNING: CPU: 3 PID: 812 at drivers/gpu/drm/amd/amdgpu/amdgpu_device.c:1512",
            "[drm:dm_helpers_parse_edid_caps] invalid EDID",
            "MPTCP: no subflow is left",
            "systemd/1: attempted to use an empty node",
        ] {
            assert!(!about_storage(text), "{text}");
        }
        for text in [
            "ata1.00: failed command: READ FPDMA QUEUED",
            "ata2: SError: { PHYRdyChg }",
            "sd 2:0:0:0: [sdb] tag#3 FAILED Result: hostbyte=DID_OK",
            "mpt3sas_cm0: log_info(0x31110e03)",
            "md/raid1:md0: Disk failure on sdb1, disabling device.",
            "XFS (dm-0): metadata corruption detected",
            "ahci 0000:00:1f.2: SATA link is slow",
            "nfs: server filer not responding, still trying",
            "JBD2: Detected IO errors while flushing file data on sda1-8",
            "sda: attempt to access beyond end of device",
        ] {
            assert!(about_storage(text), "{text}");
        }
    }
}

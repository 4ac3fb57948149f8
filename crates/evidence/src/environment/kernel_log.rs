//! What the kernel said about storage during the tests. It keeps a limited number and overwrites the oldest, so its log
//! is read every minute while a run goes on.

use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use results::Severity;

use super::kernel_messages;

/// A position in the kernel log: the sequence number of the newest record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    last_sequence: Option<u64>,
}

/// A kernel message about storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    sequence: u64,
    /// Whether storage failed (error) or was slow or may have failed (warning).
    pub severity: Severity,
    /// The source file of Linux that writes the message, where the table of messages knows it.
    pub source: Option<&'static str>,
    /// The message.
    pub text: String,
}

/// Seconds between two reads of the kernel log.
const EVERY: Duration = Duration::from_secs(60);
/// Most messages that are kept: a failing disk logs several each second.
const LINES_MOST: usize = 1_000;

/// Kernel messages about storage that were logged after a [`Position`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Since {
    /// Warnings and errors about storage; at most 1,000.
    pub lines: Vec<Line>,
    /// Messages about storage beyond the first 1,000: counted, not kept.
    pub more: u64,
    /// Whether records are missing: the kernel keeps a limited number, and overwrites the oldest.
    pub overwritten: bool,
}

/// The position of the newest record of the kernel log.
pub fn position() -> Result<Position, String> {
    let lines = read_all()?;
    Ok(Position { last_sequence: lines.last().map(|(sequence, ..)| *sequence) })
}

/// A thread that reads the kernel log every minute.
#[derive(Debug)]
pub struct Reading {
    end: Sender<()>,
    thread: JoinHandle<Result<Since, String>>,
}

impl Reading {
    /// Starts the thread; it keeps what is logged after `position`.
    pub fn begin(position: Position) -> Reading {
        let (end, ended) = channel();
        let thread = std::thread::spawn(move || {
            let mut found = Found::after(position.last_sequence);
            loop {
                let goes_on = ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout);
                found.take(read_all()?);
                if !goes_on {
                    return Ok(found.since);
                }
            }
        });
        Reading { end, thread }
    }

    /// Reads the kernel log a last time and ends the thread: warnings and errors about storage, and whether the kernel
    /// overwrote records before they were read.
    pub fn end(self) -> Result<Since, String> {
        // Nothing is sent to a thread that could not read; what it returns says so.
        let _ = self.end.send(());
        self.thread.join().unwrap_or_else(|_| Err("the thread that reads it failed".to_owned()))
    }
}

/// What the reads of the kernel log have found so far.
#[derive(Debug)]
pub struct Found {
    /// Sequence number of the newest record that was read.
    last: Option<u64>,
    /// Messages about storage among the records, and whether some are missing.
    pub since: Since,
}

impl Found {
    /// An empty result that ignores records up to the sequence number `last`.
    pub fn after(last: Option<u64>) -> Found {
        Found { last, since: Since::default() }
    }

    /// Adds the records that were not seen before; they come oldest first. A hole in their sequence numbers means that
    /// the kernel overwrote some.
    pub fn take(&mut self, records: Vec<Record>) {
        // The kernel counts records from 0 and leaves no number out.
        let first = self.last.map_or(0, |last| last + 1);
        let newer = records.into_iter().filter(|(sequence, ..)| *sequence >= first);
        for ((sequence, level, text), expected) in newer.zip(first..) {
            self.since.overwritten |= sequence != expected;
            self.last = Some(sequence);
            match judge(sequence, level, text) {
                Some(_) if self.since.lines.len() == LINES_MOST => self.since.more += 1,
                line => self.since.lines.extend(line),
            }
        }
    }
}

fn judge(sequence: u64, level: u32, text: String) -> Option<Line> {
    let (severity, source) = kernel_messages::judge(level, &text)?;
    Some(Line { sequence, severity, source, text })
}

/// A record of the kernel log: sequence number, level (0 to 7, lower is worse) and message.
pub type Record = (u64, u32, String);

/// Every record that the kernel still has, oldest first, from `/dev/kmsg`.
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

/// A record of `/dev/kmsg`: `facility and level,sequence,time,flags;message`, then lines of details.
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

    fn taken(last: Option<u64>, records: Vec<Record>) -> Found {
        let mut found = Found::after(last);
        found.take(records);
        found
    }

    /// The kernel keeps 50 records and logs 20 in a minute, for a day: read once at the end, most are gone.
    #[test]
    fn records_that_the_kernel_overwrites_later_are_seen_when_the_log_is_read_every_minute() {
        let kept = |newest: u64| -> Vec<Record> {
            (newest.saturating_sub(49)..=newest).map(|n| (n, 6, format!("usb 1-1: new device {n}"))).collect()
        };
        let (mut minutely, minutes) = (Found::after(Some(0)), 24 * 60);
        for minute in 1..=minutes {
            let mut records = kept(20 * minute);
            if let Some(record) = records.iter_mut().find(|(sequence, ..)| *sequence == 33) {
                (record.1, record.2) = (3, "sda: I/O error".to_owned());
            }
            minutely.take(records);
        }
        assert_eq!((minutely.since.lines.len(), minutely.since.overwritten), (1, false));
        let at_end = taken(Some(0), kept(20 * minutes));
        assert_eq!((at_end.since.lines.len(), at_end.since.overwritten), (0, true));
    }

    #[test]
    fn lines_of_a_failing_disk_are_kept_up_to_a_bound_and_counted_beyond() {
        let records = (0..1_500).map(|n| (n, 3, format!("sda: I/O error {n}"))).collect();
        let Found { since, .. } = taken(None, records);
        assert_eq!((since.lines.len(), since.more, since.overwritten), (1_000, 500, false));
    }

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
            let Found { since, .. } = taken(last, records(sequences));
            (since.overwritten, since.lines.iter().map(|line| line.sequence).collect::<Vec<u64>>())
        };
        assert_eq!(found(Some(10), &[8, 9, 10]), (false, vec![]), "nothing was logged");
        assert_eq!(found(Some(10), &[9, 10, 11, 12]), (false, vec![11, 12]));
        assert_eq!(found(Some(10), &[11, 12]), (false, vec![11, 12]), "what came before may be gone");
        assert_eq!(found(Some(10), &[15, 16]), (true, vec![15, 16]), "11 to 14 are gone");
        assert_eq!(found(Some(10), &[11, 15]), (true, vec![11, 15]), "overwritten while it was read");
        assert_eq!(found(None, &[0, 1]), (false, vec![0, 1]), "the log was empty");
        assert_eq!(found(None, &[3, 4]), (true, vec![3, 4]));
        let Found { since: of_others, .. } =
            taken(Some(10), vec![(15, 4, "usb 1-1: device descriptor read error".to_owned())]);
        assert_eq!(
            (of_others.overwritten, of_others.lines),
            (true, vec![]),
            "also where nothing else is found"
        );
    }
}

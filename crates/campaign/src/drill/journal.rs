//! The journal of a drill: what one host, or the arbiter, wrote down while it ran.
//!
//! Format, version 1: one JSON value per line. Line 0 is the [`JournalHead`], each other line an [`Entry`], the
//! last entry [`JournalContent::Ended`], which counts the entries before it. Each line carries its number and a chain:
//! 128 bits of XXH3 over the chain of the line before it, its own number and its own content.
//!
//! Invariants
//! 1. A journal in which a line is missing, changed, moved or added is not read as a whole one.
//! 2. A journal counts only for the run, the host and the solution file that its head names.
//!
//! Limits: the chain finds damage, not forgery: a program that computes hashes can write a whole journal anew.

use replication::ArbiterEvent;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;

use super::drain::Compared;
use super::node::{CopySample, Observed};

/// Name of the journal format, in the first line.
const FORMAT: &str = "proofload-drill-journal";
/// Version of the journal format; another one is refused by name.
const VERSION: u32 = 1;

/// First line of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalHead {
    format: String,
    version: u32,
    /// Name of the run.
    run: String,
    /// Name of the host; the arbiter has a name of its own.
    host: String,
    /// Digest of the solution file.
    solution: String,
}

impl JournalHead {
    /// First line of the journal of `host` in a drill of this solution file.
    pub fn new(run: &str, host: &str, solution_text: &str) -> JournalHead {
        JournalHead {
            format: FORMAT.to_owned(),
            version: VERSION,
            run: run.to_owned(),
            host: host.to_owned(),
            solution: hex(XxHash3_128::oneshot(solution_text.as_bytes())),
        }
    }
}

/// Entry of a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Time by the controller's calendar, ns since 1970.
    pub unix_ns: u64,
    /// Largest error of that time, ns.
    pub error_ns: u64,
    /// Content of the entry.
    pub said: JournalContent,
}

/// Content of a journal entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalContent {
    /// The window opens.
    WindowOpens,
    /// The users stop.
    WindowCloses,
    /// The failure with this number, from 0, begins on this host.
    Fails(usize),
    /// The failure with this number is over on this host.
    IsOver(usize),
    /// Observation on the host.
    Observed(Observed),
    /// State of the host's copies, once a second.
    Sample(Vec<CopySample>),
    /// Page digests of the copies at the end.
    Compared(Vec<Compared>),
    /// Decision of the arbiter about a database.
    Decided {
        /// Number of the database.
        database: usize,
        /// Event of the arbiter.
        event: ArbiterEvent,
    },
    /// End of the journal; nothing follows.
    Ended {
        /// Number of entries before this one.
        entries: u64,
    },
}

/// Reason why a journal proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalFault {
    /// The journal does not exist.
    #[error("it is missing")]
    Missing,
    /// The journal has another format or version.
    #[error("it has another format than version {VERSION} of {FORMAT}")]
    Version,
    /// The journal belongs to another run, host or solution file.
    #[error("it belongs to another run, host or solution file")]
    Foreign,
    /// A line cannot be parsed.
    #[error("line {line} cannot be read")]
    Unreadable {
        /// Number of the line; 0 is the first.
        line: u64,
    },
    /// The chain of digests is broken at a line.
    #[error("line {line} does not follow from the line before it: lines are missing or changed")]
    Broken {
        /// Number of the line; 0 is the first.
        line: u64,
    },
    /// An entry refers to something that the drill does not have.
    #[error("line {line} names a database, host or failure that the drill does not have")]
    Unknown {
        /// Number of the line; 0 is the first.
        line: u64,
    },
    /// The window of the host did not open and close.
    #[error("the window did not open and close on this host")]
    NoWindow,
    /// The journal has no final entry.
    #[error("it breaks off after line {line}, without a last entry")]
    NotEnded {
        /// Number of the missing line; 0 is the first.
        line: u64,
    },
}

#[derive(Serialize, Deserialize)]
struct Line<T> {
    n: u64,
    said: T,
    chain: String,
}

fn hex(hash: u128) -> String {
    format!("{hash:032x}")
}

/// End of a journal: number and chain value for the next line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEnd {
    lines: u64,
    chain: u128,
}

impl JournalEnd {
    /// State before the first line.
    const START: JournalEnd = JournalEnd { lines: 0, chain: 0 };

    /// Begins a journal: its first line.
    pub fn begin(head: &JournalHead) -> (JournalEnd, Vec<u8>) {
        let mut end = JournalEnd::START;
        let line = end.add(head);
        (end, line)
    }

    /// End of a journal that is to be continued; an incomplete last line does not count.
    ///
    /// # Errors
    /// The journal is not one that can be continued.
    pub fn of(bytes: &[u8], head: &JournalHead) -> Result<JournalEnd, JournalFault> {
        let read = read(bytes, head);
        match read.fault {
            None | Some(JournalFault::NotEnded { .. }) => Ok(read.end),
            Some(fault) => Err(fault),
        }
    }

    /// Line for an entry.
    pub fn entry(&mut self, entry: &Entry) -> Vec<u8> {
        self.add(entry)
    }

    /// Number of entries so far.
    pub fn entries(&self) -> u64 {
        self.lines.saturating_sub(1)
    }

    fn add<T: Serialize>(&mut self, said: &T) -> Vec<u8> {
        self.advance(said);
        let line = Line { n: self.lines - 1, said, chain: hex(self.chain) };
        let mut bytes = to_json(&line);
        bytes.push(b'\n');
        bytes
    }

    fn advance<T: Serialize>(&mut self, said: &T) {
        let mut hashed = self.chain.to_le_bytes().to_vec();
        hashed.extend(self.lines.to_le_bytes());
        hashed.extend(to_json(said));
        (self.lines, self.chain) = (self.lines + 1, XxHash3_128::oneshot(&hashed));
    }

    /// Checks the next line of a journal that is read.
    fn read<T: Serialize + DeserializeOwned>(&mut self, text: &[u8]) -> Result<T, JournalFault> {
        let number = self.lines;
        let line: Line<T> =
            serde_json::from_slice(text).map_err(|_| JournalFault::Unreadable { line: number })?;
        self.advance(&line.said);
        if line.n != number || line.chain != hex(self.chain) {
            return Err(JournalFault::Broken { line: number });
        }
        Ok(line.said)
    }
}

fn to_json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("journals hold no maps with keys that JSON cannot write")
}

/// Journal as read.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadJournal {
    /// Entries up to the first fault.
    pub entries: Vec<Entry>,
    /// First fault; `None` if the journal is complete.
    pub fault: Option<JournalFault>,
    end: JournalEnd,
}

impl ReadJournal {
    /// Complete journal that never was a file, as in a simulation.
    pub fn whole(entries: Vec<Entry>) -> ReadJournal {
        ReadJournal { entries, fault: None, end: JournalEnd::START }
    }

    /// Journal that does not exist.
    pub fn missing() -> ReadJournal {
        ReadJournal { entries: Vec::new(), fault: Some(JournalFault::Missing), end: JournalEnd::START }
    }
}

/// Reads the journal that should begin with `head`.
pub fn read(bytes: &[u8], head: &JournalHead) -> ReadJournal {
    let (mut end, mut entries) = (JournalEnd::START, Vec::new());
    let fault = read_lines(bytes, head, &mut end, &mut entries).err();
    ReadJournal { entries, fault, end }
}

fn read_lines(
    bytes: &[u8],
    head: &JournalHead,
    end: &mut JournalEnd,
    entries: &mut Vec<Entry>,
) -> Result<(), JournalFault> {
    // Only a line that ends with a line feed was written whole.
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    let first = lines.next().ok_or(JournalFault::Missing)?;
    let found: JournalHead = end.read(first)?;
    if (found.format.as_str(), found.version) != (FORMAT, VERSION) {
        return Err(JournalFault::Version);
    }
    if found != *head {
        return Err(JournalFault::Foreign);
    }
    let mut is_ended = false;
    for line in lines {
        let before = end.clone();
        let read = if is_ended { Err(JournalFault::Broken { line: before.lines }) } else { end.read(line) };
        let entry: Entry = read.inspect_err(|_| *end = before.clone())?;
        if let JournalContent::Ended { entries: counted } = entry.said {
            if counted != before.entries() {
                return Err(JournalFault::Broken { line: before.lines });
            }
            is_ended = true;
        } else {
            entries.push(entry);
        }
    }
    if is_ended { Ok(()) } else { Err(JournalFault::NotEnded { line: end.entries() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> JournalHead {
        JournalHead::new("run", "h1", "[solution]")
    }

    fn entry(unix_ns: u64, said: JournalContent) -> Entry {
        Entry { unix_ns, error_ns: 5, said }
    }

    /// Lines of a complete journal.
    fn lines() -> Vec<Vec<u8>> {
        let (mut end, first) = JournalEnd::begin(&head());
        let mut lines = vec![first];
        for (at, said) in
            [JournalContent::WindowOpens, JournalContent::Fails(0), JournalContent::WindowCloses]
                .into_iter()
                .enumerate()
        {
            lines.push(end.entry(&entry(at as u64, said)));
        }
        let entries = end.entries();
        lines.push(end.entry(&entry(9, JournalContent::Ended { entries })));
        lines
    }

    fn fault(lines: &[Vec<u8>]) -> Option<JournalFault> {
        read(&lines.concat(), &head()).fault
    }

    #[test]
    fn a_whole_journal_is_read_as_it_was_written() {
        let journal = read(&lines().concat(), &head());
        assert_eq!(journal.fault, None);
        let said: Vec<JournalContent> = journal.entries.into_iter().map(|entry| entry.said).collect();
        assert_eq!(
            said,
            [JournalContent::WindowOpens, JournalContent::Fails(0), JournalContent::WindowCloses]
        );
    }

    #[test]
    fn a_journal_without_any_one_of_its_lines_is_not_whole() {
        for gone in 0..lines().len() {
            let mut left = lines();
            left.remove(gone);
            assert!(fault(&left).is_some(), "line {gone}");
        }
        assert_eq!(fault(&[]), Some(JournalFault::Missing));
    }

    #[test]
    fn a_journal_with_any_one_changed_byte_is_not_whole() {
        let whole = lines().concat();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            let journal = read(&changed, &head());
            // White space and names of unknown fields may change; what was said may not.
            let is_same = journal.fault.is_none() && journal == read(&whole, &head());
            assert!(journal.fault.is_some() || is_same, "byte {at}");
        }
    }

    #[test]
    fn a_journal_with_exchanged_or_repeated_lines_is_not_whole() {
        let mut exchanged = lines();
        exchanged.swap(1, 2);
        assert_eq!(fault(&exchanged), Some(JournalFault::Broken { line: 1 }));
        let mut repeated = lines();
        repeated.push(repeated[4].clone());
        assert_eq!(fault(&repeated), Some(JournalFault::Broken { line: 5 }));
    }

    #[test]
    fn a_journal_that_breaks_off_says_after_which_line() {
        assert_eq!(fault(&lines()[..3]), Some(JournalFault::NotEnded { line: 2 }));
        let mut cut = lines();
        cut[3].truncate(10);
        assert_eq!(fault(&cut[..4]), Some(JournalFault::NotEnded { line: 2 }));
    }

    #[test]
    fn a_journal_of_another_run_host_or_solution_is_refused() {
        for other in [("other", "h1", "[solution]"), ("run", "h2", "[solution]"), ("run", "h1", "[other]")] {
            let other = JournalHead::new(other.0, other.1, other.2);
            assert_eq!(read(&lines().concat(), &other).fault, Some(JournalFault::Foreign));
        }
        let next = JournalHead { version: 2, ..head() };
        let (_, line) = JournalEnd::begin(&next);
        assert_eq!(read(&line, &head()).fault, Some(JournalFault::Version));
    }

    #[test]
    fn a_journal_is_continued_where_its_last_whole_line_ends() {
        let begun = [&lines()[..3].concat()[..], b"{\"n\":3"].concat();
        let mut end = JournalEnd::of(&begun, &head()).expect("it can be continued");
        assert_eq!(end.entries(), 2);
        let mut continued = lines()[..3].to_vec();
        continued.push(end.entry(&entry(7, JournalContent::Ended { entries: 2 })));
        assert_eq!(fault(&continued), None);
        assert!(JournalEnd::of(&lines()[1..].concat(), &head()).is_err());
    }
}

//! The journal of a drill in a folder: `drill.jsonl`, written line by line ([`campaign::drill::JournalEnd`] has
//! the format).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use campaign::drill::{Entry, JournalContent, JournalEnd, JournalHead, ReadJournal, read_journal};

/// File name of a journal.
const FILE: &str = "drill.jsonl";

/// Journal under construction.
pub struct Journal {
    file: File,
    end: JournalEnd,
}

impl Journal {
    /// Creates the journal in `folder`, or continues the one that its author began before a restart.
    ///
    /// # Errors
    /// The file cannot be written, or it holds a journal that cannot be continued, such as one that is ended.
    pub fn open(folder: &Path, head: &JournalHead) -> io::Result<Journal> {
        let path = folder.join(FILE);
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        let written = fs::read(&path)?;
        let whole = written.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let end = if whole == 0 {
            let (end, line) = JournalEnd::begin(head);
            file.set_len(0)?;
            file.write_all(&line)?;
            end
        } else {
            let end = JournalEnd::of(&written, head).map_err(io::Error::other)?;
            file.set_len(whole as u64)?;
            end
        };
        Ok(Journal { file, end })
    }

    /// Appends an entry, and returns when the operating system has it.
    ///
    /// # Errors
    /// Failed I/O.
    pub fn add(&mut self, entry: &Entry) -> io::Result<()> {
        self.file.write_all(&self.end.entry(entry))
    }

    /// Ends the journal and makes it durable.
    ///
    /// # Errors
    /// Failed I/O.
    pub fn end(mut self, unix_ns: u64) -> io::Result<()> {
        let entries = self.end.entries();
        self.add(&Entry { unix_ns, error_ns: 0, said: JournalContent::Ended { entries } })?;
        self.file.sync_all()
    }
}

/// Reads the journal in a folder; it must begin with `head`.
pub fn read_in(folder: &Path, head: &JournalHead) -> ReadJournal {
    match fs::read(folder.join(FILE)) {
        Ok(bytes) => read_journal(&bytes, head),
        Err(_) => ReadJournal::missing(),
    }
}

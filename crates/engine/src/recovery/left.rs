//! What an instance left behind when it ended in order, compared with what is found there.
//!
//! Invariants
//! 1. A closed database has every change of its log stream. A record that changes or closes it, behind the
//!    position at which its header says that it was closed, proves that the file is another one or an older
//!    copy of itself.
//! 2. An instance that was left for recovery has said in every header how far its log reaches. A log that ends
//!    before that was cut off.
//!
//! Limits: of closed databases only the last log is read; the records that close them are at its end. An older
//! copy of a database together with the logs of its time is not told from the newest ones.

use std::collections::BTreeMap;

use btree::LogRecord;
use edb::header::{DatabaseHeader, DatabaseState};
use edb::log::Records;
use results::IoClass;
use world::{OpenMode, World};

use super::Recovery;
use crate::config::InstanceConfig;
use crate::error::{Error, Result};
use crate::header;
use crate::io::IoFile;
use crate::log::reader::{LogContents, LogFiles};
use crate::log::{LogNames, LogPosition, Signature};

/// Databases that were closed before this log; a record that changes one is refused.
#[derive(Default)]
pub(super) struct Closed(BTreeMap<u8, (String, LogPosition)>);

impl Closed {
    fn add(&mut self, db: u8, path: &str, header: &DatabaseHeader, stream: Signature) {
        if header.state() == DatabaseState::Clean {
            // One that belongs to another stream, or to none, was never closed in this one.
            let is_own = header.log_signature() == stream;
            let closed_at = if is_own { header.detach_position() } else { LogPosition::default() };
            self.0.insert(db, (path.to_owned(), closed_at));
        }
    }

    /// Checks a record that ends at `end` against the closed databases.
    ///
    /// # Errors
    /// If a database lacks the record.
    pub(super) fn check(&self, end: LogPosition, record: &LogRecord) -> Result<()> {
        let db = match record {
            LogRecord::Changes { db, .. }
            | LogRecord::PageImage { db, .. }
            | LogRecord::Extend { db, .. }
            | LogRecord::Detach { db } => db,
            // A crash may come between the record that attaches a database and the header that says so.
            _ => return Ok(()),
        };
        match self.0.get(db) {
            Some((path, closed_at)) if end > *closed_at => Err(Error::NotAsLeft { path: path.clone() }),
            _ => Ok(()),
        }
    }
}

/// Checks that each closed database of a closed instance is the one that its log stream closed last. An unreadable log
/// is not judged here; opening the instance reports it.
///
/// # Errors
/// The first database that is not, or a failed read.
pub async fn check_closed(world: &World, config: &InstanceConfig) -> Result<()> {
    let names = LogNames::new(&config.log_directory, &config.log_base);
    let files = LogFiles::find(world, &names).await?;
    let path = match files.archives.last() {
        _ if files.current => names.current(),
        Some(newest) => names.archive(*newest),
        None => return Ok(()),
    };
    let segments = config.segments()?;
    let log = LogContents::read(world, &path, segments, &config.log_counters, IoClass::LogRead).await;
    let mut log = match log {
        Err(Error::DamagedFile { .. }) => return Ok(()),
        log => log?,
    };
    let mut closed = Closed::default();
    for (db, database) in (1..=u8::MAX).zip(&config.databases) {
        let file = IoFile::open(world, &database.path, OpenMode::Read, &database.counters).await?;
        match header::read(&file, config.page_bytes).await {
            // The check of all pages says so.
            Err(Error::DamagedFile { .. }) => {}
            read => closed.add(db, &database.path, &read?.0, log.header().signature),
        }
    }
    let mut records = Records::new();
    match log.settle_end(Some(&records)) {
        Err(Error::DamagedFile { .. }) => return Ok(()),
        settled => settled.map(drop)?,
    }
    let mut found = Ok(());
    log.records(&mut records, |end, bytes| {
        if found.is_ok()
            && let Some(record) = LogRecord::decode(bytes)
        {
            found = closed.check(end, &record);
        }
    })?;
    found
}

impl Recovery<'_> {
    /// Databases that are closed according to their headers.
    pub(super) async fn closed(&self, stream: Signature) -> Closed {
        let mut closed = Closed::default();
        for database in self.databases {
            closed.add(database.id, database.file.path(), &database.header().await, stream);
        }
        closed
    }

    /// Checks that the log, whose first free segment this is, reaches to the place where an instance left it.
    ///
    /// # Errors
    /// If it ends before.
    pub(super) async fn check_reaches(&self, last: u32, free_segment: u16) -> Result<()> {
        // A full log ends where the next one begins.
        let end = match free_segment + 1 < self.segments {
            true => LogPosition::new(last, free_segment, 0),
            false => LogPosition::new(last + 1, 0, 0),
        };
        for database in self.databases {
            let header = database.header().await;
            let left = header.left_position();
            if header.state() == DatabaseState::Dirty && end < left {
                let directory = self.names.directory.clone();
                let (generation, segment) = (left.generation(), left.segment());
                return Err(Error::LogCutOff { directory, generation, segment });
            }
        }
        Ok(())
    }
}

//! `run.db`: the rows of a run in SQLite. Schema and meaning: `docs/run-db.md`.
//!
//! Invariants
//! 1. What was recorded is in the file at most one second later, whether or not anything else is recorded: a run that
//!    is killed keeps everything up to its last second.
//! 2. Recording never waits for the disk, unless 65,536 rows are already waiting for it.
//! 3. Memory does not grow with the length of the run.
//! 4. A store that was closed is one file, unless another program goes on reading it; what has a `run.db-wal` beside
//!    it, as one that was killed, is read together with that.
//! 5. An existing file is never opened for recording.
//! 6. Reading writes nothing beside a file that has nothing in a `run.db-wal`; with one, SQLite keeps its index
//!    (`run.db-shm`) there.
//! 7. The rows of a test are sealed when the next test begins, all rows when the store is closed: [`seal`].
//!
//! Limits: whole numbers up to 2^63 - 1 (SQLite); NaN is not a measurement and is refused.

mod open;
pub(crate) mod pack;
mod query;
mod read;
mod seal;
mod sign;
mod write;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use results::{RecordError, Recorder, Row};

pub(crate) use open::{beside, damaged, explain, open};
pub use query::{Cell, Query, keys};
pub use read::load;
pub(crate) use read::{environment_after, events_after, hosts, rules, runs, sources, tests, verdicts_after};
pub use seal::{Broken, BrokenKind, Chain, check, misfit, sha256_hex};
pub(crate) use sign::is_signed_bytes;
pub use sign::{KeyError, SigningKey, public_key};

/// The tables of `run.db`, as SQL.
pub const SCHEMA: &str = include_str!("schema.sql");
/// `PRAGMA application_id` of a `run.db`: "PLrd".
const APPLICATION_ID: i64 = 0x504c_7264;
/// `PRAGMA user_version` of a `run.db`: the version of its tables.
const VERSION: i64 = 1;

const ROWS_WAITING: usize = 65_536;
const COMMIT_EVERY: Duration = Duration::from_secs(1);

/// Why a `run.db` could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file exists already; a run never writes into an older one.
    #[error("{} exists already", .0.display())]
    Exists(PathBuf),
    /// SQLite reported an error.
    #[error("{}: {source}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// The file is not a `run.db`.
    #[error("{} is not the run.db of a run", .0.display())]
    NotARun(PathBuf),
    /// The file has a version of the tables that this program does not read.
    #[error("{} has version {version} of run.db; this program reads version {VERSION}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: i64,
    },
    /// The file has no run: it was killed before its first row was kept.
    #[error("{} holds no run: it ended before it had begun; run it again, and remove this folder", .0.display())]
    NoRun(PathBuf),
    /// A value in the file is not one that this program writes.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The recorder could not keep rows.
    #[error(transparent)]
    Record(#[from] RecordError),
}

enum Message {
    Row(Box<Row>),
    Flush(SyncSender<()>),
}

/// Records a run into a new `run.db`, in a thread of its own.
pub struct RunStore {
    to_writer: Option<SyncSender<Message>>,
    writer: Option<JoinHandle<()>>,
    failure: Arc<OnceLock<RecordError>>,
}

impl RunStore {
    /// Creates the `run.db`, with no key to sign it.
    pub fn create(path: &Path) -> Result<RunStore, StoreError> {
        RunStore::create_signed(path, None)
    }

    /// Creates the `run.db`; its seals are signed with the key, if there is one.
    pub fn create_signed(path: &Path, key: Option<SigningKey>) -> Result<RunStore, StoreError> {
        let writer = write::Writer::create(path, key)?;
        let (to_writer, messages) = sync_channel(ROWS_WAITING);
        let failure = Arc::new(OnceLock::new());
        let thread_failure = failure.clone();
        let thread = std::thread::spawn(move || {
            if let Err(error) = keep(writer, &messages) {
                // The first failure is the cause; nothing can be set before it.
                let _ = thread_failure.set(RecordError(error.to_string()));
            }
        });
        Ok(RunStore { to_writer: Some(to_writer), writer: Some(thread), failure })
    }

    /// Commits and seals everything recorded, and leaves one file without a write-ahead log.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.stop();
        self.failure.get().map_or(Ok(()), |failure| Err(failure.clone().into()))
    }

    fn stop(&mut self) {
        self.to_writer = None;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            let _ = self.failure.set(RecordError("the writer of run.db failed".to_owned()));
        }
    }

    fn send(&self, message: Message) -> Result<(), RecordError> {
        if let Some(failure) = self.failure.get() {
            return Err(failure.clone());
        }
        let sent = self.to_writer.as_ref().is_some_and(|to_writer| to_writer.send(message).is_ok());
        if sent { Ok(()) } else { Err(self.failure_or("the writer of run.db has stopped")) }
    }

    fn failure_or(&self, otherwise: &str) -> RecordError {
        self.failure.get().cloned().unwrap_or_else(|| RecordError(otherwise.to_owned()))
    }
}

impl Recorder for RunStore {
    fn record(&mut self, row: Row) -> Result<(), RecordError> {
        self.send(Message::Row(Box::new(row)))
    }

    fn flush(&mut self) -> Result<(), RecordError> {
        let (done, wait) = sync_channel(1);
        self.send(Message::Flush(done))?;
        wait.recv().map_err(|_| self.failure_or("the writer of run.db has stopped"))
    }
}

impl Drop for RunStore {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Writes rows until the store is closed, committing at least once per interval; the interval begins with the first
/// row that is not committed.
fn keep(mut writer: write::Writer, messages: &Receiver<Message>) -> Result<(), StoreError> {
    let mut deadline: Option<Instant> = None;
    loop {
        let message = match deadline {
            Some(deadline) => messages.recv_timeout(deadline.saturating_duration_since(Instant::now())),
            None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match message {
            Ok(Message::Row(row)) => {
                writer.write(&row)?;
                deadline.get_or_insert_with(|| Instant::now() + COMMIT_EVERY);
            }
            Ok(Message::Flush(done)) => {
                writer.commit()?;
                deadline = None;
                // If the caller has gone, no task waits any more.
                let _ = done.send(());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return writer.finish(),
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            writer.commit()?;
            deadline = None;
        }
    }
}

//! Does storage keep what it says is durable? A writer commits as fast as it can and tells a listener on
//! another host of each durable commit; a person pulls the plug; afterwards the listener's word is held against
//! what recovery finds.
//!
//! Each session commits the numbers 1, 2, 3, .. one after the other: its own row gets the number, and a random
//! message with its long value is replaced, so that pages, log and checkpoint are all at work. So the listener
//! needs to remember one number per session, and what recovery finds of a session tells exactly which of its
//! commits are lost.
//!
//! Invariants
//! 1. The listener hears of a commit only after the engine has reported it as durable.
//! 2. Nothing is overwritten: a folder is made new, and is verified only against the word of the listener that
//!    heard of it.
//!
//! Limits: one database; at most [`SESSIONS_MAX`] sessions of 16 million commits. Acknowledgements that were
//! still on their way when the power failed are unknown to the listener, so the last milliseconds before a
//! crash are judged by fewer commits than there were.
//!
//! Wire: the writer sends `HELLO`, the run's id (8 bytes), then for each commit session and number (4 + 8
//! bytes), all little endian.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use btree::{Pager, update};
use edb::page::PageRef;
use engine::{
    Counters, DatabaseConfig, Durability, Instance, InstanceConfig, MadeOf, PageFindings, Progress,
    RecoveryReport, Redo, StopSignal, StreamConfig, Transaction, check_database,
};
use futures_util::StreamExt;
use futures_util::future::{join, join_all};
use world::channel::{UnboundedSender, unbounded};
use world::{Connection, ErrorKind, Listener, OpenMode, PageBuf, SECTOR_BYTES, TemplatePages, World};

use crate::codec::DatabaseCodec;
use crate::mix::Random;
use crate::payload::VERSION_MAX;
use crate::schema::{Entry, FOLDERS};
use crate::template::{TemplateDatabase, TemplateError};

/// Largest number of sessions of a crash test; each has a row of its own.
pub const SESSIONS_MAX: u32 = FOLDERS;

const HELLO: &[u8; 8] = b"PLcrash1";
const IDENTITY: &str = "crash-test.id";
const PAGE_BYTES: u32 = 32 << 10;
const FREE_PAGES: u32 = 64;
const COMPRESSIBILITY_PCT: u8 = 25;
/// Size of the page cache, bytes: small compared with the database, so that pages are read and written all the time.
const CACHE_BYTES: u64 = 32 << 20;
const COMMIT_BYTES: usize = 12;

/// Reason why a crash test could not be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CrashTestError {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// A file or a connection failed.
    #[error(transparent)]
    World(#[from] world::Error),
    /// No database can have the requested size.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The folder belongs to a crash test, but has lost the file with its run's identity, which was durable before a
    /// listener heard of the run.
    #[error("{folder} has lost what was durable before the first commit: crash-test.id {reason}")]
    LostIdentity {
        /// Path of the folder.
        folder: String,
        /// Description of what is wrong with the file.
        reason: String,
    },
    /// The folder does not belong to a crash test.
    #[error("{folder} was not made by a crash test: crash-test.id {reason}")]
    Foreign {
        /// Path of the folder.
        folder: String,
        /// Description of what is missing.
        reason: String,
    },
    /// The listener has heard of another run.
    #[error("the listener has heard of run {heard:016x}, the folder is of run {found:016x}")]
    OtherRun {
        /// Identity of the run in the listener's notes.
        heard: u64,
        /// Identity of the run in the folder.
        found: u64,
    },
    /// The peer on the connection is not the writer of a crash test.
    #[error("the program that connected is no writer of a crash test")]
    NoWriter,
}

impl CrashTestError {
    /// Whether the error proves that storage lost or changed durable data. Other errors prove nothing about storage:
    /// missing rights or room, a wrong folder, a file system without unbuffered I/O, a device that cannot be reached.
    pub fn is_loss(&self) -> bool {
        match self {
            CrashTestError::LostIdentity { .. } => true,
            CrashTestError::Engine(error) => match error {
                engine::Error::DamagedPage { .. }
                | engine::Error::DamagedFile { .. }
                | engine::Error::LogCutOff { .. }
                | engine::Error::MissingLog { .. }
                | engine::Error::NotAsLeft { .. } => true,
                engine::Error::World(error) => is_gone(error.kind),
                _ => false,
            },
            CrashTestError::World(error) => error.kind == ErrorKind::Damaged,
            _ => false,
        }
    }
}

/// Whether a failed operation proves that a file, or a part of it, is lost.
fn is_gone(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::ShortRead | ErrorKind::Damaged)
}

type Result<T, E = CrashTestError> = std::result::Result<T, E>;

/// Notes of a listener: the acknowledged commits of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListenerNotes {
    /// Identity of the run.
    pub run: u64,
    /// Number of the last commit of each session (from 1) that was acknowledged as durable.
    pub sessions: BTreeMap<u32, u64>,
}

/// Result of the recovery, compared with the notes.
#[derive(Debug, Clone)]
pub struct Findings {
    /// Number of acknowledged commits.
    pub acknowledged: u64,
    /// Lost ranges of acknowledged commits: session, first and last number.
    pub lost: Vec<(u32, u64, u64)>,
    /// Number of commits that survived although the listener had not heard of them.
    pub beyond: u64,
    /// Work of the recovery.
    pub recovery: RecoveryReport,
    /// Findings of the page check.
    pub pages: PageFindings,
}

impl Findings {
    /// Whether the storage kept everything that it had reported as durable.
    pub fn is_kept(&self) -> bool {
        self.lost.is_empty()
            && self.pages.is_clean()
            && self.recovery.segments_unexplained == 0
            && self.recovery.flush_maps_refused.is_empty()
    }
}

struct TestFolder {
    folder: String,
    run: u64,
    template: Rc<TemplateDatabase>,
}

impl TestFolder {
    fn new(folder: &str, run: u64, file_bytes: u64) -> Result<TestFolder> {
        let template =
            TemplateDatabase::of_size(PAGE_BYTES, file_bytes, FREE_PAGES, run, COMPRESSIBILITY_PCT)?;
        Ok(TestFolder { folder: folder.to_owned(), run, template: Rc::new(template) })
    }

    fn database(&self) -> String {
        format!("{}/db/1.edb", self.folder)
    }

    fn config(&self) -> InstanceConfig {
        let mut config = InstanceConfig::new(&format!("{}/log", self.folder), PAGE_BYTES as usize);
        config.cache_bytes_per_database = CACHE_BYTES;
        config.redo = Redo::ByPage;
        config.databases.push(DatabaseConfig {
            codec: Some(Rc::new(DatabaseCodec::new(self.template.clone()))),
            template_id: Some(self.template.id()),
            ..DatabaseConfig::new(&self.database())
        });
        config
    }

    async fn create(world: &World, folder: &str, file_bytes: u64) -> Result<TestFolder> {
        let place = TestFolder::new(folder, world.random_u64(), file_bytes)?;
        world.create_dir(folder).await?;
        // The identity comes first: where it is missing beside the rest, storage has lost it.
        place.write_identity(world, file_bytes).await?;
        world.sync_dir(folder).await?;
        world.sync_dir(parent_of(folder)).await?;
        for part in ["db", "log"] {
            world.create_dir(&format!("{folder}/{part}")).await?;
        }
        let codec = Rc::new(DatabaseCodec::new(place.template.clone()));
        let (counters, progress, stop) = (Counters::default(), Progress::default(), StopSignal::new());
        let template = place.template.clone();
        engine::create_database(world, &place.database(), template, codec, &counters, &progress, &stop)
            .await?;
        world.sync_dir(folder).await?;
        Ok(place)
    }

    async fn write_identity(&self, world: &World, file_bytes: u64) -> Result<()> {
        let mut identity = PageBuf::empty(SECTOR_BYTES);
        identity.as_mut_slice()[..8].copy_from_slice(HELLO);
        identity.as_mut_slice()[8..16].copy_from_slice(&self.run.to_le_bytes());
        identity.as_mut_slice()[16..24].copy_from_slice(&file_bytes.to_le_bytes());
        let file = world.open(&format!("{}/{IDENTITY}", self.folder), OpenMode::CreateNew).await?;
        file.write_at(0, std::iter::once(identity).collect()).await.0?;
        file.sync().await?;
        Ok(())
    }

    async fn find(world: &World, folder: &str) -> Result<TestFolder> {
        match TestFolder::read_identity(world, folder).await? {
            Ok(place) => Ok(place),
            Err(reason) => {
                let (folder, reason) = (folder.to_owned(), reason.to_owned());
                for part in ["db", "log"] {
                    if world.entry(&format!("{folder}/{part}")).await?.is_none_or(|entry| !entry.is_dir) {
                        return Err(CrashTestError::Foreign { folder, reason });
                    }
                }
                Err(CrashTestError::LostIdentity { folder, reason })
            }
        }
    }

    /// Reads the identity of a run; an error says what is wrong with it.
    async fn read_identity(world: &World, folder: &str) -> Result<Result<TestFolder, &'static str>> {
        let path = format!("{folder}/{IDENTITY}");
        if world.entry(&path).await?.is_none() {
            return Ok(Err("is not there"));
        }
        let file = world.open(&path, OpenMode::Read).await?;
        let (read, pages) = file.read_at(0, std::iter::once(PageBuf::empty(SECTOR_BYTES)).collect()).await;
        match read {
            Ok(_) => {}
            Err(error) if is_gone(error.kind) => return Ok(Err("cannot be read")),
            Err(error) => return Err(error.into()),
        }
        let bytes = pages[0].as_slice();
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        if bytes[..8] != *HELLO {
            return Ok(Err("is not intact"));
        }
        match TestFolder::new(folder, word(8), word(16)) {
            Ok(place) => Ok(Ok(place)),
            // No writer has made a database of such a size.
            Err(CrashTestError::Template(_)) => Ok(Err("is not intact")),
            Err(error) => Err(error),
        }
    }
}

/// Directory that contains a folder.
fn parent_of(folder: &str) -> &str {
    match folder.trim_end_matches('/').rsplit_once('/') {
        Some(("", _)) => "/",
        Some((parent, _)) => parent,
        None => ".",
    }
}

/// Creates `folder` and commits in it until the stop. Reports each durable commit to the listener at `address`.
/// Returns the number of commits, and calls `committed` with the number so far.
///
/// # Errors
/// A folder that exists, a listener that cannot be reached or goes away, failed I/O.
pub async fn write(
    world: &World,
    folder: &str,
    file_bytes: u64,
    sessions: u32,
    address: &str,
    stop: &StopSignal,
    committed: impl Fn(u64),
) -> Result<u64> {
    let listener = world.connect(address).await?;
    let place = TestFolder::create(world, folder, file_bytes).await?;
    listener.send([&HELLO[..], &place.run.to_le_bytes()].concat()).await?;
    let (instance, _) = Instance::open(world, &place.config()).await?;
    let (acknowledged, mut queue) = unbounded::<(u32, u64)>();
    let total = RefCell::new(0);
    let telling = async {
        while let Some((session, number)) = queue.next().await {
            let mut bytes = Vec::with_capacity(COMMIT_BYTES);
            bytes.extend_from_slice(&session.to_le_bytes());
            bytes.extend_from_slice(&number.to_le_bytes());
            if let Err(error) = listener.send(bytes).await {
                // Without a listener there is no point in going on.
                stop.stop();
                return Err(error.into());
            }
            *total.borrow_mut() += 1;
            committed(*total.borrow());
        }
        Ok(())
    };
    let writers = (1..=sessions.clamp(1, SESSIONS_MAX)).map(|session| {
        let random = Random::new(place.run ^ u64::from(session));
        commit_all(&instance, &place.template, session, random, acknowledged.clone(), stop)
    });
    let writers: Vec<_> = writers.collect();
    drop(acknowledged);
    let (written, told): (Vec<Result<()>>, Result<()>) = join(join_all(writers), telling).await;
    written.into_iter().chain([told]).collect::<Result<()>>()?;
    instance.close().await?;
    Ok(total.into_inner())
}

async fn commit_all(
    instance: &Instance,
    template: &TemplateDatabase,
    session: u32,
    mut random: Random,
    acknowledged: UnboundedSender<(u32, u64)>,
    stop: &StopSignal,
) -> Result<()> {
    let mut number = 0;
    while !stop.is_stopped() && number < u64::from(VERSION_MAX) {
        let mut transaction = instance.begin();
        let id = 1 + (random.next_u64() % u64::from(template.schema().shape().rows)) as u32;
        let version = random.next_u64() as u32 & VERSION_MAX;
        let message = [Entry::Row { id, version }, Entry::Body { id, version }];
        let own = Entry::Folder { id: session, version: number as u32 + 1 };
        let mut done = Ok(());
        for entry in message.into_iter().chain([own]) {
            if done.is_ok() {
                done = replace(&mut transaction, template, entry).await;
            }
        }
        match done {
            Ok(_) => {}
            Err(engine::Error::Conflict) => {
                transaction.rollback().await?;
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        transaction.commit(Durability::Durable).await?;
        number += 1;
        if acknowledged.unbounded_send((session, number)).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

async fn replace(
    transaction: &mut Transaction,
    template: &TemplateDatabase,
    entry: Entry,
) -> engine::Result<()> {
    let (tree, key, data) =
        (template.tree(entry.tree()), template.schema().key(entry), template.schema().data(entry));
    let step = |pager: &dyn Pager| Ok((update::replace(pager, tree, &key, &data)?, ()));
    transaction.change(1, step).await
}

/// Listens to one writer until it closes the connection or is lost. Calls `heard` with the notes so far after each
/// message.
///
/// # Errors
/// Something that is no writer. A connection that breaks is what this is about, and no error.
pub async fn note_commits(listener: &Listener, heard: impl Fn(&ListenerNotes)) -> Result<ListenerNotes> {
    let connection = listener.accept().await?;
    let mut pending = Vec::new();
    while pending.len() < 16 {
        if !more(&connection, &mut pending).await {
            return Err(CrashTestError::NoWriter);
        }
    }
    if pending[..8] != *HELLO {
        return Err(CrashTestError::NoWriter);
    }
    let run = u64::from_le_bytes(pending[8..16].try_into().expect("eight bytes"));
    pending.drain(..16);
    let mut notes = ListenerNotes { run, sessions: BTreeMap::new() };
    heard(&notes);
    loop {
        let whole = pending.len() - pending.len() % COMMIT_BYTES;
        for commit in pending[..whole].as_chunks::<COMMIT_BYTES>().0 {
            let (session, number) = commit.split_at(4);
            let session = u32::from_le_bytes(session.try_into().expect("four bytes"));
            let number = u64::from_le_bytes(number.try_into().expect("eight bytes"));
            if session == 0 || session > SESSIONS_MAX {
                return Err(CrashTestError::NoWriter);
            }
            let last = notes.sessions.entry(session).or_default();
            *last = number.max(*last);
        }
        pending.drain(..whole);
        heard(&notes);
        if !more(&connection, &mut pending).await {
            return Ok(notes);
        }
    }
}

async fn more(connection: &Connection, pending: &mut Vec<u8>) -> bool {
    match connection.receive(64 << 10).await {
        Ok(bytes) => {
            pending.extend_from_slice(&bytes);
            !bytes.is_empty()
        }
        Err(_) => false,
    }
}

/// Recovers the database that a crash left in `folder`, and compares it with the notes.
///
/// # Errors
/// A folder that is none of a crash test, or of another run; what no disk that keeps its word can leave behind
/// ([`CrashTestError::is_loss`]); anything else that keeps recovery from its work.
pub async fn verify(world: &World, folder: &str, notes: &ListenerNotes) -> Result<Findings> {
    let place = TestFolder::find(world, folder).await?;
    if place.run != notes.run {
        return Err(CrashTestError::OtherRun { heard: notes.run, found: place.run });
    }
    let config = place.config();
    let (instance, recovery) = Instance::open(world, &config).await?;
    let (mut lost, mut beyond) = (Vec::new(), 0);
    for session in 1..=SESSIONS_MAX {
        let key = place.template.schema().key(Entry::Folder { id: session, version: 0 });
        let tree = place.template.tree(Entry::Folder { id: session, version: 0 }.tree());
        let data = instance.begin().get(1, tree, &key).await?;
        let entry = data.and_then(|data| {
            place.template.schema().verify(Entry::Folder { id: session, version: 0 }.tree(), &key, &data)
        });
        let last = notes.sessions.get(&session).copied().unwrap_or(0);
        // A row with wrong bytes holds no commit at all.
        let found = entry.and_then(|entry| entry.version()).map_or(0, u64::from);
        if found < last {
            lost.push((session, found + 1, last));
        } else {
            beyond += found - last;
        }
    }
    instance.close().await?;
    let (counters, progress, stop) = (Counters::default(), Progress::default(), StopSignal::new());
    let stream = StreamConfig { read_bytes: 256 << 10, depth: 8 };
    let (path, template) = (place.database(), &*place.template);
    let is_sound = |pgno, page: PageRef<'_>| template.is_as_written(pgno, page);
    let made_of = MadeOf::from(template).written(&is_sound);
    let checked =
        check_database(world, &path, PAGE_BYTES as usize, made_of, stream, &counters, &progress, &stop)
            .await?;
    let acknowledged = notes.sessions.values().sum();
    Ok(Findings { acknowledged, lost, beyond, recovery, pages: checked.findings })
}

#[cfg(test)]
mod tests;

//! What a copy has on disk, and the engine over it: the disk operations of the state machine on real files.
//!
//! Invariants
//! 1. An operation is durable when it returns; pages of a copy that is being made are when its record says that
//!    it is whole.
//! 2. Between the listing of pages behind a fork and the cut of the log no page is written: the standby is closed.
//! 3. While a copy is being made its file is written page by page, its header like the rest; it is opened only
//!    for replay, which the machine asks for once all pages are there.
//!
//! A place in the file is what the protocol calls a page: the header is at 0, its shadow at 1, page 1 at 2.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use edb::log::{DATA_START, LogNames, SEGMENT_BYTES};
use edb::page::{PageRef, page_flags};
use engine::{Instance, InstanceConfig, LogHold, LogPosition, LogStore, ShippedLog, Standby};
use replication::{DiskOp, Found, LogExtent, LogPiece, Meta, PageCopy, PageRequest, Position, checksum};
use serde::{Deserialize, Serialize};
use smallvec::smallvec;
use world::channel::oneshot;
use world::{File, OpenMode, PageBuf, World};

use crate::wire::{FRAME_BYTES_MAX, NEW, load_record, save_record};
use crate::{Error, Result};

const META: &str = "copy.meta";
/// Upper bound of the files that an instance keeps as reserve logs.
const RESERVES_MAX: u8 = 0xF;
/// Largest piece of log in one message, bytes. A generation may be longer than a frame.
const PIECE_BYTES_MAX: u32 = FRAME_BYTES_MAX as u32 / 2;
/// Number of the database in its log stream; a copy has one database.
pub(crate) const DATABASE: u8 = 1;

/// Translates a log position of the engine into one of the protocol. A position in an empty segment becomes the
/// segment's beginning.
pub(crate) fn position(at: LogPosition) -> Position {
    let byte = if usize::from(at.byte()) <= DATA_START { 0 } else { u32::from(at.byte()) };
    Position { generation: at.generation(), offset: u32::from(at.segment()) * SEGMENT_BYTES as u32 + byte }
}

fn log_position(at: Position) -> LogPosition {
    let (segment, byte) = (at.offset / SEGMENT_BYTES as u32, at.offset % SEGMENT_BYTES as u32);
    LogPosition::new(at.generation, segment.min(u16::MAX.into()) as u16, byte as u16)
}

enum Mode {
    /// No engine is open: the copy is being seeded, its log is being cut, or it has not been needed yet.
    Closed,
    Standby(Box<Standby>),
    Active {
        instance: Rc<Instance>,
        hold: LogHold,
    },
}

/// What further copies of a new database need, besides equal initial pages: the header of the first copy and the
/// beginning of its log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeedFiles {
    /// Database header and its shadow, bytes.
    header: Vec<u8>,
    /// Log from its first byte on.
    log: Vec<u8>,
}

/// Files of one copy, and the engine that is open on them.
pub(crate) struct Files {
    world: World,
    config: InstanceConfig,
    signature: u64,
    meta: Meta,
    store: LogStore,
    mode: Mode,
    /// Page numbers that passive copies on this host took as a whole from the log.
    taken: BTreeSet<u32>,
    /// File of a copy that is being seeded.
    making: Option<File>,
    ahead: Option<Ahead>,
}

/// Next stretch of pages, read ahead from disk before it is requested.
struct Ahead {
    first: u32,
    pages: oneshot::Receiver<engine::Result<PageBytes>>,
}

/// Pages with their numbers, and the number of the page to go on with.
type PageBytes = (Vec<(u64, Rc<[u8]>)>, Option<u64>);

/// Result of a read of pages for another copy.
pub(crate) struct PagesRead {
    pub(crate) pages: Rc<[PageCopy]>,
    pub(crate) next: Option<u32>,
    pub(crate) position: Position,
}

impl Files {
    /// Opens the files of a copy and returns what is there. A copy without a record has no contents.
    pub(crate) async fn open(
        world: &World,
        config: &InstanceConfig,
        signature: u64,
    ) -> Result<(Files, Found)> {
        let meta = load_record(world, &config.log_directory, META).await?.unwrap_or_else(Meta::empty);
        let store = LogStore::open(world, config).await?;
        let files = Files {
            world: world.clone(),
            config: config.clone(),
            signature,
            meta: meta.clone(),
            store,
            mode: Mode::Closed,
            taken: BTreeSet::new(),
            making: None,
            ahead: None,
        };
        let log = files.store.extent().map(|(start, end)| LogExtent { start, end: position(end) });
        let checkpoint = files.checkpoint().await?;
        Ok((files, Found { meta, log, checkpoint }))
    }

    /// Turns a new database into the first copy: begins its log stream, and writes a record that lists all of its
    /// contents.
    pub(crate) async fn create(world: &World, config: &InstanceConfig) -> Result<SeedFiles> {
        let (instance, _) = Instance::open(world, config).await?;
        instance.flush_log().await?;
        instance.abandon().await;
        save_record(world, &config.log_directory, META, &Meta::first()).await?;
        let file = world.open(&config.databases[0].path, OpenMode::Read).await?;
        let (read, header) = file.read_at(0, smallvec![PageBuf::empty(2 * config.page_bytes)]).await;
        read?;
        let store = LogStore::open(world, config).await?;
        let log = match store.extent() {
            Some((start, end)) => store.read(LogPosition::new(start, 0, 0), end).await?,
            None => None,
        };
        let log = log.ok_or_else(|| engine::Error::Refused("a new database has no log".to_owned()))?;
        Ok(SeedFiles { header: header[0].as_slice().to_vec(), log: log.bytes })
    }

    /// Turns a new database with the same initial pages into a further copy, which continues where the log stream
    /// began.
    pub(crate) async fn seed(world: &World, config: &InstanceConfig, seed: &SeedFiles) -> Result<()> {
        let file = world.open(&config.databases[0].path, OpenMode::ReadWrite).await?;
        let pages = seed.header.chunks(config.page_bytes).map(PageBuf::copy_of);
        file.write_at(0, pages.collect()).await.0?;
        file.sync().await?;
        let mut store = LogStore::open(world, config).await?;
        store.begin_at(1).await?;
        let (from, bytes) = (LogPosition::new(1, 0, 0), seed.log.clone());
        store.store(&ShippedLog { from, bytes, closes: false }).await?;
        save_record(world, &config.log_directory, META, &Meta::first()).await
    }

    pub(crate) fn makes(config: &InstanceConfig, name: &str) -> bool {
        let logs = LogNames::new(&config.log_base);
        let is_record = name.strip_suffix(NEW).unwrap_or(name) == META;
        let is_database = |path: &str| path.rsplit('/').next() == Some(name);
        is_record
            || config.databases.iter().any(|database| {
                let map = engine::flush_map_path(&database.path);
                is_database(&database.path) || is_database(&map) || is_database(&format!("{map}.new"))
            })
            || [logs.current(), logs.next(), logs.checkpoint()].iter().any(|own| own == name)
            || logs.generation_of(name).is_some_and(|generation| logs.closed(generation) == name)
            || (0..=RESERVES_MAX).any(|number| logs.reserve(number) == name)
    }

    async fn checkpoint(&self) -> Result<Position> {
        let start = self.store.extent().map_or(1, |(start, _)| start);
        let saved = engine::saved_checkpoint(&self.world, &self.config).await?;
        Ok(saved.map_or(Position::of_generation(start), position))
    }

    fn end(&self) -> LogPosition {
        self.store.extent().map_or(LogPosition::new(1, 0, 0), |(_, end)| end)
    }

    pub(crate) async fn carry_out(&mut self, op: DiskOp) -> Result<()> {
        match op {
            DiskOp::Save(meta) => {
                if !matches!(meta.patch, Some(PageRequest::From(_))) {
                    self.finish_making().await?;
                }
                save_record(&self.world, &self.config.log_directory, META, &meta).await?;
                self.meta = meta;
            }
            DiskOp::Store(piece) => {
                let from = log_position(piece.from);
                let stretch = ShippedLog { from, bytes: piece.bytes.to_vec(), closes: piece.closes };
                self.store.store(&stretch).await?;
            }
            DiskOp::Cut { to } => {
                self.close().await;
                engine::truncate_log(&self.world, &self.config, &mut self.store, log_position(to)).await?;
            }
            DiskOp::Erase => {
                self.close().await;
                self.making = None;
                for database in &self.config.databases {
                    if self.world.entry(&database.path).await?.is_some() {
                        self.world.remove(&database.path).await?;
                    }
                }
                self.store.begin_at(1).await?;
            }
            DiskOp::StartLog { generation } => self.store.begin_at(generation).await?,
            DiskOp::DropLogs { below } => match &self.mode {
                Mode::Active { hold, .. } => hold.advance(below),
                _ => self.store.drop_below(below).await?,
            },
            DiskOp::WritePages(pages) => self.write_pages(&pages).await?,
        }
        Ok(())
    }

    /// Writes pages of another copy: into the file while the copy is seeded, else through the standby.
    async fn write_pages(&mut self, pages: &[PageCopy]) -> Result<()> {
        if matches!(self.meta.patch, Some(PageRequest::From(_))) {
            return self.write_file(pages).await;
        }
        // Without bytes: the active copy has never written it, so the log makes it anew before it is used.
        let numbered: Vec<(u32, &[u8])> = pages
            .iter()
            .filter(|page| page.page >= 2 && !page.bytes.is_empty())
            .map(|page| (page.page - 1, &*page.bytes))
            .collect();
        let standby = self.standby().await?;
        Ok(standby.give_pages(DATABASE, &numbered).await?)
    }

    /// Writes received pages into the file of a copy that is being seeded.
    async fn write_file(&mut self, pages: &[PageCopy]) -> Result<()> {
        let page_bytes = self.config.page_bytes;
        if let Some(page) = pages.iter().find(|page| page.bytes.len() != page_bytes) {
            return Err(engine::Error::Refused(format!("a page of {} bytes", page.bytes.len())).into());
        }
        let file = match &self.making {
            Some(file) => file.clone(),
            None => {
                let path = &self.config.databases[0].path;
                let is_new = self.world.entry(path).await?.is_none();
                let mode = if is_new { OpenMode::CreateNew } else { OpenMode::ReadWrite };
                self.making.insert(self.world.open(path, mode).await?).clone()
            }
        };
        for neighbours in pages.chunk_by(|page, next| page.page + 1 == next.page) {
            let at = u64::from(neighbours[0].page) * page_bytes as u64;
            let bufs = neighbours.iter().map(|page| PageBuf::copy_of(&page.bytes)).collect();
            file.write_at(at, bufs).await.0?;
        }
        Ok(())
    }

    /// Makes the pages of a seeded copy durable.
    async fn finish_making(&mut self) -> Result<()> {
        if let Some(file) = self.making.take() {
            file.sync().await?;
            if let Some((folder, _)) = self.config.databases[0].path.rsplit_once('/') {
                self.world.sync_dir(folder).await?;
            }
        }
        Ok(())
    }

    async fn standby(&mut self) -> Result<&mut Standby> {
        if matches!(self.mode, Mode::Closed) {
            let standby = Standby::open(&self.world, &self.config).await?;
            self.mode = Mode::Standby(Box::new(standby));
        }
        match &mut self.mode {
            Mode::Standby(standby) => Ok(standby),
            _ => Err(engine::Error::Refused("the copy is active".to_owned()).into()),
        }
    }

    /// Closes the engine at once, as a crash would.
    async fn close(&mut self) {
        match std::mem::replace(&mut self.mode, Mode::Closed) {
            Mode::Closed => {}
            Mode::Standby(standby) => {
                self.taken.extend(standby.taken_pages().map(|(_, pgno)| pgno + 1));
                standby.abandon().await;
            }
            Mode::Active { instance, hold } => {
                instance.abandon().await;
                drop(hold);
            }
        }
    }

    /// Reads log for another copy, as much as fits into one message.
    pub(crate) async fn read_log(&self, from: Position, until: Position) -> Result<Option<LogPiece>> {
        let segment = from.offset - from.offset % SEGMENT_BYTES as u32;
        let reach = Position { offset: segment.saturating_add(PIECE_BYTES_MAX), ..from };
        let goes_on = reach.offset < self.config.log_bytes;
        let until = if goes_on { until.min(reach) } else { until };
        let (from, until) = (log_position(from), log_position(until));
        let stretch = match &self.mode {
            Mode::Active { instance, .. } => instance.read_log(from, until).await?,
            _ => self.store.read(from, until).await?,
        };
        Ok(stretch.map(|stretch| LogPiece {
            from: position(stretch.from),
            checksum: checksum(&stretch.bytes),
            closes: stretch.closes,
            bytes: stretch.bytes.into(),
            signature: self.signature,
        }))
    }

    /// Reads pages for another copy.
    pub(crate) async fn read_pages(&mut self, request: &PageRequest) -> Result<PagesRead> {
        let copy = |place: u64, bytes: Vec<u8>| PageCopy { page: place as u32, bytes: bytes.into() };
        match (&mut self.mode, request) {
            (Mode::Active { instance, .. }, PageRequest::From(first)) => {
                let instance = instance.clone();
                // Redo of the new copy begins where it would begin here. An instance that has just become
                // active has not saved a checkpoint yet, and the oldest log may be gone.
                let begin = match instance.durable_checkpoint() {
                    unset if unset == LogPosition::default() => log_position(self.checkpoint().await?),
                    saved => saved,
                };
                // What was read ahead for a seeding is older than what the next one has to begin with.
                let ahead = self.ahead.take().filter(|ahead| *first > 0 && ahead.first == *first);
                let read = match ahead {
                    Some(ahead) => ahead.pages.await.ok(),
                    None => None,
                };
                let (pages, next) = match read {
                    Some(read) => read?,
                    None => instance.copy_stretch(DATABASE, u64::from(*first), begin).await?,
                };
                let position = position(instance.durable_log());
                if let Some(next) = next {
                    let (done, pages) = oneshot::channel();
                    self.ahead = Some(Ahead { first: next as u32, pages });
                    drop(self.world.spawn(async move {
                        // The task that asked may be gone.
                        let _ = done.send(instance.copy_stretch(DATABASE, next, begin).await);
                    }));
                }
                let copy = |(place, bytes)| PageCopy { page: place as u32, bytes };
                let (pages, next) = (pages.into_iter().map(copy).collect(), next.map(|place| place as u32));
                Ok(PagesRead { pages, next, position })
            }
            (Mode::Active { instance, .. }, PageRequest::List(places)) => {
                let mut pages = Vec::new();
                for &place in places.iter().filter(|place| **place >= 2) {
                    // What has never been written holds nothing of the lost history either: nothing is sent of it.
                    let bytes = instance.copy_page(DATABASE, place - 1).await?.unwrap_or_default();
                    pages.push(copy(place.into(), bytes));
                }
                Ok(PagesRead { pages: pages.into(), next: None, position: position(instance.durable_log()) })
            }
            (_, PageRequest::List(places)) => {
                let places = places.clone();
                let standby = self.standby().await?;
                let mut pages = Vec::new();
                for place in places.into_iter().filter(|place| *place >= 2) {
                    pages.push(copy(place.into(), standby.copy_page(DATABASE, place - 1).await?));
                }
                let position = position(standby.replayed());
                Ok(PagesRead { pages: pages.into(), next: None, position })
            }
            (_, PageRequest::From(_)) => {
                Err(engine::Error::Refused("only the active copy is copied".to_owned()).into())
            }
        }
    }

    /// Lists the numbers of the pages that the log behind `from` changes.
    pub(crate) async fn list_pages(&mut self, from: Position) -> Result<Vec<u32>> {
        self.close().await;
        let range = (log_position(from), self.end());
        let pages = engine::changed_pages(&self.world, &self.config, range).await?;
        Ok(pages.into_iter().map(|(_, pgno)| pgno + 1).collect())
    }

    /// Replays log towards `to`, at most one generation, so that other work need not wait long. Returns whether `to`
    /// is reached.
    pub(crate) async fn replay(&mut self, to: Position) -> Result<bool> {
        let to = log_position(to);
        let standby = self.standby().await?;
        let next = LogPosition::new(standby.replayed().generation() + 1, 0, 0);
        standby.replay(to.min(next)).await?;
        Ok(to <= next)
    }

    /// Numbers of the pages that this copy took as a whole from the log or from another copy since it was started.
    pub(crate) fn taken_pages(&self) -> Vec<u32> {
        let standby = match &self.mode {
            Mode::Standby(standby) => Some(standby.taken_pages()),
            _ => None,
        };
        let now = standby.into_iter().flatten().map(|(_, pgno)| pgno + 1);
        now.chain(self.taken.iter().copied()).collect::<BTreeSet<u32>>().into_iter().collect()
    }

    /// Digests of the contents of pages; 0 for a page that was never written.
    pub(crate) async fn digests(&mut self, places: &[u32]) -> Result<BTreeMap<u32, u32>> {
        let mut digests = BTreeMap::new();
        for &place in places.iter().filter(|place| **place >= 2) {
            let bytes = match &mut self.mode {
                Mode::Active { instance, .. } => instance.copy_page(DATABASE, place - 1).await?,
                _ => Some(self.standby().await?.copy_page(DATABASE, place - 1).await?),
            };
            digests.insert(place, bytes.map_or(0, |bytes| digest(&bytes)));
        }
        Ok(digests)
    }

    /// Numbers of the pages of a passive copy that need a replacement, because neither the file nor the log has them
    /// whole.
    pub(crate) fn unproven_pages(&self) -> Vec<u32> {
        match &self.mode {
            Mode::Standby(standby) => {
                standby.unproven_pages().into_iter().map(|(_, pgno)| pgno + 1).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Writes the pages of a passive copy, moves its checkpoint and returns it; `None` if the checkpoint cannot move.
    pub(crate) async fn save_checkpoint(&mut self) -> Result<Option<Position>> {
        match &mut self.mode {
            Mode::Standby(standby) => Ok(Some(position(standby.save_checkpoint().await?))),
            Mode::Active { instance, .. } => {
                let at = instance.durable_checkpoint();
                Ok((at > LogPosition::default()).then(|| position(at)))
            }
            Mode::Closed => Ok(None),
        }
    }

    /// Opens the database for users.
    pub(crate) async fn mount(&mut self) -> Result<Rc<Instance>> {
        self.standby().await?;
        let Mode::Standby(standby) = std::mem::replace(&mut self.mode, Mode::Closed) else {
            return Err(engine::Error::Refused("the copy is active".to_owned()).into());
        };
        self.taken.extend(standby.taken_pages().map(|(_, pgno)| pgno + 1));
        let (start, end) = self.store.extent().expect("a standby has log");
        let (instance, _) = standby.activate(end).await?;
        let (instance, hold) = (Rc::new(instance), start);
        let hold = instance.hold_log(hold);
        self.mode = Mode::Active { instance: instance.clone(), hold };
        Ok(instance)
    }

    /// Closes the database at once. Returns the durable end of the log and the checkpoint.
    pub(crate) async fn dismount(&mut self) -> Result<(Position, Position)> {
        self.ahead = None;
        // A mount that was skipped leaves a standby.
        self.close().await;
        self.store = LogStore::open(&self.world, &self.config).await?;
        Ok((position(self.end()), self.checkpoint().await?))
    }
}

/// Digest of a page's contents: equal on copies that hold the same nodes in the same order in the same tree. It leaves
/// out the place of nodes on the page, unused bytes, checksum and flush type (as in [`PageRef::says_the_same`]).
fn digest(bytes: &[u8]) -> u32 {
    let page = PageRef::new(bytes);
    let flags = page.flags() & !(page_flags::FLUSH_TYPE | page_flags::NEW_CHECKSUM);
    let mut said = page.dbtime().to_le_bytes().to_vec();
    let mut part = |bytes: &[u8]| {
        said.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        said.extend_from_slice(bytes);
    };
    [page.prev(), page.next(), page.objid(), flags].iter().for_each(|word| part(&word.to_le_bytes()));
    part(page.external_header());
    for node in page.nodes() {
        part(&[node.flags]);
        [node.prefix, node.suffix, node.data].into_iter().for_each(&mut part);
    }
    checksum(&said)
}

impl From<Error> for engine::Error {
    fn from(error: Error) -> engine::Error {
        engine::Error::Stopped(error.to_string())
    }
}

#[cfg(test)]
mod tests;

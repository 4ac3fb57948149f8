//! The flush map of a database: the version that each page has by the log. A page of another version was lost, however
//! good it is by itself.
//!
//! Invariants
//! 1. The map is a function of the log: it names what the log holds durably, whether the page is written yet or not.
//! 2. It is durable up to a position of the log before the checkpoint passes that position, and before a header says
//!    that the database is closed there. Redo meets the pages that changed later.
//! 3. A map that contradicts its database is removed, durably, before the database is used: it is not taken up again
//!    when the log has grown beyond the position of the map.
//!
//! Limits: the file is read as a whole. In memory at most two bytes for each page of the database, beside the pages
//! that changed since the last frame. A passive copy keeps no map.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use edb::flush_map::{
    ClosedMap, ENTRIES_MAX, ENTRY_BYTES, FlushMap as Contents, Header, Journal, version_of,
};
use edb::header::DatabaseHeader;
use results::IoClass;
use smallvec::smallvec;
use world::{OpenMode, PageBuf, SECTOR_BYTES, World};

use crate::create::directory_of;
use crate::error::Result;
use crate::io::{Counters, IoFile};
use crate::log::reserve::is_no_space;
use crate::log::{LogPosition, Signature};
use crate::page_table::PageTable;

/// Size of a read of the file, bytes.
const READ_BYTES: u64 = 1 << 20;
/// Size up to which a flush map is not rewritten, bytes.
const JOURNAL_BYTES: usize = 1 << 20;
/// Factor by which a flush map may exceed the size of its entries before it is rewritten.
const JOURNAL_TIMES: usize = 4;

/// Path of the flush map of the database at `path`: its name with the extension `jfm`, as in the genuine engine.
pub fn flush_map_path(path: &str) -> String {
    format!("{}.jfm", path.strip_suffix(".edb").unwrap_or(path))
}

/// Upper bound of the size of the flush map of a database with this many pages, without one frame, bytes.
pub fn flush_map_bytes_max(pages: u64) -> u64 {
    (JOURNAL_BYTES as u64).max((JOURNAL_TIMES * ENTRY_BYTES) as u64 * pages)
}

/// Removes the flush map of the database at `path` if there is one, durably.
pub(crate) async fn remove(world: &World, path: &str) -> Result<()> {
    let path = flush_map_path(path);
    if world.entry(&path).await?.is_some() {
        world.remove(&path).await?;
        world.sync_dir(directory_of(&path)).await?;
    }
    Ok(())
}

/// Flush map of one database. Clones share it.
#[derive(Clone)]
pub(crate) struct FlushMap(Rc<Inner>);

struct Inner {
    world: World,
    /// Path of the database, as its signature.
    path: String,
    signature: Signature,
    counters: Counters,
    versions: RefCell<Versions>,
    /// Whether the map is kept: the database belongs to an instance, and the volume had room.
    is_kept: Cell<bool>,
    /// Whether pages are compared with the map: redo has noted all changes.
    is_complete: Cell<bool>,
    /// File of the map as far as it is written; `None` if none can be used.
    file: RefCell<Option<MapFile>>,
}

struct MapFile {
    file: IoFile,
    log: Signature,
    position: LogPosition,
    end: Journal,
    /// Size that its entries need, bytes.
    needed: usize,
}

/// Versions of pages.
#[derive(Default)]
struct Versions {
    since: u64,
    begun_anew: bool,
    /// Pages that changed since the last frame.
    changed: PageTable,
    framed: Framed,
    /// Last page with a known version.
    last: u32,
}

/// Versions that the frames contain, as a table or a map, whichever is smaller.
enum Framed {
    Few(PageTable),
    /// Table by page number; 0: no entry.
    All(Vec<u16>),
}

impl Default for Framed {
    fn default() -> Framed {
        Framed::Few(PageTable::default())
    }
}

impl Framed {
    fn find(&self, pgno: u32) -> Option<u16> {
        match self {
            Framed::Few(table) => table.find(pgno).map(|version| version as u16),
            Framed::All(versions) => versions.get(pgno as usize).copied().filter(|version| *version != 0),
        }
    }

    /// Sets the version of a page. `last`: last page with a known version.
    fn set(&mut self, pgno: u32, version: u16, last: u32) {
        let pages = last as usize + 1;
        if let Framed::Few(table) = self
            && table.bytes() > pages * size_of::<u16>()
        {
            let mut versions = vec![0; pages];
            table.iter().for_each(|(pgno, version)| versions[pgno as usize] = version as u16);
            *self = Framed::All(versions);
        }
        match self {
            Framed::Few(table) => table.set(pgno, version.into()),
            Framed::All(versions) => {
                versions.resize(versions.len().max(pages), 0);
                versions[pgno as usize] = version;
            }
        }
    }

    /// Entries by page number.
    fn entries(&self) -> Vec<(u32, u16)> {
        match self {
            Framed::Few(table) => sorted(table),
            Framed::All(versions) => {
                (0..).zip(versions.iter().copied()).filter(|(_, version)| *version != 0).collect()
            }
        }
    }
}

fn sorted(table: &PageTable) -> Vec<(u32, u16)> {
    let mut entries: Vec<_> = table.iter().map(|(pgno, version)| (pgno, version as u16)).collect();
    entries.sort_unstable();
    entries
}

impl Versions {
    fn of(contents: &Contents) -> Versions {
        let Header { since, begun_anew, .. } = contents.header;
        let mut versions = Versions { since, begun_anew, ..Versions::default() };
        contents.entries.iter().for_each(|(pgno, version)| versions.set(*pgno, *version));
        versions
    }

    fn set(&mut self, pgno: u32, version: u16) {
        self.last = self.last.max(pgno);
        self.framed.set(pgno, version, self.last);
    }

    fn find(&self, pgno: u32) -> Option<u16> {
        self.changed.find(pgno).map(|version| version as u16).or_else(|| self.framed.find(pgno))
    }

    fn contradict(&self, pgno: u32, dbtime: u64) -> bool {
        self.find(pgno).map_or(dbtime > self.since, |version| version != version_of(dbtime))
    }
}

/// Changes that the file of the map does not contain yet.
pub(crate) struct Frame {
    position: LogPosition,
    entries: Vec<(u32, u16)>,
}

/// Reads the flush map of the database at `path`.
async fn read(world: &World, path: &str, counters: &Counters) -> Result<Option<(IoFile, Vec<u8>)>> {
    let path = flush_map_path(path);
    if world.entry(&path).await?.is_none() {
        return Ok(None);
    }
    let file = IoFile::open(world, &path, OpenMode::ReadWrite, counters).await?;
    let size = file.file().size().await?;
    let (end, mut bytes) = (size - size % SECTOR_BYTES as u64, Vec::new());
    while (bytes.len() as u64) < end {
        let at = bytes.len() as u64;
        let len = READ_BYTES.min(end - at) as usize;
        bytes.extend_from_slice(file.read_one(IoClass::HousekeepingRead, at, len).await?.as_slice());
    }
    Ok(Some((file, bytes)))
}

/// Flush map of the closed database at `path`, for checks.
pub(crate) async fn of_closed(
    world: &World,
    path: &str,
    header: &DatabaseHeader,
    counters: &Counters,
) -> Result<ClosedMap> {
    let found = read(world, path, counters).await?;
    Ok(ClosedMap::new(found.as_ref().map(|(_, bytes)| &bytes[..]), header))
}

impl FlushMap {
    /// Flush map of the database at `path`; keeps nothing before [`Self::load`].
    pub(crate) fn new(world: &World, path: &str, signature: Signature, counters: &Counters) -> FlushMap {
        FlushMap(Rc::new(Inner {
            world: world.clone(),
            path: path.to_owned(),
            signature,
            counters: counters.clone(),
            versions: RefCell::default(),
            is_kept: Cell::new(false),
            is_complete: Cell::new(false),
            file: RefCell::default(),
        }))
    }

    /// Reads the file and starts to note changes. Returns why an existing map is not used.
    pub(crate) async fn load(&self, header: &DatabaseHeader) -> Result<Option<String>> {
        let Inner { world, path, counters, .. } = &*self.0;
        self.0.is_kept.set(true);
        let refused = match read(world, path, counters).await? {
            None => None,
            Some((file, bytes)) => match Contents::of(&bytes, header) {
                Ok(contents) => {
                    // A process that was killed may have left it in the kernel's memory alone. What comes behind must
                    // not be durable before it.
                    file.sync().await?;
                    world.sync_dir(directory_of(&flush_map_path(path))).await?;
                    let versions = Versions::of(&contents);
                    let needed = versions.framed.entries().len() * ENTRY_BYTES;
                    *self.0.versions.borrow_mut() = versions;
                    let Contents { header, position, end, .. } = contents;
                    *self.0.file.borrow_mut() =
                        Some(MapFile { file, log: header.log, position, end, needed });
                    return Ok(None);
                }
                Err(reason) => {
                    remove(world, path).await?;
                    Some(reason).filter(|_| header.was_used())
                }
            },
        };
        let mut versions = self.0.versions.borrow_mut();
        (versions.since, versions.begun_anew) = (header.dbtime(), header.was_used());
        Ok(refused)
    }

    /// Notes that redo, if it was needed, has noted every change up to `log_end`. From now on pages are compared with
    /// the map. Returns why an existing map is not used.
    pub(crate) async fn complete(&self, log_end: Option<LogPosition>, dbtime: u64) -> Result<Option<String>> {
        let is_newer = |map: &MapFile| log_end.is_some_and(|end| map.position > end);
        let is_behind = self.0.file.borrow().as_ref().is_some_and(is_newer);
        if is_behind {
            *self.0.file.borrow_mut() = None;
            let forget = |versions: &mut Versions| {
                (versions.framed, versions.begun_anew) = (Framed::default(), true);
            };
            forget(&mut self.0.versions.borrow_mut());
            remove(&self.0.world, &self.0.path).await?;
        }
        let mut versions = self.0.versions.borrow_mut();
        if !self.0.is_kept.replace(true) {
            versions.begun_anew = true;
        }
        if self.0.file.borrow().is_none() {
            versions.since = dbtime;
        }
        self.0.is_complete.set(true);
        Ok(is_behind.then(|| "it is newer than the end of the log: log writes were lost".to_owned()))
    }

    /// Sets the dbtime of page `pgno`.
    #[inline]
    pub(crate) fn note(&self, pgno: u32, dbtime: u64) {
        if self.0.is_kept.get() {
            let mut versions = self.0.versions.borrow_mut();
            versions.changed.set(pgno, version_of(dbtime).into());
        }
    }

    /// Whether page `pgno`, as it was read, is another version than the one that was written.
    pub(crate) fn contradicts(&self, pgno: u32, dbtime: u64) -> bool {
        let is_compared = self.0.is_complete.get() && !planted!(StalePageTaken);
        is_compared && self.0.versions.borrow().contradict(pgno, dbtime)
    }

    /// Takes the changes since the last frame, up to `position`, the end of the log.
    pub(crate) fn take_frame(&self, position: LogPosition) -> Frame {
        let mut versions = self.0.versions.borrow_mut();
        let entries = sorted(&std::mem::take(&mut versions.changed));
        entries.iter().for_each(|(pgno, version)| versions.set(*pgno, *version));
        Frame { position, entries }
    }

    /// Writes a frame with the changes durably, before the checkpoint passes them.
    pub(crate) async fn write_changes(&self, frame: Frame, log: Signature) -> Result<()> {
        if frame.entries.is_empty() { Ok(()) } else { self.write(frame, log).await }
    }

    /// Removes the file of the map, which the next [`Self::write`] writes anew.
    pub(crate) async fn remove_file(&self) -> Result<()> {
        match self.0.file.take() {
            Some(_) => remove(&self.0.world, &self.0.path).await,
            None => Ok(()),
        }
    }

    /// Writes a frame durably; the log is durable up to its position. If the volume is full, the map is given up and
    /// the instance goes on without it.
    pub(crate) async fn write(&self, frame: Frame, log: Signature) -> Result<()> {
        if !self.0.is_kept.get() {
            return Ok(());
        }
        let is_short = |map: &MapFile| map.end.bytes <= JOURNAL_BYTES.max(JOURNAL_TIMES * map.needed);
        // Without a change nothing is written anew, so that earlier changes keep their position.
        let is_continued = |map: &MapFile| map.log == log && (frame.entries.is_empty() || is_short(map));
        let file = self.0.file.take().filter(is_continued);
        let written = match file {
            Some(map) => map.append(&frame).await,
            None => self.write_anew(frame.position, log).await,
        };
        match written {
            Ok(map) => *self.0.file.borrow_mut() = Some(map),
            Err(error) if is_no_space(&error) => return self.give_up().await,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn give_up(&self) -> Result<()> {
        let Inner { world, path, is_kept, is_complete, versions, .. } = &*self.0;
        is_kept.set(false);
        is_complete.set(false);
        versions.take();
        // Without its last frames it would contradict pages that are as they were written.
        remove(world, path).await
    }

    /// Rewrites all entries into a new file, which replaces the old one.
    async fn write_anew(&self, position: LogPosition, log: Signature) -> Result<MapFile> {
        let Inner { world, path, counters, signature, versions, .. } = &*self.0;
        let (path, unfinished) = (flush_map_path(path), format!("{}.new", flush_map_path(path)));
        if world.entry(&unfinished).await?.is_some() {
            world.remove(&unfinished).await?;
        }
        let (header, entries) = {
            let Versions { since, begun_anew, framed, .. } = &*versions.borrow();
            let (since, begun_anew) = (*since, *begun_anew);
            (Header { database: *signature, log, since, begun_anew }, framed.entries())
        };
        let file = IoFile::open(world, &unfinished, OpenMode::CreateNew, counters).await?;
        let (sector, end) = header.encode();
        let needed = entries.len() * ENTRY_BYTES;
        let mut map = MapFile { file, log, position: LogPosition::default(), end, needed };
        map.write(0, &sector).await?;
        for (position, entries) in parts(&entries, (map.position, position)) {
            let (offset, frame) = (map.end.bytes, map.end.frame(position, entries));
            map.write(offset, &frame).await?;
        }
        map.file.sync().await?;
        world.rename(&unfinished, &path).await?;
        world.sync_dir(directory_of(&path)).await?;
        map.file = IoFile::open(world, &path, OpenMode::ReadWrite, counters).await?;
        map.position = position;
        Ok(map)
    }
}

impl MapFile {
    async fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        let page = smallvec![PageBuf::copy_of(bytes)];
        self.file.write(IoClass::HousekeepingWrite, offset as u64, page).await
    }

    /// Appends a frame durably. After a failure the file is not used any more.
    async fn append(mut self, frame: &Frame) -> Result<MapFile> {
        for (position, entries) in parts(&frame.entries, (self.position, frame.position)) {
            let offset = self.end.bytes as u64;
            let bytes = smallvec![PageBuf::copy_of(&self.end.frame(position, entries))];
            self.file.write_durable(IoClass::HousekeepingWrite, offset, bytes).await?;
        }
        self.position = frame.position;
        Ok(self)
    }
}

/// Divides entries into frames. Only the last frame has the new position.
fn parts(
    entries: &[(u32, u16)],
    (before, position): (LogPosition, LogPosition),
) -> impl Iterator<Item = (LogPosition, &[(u32, u16)])> {
    let count = entries.len().div_ceil(ENTRIES_MAX).max(1);
    (1..=count).map(move |number| {
        let part = entries.chunks(ENTRIES_MAX).nth(number - 1).unwrap_or_default();
        (if number == count { position } else { before }, part)
    })
}

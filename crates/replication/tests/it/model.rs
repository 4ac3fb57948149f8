//! A model of a database engine: a log, pages, a cache, and a disk that does one thing after the other. Small
//! enough to see that it is right, and strict: a change applied twice, left out or out of order makes other
//! content.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use replication::{DiskOp, Found, LogExtent, LogPiece, Meta, PageCopy, PageRequest, Position, checksum};

pub const PAGES: u32 = 12;
const RECORD_BYTES: u32 = 8;
const RECORDS_PER_GENERATION: u32 = 6;
const GENERATION_BYTES: u32 = RECORD_BYTES * RECORDS_PER_GENERATION;
const STRETCH: u32 = 3;

/// One commit in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    pub id: u32,
    pub page: u32,
}

impl Record {
    fn encode(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.id.to_le_bytes());
        bytes[4..].copy_from_slice(&self.page.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Self {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        Record { id: word(0), page: word(4) }
    }
}

/// End position of a record that begins at `from`.
pub fn after(from: Position) -> Position {
    let offset = from.offset + RECORD_BYTES;
    if offset == GENERATION_BYTES {
        Position::of_generation(from.generation + 1)
    } else {
        Position { offset, ..from }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    pub version: Position,
    pub content: u64,
}

impl Page {
    pub const EMPTY: Page = Page { version: Position::START, content: 0 };

    /// Applies the record that ends at `end`, once.
    pub fn apply(&mut self, record: Record, end: Position) {
        if self.version < end {
            self.content = self.content.wrapping_mul(0x9e37_79b9).wrapping_add(u64::from(record.id) + 1);
            self.version = end;
        }
    }
}

/// Disk contents of one copy.
#[derive(Debug, Clone)]
pub struct Disk {
    pub meta: Meta,
    pub log_start: Option<u32>,
    pub log: BTreeMap<u32, Vec<u8>>,
    pub pages: Vec<Page>,
    pub damaged: BTreeSet<u32>,
    pub checkpoint: Position,
}

impl Disk {
    /// Contents of a new database.
    pub fn first() -> Self {
        Disk {
            meta: Meta::first(),
            log_start: Some(1),
            log: BTreeMap::from([(1, Vec::new())]),
            pages: vec![Page::EMPTY; PAGES as usize],
            damaged: BTreeSet::new(),
            checkpoint: Position::START,
        }
    }

    /// A new disk.
    pub fn empty() -> Self {
        Disk { meta: Meta::empty(), log_start: None, log: BTreeMap::new(), ..Disk::first() }
    }

    pub fn end(&self) -> Position {
        let Some((&generation, bytes)) = self.log.last_key_value() else { return Position::START };
        Position { generation, offset: bytes.len() as u32 }
    }

    pub fn found(&self) -> Found {
        let log = self.log_start.map(|start| LogExtent { start, end: self.end() });
        Found { meta: self.meta.clone(), log, checkpoint: self.checkpoint }
    }

    /// Records that begin at or after `from` and end at or before `to`, each with its end.
    pub fn records(&self, from: Position, to: Position) -> Vec<(Position, Record)> {
        let mut found = Vec::new();
        for (&generation, bytes) in self.log.range(from.generation..) {
            for (number, record) in bytes.chunks_exact(RECORD_BYTES as usize).enumerate() {
                let start = Position { generation, offset: number as u32 * RECORD_BYTES };
                if start >= from && after(start) <= to {
                    found.push((after(start), Record::decode(record)));
                }
            }
        }
        found
    }

    pub fn append(&mut self, bytes: &[u8], closes: bool) {
        let (&generation, file) = self.log.iter_mut().next_back().expect("a log");
        file.extend_from_slice(bytes);
        assert!(file.len() as u32 <= GENERATION_BYTES, "generation {generation} is too long");
        if closes {
            self.log.insert(generation + 1, Vec::new());
        }
    }

    fn cut(&mut self, to: Position) {
        self.log.retain(|&generation, _| generation <= to.generation);
        let file = self.log.entry(to.generation).or_default();
        file.truncate(to.offset as usize);
        self.checkpoint = self.checkpoint.min(to);
    }
}

/// Operation that is on its way to the disk.
#[derive(Debug, Clone)]
pub enum Op {
    Machine {
        ticket: u64,
        op: DiskOp,
    },
    /// Write of a part of the log buffer of the active copy.
    Flush(Vec<Record>),
    Dismount,
}

/// Engine model of one copy on a running host.
pub struct Engine {
    pub disk: Disk,
    pub cache: Vec<Page>,
    pub replayed: Position,
    pub is_open: bool,
    pub buffer: VecDeque<Record>,
    /// End of the log, including the buffer and pending flushes.
    pub appended: Position,
    pub flushing: bool,
    /// Whether page writes are held back: from the listing of the pages behind a fork until the log is cut.
    pub frozen: bool,
    pub queue: VecDeque<(u64, Op)>,
}

impl Engine {
    pub fn new(disk: Disk) -> Self {
        let mut engine = Engine {
            cache: Vec::new(),
            replayed: Position::START,
            is_open: false,
            buffer: VecDeque::new(),
            appended: Position::START,
            flushing: false,
            frozen: false,
            queue: VecDeque::new(),
            disk,
        };
        engine.forget_cache();
        engine
    }

    fn forget_cache(&mut self) {
        self.frozen = false;
        self.cache = self.disk.pages.clone();
        self.replayed = self.disk.checkpoint;
        self.buffer.clear();
        self.appended = self.disk.end();
    }

    pub fn open(&mut self) {
        self.is_open = true;
        self.appended = self.disk.end();
    }

    /// Closes the copy: no more commits, and the log buffer is lost.
    pub fn close(&mut self) {
        self.is_open = false;
        self.buffer.clear();
    }

    /// Commits a record on the active copy. Returns its end position.
    pub fn commit(&mut self, record: Record) -> Position {
        self.appended = after(self.appended);
        self.buffer.push_back(record);
        self.cache[record.page as usize].apply(record, self.appended);
        self.appended
    }

    /// Takes the records of one flush from the buffer, at most up to the end of the open generation.
    pub fn take_flush(&mut self) -> Vec<Record> {
        let room = RECORDS_PER_GENERATION - self.disk.end().offset / RECORD_BYTES;
        let count = self.buffer.len().min(room as usize);
        self.buffer.drain(..count).collect()
    }

    /// Carries out the oldest operation.
    pub fn carry_out(&mut self, op: &Op) {
        match op {
            Op::Flush(records) => {
                for record in records {
                    let closes = after(self.disk.end()).offset == 0;
                    self.disk.append(&record.encode(), closes);
                }
            }
            Op::Dismount => self.forget_cache(),
            Op::Machine { op, .. } => self.machine_op(op),
        }
    }

    fn machine_op(&mut self, op: &DiskOp) {
        match op {
            DiskOp::Save(meta) => self.disk.meta = meta.clone(),
            DiskOp::Store(piece) => {
                assert_eq!(piece.from, self.disk.end(), "a piece is stored where the log does not end");
                self.disk.append(&piece.bytes, piece.closes);
            }
            DiskOp::Cut { to } => {
                self.disk.cut(*to);
                self.forget_cache();
            }
            DiskOp::Erase => {
                let meta = self.disk.meta.clone();
                self.disk = Disk { meta, ..Disk::empty() };
                self.forget_cache();
            }
            DiskOp::StartLog { generation } => {
                self.disk.log_start = Some(*generation);
                self.disk.log = BTreeMap::from([(*generation, Vec::new())]);
                self.disk.checkpoint = Position::of_generation(*generation);
                self.forget_cache();
            }
            DiskOp::DropLogs { below } => {
                self.disk.log.retain(|generation, _| generation >= below);
                self.disk.log_start = Some(*below);
                assert!(self.disk.checkpoint.generation >= *below, "a log that redo needs was dropped");
            }
            DiskOp::WritePages(pages) => {
                for copy in pages.iter() {
                    let word = |at: usize| {
                        u64::from_le_bytes(copy.bytes[at..at + 8].try_into().expect("eight bytes"))
                    };
                    let version = Position {
                        generation: (word(0) >> 32) as u32,
                        offset: (word(0) & 0xffff_ffff) as u32,
                    };
                    let page = Page { version, content: word(8) };
                    self.disk.pages[copy.page as usize] = page;
                    self.cache[copy.page as usize] = page;
                    self.disk.damaged.remove(&copy.page);
                }
            }
        }
    }

    pub fn replay(&mut self, to: Position) -> Result<(), String> {
        let start = self.disk.log_start.unwrap_or(u32::MAX);
        if self.replayed.generation < start {
            return Err(format!("replay from {} needs log that begins with {start}", self.replayed));
        }
        for (end, record) in self.disk.records(self.replayed, to) {
            self.cache[record.page as usize].apply(record, end);
        }
        self.replayed = self.replayed.max(to);
        Ok(())
    }

    pub fn read_log(&self, from: Position, until: Position, signature: u64) -> Option<LogPiece> {
        let file = self.disk.log.get(&from.generation)?;
        let has_next = self.disk.log.contains_key(&(from.generation + 1));
        let limit = if until.generation > from.generation { file.len() as u32 } else { until.offset };
        let closes = has_next && until.generation > from.generation;
        let limit = limit.min(file.len() as u32);
        if from.offset > limit || from.offset == limit && !closes {
            return None;
        }
        let bytes: Rc<[u8]> = file[from.offset as usize..limit as usize].into();
        let checksum = checksum(&bytes);
        Some(LogPiece { from, bytes, closes, signature, checksum })
    }

    /// Writes changed pages; returns the new checkpoint if all are written.
    pub fn write_pages(&mut self, only: Option<u32>) -> Option<Position> {
        let durable = if self.is_open { self.disk.end() } else { self.replayed };
        let patching = self.disk.meta.patch.is_some() || self.frozen;
        let mut all = !patching;
        for (number, page) in self.cache.iter().enumerate() {
            let is_chosen = only.is_none_or(|chosen| chosen == number as u32);
            let is_damaged = self.disk.damaged.contains(&(number as u32));
            if is_chosen && page.version <= durable && !is_damaged && !patching {
                self.disk.pages[number] = *page;
            } else if *page != self.disk.pages[number] || is_damaged {
                all = false;
            }
        }
        if !all || self.buffer.front().is_some() || self.flushing {
            return None;
        }
        self.disk.checkpoint = self.disk.checkpoint.max(durable);
        Some(self.disk.checkpoint)
    }

    /// Reads pages. Returns them, the number of the next page, and a position that covers all their changes.
    pub fn read_pages(&self, request: &PageRequest) -> (Rc<[PageCopy]>, Option<u32>, Position) {
        let copy = |number: u32, page: Page| {
            let version = u64::from(page.version.generation) << 32 | u64::from(page.version.offset);
            let bytes: Vec<u8> = [version.to_le_bytes(), page.content.to_le_bytes()].concat();
            PageCopy { page: number, bytes: bytes.into() }
        };
        let position = if self.is_open { self.disk.end() } else { self.replayed };
        match request {
            PageRequest::From(first) => {
                let last = (first + STRETCH).min(PAGES);
                let pages =
                    (*first..last).map(|number| copy(number, self.disk.pages[number as usize])).collect();
                (pages, (last < PAGES).then_some(last), position)
            }
            PageRequest::List(list) => {
                let pages = list.iter().map(|&number| copy(number, self.cache[number as usize])).collect();
                (pages, None, position)
            }
        }
    }

    /// Numbers of the pages that the log behind `from` changes; empty if no page on disk is newer than `from`.
    pub fn list_pages(&mut self, from: Position) -> Vec<u32> {
        self.frozen = true;
        if self.disk.pages.iter().all(|page| page.version <= from) {
            return Vec::new();
        }
        let pages: BTreeSet<u32> =
            self.disk.records(from, self.disk.end()).iter().map(|(_, record)| record.page).collect();
        pages.into_iter().collect()
    }
}

//! The records of the log and their bytes.
//!
//! Invariants
//! 1. `decode(encode(record))` is the record, but for pages that changes make anew: they stay encoded until
//!    they are needed ([`PageChange::decode_page`]), so that the log can be read without its databases.
//! 2. `decode` answers `None` on bytes that `encode` did not make, or a record that means something else; it
//!    never panics. That the bytes are the ones written is the log segment's checksum's business.
//!
//! Limits: 256 databases per instance; records are as long as they are (a split carries one encoded page).

use edb::identity::LogPosition;
use smallvec::SmallVec;

use crate::change::{Before, EntryData, MiniTransaction, PageChange, PageChanges, PageOp, Undo};
use crate::page_coding::PageCoding;
use crate::wire::{Reader, put_bytes, put_int};

/// Record of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogRecord {
    /// Mini-transaction. The first one of a transaction begins it.
    Changes {
        /// Number of the database in the instance.
        db: u8,
        /// Dbtime that all changed pages get.
        dbtime: u64,
        /// Mini-transaction with its page changes.
        mini: MiniTransaction,
    },
    /// Commit of a transaction.
    Commit {
        /// Number of the transaction.
        transaction: u32,
        /// Whether the committer waited until the log was durable.
        durable: bool,
    },
    /// Rollback of a transaction: all of its changes have been undone.
    Rollback {
        /// Number of the transaction.
        transaction: u32,
    },
    /// Page image: a clean page before it became dirty. It replaces a page that a power cut tore.
    PageImage {
        /// Number of the database.
        db: u8,
        /// Number of the page.
        pgno: u32,
        /// Version (dbtime) of the image.
        dbtime: u64,
        /// Page in the coding of its database. Redo decodes it where it is needed.
        encoded: Box<[u8]>,
    },
    /// Extension of a database file (header and shadow not counted). The space behind the old pages is unused before,
    /// and zero from here on.
    Extend {
        /// Number of the database.
        db: u8,
        /// Number of pages before.
        before: u32,
        /// Number of pages after the extension.
        pages: u32,
    },
    /// Attach: a database joins the instance.
    Attach {
        /// Number by which the following records name the database.
        db: u8,
        /// Path of the database file.
        path: String,
        /// Random part of the database's signature.
        signature: u32,
        /// Size of a page, bytes.
        page_bytes: u32,
        /// Highest dbtime of the database.
        dbtime: u64,
    },
    /// Detach: a database leaves the instance, cleanly closed.
    Detach {
        /// Number of the database.
        db: u8,
    },
    /// Position at which redo would have begun when this record was added. A passive copy may discard log before it
    /// once it has written all pages changed by the log behind it.
    Checkpoint {
        /// Log position at which redo begins.
        position: LogPosition,
        /// Log position before which every transaction has ended and its deleted entries have been removed for good.
        finished: LogPosition,
    },
}

/// Part of a record about one page, without the bytes of the page or its edits ([`LogRecord::decode_apart`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRecord {
    /// Number of the database.
    pub db: u8,
    /// Number of the page.
    pub pgno: u32,
    /// Version (dbtime) that the page gets.
    pub dbtime: u64,
    /// Kind of the part: page image or change.
    pub kind: PageRecordKind,
}

/// Meaning of the bytes of a [`PageRecord`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageRecordKind {
    /// Page image in the coding of its database.
    Image,
    /// Edits of the page.
    Change {
        /// Version (dbtime) before the edits; meaningless if they format the page.
        dbtime_before: u64,
        /// Whether the first edit formats the page, so that the earlier contents need not be known.
        formats: bool,
    },
}

const CHANGES: u8 = 1;
const COMMIT: u8 = 2;
const ROLLBACK: u8 = 3;
const PAGE_IMAGE: u8 = 4;
const EXTEND: u8 = 5;
const ATTACH: u8 = 6;
const DETACH: u8 = 7;
const CHECKPOINT: u8 = 8;

const IN_TRANSACTION: u8 = 1;
const HAS_UNDO: u8 = 2;
const COMPENSATES: u8 = 4;

/// Code of the edit that formats a page.
const FORMAT: u8 = 9;

/// Appends a [`LogRecord::Changes`] for a mini-transaction that the caller keeps.
pub fn encode_changes(
    db: u8,
    dbtime: u64,
    mini: &MiniTransaction,
    coding: &dyn PageCoding,
    out: &mut Vec<u8>,
) {
    let flags = if mini.transaction.is_some() { IN_TRANSACTION } else { 0 }
        | if mini.undo.is_some() { HAS_UNDO } else { 0 }
        | if mini.compensates { COMPENSATES } else { 0 };
    out.extend_from_slice(&[CHANGES, db, flags]);
    put_int(out, dbtime);
    if let Some(transaction) = mini.transaction {
        put_int(out, transaction.into());
    }
    if let Some(undo) = &mini.undo {
        undo.encode(out);
    }
    put_int(out, mini.changes.len() as u64);
    for change in &mini.changes {
        change.encode(dbtime, coding, out);
    }
}

/// Appends a [`LogRecord::PageImage`] for a page that the caller keeps; `encode` appends the page in the coding of its
/// database.
pub fn encode_page_image(
    db: u8,
    pgno: u32,
    dbtime: u64,
    out: &mut Vec<u8>,
    encode: impl FnOnce(&mut Vec<u8>),
) {
    out.extend_from_slice(&[PAGE_IMAGE, db]);
    put_int(out, pgno.into());
    put_int(out, dbtime);
    put_encoded(out, encode);
}

impl LogRecord {
    /// Appends the bytes of the record. `coding` is that of its database; records about no database do not use it.
    pub fn encode(&self, coding: &dyn PageCoding, out: &mut Vec<u8>) {
        match self {
            LogRecord::Changes { db, dbtime, mini } => encode_changes(*db, *dbtime, mini, coding, out),
            LogRecord::Commit { transaction, durable } => {
                out.extend_from_slice(&[COMMIT, u8::from(*durable)]);
                put_int(out, (*transaction).into());
            }
            LogRecord::Rollback { transaction } => {
                out.push(ROLLBACK);
                put_int(out, (*transaction).into());
            }
            LogRecord::PageImage { db, pgno, dbtime, encoded } => {
                encode_page_image(*db, *pgno, *dbtime, out, |out| out.extend_from_slice(encoded));
            }
            LogRecord::Extend { db, before, pages } => {
                out.extend_from_slice(&[EXTEND, *db]);
                put_int(out, (*before).into());
                put_int(out, (*pages).into());
            }
            LogRecord::Attach { db, path, signature, page_bytes, dbtime } => {
                out.extend_from_slice(&[ATTACH, *db]);
                put_bytes(out, path.as_bytes());
                put_int(out, (*signature).into());
                put_int(out, (*page_bytes).into());
                put_int(out, *dbtime);
            }
            LogRecord::Detach { db } => out.extend_from_slice(&[DETACH, *db]),
            LogRecord::Checkpoint { position, finished } => {
                out.push(CHECKPOINT);
                put_int(out, u64::from_le_bytes(position.to_bytes()));
                put_int(out, u64::from_le_bytes(finished.to_bytes()));
            }
        }
    }

    /// Decodes a record from `bytes`.
    pub fn decode(bytes: &[u8]) -> Option<LogRecord> {
        let (mut changes, mut image) = (PageChanges::new(), Box::default());
        let mut is_whole = true;
        let mut record = LogRecord::decode_apart(bytes, |page, said| match page.kind {
            PageRecordKind::Image => image = said.into(),
            PageRecordKind::Change { .. } => match page.change(said) {
                Some(change) => changes.push(change),
                None => is_whole = false,
            },
        })?;
        match &mut record {
            LogRecord::Changes { mini, .. } => mini.changes = changes,
            LogRecord::PageImage { encoded, .. } => *encoded = image,
            _ => {}
        }
        is_whole.then_some(record)
    }

    /// Decodes a record without its parts about pages. These go to `each` as bytes, in the order of the record; redo
    /// decodes them when it applies them ([`PageRecord::change`]).
    pub fn decode_apart(bytes: &[u8], mut each: impl FnMut(PageRecord, &[u8])) -> Option<LogRecord> {
        let mut reader = Reader(bytes);
        let record = match reader.byte()? {
            CHANGES => {
                let db = reader.byte()?;
                let flags = reader.byte()?;
                let dbtime = reader.int()?;
                let mini = MiniTransaction::decode(flags, &mut reader)?;
                for _ in 0..reader.int()? {
                    let (page, ops) = PageRecord::of_change(db, dbtime, &mut reader)?;
                    each(page, ops);
                }
                LogRecord::Changes { db, dbtime, mini }
            }
            COMMIT => {
                let durable = match reader.byte()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                };
                LogRecord::Commit { durable, transaction: reader.u32()? }
            }
            ROLLBACK => LogRecord::Rollback { transaction: reader.u32()? },
            PAGE_IMAGE => {
                let db = reader.byte()?;
                let (pgno, dbtime) = (reader.u32()?, reader.int()?);
                let kind = PageRecordKind::Image;
                each(PageRecord { db, pgno, dbtime, kind }, get_encoded(&mut reader)?);
                LogRecord::PageImage { db, pgno, dbtime, encoded: Box::default() }
            }
            EXTEND => LogRecord::Extend { db: reader.byte()?, before: reader.u32()?, pages: reader.u32()? },
            ATTACH => LogRecord::Attach {
                db: reader.byte()?,
                path: std::str::from_utf8(reader.bytes()?).ok()?.to_owned(),
                signature: reader.u32()?,
                page_bytes: reader.u32()?,
                dbtime: reader.int()?,
            },
            DETACH => LogRecord::Detach { db: reader.byte()? },
            CHECKPOINT => {
                let mut position = || Some(LogPosition::from_bytes(reader.int()?.to_le_bytes()));
                LogRecord::Checkpoint { position: position()?, finished: position()? }
            }
            _ => return None,
        };
        reader.0.is_empty().then_some(record)
    }
}

impl MiniTransaction {
    /// Decodes a record up to its page changes, which follow.
    fn decode(flags: u8, reader: &mut Reader) -> Option<MiniTransaction> {
        if flags & !(IN_TRANSACTION | HAS_UNDO | COMPENSATES) != 0 {
            return None;
        }
        let transaction = if flags & IN_TRANSACTION != 0 { Some(reader.u32()?) } else { None };
        let undo = if flags & HAS_UNDO != 0 { Some(Undo::decode(reader)?) } else { None };
        let compensates = flags & COMPENSATES != 0;
        Some(MiniTransaction { transaction, undo, compensates, changes: PageChanges::new() })
    }
}

impl Undo {
    fn encode(&self, out: &mut Vec<u8>) {
        let (kind, data): (u8, &[u8]) = match &self.was {
            Before::Absent => (0, &[]),
            Before::Deleted { data } => (1, data),
            Before::Data { data } => (2, data),
            Before::Present => (3, &[]),
        };
        out.push(kind);
        put_int(out, self.fdp.into());
        put_int(out, self.objid.into());
        put_bytes(out, &self.key);
        put_bytes(out, &self.tail);
        put_bytes(out, data);
    }

    fn decode(reader: &mut Reader) -> Option<Undo> {
        let kind = reader.byte()?;
        let (fdp, objid) = (reader.u32()?, reader.u32()?);
        let key = reader.bytes()?.into();
        let tail = reader.bytes()?.into();
        let data: EntryData = reader.bytes()?.into();
        let was = match kind {
            0 if data.is_empty() => Before::Absent,
            1 => Before::Deleted { data },
            2 => Before::Data { data },
            3 if data.is_empty() => Before::Present,
            _ => return None,
        };
        Some(Undo { fdp, objid, key, tail, was })
    }
}

impl PageChange {
    fn encode(&self, dbtime: u64, coding: &dyn PageCoding, out: &mut Vec<u8>) {
        put_int(out, self.pgno.into());
        // Recently changed pages have a short distance.
        put_int(out, dbtime.wrapping_sub(self.dbtime_before));
        put_int(out, self.ops.len() as u64);
        for op in &self.ops {
            op.encode(self.pgno, coding, out);
        }
    }
}

impl PageRecord {
    /// Header of the next page change, and the bytes of its edits.
    fn of_change<'a>(db: u8, dbtime: u64, reader: &mut Reader<'a>) -> Option<(PageRecord, &'a [u8])> {
        let pgno = reader.u32()?;
        let dbtime_before = dbtime.wrapping_sub(reader.int()?);
        let count = reader.int()?;
        let ops = reader.0;
        for _ in 0..count {
            PageOp::skip(reader)?;
        }
        let ops = &ops[..ops.len() - reader.0.len()];
        let kind = PageRecordKind::Change { dbtime_before, formats: ops.first() == Some(&FORMAT) };
        Some((PageRecord { db, pgno, dbtime, kind }, ops))
    }

    /// Page change of this part, if it is one. `bytes`: those of this part.
    pub fn change(&self, bytes: &[u8]) -> Option<PageChange> {
        let PageRecordKind::Change { dbtime_before, .. } = self.kind else { return None };
        let (mut reader, mut ops) = (Reader(bytes), SmallVec::new());
        while !reader.0.is_empty() {
            ops.push(PageOp::decode(&mut reader)?);
        }
        Some(PageChange { pgno: self.pgno, dbtime_before, ops })
    }

    /// Whether this part contains the whole page, so that its earlier contents need not be known.
    pub fn is_whole(&self) -> bool {
        match self.kind {
            PageRecordKind::Image => true,
            PageRecordKind::Change { formats, .. } => formats,
        }
    }
}

impl PageOp {
    fn encode(&self, pgno: u32, coding: &dyn PageCoding, out: &mut Vec<u8>) {
        let mut head = |kind: u8, value: u64| {
            out.push(kind);
            put_int(out, value);
        };
        match self {
            PageOp::Insert { slot, flags, key, data } => {
                head(0, (*slot).into());
                out.push(*flags);
                put_bytes(out, key);
                put_bytes(out, data);
            }
            PageOp::Delete { slot } => head(1, (*slot).into()),
            PageOp::Replace { slot, data } => {
                head(2, (*slot).into());
                put_bytes(out, data);
            }
            PageOp::SetNodeFlags { slot, flags } => {
                head(3, (*slot).into());
                out.push(*flags);
            }
            PageOp::SetPrevious { pgno } => head(4, (*pgno).into()),
            PageOp::SetNext { pgno } => head(5, (*pgno).into()),
            PageOp::SetExternalHeader { header } => {
                out.push(6);
                put_bytes(out, header);
            }
            PageOp::SetPageFlags { flags } => head(7, (*flags).into()),
            PageOp::Truncate { slot } => head(8, (*slot).into()),
            PageOp::Format { page } => {
                out.push(FORMAT);
                put_encoded(out, |out| coding.encode(pgno, page, out));
            }
            PageOp::FormatLogged { encoded } => {
                out.push(FORMAT);
                put_encoded(out, |out| out.extend_from_slice(encoded));
            }
        }
    }

    fn decode(reader: &mut Reader) -> Option<PageOp> {
        Some(match reader.byte()? {
            0 => PageOp::Insert {
                slot: reader.u16()?,
                flags: reader.byte()?,
                key: reader.bytes()?.into(),
                data: reader.bytes()?.into(),
            },
            1 => PageOp::Delete { slot: reader.u16()? },
            2 => PageOp::Replace { slot: reader.u16()?, data: reader.bytes()?.into() },
            3 => PageOp::SetNodeFlags { slot: reader.u16()?, flags: reader.byte()? },
            4 => PageOp::SetPrevious { pgno: reader.u32()? },
            5 => PageOp::SetNext { pgno: reader.u32()? },
            6 => PageOp::SetExternalHeader { header: reader.bytes()?.to_vec() },
            7 => PageOp::SetPageFlags { flags: reader.u32()? },
            8 => PageOp::Truncate { slot: reader.u16()? },
            FORMAT => PageOp::FormatLogged { encoded: get_encoded(reader)?.into() },
            _ => return None,
        })
    }

    /// Skips the bytes that [`Self::decode`] would take. It succeeds exactly if decoding does.
    fn skip(reader: &mut Reader) -> Option<()> {
        match reader.byte()? {
            0 => {
                reader.u16()?;
                reader.byte()?;
                reader.bytes()?;
                reader.bytes().map(drop)
            }
            1 | 8 => reader.u16().map(drop),
            2 => reader.u16().and_then(|_| reader.bytes()).map(drop),
            3 => reader.u16().and_then(|_| reader.byte()).map(drop),
            4 | 5 | 7 => reader.u32().map(drop),
            6 => reader.bytes().map(drop),
            FORMAT => get_encoded(reader).map(drop),
            _ => None,
        }
    }
}

fn put_encoded(out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) {
    // The length goes in front of an encoding whose length is known only afterwards: three fixed bytes.
    let at = out.len();
    out.extend_from_slice(&[0; 3]);
    encode(out);
    let len = (out.len() - at - 3) as u32;
    out[at..at + 3].copy_from_slice(&len.to_le_bytes()[..3]);
}

fn get_encoded<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let len = u32::from_le_bytes([reader.byte()?, reader.byte()?, reader.byte()?, 0]);
    let (encoded, rest) = reader.0.split_at_checked(len as usize)?;
    reader.0 = rest;
    Some(encoded)
}

//! Pages that are known as their template page and the edits made on it: one edit after the other, entries as
//! (id, version).
//!
//! Format: [`KIND_EDITS`], dbtime, flush type, number of edits, edits. An edit: a kind byte (see `op`) and its
//! numbers as varints; bytes that no entry of ours has follow their length.

use std::rc::Rc;

use btree::{PageOp, SparsePage};

use super::TemplateDatabase;
use crate::payload::VERSION_MAX;
use crate::schema::Entry;
use btree::{put_int, take_int};

/// First byte of an encoding without edits: the page is the template page.
pub(crate) const KIND_IMAGE: u8 = 0;
/// First byte of an encoding with edits of the template page.
pub(crate) const KIND_EDITS: u8 = 3;

mod op {
    /// Edit that inserts a node: slot, flags, key, data.
    pub const INSERT: u8 = 0;
    /// Edit that deletes a node: slot.
    pub const DELETE: u8 = 1;
    /// Edit that replaces data: slot, data.
    pub const REPLACE: u8 = 2;
    /// Edit that sets node flags: slot, flags.
    pub const SET_FLAGS: u8 = 3;
    /// Edit that sets the left neighbour: page number.
    pub const SET_PREVIOUS: u8 = 4;
    /// Edit that sets the right neighbour: page number.
    pub const SET_NEXT: u8 = 5;
    /// Edit that inserts an entry, from which key and data follow: slot, flags, entry.
    pub const INSERT_ENTRY: u8 = 6;
    /// Edit that replaces data by those of an entry: slot, entry.
    pub const REPLACE_ENTRY: u8 = 7;
}

/// Longest key of an edit, bytes; a longer one makes no valid node.
const KEY_BYTES_MAX: usize = 255;

impl TemplateDatabase {
    /// Appends the encoding of a page as edits of the template page.
    pub(super) fn encode_edits(&self, page: &SparsePage, out: &mut Vec<u8>) {
        if page.is_pristine() {
            out.push(KIND_IMAGE);
            return;
        }
        out.push(KIND_EDITS);
        put_int(out, page.outline().dbtime);
        put_int(out, page.flush_type().into());
        put_int(out, page.ops().len() as u64);
        page.ops().iter().for_each(|op| self.put_op(page.outline().objid, op, out));
    }

    fn put_op(&self, objid: u32, op: &PageOp, out: &mut Vec<u8>) {
        let schema = self.schema();
        let tree = self.tree_of(objid);
        let mut put = |kind: u8, numbers: &[u64]| {
            out.push(kind);
            numbers.iter().for_each(|number| put_int(out, *number));
        };
        let entry_numbers =
            |entry: Entry| [entry.kind() as u64, entry.id().into(), entry.version().unwrap_or(0).into()];
        match op {
            PageOp::Insert { slot, flags, key, data } => {
                let head = [u64::from(*slot), u64::from(*flags)];
                if let Some(entry) = tree.and_then(|tree| schema.verify(tree, key, data)) {
                    put(op::INSERT_ENTRY, &head);
                    entry_numbers(entry).iter().for_each(|number| put_int(out, *number));
                } else {
                    put(op::INSERT, &head);
                    put_piece(key, out);
                    put_piece(data, out);
                }
            }
            PageOp::Delete { slot } => put(op::DELETE, &[u64::from(*slot)]),
            PageOp::Replace { slot, data } => {
                if let Some(entry) = tree.and_then(|tree| schema.entry_of_data(tree, data)) {
                    put(op::REPLACE_ENTRY, &[u64::from(*slot)]);
                    entry_numbers(entry).iter().for_each(|number| put_int(out, *number));
                } else {
                    put(op::REPLACE, &[u64::from(*slot)]);
                    put_piece(data, out);
                }
            }
            PageOp::SetNodeFlags { slot, flags } => {
                put(op::SET_FLAGS, &[u64::from(*slot), u64::from(*flags)]);
            }
            PageOp::SetPrevious { pgno } => put(op::SET_PREVIOUS, &[u64::from(*pgno)]),
            PageOp::SetNext { pgno } => put(op::SET_NEXT, &[u64::from(*pgno)]),
            other => unreachable!("a sparse page has no edit like {other:?}"),
        }
    }

    /// Decodes a page; `None` if `encoded` is not an encoding.
    pub(super) fn decode_edits(self: Rc<Self>, pgno: u32, mut encoded: &[u8]) -> Option<SparsePage> {
        let dbtime = edited_dbtime(encoded)?;
        let from = &mut encoded;
        *from = &from[1..];
        take_int(from)?;
        let flush_type = u32::try_from(take_int(from)?).ok().filter(|flush_type| *flush_type <= 3)?;
        let count = take_int(from)?;
        let mut ops = Vec::new();
        for _ in 0..count {
            ops.push(self.take_op(from)?);
        }
        let page = SparsePage::restored(self, pgno, ops, dbtime, flush_type)?;
        from.is_empty().then_some(page)
    }

    fn take_op(&self, from: &mut &[u8]) -> Option<PageOp> {
        let (kind, rest) = from.split_first()?;
        *from = rest;
        let schema = self.schema();
        let slot = |from: &mut &[u8]| u16::try_from(take_int(from)?).ok();
        let flags = |from: &mut &[u8]| u8::try_from(take_int(from)?).ok().filter(|flags| *flags < 8);
        let pgno = |from: &mut &[u8]| u32::try_from(take_int(from)?).ok();
        Some(match *kind {
            op::INSERT => PageOp::Insert {
                slot: slot(from)?,
                flags: flags(from)?,
                key: take_piece(from).filter(|key| key.len() <= KEY_BYTES_MAX)?.into(),
                data: take_piece(from).filter(|data| !data.is_empty())?.into(),
            },
            op::DELETE => PageOp::Delete { slot: slot(from)? },
            op::REPLACE => PageOp::Replace {
                slot: slot(from)?,
                data: take_piece(from).filter(|data| !data.is_empty())?.into(),
            },
            op::SET_FLAGS => PageOp::SetNodeFlags { slot: slot(from)?, flags: flags(from)? },
            op::SET_PREVIOUS => PageOp::SetPrevious { pgno: pgno(from)? },
            op::SET_NEXT => PageOp::SetNext { pgno: pgno(from)? },
            op::INSERT_ENTRY => {
                let (slot, flags, entry) = (slot(from)?, flags(from)?, take_entry(from)?);
                PageOp::Insert { slot, flags, key: schema.key(entry).into(), data: schema.data(entry) }
            }
            op::REPLACE_ENTRY => PageOp::Replace { slot: slot(from)?, data: schema.data(take_entry(from)?) },
            _ => return None,
        })
    }
}

/// Dbtime of a page that is encoded as edits.
pub(crate) fn edited_dbtime(encoded: &[u8]) -> Option<u64> {
    let (kind, mut rest) = encoded.split_first()?;
    if *kind == KIND_EDITS { take_int(&mut rest) } else { None }
}

fn take_entry(from: &mut &[u8]) -> Option<Entry> {
    let kind = usize::try_from(take_int(from)?).ok()?;
    let id = u32::try_from(take_int(from)?).ok().filter(|id| *id > 0)?;
    let version = u32::try_from(take_int(from)?).ok().filter(|version| *version <= VERSION_MAX)?;
    Entry::of_kind(kind, id, version)
}

fn put_piece(bytes: &[u8], out: &mut Vec<u8>) {
    put_int(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn take_piece<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(take_int(from)?).ok()?;
    let (piece, rest) = from.split_at_checked(len)?;
    *from = rest;
    Some(piece)
}

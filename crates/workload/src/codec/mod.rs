//! Keeps pages of a database in small space: as differences from the template database, entries as (id, version).
//!
//! Used for pages at rest in the simulated world and for the page image in the log.
//!
//! Invariants
//! 1. `decode(index, encode(index, page)) == page` for every page whatsoever: what the encoder recognises only
//!    makes the encoding shorter, since it ends with the difference between the page and what the rest decodes
//!    to.
//! 2. `decode` of anything that is no encoding gives `None`, or some page, and never panics.
//! 3. The encoding depends on the shape alone, so any program that knows the shape can decode a log.
//!
//! Format: a kind byte. 0: the template page as it is. 1: a flag byte, nodes in tag order (see `CodedPiece`),
//! patches. 2: patches on a page of zeros. 3: the template page and what was changed on it, edit by edit (see
//! `template::edits`).
//!
//! Limits: pages of the page size of the shape.

mod find;
mod patch;
mod tags;

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use btree::NodeFunction;
use edb::page::{PageRef, header_bytes, node_flags, page_flags};
use world::{CodecMaker, PageCodec, TemplatePages};

use crate::payload::VERSION_MAX;
use crate::schema::Entry;
use crate::template::edits::{KIND_EDITS, KIND_IMAGE, edited_dbtime};
use crate::template::{TemplateDatabase, is_same_unsealed};
use btree::{put_int, take_int};
use find::Finder;
use patch::{apply_patches, least_plain_bytes, put_patches, put_patches_within};
use tags::{TAG_BYTES, TAG_COUNT, Tag, Tags, put_tag};

const KIND_NODES: u8 = 1;
const KIND_PATCHES: u8 = 2;
/// Flag of an encoding: the page's checksums are right, so they are not stored.
const CHECKSUM_VALID: u8 = 1;

/// Size of an encoding, bytes, above which plain patches are tried. They are smaller for pages whose nodes are not
/// ours.
const LONG_ENCODING_BYTES: usize = 1024;

/// The page codec of one database.
pub struct DatabaseCodec {
    template: Rc<TemplateDatabase>,
    scratch: RefCell<Scratch>,
}

/// Work space: the template page, and the page that pieces build.
#[derive(Default)]
struct Scratch {
    template: Vec<u8>,
    canvas: Vec<u8>,
}

/// Run of nodes whose bytes are known, as a part of an encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CodedPiece {
    /// `count` nodes of the template page from tag `from` on, at the same distances, the first at `at`.
    Template { from: usize, count: usize, at: usize },
    /// `count` entries, each following the last, from `first` on, all with these flags, side by side from `at` on.
    Entries { first: Entry, version: u32, count: usize, flags: u8, at: usize },
    /// A node that is stored with its bytes.
    Raw { tag: Tag },
}

impl DatabaseCodec {
    /// The codec of the database with this template.
    pub fn new(template: Rc<TemplateDatabase>) -> DatabaseCodec {
        DatabaseCodec { template, scratch: RefCell::default() }
    }

    /// Loads the template page, without checksums, which a changed page does not share.
    fn load_template(&self, index: u64, bytes: usize, scratch: &mut Scratch) {
        scratch.template.resize(bytes, 0);
        if index < self.template.pages() {
            self.template.fill_unsealed(index, &mut scratch.template);
        } else {
            scratch.template.fill(0);
        }
    }

    /// Whether `page` equals the loaded template page, checksums included.
    fn is_template(&self, index: u64, page: &[u8], scratch: &mut Scratch) -> bool {
        if !is_same_unsealed(&scratch.template, page) {
            return false;
        }
        self.template.seal(index, &mut scratch.template);
        let same = scratch.template == page;
        if !same {
            self.load_template(index, page.len(), scratch);
        }
        same
    }
}

impl PageCodec for DatabaseCodec {
    fn template_id(&self) -> Option<u64> {
        Some(self.template.id())
    }

    fn elsewhere(&self) -> Option<CodecMaker> {
        let shape = *self.template.schema().shape();
        Some(Box::new(move || {
            let template = TemplateDatabase::new(shape).expect("a template of this shape is there");
            Rc::new(DatabaseCodec::new(Rc::new(template)))
        }))
    }

    fn encode(&self, index: u64, page: &[u8], out: &mut Vec<u8>) {
        let scratch = &mut *self.scratch.borrow_mut();
        self.load_template(index, page.len(), scratch);
        if self.is_template(index, page, scratch) {
            out.push(KIND_IMAGE);
            return;
        }
        let start = out.len();
        let is_sealed = has_valid_checksum(page, pgno_of(index));
        let encoded = self.encode_nodes(index, page, is_sealed, 0..0, scratch, out);
        if encoded.is_none() {
            out.truncate(start);
        }
        if encoded.is_none() || may_be_plain(page, 0..0, out.len() - start) {
            put_plain_if_shorter(page, start, scratch, out);
        }
    }

    fn encode_pristine(&self, index: u64, out: &mut Vec<u8>) -> bool {
        let is_known = index < self.template.pages();
        if is_known {
            out.push(KIND_IMAGE);
        }
        is_known
    }

    fn encode_unsealed(&self, index: u64, page: &[u8], unused: Range<usize>, out: &mut Vec<u8>) -> bool {
        if PageRef::new(page).flags() & page_flags::NEW_CHECKSUM == 0 {
            return false;
        }
        let scratch = &mut *self.scratch.borrow_mut();
        self.load_template(index, page.len(), scratch);
        if is_same_unsealed(&scratch.template, page) {
            out.push(KIND_IMAGE);
            return true;
        }
        let start = out.len();
        if self.encode_nodes(index, page, true, unused.clone(), scratch, out).is_none() {
            out.truncate(start);
            return false;
        }
        if may_be_plain(page, unused.clone(), out.len() - start) {
            let mut sealed = page.to_vec();
            sealed[unused].fill(0);
            edb::checksum::stamp(&mut sealed, pgno_of(index));
            put_plain_if_shorter(&sealed, start, scratch, out);
        }
        true
    }

    fn edited_version(&self, encoded: &[u8]) -> Option<u64> {
        edited_dbtime(encoded)
    }

    fn decode(&self, index: u64, encoded: &[u8], page: &mut [u8]) -> Option<()> {
        if self.decode_nodes_or_all(index, encoded, page)? == Sums::Missing {
            edb::checksum::stamp(page, pgno_of(index));
        }
        Some(())
    }

    fn decode_unsealed(&self, index: u64, encoded: &[u8], page: &mut [u8]) -> Option<()> {
        self.decode_nodes_or_all(index, encoded, page).map(|_| ())
    }
}

/// What becomes of the checksums when a page is decoded.
#[derive(PartialEq, Eq)]
enum Sums {
    Restored,
    /// The checksums must be computed.
    Missing,
}

fn pgno_of(index: u64) -> u32 {
    index.wrapping_sub(1) as u32
}

impl DatabaseCodec {
    fn decode_nodes_or_all(&self, index: u64, encoded: &[u8], page: &mut [u8]) -> Option<Sums> {
        if page.len() != self.template.page_bytes() {
            return None;
        }
        let (kind, mut rest) = encoded.split_first()?;
        if *kind == KIND_PATCHES {
            page.fill(0);
            return apply_patches(rest, page).map(|()| Sums::Restored);
        }
        if *kind == KIND_EDITS {
            self.template.clone().decode(pgno_of(index), encoded)?.fill(page);
            return Some(Sums::Missing);
        }
        if *kind == KIND_IMAGE {
            if index < self.template.pages() {
                self.template.fill(index, page);
            } else {
                page.fill(0);
            }
            return rest.is_empty().then_some(Sums::Restored);
        }
        let scratch = &mut *self.scratch.borrow_mut();
        self.load_template(index, page.len(), scratch);
        page.copy_from_slice(&scratch.template);
        match *kind {
            KIND_NODES => {
                let (flags, after) = rest.split_first()?;
                rest = after;
                let mut painter = Painter::new(self, &scratch.template, page, Vec::new());
                for _ in 0..take_int(&mut rest)? {
                    let piece = painter.take_piece(&mut rest)?;
                    painter.paint(piece)?;
                    if let CodedPiece::Raw { tag } = piece {
                        let (bytes, after) = rest.split_at_checked(tag.len)?;
                        painter.page[tag.body()].copy_from_slice(bytes);
                        rest = after;
                    }
                }
                painter.finish()?;
                apply_patches(rest, page)?;
                match flags & CHECKSUM_VALID != 0 {
                    true if PageRef::new(page).flags() & page_flags::NEW_CHECKSUM == 0 => None,
                    true => Some(Sums::Missing),
                    false => Some(Sums::Restored),
                }
            }
            _ => None,
        }
    }

    /// Encodes a page by its nodes; `None` if it is so damaged that its nodes cannot be described. `is_sealed`: its
    /// checksums are right, or will be computed when it is decoded. Bytes at `unused` need not be restored.
    fn encode_nodes(
        &self,
        index: u64,
        page: &[u8],
        is_sealed: bool,
        unused: Range<usize>,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let Scratch { template, canvas } = scratch;
        let (pieces, settled) = Finder::new(self, pgno_of(index), template, page).pieces();
        // Where the page was found to be the template nothing is painted, and nothing is compared once more.
        canvas.resize(page.len(), 0);
        let starts = std::iter::once(0).chain(settled.iter().map(|range| range.end));
        let ends = settled.iter().map(|range| range.start).chain(std::iter::once(page.len()));
        starts.zip(ends).for_each(|(start, end)| canvas[start..end].copy_from_slice(&template[start..end]));
        out.push(KIND_NODES);
        let flags_at = out.len();
        out.push(0);
        put_int(out, pieces.len() as u64);
        let mut painter = Painter::new(self, template, canvas, settled);
        for piece in pieces {
            painter.put_piece(piece, out);
            painter.paint(piece)?;
            if let CodedPiece::Raw { tag } = piece {
                out.extend_from_slice(&page[tag.body()]);
                painter.page[tag.body()].copy_from_slice(&page[tag.body()]);
            }
        }
        let settled = painter.finish()?;
        if is_sealed {
            out[flags_at] = CHECKSUM_VALID;
            for (place, _) in checksum_places(page) {
                canvas[place..place + 8].copy_from_slice(&page[place..place + 8]);
            }
        }
        canvas[unused.clone()].copy_from_slice(&page[unused]);
        put_patches(canvas, page, &settled, out);
        Some(())
    }
}

impl DatabaseCodec {
    /// Entry that usually follows another one, also on pages that a split made from template pages.
    fn successor(&self, entry: Entry, version: u32) -> Option<Entry> {
        Some(match entry {
            Entry::Row { id, .. } => Entry::Row { id: id.checked_add(1)?, version },
            Entry::Folder { id, .. } => Entry::Folder { id: id.checked_add(1)?, version },
            Entry::BodyRoot { id } => Entry::Body { id, version },
            Entry::Body { id, .. } => Entry::BodyRoot { id: id.checked_add(1)? },
            Entry::Conversation { id } => {
                let places = self.template.schema().places();
                Entry::Conversation { id: places.ids_from_rank(places.initial_rank(id)? + 1).next()? }
            }
        })
    }
}

/// Whether plain patches could be shorter than `encoded_bytes` for a page with zeros at `unused`.
fn may_be_plain(page: &[u8], unused: Range<usize>, encoded_bytes: usize) -> bool {
    // Not the header: its checksums may be other ones.
    let parts =
        [header_bytes(page.len())..unused.start, unused.end.max(header_bytes(page.len()))..page.len()];
    let parts = parts.into_iter().filter_map(|part| page.get(part));
    encoded_bytes > LONG_ENCODING_BYTES
        && parts.map(|part| least_plain_bytes(part, encoded_bytes)).sum::<usize>() < encoded_bytes
}

/// Replaces everything appended since `start` by plain patches, if nothing was appended or the patches are shorter.
fn put_plain_if_shorter(page: &[u8], start: usize, scratch: &mut Scratch, out: &mut Vec<u8>) {
    let mut plain = vec![KIND_PATCHES];
    scratch.canvas.clear();
    scratch.canvas.resize(page.len(), 0);
    let limit_bytes = if out.len() == start { usize::MAX } else { out.len() - start };
    if put_patches_within(&scratch.canvas, page, &[], limit_bytes, &mut plain).is_some() {
        out.truncate(start);
        out.extend_from_slice(&plain);
    }
}

/// Ranges of a page that hold its checksums, and their bytes.
fn checksum_places(page: &[u8]) -> impl Iterator<Item = (usize, u64)> + '_ {
    let places: &[usize] = if page.len() <= 8192 { &[0] } else { &[0, 40, 48, 56] };
    places.iter().filter_map(|at| Some((*at, u64::from_le_bytes(*page[*at..].first_chunk()?))))
}

/// Whether the page's checksums are right.
fn has_valid_checksum(page: &[u8], pgno: u32) -> bool {
    let sums = edb::checksum::page_sums(page, pgno);
    PageRef::new(page).flags() & page_flags::NEW_CHECKSUM != 0
        && checksum_places(page).zip(sums).all(|((_, stored), sum)| stored == sum)
}

impl CodedPiece {
    /// Number of nodes that the piece describes.
    fn count(&self) -> usize {
        match self {
            CodedPiece::Template { count, .. } | CodedPiece::Entries { count, .. } => *count,
            CodedPiece::Raw { .. } => 1,
        }
    }
}

/// Codes of the pieces in an encoding.
mod op {
    /// Template nodes at their places in the template: from, count.
    pub const IMAGE_IN_PLACE: u64 = 0;
    /// Template nodes at other places: place, from, count.
    pub const IMAGE_MOVED: u64 = 1;
    /// Bytes of a node: place, length, extra bits; the bytes follow.
    pub const RAW: u64 = 2;
    /// Entries: place, id, version, count, flags. The kind of the first entry is added to the code.
    pub const ENTRIES: u64 = 3;
}

/// Maps a signed number to an unsigned one that is small if the number is near zero.
fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Builds a page from pieces. Encoder and decoder share it, so both get the same bytes.
struct Painter<'a> {
    codec: &'a DatabaseCodec,
    template: &'a [u8],
    template_tags: Tags<'a>,
    page: &'a mut [u8],
    /// Ranges in which the page does not hold the template although the encoding assumes it, because nothing reads
    /// there; ascending.
    settled: Vec<Range<usize>>,
    tags: usize,
    used_bytes: usize,
    /// End of the node body that was written last.
    end: usize,
    /// Highest end of any node body.
    top: usize,
}

impl<'a> Painter<'a> {
    /// Starts with a page that holds the template, except in the ranges `settled`.
    fn new(
        codec: &'a DatabaseCodec,
        template: &'a [u8],
        page: &'a mut [u8],
        settled: Vec<Range<usize>>,
    ) -> Painter<'a> {
        let start = header_bytes(template.len());
        let template_tags = Tags::of(template);
        Painter {
            codec,
            template,
            template_tags,
            page,
            settled,
            tags: 0,
            used_bytes: 0,
            end: start,
            top: start,
        }
    }

    /// Range of the page to write to, with the template's bytes until something else is written. Overlapping node
    /// bodies are possible on a damaged page.
    fn canvas(&mut self, range: Range<usize>) -> Option<&mut [u8]> {
        let first = self.settled.partition_point(|settled| settled.end <= range.start);
        let end = first + self.settled[first..].partition_point(|settled| settled.start < range.end);
        if let touched @ [before, .., behind] | touched @ [before @ behind] = &self.settled[first..end] {
            for settled in touched {
                let open = settled.start.max(range.start)..settled.end.min(range.end);
                self.page[open.clone()].copy_from_slice(&self.template[open]);
            }
            let rest = [before.start..range.start, range.end..behind.end];
            self.settled.splice(first..end, rest.into_iter().filter(|rest| !rest.is_empty()));
        }
        self.page.get_mut(range)
    }

    fn paint(&mut self, piece: CodedPiece) -> Option<()> {
        match piece {
            CodedPiece::Template { from, count, at } => {
                let first = self.template_tags.get(from)?;
                if first.start == at {
                    return self.add_template_tags(from, count);
                }
                self.template_tags.run(from, count)?;
                for tag in self.template_tags.iter(from, count) {
                    let start = (tag.start + at).checked_sub(first.start)?;
                    let moved = Tag { start, ..tag };
                    let template = self.template;
                    self.canvas(moved.body())?.copy_from_slice(&template[tag.body()]);
                    self.add_tag(moved)?;
                }
            }
            CodedPiece::Entries { first, version, count, flags, at } => {
                let prefix = self.prefix();
                let (mut entry, mut at) = (first, at);
                for left in (0..count).rev() {
                    let tag = self.paint_entry(entry, flags, at, &prefix)?;
                    at = tag.start + tag.len;
                    self.add_tag(tag)?;
                    if left > 0 {
                        entry = self.codec.successor(entry, version)?;
                    }
                }
            }
            CodedPiece::Raw { tag } => {
                self.canvas(tag.body())?;
                self.add_tag(tag)?;
            }
        }
        Some(())
    }

    fn paint_entry(&mut self, entry: Entry, flags: u8, at: usize, prefix: &[u8]) -> Option<Tag> {
        let schema = self.codec.template.schema();
        let key = schema.key(entry);
        let shared = prefix.iter().zip(&*key).take_while(|(a, b)| a == b).count();
        let taken = if shared > 2 { shared } else { 0 };
        let flags = flags | if taken > 0 { node_flags::COMPRESSED } else { 0 };
        let small = self.page.len() <= 8192;
        let body_flags = if small { 0 } else { u16::from(flags) << 13 };
        let head = if taken > 0 { 4 } else { 2 };
        let len = head + key.len() - taken + entry.data_bytes();
        let tag = Tag { start: at, len, extra: if small { u32::from(flags) << 29 } else { 0 } };
        let body = self.canvas(tag.body())?;
        let suffix = (key.len() - taken) as u16;
        if taken > 0 {
            body[..2].copy_from_slice(&(taken as u16 | body_flags).to_le_bytes());
            body[2..4].copy_from_slice(&suffix.to_le_bytes());
        } else {
            body[..2].copy_from_slice(&(suffix | body_flags).to_le_bytes());
        }
        let (key_bytes, data) = body[head..].split_at_mut(usize::from(suffix));
        key_bytes.copy_from_slice(&key[taken..]);
        schema.write_data(entry, data);
        Some(tag)
    }

    /// Encodes a piece. Places are stored as distances from the end of the last piece.
    fn put_piece(&self, piece: CodedPiece, out: &mut Vec<u8>) {
        let place = |at: usize| zigzag(at as i64 - self.end as i64);
        let numbers: &[u64] = match piece {
            CodedPiece::Template { from, count, at }
                if self.template_tags.get(from).is_some_and(|tag| tag.start == at) =>
            {
                &[op::IMAGE_IN_PLACE, from as u64, count as u64]
            }
            CodedPiece::Template { from, count, at } => {
                &[op::IMAGE_MOVED, place(at), from as u64, count as u64]
            }
            CodedPiece::Raw { tag } => {
                &[op::RAW, place(tag.start), tag.len as u64, u64::from(tag.extra.rotate_left(3))]
            }
            CodedPiece::Entries { first, version, count, flags, at } => {
                let (kind, id) = (first.kind() as u64, u64::from(first.id()));
                &[op::ENTRIES + kind, place(at), id, u64::from(version), count as u64, u64::from(flags)]
            }
        };
        numbers.iter().for_each(|number| put_int(out, *number));
    }

    /// Decodes a piece, without the bytes of a raw node.
    fn take_piece(&self, from: &mut &[u8]) -> Option<CodedPiece> {
        let op = take_int(from)?;
        let mut size = || usize::try_from(take_int(from)?).ok();
        if op == op::IMAGE_IN_PLACE {
            let (from, count) = (size()?, size()?);
            return Some(CodedPiece::Template { from, count, at: self.template_tags.get(from)?.start });
        }
        let at = usize::try_from(self.end as i64 + unzigzag(size()? as u64) % (1 << 32)).ok()?;
        match op {
            op::IMAGE_MOVED => Some(CodedPiece::Template { from: size()?, count: size()?, at }),
            op::RAW => {
                let (len, extra) = (size()?, u32::try_from(size()?).ok()?.rotate_right(3));
                (len <= self.page.len()).then_some(CodedPiece::Raw { tag: Tag { start: at, len, extra } })
            }
            _ => {
                let id = u32::try_from(size()?).ok().filter(|id| *id > 0)?;
                let version = u32::try_from(size()?).ok().filter(|version| *version <= VERSION_MAX)?;
                let first = Entry::of_kind(usize::try_from(op - op::ENTRIES).ok()?, id, version)?;
                let (count, flags) = (size()?, u8::try_from(size()?).ok().filter(|flags| *flags < 8)?);
                Some(CodedPiece::Entries { first, version, count, flags, at })
            }
        }
    }

    /// Prefix of compressed keys, once tag 0 is written. Among pages with our entries only leaves below the root have
    /// one.
    fn prefix(&mut self) -> Vec<u8> {
        let Some(place) = prefix_place(self.page, self.tags) else { return Vec::new() };
        self.canvas(place).map_or_else(Vec::new, |prefix| prefix.to_vec())
    }

    /// Adds the tags of nodes that are at their places in the template; `from` is the first one's.
    fn add_template_tags(&mut self, from: usize, count: usize) -> Option<()> {
        let (words, extent) = (self.template_tags.run(from, count)?, self.template_tags.extent(from, count)?);
        let end = self.page.len().checked_sub(TAG_BYTES * self.tags)?;
        self.page[end.checked_sub(TAG_BYTES * count)?..end].copy_from_slice(words.as_flattened());
        self.tags += count;
        self.used_bytes += extent.used_bytes;
        self.end = extent.end;
        self.top = self.top.max(extent.top);
        Some(())
    }

    fn add_tag(&mut self, tag: Tag) -> Option<()> {
        put_tag(self.page, self.tags, tag)?;
        self.tags += 1;
        self.used_bytes += tag.len;
        self.end = tag.start + tag.len;
        self.top = self.top.max(self.end);
        Some(())
    }

    /// Sets the header fields that follow from the tags; a wrong guess costs only a patch. Returns the ranges that are
    /// still not written.
    fn finish(self) -> Option<Vec<Range<usize>>> {
        let data = header_bytes(self.page.len());
        let free = (self.page.len() - data).checked_sub(self.used_bytes + TAG_BYTES * self.tags)?;
        self.page[28..30].copy_from_slice(&(free as u16).to_le_bytes());
        self.page[32..34].copy_from_slice(&((self.top - data) as u16).to_le_bytes());
        self.page[TAG_COUNT..TAG_COUNT + 2].copy_from_slice(&(self.tags as u16).to_le_bytes());
        Some(self.settled)
    }
}

/// Range of the prefix of a page's compressed keys, given that `painted` of its tags are set.
fn prefix_place(page: &[u8], painted: usize) -> Option<Range<usize>> {
    if painted == 0 || PageRef::new(page).is_root() {
        return None;
    }
    let at = page.len() - TAG_BYTES;
    let word = u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
    let start = header_bytes(page.len()) + (word >> 16 & 0x7FFF) as usize;
    Some(start..start + (word & 0x7FFF) as usize)
}

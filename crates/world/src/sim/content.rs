//! The contents of one simulated file: what is durable, and what was changed since.
//!
//! A file is a map of *units*: 4 KiB blocks, or whole pages once a template was adopted. A unit that is not in the map
//! costs nothing and reads as its template page or as zeros; so a copy of a database costs as little as the database.
//!
//! Invariants
//! 1. Reads see every completed change at once; only [`Contents::sync`] moves changes to the durable layer.
//! 2. A sync covers exactly the changes that were complete when it was issued.
//! 3. After a power cut each sector of a write that was not synced is old or new by the dice, also if a fault hit its
//!    neighbours; the size is old or new independently of the data; synced data never change.
//! 4. New space that nothing was written to may show stale bytes after a power cut, never before.
//! 5. A unit kept in encoded form decodes to the very bytes written (checked in debug builds).
//!
//! Limits: writes are kept one by one until they are synced; stale bytes are made for the first
//! [`STALE_BYTES_MAX`] of new space, the rest reads as zeros.

mod layers;
mod units;

use std::collections::VecDeque;
use std::rc::Rc;

pub(super) use layers::Change;
use layers::{Layer, Overlay, PartData, WritePart, WriteParts};
use units::{Format, Unit, copy_padded};

use super::power_cut::{Dice, WriteOutcome};
use crate::{Bufs, PageBuf, PageCodec, SECTOR_BYTES, TemplatePages};

/// Largest amount of stale bytes per file and power cut.
pub(super) const STALE_BYTES_MAX: u64 = 1 << 20;

/// Contents of one file: durable layer, overlay, pending changes.
pub(super) struct Contents {
    format: Format,
    durable: Layer,
    overlay: Overlay,
    /// Numbered changes that no sync has covered yet, in order.
    pending: VecDeque<(u64, Change)>,
    next_change: u64,
    /// Whether some visible changes can never become durable, because a sync failed.
    clean_but_lost: bool,
}

impl Contents {
    /// An empty file.
    pub fn new() -> Contents {
        let durable = Layer::empty(0);
        Contents {
            format: Format { unit_bytes: SECTOR_BYTES, template: None },
            overlay: Overlay::over(&durable),
            durable,
            pending: VecDeque::new(),
            next_change: 0,
            clean_but_lost: false,
        }
    }

    /// Replaces the contents by the template, durably.
    pub fn adopt(&mut self, template: Rc<dyn TemplatePages>, codec: Rc<dyn PageCodec>) {
        let (unit_bytes, pages) = (template.page_bytes(), template.pages());
        let mut durable = Layer::empty(pages * unit_bytes as u64);
        durable.templates.insert(0..pages);
        *self = Contents {
            format: Format { unit_bytes, template: Some((template, codec)) },
            overlay: Overlay::over(&durable),
            durable,
            pending: VecDeque::new(),
            next_change: self.next_change,
            clean_but_lost: false,
        };
    }

    /// Stores pages in the encoding of `like`, whose pages they will be. Only before the first write.
    pub fn keep_like(&mut self, like: &Contents) {
        let is_new = self.durable.size == 0 && self.durable.units.is_empty() && self.pending.is_empty();
        if is_new {
            self.format = like.format.clone();
        }
    }

    /// Size of the file as programs see it, bytes.
    pub fn size(&self) -> u64 {
        self.overlay.layer.size
    }

    /// Size of the unit in which misdirected writes move, bytes.
    pub fn unit_bytes(&self) -> u64 {
        self.format.unit_bytes as u64
    }

    /// Reads consecutive bytes into buffers. The caller has checked that they lie in the file.
    pub fn read(&self, offset: u64, bufs: &mut Bufs) {
        let unit_bytes = self.format.unit_bytes;
        let mut at = offset;
        for buf in bufs {
            let len = buf.len();
            let (index, start) = (at / unit_bytes as u64, (at % unit_bytes as u64) as usize);
            at += len as u64;
            if start == 0 && len == unit_bytes {
                let unit = self.overlay.unit(&self.durable, index);
                match self.format.without_bytes(index, &unit) {
                    Some(page) => *buf = page,
                    None => self.format.decode(index, &unit, buf.as_read_target()),
                }
                continue;
            }
            self.read_pieces(index, start, buf.as_read_target());
        }
    }

    fn read_pieces(&self, mut index: u64, mut start: usize, mut out: &mut [u8]) {
        while !out.is_empty() {
            let here = out.len().min(self.format.unit_bytes - start);
            let (now, later) = out.split_at_mut(here);
            match self.overlay.unit(&self.durable, index) {
                Unit::Zero => now.fill(0),
                Unit::Raw(bytes) => copy_padded(bytes.get(start..).unwrap_or_default(), now),
                unit if here == self.format.unit_bytes => self.format.decode(index, &unit, now),
                unit => now.copy_from_slice(&self.format.decoded(index, &unit)[start..start + here]),
            }
            (index, start, out) = (index + 1, 0, later);
        }
    }

    /// Change that a write of `bufs` at `offset` makes.
    pub fn write_change(&self, offset: u64, bufs: &[PageBuf]) -> Change {
        let bytes = bufs.iter().map(|buf| buf.len() as u64).sum::<u64>();
        let unit_bytes = self.format.unit_bytes;
        let mut parts = WriteParts::new();
        let mut at = offset;
        for buf in bufs {
            let (mut index, mut start) = (at / unit_bytes as u64, (at % unit_bytes as u64) as usize);
            at += buf.len() as u64;
            let whole = start == 0 && buf.len() == unit_bytes;
            if let Some(unit) = if whole { self.format.unit_without_bytes(index, buf) } else { None } {
                match (&unit, parts.last_mut()) {
                    (Unit::Template, Some(WritePart { index: first, data: PartData::Images(count), .. }))
                        if *first + *count == index =>
                    {
                        *count += 1;
                    }
                    (Unit::Template, _) => parts.push(WritePart { index, start, data: PartData::Images(1) }),
                    _ => parts.push(WritePart { index, start, data: PartData::Whole(unit) }),
                }
                continue;
            }
            if start == 0 && buf.is_untouched() && buf.len().is_multiple_of(unit_bytes) {
                let units = index..index + (buf.len() / unit_bytes) as u64;
                parts.extend(units.map(|index| WritePart {
                    index,
                    start,
                    data: PartData::Whole(Unit::Zero),
                }));
                continue;
            }
            let mut rest = buf.as_slice();
            while !rest.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(unit_bytes - start));
                let data = if now.len() == unit_bytes {
                    PartData::Whole(self.format.encode(index, now))
                } else {
                    PartData::Piece(now.into())
                };
                parts.push(WritePart { index, start, data });
                (index, start, rest) = (index + 1, 0, later);
            }
        }
        let end = offset + bytes;
        let grows_to = if end > self.size() { Some(end) } else { None };
        Change::Write { offset, bytes, parts, grows_to }
    }

    /// Packs a page in memory, if its codec can.
    pub fn pack(&self, index: u64, page: &mut PageBuf) {
        page.forget_bytes();
        let Some((_, codec)) = &self.format.template else { return };
        if !page.is_bytes() || page.len() != self.format.unit_bytes {
            return;
        }
        let mut encoded = Vec::new();
        if codec.encode_unsealed(index, page.as_unsealed_slice(), 0..0, &mut encoded)
            && encoded.len() < page.len() / 2
        {
            *page = PageBuf::encoded_by(codec.clone(), index, encoded.into(), page.len());
        }
    }

    /// Applies a completed change: it is visible from now on and waits for a sync.
    pub fn apply(&mut self, change: Change) {
        self.overlay.apply(&self.format, &self.durable, &change);
        self.pending.push_back((self.next_change, change));
        self.next_change += 1;
    }

    /// Applies a part of a failed write, by its outcome.
    pub fn apply_failed_write(&mut self, change: Change, outcome: &WriteOutcome) {
        let change = self.resolve(change, outcome, |index| self.overlay.unit(&self.durable, index));
        self.apply(change);
    }

    /// Reduces a write to its outcome: the units that it did not reach keep `old`. Its effect on the size stays.
    fn resolve(&self, change: Change, outcome: &WriteOutcome, old: impl Fn(u64) -> Unit) -> Change {
        let Change::Write { offset, bytes, parts, grows_to } = change else { return change };
        let parts = match outcome {
            WriteOutcome::Lost => WriteParts::new(),
            WriteOutcome::Kept => parts,
            WriteOutcome::Torn { sectors, sector_bytes } => {
                let torn = parts.iter().flat_map(WritePart::units).map(|part| {
                    let at = part.index * self.unit_bytes() + part.start as u64 - offset;
                    self.tear(&part, &sectors[at as usize / sector_bytes..], *sector_bytes, old(part.index))
                });
                torn.collect()
            }
        };
        Change::Write { offset, bytes, parts, grows_to }
    }

    fn tear(&self, part: &WritePart, is_new: &[bool], sector_bytes: usize, old: Unit) -> WritePart {
        let new = match &part.data {
            PartData::Whole(unit) => self.format.decoded(part.index, unit),
            PartData::Images(_) => self.format.decoded(part.index, &Unit::Template),
            PartData::Piece(piece) => piece.to_vec(),
        };
        let mut mixed = self.format.decoded(part.index, &old);
        let mixed = &mut mixed[part.start..part.start + new.len()];
        let sectors = mixed.chunks_mut(sector_bytes).zip(new.chunks(sector_bytes)).zip(is_new);
        sectors.filter(|(_, is_new)| **is_new).for_each(|((old, new), _)| old.copy_from_slice(new));
        let data = match part.data {
            PartData::Piece(_) => PartData::Piece((&*mixed).into()),
            PartData::Whole(_) | PartData::Images(_) => {
                PartData::Whole(self.format.encode(part.index, mixed))
            }
        };
        WritePart { index: part.index, start: part.start, data }
    }

    /// Grows or cuts the file.
    pub fn set_size(&mut self, bytes: u64) {
        self.apply(Change::Resize { bytes });
    }

    /// Number to pass to [`Self::sync`], which covers everything complete by now.
    pub fn sync_mark(&self) -> u64 {
        self.next_change
    }

    /// Makes the changes before `mark` durable.
    pub fn sync(&mut self, mark: u64) {
        while let Some((_, change)) = self.pending.pop_front_if(|(number, _)| *number < mark) {
            self.durable.apply(&self.format, &change);
        }
        self.rebuild_overlay();
    }

    /// Handles a failed sync: random choices keep or drop each pending change, and all count as clean.
    pub fn fail_sync(&mut self, mark: u64, dice: &mut Dice) {
        while let Some((_, change)) = self.pending.pop_front_if(|(number, _)| *number < mark) {
            if dice.survives_failed_sync() {
                self.durable.apply(&self.format, &change);
            } else {
                self.clean_but_lost = true;
            }
        }
        self.rebuild_overlay();
    }

    fn rebuild_overlay(&mut self) {
        if self.clean_but_lost {
            return;
        }
        self.overlay.reset(&self.durable);
        for (_, change) in &self.pending {
            self.overlay.apply(&self.format, &self.durable, change);
        }
    }

    /// Flips one bit on the medium, and in the visible contents that come from there.
    pub fn flip_bit(&mut self, byte: u64, bit: u32) {
        let unit_bytes = self.format.unit_bytes as u64;
        let (index, start) = (byte / unit_bytes, (byte % unit_bytes) as usize);
        let flip = |unit: &Unit, format: &Format| {
            let mut bytes = format.decoded(index, unit);
            bytes[start] ^= 1 << (bit % 8);
            format.encode(index, &bytes)
        };
        let rotten = flip(&self.durable.unit(index), &self.format);
        self.durable.units.insert(index, rotten);
        if self.overlay.layer.has(index) {
            let rotten = flip(&self.overlay.layer.unit(index), &self.format);
            self.overlay.layer.units.insert(index, rotten);
        }
    }

    /// Random blocks of the durable contents, as stale bytes of later files.
    pub fn leftovers(&self, blocks_max: usize) -> Vec<Rc<[u8]>> {
        let mut indices: Vec<u64> = self.durable.units.keys().copied().collect();
        indices.sort_unstable();
        indices.truncate(blocks_max);
        let blocks = indices.into_iter().filter_map(|index| match self.durable.units.get(&index) {
            Some(unit @ (Unit::Raw(_) | Unit::Encoded(_))) => {
                Some(self.format.decoded(index, unit)[..SECTOR_BYTES].into())
            }
            _ => None,
        });
        blocks.collect()
    }

    /// Handles a power cut: random choices keep, tear or drop what was not synced and the writes in flight.
    pub fn power_cut(&mut self, in_flight: Vec<Change>, dice: &mut Dice) {
        let pending = std::mem::take(&mut self.pending).into_iter().map(|(_, change)| change);
        let changes: Vec<Change> = pending.chain(in_flight).collect();
        let old_size = self.durable.size;
        let mut size = old_size;
        let mut resized = Vec::with_capacity(changes.len());
        for change in &changes {
            let wanted = match change {
                Change::Write { grows_to, .. } => grows_to.map(|end| end.max(size)),
                Change::Resize { bytes } => Some(*bytes),
            };
            let kept = wanted.is_some_and(|wanted| wanted != size && dice.keeps_size());
            size = wanted.filter(|_| kept).unwrap_or(size);
            resized.push(kept);
        }
        self.fill_with_stale_bytes(old_size, size, dice);
        for (change, resized) in changes.into_iter().zip(resized) {
            match change {
                Change::Resize { bytes } if resized => self.durable.truncate(&self.format, bytes),
                Change::Resize { .. } => {}
                Change::Write { bytes, .. } => {
                    let outcome = dice.outcome(bytes);
                    let Change::Write { parts, .. } =
                        self.resolve(change, &outcome, |index| self.durable.unit(index))
                    else {
                        continue;
                    };
                    parts.iter().for_each(|part| self.durable.write(&self.format, part));
                }
            }
        }
        self.durable.size = size;
        self.durable.truncate(&self.format, size);
        self.clean_but_lost = false;
        self.overlay = Overlay::over(&self.durable);
    }

    fn fill_with_stale_bytes(&mut self, old_size: u64, size: u64, dice: &mut Dice) {
        let end = size.min(old_size + STALE_BYTES_MAX);
        let unit_bytes = self.format.unit_bytes as u64;
        let mut at = old_size;
        while at < end {
            if let Some(block) = dice.stale_block() {
                let (index, start) = (at / unit_bytes, (at % unit_bytes) as usize);
                let part = WritePart { index, start, data: PartData::Piece(block) };
                self.durable.write(&self.format, &part);
            }
            at += SECTOR_BYTES as u64;
        }
    }
}

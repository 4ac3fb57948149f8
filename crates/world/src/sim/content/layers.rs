//! Changes of a file, and units by index: the durable ones, and what hides them since.

use std::rc::Rc;

use smallvec::SmallVec;

use super::units::{Format, Unit};
use crate::fixed_hash::NeighbourMap;
use crate::sim::runs::Runs;

/// Part of a write in one unit.
#[derive(Clone)]
pub(in crate::sim) struct WritePart {
    pub(super) index: u64,
    /// Offset of the part in the unit; 0 for a whole unit.
    pub(super) start: usize,
    pub(super) data: PartData,
}

#[derive(Clone)]
pub(in crate::sim) enum PartData {
    Whole(Unit),
    Piece(Rc<[u8]>),
    /// Number of template pages in a row.
    Images(u64),
}

impl WritePart {
    /// Splits the part into one for each unit.
    pub(super) fn units(&self) -> impl Iterator<Item = WritePart> {
        let count = if let PartData::Images(count) = self.data { count } else { 1 };
        let data = if count > 1 { PartData::Images(1) } else { self.data.clone() };
        let (first, start) = (self.index, self.start);
        (first..first + count).map(move |index| WritePart { index, start, data: data.clone() })
    }
}

/// Parts of a write.
pub(in crate::sim) type WriteParts = SmallVec<[WritePart; 1]>;

/// Change of one file, which can be replayed on the durable layer.
pub(in crate::sim) enum Change {
    Write { offset: u64, bytes: u64, parts: WriteParts, grows_to: Option<u64> },
    Resize { bytes: u64 },
}

impl Change {
    /// Same change without data: only its effect on the size.
    pub fn without_data(self) -> Change {
        match self {
            Change::Write { offset, bytes, grows_to, .. } => {
                Change::Write { offset, bytes, parts: WriteParts::new(), grows_to }
            }
            resize => resize,
        }
    }
}

/// Layer of a file: units by index over a base of template pages and zeros.
pub(in crate::sim) struct Layer {
    pub(super) units: NeighbourMap<Unit>,
    /// Ranges that hold the bytes of the template file, except where `units` holds others.
    pub(super) templates: Runs,
    pub(super) size: u64,
}

impl Layer {
    pub(super) fn empty(size: u64) -> Layer {
        Layer { units: NeighbourMap::default(), templates: Runs::default(), size }
    }

    pub(super) fn unit(&self, index: u64) -> Unit {
        match self.units.get(&index) {
            Some(unit) => unit.clone(),
            None if self.templates.contains(index) => Unit::Template,
            None => Unit::Zero,
        }
    }

    /// Whether this unit was written.
    pub(super) fn has(&self, index: u64) -> bool {
        self.units.contains_key(&index) || self.templates.contains(index)
    }

    pub(super) fn write(&mut self, format: &Format, part: &WritePart) {
        let unit = match &part.data {
            PartData::Images(count) => {
                let run = part.index..part.index + count;
                if !self.units.is_empty() {
                    run.clone().for_each(|index| drop(self.units.remove(&index)));
                }
                return self.templates.insert(run);
            }
            PartData::Whole(unit) => unit.clone(),
            PartData::Piece(piece) => {
                let mut bytes = format.decoded(part.index, &self.unit(part.index));
                bytes[part.start..part.start + piece.len()].copy_from_slice(piece);
                format.encode(part.index, &bytes)
            }
        };
        self.units.insert(part.index, unit);
    }

    /// Makes bytes from `size` on zero.
    pub(super) fn truncate(&mut self, format: &Format, size: u64) {
        let unit_bytes = format.unit_bytes as u64;
        let (whole, rest) = (size / unit_bytes, (size % unit_bytes) as usize);
        if rest > 0 {
            let unit = self.unit(whole);
            if !matches!(unit, Unit::Zero) {
                let mut bytes = format.decoded(whole, &unit);
                bytes[rest..].fill(0);
                self.units.insert(whole, format.encode(whole, &bytes));
            }
        }
        let keep = whole + u64::from(rest > 0);
        if !self.units.is_empty() {
            self.units.retain(|index, _| *index < keep);
        }
        self.templates.truncate(whole);
    }

    pub(super) fn apply(&mut self, format: &Format, change: &Change) {
        match change {
            Change::Write { parts, grows_to, .. } => {
                parts.iter().for_each(|part| self.write(format, part));
                self.size = grows_to.map_or(self.size, |size| size.max(self.size));
            }
            Change::Resize { bytes } => {
                if *bytes < self.size {
                    self.truncate(format, *bytes);
                }
                self.size = *bytes;
            }
        }
    }
}

/// Number of units above which a sync frees the layer's memory.
const UNITS_KEPT_MAX: usize = 256;

/// Overlay of changes over the durable layer.
pub(in crate::sim) struct Overlay {
    pub(super) layer: Layer,
    /// First unit from which nothing of the durable layer is visible.
    pub(super) hides_from: u64,
}

impl Overlay {
    pub(super) fn over(durable: &Layer) -> Overlay {
        let layer = Layer::empty(durable.size);
        Overlay { layer, hides_from: u64::MAX }
    }

    /// Empties the overlay, as [`Self::over`]. Memory for few units is kept, because a log is synced after every
    /// write.
    pub(super) fn reset(&mut self, durable: &Layer) {
        let mut units = std::mem::take(&mut self.layer.units);
        *self = Overlay::over(durable);
        if units.capacity() <= UNITS_KEPT_MAX {
            units.clear();
            self.layer.units = units;
        }
    }

    pub(super) fn unit(&self, durable: &Layer, index: u64) -> Unit {
        match self.layer.units.get(&index) {
            Some(unit) => unit.clone(),
            None if self.layer.templates.contains(index) => Unit::Template,
            None if index >= self.hides_from => Unit::Zero,
            None => durable.unit(index),
        }
    }

    /// Copies the visible contents of a unit into the overlay, for a change of a part of it.
    pub(super) fn raise(&mut self, durable: &Layer, index: u64) {
        let unit = self.unit(durable, index);
        self.layer.units.insert(index, unit);
    }

    pub(super) fn apply(&mut self, format: &Format, durable: &Layer, change: &Change) {
        match change {
            Change::Write { parts, .. } => {
                let pieces = parts.iter().filter(|part| matches!(part.data, PartData::Piece(_)));
                pieces.for_each(|part| self.raise(durable, part.index));
            }
            Change::Resize { bytes } if *bytes < self.layer.size => {
                let unit_bytes = format.unit_bytes as u64;
                let (whole, rest) = (bytes / unit_bytes, bytes % unit_bytes);
                if rest > 0 {
                    self.raise(durable, whole);
                }
                self.hides_from = self.hides_from.min(whole + u64::from(rest > 0));
            }
            Change::Resize { .. } => {}
        }
        self.layer.apply(format, change);
    }
}

//! Changes of a file, and units by index: the durable ones, and what hides them since.

use std::rc::Rc;

use smallvec::SmallVec;

use super::units::{Format, Unit};
use crate::fixed_hash::NeighbourMap;
use crate::sim::runs::Runs;

/// What one write puts into one unit.
#[derive(Clone)]
pub(in crate::sim) struct Part {
    pub(super) index: u64,
    /// First byte inside the unit; 0 for a whole unit.
    pub(super) start: usize,
    pub(super) data: PartData,
}

#[derive(Clone)]
pub(in crate::sim) enum PartData {
    Whole(Unit),
    Piece(Rc<[u8]>),
    /// As many template pages one after the other.
    Images(u64),
}

impl Part {
    /// The same, with one part for each unit.
    pub(super) fn units(&self) -> impl Iterator<Item = Part> {
        let count = if let PartData::Images(count) = self.data { count } else { 1 };
        let data = if count > 1 { PartData::Images(1) } else { self.data.clone() };
        let (first, start) = (self.index, self.start);
        (first..first + count).map(move |index| Part { index, start, data: data.clone() })
    }
}

/// What one write puts into units.
pub(in crate::sim) type Parts = SmallVec<[Part; 1]>;

/// One change of a file, as data to be replayed on the durable layer.
pub(in crate::sim) enum Change {
    Write { offset: u64, bytes: u64, parts: Parts, grows_to: Option<u64> },
    Resize { bytes: u64 },
}

impl Change {
    /// Only the effect on the size.
    pub fn without_data(self) -> Change {
        match self {
            Change::Write { offset, bytes, grows_to, .. } => {
                Change::Write { offset, bytes, parts: Parts::new(), grows_to }
            }
            resize => resize,
        }
    }
}

/// Units by index over a base of template pages and zeros.
pub(in crate::sim) struct Layer {
    pub(super) units: NeighbourMap<Unit>,
    /// Where the template shows if `units` has nothing.
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

    /// Whether something was written to this unit.
    pub(super) fn has(&self, index: u64) -> bool {
        self.units.contains_key(&index) || self.templates.contains(index)
    }

    pub(super) fn write(&mut self, format: &Format, part: &Part) {
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

    /// Bytes from `size` on become zeros.
    pub(super) fn cut(&mut self, format: &Format, size: u64) {
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
                    self.cut(format, *bytes);
                }
                self.size = *bytes;
            }
        }
    }
}

/// The memory of more units than these is given back at a sync.
const UNITS_KEPT_MAX: usize = 256;

/// What changed since the durable layer: hides it where it has something of its own.
pub(in crate::sim) struct Overlay {
    pub(super) layer: Layer,
    /// From this unit on nothing of the durable layer shows through.
    pub(super) hides_from: u64,
}

impl Overlay {
    pub(super) fn over(durable: &Layer) -> Overlay {
        let layer = Layer::empty(durable.size);
        Overlay { layer, hides_from: u64::MAX }
    }

    /// As [`Self::over`]. A log is synced after every write, so the memory for few units is kept.
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

    /// Takes what shows now of a unit into the overlay, for a change of a part of it.
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

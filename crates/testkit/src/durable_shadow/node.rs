//! A file of the shadow, independent of its name: the real file, and above it what has not been synced.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileExt;

use futures_util::lock::Mutex;

use super::power_cut::{DiskEvent, Pieces, Unkindness};
use super::shared::Shared;
use world::{Bufs, SECTOR_BYTES};

/// Bytes that a disk writes completely or not at all.
const ATOM_BYTES: usize = 512;
/// Number of pieces of a torn sync, with a pause after each.
const PIECES: usize = 8;

/// A file, independent of its name: the real file and the unsynced layers above it.
pub(super) struct Node {
    real: std::fs::File,
    layers: RefCell<Layers>,
    /// Held during a sync, so that the next sync waits.
    syncing: Mutex<()>,
}

/// Unsynced changes of a file, newest layer on top.
struct Layers {
    pending: Layer,
    /// Layer that the running sync is writing to the real file.
    syncing: Option<Layer>,
}

#[derive(Clone)]
pub(super) struct Layer {
    pub(super) bytes: u64,
    /// Size to which the file was cut before this layer: older layers are visible only below it.
    pub(super) floor: u64,
    pub(super) sectors: BTreeMap<u64, Box<[u8]>>,
}

impl Layer {
    fn clean(bytes: u64) -> Layer {
        Layer { bytes, floor: bytes, sectors: BTreeMap::new() }
    }

    /// Contents of a sector in this layer; `None` if the layer below is visible.
    fn sector(&self, index: u64) -> Option<Option<&[u8]>> {
        match self.sectors.get(&index) {
            Some(sector) => Some(Some(sector)),
            None if index * SECTOR_BYTES as u64 >= self.floor => Some(None),
            None => None,
        }
    }
}

impl Node {
    pub fn new(real: std::fs::File) -> io::Result<Node> {
        let pending = Layer::clean(real.metadata()?.len());
        Ok(Node::with_unsynced(real, pending))
    }

    /// Builds a file with unsynced changes that another process left.
    pub fn with_unsynced(real: std::fs::File, pending: Layer) -> Node {
        Node { real, layers: RefCell::new(Layers { pending, syncing: None }), syncing: Mutex::default() }
    }

    /// Changes that may not be in the real file.
    pub fn unsynced(&self) -> Layer {
        let layers = self.layers.borrow();
        let (pending, Some(syncing)) = (&layers.pending, &layers.syncing) else {
            return layers.pending.clone();
        };
        let mut all =
            Layer { bytes: pending.bytes, floor: pending.floor.min(syncing.floor), ..syncing.clone() };
        all.sectors.split_off(&pending.floor.div_ceil(SECTOR_BYTES as u64));
        all.sectors.extend(pending.sectors.clone());
        all
    }

    pub fn real(&self) -> &std::fs::File {
        &self.real
    }

    pub fn bytes(&self) -> u64 {
        self.layers.borrow().pending.bytes
    }

    /// Whether the real file equals what the program sees.
    pub fn is_clean(&self) -> bool {
        let layers = self.layers.borrow();
        let size_same = self.real.metadata().is_ok_and(|metadata| metadata.len() == layers.pending.bytes);
        size_same
            && layers.syncing.is_none()
            && layers.pending.sectors.is_empty()
            && layers.pending.floor == layers.pending.bytes
    }

    pub fn read(&self, offset: u64, bufs: &mut Bufs) -> io::Result<()> {
        let layers = self.layers.borrow();
        let mut index = offset / SECTOR_BYTES as u64;
        for buf in bufs {
            for sector in buf.as_mut_slice().chunks_exact_mut(SECTOR_BYTES) {
                let found = layers
                    .pending
                    .sector(index)
                    .or_else(|| layers.syncing.as_ref().and_then(|layer| layer.sector(index)));
                match found {
                    Some(Some(bytes)) => sector.copy_from_slice(bytes),
                    Some(None) => sector.fill(0),
                    None => self.read_real(index, sector)?,
                }
                index += 1;
            }
        }
        Ok(())
    }

    /// Reads the real file. Bytes behind its end are zero, because a visible size may not be durable.
    fn read_real(&self, index: u64, sector: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < sector.len() {
            match self.real.read_at(&mut sector[done..], index * SECTOR_BYTES as u64 + done as u64)? {
                0 => break,
                got => done += got,
            }
        }
        sector[done..].fill(0);
        Ok(())
    }

    pub fn write(&self, offset: u64, bufs: &Bufs) {
        let pending = &mut self.layers.borrow_mut().pending;
        let mut index = offset / SECTOR_BYTES as u64;
        for sector in bufs.iter().flat_map(|buf| buf.as_slice().chunks_exact(SECTOR_BYTES)) {
            pending.sectors.insert(index, sector.into());
            index += 1;
        }
        pending.bytes = pending.bytes.max(index * SECTOR_BYTES as u64);
    }

    pub fn set_size(&self, bytes: u64) {
        let pending = &mut self.layers.borrow_mut().pending;
        pending.bytes = bytes;
        pending.floor = pending.floor.min(bytes);
        pending.sectors.split_off(&bytes.div_ceil(SECTOR_BYTES as u64));
    }

    /// Writes all changes so far to the real file. Calls `happened` at each step.
    pub async fn sync(&self, shared: &Shared, happened: impl Fn(DiskEvent)) -> io::Result<()> {
        let _turn = self.syncing.lock().await;
        let layer = {
            let mut layers = self.layers.borrow_mut();
            let clean = Layer::clean(layers.pending.bytes);
            let layer = std::mem::replace(&mut layers.pending, clean);
            layers.syncing = Some(layer.clone());
            layer
        };
        let result = self.hand_over(&layer, shared, happened).await;
        // What a failed sync did not hand over goes on being seen, and is lost by a kill.
        if result.is_ok() {
            self.layers.borrow_mut().syncing = None;
        }
        result
    }

    async fn hand_over(
        &self,
        layer: &Layer,
        shared: &Shared,
        happened: impl Fn(DiskEvent),
    ) -> io::Result<()> {
        let event = if layer.sectors.contains_key(&0) { DiskEvent::HeadSync } else { DiskEvent::Sync };
        happened(event);
        if layer.floor < self.real.metadata()?.len() {
            self.real.set_len(layer.floor)?;
        }
        let torn = shared.options.torn_sync;
        let size_last = torn && shared.below(2) == 0;
        if !size_last {
            self.real.set_len(layer.bytes)?;
        }
        let atoms_per_sector = SECTOR_BYTES / ATOM_BYTES;
        let mut atoms = layer
            .sectors
            .keys()
            .flat_map(|sector| (0..atoms_per_sector).map(move |atom| (*sector, atom)))
            .collect::<Vec<_>>();
        if torn {
            shared.shuffle(&mut atoms);
        }
        for piece in atoms.chunks(atoms.len().div_ceil(PIECES).max(1)) {
            shared.pause().await;
            happened(event);
            for (sector, atom) in piece {
                let bytes = &layer.sectors[sector][atom * ATOM_BYTES..(atom + 1) * ATOM_BYTES];
                self.real.write_all_at(bytes, sector * SECTOR_BYTES as u64 + (atom * ATOM_BYTES) as u64)?;
            }
        }
        shared.pause().await;
        happened(event);
        self.real.set_len(layer.bytes)
    }

    /// Decides which unsynced changes of the file survive a power cut, and applies them. Errors count as losses.
    pub fn lose(&self, shared: &Shared, unkindness: &Unkindness) {
        let Pieces { grain_bytes, survives_percent } = unkindness.pieces;
        let survives = || shared.below(100) < survives_percent;
        let layers = self.layers.borrow();
        for layer in layers.syncing.iter().chain([&layers.pending]) {
            let mut bytes = self.real.metadata().map_or(0, |metadata| metadata.len());
            if survives() {
                let _ =
                    self.real.set_len(layer.floor.min(bytes)).and_then(|()| self.real.set_len(layer.bytes));
                bytes = layer.bytes;
            }
            let mut piece = (u64::MAX, false);
            for (index, sector) in &layer.sectors {
                let start = index * SECTOR_BYTES as u64;
                let grain = grain_bytes.min(SECTOR_BYTES as u64);
                for (at, part) in (start..).step_by(grain as usize).zip(sector.chunks(grain as usize)) {
                    let number = at / grain_bytes;
                    if piece.0 != number {
                        piece = (number, survives());
                    }
                    if piece.1 && at < bytes {
                        let _ = self.real.write_all_at(part, at);
                    }
                }
            }
        }
    }

    /// Lets a write reach the real file before its sync.
    pub fn write_early(&self, offset: u64, bufs: &Bufs) -> io::Result<()> {
        let mut at = offset;
        for buf in bufs {
            self.real.write_all_at(buf.as_slice(), at)?;
            at += buf.len() as u64;
        }
        Ok(())
    }
}

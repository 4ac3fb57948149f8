//! What a power cut does to changes that were not synced: chances, and the dice that decide by them.

use std::rc::Rc;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use super::fault::{FaultCounts, FaultKind};
use super::random::{below, chance};
use crate::SECTOR_BYTES;

/// Chances at a power cut, each between 0 and 1 and drawn for every change on its own.
#[derive(Debug, Clone, PartialEq)]
pub struct PowerCut {
    /// A write that was not synced is gone.
    pub lost_write: f64,
    /// A write that was not synced is there in part: each sector is old or new.
    pub torn_write: f64,
    /// A change of size that was not synced is gone.
    pub lost_size: f64,
    /// A name change that was not synced is gone.
    pub lost_name: f64,
    /// A block of new space that was not written shows stale bytes instead of zeros.
    pub stale_block: f64,
    /// What a device writes all or nothing: 512 or 4096 bytes, 64 on persistent memory.
    pub sector_bytes: usize,
    /// What becomes of each change, one after the other, in the place of all chances but that of a stale block. The changes
    /// behind the end of the list are kept. For tests that go through all that can happen.
    pub chosen: Option<Vec<Survival>>,
}

/// What becomes of a change that was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// It is gone.
    Lost,
    /// It is there.
    Kept,
    /// Of a write the first half of its sectors is there; any other change is.
    FirstHalf,
    /// Of a write the second half of its sectors is there; any other change is.
    SecondHalf,
}

impl Default for PowerCut {
    fn default() -> Self {
        PowerCut {
            lost_write: 0.4,
            torn_write: 0.2,
            lost_size: 0.5,
            lost_name: 0.5,
            stale_block: 0.5,
            sector_bytes: 512,
            chosen: None,
        }
    }
}

impl PowerCut {
    /// Everything that completed survives.
    pub fn keep_all() -> PowerCut {
        PowerCut {
            lost_write: 0.0,
            torn_write: 0.0,
            lost_size: 0.0,
            lost_name: 0.0,
            stale_block: 0.0,
            sector_bytes: 512,
            chosen: None,
        }
    }

    /// Nothing survives that was not synced.
    pub fn lose_all() -> PowerCut {
        PowerCut { lost_write: 1.0, lost_size: 1.0, lost_name: 1.0, ..PowerCut::keep_all() }
    }
}

impl PowerCut {
    pub(super) fn check(&self) {
        let sector_bytes = self.sector_bytes;
        assert!([64, 512, 4096].contains(&sector_bytes), "no device has sectors of {sector_bytes} bytes");
    }
}

/// What became of one write.
pub(super) enum Fate {
    Lost,
    Kept,
    Torn { sectors: Vec<bool>, sector_bytes: usize },
}

/// Decides by the seed, and counts what it decided.
pub(super) struct Dice<'a> {
    pub chances: &'a PowerCut,
    pub random: &'a mut ChaCha8Rng,
    pub counts: &'a mut FaultCounts,
    /// Changes that were decided about.
    pub decisions: &'a mut usize,
    /// Blocks of files that were removed.
    pub leftovers: &'a [Rc<[u8]>],
}

impl Dice<'_> {
    /// The same dice for a disk that has these blocks of removed files.
    pub fn with_leftovers<'b>(&'b mut self, leftovers: &'b [Rc<[u8]>]) -> Dice<'b> {
        let Dice { chances, random, counts, decisions, .. } = self;
        Dice { chances, random, counts, decisions, leftovers }
    }

    /// What a test has chosen for the next change, if it has.
    fn choice(&mut self) -> Option<Survival> {
        let number = *self.decisions;
        *self.decisions += 1;
        let chosen = self.chances.chosen.as_ref()?;
        Some(chosen.get(number).copied().unwrap_or(Survival::Kept))
    }

    fn chosen_fate(&mut self, choice: Survival, sectors: usize) -> Fate {
        let (fate, kind) = match choice {
            Survival::Lost => (Fate::Lost, FaultKind::LostAtPowerCut),
            Survival::FirstHalf | Survival::SecondHalf if sectors > 1 => {
                let is_new = |sector| (sector < sectors / 2) == (choice == Survival::FirstHalf);
                let sectors = (0..sectors).map(is_new).collect();
                (Fate::Torn { sectors, sector_bytes: self.chances.sector_bytes }, FaultKind::TornWrite)
            }
            _ => (Fate::Kept, FaultKind::KeptAtPowerCut),
        };
        self.counts.add(kind);
        fate
    }

    fn counted(&mut self, happens: bool, kind: FaultKind) -> bool {
        if happens {
            self.counts.add(kind);
        }
        happens
    }

    pub fn fate(&mut self, bytes: u64) -> Fate {
        let sector_bytes = self.chances.sector_bytes;
        let sectors = bytes as usize / sector_bytes;
        if let Some(choice) = self.choice() {
            return self.chosen_fate(choice, sectors);
        }
        let drawn = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        if drawn < self.chances.lost_write {
            self.counts.add(FaultKind::LostAtPowerCut);
            return Fate::Lost;
        }
        if drawn >= self.chances.lost_write + self.chances.torn_write || sectors < 2 {
            self.counts.add(FaultKind::KeptAtPowerCut);
            return Fate::Kept;
        }
        self.counts.add(FaultKind::TornWrite);
        Fate::Torn { sectors: self.tear(sectors), sector_bytes }
    }

    /// A write that the device reported as failed: lost, there, or torn, each as likely.
    pub fn fate_of_failed_write(&mut self, bytes: u64) -> Fate {
        let sector_bytes = self.chances.sector_bytes;
        let sectors = bytes as usize / sector_bytes;
        match below(self.random, 3) {
            0 => Fate::Lost,
            1 if sectors > 1 => Fate::Torn { sectors: self.tear(sectors), sector_bytes },
            _ => Fate::Kept,
        }
    }

    /// A write that ended early, at some whole sector of the file system.
    pub fn fate_of_short_write(&mut self, bytes: u64) -> Fate {
        let blocks = bytes / SECTOR_BYTES as u64;
        let written = below(self.random, blocks);
        let sectors = (0..blocks).map(|block| block < written).collect();
        Fate::Torn { sectors, sector_bytes: SECTOR_BYTES }
    }

    /// At least one sector old and one new: a run from the start, or any sectors.
    fn tear(&mut self, sectors: usize) -> Vec<bool> {
        let new_sectors = 1 + below(self.random, sectors as u64 - 1) as usize;
        let mut torn: Vec<bool> = (0..sectors).map(|sector| sector < new_sectors).collect();
        if chance(self.random, 0.5) {
            for last in (1..sectors).rev() {
                torn.swap(last, below(self.random, last as u64 + 1) as usize);
            }
        }
        torn
    }

    pub fn keeps_size(&mut self) -> bool {
        let lost = match self.choice() {
            Some(choice) => choice == Survival::Lost,
            None => chance(self.random, self.chances.lost_size),
        };
        !self.counted(lost, FaultKind::LostSize)
    }

    pub fn keeps_name(&mut self) -> bool {
        let lost = match self.choice() {
            Some(choice) => choice == Survival::Lost,
            None => chance(self.random, self.chances.lost_name),
        };
        !self.counted(lost, FaultKind::LostName)
    }

    pub fn survives_failed_sync(&mut self) -> bool {
        !chance(self.random, 0.5)
    }

    /// 4 KiB of random bytes, or of a removed file; `None`: zeros.
    pub fn stale_block(&mut self) -> Option<Rc<[u8]>> {
        let stale = chance(self.random, self.chances.stale_block);
        if !self.counted(stale, FaultKind::StaleBlock) {
            return None;
        }
        if !self.leftovers.is_empty() && chance(self.random, 0.5) {
            let block = below(self.random, self.leftovers.len() as u64) as usize;
            return Some(self.leftovers[block].clone());
        }
        let mut block = [0; SECTOR_BYTES];
        self.random.fill_bytes(&mut block);
        Some(block.as_slice().into())
    }
}

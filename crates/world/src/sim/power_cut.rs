//! What a power cut does to changes that were not synced: the dice that decide it.

use std::rc::Rc;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use super::fault::{FaultCounts, FaultKind, PowerCut, Survival};
use super::random::{below, chance};
use crate::SECTOR_BYTES;

/// Outcome of one write at a failure or power cut.
pub(super) enum WriteOutcome {
    Lost,
    Kept,
    Torn { sectors: Vec<bool>, sector_bytes: usize },
}

/// Random decisions about failures, drawn from the seed and counted.
pub(super) struct Dice<'a> {
    pub chances: &'a PowerCut,
    pub random: &'a mut ChaCha8Rng,
    pub counts: &'a mut FaultCounts,
    /// Number of changes that were decided.
    pub decisions: &'a mut usize,
    /// Blocks of removed files.
    pub leftovers: &'a [Rc<[u8]>],
}

impl Dice<'_> {
    /// Same decisions for a disk with these blocks of removed files.
    pub fn with_leftovers<'b>(&'b mut self, leftovers: &'b [Rc<[u8]>]) -> Dice<'b> {
        let Dice { chances, random, counts, decisions, .. } = self;
        Dice { chances, random, counts, decisions, leftovers }
    }

    /// Fate that a test has chosen for the next change, if any.
    fn choice(&mut self) -> Option<Survival> {
        let number = *self.decisions;
        *self.decisions += 1;
        let chosen = self.chances.chosen.as_ref()?;
        Some(chosen.get(number).copied().unwrap_or(Survival::Kept))
    }

    fn chosen_outcome(&mut self, choice: Survival, sectors: usize) -> WriteOutcome {
        let (outcome, kind) = match choice {
            Survival::Lost => (WriteOutcome::Lost, FaultKind::LostAtPowerCut),
            Survival::FirstHalf | Survival::SecondHalf if sectors > 1 => {
                let is_new = |sector| (sector < sectors / 2) == (choice == Survival::FirstHalf);
                let sectors = (0..sectors).map(is_new).collect();
                (
                    WriteOutcome::Torn { sectors, sector_bytes: self.chances.sector_bytes },
                    FaultKind::TornWrite,
                )
            }
            _ => (WriteOutcome::Kept, FaultKind::KeptAtPowerCut),
        };
        self.counts.add(kind);
        outcome
    }

    fn counted(&mut self, happens: bool, kind: FaultKind) -> bool {
        if happens {
            self.counts.add(kind);
        }
        happens
    }

    pub fn outcome(&mut self, bytes: u64) -> WriteOutcome {
        let sector_bytes = self.chances.sector_bytes;
        let sectors = bytes as usize / sector_bytes;
        if let Some(choice) = self.choice() {
            return self.chosen_outcome(choice, sectors);
        }
        let drawn = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        if drawn < self.chances.lost_write {
            self.counts.add(FaultKind::LostAtPowerCut);
            return WriteOutcome::Lost;
        }
        if drawn >= self.chances.lost_write + self.chances.torn_write || sectors < 2 {
            self.counts.add(FaultKind::KeptAtPowerCut);
            return WriteOutcome::Kept;
        }
        self.counts.add(FaultKind::TornWrite);
        WriteOutcome::Torn { sectors: self.tear(sectors), sector_bytes }
    }

    /// Draws the outcome of a write that the device reported as failed: lost, complete, or torn, equally likely.
    pub fn outcome_of_failed_write(&mut self, bytes: u64) -> WriteOutcome {
        let sector_bytes = self.chances.sector_bytes;
        let sectors = bytes as usize / sector_bytes;
        match below(self.random, 3) {
            0 => WriteOutcome::Lost,
            1 if sectors > 1 => WriteOutcome::Torn { sectors: self.tear(sectors), sector_bytes },
            _ => WriteOutcome::Kept,
        }
    }

    /// Draws where a short write ended: at some whole sector of the file system.
    pub fn outcome_of_short_write(&mut self, bytes: u64) -> WriteOutcome {
        let blocks = bytes / SECTOR_BYTES as u64;
        let written = below(self.random, blocks);
        let sectors = (0..blocks).map(|block| block < written).collect();
        WriteOutcome::Torn { sectors, sector_bytes: SECTOR_BYTES }
    }

    /// Draws a torn write with at least one old and one new sector: a prefix, or any sectors.
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

    /// Draws a stale block of 4 KiB: random bytes, or those of a removed file; `None`: zeros.
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

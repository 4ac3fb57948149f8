//! The files around the log that is being written: the next one, made ready ahead of the roll, and the closed
//! ones, kept as long as a reader or a backup needs them.
//!
//! Invariants
//! 1. No log at or behind the durable checkpoint, or held by a reader, is recycled or removed (design invariant 4).
//! 2. Once a reserve log is used, no new change is begun until the instance is opened again: what is left is for ending
//!    what is open.

use results::IoClass;
use smallvec::smallvec;
use world::{OpenMode, PageBuf, SECTOR_BYTES};

use super::{Log, WRITE_BYTES_MAX};
use crate::error::Result;
use crate::io::IoFile;
use crate::log::reserve;

/// Hold on closed logs from `generation` on, which are not removed until it is dropped or moved forward.
pub struct LogHold {
    log: Log,
    id: u64,
}

impl LogHold {
    /// Moves the hold forward: this reader no longer needs logs before `generation`.
    pub fn advance(&self, generation: u32) {
        self.log.0.state.borrow_mut().holds.insert(self.id, generation);
    }
}

impl Drop for LogHold {
    fn drop(&mut self) {
        if planted!(HoldLeaked) {
            return;
        }
        self.log.0.state.borrow_mut().holds.remove(&self.id);
    }
}

impl Log {
    /// Takes a hold on closed logs for a reader.
    pub(crate) fn hold(&self, generation: u32) -> LogHold {
        let mut state = self.0.state.borrow_mut();
        let id = state.next_hold;
        state.next_hold += 1;
        state.holds.insert(id, generation);
        LogHold { log: self.clone(), id }
    }

    /// Number of holds.
    pub(crate) fn holds(&self) -> usize {
        self.0.state.borrow().holds.len()
    }

    pub(super) fn spawn_preparation(&self) {
        let log = self.clone();
        let task = self.0.world.spawn(async move {
            let _working = log.0.poison.working();
            let prepared = log.prepare_next().await;
            log.0.poison.require(prepared)
        });
        self.0.state.borrow_mut().preparing = Some(task);
    }

    /// Prepares the next log, new or from the reserve. `None` if the log is closed meanwhile.
    async fn prepare_next(&self) -> Result<Option<IoFile>> {
        let (world, names) = (&self.0.world, &self.0.config.names);
        match self.fill_next(None).await {
            Err(error) if reserve::is_no_space(&error) && reserve::use_one(world, names).await? => {
                self.0.out_of_space.set(true);
                let file = IoFile::open(world, &names.next(), OpenMode::ReadWrite, &self.0.counters).await?;
                self.fill_next(Some(file)).await
            }
            filled => filled,
        }
    }

    /// Zero-fills the next log at the pace of the current one.
    async fn fill_next(&self, mut file: Option<IoFile>) -> Result<Option<IoFile>> {
        let bytes = usize::from(self.0.config.segments) * SECTOR_BYTES;
        let mut offset = 0;
        while offset < bytes {
            let piece = WRITE_BYTES_MAX.min(bytes - offset);
            // The first piece is due when half a piece has been logged, and so on.
            if !self.grown_to(offset + piece / 2).await? {
                return Ok(None);
            }
            let file: &IoFile = match &file {
                Some(file) => file,
                None => file.insert(self.open_next().await?),
            };
            file.write(IoClass::LogPrepareWrite, offset as u64, smallvec![PageBuf::empty(piece)]).await?;
            offset += piece;
        }
        Ok(file)
    }

    /// Waits until the current log has `bytes` bytes or a roll waits; false if the log is closed.
    async fn grown_to(&self, bytes: usize) -> Result<bool> {
        loop {
            self.0.poison.check()?;
            {
                let state = self.0.state.borrow();
                if state.closing {
                    return Ok(false);
                }
                if state.hurry || usize::from(state.written) * SECTOR_BYTES >= bytes {
                    return Ok(true);
                }
            }
            self.0.progress.wait().await;
        }
    }

    /// Opens the file for the next log: the oldest log that no reader and no backup needs, or a new one.
    async fn open_next(&self) -> Result<IoFile> {
        let (world, names) = (&self.0.world, &self.0.config.names);
        let next = names.next();
        if let Some(generation) = self.take_oldest_unneeded(0) {
            world.rename(&names.archive(generation), &next).await?;
            return IoFile::open(world, &next, OpenMode::ReadWrite, &self.0.counters).await;
        }
        if world.entry(&next).await?.is_some() {
            world.remove(&next).await?;
        }
        IoFile::open(world, &next, OpenMode::CreateNew, &self.0.counters).await
    }

    /// With circular logging: takes the oldest closed log, if no reader or backup needs more than `keep` closed logs.
    fn take_oldest_unneeded(&self, keep: u32) -> Option<u32> {
        let mut state = self.0.state.borrow_mut();
        let held = state.holds.values().copied().min().unwrap_or(u32::MAX);
        let needed = state.checkpoint_generation.min(held).min(state.generation);
        let needed = if planted!(NeededLogRemoved) { state.generation } else { needed };
        if !self.0.config.circular || state.oldest + keep >= needed {
            return None;
        }
        state.oldest += 1;
        Some(state.oldest - 1)
    }

    /// Notes that the durable checkpoint has reached `generation`: removes earlier closed logs, except one to recycle.
    pub(crate) async fn checkpoint_moved(&self, generation: u32) -> Result<()> {
        let before = std::mem::replace(&mut self.0.state.borrow_mut().checkpoint_generation, generation);
        assert!(before <= generation, "the checkpoint only goes forward");
        while let Some(unneeded) = self.take_oldest_unneeded(1) {
            self.0.world.remove(&self.0.config.names.archive(unneeded)).await?;
        }
        Ok(())
    }
}

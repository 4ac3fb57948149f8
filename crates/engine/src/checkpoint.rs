//! The checkpoint file: where redo begins.
//!
//! Invariants
//! 1. The position in the file is at or before the first change that a database file may lack, and before the first
//!    record of every transaction that is open or still has something to clean up (design invariant 4).
//! 2. Two copies are written and then synced together. A power cut in between may leave the old position, the
//!    new one, or none that can be read, as may the loss of a name that was never synced: redo then begins at
//!    the oldest log, and none that the old position needs has been given up.
//! 3. A log is given up only after the checkpoint that no longer needs it is durable.

use edb::checkpoint::{CHECKPOINT_BYTES, Checkpoint};
use results::IoClass;
use smallvec::smallvec;
use world::{OpenMode, PageBuf, World};

use crate::error::Result;
use crate::io::{Counters, IoFile};
use crate::log::{LogPosition, Signature};

/// Open checkpoint file.
pub(crate) struct CheckpointFile {
    file: IoFile,
    signature: Signature,
    written: LogPosition,
}

impl CheckpointFile {
    /// Opens the checkpoint file, or creates it.
    pub(crate) async fn open(
        world: &World,
        path: &str,
        signature: Signature,
        counters: &Counters,
    ) -> Result<CheckpointFile> {
        let exists = world.entry(path).await?.is_some();
        let mode = if exists { OpenMode::ReadWrite } else { OpenMode::CreateNew };
        let file = IoFile::open(world, path, mode, counters).await?;
        Ok(CheckpointFile { file, signature, written: LogPosition::default() })
    }

    /// Position of the last write by this handle.
    pub(crate) fn written(&self) -> LogPosition {
        self.written
    }

    /// Makes `position` the durable checkpoint.
    pub(crate) async fn write(&mut self, position: LogPosition) -> Result<()> {
        assert!(position >= self.written, "the checkpoint only goes forward");
        let bytes = Checkpoint { position, signature: self.signature }.encode();
        let copy = || smallvec![PageBuf::copy_of(&bytes)];
        self.file.write(IoClass::HousekeepingWrite, 0, copy()).await?;
        self.file.write_durable(IoClass::HousekeepingWrite, CHECKPOINT_BYTES as u64, copy()).await?;
        self.written = position;
        Ok(())
    }
}

/// Reads the checkpoint, and returns which copy it was (0 or 1); `None` if there is none, or neither copy is intact.
pub(crate) async fn read(
    world: &World,
    path: &str,
    counters: &Counters,
) -> Result<Option<(Checkpoint, usize)>> {
    if world.entry(path).await?.is_none() {
        return Ok(None);
    }
    let file = IoFile::open(world, path, OpenMode::Read, counters).await?;
    let bytes = file.file().size().await?.min(2 * CHECKPOINT_BYTES as u64) as usize;
    let bytes = bytes - bytes % CHECKPOINT_BYTES;
    if bytes == 0 {
        return Ok(None);
    }
    let page = file.read_one(IoClass::HousekeepingRead, 0, bytes).await?;
    let mut copies = page.as_slice().chunks_exact(CHECKPOINT_BYTES).enumerate();
    Ok(copies.find_map(|(copy, bytes)| Some((Checkpoint::read(bytes)?, copy))))
}

//! One drive: takes commands, says when they are done.

mod flash;
mod mechanics;
mod rotating;
mod segments;

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;

use crate::hardware::DriveModel;
use flash::Flash;
use mechanics::Mechanics;
use rotating::Rotating;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Read,
    Write,
    /// Write that was acknowledged long ago: others pass it while it waits for room in the disk's queue.
    DeferredWrite,
    /// Flush: completes when all cached writes are on the medium.
    Flush,
}

/// Command for a drive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Command {
    /// Tag that the completion returns.
    pub tag: u32,
    pub op: Op,
    pub start: u64,
    pub bytes: u64,
}

impl Command {
    /// Tag of a write that was acknowledged from the drive's cache.
    const CACHED: u32 = u32::MAX;

    pub fn end(&self) -> u64 {
        self.start + self.bytes
    }

    pub fn is_read(&self) -> bool {
        self.op == Op::Read
    }

    pub fn is_write(&self) -> bool {
        matches!(self.op, Op::Write | Op::DeferredWrite)
    }

    fn done(&self, at_ns: u64) -> Done {
        Done { tag: self.tag, at_ns, read_bytes: if self.is_read() { self.bytes as u32 } else { 0 } }
    }
}

/// Completion of a command; its time may lie ahead.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    pub tag: u32,
    pub at_ns: u64,
    /// Bytes that go back to the controller.
    pub read_bytes: u32,
}

enum Kind {
    Rotating(Box<Rotating>),
    Flash(Box<Flash>),
}

/// State of a drive.
pub(crate) struct DriveState {
    kind: Kind,
    is_dead: bool,
}

impl DriveState {
    /// Creates a drive. `like`: a drive of the same model, with which it shares constant tables.
    pub fn new(model: &DriveModel, random: ChaCha8Rng, like: Option<&DriveState>) -> DriveState {
        let kind = match model {
            DriveModel::Rotating(disk) => {
                let mechanics = match like {
                    Some(DriveState { kind: Kind::Rotating(like), .. }) => like.mechanics(),
                    _ => Arc::new(Mechanics::new(disk)),
                };
                Kind::Rotating(Box::new(Rotating::new(disk, mechanics)))
            }
            DriveModel::Flash(drive) => Kind::Flash(Box::new(Flash::new(drive, random))),
        };
        DriveState { kind, is_dead: false }
    }

    /// Submits a command. Returns its completion if that is known already.
    #[inline]
    pub fn submit(&mut self, now_ns: u64, command: Command) -> Option<Done> {
        match &mut self.kind {
            Kind::Rotating(disk) => disk.submit(now_ns, command),
            Kind::Flash(drive) => Some(drive.submit(now_ns, command)),
        }
    }

    /// Time at which [`Self::advance`] must be called next.
    pub fn next_ns(&self) -> Option<u64> {
        match &self.kind {
            Kind::Rotating(disk) => disk.next_ns(),
            Kind::Flash(_) => None,
        }
    }

    /// Completes what is over by now: returns the served command if a job waits for it, and adds to `done` those that
    /// waited for the drive's cache.
    #[inline]
    pub fn advance(&mut self, now_ns: u64, done: &mut Vec<Done>) -> Option<Done> {
        match &mut self.kind {
            Kind::Rotating(disk) => disk.advance(now_ns, done),
            Kind::Flash(_) => None,
        }
    }

    pub fn capacity_bytes(&self) -> u64 {
        match &self.kind {
            Kind::Rotating(disk) => disk.capacity_bytes(),
            Kind::Flash(drive) => drive.capacity_bytes(),
        }
    }

    pub fn set_slowness(&mut self, factor: f64) {
        match &mut self.kind {
            Kind::Rotating(disk) => disk.set_slowness(factor),
            Kind::Flash(drive) => drive.set_slowness(factor),
        }
    }

    pub fn is_idle(&self, now_ns: u64) -> bool {
        match &self.kind {
            Kind::Rotating(disk) => disk.is_idle(),
            Kind::Flash(drive) => drive.is_idle(now_ns),
        }
    }

    pub fn has_volatile_cache(&self) -> bool {
        match &self.kind {
            Kind::Rotating(disk) => disk.has_volatile_cache(),
            Kind::Flash(_) => false,
        }
    }

    pub fn is_dead(&self) -> bool {
        self.is_dead
    }

    /// Fails the drive. Returns the tags of the lost commands.
    pub fn fail(&mut self) -> Vec<Command> {
        self.is_dead = true;
        match &mut self.kind {
            Kind::Rotating(disk) => disk.fail(),
            Kind::Flash(_) => Vec::new(),
        }
    }
}

/// Refuses values that make no drive.
pub(crate) fn check(model: &DriveModel) -> Result<(), String> {
    match model {
        DriveModel::Rotating(disk) => mechanics::check(disk),
        DriveModel::Flash(drive) => flash::check(drive),
    }
}

#[cfg(test)]
mod tests;

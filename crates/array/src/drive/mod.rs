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
    /// A write that its sender has acknowledged long ago: others pass it while it waits for room in the disk's queue.
    DeferredWrite,
    /// Asks for all cached writes to be on the medium.
    Flush,
}

/// What a drive is asked to do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Command {
    /// Given back when done.
    pub tag: u32,
    pub op: Op,
    pub start: u64,
    pub bytes: u64,
}

impl Command {
    /// Tag of a write that has been acknowledged from the drive's cache.
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

/// A command is done (at this time, which may lie ahead).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    pub tag: u32,
    pub at_ns: u64,
    /// What goes back to the controller.
    pub read_bytes: u32,
}

enum Kind {
    Rotating(Box<Rotating>),
    Flash(Box<Flash>),
}

/// A drive at work.
pub(crate) struct DriveState {
    kind: Kind,
    is_dead: bool,
}

impl DriveState {
    /// `like` is a drive of the same model, if there is one: they share what does not change.
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

    /// Takes a command. Returns when it is done, if that is known already.
    #[inline]
    pub fn submit(&mut self, now_ns: u64, command: Command) -> Option<Done> {
        match &mut self.kind {
            Kind::Rotating(disk) => disk.submit(now_ns, command),
            Kind::Flash(drive) => Some(drive.submit(now_ns, command)),
        }
    }

    /// When [`Self::advance`] must be called next.
    pub fn next_ns(&self) -> Option<u64> {
        match &self.kind {
            Kind::Rotating(disk) => disk.next_ns(),
            Kind::Flash(_) => None,
        }
    }

    /// Ends what is over by now: the command that was served, if it has a waiter, and in `done` those that
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

    /// The drive dies; the tags of the commands that it takes with it.
    pub fn fail(&mut self) -> Vec<Command> {
        self.is_dead = true;
        match &mut self.kind {
            Kind::Rotating(disk) => disk.fail(),
            Kind::Flash(_) => Vec::new(),
        }
    }
}

/// Refuses numbers that make no drive.
pub(crate) fn check(model: &DriveModel) -> Result<(), String> {
    match model {
        DriveModel::Rotating(disk) => mechanics::check(disk),
        DriveModel::Flash(drive) => flash::check(drive),
    }
}

#[cfg(test)]
mod tests;

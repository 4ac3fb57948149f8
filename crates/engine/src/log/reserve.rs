//! Reserve logs: the space of two logs, taken when the instance is opened, so that a full log volume does not
//! stop it in the middle of its work. The genuine engine keeps them for the same purpose, under the same names.
//!
//! Invariants
//! 1. A reserve log has the size of a log and its space is allocated. It becomes the next log by a rename.
//! 2. What is missing is made again at the next opening, if there is space then.
//!
//! Limits: where a file system gives new space to bytes that are overwritten (copy-on-write, thin
//! provisioning), no space can be taken in advance.

use world::{ErrorKind, OpenMode, World};

use super::LogNames;
use crate::error::{Error, Result};

/// Number of reserve logs, as in the genuine engine.
const RESERVE_LOGS: u8 = 2;

/// Creates missing reserve logs, as far as there is space.
pub(crate) async fn make(world: &World, names: &LogNames, log_bytes: u64) -> Result<()> {
    for number in 1..=RESERVE_LOGS {
        let path = names.reserve(number);
        let mode = match world.entry(&path).await? {
            Some(entry) if entry.bytes == log_bytes => continue,
            Some(_) => OpenMode::ReadWrite,
            None => OpenMode::CreateNew,
        };
        let sized = world.open(&path, mode).await?.set_size(log_bytes).await;
        if let Err(error) = sized {
            world.remove(&path).await?;
            return if error.kind == ErrorKind::NoSpace { Ok(()) } else { Err(error.into()) };
        }
    }
    Ok(())
}

/// Uses a reserve log as the next log. False if none is left.
pub(crate) async fn use_one(world: &World, names: &LogNames) -> Result<bool> {
    for number in (1..=RESERVE_LOGS).rev() {
        let path = names.reserve(number);
        if world.entry(&path).await?.is_some() {
            world.rename(&path, &names.next()).await?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether an error says that a volume was full.
pub(crate) fn is_no_space(error: &Error) -> bool {
    matches!(error, Error::World(error) if error.kind == ErrorKind::NoSpace)
}

//! A copy of a database on one host, running: the state machine of `copies` on a real engine, in either world.
//!
//! [`Replica`] drives one copy: it carries out what the machine wants done on files and engine, in the order in
//! which it wants it, and tells it what has come of it. [`ArbiterHost`] does the same for the arbiter and its
//! record. Both speak to the others through [`Links`]; [`wire`] is how what they say looks in bytes, and
//! [`Network`] carries it.
//!
//! Invariants
//! 1. What a state machine wants done on disk is done in its order, and reported only when it is durable.
//! 2. The clock is read before each input, so a host that hung finds its lease over before it does anything else.
//! 3. A durable commit returns only after the machine has acknowledged it; if the copy stops being active first, the
//!    commit returns an error.
//! 4. A failed disk operation, or an instance that has stopped by itself, is the end of the copy's life here:
//!    it gives its lease back, and nothing more is written or said.
//!
//! Limits: one database per log stream. A damaged page of the active copy is not replaced: the machine never
//! hears of it, and an open instance takes no page from outside.

mod arbiter_host;
#[cfg(test)]
#[path = "../../engine/tests/it/common/mod.rs"]
mod common;
mod files;
mod network;
mod replica;
pub mod wire;

pub use arbiter_host::ArbiterHost;
pub use files::SeedFiles;
pub use network::{Guard, Network, Receiver};
pub use replica::{Links, Replica, ReplicaConfig, Status};

/// Reason why a copy or the arbiter had to stop.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// A file of the copy or the arbiter could not be read or written.
    #[error(transparent)]
    World(#[from] world::Error),
    /// A durable record of a copy or of the arbiter is damaged.
    #[error("{path} is damaged: {reason}; a copy without it has to be made anew")]
    DamagedRecord {
        /// Path of the record.
        path: String,
        /// Description of the damage.
        reason: String,
    },
}

/// Result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

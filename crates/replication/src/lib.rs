//! Copies of a database on several hosts: log shipping, leases, activation, reseeding. Pure state machines
//! without sockets, clocks or tasks: time, messages and finished disk work come in as values, everything to be
//! done goes out as values. The protocol in plain words, with the argument for each invariant, is in
//! `docs/copies.md`.
//!
//! Invariants
//! 1. Never two active copies of one database at one instant, as long as clocks keep the stated drift bound.
//! 2. Under the lossless dial no acknowledged durable commit is lost, even if clocks are wrong.
//! 3. Under the other dials an activation loses commits of at most [`DatabaseSpec::loss_bound_generations`].
//! 4. Copies whose queues have drained are equal in content.
//! 5. Without the arbiter nothing is activated.
//!
//! Limits: one arbiter, whose record is durable; disks that keep what they have reported as durable. A disk
//! that lost its contents is replaced by an empty one, never by an old one.

mod arbiter;
mod copy;
mod lease;
mod lineage;
mod message;
mod planted;
mod shared_bytes;
mod types;

pub use arbiter::selection::{Candidate, candidates, may_activate, rank};
pub use arbiter::{Arbiter, ArbiterEffect, ArbiterEvent, ArbiterInput, Loss, Record, WhyDismounted};
pub use copy::{CopyMachine, DiskOp, Effect, Event, Found, Input, LogExtent, Meta, SeedReason, StepDown};
pub use lease::{arbiter_wait_ms, holder_end_ms};
pub use lineage::Lineage;
pub use message::{FromArbiter, Health, Life, PageRequest, PeerMessage, Renewal, Report, ToArbiter};
#[cfg(feature = "planted-bugs")]
pub use planted::Bug;
pub use planted::Planted;
pub use types::{
    ActivationPolicy, Boot, CopySpec, DatabaseId, DatabaseSpec, Dial, Epoch, HostId, LogPiece, PageCopy,
    Position, SiteId, Timing, checksum,
};

//! Drills: all copies of all databases, users at work, and parts of the deployment that fail. The same code in
//! either world.
//!
//! [`Topology`] says what there is, [`Node`] is one host of it, [`ArbiterNode`] the arbiter. [`conduct`] lets
//! hosts live and fail through a [`DrillHosts`], which a simulation and the agent of a host each implement.
//! Each host and the arbiter keep a journal, on real hosts as a file ([`JournalEnd`]), in a simulation in
//! memory. [`mod@review`] makes one history of all journals and judges it.
//!
//! Invariants
//! 1. A commit counts as acknowledged only after the engine has reported it as durable, and what a copy holds
//!    is read from its rows when it is mounted.
//! 2. Copies are compared by what their pages hold.
//!
//! Limits: one database per log stream. A volume fails by decision of the drill, not by errors of its disks.

mod arbiter;
mod auditor;
mod conductor;
mod create;
mod dismounted;
mod drain;
#[cfg(test)]
mod fixture;
mod journal;
mod node;
mod review;
mod rows;
mod topology;

pub use arbiter::ArbiterNode;
pub use conductor::{DrillHosts, Happening, conduct};
pub use create::{create_copies, create_first_copies};
pub use dismounted::stays_dismounted;
pub use drain::Compared;
pub use journal::{
    Entry, JournalContent, JournalEnd, JournalFault, JournalHead, ReadJournal, read as read_journal,
};
pub use node::{CopySample, Node, NodeSample, Observed, Observer, Routes};
pub use review::{Reviewed, review};
pub use rows::sample_rows;
pub use topology::{
    ARBITER, ARBITER_NAME, CopyPlace, DrillDatabase, DrillHost, Pace, PlannedDrill, Topology,
};

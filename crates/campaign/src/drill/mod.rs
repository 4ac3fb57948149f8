//! Drills: all copies of all databases, users at work, and parts of the deployment that fail. The same code in either
//! world; whoever calls it lets the failures happen.
//!
//! [`Site`] says what there is, [`Node`] is one host of it, [`ArbiterNode`] the arbiter, [`Ledger`] holds what was promised to
//! users against what they find, and judges.
//!
//! Invariants
//! 1. A commit counts as acknowledged only after the engine has reported it as durable, and what a copy holds is read from its
//!    rows when it is mounted.
//! 2. Copies are compared by what their pages hold.
//!
//! Limits: one database per log stream. A volume fails by decision of the drill, not by errors of its disks.

mod ledger;
mod node;
mod site;

pub use ledger::{Ledger, Summary};
pub use node::{ArbiterNode, CopySample, Node, Observed, Observer, found};
pub use site::{ARBITER, ARBITER_NAME, CopyPlace, Pace, Site, SiteDatabase, SiteHost};

//! The protocol of the copies in virtual time: the state machines as they are, a model of the engine below
//! them, a network that loses, delays, doubles and reorders, hosts that crash, hang and lose disks, clocks that
//! drift.
//!
//! A run comes from one seed. PROOFLOAD_SEEDS sets how many (200 if it is not set), PROOFLOAD_SEED picks one,
//! PROOFLOAD_TRACE=1 prints what happens.
#![allow(clippy::disallowed_methods, reason = "seeds come from the environment")]

mod cluster;
mod drills;
mod faults;
mod history;
mod hostile;
mod machines;
mod model;
mod planted;
mod random;
mod repair;

//! Many hosts, one run: a controller and agents that speak over a NATS server.
//!
//! [`membership`] (controller) and [`agent_state`] (agent) are state machines without clock and sockets;
//! [`controller`] and [`agent`] tie them to the bus, to files and to threads. What a host does for a run
//! ([`host_work`]) takes place on threads of its own; the tests of different hosts meet at a
//! [`run_control::RunControl`].
//!
//! Nothing here is on a measured thread.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this crate faces the network, the clock and its own files; measured threads never enter it"
)]

pub mod agent;
pub mod agent_state;
pub mod allowed;
pub mod arbiter;
pub mod barrier;
pub mod bus;
pub mod choice;
pub mod clock;
pub mod controller;
pub mod copy_port;
pub mod credentials;
pub mod drill;
mod files;
pub mod host_work;
pub mod log;
pub mod membership;
pub mod merged;
pub mod message;
pub mod overview;
pub mod run_control;
pub mod server;
mod sharing;
pub mod subjects;

use tokio::runtime::Builder;
use tokio::task::LocalSet;

/// Runs an agent or a controller on this thread until it ends.
///
/// # Errors
/// When the operating system gives no event queue.
pub fn run<T>(work: impl Future<Output = T>) -> std::io::Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(LocalSet::new().run_until(work)))
}

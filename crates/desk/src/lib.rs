//! The web pages of `proofload serve`.
//!
//! [`Server`] answers HTTP/1.1 on an address. What it serves is a [`Site`]: [`Runs`] shows a folder of runs, running
//! ones live; [`Desk`] plans a solution file anew at each change.
//!
//! Invariant: text from outside goes into JSON and from there into text nodes, never into markup; the pages load no
//! script but ours.
//!
//! Limits: no encryption and no login.
#![allow(
    clippy::disallowed_methods,
    reason = "this crate answers requests for pages: it reads evidence, writes new files, and simulates on a thread of its own"
)]

mod answer;
mod live;
mod planning;
mod server;

pub use answer::{Answer, Asked, Events, Reply, SendsEvents, Site};
pub use live::Runs;
pub use planning::Desk;
pub use server::{ListenError, Server};

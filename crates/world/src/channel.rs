//! Messages between tasks and between shards, in order. The only way shards talk to each other.

pub use futures_channel::mpsc::{Receiver, Sender, UnboundedReceiver, UnboundedSender, channel, unbounded};
pub use futures_channel::oneshot;

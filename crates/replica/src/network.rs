//! Connections between the hosts that have copies, and to the arbiter: one for each direction of each pair, made again whenever
//! it breaks.
//!
//! Invariants
//! 1. Sending never waits. What cannot be sent soon is dropped: every message may be lost, and is said again by those who
//!    need it.
//! 2. A message is delivered with the name that its connection began with, and only to a host that speaks the same version.
//! 3. A connection on which something comes that is no message is closed; nothing of it has been delivered.
//!
//! Limits: plain streams. Who may connect, and what others can read, is the business of what lies below.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use copies::HostId;
use futures_util::StreamExt;
use world::channel::{UnboundedReceiver, UnboundedSender, unbounded};
use world::{Connection, Duration, World};

use crate::wire::{Frames, Message, VERSION, WireError, frame};

/// Bytes that wait for one host at most.
const QUEUE_BYTES_MAX: usize = 32 << 20;
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);

/// Gets what has come, and from whom.
pub type Receiver = Rc<dyn Fn(HostId, Message)>;

struct Peer {
    queue: UnboundedSender<Vec<u8>>,
    waiting_bytes: Rc<Cell<usize>>,
}

struct Inner {
    world: World,
    host: HostId,
    addresses: BTreeMap<HostId, String>,
    peers: RefCell<BTreeMap<HostId, Peer>>,
    receiver: Receiver,
    stopped: Cell<bool>,
    refused: Cell<u64>,
}

/// This host's connections. Dropping it closes them.
pub struct Network(Rc<Inner>);

impl Network {
    /// Listens on this host's address, and sends to the others.
    ///
    /// # Errors
    /// If nobody can listen there.
    pub async fn start(
        world: &World,
        host: HostId,
        addresses: BTreeMap<HostId, String>,
        receiver: Receiver,
    ) -> Result<Network, world::Error> {
        let listener = match addresses.get(&host) {
            Some(address) => Some(world.listen(address).await?),
            None => None,
        };
        let inner = Rc::new(Inner {
            world: world.clone(),
            host,
            addresses,
            peers: RefCell::default(),
            receiver,
            stopped: Cell::new(false),
            refused: Cell::new(0),
        });
        if let Some(listener) = listener {
            let listening = inner.clone();
            drop(world.spawn(async move {
                while !listening.stopped.get() {
                    let Ok(connection) = listener.accept().await else { return };
                    let receiving = listening.clone();
                    drop(listening.world.spawn(async move {
                        if receiving.receive(&connection).await.is_err() {
                            receiving.refused.set(receiving.refused.get() + 1);
                        }
                    }));
                }
            }));
        }
        Ok(Network(inner))
    }

    /// Sends, or drops if that is not possible soon.
    pub fn send(&self, to: HostId, message: &Message) {
        let Some(address) = self.0.addresses.get(&to) else { return };
        let mut peers = self.0.peers.borrow_mut();
        let peer = peers.entry(to).or_insert_with(|| {
            let (queue, waiting) = unbounded();
            let waiting_bytes = Rc::new(Cell::new(0));
            let (inner, address, counter) = (self.0.clone(), address.clone(), waiting_bytes.clone());
            drop(self.0.world.spawn(async move { inner.send_all(&address, waiting, &counter).await }));
            Peer { queue, waiting_bytes }
        });
        let bytes = frame(message);
        if peer.waiting_bytes.get() + bytes.len() <= QUEUE_BYTES_MAX {
            peer.waiting_bytes.set(peer.waiting_bytes.get() + bytes.len());
            // It is gone only with the network.
            let _ = peer.queue.unbounded_send(bytes);
        }
    }

    /// Connections that ended otherwise than by being closed.
    pub fn refused(&self) -> u64 {
        self.0.refused.get()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.0.stopped.set(true);
        self.0.peers.borrow_mut().clear();
    }
}

impl Inner {
    async fn send_all(&self, address: &str, mut waiting: UnboundedReceiver<Vec<u8>>, bytes: &Cell<usize>) {
        let mut connection: Option<Connection> = None;
        while let Some(message) = waiting.next().await {
            bytes.set(bytes.get() - message.len());
            if self.stopped.get() {
                return;
            }
            // A connection to a host that has started again breaks at the first message: that one deserves a second try.
            let mut sent = send(&connection, &message).await;
            if !sent {
                connection = self.connect(address).await;
                sent = send(&connection, &message).await;
            }
            if !sent {
                connection = None;
                self.world.sleep(RECONNECT_PAUSE).await;
            }
        }
    }

    async fn connect(&self, address: &str) -> Option<Connection> {
        let connection = self.world.connect(address).await.ok()?;
        let hello = Message::Hello { version: VERSION, host: self.host };
        connection.send(frame(&hello)).await.ok()?;
        Some(connection)
    }

    async fn receive(&self, connection: &Connection) -> Result<(), WireError> {
        let mut frames = Frames::default();
        let Message::Hello { version: VERSION, host } = frames.next(connection).await? else {
            return Err(WireError::NoMessage { bytes: 0 });
        };
        loop {
            let message = match frames.next(connection).await {
                Ok(message) => message,
                Err(WireError::Closed) => return Ok(()),
                Err(error) => return Err(error),
            };
            if self.stopped.get() {
                return Ok(());
            }
            (self.receiver)(host, message);
        }
    }
}

async fn send(connection: &Option<Connection>, message: &[u8]) -> bool {
    match connection {
        Some(connection) => connection.send(message.to_vec()).await.is_ok(),
        None => false,
    }
}

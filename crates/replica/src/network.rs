//! Connections between the hosts that have copies: one for each direction of each pair, made again whenever it breaks.
//!
//! The host that connects says its name, and the other one answers with its own. Then the first sends, the other
//! reads.
//!
//! Invariants
//! 1. Sending never waits. What cannot be sent soon is dropped: every message may be lost, and is said again by
//!    those who need it.
//! 2. A message is delivered with the name that its connection began with, and only to a host that speaks the
//!    same version. With a [`Guard`] the name is proved, in both directions.
//! 3. A connection on which something comes that is no message is closed; nothing of it has been delivered.
//! 4. A connection whose other side has not proved who it is holds one of [`STRANGERS_MAX`] places for at most
//!    [`GREETING_LIMIT`]. A source that connects more than [`GREETINGS_PER_S_MAX`] times in a second is not greeted.
//!
//! Limits: without a guard each peer is believed, and nothing is secret: that is for networks that are simulated.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use replication::HostId;

use world::channel::{UnboundedReceiver, UnboundedSender, unbounded};
use world::sync::Notify;
use world::{Connection, Duration, ErrorKind, Listener, LocalFuture, World};

use crate::wire::{Frames, Message, VERSION, WireError, frame};

/// Largest number of bytes that wait to be sent to one host.
const QUEUE_BYTES_MAX: usize = 32 << 20;
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);
/// Time for which an earlier socket may hold this host's port. The kernel closes a socket only after it has cancelled
/// the operations that wait on it, somewhat later than the network was dropped or its process ended.
const PORT_LIMIT: Duration = Duration::from_secs(10);
/// Pause between two attempts to listen.
const PORT_PAUSE: Duration = Duration::from_millis(50);
/// Time within which both sides of a connection must have proved who they are.
const GREETING_LIMIT: Duration = Duration::from_secs(3);
/// Largest number of open connections whose peer has not said which host it is.
const STRANGERS_MAX: usize = 64;
/// Largest number of connections that one address may begin in a second. A host of a drill begins fewer than six to
/// each other host. Proving an identity costs both sides a millisecond of processor time, so strangers are limited.
const GREETINGS_PER_S_MAX: u32 = 16;

/// Callback that gets each received message and the host that sent it.
pub type Receiver = Rc<dyn Fn(HostId, Message)>;

/// Authentication of connections: a connection leads to the wanted host, and no other host can read it. Error texts
/// are for people.
pub trait Guard {
    /// Secures a connection that this host opened to the address of `host`. Returns the stream to use.
    fn made(&self, connection: Connection, host: HostId) -> LocalFuture<'static, Result<Connection, String>>;
    /// Secures a connection that a peer opened to this host. Returns the stream and the peer's host.
    fn taken(&self, connection: Connection) -> LocalFuture<'static, Result<(Connection, HostId), String>>;
    /// Called each time a connection with `peer` is closed because of the peer's behaviour.
    fn refused(&self, peer: &str, why: &str);
}

struct Peer {
    queue: UnboundedSender<Vec<u8>>,
    waiting_bytes: Rc<Cell<usize>>,
}

struct Inner {
    world: World,
    host: HostId,
    addresses: BTreeMap<HostId, String>,
    guard: Option<Rc<dyn Guard>>,
    peers: RefCell<BTreeMap<HostId, Peer>>,
    receiver: Receiver,
    stopped: Cell<bool>,
    stop: Notify,
    strangers: Cell<usize>,
    /// Number of connections begun in the current second, by source address.
    greetings: RefCell<(u64, BTreeMap<String, u32>)>,
    refused: Cell<u64>,
}

/// Connections of this host to the other hosts. Dropping it closes them.
pub struct Network {
    inner: Rc<Inner>,
}

impl Network {
    /// Listens on this host's address, if it has one, and connects to the others. Peers are believed without proof.
    ///
    /// # Errors
    /// If it cannot listen there.
    pub async fn start(
        world: &World,
        host: HostId,
        addresses: BTreeMap<HostId, String>,
        receiver: Receiver,
    ) -> Result<Network, world::Error> {
        Network::open(world, host, addresses, None, receiver).await
    }

    /// As [`Network::start`], but refuses a peer that does not prove its host to `guard`.
    ///
    /// # Errors
    /// If it cannot listen there.
    pub async fn start_guarded(
        world: &World,
        host: HostId,
        addresses: BTreeMap<HostId, String>,
        guard: Rc<dyn Guard>,
        receiver: Receiver,
    ) -> Result<Network, world::Error> {
        Network::open(world, host, addresses, Some(guard), receiver).await
    }

    async fn open(
        world: &World,
        host: HostId,
        addresses: BTreeMap<HostId, String>,
        guard: Option<Rc<dyn Guard>>,
        receiver: Receiver,
    ) -> Result<Network, world::Error> {
        let listener = match addresses.get(&host) {
            Some(address) => Some(listen(world, address).await?),
            None => None,
        };
        let inner = Rc::new(Inner {
            world: world.clone(),
            host,
            addresses,
            guard,
            peers: RefCell::default(),
            receiver,
            stopped: Cell::new(false),
            stop: Notify::new(),
            strangers: Cell::new(0),
            greetings: RefCell::default(),
            refused: Cell::new(0),
        });
        if let Some(listener) = listener {
            let listening = inner.clone();
            drop(world.spawn(async move {
                while let Some(accepted) = listening.until_stopped(listener.accept()).await {
                    let Ok(connection) = accepted else {
                        // Out of descriptors, or a peer that was gone at once: neither ends the port.
                        listening.world.sleep(RECONNECT_PAUSE).await;
                        continue;
                    };
                    let receiving = listening.clone();
                    drop(listening.world.spawn(async move { receiving.serve(connection).await }));
                }
            }));
        }
        Ok(Network { inner })
    }

    /// Queues a message for a host. Drops it if the host cannot be reached soon.
    pub fn send(&self, to: HostId, message: &Message) {
        let Some(address) = self.inner.addresses.get(&to) else { return };
        let mut peers = self.inner.peers.borrow_mut();
        let peer = peers.entry(to).or_insert_with(|| {
            let (queue, waiting) = unbounded();
            let waiting_bytes = Rc::new(Cell::new(0));
            let (inner, address, counter) = (self.inner.clone(), address.clone(), waiting_bytes.clone());
            drop(
                self.inner.world.spawn(async move { inner.send_all(to, &address, waiting, &counter).await }),
            );
            Peer { queue, waiting_bytes }
        });
        let bytes = frame(message);
        if peer.waiting_bytes.get() + bytes.len() <= QUEUE_BYTES_MAX {
            peer.waiting_bytes.set(peer.waiting_bytes.get() + bytes.len());
            // It is gone only with the network.
            let _ = peer.queue.unbounded_send(bytes);
        }
    }

    /// Number of connections that were closed because of the peer's behaviour.
    pub fn refused(&self) -> u64 {
        self.inner.refused.get()
    }
}

/// Listens on the port, and waits if an earlier network of this host still holds it.
async fn listen(world: &World, address: &str) -> Result<Listener, world::Error> {
    let begun = world.now();
    loop {
        match world.listen(address).await {
            Err(error) if error.kind == ErrorKind::AlreadyExists && world.now().since(begun) < PORT_LIMIT => {
                world.sleep(PORT_PAUSE).await;
            }
            listened => return listened,
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.inner.stopped.set(true);
        self.inner.stop.notify_all();
        self.inner.peers.borrow_mut().clear();
    }
}

impl Inner {
    async fn send_all(
        &self,
        to: HostId,
        address: &str,
        mut waiting: UnboundedReceiver<Vec<u8>>,
        bytes: &Cell<usize>,
    ) {
        let mut connection: Option<Connection> = None;
        while let Some(message) = waiting.next().await {
            bytes.set(bytes.get() - message.len());
            if self.stopped.get() {
                return;
            }
            // A connection to a host that has started again breaks at the first message: that one deserves a
            // second try.
            let mut sent = send(&connection, &message).await;
            if !sent {
                connection = self.connect(to, address).await;
                sent = send(&connection, &message).await;
            }
            if !sent {
                connection = None;
                self.world.sleep(RECONNECT_PAUSE).await;
            }
        }
    }

    async fn connect(&self, to: HostId, address: &str) -> Option<Connection> {
        let greeted = within(&self.world, GREETING_LIMIT, self.greet(to, address)).await?;
        greeted.unwrap_or_else(|why| {
            self.refuse(address, &why);
            None
        })
    }

    /// Connects to a host; `None` if no host answers, an error if another host answers.
    async fn greet(&self, to: HostId, address: &str) -> Result<Option<Connection>, String> {
        let Ok(mut connection) = self.world.connect(address).await else { return Ok(None) };
        if let Some(guard) = &self.guard {
            connection = guard.made(connection, to).await?;
        }
        if connection.send(self.hello()).await.is_err() {
            return Ok(None);
        }
        let answer = match Frames::default().next(&connection).await {
            Err(WireError::Closed) => return Ok(None),
            answer => answer.map_err(|error| error.to_string())?,
        };
        greeting(&answer, Some(to))?;
        Ok(Some(connection))
    }

    fn hello(&self) -> Vec<u8> {
        frame(&Message::Hello { version: VERSION, host: self.host })
    }

    /// Reads messages of a peer that connected, until the connection ends.
    async fn serve(&self, connection: Connection) {
        let peer = connection.peer();
        if !self.greets(&peer) {
            return self.refuse(&peer, "it connects too often");
        }
        if self.strangers.get() == STRANGERS_MAX {
            return self.refuse(&peer, "too many have connected and not said who they are");
        }
        self.strangers.set(self.strangers.get() + 1);
        let welcomed = within(&self.world, GREETING_LIMIT, self.welcome(connection)).await;
        self.strangers.set(self.strangers.get() - 1);
        let heard = match welcomed {
            None => Err("it did not say in time who it is".to_owned()),
            Some(Err(why)) => Err(why),
            Some(Ok((connection, frames, host))) => self.hear(&connection, frames, host).await,
        };
        if let Err(why) = heard {
            self.refuse(&peer, &why);
        }
    }

    /// Whether the source address of a connection is below its limit of connections per second.
    fn greets(&self, peer: &str) -> bool {
        let source = peer.rsplit_once(':').map_or(peer, |(address, _)| address);
        let second = self.world.now().ns / 1_000_000_000;
        let mut greetings = self.greetings.borrow_mut();
        if greetings.0 != second {
            *greetings = (second, BTreeMap::new());
        }
        let begun = greetings.1.entry(source.to_owned()).or_default();
        *begun += 1;
        *begun <= GREETINGS_PER_S_MAX
    }

    /// Authenticates a peer that connected.
    async fn welcome(&self, connection: Connection) -> Result<(Connection, Frames, HostId), String> {
        let (connection, proved) = match &self.guard {
            Some(guard) => {
                guard.taken(connection).await.map(|(connection, host)| (connection, Some(host)))?
            }
            None => (connection, None),
        };
        let mut frames = Frames::default();
        let hello = frames.next(&connection).await.map_err(|error| error.to_string())?;
        let host = greeting(&hello, proved)?;
        connection.send(self.hello()).await.map_err(|error| error.to_string())?;
        Ok((connection, frames, host))
    }

    async fn hear(&self, connection: &Connection, mut frames: Frames, host: HostId) -> Result<(), String> {
        while let Some(received) = self.until_stopped(frames.next(connection)).await {
            match received {
                Ok(message) => (self.receiver)(host, message),
                // It will connect again.
                Err(WireError::Closed | WireError::World(_)) => break,
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    /// Waits for `future`; `None` if the network is dropped first.
    async fn until_stopped<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        if self.stopped.get() {
            return None;
        }
        match select(pin!(future), pin!(self.stop.wait())).await {
            Either::Left((done, _)) if !self.stopped.get() => Some(done),
            _ => None,
        }
    }

    fn refuse(&self, peer: &str, why: &str) {
        self.refused.set(self.refused.get() + 1);
        if let Some(guard) = &self.guard {
            guard.refused(peer, why);
        }
    }
}

/// Reads the first message of a connection, in which the peer names its host. `proved` is the host that it must be.
fn greeting(message: &Message, proved: Option<HostId>) -> Result<HostId, String> {
    match message {
        Message::Hello { version: VERSION, host } if proved.is_none_or(|proved| proved == *host) => Ok(*host),
        Message::Hello { version: VERSION, .. } => Err("it says that it is another host".to_owned()),
        Message::Hello { version, .. } => {
            Err(format!("it speaks version {version} of the protocol of copies, this host version {VERSION}"))
        }
        _ => Err("its first message does not say who it is".to_owned()),
    }
}

async fn send(connection: &Option<Connection>, message: &[u8]) -> bool {
    match connection {
        Some(connection) => connection.send(message.to_vec()).await.is_ok(),
        None => false,
    }
}

/// Waits for `future` for at most `limit`; `None` if that time is over.
async fn within<T>(world: &World, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    match select(pin!(future), pin!(world.sleep(limit))).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(_) => None,
    }
}

//! The network between hosts: byte streams with delay, loss, partition and reset.
//!
//! Invariants
//! 1. A stream delivers its bytes in order, each once; a lost segment only delays it and what follows (as TCP does).
//! 2. Nothing passes a partition, not even the news that the other side died; it goes on when the partition heals.
//! 3. A power cut resets the streams of the host: the other side first gets what was sent, then `Disconnected`.
//!
//! Limits: a segment is what one `send` gives; no bandwidth limit; a sender waits while the receiver has
//! [`WINDOW_BYTES`] to read.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::pending;
use std::rc::{Rc, Weak};

use rand_chacha::ChaCha8Rng;

use super::death::Life;
use super::executor::Sleep;
use super::host::SimHost;
use super::random::{below, chance};
use super::requests::{Failure, explain};
use super::{Core, HostId, hash_of_str};
use crate::sync::Notify;
use crate::{Duration, ErrorKind, HostConnection, HostListener, LocalFuture, Result, Time};

/// Window of a connection, bytes: a sender waits while this much is in flight or unread.
const WINDOW_BYTES: usize = 1 << 20;
const RETRANSMIT_FIRST: Duration = Duration::from_millis(200);
const RETRANSMITS_MAX: u32 = 8;
const CONNECT_RETRY: Duration = Duration::from_secs(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Operation numbers of the network in the trace, distinct from those of `OpKind`.
const TRACE_CONNECT: u64 = 64;
const TRACE_SEND: u64 = 65;

const REFUSED: Failure = (ErrorKind::Disconnected, "nobody listens");
const TIMED_OUT: Failure = (ErrorKind::Disconnected, "no answer");
const RESET: Failure = (ErrorKind::Disconnected, "the other side is gone");

/// Properties of the network link between two hosts, equal in both directions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// One-way delay.
    pub delay: Duration,
    /// Largest additional delay, evenly distributed.
    pub jitter: Duration,
    /// Probability that a segment is lost and must be sent again.
    pub loss: f64,
}

impl Default for Link {
    fn default() -> Self {
        Link { delay: Duration::from_micros(100), jitter: Duration::from_micros(50), loss: 0.0 }
    }
}

enum Segment {
    Data {
        bytes: Vec<u8>,
        taken: usize,
    },
    /// End of a stream: the sender closed its side.
    Fin,
    /// Reset: the sender lost its power.
    Reset,
}

/// One direction of a stream.
struct Pipe {
    from: HostId,
    to: HostId,
    /// Segments with their times of arrival; `None` while a partition holds one back. A segment that arrives before
    /// earlier ones waits for them.
    segments: RefCell<VecDeque<(Option<Time>, Segment)>>,
    queued_bytes: Cell<usize>,
    receiver_closed: Cell<bool>,
    /// Notified when something arrives at the receiving end. Shared with that end's own sending direction: see
    /// [`Pipe::pair`].
    arrived: Notify,
    /// Notified when the sender may send again: the window has room, or the stream was reset.
    room: Notify,
}

impl Pipe {
    /// Creates both directions of a stream. Each end has one [`Notify`], so that a sender that waits for room also
    /// learns of a reset.
    fn pair(a: HostId, b: HostId) -> (Rc<Pipe>, Rc<Pipe>) {
        let (at_a, at_b) = (Notify::new(), Notify::new());
        (Pipe::new(a, b, at_b.clone(), at_a.clone()), Pipe::new(b, a, at_a, at_b))
    }

    fn new(from: HostId, to: HostId, arrived: Notify, room: Notify) -> Rc<Pipe> {
        Rc::new(Pipe {
            from,
            to,
            segments: RefCell::default(),
            queued_bytes: Cell::new(0),
            receiver_closed: Cell::new(false),
            arrived,
            room,
        })
    }

    /// Data that can be received now: bytes, empty at the end of the stream, or `None` if there are none yet.
    fn take(&self, now: Time, limit: usize) -> Option<std::result::Result<Vec<u8>, Failure>> {
        let mut segments = self.segments.borrow_mut();
        let mut received = Vec::new();
        while let Some((arrival, segment)) = segments.front_mut() {
            if received.len() == limit || arrival.is_none_or(|at| at > now) {
                break;
            }
            match segment {
                Segment::Data { bytes, taken } => {
                    let end = bytes.len().min(*taken + limit - received.len());
                    received.extend_from_slice(&bytes[*taken..end]);
                    *taken = end;
                    if end == bytes.len() {
                        segments.pop_front();
                    }
                }
                _ if !received.is_empty() => break,
                Segment::Fin => return Some(Ok(Vec::new())),
                Segment::Reset => return Some(Err(RESET)),
            }
        }
        if received.is_empty() {
            return None;
        }
        self.queued_bytes.set(self.queued_bytes.get() - received.len());
        self.room.notify_all();
        Some(Ok(received))
    }

    fn reset_has_arrived(&self, now: Time) -> bool {
        let segments = self.segments.borrow();
        matches!(segments.back(), Some((Some(at), Segment::Reset)) if *at <= now)
    }
}

/// A listening address.
struct Listening {
    host: HostId,
    waiting: RefCell<VecDeque<Rc<SimConnection>>>,
    arrived: Notify,
}

/// Links, listeners and streams of a simulation.
pub(super) struct Network {
    default_link: Link,
    links: BTreeMap<(HostId, HostId), Link>,
    partitions: BTreeSet<(HostId, HostId)>,
    listeners: BTreeMap<String, Rc<Listening>>,
    pipes: Vec<Weak<Pipe>>,
    random: ChaCha8Rng,
}

fn pair(a: HostId, b: HostId) -> (HostId, HostId) {
    (a.min(b), a.max(b))
}

impl Network {
    pub fn new(default_link: Link, random: ChaCha8Rng) -> Network {
        Network {
            default_link,
            links: BTreeMap::new(),
            partitions: BTreeSet::new(),
            listeners: BTreeMap::new(),
            pipes: Vec::new(),
            random,
        }
    }

    pub fn set_link(&mut self, a: HostId, b: HostId, link: Link) {
        self.links.insert(pair(a, b), link);
    }

    /// Draws the one-way delay of a link, with resends after losses.
    fn draw_delay(&mut self, a: HostId, b: HostId) -> Duration {
        if a == b {
            return Duration::ZERO;
        }
        let link = self.links.get(&pair(a, b)).copied().unwrap_or(self.default_link);
        let mut delay =
            link.delay + Duration::from_nanos(below(&mut self.random, link.jitter.as_nanos() as u64 + 1));
        let mut retransmit = RETRANSMIT_FIRST;
        for _ in 0..RETRANSMITS_MAX {
            if !chance(&mut self.random, link.loss) {
                break;
            }
            delay += retransmit;
            retransmit *= 2;
        }
        delay
    }

    fn live_pipes(&self) -> Vec<Rc<Pipe>> {
        self.pipes.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Core {
    fn is_partitioned(&self, a: HostId, b: HostId) -> bool {
        self.network.borrow().partitions.contains(&pair(a, b))
    }

    /// Sends a segment, which arrives after earlier ones.
    fn dispatch(&self, pipe: &Pipe, segment: Segment) {
        let arrival = self.arrival(pipe);
        pipe.segments.borrow_mut().push_back((arrival, segment));
    }

    fn arrival(&self, pipe: &Pipe) -> Option<Time> {
        if self.is_partitioned(pipe.from, pipe.to) {
            return None;
        }
        let delay = self.network.borrow_mut().draw_delay(pipe.from, pipe.to);
        let at = self.executor.now() + delay;
        self.executor.notify_at(at, &pipe.arrived);
        Some(at)
    }

    /// Holds back everything between two hosts, also segments in flight.
    pub fn partition(&self, a: HostId, b: HostId) {
        self.network.borrow_mut().partitions.insert(pair(a, b));
        let now = self.executor.now();
        let pipes = self.network.borrow().live_pipes();
        for pipe in pipes {
            if pair(pipe.from, pipe.to) == pair(a, b) {
                let mut segments = pipe.segments.borrow_mut();
                let under_way = segments.iter_mut().filter(|(arrival, _)| arrival.is_none_or(|at| at > now));
                under_way.for_each(|(arrival, _)| *arrival = None);
            }
        }
    }

    /// Lets segments pass again, and sends those that were held back.
    pub fn heal(&self, a: HostId, b: HostId) {
        self.network.borrow_mut().partitions.remove(&pair(a, b));
        let pipes = self.network.borrow().live_pipes();
        for pipe in pipes {
            if pair(pipe.from, pipe.to) == pair(a, b) {
                let mut segments = pipe.segments.borrow_mut();
                let held = segments.iter_mut().filter(|(arrival, _)| arrival.is_none());
                held.for_each(|(arrival, _)| *arrival = self.arrival(&pipe));
                pipe.room.notify_all();
            }
        }
    }

    /// Ends the network of a host that lost its power: listeners are gone and streams are reset.
    pub fn cut_network(&self, host: HostId) {
        let (gone, pipes) = {
            let mut network = self.network.borrow_mut();
            let of_host = network.listeners.iter().filter(|(_, listening)| listening.host == host);
            let names: Vec<String> = of_host.map(|(name, _)| name.clone()).collect();
            let gone: Vec<_> = names.iter().filter_map(|name| network.listeners.remove(name)).collect();
            (gone, network.live_pipes())
        };
        drop(gone);
        for pipe in pipes {
            if pipe.from == host && pipe.to != host {
                self.dispatch(&pipe, Segment::Reset);
            }
        }
    }

    fn host_of_address(&self, address: &str) -> Option<HostId> {
        let (name, port) = address.rsplit_once(':')?;
        port.parse::<u16>().ok()?;
        self.hosts.borrow().iter().position(|host| &*host.name == name).map(|id| id as HostId)
    }

    fn is_unreachable(&self, from: HostId, to: HostId) -> bool {
        self.hosts.borrow()[to as usize].life != Life::Running || self.is_partitioned(from, to)
    }
}

async fn connect(host: Rc<SimHost>, address: &str) -> std::result::Result<Rc<dyn HostConnection>, Failure> {
    let core = &host.core;
    let to = core.host_of_address(address).ok_or((ErrorKind::NotFound, "no such host"))?;
    core.trace_operation(host.id, TRACE_CONNECT, hash_of_str(address), 0, 0);
    let deadline = core.executor.now() + CONNECT_TIMEOUT;
    loop {
        if !core.is_unreachable(host.id, to) {
            let there = core.network.borrow_mut().draw_delay(host.id, to);
            let back = core.network.borrow_mut().draw_delay(host.id, to);
            Sleep::new(core.clone(), core.executor.now() + there + back).await;
            if !core.is_unreachable(host.id, to) {
                break;
            }
        }
        if core.executor.now() >= deadline {
            return Err(TIMED_OUT);
        }
        Sleep::new(core.clone(), deadline.min(core.executor.now() + CONNECT_RETRY)).await;
    }
    let listening = core.network.borrow().listeners.get(address).cloned().ok_or(REFUSED)?;
    let (there, back) = Pipe::pair(host.id, to);
    {
        let mut network = core.network.borrow_mut();
        network.pipes.retain(|pipe| pipe.strong_count() > 0);
        network.pipes.extend([Rc::downgrade(&there), Rc::downgrade(&back)]);
    }
    let peer = core.first_shard(to);
    let theirs = SimConnection { host: peer, outbound: back.clone(), inbound: there.clone() };
    listening.waiting.borrow_mut().push_back(Rc::new(theirs));
    listening.arrived.notify_one();
    Ok(Rc::new(SimConnection { host, outbound: there, inbound: back }))
}

impl SimHost {
    pub(super) fn connect_to(
        self: Rc<Self>,
        address: &str,
    ) -> LocalFuture<'static, Result<Rc<dyn HostConnection>>> {
        let address = address.to_string();
        Box::pin(async move {
            let result = connect(self, &address).await;
            explain(result, &address, || "connect to".into())
        })
    }

    pub(super) fn listen_on(self: Rc<Self>, address: &str) -> Result<Rc<dyn HostListener>> {
        let mut network = self.core.network.borrow_mut();
        let refusal = match self.core.host_of_address(address) {
            Some(id) if id != self.id => {
                Some((ErrorKind::PermissionDenied, "the address is of another host"))
            }
            None => Some((ErrorKind::NotFound, "the address is not host:port of this host")),
            _ if network.listeners.contains_key(address) => {
                Some((ErrorKind::AlreadyExists, "somebody listens there"))
            }
            _ => None,
        };
        if let Some(refusal) = refusal {
            return explain(Err(refusal), address, || "listen on".into());
        }
        let waiting = RefCell::default();
        let listening = Rc::new(Listening { host: self.id, waiting, arrived: Notify::new() });
        network.listeners.insert(address.into(), listening.clone());
        drop(network);
        Ok(Rc::new(SimListener { host: self, address: address.into(), listening }))
    }
}

struct SimListener {
    host: Rc<SimHost>,
    address: String,
    listening: Rc<Listening>,
}

impl HostListener for SimListener {
    fn accept(&self) -> LocalFuture<'static, Result<Rc<dyn HostConnection>>> {
        let (host, listening) = (self.host.clone(), self.listening.clone());
        Box::pin(async move {
            loop {
                if !host.is_alive() {
                    pending::<()>().await;
                }
                let next = listening.waiting.borrow_mut().pop_front();
                if let Some(connection) = next {
                    return Ok(connection as Rc<dyn HostConnection>);
                }
                listening.arrived.wait().await;
            }
        })
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let mut network = self.host.core.network.borrow_mut();
        let is_mine = |listening: &Rc<Listening>| Rc::ptr_eq(listening, &self.listening);
        if network.listeners.get(&self.address).is_some_and(is_mine) {
            network.listeners.remove(&self.address);
        }
    }
}

/// One end of a stream.
struct SimConnection {
    host: Rc<SimHost>,
    outbound: Rc<Pipe>,
    inbound: Rc<Pipe>,
}

impl HostConnection for SimConnection {
    fn send(&self, bytes: Vec<u8>) -> LocalFuture<'static, Result<()>> {
        let (host, outbound, inbound) = (self.host.clone(), self.outbound.clone(), self.inbound.clone());
        let peer = self.peer();
        Box::pin(async move {
            let core = &host.core;
            loop {
                if !host.is_alive() {
                    pending::<()>().await;
                }
                let closed =
                    outbound.receiver_closed.get() && !core.is_partitioned(outbound.from, outbound.to);
                if closed || inbound.reset_has_arrived(core.executor.now()) {
                    return explain(Err(RESET), &peer, || "send to".into());
                }
                if outbound.queued_bytes.get() < WINDOW_BYTES {
                    break;
                }
                outbound.room.wait().await;
            }
            if !bytes.is_empty() {
                core.trace_operation(host.id, TRACE_SEND, outbound.to.into(), 0, bytes.len() as u64);
                outbound.queued_bytes.set(outbound.queued_bytes.get() + bytes.len());
                core.dispatch(&outbound, Segment::Data { bytes, taken: 0 });
            }
            Ok(())
        })
    }

    fn receive(&self, limit: usize) -> LocalFuture<'static, Result<Vec<u8>>> {
        let (host, inbound, peer) = (self.host.clone(), self.inbound.clone(), self.peer());
        Box::pin(async move {
            loop {
                if !host.is_alive() {
                    pending::<()>().await;
                }
                if let Some(result) = inbound.take(host.core.executor.now(), limit.max(1)) {
                    return explain(result, &peer, || "receive from".into());
                }
                inbound.arrived.wait().await;
            }
        })
    }

    fn peer(&self) -> String {
        let hosts = self.host.core.hosts.borrow();
        hosts.get(self.outbound.to as usize).map_or_else(String::new, |host| host.name.to_string())
    }
}

impl Drop for SimConnection {
    fn drop(&mut self) {
        if self.host.is_alive() {
            self.host.core.dispatch(&self.outbound, Segment::Fin);
            self.inbound.receiver_closed.set(true);
            self.inbound.room.notify_all();
        }
    }
}

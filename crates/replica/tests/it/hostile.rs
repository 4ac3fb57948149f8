//! What comes over a connection may be anything: it is refused, never believed, and never ends the host.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use replica::Network;
use replica::wire::{FRAME_BYTES_MAX, Frames, Message, VERSION, frame, parse};
use replication::{DatabaseId, HostId, LogPiece, PeerMessage, Position, checksum};
use world::real::{RealConfig, run};
use world::sim::{SimConfig, Simulation};
use world::{Duration, World};

fn messages() -> Vec<Message> {
    let bytes: Rc<[u8]> = (0..5000u32).map(|n| n as u8).collect();
    let from = Position { generation: 3, offset: 4096 };
    let piece = LogPiece { from, checksum: checksum(&bytes), bytes, closes: false, signature: 7 };
    let ship = PeerMessage::Ship {
        epoch: replication::Epoch(2),
        lineage: replication::Lineage::first().continued(replication::Epoch(2), from),
        end: from,
        log_start: 1,
        piece: Some(piece),
    };
    let list = PeerMessage::FetchPages {
        epoch: replication::Epoch(2),
        nonce: 9,
        request: replication::PageRequest::List((1..300).collect()),
        at_least: from,
    };
    let peer = |message| Message::Peer { database: DatabaseId(1), message };
    vec![Message::Hello { version: VERSION, host: HostId(1) }, peer(ship), peer(list)]
}

#[test]
fn a_message_survives_its_frame_in_any_pieces() {
    let all: Vec<u8> = messages().iter().flat_map(frame).collect();
    for step in [1, 3, 700, all.len()] {
        let (mut frames, mut found) = (Frames::default(), Vec::new());
        for piece in all.chunks(step) {
            frames.push(piece);
            while let Some(message) = frames.take().unwrap() {
                found.push(message);
            }
        }
        assert_eq!(found, messages(), "in pieces of {step}");
    }
}

#[test]
fn no_bytes_make_the_reader_panic() {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut below = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % limit
    };
    let mut refused = 0;
    for round in 0..20_000 {
        let message = &messages()[round % 3];
        let mut bytes = frame(message)[4..].to_vec();
        for _ in 0..1 + below(4) {
            match below(3) {
                0 => bytes.truncate(below(bytes.len() + 1)),
                1 => bytes.insert(below(bytes.len() + 1), below(256) as u8),
                _ if bytes.is_empty() => {}
                _ => {
                    let at = below(bytes.len());
                    bytes[at] = [0, 0xFF, below(256) as u8][below(3)];
                }
            }
        }
        refused += u32::from(parse(&bytes).is_none());
    }
    assert!(refused > 1_000, "only {refused} of 20000 were refused");
}

#[test]
fn a_frame_that_is_too_long_is_refused_before_it_has_come() {
    let mut frames = Frames::default();
    frames.push(&(FRAME_BYTES_MAX as u32 + 1).to_le_bytes());
    frames.take().unwrap_err();
}

/// The socket of a killed process or of a host without network may stay in use for a moment.
#[test]
fn a_host_waits_for_its_port_but_not_for_ever() {
    let sim = Simulation::new(1, SimConfig::default());
    let host = sim.host("h");
    sim.run_until(async {
        let addresses = BTreeMap::from([(HostId(0), "h:7000".to_owned())]);
        let start = || Network::start(&host, HostId(0), addresses.clone(), Rc::new(|_, _| ()));
        let earlier = host.listen("h:7000").await.unwrap();
        let held = host.clone();
        drop(host.spawn(async move {
            held.sleep(Duration::from_secs(3)).await;
            drop(earlier);
        }));
        let network = start().await.expect("the port is free after 3 s");
        drop(network);
        let network = start().await.expect("the port is free as soon as the network is closed");
        let refused = start().await.err().expect("another network holds the port");
        assert_eq!(refused.kind, world::ErrorKind::AlreadyExists);
        drop(network);
    });
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let again = async |world: World| {
        let addresses = BTreeMap::from([(HostId(0), free)]);
        for _ in 0..20 {
            let start = Network::start(&world, HostId(0), addresses.clone(), Rc::new(|_, _| ()));
            drop(start.await.unwrap());
        }
    };
    run(RealConfig::new("localhost"), again).unwrap();
}

#[test]
fn strangers_and_other_versions_are_not_heard() {
    let sim = Simulation::new(1, SimConfig::default());
    let (host, stranger) = (sim.host("h"), sim.host("s"));
    let heard: Rc<RefCell<Vec<(HostId, Message)>>> = Rc::default();
    let noted = heard.clone();
    sim.run_until(async {
        let addresses = BTreeMap::from([(HostId(0), "h:7000".to_owned())]);
        let receiver = Rc::new(move |from, message| noted.borrow_mut().push((from, message)));
        let network = Network::start(&host, HostId(0), addresses, receiver).await.unwrap();
        let hello = |version| Message::Hello { version, host: HostId(1) };
        let [_, ship, _] = &messages()[..] else { unreachable!("there are three") };
        let other_version = [frame(&hello(VERSION + 1)), frame(ship)].concat();
        let no_hello = frame(ship);
        let noise = vec![0x47; 100_000];
        let mut spoilt = [frame(&hello(VERSION)), frame(ship)].concat();
        // The kind of the second message.
        let at = frame(&hello(VERSION)).len() + 4;
        spoilt[at] = 0x7F;
        let whole = [frame(&hello(VERSION)), frame(ship)].concat();
        for bytes in [other_version, no_hello, noise, spoilt, whole] {
            let connection = stranger.connect("h:7000").await.unwrap();
            // A refused peer may find the connection closed while it sends.
            let _ = connection.send(bytes).await;
            stranger.sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(*heard.borrow(), [(HostId(1), ship.clone())], "only the last one is a message");
        assert_eq!(network.refused(), 4);
    });
}

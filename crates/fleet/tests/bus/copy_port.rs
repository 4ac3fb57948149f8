//! The port between hosts that have copies: members of a fleet hear each other; strangers, impostors, former
//! members, those who speak something else and those who say nothing are refused, said once each, and change
//! nothing.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use fleet::copy_port::{CopyPortError, Members};
use fleet::credentials::{Credentials, HostCertificate, certified_name, make};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use replica::wire::{Message, VERSION, frame};
use replica::{Guard, Network};
use replication::{DatabaseId, Epoch, HostId, Lineage, LogPiece, PeerMessage, Position, checksum};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use world::sim::{SimConfig, Simulation};
use world::{Connection, Duration, World};

const SECOND: Duration = Duration::from_secs(1);

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Credentials of a host that trusts `believed` and has a certificate from `issuer`.
fn credentials(believed: &Authority, issuer: &Authority, host: &str, has_expired: bool) -> Credentials {
    let mut params = CertificateParams::new([certified_name(host)]).unwrap();
    if has_expired {
        params.not_after = date_time_ymd(2020, 1, 1);
    }
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap();
    let copy_port = HostCertificate { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() };
    Credentials {
        version: evidence::FILE_VERSION,
        name: host.to_owned(),
        server: String::new(),
        seed: String::new(),
        ca_pem: believed.pem(),
        copy_port: Some(copy_port),
    }
}

fn hosts() -> BTreeMap<HostId, String> {
    [(HostId(1), "h1".to_owned()), (HostId(2), "h2".to_owned())].into()
}

fn addresses() -> BTreeMap<HostId, String> {
    hosts().into_iter().map(|(id, name)| (id, format!("{name}:7400"))).collect()
}

/// A message that fills many records.
fn big() -> Message {
    let bytes: Rc<[u8]> = (0..3_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let from = Position { generation: 3, offset: 4096 };
    let piece = LogPiece { from, checksum: checksum(&bytes), bytes, closes: false, signature: 7 };
    let message = PeerMessage::Ship {
        epoch: Epoch(2),
        lineage: Lineage::first(),
        end: from,
        log_start: 1,
        piece: Some(piece),
    };
    Message::Peer { database: DatabaseId(1), message }
}

type Heard = Rc<RefCell<Vec<(HostId, Message)>>>;
type Said = Rc<RefCell<Vec<String>>>;

/// Opens the port of a host. Returns the network, the messages that it receives, and its remarks on refused peers.
async fn open(
    world: &World,
    host: HostId,
    credentials: &Credentials,
    addresses: BTreeMap<HostId, String>,
) -> (Network, Heard, Said) {
    let (heard, said) = (Heard::default(), Said::default());
    let (noted, listed) = (heard.clone(), said.clone());
    let members =
        Members::new(credentials, &hosts(), move |text| listed.borrow_mut().push(text)).expect("usable");
    let receiver = Rc::new(move |from, message| noted.borrow_mut().push((from, message)));
    let network = Network::start_guarded(world, host, addresses, Rc::new(members), receiver).await;
    (network.expect("the port is free"), heard, said)
}

async fn wait_until(world: &World, done: impl Fn() -> bool) {
    for _ in 0..1000 {
        if done() {
            return;
        }
        world.sleep(SECOND / 100).await;
    }
    panic!("it does not come to that");
}

#[test]
fn members_hear_each_other_whole() {
    let sim = Simulation::new(1, SimConfig::default());
    let (one, two) = (sim.host("h1"), sim.host("h2"));
    let authority = authority();
    let of = |host| credentials(&authority, &authority, host, false);
    sim.run_until(async {
        let (at_one, heard_by_one, said_by_one) = open(&one, HostId(1), &of("h1"), addresses()).await;
        let (at_two, heard_by_two, said_by_two) = open(&two, HostId(2), &of("h2"), addresses()).await;
        for _ in 0..3 {
            at_one.send(HostId(2), &big());
        }
        at_two.send(HostId(1), &big());
        wait_until(&one, || heard_by_two.borrow().len() == 3 && heard_by_one.borrow().len() == 1).await;
        assert!(heard_by_two.borrow().iter().all(|heard| *heard == (HostId(1), big())));
        assert_eq!(*heard_by_one.borrow(), [(HostId(2), big())]);
        assert!(said_by_one.borrow().is_empty() && said_by_two.borrow().is_empty());
    });
}

/// As the test above, over real sockets and with the files that an operator gets.
#[test]
fn credentials_of_a_fleet_open_the_port_on_a_real_network() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = folder.path().join("fleet");
    make(&fleet, &["h1".to_owned(), "h2".to_owned()], "127.0.0.1:4222").unwrap();
    let of = |host: &str| Credentials::read(&fleet.join(format!("agents/{host}.toml"))).unwrap();
    let controller = Credentials::read(&fleet.join("controller.toml")).unwrap();
    assert!(matches!(Members::new(&controller, &hosts(), drop), Err(CopyPortError::NoCertificate(_))));
    let (one, two) = (of("h1"), of("h2"));
    world::real::run(world::real::RealConfig::new("h"), |world| async move {
        // Ports that are free now.
        let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let addresses = BTreeMap::from([(HostId(1), free()), (HostId(2), free())]);
        let (at_one, heard_by_one, _) = open(&world, HostId(1), &one, addresses.clone()).await;
        let (at_two, heard_by_two, said) = open(&world, HostId(2), &two, addresses.clone()).await;
        at_one.send(HostId(2), &big());
        at_two.send(HostId(1), &big());
        wait_until(&world, || !heard_by_one.borrow().is_empty() && !heard_by_two.borrow().is_empty()).await;
        assert_eq!(*heard_by_two.borrow(), [(HostId(1), big())]);

        let stranger = world.connect(&addresses[&HostId(2)]).await.unwrap();
        stranger.send(b"GET / HTTP/1.1\r\n\r\n".to_vec()).await.unwrap();
        wait_until(&world, || !said.borrow().is_empty()).await;
        assert_eq!(*said.borrow(), ["copy port: refused 127.0.0.1: it does not speak TLS"]);

        // A host whose copies are taken down and up again finds its port free.
        drop(at_two);
        world.sleep(SECOND / 10).await;
        let (_at_two, heard, _) = open(&world, HostId(2), &two, addresses).await;
        for _ in 0..20 {
            at_one.send(HostId(2), &big());
            world.sleep(SECOND / 20).await;
        }
        wait_until(&world, || !heard.borrow().is_empty()).await;
    })
    .unwrap();
}

/// Speaks TLS as far as the server lets it, without a certificate.
async fn shake_hands_without_a_certificate(plain: &Connection, believed: &Authority) {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(believed.pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(certified_name("h1")).unwrap();
    let mut tls = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    loop {
        let mut records = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut records).unwrap();
        }
        if plain.send(records).await.is_err() {
            return;
        }
        let Ok(sealed) = plain.receive(1 << 16).await else { return };
        let mut sealed = &sealed[..];
        if sealed.is_empty() {
            return;
        }
        while !sealed.is_empty() {
            tls.read_tls(&mut sealed).unwrap();
            if tls.process_new_packets().is_err() {
                return;
            }
        }
    }
}

/// Reasons for which a stranger is refused, each with the number of the attempt.
fn attempts() -> Vec<(String, usize)> {
    let other = VERSION + 1;
    let whys = [
        "it does not speak TLS".to_owned(),
        "it did not say in time who it is".to_owned(),
        "it did not say in time who it is".to_owned(),
        "it shows no certificate".to_owned(),
        "its certificate is not of this fleet".to_owned(),
        "its certificate is not valid now: compare the calendars, or make new credentials".to_owned(),
        "it is of this fleet, but no host of this run".to_owned(),
        "it says that it is another host".to_owned(),
        format!("it speaks version {other} of the protocol of copies, this host version {VERSION}"),
        "its first message does not say who it is".to_owned(),
        "a frame of 9 bytes is no message".to_owned(),
        "a frame of 4294967295 bytes is no message".to_owned(),
    ];
    whys.into_iter().zip(0..).collect()
}

#[test]
fn whoever_is_no_member_is_refused_and_it_is_said_once() {
    let sim = Simulation::new(1, SimConfig::default());
    let (one, stranger) = (sim.host("h1"), sim.host("s"));
    let (ours, theirs) = (authority(), authority());
    sim.run_until(async {
        let (at_one, heard, said) =
            open(&one, HostId(1), &credentials(&ours, &ours, "h1", false), addresses()).await;
        let hello = |host| frame(&Message::Hello { version: VERSION, host });
        let connect = async || stranger.connect("h1:7400").await.unwrap();
        let secured = async |credentials: &Credentials| {
            let members = Members::new(credentials, &hosts(), drop).unwrap();
            members.made(connect().await, HostId(1)).await
        };
        for (why, kind) in attempts() {
            let before = (at_one.refused(), said.borrow().len());
            for _ in 0..2 {
                let speak = async |credentials: Credentials, bytes: Vec<u8>| {
                    // A refused peer may find out while it still speaks.
                    if let Ok(connection) = secured(&credentials).await {
                        let _ = connection.send(bytes).await;
                        stranger.sleep(SECOND).await;
                    }
                };
                let member = |host: &str| credentials(&ours, &ours, host, false);
                let greeted = |bytes: &[u8]| [hello(HostId(2)), bytes.to_vec()].concat();
                match kind {
                    0 => connect().await.send(b"GET / HTTP/1.1\r\n\r\n".to_vec()).await.unwrap(),
                    // Nothing; and the beginning of a greeting.
                    1 | 2 => {
                        let silent = connect().await;
                        if kind == 2 {
                            silent.send(vec![0x16, 3, 1, 2, 0, 1, 0]).await.unwrap();
                        }
                        stranger.sleep(SECOND * 4).await;
                    }
                    3 => shake_hands_without_a_certificate(&connect().await, &ours).await,
                    4 => speak(credentials(&ours, &theirs, "h2", false), hello(HostId(2))).await,
                    5 => speak(credentials(&ours, &ours, "h2", true), hello(HostId(2))).await,
                    6 => speak(member("h3"), hello(HostId(2))).await,
                    7 => speak(member("h2"), hello(HostId(1))).await,
                    8 => {
                        let other = Message::Hello { version: VERSION + 1, host: HostId(2) };
                        speak(member("h2"), frame(&other)).await;
                    }
                    9 => speak(member("h2"), frame(&big())).await,
                    10 => speak(member("h2"), greeted(&[9, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7, 7])).await,
                    _ => speak(member("h2"), greeted(&[0xFF; 40])).await,
                }
                stranger.sleep(SECOND).await;
            }
            assert_eq!(at_one.refused(), before.0 + 2, "{why}");
            let expected = format!("copy port: refused s: {why}");
            let new = if kind == 2 { 0 } else { 1 };
            assert_eq!(said.borrow().len(), before.1 + new, "{why}: said once: {:?}", said.borrow());
            assert!(said.borrow().contains(&expected), "{why}: {:?}", said.borrow());
        }
        assert!(heard.borrow().is_empty(), "nothing of it was delivered");
    });
}

/// Checking a certificate costs processor time, so the number of attempts per source and second is limited.
#[test]
fn a_source_that_connects_without_end_is_greeted_a_few_times_a_second_and_members_need_not_wait_for_it() {
    let sim = Simulation::new(1, SimConfig::default());
    let (one, two, stranger) = (sim.host("h1"), sim.host("h2"), sim.host("s"));
    let ours = authority();
    sim.run_until(async {
        let (at_one, heard, said) =
            open(&one, HostId(1), &credentials(&ours, &ours, "h1", false), addresses()).await;
        let (mut silent, refused) = (Vec::new(), at_one.refused());
        for _ in 0..80 {
            silent.push(stranger.connect("h1:7400").await.unwrap());
        }
        stranger.sleep(SECOND / 100).await;
        assert_eq!(at_one.refused() - refused, 64, "the others are closed without a greeting");
        let often = "copy port: refused s: it connects too often".to_owned();
        assert!(said.borrow().contains(&often), "{:?}", said.borrow());
        let member = credentials(&ours, &ours, "h2", false);
        let (at_two, _, _) = open(&two, HostId(2), &member, addresses()).await;
        at_two.send(HostId(1), &big());
        wait_until(&two, || !heard.borrow().is_empty()).await;
        assert_eq!(*heard.borrow(), [(HostId(2), big())], "a member is heard as before");
    });
}

#[test]
fn nothing_is_sent_to_a_host_that_is_not_the_one_that_it_should_be() {
    let sim = Simulation::new(1, SimConfig::default());
    let (one, two) = (sim.host("h1"), sim.host("h2"));
    let (ours, theirs) = (authority(), authority());
    for (why, impostor) in [
        ("its certificate is of another host", credentials(&ours, &ours, "h3", false)),
        ("its certificate is not of this fleet", credentials(&ours, &theirs, "h2", false)),
    ] {
        sim.run_until(async {
            let own = credentials(&ours, &ours, "h1", false);
            let (at_one, _, said) = open(&one, HostId(1), &own, addresses()).await;
            let (_at_two, heard, _) = open(&two, HostId(2), &impostor, addresses()).await;
            at_one.send(HostId(2), &big());
            wait_until(&one, || !said.borrow().is_empty()).await;
            assert_eq!(*said.borrow(), [format!("copy port: refused h2: {why}")]);
            assert!(heard.borrow().is_empty());
        });
    }
}

//! A healthy copy hears a member that lies, and then an active copy that lies. Its files stay byte for byte
//! what they were, each lie is refused by name, and the copy goes on with those that tell the truth.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use edb::identity::LogTime;
use edb::log::{LogBuilder, RecordChain, SEGMENT_BYTES};
use engine::{Durability, Instance};
use replica::wire::Message;
use replica::{Guard, Links, Network, Replica, ReplicaConfig};
use replication::{
    ActivationPolicy, Boot, CopySpec, DatabaseId, DatabaseSpec, Dial, Epoch, Event, FromArbiter, Health,
    HostId, Lineage, LogPiece, PageCopy, PeerMessage, Planted, Position, Report, SiteId, Timing, ToArbiter,
    checksum,
};
use smallvec::smallvec;
use world::{Duration, OpenMode, PageBuf, World};

use crate::common::{config_below, create_below, tree_number};

const DATABASE: DatabaseId = DatabaseId(0);
const ACTIVE: HostId = HostId(1);
const HEALTHY: HostId = HostId(2);
const LIAR: HostId = HostId(3);
const SIGNATURE: u64 = 0x5eed;
const MS: Duration = Duration::from_millis(1);

/// World, addresses and guard of the scenario: simulated or real.
pub struct Ground {
    /// World of each host, and the folder of its copy.
    pub hosts: BTreeMap<HostId, (World, String)>,
    pub addresses: BTreeMap<HostId, String>,
    /// Guard of each host, which proves the identity of peers.
    pub guard: Rc<dyn Fn(HostId) -> Option<Rc<dyn Guard>>>,
}

/// Times of a group of copies that fails over within a few seconds.
pub fn timing() -> Timing {
    Timing {
        lease_ms: 600,
        renew_ms: 150,
        drift_ppm: 1_000,
        detect_ms: 400,
        report_ms: 100,
        collect_ms: 300,
        catch_up_ms: 1_500,
        mount_ms: 1_500,
        drain_ms: 1_000,
        resend_ms: 120,
        partner_patience_ms: 400,
        move_back_ms: None,
    }
}

fn spec() -> Rc<DatabaseSpec> {
    let copy = |host: HostId| CopySpec {
        host,
        site: SiteId(0),
        preference: host.0.into(),
        activation: ActivationPolicy::Unrestricted,
        replay_lag_ms: 0,
        truncation_lag_ms: 0,
    };
    Rc::new(DatabaseSpec {
        id: DATABASE,
        dial: Dial::GoodAvailability,
        copies: [ACTIVE, HEALTHY, LIAR].map(copy).to_vec(),
        run_ahead_generations: 1_000,
        partner_in_other_site: false,
        signature: SIGNATURE,
        circular_logging: true,
        planted: Planted::default(),
        timing: timing(),
    })
}

/// A lie: its name, the message, and the event with which the copy refuses it. `None`: a gap in the log, which the
/// network could have caused.
type Lie = (&'static str, PeerMessage, Option<Event>);
type Port = Rc<RefCell<Option<Network>>>;

struct Honest {
    replica: Rc<Replica>,
    port: Port,
    said: Rc<RefCell<Vec<ToArbiter>>>,
}

struct HonestLinks {
    port: Port,
    said: Rc<RefCell<Vec<ToArbiter>>>,
}

impl Links for HonestLinks {
    fn to_arbiter(&self, message: ToArbiter) {
        self.said.borrow_mut().push(message);
    }

    fn to_peer(&self, host: HostId, message: PeerMessage) {
        if let Some(network) = &*self.port.borrow() {
            network.send(host, &Message::Peer { database: DATABASE, message });
        }
    }
}

struct Scenario<'a> {
    ground: &'a Ground,
    honest: BTreeMap<HostId, Honest>,
    epoch: Cell<Epoch>,
    rows: Cell<u32>,
}

impl Scenario<'_> {
    fn world(&self, host: HostId) -> &World {
        &self.ground.hosts[&host].0
    }

    async fn open_port(&self, host: HostId, hear: impl Fn(HostId, PeerMessage) + 'static) -> Network {
        let receiver = Rc::new(move |from, message| {
            if let Message::Peer { message, .. } = message {
                hear(from, message);
            }
        });
        let (world, addresses) = (self.world(host), self.ground.addresses.clone());
        let opened = match (self.ground.guard)(host) {
            Some(guard) => Network::start_guarded(world, host, addresses, guard, receiver).await,
            None => Network::start(world, host, addresses, receiver).await,
        };
        opened.expect("the port is free")
    }

    async fn start(&mut self, host: HostId, boot: u32) {
        let (world, root) = &self.ground.hosts[&host];
        let mut instance = config_below(root, 1);
        instance.cache_bytes_per_database = 16 << 20;
        // Nothing is written to the files of a copy without a reason.
        let config = ReplicaConfig { instance, tick: MS * 20, checkpoint_every: MS * 3_600_000 };
        let (port, said) = (Port::default(), Rc::default());
        let links = Rc::new(HonestLinks { port: port.clone(), said: Rc::clone(&said) });
        let replica =
            Replica::start(world, spec(), host, Boot(boot), config, links).await.expect("it starts");
        let replica = Rc::new(replica);
        let to = Rc::downgrade(&replica);
        let network = self.open_port(host, move |from, message| {
            if let Some(replica) = to.upgrade() {
                replica.from_peer(from, message);
            }
        });
        *port.borrow_mut() = Some(network.await);
        self.honest.insert(host, Honest { replica, port, said });
    }

    /// Answers like an arbiter that has chosen [`ACTIVE`], until `done` returns true.
    async fn until(&self, what: &str, done: impl Fn() -> bool) {
        for _ in 0..1_500 {
            if done() {
                return;
            }
            self.answer_all();
            self.world(HEALTHY).sleep(MS * 20).await;
        }
        let states: Vec<_> = self.honest.values().map(|copy| copy.replica.status()).collect();
        panic!("{what}: {states:?}");
    }

    fn answer_all(&self) {
        let epoch = self.epoch.get();
        for (host, copy) in &self.honest {
            for message in copy.said.take() {
                match message {
                    ToArbiter::Report(report) if report.promised < epoch => {
                        copy.replica.from_arbiter(FromArbiter::Fence { epoch });
                    }
                    ToArbiter::Report(report) if *host == ACTIVE && report.lineage.epoch() < epoch => {
                        copy.replica.from_arbiter(FromArbiter::Activate { epoch });
                    }
                    ToArbiter::Renewal(renewal) => copy.replica.from_arbiter(FromArbiter::Granted {
                        epoch: renewal.epoch,
                        sequence: renewal.sequence,
                        asked_at_ms: renewal.asked_at_ms,
                        lease_ms: 3_600_000,
                        generation: renewal.generation,
                        partner: None,
                    }),
                    _ => {}
                }
            }
        }
    }

    fn status(&self, host: HostId) -> replica::Status {
        self.honest[&host].replica.status()
    }

    /// Lets users commit on the active copy until the healthy copy has followed to the end.
    async fn commit_and_follow(&self) {
        self.until("a copy is active", || self.honest[&ACTIVE].replica.instance().is_some()).await;
        let instance = self.honest[&ACTIVE].replica.instance().expect("just seen");
        for _ in 0..200 {
            self.rows.set(self.rows.get() + 1);
            let committing = commit(&instance, self.rows.get());
            committing.await.expect("it is open");
        }
        drop(instance);
        self.until("the healthy copy follows", || {
            let (active, healthy) = (self.status(ACTIVE).report, self.status(HEALTHY).report);
            let is_whole = healthy.health == Health::Healthy && healthy.mountable;
            is_whole && healthy.end == active.end && healthy.replayed == active.end
        })
        .await;
        // What was on its way has come.
        self.world(HEALTHY).sleep(MS * 300).await;
        self.answer_all();
    }

    /// Contents of all files of the healthy copy.
    async fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let (world, root) = &self.ground.hosts[&HEALTHY];
        let mut files = BTreeMap::new();
        for folder in ["db", "log"] {
            for entry in world.list(&format!("{root}/{folder}")).await.expect("it is there") {
                let path = format!("{root}/{folder}/{}", entry.name);
                let mut bytes = Vec::new();
                if entry.bytes > 0 {
                    let file = world.open(&path, OpenMode::Read).await.expect("it is there");
                    let (read, bufs) = file.read_at(0, smallvec![PageBuf::empty(entry.bytes as usize)]).await;
                    read.expect("readable");
                    bytes.extend_from_slice(bufs[0].as_slice());
                }
                files.insert(path, bytes);
            }
        }
        files
    }

    /// Sends each lie to the healthy copy from host `from`, three times. Returns the failures.
    async fn tell(&self, network: &Network, from: HostId, lies: Vec<Lie>) -> Vec<String> {
        let mut wrong = Vec::new();
        for (name, message, event) in lies {
            let (before, report) = (self.files().await, self.status(HEALTHY).report);
            self.honest[&HEALTHY].replica.take_events();
            for _ in 0..3 {
                network.send(HEALTHY, &Message::Peer { database: DATABASE, message: message.clone() });
                self.world(HEALTHY).sleep(MS * 200).await;
                self.answer_all();
            }
            let status = self.status(HEALTHY);
            // How much longer its log is, the active copy alone can say.
            let copy_queue = status.report.copy_queue;
            if status.failure.is_some() || status.report != (Report { copy_queue, ..report.clone() }) {
                wrong.push(format!("{name}, told by {from:?}: {status:?}, before {report:?}"));
            }
            let refused: Vec<Event> =
                self.honest[&HEALTHY].replica.take_events().into_iter().map(|(_, event)| event).collect();
            let expected = event.map_or(Vec::new(), |event| vec![event; 3]);
            if refused != expected {
                wrong.push(format!("{name}, told by {from:?}: {refused:?} instead of {expected:?}"));
            }
            if self.files().await != before {
                wrong.push(format!("{name}, told by {from:?}, changed the files"));
            }
        }
        wrong
    }

    /// Lies of a member that is not the active copy.
    fn lies_of_a_member(&self) -> Vec<Lie> {
        let (from, epoch) = (LIAR, self.epoch.get());
        let healthy = self.status(HEALTHY).report;
        let offer = |epoch: Epoch, lineage: Lineage, log_start: u32, piece: Option<LogPiece>| {
            PeerMessage::Ship { epoch, lineage, end: healthy.end, log_start, piece }
        };
        let same = healthy.lineage.clone();
        let later = Epoch(epoch.0 + 7);
        let forged = forged_segment(healthy.end);
        let pages: Rc<[PageCopy]> = [PageCopy { page: 5, bytes: vec![7; 4096].into() }].into();
        let (next, position) = (None, healthy.end);
        let second = Some(Event::SecondActiveRefused { from });
        vec![
            (
                "an epoch that is over",
                offer(Epoch(0), Lineage::first(), 1, None),
                Some(Event::StaleEpochRefused),
            ),
            (
                "an epoch that no arbiter gave",
                offer(later, same.continued(later, Position::START), 1, None),
                Some(Event::UnknownEpochRefused { from }),
            ),
            (
                "that it has promised the last epoch there is",
                PeerMessage::Rejected { promised: Epoch(u32::MAX) },
                Some(Event::UnknownEpochRefused { from }),
            ),
            ("log of this epoch", offer(epoch, same.clone(), 1, Some(forged)), second),
            (
                "another history",
                offer(epoch, Lineage::first().continued(epoch, Position::START), 1, None),
                second,
            ),
            ("that all log is gone", offer(epoch, same.clone(), healthy.end.generation, None), second),
            (
                "pages that nobody asked for",
                PeerMessage::Pages { epoch, nonce: 1, pages, next, position },
                Some(Event::PagesRefused { from }),
            ),
            (
                "the beginning of another database",
                PeerMessage::SeedStart { epoch, nonce: 1, lineage: Lineage::first(), generation: 1 },
                Some(Event::SeedRefused { from }),
            ),
        ]
    }

    /// Lies of the host of the active copy.
    async fn lies_of_the_active_copy(&self) -> Vec<Lie> {
        let (from, epoch) = (ACTIVE, self.epoch.get());
        let report = self.status(HEALTHY).report;
        let (end, lineage) = (report.end, report.lineage);
        let ship = |piece: LogPiece| PeerMessage::Ship {
            epoch,
            lineage: lineage.clone(),
            end: piece.end().max(end),
            log_start: 1,
            piece: Some(piece),
        };
        let good = forged_segment(end);
        let replayed = self.segment_before(end).await;
        let with =
            |bytes: Vec<u8>| LogPiece { checksum: checksum(&bytes), bytes: bytes.into(), ..good.clone() };
        let half = good.bytes[..SEGMENT_BYTES / 2].to_vec();
        let mut torn = good.bytes.to_vec();
        torn[SEGMENT_BYTES / 2] ^= 0x10;
        let next_generation = Position::of_generation(end.generation + 1);
        let log = Some(Event::LogRefused { from });
        let refused = Some(Event::ForeignPieceRefused { from });
        vec![
            ("log of another database", ship(LogPiece { signature: SIGNATURE + 1, ..good.clone() }), refused),
            (
                "log that was damaged on the way",
                ship(LogPiece { checksum: 1, ..good.clone() }),
                Some(Event::PieceRefused),
            ),
            ("log of an earlier place", ship(with(replayed)), log),
            ("half a segment", ship(with(half)), log),
            ("a changed byte", ship(with(torn)), log),
            ("that its log ends here", ship(LogPiece { closes: true, ..good.clone() }), log),
            ("records that do not follow those before", ship(good.clone()), log),
            ("log of the next generation", ship(forged_segment(next_generation)), None),
            (
                "that it begins behind its own end",
                PeerMessage::Ship { epoch, lineage: lineage.clone(), end, log_start: u32::MAX, piece: None },
                log,
            ),
        ]
    }

    /// Last segment of the log before `end`, from the file.
    async fn segment_before(&self, end: Position) -> Vec<u8> {
        let at = end.offset as usize - SEGMENT_BYTES;
        let generations = self.files().await;
        let open = generations.iter().filter(|(path, bytes)| path.contains("/log/") && bytes.len() > at);
        let newest =
            open.max_by_key(|(_, bytes)| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], 0]));
        newest.expect("there is log").1[at..at + SEGMENT_BYTES].to_vec()
    }
}

/// Intact log segment for the position `from` whose records do not follow those before it.
fn forged_segment(from: Position) -> LogPiece {
    let (config, segment) = (config_below("", 1), from.offset / SEGMENT_BYTES as u32);
    let segments = (config.log_bytes / SEGMENT_BYTES as u32) as u16;
    let mut builder =
        LogBuilder::new(from.generation, (segment as u16).max(1), segments, RecordChain::default());
    builder.append(b"a lie", LogTime::default());
    builder.seal();
    let mut forged = builder.take_full().remove(0);
    forged.stamp(forged.position.segment());
    let bytes: Rc<[u8]> = forged.bytes.to_vec().into();
    LogPiece { from, checksum: checksum(&bytes), bytes, closes: false, signature: SIGNATURE }
}

async fn commit(instance: &Instance, row: u32) -> engine::Result<()> {
    let mut transaction = instance.begin();
    transaction.insert(1, tree_number(0), &row.to_be_bytes(), &[row as u8; 200]).await?;
    transaction.commit(Durability::Durable).await
}

/// The whole scenario.
pub async fn liars_change_nothing(ground: &Ground) {
    let (epoch, rows) = (Cell::new(Epoch(1)), Cell::new(0));
    let mut scenario = Scenario { ground, honest: BTreeMap::new(), epoch, rows };
    let (world, root) = &ground.hosts[&ACTIVE];
    let config = create_below(world, root, 1, 1).await;
    Replica::create(world, &config).await.expect("a new database");
    scenario.start(ACTIVE, 1).await;
    scenario.start(HEALTHY, 1).await;
    scenario.commit_and_follow().await;

    let liar = scenario.open_port(LIAR, |_, _| {}).await;
    let wrong = scenario.tell(&liar, LIAR, scenario.lies_of_a_member()).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    liar.send(
        ACTIVE,
        &Message::Peer { database: DATABASE, message: PeerMessage::Rejected { promised: Epoch(u32::MAX) } },
    );
    world.sleep(MS * 300).await;
    assert_eq!(scenario.status(ACTIVE).active_in, Some(Epoch(1)), "a member cannot depose the active copy");
    scenario.commit_and_follow().await;

    // The host of the active copy is another one now.
    scenario.honest.remove(&ACTIVE).expect("it was there").port.take();
    world.sleep(MS * 300).await;
    let liar_in_its_place = scenario.open_port(ACTIVE, |_, _| {}).await;
    let lies = scenario.lies_of_the_active_copy().await;
    let wrong = scenario.tell(&liar_in_its_place, ACTIVE, lies).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    drop(liar_in_its_place);
    world.sleep(MS * 300).await;

    // An honest one is there again, in the next epoch.
    scenario.epoch.set(Epoch(2));
    scenario.start(ACTIVE, 2).await;
    scenario.commit_and_follow().await;
}

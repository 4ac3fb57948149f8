//! What an agent does for a run with copies: its databases' copies over one port, and commits on those that are
//! active here.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use engine::{Durability, Instance, InstanceConfig};
use fleet::agent::HostWork;
use fleet::arbiter::{ArbiterLink, Speaker};
use fleet::copy_port::Members;
use fleet::credentials::Credentials;
use fleet::message::{Assignment, Ended, Look};
use fleet::run_control::RunControl;
use replica::wire::Message;
use replica::{Links, Network, Replica, ReplicaConfig};
use replication::{
    ActivationPolicy, Boot, CopySpec, DatabaseId, DatabaseSpec, Dial, HostId, PeerMessage, Planted, SiteId,
    Timing, ToArbiter,
};
use world::World;
use world::real::{self, RealConfig};

use super::board::Board;
use crate::common::{config_below, create_below, tree_number};

pub const MS: Duration = Duration::from_millis(1);

/// Protocol times that are long enough for a busy test machine.
const TIMING: Timing = Timing {
    lease_ms: 2_500,
    renew_ms: 400,
    drift_ppm: 1_000,
    detect_ms: 2_000,
    report_ms: 300,
    collect_ms: 2_000,
    catch_up_ms: 5_000,
    mount_ms: 10_000,
    drain_ms: 3_000,
    resend_ms: 300,
    partner_patience_ms: 1_500,
    move_back_ms: None,
};

/// Databases of a solution text: one line for each, with the numbers of the hosts that hold copies, the preferred one
/// first.
pub fn databases(solution: &str) -> Vec<DatabaseSpec> {
    let copy = |(preference, host): (u32, &str)| CopySpec {
        host: HostId(host.parse().expect("a number")),
        site: SiteId(0),
        preference,
        activation: ActivationPolicy::Unrestricted,
        replay_lag_ms: 0,
        truncation_lag_ms: 0,
    };
    let database = |(id, line): (u16, &str)| DatabaseSpec {
        id: DatabaseId(id),
        dial: Dial::Lossless,
        copies: (1..).zip(line.split(' ')).map(copy).collect(),
        run_ahead_generations: 2,
        partner_in_other_site: false,
        signature: 0x5eed + u64::from(id),
        circular_logging: true,
        planted: Planted::default(),
        timing: TIMING,
    };
    (0..).zip(solution.lines()).map(database).collect()
}

pub fn hosts(count: u16) -> BTreeMap<HostId, String> {
    (1..=count).map(|host| (HostId(host), format!("h{host}"))).collect()
}

pub fn instance(root: &str, database: DatabaseId) -> InstanceConfig {
    let mut config = config_below(&format!("{root}/{}", database.0), 1);
    config.cache_bytes_per_database = 16 << 20;
    config
}

pub struct CopyWork {
    pub host: HostId,
    pub root: String,
    pub credentials: Credentials,
    pub addresses: BTreeMap<HostId, String>,
    pub board: Board,
}

type Replicas = BTreeMap<DatabaseId, Rc<Replica>>;

struct CopyLinks {
    database: DatabaseId,
    speaker: Speaker,
    network: Rc<RefCell<Option<Network>>>,
}

impl Links for CopyLinks {
    fn to_arbiter(&self, message: ToArbiter) {
        self.speaker.say(message);
    }

    fn to_peer(&self, host: HostId, message: PeerMessage) {
        if let Some(network) = &*self.network.borrow() {
            network.send(host, &Message::Peer { database: self.database, message });
        }
    }
}

impl HostWork for CopyWork {
    fn prepare(&self, _assignment: &Assignment) -> Result<Look, String> {
        Ok(Look::default())
    }

    fn run(
        &self,
        assignment: &Assignment,
        folder: &Path,
        control: &RunControl,
        arbiter: ArbiterLink,
    ) -> (Ended, Option<String>) {
        let has_copy = |spec: &DatabaseSpec| spec.copy_on(self.host).is_some();
        let specs: Vec<DatabaseSpec> = databases(&assignment.solution).into_iter().filter(has_copy).collect();
        for spec in &specs {
            for part in ["db", "log"] {
                std::fs::create_dir_all(format!("{}/{}/{part}", self.root, spec.id.0)).expect("writable");
            }
        }
        let config = RealConfig { direct: false, shards: 1, ..RealConfig::new(&self.root) };
        real::run(config, |world| self.serve(world, specs, control, arbiter)).expect("an event queue");
        std::fs::write(folder.join("over"), "").expect("writable");
        (Ended::Passed, None)
    }
}

impl CopyWork {
    async fn serve(
        &self,
        world: World,
        specs: Vec<DatabaseSpec>,
        control: &RunControl,
        mut arbiter: ArbiterLink,
    ) {
        for spec in specs.iter().filter(|spec| spec.copies[0].host == self.host) {
            create_below(&world, &format!("{}/{}", self.root, spec.id.0), 1, 1).await;
            Replica::create(&world, &instance(&self.root, spec.id)).await.expect("a new database");
        }
        let current: Rc<RefCell<Replicas>> = Rc::default();
        let (hearing, speaker) = (current.clone(), arbiter.speaker());
        drop(world.spawn(async move {
            while let Some((database, message)) = arbiter.hear().await {
                let replica = hearing.borrow().get(&database).cloned();
                if let Some(replica) = replica {
                    replica.from_arbiter(message);
                }
            }
        }));
        let network: Rc<RefCell<Option<Network>>> = Rc::default();
        let (mut boot, rows) = (0, Rc::new(Cell::new(u32::from(self.host.0) << 24)));
        while control.stop_asked().is_none() {
            let is_dead = self.board.is_wanted(&format!("dead-{}", self.host.0));
            if is_dead {
                current.take();
                network.take();
            } else if network.borrow().is_none() {
                boot += 1;
                for spec in &specs {
                    let replica = self.start(&world, spec, Boot(boot), speaker.clone(), &network).await;
                    self.commit_in_turn(&world, spec.id, &replica, &rows);
                    current.borrow_mut().insert(spec.id, replica);
                }
                let open = self.open_port(&world, &current).await;
                *network.borrow_mut() = Some(open);
            }
            for replica in current.borrow().values() {
                let status = replica.status();
                assert_eq!(status.failure, None, "{:?}", self.host);
                self.board.is_at(&status.report);
            }
            world.sleep(MS * 50).await;
        }
        current.take();
        network.take();
        // Files are closed before the run is over.
        world.sleep(MS * 300).await;
    }

    async fn open_port(&self, world: &World, current: &Rc<RefCell<Replicas>>) -> Network {
        let to = Rc::downgrade(current);
        let receiver = Rc::new(move |from, message| {
            let Message::Peer { database, message } = message else { return };
            let replica = to.upgrade().and_then(|replicas| replicas.borrow().get(&database).cloned());
            if let Some(replica) = replica {
                replica.from_peer(from, message);
            }
        });
        let known = hosts(self.addresses.len() as u16);
        let members = Members::new(&self.credentials, &known, told).expect("made");
        let addresses = self.addresses.clone();
        let network = Network::start_guarded(world, self.host, addresses, Rc::new(members), receiver).await;
        network.expect("the port is free")
    }

    async fn start(
        &self,
        world: &World,
        spec: &DatabaseSpec,
        boot: Boot,
        speaker: Speaker,
        network: &Rc<RefCell<Option<Network>>>,
    ) -> Rc<Replica> {
        let links = Rc::new(CopyLinks { database: spec.id, speaker, network: network.clone() });
        let instance = instance(&self.root, spec.id);
        let config = ReplicaConfig { instance, tick: MS * 20, checkpoint_every: MS * 700 };
        let replica = Replica::start(world, Rc::new(spec.clone()), self.host, boot, config, links).await;
        Rc::new(replica.expect("it starts"))
    }

    /// Commits durably, one commit after the other, while the copy is mounted.
    fn commit_in_turn(
        &self,
        world: &World,
        database: DatabaseId,
        replica: &Rc<Replica>,
        rows: &Rc<Cell<u32>>,
    ) {
        let (replica, paused, rows) = (Rc::downgrade(replica), world.clone(), rows.clone());
        let (board, host) = (self.board.clone(), self.host);
        drop(world.spawn(async move {
            while let Some(copy) = replica.upgrade() {
                let instance = copy.instance().filter(|_| !board.is_wanted("quiet"));
                if let Some(instance) = instance {
                    let row = rows.replace(rows.get() + 1);
                    if commit(&instance, row).await.is_ok()
                        && let Some(epoch) = copy.status().active_in
                    {
                        board.acknowledged(host, database, epoch.0.into(), row);
                    }
                }
                drop(copy);
                paused.sleep(MS * 5).await;
            }
        }));
    }
}

/// Prints a message of the network. Broken connections and late greetings are normal when hosts die, but no host may
/// be refused for its identity.
fn told(text: String) {
    eprintln!("{text}");
    let is_of_who =
        ["certificate", "version", "another host", "no host"].iter().any(|word| text.contains(word));
    assert!(!is_of_who, "{text}");
}

async fn commit(instance: &Instance, row: u32) -> engine::Result<()> {
    let mut transaction = instance.begin();
    transaction.insert(1, tree_number(0), &row.to_be_bytes(), &[row as u8; 200]).await?;
    transaction.commit(Durability::Durable).await
}

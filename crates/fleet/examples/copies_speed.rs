//! What copies cost and how fast they are made anew: two hosts on one machine, a thread each, with real files
//! and the fleet's guard on the connection between them.
//!
//! `copies_speed cost FOLDER SECONDS alone|with-copy` lets users work as fast as they can on a database, and
//! `with-copy` lets its passive copy follow. `copies_speed reseed FOLDER MIB` makes a copy anew from an active
//! an idle one. `copies_speed stream FOLDER MIB` sends as much over the same connection and does
//! nothing else. FOLDER must not exist.
//!
//! Each prints pairs of a name and a figure. The arbiter has a thread of its own.
#![allow(
    clippy::disallowed_methods,
    reason = "it times real work, with the clock and the threads of the machine"
)]
#![allow(clippy::print_stdout, reason = "a program that prints figures")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Instant;

use campaign::drill::{Node, Pace, Routes, Topology, create_copies, create_first_copies};
use fleet::copy_port::Members;
use fleet::credentials::{Credentials, make};
use futures_util::StreamExt;
use replica::{ArbiterHost, Guard};
use replication::{DatabaseId, Event, FromArbiter, HostId, ToArbiter};
use solution::Solution;
use world::channel::{UnboundedReceiver, UnboundedSender, unbounded};
use world::real::{self, RealConfig};
use world::{Duration, World};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const TICK: Duration = Duration::from_millis(200);
const SAMPLE_EVERY: Duration = Duration::from_millis(50);
/// Time for which users work before the measurement.
const WARM_UP: Duration = Duration::from_secs(3);
/// Longest time of any step.
const LIMIT: Duration = Duration::from_secs(300);
/// Pace that no host can reach.
const AS_FAST_AS_POSSIBLE: Pace = Pace::Batches(1e6);
const COST_MIB: u64 = 256;
/// Size of a message that carries pages.
const MESSAGE_BYTES: usize = 256 << 10;

fn main() -> Outcome<()> {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["cost", folder, seconds, "alone"] => cost(folder, seconds.parse()?, false),
        ["cost", folder, seconds, "with-copy"] => cost(folder, seconds.parse()?, true),
        ["reseed", folder, mib] => reseed(folder, mib.parse()?),
        ["stream", folder, mib] => stream(folder, mib.parse()?),
        _ => Err("usage: copies_speed cost FOLDER SECONDS alone|with-copy | reseed FOLDER MIB | \
                  stream FOLDER MIB"
            .into()),
    }
}

/// Both hosts, as every thread sees them.
#[derive(Clone)]
struct CopyFolder {
    folder: PathBuf,
    text: String,
    direct: bool,
}

impl CopyFolder {
    fn new(folder: &str, mib: u64, direct: bool) -> Outcome<CopyFolder> {
        std::fs::create_dir(folder)?;
        let folder = std::fs::canonicalize(folder)?;
        make(&folder.join("fleet"), &["h1".to_owned(), "h2".to_owned()], "127.0.0.1:4222")?;
        let text = format!(
            r#"
[solution]
name = "copies"
schema = 1
[profile]
exchange = "2016"
mailboxes = 1
messages_per_day = 150
quota_mb = 64
[dag]
databases = 1
[copies]
per_site = [2]
[[host]]
name = "h{{n}}"
count = 2
copy_address = "127.0.0.1:740{{n}}"
[[volume]]
name = "V"
path = "{}/{{host}}"
capacity_gib = 100
[[instance]]
name = "DB"
volume = "V"
[sizing]
database_mib = {mib}
[engine]
cache_min_mib = 64
cache_max_mib = 64
[load]
batches_per_s = 1
copies = 1
[[test]]
kind = "drill"
duration_s = 60
[test.drill]
mount_dial = "good_availability"
[[test.drill.event]]
kind = "host_killed"
host = "h2"
at_s = 10
"#,
            folder.display()
        );
        Ok(CopyFolder { folder, text, direct })
    }

    fn topology(&self) -> Outcome<Topology> {
        let solution = Solution::parse(&self.text, "copies.toml")?;
        let test = solution.deployment(Some("h1"))?.tests.remove(0);
        let drill = test.drill.clone().ok_or("the test is a drill")?;
        Ok(Topology::of(&solution, &test, &drill)?)
    }

    fn guard(&self, host: usize, topology: &Topology) -> Outcome<Rc<dyn Guard>> {
        let wanted = &topology.hosts[host].name;
        for entry in std::fs::read_dir(self.folder.join("fleet/agents"))? {
            let credentials = Credentials::read(&entry?.path())?;
            if credentials.name == *wanted {
                return Ok(Rc::new(Members::new(&credentials, &topology.names(), |text| {
                    eprintln!("{text}")
                })?));
            }
        }
        Err("it has no credentials".into())
    }

    fn addresses(topology: &Topology) -> BTreeMap<HostId, String> {
        let named = (0..).zip(&topology.hosts);
        named.filter_map(|(number, host)| Some((HostId(number), host.copy_address.clone()?))).collect()
    }

    /// Carries out `work` in a runtime on this thread.
    fn run<T, F: Future<Output = Outcome<T>>>(&self, work: impl FnOnce(World) -> F) -> Outcome<T> {
        real::run(RealConfig { direct: self.direct, shards: 1, ..RealConfig::new("copies") }, work)?
    }
}

/// A host since its last sample.
struct Sample {
    host: usize,
    at: Instant,
    cpu: Duration,
    batches: u64,
    /// Generations that its passive copy has not copied or not replayed; none where there is no copy that could
    /// be used.
    queue: Option<u32>,
    is_seeded: bool,
}

/// The hosts that were started, and what they say.
struct Hosts {
    place: CopyFolder,
    to_arbiter: UnboundedSender<ToArbiter>,
    heard: BTreeMap<usize, UnboundedReceiver<(DatabaseId, FromArbiter)>>,
    tell: mpsc::Sender<Sample>,
    samples: mpsc::Receiver<Sample>,
}

impl Hosts {
    /// Starts the arbiter; the hosts are added later.
    fn new(place: &CopyFolder) -> Hosts {
        let (to_arbiter, from_hosts) = unbounded();
        let (first, hears_first) = unbounded();
        let (second, hears_second) = unbounded();
        let its = place.clone();
        std::thread::spawn(move || arbiter(&its, from_hosts, vec![first, second]));
        let (tell, samples) = mpsc::channel();
        let heard = [(0, hears_first), (1, hears_second)].into();
        Hosts { place: place.clone(), to_arbiter, heard, tell, samples }
    }

    fn start(&mut self, host: usize, has_users: bool) {
        let (place, to_arbiter, tell) = (self.place.clone(), self.to_arbiter.clone(), self.tell.clone());
        let orders = self.heard.remove(&host).expect("a host is started once");
        std::thread::spawn(move || {
            let ended = serve(&place, host, has_users, orders, to_arbiter, &tell);
            eprintln!("host {host} has ended: {:?}", ended.err().map(|error| error.to_string()));
            std::process::exit(1);
        });
    }

    fn next(&self) -> Outcome<Sample> {
        Ok(self.samples.recv_timeout(LIMIT)?)
    }

    fn until(&self, done: impl Fn(&Sample) -> bool) -> Outcome<Sample> {
        loop {
            let sample = self.next()?;
            if done(&sample) {
                return Ok(sample);
            }
        }
    }
}

fn arbiter(
    place: &CopyFolder,
    mut from_hosts: UnboundedReceiver<ToArbiter>,
    to_hosts: Vec<UnboundedSender<(DatabaseId, FromArbiter)>>,
) -> Outcome<()> {
    let folder = place.folder.join("arbiter");
    std::fs::create_dir(&folder)?;
    let topology = place.topology()?;
    place.run(async |world| {
        let specs: Vec<_> = topology.databases.iter().map(|database| database.spec.clone()).collect();
        let to_copy = Rc::new(move |host: HostId, database, message| {
            let _ = to_hosts[usize::from(host.0)].unbounded_send((database, message));
        });
        let folder = folder.to_string_lossy().into_owned();
        let arbiter = ArbiterHost::start(&world, &folder, &specs, TICK, to_copy).await?;
        while let Some(message) = from_hosts.next().await {
            arbiter.receive(message);
        }
        Ok(())
    })
}

fn serve(
    place: &CopyFolder,
    host: usize,
    has_users: bool,
    mut orders: UnboundedReceiver<(DatabaseId, FromArbiter)>,
    to_arbiter: UnboundedSender<ToArbiter>,
    tell: &mpsc::Sender<Sample>,
) -> Outcome<()> {
    let mut topology = place.topology()?;
    topology.pace = AS_FAST_AS_POSSIBLE;
    let topology = Rc::new(topology);
    let routes = Routes {
        addresses: CopyFolder::addresses(&topology),
        guard: Some(place.guard(host, &topology)?),
        arbiter: Some(Rc::new(move |message| drop(to_arbiter.unbounded_send(message)))),
    };
    place.run(async |world| {
        let node = Rc::new(Node::start(&world, &topology, host, 1, 1, routes, Rc::new(|_, _| {})).await?);
        if !has_users {
            node.close();
        }
        let hearing = node.clone();
        drop(world.spawn(async move {
            while let Some((database, message)) = orders.next().await {
                hearing.hear_arbiter(database, message);
            }
        }));
        loop {
            world.sleep(SAMPLE_EVERY).await;
            let sample = node.sample();
            let copy = &sample.copies[0];
            if let Some(why) = &copy.failure {
                return Err(why.clone().into());
            }
            let is_usable = copy.active_in.is_none() && copy.report.mountable;
            tell.send(Sample {
                host,
                at: Instant::now(),
                cpu: world.thread_cpu().unwrap_or_default(),
                batches: sample.batches.totals.count,
                queue: is_usable.then(|| copy.report.copy_queue.max(copy.report.replay_queue())),
                is_seeded: copy.events.contains(&Event::Seeded),
            })?;
        }
    })
}

/// Users work as fast as they can: what a passive copy leaves of that.
fn cost(folder: &str, seconds: f64, with_copy: bool) -> Outcome<()> {
    let place = CopyFolder::new(folder, COST_MIB, false)?;
    place.run(async |world| {
        let topology = place.topology()?;
        for database in 0..topology.databases.len() {
            create_copies(&topology, database, &[world.clone(), world.clone()]).await?;
        }
        Ok(())
    })?;
    let mut hosts = Hosts::new(&place);
    hosts.start(0, true);
    if with_copy {
        hosts.start(1, true);
    }
    hosts.until(|sample| sample.host == 0 && sample.batches > 0)?;
    let warm = Instant::now() + WARM_UP;
    let begin = hosts.until(|sample| sample.host == 0 && sample.at >= warm)?;
    let (mut batches, mut last, mut queue) = (0, None, 0);
    let mut passive: Option<(Duration, Duration)> = None;
    let end = begin.at + Duration::from_secs_f64(seconds);
    while last.as_ref().is_none_or(|last: &Sample| last.at < end) {
        let sample = hosts.next()?;
        if sample.host == 0 {
            batches += sample.batches;
            last = Some(sample);
        } else {
            queue = queue.max(sample.queue.ok_or("the passive copy cannot be used")?);
            passive = Some((passive.map_or(sample.cpu, |(first, _)| first), sample.cpu));
        }
    }
    let last = last.expect("it was seen");
    let (wall, cpu) = ((last.at - begin.at).as_secs_f64(), (last.cpu - begin.cpu).as_secs_f64());
    let passive_s = passive.map_or(0.0, |(first, last)| (last - first).as_secs_f64());
    println!(
        "per_second {:.1} per_cpu_second {:.1} passive_cpu {:.4} queue {queue}",
        batches as f64 / wall,
        batches as f64 / cpu,
        passive_s / cpu
    );
    Ok(())
}

/// Measures how fast an idle active copy seeds another copy.
fn reseed(folder: &str, mib: u64) -> Outcome<()> {
    let place = CopyFolder::new(folder, mib, true)?;
    let path = place.run(async |world| {
        let topology = place.topology()?;
        for host in 0..topology.hosts.len() {
            create_first_copies(&topology, host, &world).await?;
        }
        let copy =
            topology.databases[0].places.iter().find(|copy| copy.host == 1).ok_or("no passive copy")?;
        Ok(PathBuf::from(format!("{}/{}.edb", copy.dir, topology.databases[0].name)))
    })?;
    let mut hosts = Hosts::new(&place);
    hosts.start(0, false);
    let active = hosts.until(|sample| sample.host == 0)?;
    hosts.start(1, false);
    let begun = wait_for(&path)?;
    let seeded = hosts.until(|sample| sample.is_seeded)?;
    let seconds = (seeded.at - begun).as_secs_f64();
    let last = hosts.until(|sample| sample.host == 0 && sample.at >= seeded.at)?;
    let copied_mib = std::fs::metadata(&path)?.len() as f64 / f64::from(1 << 20);
    println!(
        "mib_per_s {:.1} active_cpu {:.3} passive_cpu {:.3}",
        copied_mib / seconds,
        (last.cpu - active.cpu).as_secs_f64() / seconds,
        seeded.cpu.as_secs_f64() / seconds
    );
    Ok(())
}

fn wait_for(path: &Path) -> Outcome<Instant> {
    let begun = Instant::now();
    while !path.exists() {
        if begun.elapsed() > LIMIT {
            return Err(format!("{} does not appear", path.display()).into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(Instant::now())
}

/// Measures the connection alone, without copies.
fn stream(folder: &str, mib: usize) -> Outcome<()> {
    let place = CopyFolder::new(folder, 64, true)?;
    let total = mib << 20;
    let sends = place.clone();
    let sender = std::thread::spawn(move || {
        sends.run(async |world| {
            let topology = sends.topology()?;
            let address = &CopyFolder::addresses(&topology)[&HostId(1)];
            let plain = loop {
                match world.connect(address).await {
                    Ok(plain) => break plain,
                    Err(_) => world.sleep(Duration::from_millis(20)).await,
                }
            };
            let connection = sends.guard(0, &topology)?.made(plain, HostId(1)).await?;
            for _ in 0..total / MESSAGE_BYTES {
                connection.send(vec![0x5a; MESSAGE_BYTES]).await?;
            }
            // The other side closes when it has all of it, one way or the other.
            let _ = connection.receive(1).await;
            Ok(())
        })
    });
    let seconds = place.run(async |world| {
        let topology = place.topology()?;
        let listener = world.listen(&CopyFolder::addresses(&topology)[&HostId(1)]).await?;
        let (connection, _) = place.guard(1, &topology)?.taken(listener.accept().await?).await?;
        let (mut received, begun) = (connection.receive(MESSAGE_BYTES).await?.len(), Instant::now());
        while received < total {
            received += connection.receive(MESSAGE_BYTES).await?.len();
        }
        Ok(begun.elapsed().as_secs_f64())
    })?;
    let _ = sender.join();
    println!("mib_per_s {:.1}", mib as f64 / seconds);
    Ok(())
}

//! The process that holds the copies of a host during a drill, and what it and the agent say to each other.
//!
//! The agent starts it, and kills it where the drill lets the host lose its power: what the process had not
//! written to disk or said by then is gone. Both sides say one JSON value per line: the agent on the process's
//! stdin, the process on its stdout.
//!
//! Invariants
//! 1. What users were promised has been handed to the operating system before anything else happens in the
//!    process, so the agent reads it even if the process is killed at once.
//! 2. Without its agent the process ends at once: the host's copies are then gone, as after a power cut.
//!
//! Limits: all copies of a host are in one thread.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use campaign::CampaignError;
use campaign::drill::{
    Compared, CopySample, Node, Observed, Observer, PlannedDrill, Routes, create_first_copies, sample_rows,
};
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use replication::{DatabaseId, FromArbiter, HostId, ToArbiter};
use results::Sample;
use rustix::time::{ClockId, clock_gettime};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use world::World;
use world::channel::{UnboundedReceiver, unbounded};
use world::real::{self, RealConfig};

use super::addresses;
use crate::copy_port::Members;
use crate::credentials::Credentials;

const SECOND_NS: u64 = 1_000_000_000;

/// Purpose of a copy process: the first line of its stdin.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Purpose {
    /// Text of the solution file.
    pub solution: String,
    /// Kinds of tests of the run; empty: all.
    pub tests: Vec<String>,
    /// Number of the host.
    pub host: usize,
    /// Number of the process start; it rises.
    pub boot: u32,
    /// Seed of all randomness.
    pub seed: u64,
    /// Whether the copies must be created first.
    pub is_new: bool,
    /// Whether I/O is unbuffered.
    pub direct: bool,
    /// Credentials file of the host.
    pub credentials: PathBuf,
}

/// Order of the agent to the copy process, after the [`Purpose`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// Message of the arbiter for the copy of a database.
    FromArbiter(DatabaseId, FromArbiter),
    /// Close all connections and accept none, or accept them again.
    CutOff(bool),
    /// Treat a volume as failed: its contents are lost.
    FailVolume(String),
    /// Put an empty volume in its place.
    ReplaceVolume(String),
    /// Numbers of hosts that have left the drill; the copies do not wait for them any more.
    Left(Vec<usize>),
    /// Stop the users.
    Close,
    /// Return digests of pages for the comparison.
    Compare,
}

/// Message of the copy process to the agent. Times are those of the host's monotonic clock, which all its processes
/// share.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FromProcess {
    /// The copies have started.
    Ready,
    /// Message of a copy to the arbiter.
    ToArbiter(ToArbiter),
    /// Event for the journal.
    Observed(u64, Observed),
    /// Figures of the last second.
    Sample {
        /// End of the second, ns.
        at_ns: u64,
        /// States of the copies.
        copies: Vec<CopySample>,
        /// Counters of the host; their times have no meaning.
        rows: Vec<Sample>,
        /// Whether all copies hold the same log, after users have stopped.
        is_settled: bool,
    },
    /// Answer to [`Order::Compare`].
    Compared(Vec<Compared>),
    /// The process cannot go on.
    Failed(String),
}

/// Nanoseconds since 1970 by this host's calendar.
pub(super) fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Nanoseconds of the host's monotonic clock, which all its processes share and no user can set.
pub(super) fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * SECOND_NS + time.tv_nsec as u64
}

/// Parses each line of `lines` as a value and passes it on, up to the first line that is none; then calls `end`.
pub(super) fn hear<T: DeserializeOwned>(lines: impl BufRead, mut hand_on: impl FnMut(T), end: impl FnOnce()) {
    for line in lines.lines() {
        let Ok(value) = line.map_err(drop).and_then(|line| serde_json::from_str(&line).map_err(drop)) else {
            break;
        };
        hand_on(value);
    }
    end();
}

/// Writes a value as a line. Returns whether that worked.
pub(super) fn say<T: Serialize>(mut to: impl Write, value: &T) -> bool {
    let mut line = serde_json::to_vec(value).expect("everything that is said can be written as JSON");
    line.push(b'\n');
    to.write_all(&line).and_then(|()| to.flush()).is_ok()
}

fn tell(value: &FromProcess) {
    if !say(io::stdout().lock(), value) {
        // The agent is gone.
        std::process::exit(3);
    }
}

/// Process that holds copies, at its start.
pub struct CopyProcess {
    /// Purpose of the process.
    pub purpose: Purpose,
    orders: UnboundedReceiver<Order>,
}

impl CopyProcess {
    /// Reads from stdin the purpose of this process; `None` if it was not started by an agent.
    pub fn started() -> Option<CopyProcess> {
        let mut first = String::new();
        io::stdin().lock().read_line(&mut first).ok()?;
        let purpose = serde_json::from_str(&first).ok()?;
        let (hand_on, orders) = unbounded();
        std::thread::spawn(move || {
            let pass = |order: Order| drop(hand_on.unbounded_send(order));
            hear(io::stdin().lock(), pass, || std::process::exit(0));
        });
        Some(CopyProcess { purpose, orders })
    }

    /// Tells the agent why the process cannot go on.
    pub fn fail(why: &str) {
        tell(&FromProcess::Failed(why.to_owned()));
    }

    /// Holds the copies of its host until the agent ends it. Writes messages for people to `log`.
    ///
    /// # Errors
    /// Failed I/O, a record that is damaged, or credentials that other hosts do not take.
    pub fn hold(
        self,
        planned: &PlannedDrill,
        credentials: &Credentials,
        log: fn(&str),
    ) -> Result<(), CampaignError> {
        let name = &planned.topology.hosts[self.purpose.host].name;
        let config = RealConfig { direct: self.purpose.direct, shards: 1, ..RealConfig::new(name) };
        real::run(config, |world| self.serve(world, planned, credentials, log))?
    }

    async fn serve(
        self,
        world: World,
        planned: &PlannedDrill,
        credentials: &Credentials,
        log: fn(&str),
    ) -> Result<(), CampaignError> {
        let CopyProcess { purpose, mut orders } = self;
        let topology = &planned.topology;
        if purpose.is_new {
            create_first_copies(topology, purpose.host, &world).await?;
        }
        let members = Members::new(credentials, &topology.names(), move |text| log(&text))
            .map_err(|error| CampaignError::Drill(error.to_string()))?;
        let routes = Routes {
            addresses: addresses(topology),
            guard: Some(Rc::new(members)),
            arbiter: Some(Rc::new(|message| tell(&FromProcess::ToArbiter(message)))),
        };
        let observer: Observer =
            Rc::new(|_: HostId, observed: Observed| tell(&FromProcess::Observed(monotonic_ns(), observed)));
        let node = Node::start(&world, topology, purpose.host, purpose.boot, purpose.seed, routes, observer);
        let copies = Copies { node: Rc::new(node.await?), planned, world: &world };
        tell(&FromProcess::Ready);
        // Samples end with the seconds of the calendar as it is now, so that those of all hosts cover the same time.
        let phase_ns = unix_ns() % SECOND_NS;
        let first_ns = monotonic_ns() + SECOND_NS - phase_ns;
        let next_after =
            |now_ns: u64| first_ns + (now_ns.saturating_sub(first_ns) / SECOND_NS + 1) * SECOND_NS;
        let mut ends_ns = first_ns;
        loop {
            let left = Duration::from_nanos(ends_ns.saturating_sub(monotonic_ns()));
            match select(orders.next(), pin!(world.sleep(left))).await {
                Either::Left((None, _)) => return Ok(()),
                Either::Left((Some(order), _)) => copies.obey(order).await?,
                Either::Right(_) => {
                    let at_ns = std::mem::replace(&mut ends_ns, next_after(monotonic_ns()));
                    copies.sample(purpose.host, at_ns);
                }
            }
        }
    }
}

/// Copies of the host.
struct Copies<'a> {
    node: Rc<Node>,
    planned: &'a PlannedDrill,
    world: &'a World,
}

impl Copies<'_> {
    async fn obey(&self, order: Order) -> Result<(), CampaignError> {
        let node = &self.node;
        match order {
            Order::FromArbiter(database, message) => node.hear_arbiter(database, message),
            Order::CutOff(true) => node.cut_off(),
            Order::CutOff(false) => node.reconnect().await?,
            Order::FailVolume(volume) => node.fail_volume(&volume),
            Order::ReplaceVolume(volume) => node.replace_volume(&volume).await?,
            Order::Left(hosts) => node.leave(hosts),
            Order::Close => node.close(),
            Order::Compare => {
                let (node, drill) = (node.clone(), self.planned.drill.clone());
                drop(self.world.spawn(async move {
                    tell(&FromProcess::Compared(node.compare(&drill).await));
                }));
            }
        }
        Ok(())
    }

    fn sample(&self, host: usize, at_ns: u64) {
        let sample = self.node.sample();
        let rows = sample_rows(&sample, self.planned.ordinal, &self.planned.topology.hosts[host].name, 0);
        let is_settled = self.node.is_settled(&self.planned.drill);
        tell(&FromProcess::Sample { at_ns, copies: sample.copies, rows, is_settled });
    }
}

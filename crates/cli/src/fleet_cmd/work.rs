//! The process that holds the copies of a host during a drill, and what it and the agent say to each other.
//!
//! The agent starts it, and kills it where the drill lets the host lose its power: what the process had not written to disk or
//! said by then is gone. Both sides say one JSON value per line: the agent on the process's stdin, the process on its stdout.
//!
//! Invariants
//! 1. What users were promised has been handed to the operating system before anything else happens in the process, so the agent
//!    reads it even if the process is killed at once.
//! 2. Without its agent the process ends at once: the host's copies are then gone, as after a power cut.
//!
//! Limits: all copies of a host are in one thread.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use campaign::CampaignError;
use campaign::drill::{
    Compared, CopySample, Node, Observed, Observer, Routes, Said, found_first, sample_rows,
};
use copies::{DatabaseId, FromArbiter, HostId, ToArbiter};
use fleet::copy_port::Members;
use fleet::credentials::Credentials;
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use results::Sample;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use world::World;
use world::channel::{UnboundedReceiver, unbounded};
use world::real::{self, RealConfig};

use super::drill::PlannedDrill;
use crate::failure::{Failure, Status};

/// Holds the copies of a host during a drill. An agent starts it; it is no command for people.
#[derive(clap::Args)]
pub struct WorkArguments {}

/// What a process is for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// The solution file.
    pub solution: String,
    /// Kinds of tests of the run; all if empty.
    pub tests: Vec<String>,
    /// Number of the host.
    pub host: usize,
    /// Rises with each start.
    pub boot: u32,
    /// Where all randomness comes from.
    pub seed: u64,
    /// Whether the copies are to be made first.
    pub is_new: bool,
    /// Whether I/O is unbuffered.
    pub direct: bool,
    /// The credentials of the host.
    pub credentials: PathBuf,
}

/// From the agent, after the [`Order`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToWork {
    /// The arbiter says something to the copy of a database.
    FromArbiter(DatabaseId, FromArbiter),
    /// End all connections and take none, or be there again.
    CutOff(bool),
    /// A volume loses its contents.
    FailVolume(String),
    /// An empty one takes its place.
    ReplaceVolume(String),
    /// The hosts of these numbers have left the drill: nothing waits for their copies any more.
    Left(Vec<usize>),
    /// Users go home.
    Close,
    /// Say what the pages say.
    Compare,
}

/// From the process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromWork {
    /// The copies are there.
    Ready,
    /// A copy says something to the arbiter.
    ToArbiter(ToArbiter),
    /// Something happened, at this time of the host's monotonic clock, which all processes of the host share.
    Observed(u64, Observed),
    /// The last second, which ended at `at_ns` of the host's monotonic clock.
    Sample {
        /// When it ended.
        at_ns: u64,
        /// The copies.
        copies: Vec<CopySample>,
        /// Counts of the host; the times in them say nothing.
        rows: Vec<Sample>,
        /// Whether all copies hold the same, after users have gone home.
        is_settled: bool,
    },
    /// The answer to [`ToWork::Compare`].
    Compared(Vec<Compared>),
    /// It cannot go on.
    Failed(String),
}

impl FromWork {
    /// What of it belongs into the journal, and when it happened if that is not now.
    pub fn said(&self) -> Option<(Option<u64>, Said)> {
        match self {
            FromWork::Observed(at_ns, observed) => Some((Some(*at_ns), Said::Observed(observed.clone()))),
            FromWork::Sample { at_ns, copies, .. } => Some((Some(*at_ns), Said::Sample(copies.clone()))),
            FromWork::Compared(compared) => Some((None, Said::Compared(compared.clone()))),
            _ => None,
        }
    }
}

/// Nanoseconds since 1970 by this host's calendar.
pub fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Nanoseconds of the host's monotonic clock, which all its processes share and nobody can set.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid for the call. The clock exists on every Linux, so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * SECOND_NS + time.tv_nsec as u64
}

/// Hands on each line of `lines` as a value, until something is none; then calls `end`.
pub fn hear<T: DeserializeOwned>(lines: impl BufRead, mut hand_on: impl FnMut(T), end: impl FnOnce()) {
    for line in lines.lines() {
        let Ok(value) = line.map_err(drop).and_then(|line| serde_json::from_str(&line).map_err(drop)) else {
            break;
        };
        hand_on(value);
    }
    end();
}

/// Says a value on a line; whether somebody could hear it.
pub fn say<T: Serialize>(mut to: impl Write, value: &T) -> bool {
    let mut line = serde_json::to_vec(value).expect("everything that is said can be written as JSON");
    line.push(b'\n');
    to.write_all(&line).and_then(|()| to.flush()).is_ok()
}

fn tell(value: &FromWork) {
    if !say(std::io::stdout().lock(), value) {
        // Nobody is there for whom to go on.
        std::process::exit(3);
    }
}

/// Runs the command.
pub fn work(_: &WorkArguments) -> Result<Status, Failure> {
    let mut first = String::new();
    let order: Option<Order> =
        std::io::stdin().lock().read_line(&mut first).ok().and_then(|_| serde_json::from_str(&first).ok());
    let Some(order) = order else {
        return Err(Failure::wrong_input("this command is started by `proofload agent`"));
    };
    let (hand_on, orders) = unbounded();
    std::thread::spawn(move || {
        let pass = |order: ToWork| drop(hand_on.unbounded_send(order));
        hear(std::io::stdin().lock(), pass, || std::process::exit(0));
    });
    let held = hold(&order, orders);
    if let Err(failure) = &held {
        tell(&FromWork::Failed(failure.line()));
    }
    held.map(|()| Status::Pass)
}

fn hold(order: &Order, orders: UnboundedReceiver<ToWork>) -> Result<(), Failure> {
    let planned = PlannedDrill::of_text(&order.solution, &order.tests)?;
    let planned = planned.ok_or_else(|| Failure::wrong_input("the solution file has no drill"))?;
    let credentials = super::read_credentials(&order.credentials)?;
    let config = RealConfig {
        direct: order.direct,
        shards: 1,
        ..RealConfig::new(&planned.site.hosts[order.host].name)
    };
    real::run(config, |world| serve(world, order, &planned, &credentials, orders))
        .map_err(|error| Failure::could_not_run("no I/O is possible").because(error))?
        .map_err(|error| Failure::could_not_run("the copies cannot go on").because(error))
}

async fn serve(
    world: World,
    order: &Order,
    planned: &PlannedDrill,
    credentials: &Credentials,
    mut orders: UnboundedReceiver<ToWork>,
) -> Result<(), CampaignError> {
    let (site, drill) = (&planned.site, &planned.drill);
    if order.is_new {
        found_first(site, order.host, &world).await?;
    }
    let members = Members::new(credentials, &site.names(), |text| say!("{text}"))
        .map_err(|error| CampaignError::Drill(error.to_string()))?;
    let routes = Routes {
        addresses: planned.addresses(),
        guard: Some(Rc::new(members)),
        arbiter: Some(Rc::new(|message| tell(&FromWork::ToArbiter(message)))),
    };
    let observer: Observer =
        Rc::new(|_: HostId, observed: Observed| tell(&FromWork::Observed(monotonic_ns(), observed)));
    let node = Node::start(&world, site, order.host, order.boot, order.seed, routes, observer).await?;
    let node = Rc::new(node);
    tell(&FromWork::Ready);
    let (host, mut is_closed) = (site.hosts[order.host].name.clone(), false);
    // Samples end with the seconds of the calendar as it is now, so that those of all hosts cover the same time.
    let phase_ns = unix_ns() % SECOND_NS;
    let first_ns = monotonic_ns() + SECOND_NS - phase_ns;
    let next_after = |now_ns: u64| first_ns + (now_ns.saturating_sub(first_ns) / SECOND_NS + 1) * SECOND_NS;
    let mut ends_ns = first_ns;
    loop {
        let left = Duration::from_nanos(ends_ns.saturating_sub(monotonic_ns()));
        match select(orders.next(), pin!(world.sleep(left))).await {
            Either::Left((None, _)) => return Ok(()),
            Either::Left((Some(order), _)) => match order {
                ToWork::FromArbiter(database, message) => node.hear_arbiter(database, message),
                ToWork::CutOff(true) => node.cut_off(),
                ToWork::CutOff(false) => node.reconnect().await?,
                ToWork::FailVolume(volume) => node.fail_volume(&volume),
                ToWork::ReplaceVolume(volume) => node.replace_volume(&volume).await?,
                ToWork::Left(hosts) => node.leave(hosts),
                ToWork::Close => {
                    node.close();
                    is_closed = true;
                }
                ToWork::Compare => {
                    let (node, drill) = (node.clone(), drill.clone());
                    drop(world.spawn(async move {
                        tell(&FromWork::Compared(node.compare(&drill).await));
                    }));
                }
            },
            Either::Right(_) => {
                let sample = node.sample();
                let rows = sample_rows(&sample, planned.ordinal, &host, 0);
                let is_settled = is_closed && node.is_settled(drill);
                let at_ns = std::mem::replace(&mut ends_ns, next_after(monotonic_ns()));
                tell(&FromWork::Sample { at_ns, copies: sample.copies, rows, is_settled });
            }
        }
    }
}

const SECOND_NS: u64 = 1_000_000_000;

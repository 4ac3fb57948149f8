//! The arbiter of the copies of a run, and its way over the bus.
//!
//! The arbiter is a [`replica::ArbiterHost`] on a thread of the controller's. Copies speak to it on
//! `proofload.<host>.copy` and hear it on `proofload_inbox.<host>.copy`: a [`CopyHead`] and a message of
//! `replica::wire`. Nothing of it is answered or kept: what is lost is said again by those who need it.
//!
//! Invariants
//! 1. One arbiter at a time: it holds a lock on its folder for as long as it is there, and a later one begins,
//!    with every lease counted as just given, after the lock has been let go. So it does not matter which of
//!    two controllers a copy hears.
//! 2. A sender is not heard if it speaks for another host, in another run, or for another controller ([`CopyHead`]).
//!
//! Limits: the lock is one of the operating system: a run is resumed on the machine, or the file system with
//! locks, on which its folder is.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use replica::ArbiterHost;
use replica::wire::{Message, frame, parse};
use replication::{ArbiterEvent, DatabaseId, DatabaseSpec, FromArbiter, HostId, ToArbiter};
use tokio::sync::mpsc;
use world::channel::{UnboundedReceiver, UnboundedSender, unbounded};
use world::real::{self, RealConfig};

use crate::message::{CopyHead, PROTOCOL};

/// Interval at which the arbiter sees the clock.
const TICK: Duration = Duration::from_millis(20);
/// Interval at which events of the arbiter are passed on and its lock is tried.
const LOOK: Duration = Duration::from_millis(100);

/// Databases, copies and hosts for which an arbiter decides.
#[derive(Debug, Clone)]
pub struct Arbitration {
    /// Databases with the hosts of their copies.
    pub databases: Vec<DatabaseSpec>,
    /// Names of the hosts, by their numbers.
    pub hosts: BTreeMap<HostId, String>,
}

/// Output of the arbiter's thread.
#[derive(Debug)]
pub(crate) enum ArbiterOutput {
    /// Message for the copies of a host.
    Tell { host: String, message: Vec<u8> },
    /// Decision about a database.
    Decided { database: DatabaseId, event: ArbiterEvent },
    /// Text for the run's log.
    Note(String),
}

/// Thread of the arbiter. Dropping this ends it as a crash would.
pub(crate) struct ArbiterThread {
    hosts: BTreeMap<HostId, String>,
    heard: UnboundedSender<Vec<u8>>,
    pub(crate) outputs: mpsc::UnboundedReceiver<ArbiterOutput>,
    stop: Arc<AtomicBool>,
}

impl ArbiterThread {
    /// Starts the arbiter with the records in `folder`, once it has the lock of that folder.
    pub(crate) fn start(folder: PathBuf, copies: Arbitration) -> ArbiterThread {
        let (heard, hearing) = unbounded();
        let (output, outputs) = mpsc::unbounded_channel();
        let (hosts, stop) = (copies.hosts.clone(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        std::thread::spawn(move || {
            if let Err(why) = arbitrate(&folder, copies, hearing, &output, &stopped) {
                let _ = output.send(ArbiterOutput::Note(format!(
                    "the arbiter has stopped, no copy is activated: {why}"
                )));
            }
        });
        ArbiterThread { hosts, heard, outputs, stop }
    }

    /// Passes a message of the copies on `host` to the arbiter.
    pub(crate) fn hear(&self, host: &str, message: &[u8]) {
        let Some(Message::ToArbiter(said)) = parse(message) else { return };
        let speaker = match said {
            ToArbiter::Report(report) => report.host,
            ToArbiter::Renewal(renewal) => renewal.host,
            ToArbiter::Released { host, .. } => host,
        };
        if self.hosts.get(&speaker).is_some_and(|name| name == host) {
            // After the end it is not heard.
            let _ = self.heard.unbounded_send(message.to_vec());
        }
    }
}

impl Drop for ArbiterThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.heard.close_channel();
    }
}

/// Waits for the lock of the folder; `None` if the arbiter is told to stop first.
fn lock(
    folder: &Path,
    output: &mpsc::UnboundedSender<ArbiterOutput>,
    stop: &AtomicBool,
) -> Result<Option<File>, String> {
    let path = folder.join("lock");
    let said = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    fs::create_dir_all(folder).map_err(|error| said(&error))?;
    let lock = File::create(&path).map_err(|error| said(&error))?;
    let mut is_said = false;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(Some(lock)),
            Err(TryLockError::Error(error)) => return Err(said(&error)),
            Err(TryLockError::WouldBlock) if stop.load(Ordering::SeqCst) => return Ok(None),
            Err(TryLockError::WouldBlock) => {
                if !std::mem::replace(&mut is_said, true) {
                    let _ = output.send(ArbiterOutput::Note(
                        "waiting for the end of the arbiter before this one".into(),
                    ));
                }
                std::thread::sleep(LOOK);
            }
        }
    }
}

fn arbitrate(
    folder: &Path,
    copies: Arbitration,
    mut hearing: UnboundedReceiver<Vec<u8>>,
    output: &mpsc::UnboundedSender<ArbiterOutput>,
    stop: &AtomicBool,
) -> Result<(), String> {
    // Held until the end of this function, when the arbiter is gone.
    let Some(_lock) = lock(folder, output, stop)? else { return Ok(()) };
    let path = folder.to_str().ok_or_else(|| format!("{}: its name is no text", folder.display()))?;
    // Its records are small; buffered, they can be on any file system.
    let config = RealConfig { direct: false, shards: 1, ..RealConfig::new("controller") };
    let worked = real::run(config, |world| async move {
        let Arbitration { databases, hosts } = copies;
        let specs: Vec<Rc<DatabaseSpec>> = databases.into_iter().map(Rc::new).collect();
        let (names, telling) = (hosts.clone(), output.clone());
        let to_copy = Rc::new(move |host: HostId, database: DatabaseId, message: FromArbiter| {
            let Some(host) = names.get(&host).cloned() else { return };
            let message = body(&Message::FromArbiter { database, message });
            // Without the controller it is not heard.
            let _ = telling.send(ArbiterOutput::Tell { host, message });
        });
        let started = ArbiterHost::start(&world, path, &specs, TICK, to_copy).await;
        let arbiter = started.map_err(|error| error.to_string())?;
        loop {
            match select(hearing.next(), std::pin::pin!(world.sleep(LOOK))).await {
                Either::Left((None, _)) => return Ok(()),
                Either::Left((Some(message), _)) => {
                    if let Some(Message::ToArbiter(message)) = parse(&message) {
                        arbiter.receive(message);
                    }
                }
                Either::Right(_) => {}
            }
            for (_, database, event) in arbiter.take_events() {
                let _ = output.send(ArbiterOutput::Decided { database, event });
            }
            if arbiter.has_stopped() {
                return Err("its record could not be written".to_owned());
            }
        }
    });
    worked.map_err(|error| error.to_string())?
}

/// Encodes a message that follows a [`CopyHead`]. It has no length field, because the bus transmits the length.
fn body(message: &Message) -> Vec<u8> {
    frame(message).split_off(4)
}

impl CopyHead {
    /// Head of a message in this run, for hosts that obey the controller of this epoch.
    pub(crate) fn new(run: &str, epoch: u64) -> CopyHead {
        CopyHead { protocol: PROTOCOL, run: run.to_owned(), epoch }
    }
}

/// Connection between a host's copies and the arbiter during a run.
#[derive(Debug)]
pub struct ArbiterLink {
    speaker: Speaker,
    heard: UnboundedReceiver<Vec<u8>>,
}

/// Sender of messages to the arbiter. Works on any thread and never waits; a message may be lost.
#[derive(Debug, Clone)]
pub struct Speaker(mpsc::UnboundedSender<Vec<u8>>);

impl ArbiterLink {
    /// Creates a link, and the sender by which the agent delivers the arbiter's messages.
    pub(crate) fn new(speaker: mpsc::UnboundedSender<Vec<u8>>) -> (ArbiterLink, UnboundedSender<Vec<u8>>) {
        let (hear, heard) = unbounded();
        (ArbiterLink { speaker: Speaker(speaker), heard }, hear)
    }

    /// Sender for messages to the arbiter.
    pub fn speaker(&self) -> Speaker {
        self.speaker.clone()
    }

    /// Next message of the arbiter with the database of its copy; `None` after the end of the run.
    pub async fn hear(&mut self) -> Option<(DatabaseId, FromArbiter)> {
        loop {
            let bytes = self.heard.next().await?;
            // Anything else comes from a sender that this version does not know.
            if let Some(Message::FromArbiter { database, message }) = parse(&bytes) {
                return Some((database, message));
            }
        }
    }
}

impl Speaker {
    /// Sends a message.
    pub fn say(&self, message: ToArbiter) {
        // The agent is gone only with its run.
        let _ = self.0.send(body(&Message::ToArbiter(message)));
    }
}

#[cfg(test)]
impl ArbiterThread {
    /// Creates a link without an agent, for tests, and the channel of what copies send.
    pub(crate) fn idle(hosts: BTreeMap<HostId, String>) -> (ArbiterThread, UnboundedReceiver<Vec<u8>>) {
        let (heard, hearing) = unbounded();
        let (_, outputs) = mpsc::unbounded_channel();
        (ArbiterThread { hosts, heard, outputs, stop: Arc::default() }, hearing)
    }
}

/// Message with which a stopped copy gives its lease back.
#[cfg(test)]
pub(crate) fn released_by(host: HostId) -> Vec<u8> {
    let (database, epoch) = (DatabaseId(0), replication::Epoch(1));
    body(&Message::ToArbiter(ToArbiter::Released { database, host, epoch, drained: None }))
}

#[cfg(test)]
mod tests {
    use replication::{ActivationPolicy, CopySpec, Dial, Planted, SiteId, Timing};

    use super::*;

    fn copies() -> Arbitration {
        let copy = CopySpec {
            host: HostId(1),
            site: SiteId(0),
            preference: 1,
            activation: ActivationPolicy::Unrestricted,
            replay_lag_ms: 0,
            truncation_lag_ms: 0,
        };
        let timing = Timing {
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
        };
        let database = DatabaseSpec {
            id: DatabaseId(0),
            dial: Dial::Lossless,
            copies: vec![copy],
            run_ahead_generations: 2,
            partner_in_other_site: false,
            signature: 1,
            circular_logging: true,
            planted: Planted::default(),
            timing,
        };
        Arbitration { databases: vec![database], hosts: [(HostId(1), "h1".to_owned())].into() }
    }

    fn says_something(arbiter: &mut ArbiterThread) -> bool {
        std::iter::from_fn(|| arbiter.outputs.try_recv().ok())
            .any(|output| matches!(output, ArbiterOutput::Tell { .. }))
    }

    #[test]
    fn a_second_arbiter_waits_until_the_first_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("arbiter");
        let mut first = ArbiterThread::start(path.clone(), copies());
        while !says_something(&mut first) {
            std::thread::sleep(LOOK);
        }
        let mut second = ArbiterThread::start(path, copies());
        let note = second.outputs.blocking_recv();
        assert!(matches!(&note, Some(ArbiterOutput::Note(text)) if text.starts_with("waiting")), "{note:?}");
        std::thread::sleep(LOOK * 10);
        assert!(!says_something(&mut second) && says_something(&mut first));
        drop(first);
        while !says_something(&mut second) {
            std::thread::sleep(LOOK);
        }
    }

    #[test]
    fn a_host_speaks_for_itself_only() {
        let (arbiter, mut hearing) = ArbiterThread::idle(copies().hosts);
        for (host, message) in
            [("h2", released_by(HostId(1))), ("h1", released_by(HostId(2))), ("h1", b"nonsense".to_vec())]
        {
            arbiter.hear(host, &message);
        }
        arbiter.hear("h1", &released_by(HostId(1)));
        drop(arbiter);
        let heard: Vec<Vec<u8>> = std::iter::from_fn(|| hearing.try_recv().ok()).collect();
        assert_eq!(heard, [released_by(HostId(1))]);
    }
}

//! What a controller waits for, for how long, and what ends a wait.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fleet::agent::HostWork;
use fleet::arbiter::ArbiterLink;
use fleet::membership::{Fate, Membership, Note};
use fleet::message::{Assignment, Ended, EvidenceFile, Heartbeat, Look, Work};
use fleet::run_control::RunControl;
use fleet::subjects::token;

use crate::bus::{Fleet, Listener, has_server, in_local};
use crate::exchange::{MS, plan};
use crate::membership::{ready, running};

const SECOND: u64 = 1_000 * MS;

/// Last heartbeat of a host that has finished its tests.
fn ended(host: &str, process: u64) -> Heartbeat {
    let files = vec![EvidenceFile { name: "run.db".into(), bytes: 1, sha256: host.into() }];
    Heartbeat { work: Work::Ended { how: Ended::Passed, why: None, files }, ..ready(host, process) }
}

/// Run of two hosts that have finished; their evidence has not arrived.
fn owed() -> Membership {
    let mut membership = Membership::new(plan(2), 0);
    for (host, process) in [("h0", 1), ("h1", 2)] {
        membership.heartbeat(0, 0, ready(host, process));
    }
    for (host, process) in [("h0", 1), ("h1", 2)] {
        membership.heartbeat(0, 0, ended(host, process));
    }
    assert!(!membership.is_over());
    membership
}

/// Lets these seconds pass. With `hears`, each host repeats its heartbeat twice a second.
fn pass(membership: &mut Membership, seconds: std::ops::Range<u64>, hears: bool, heartbeats: &[Heartbeat]) {
    for now_ns in seconds.flat_map(|second| [second * SECOND, second * SECOND + 500 * MS]) {
        for heartbeat in heartbeats.iter().filter(|_| hears) {
            membership.heartbeat(now_ns, now_ns, heartbeat.clone());
        }
        membership.tick(now_ns, now_ns, hears);
    }
}

fn of_host<'a>(notes: &'a [Note], host: &str, text: &str) -> Vec<&'a Note> {
    notes.iter().filter(|note| note.host.as_deref() == Some(host) && note.text.contains(text)).collect()
}

#[test]
fn a_host_whose_evidence_is_not_what_it_announced_is_waited_for_no_longer_and_named() {
    let mut membership = owed();
    membership.evidence_kept("h0");
    for _ in 0..2 {
        membership.evidence_spoiled("h1", "run.db");
        assert!(!membership.is_over(), "it may have been spoiled on the way");
    }
    membership.evidence_spoiled("h1", "run.db");
    assert!(membership.is_over());
    let what = "its evidence is not what it announced: run.db";
    assert_eq!(membership.given_up("h1"), Some(what));
    let notes = membership.take_notes();
    assert_eq!(of_host(&notes, "h1", what).len(), 1, "{notes:?}");
    assert!(!membership.heartbeat(0, 0, ended("h1", 2)).send_evidence, "it is not asked for it again");
    let fate = &membership.memory().fates["h1"];
    assert!(matches!(fate, Fate::Ended { how: Ended::Passed, evidence_kept: false, .. }), "{fate:?}");
    let mut next = Membership::resume(membership.memory().clone(), 0);
    assert!(next.heartbeat(0, 0, ended("h1", 2)).send_evidence && !next.is_over(), "the next one asks again");
    next.evidence_kept("h1");
    assert!(next.is_over() && next.given_up("h1").is_none());
}

#[test]
fn evidence_that_does_not_come_is_said_after_10_s_and_given_up_after_60_s() {
    let refusal = "the evidence cannot be sent: run.db: No such file".to_owned();
    let silent = [ended("h0", 1), Heartbeat { refusals: vec![refusal.clone()], ..ended("h1", 2) }];
    let mut membership = owed();
    membership.evidence_kept("h0");
    pass(&mut membership, 0..10, true, &silent);
    assert_eq!(of_host(&membership.take_notes(), "h1", "nothing of its evidence").len(), 0);
    pass(&mut membership, 10..30, true, &silent);
    let notes = membership.take_notes();
    assert_eq!(of_host(&notes, "h1", "nothing of its evidence has come for 10 s").len(), 1, "{notes:?}");
    membership.evidence_came(30 * SECOND, "h1");
    pass(&mut membership, 30..80, true, &silent);
    assert!(!membership.is_over(), "some came at 30 s");
    // Without the bus nothing can come.
    pass(&mut membership, 80..300, false, &silent);
    pass(&mut membership, 300..355, true, &silent);
    assert!(!membership.is_over(), "the wait counts from the return of the bus");
    pass(&mut membership, 355..362, true, &silent);
    assert!(membership.is_over());
    let why = membership.given_up("h1").unwrap_or_default();
    assert!(why.contains("for 60 s") && why.contains(&refusal), "{why}");
    assert_eq!(membership.given_up("h0"), None);
}

#[test]
fn the_first_request_to_end_ends_a_wait_for_evidence_and_leaves_the_run_completed() {
    let mut membership = owed();
    membership.interrupt("asked to");
    assert!(membership.is_over());
    assert_eq!(membership.memory().stop, None, "every host has carried out its tests");
    assert!(membership.take_notes().iter().any(|note| note.text.contains("nothing more is waited for")));
}

#[test]
fn a_request_to_end_hosts_that_test_waits_for_their_evidence_and_counts_once() {
    let mut membership = Membership::new(plan(1), 0);
    membership.heartbeat(0, 0, ready("h0", 1));
    membership.heartbeat(0, 0, running("h0", 1));
    membership.interrupt("asked to");
    assert_eq!(membership.memory().stop.as_deref(), Some("asked to"));
    membership.heartbeat(0, 0, ended("h0", 1));
    membership.interrupt("asked to");
    assert!(!membership.is_over(), "a run asks at each of its turns, and its evidence is still to come");
    membership.evidence_kept("h0");
    assert!(membership.is_over());
}

#[test]
fn a_host_that_does_not_end_when_it_is_told_to_is_named_and_given_up() {
    let mut membership = Membership::new(plan(1), 0);
    membership.heartbeat(0, 0, ready("h0", 1));
    membership.heartbeat(0, 0, running("h0", 1));
    membership.stop("asked to");
    let hangs = [running("h0", 1)];
    pass(&mut membership, 0..59, true, &hangs);
    assert_eq!(of_host(&membership.take_notes(), "h0", "has not ended").len(), 0);
    pass(&mut membership, 59..590, true, &hangs);
    assert!(!membership.is_over());
    pass(&mut membership, 590..602, true, &hangs);
    assert!(membership.is_over());
    let notes = membership.take_notes();
    assert_eq!(of_host(&notes, "h0", "it has not ended").len(), 2, "said once, then given up: {notes:?}");
}

#[test]
fn that_a_host_is_ready_is_one_short_line_and_what_it_looked_at_is_kept() {
    let checks: Vec<String> =
        (0..8).map(|volume| format!("/srv/v{volume}: 256 KiB written in 1.0 ms")).collect();
    let mut membership = Membership::new(plan(1), 0);
    let clock = (Some(-300_000), Some(50_000));
    let heartbeat = Heartbeat {
        work: Work::Ready(Look { checks: checks.clone(), ..Look::default() }),
        calendar_offset_ns: clock.0,
        clock_uncertainty_ns: clock.1,
        ..ready("h0", 1)
    };
    membership.heartbeat(0, 0, heartbeat);
    let notes = membership.take_notes();
    let said = of_host(&notes, "h0", "ready");
    let [note] = &said[..] else { panic!("{notes:?}") };
    assert_eq!(note.text, "ready (calendar -0.3 ms, known to ±0.05 ms)");
    assert_eq!(note.detail, Some(checks.join("; ")));
}

/// Work that ends when its folder contains the file `go`.
struct Waiting;

impl HostWork for Waiting {
    fn prepare(&self, _assignment: &Assignment) -> Result<Look, String> {
        Ok(Look::default())
    }

    fn run(
        &self,
        _assignment: &Assignment,
        folder: &Path,
        _control: &RunControl,
        _arbiter: ArbiterLink,
    ) -> (Ended, Option<String>) {
        std::fs::write(folder.join("run.db"), "as announced").unwrap();
        while !folder.join("go").exists() {
            std::thread::sleep(Duration::from_millis(20));
        }
        (Ended::Passed, None)
    }
}

async fn until(happens: impl Fn() -> bool) {
    while !happens() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn a_controller_that_takes_a_run_up_ends_when_a_host_sends_other_evidence_than_it_announced() {
    if !has_server() {
        return;
    }
    let fleet = Fleet::new(1);
    in_local(async {
        let _server = fleet.server();
        fleet.wait_for_server();
        let _agent = fleet.agent("host.0", Arc::new(Waiting));
        let state = fleet.root.path().join("state").join(token("host.0"));
        let evidence = state.join("runs/run-1");
        let (mut first, mut watcher) = (fleet.controller(fleet.plan()), Listener::default());
        let notes = watcher.notes.clone();
        let begun = until(|| evidence.join("run.db").exists());
        tokio::select! {
            result = first.conduct(&mut watcher) => panic!("ended early: {result:?}, {:?}", notes.borrow()),
            () = begun => {}
        }
        drop(first);
        std::fs::write(evidence.join("go"), "").unwrap();
        let has_announced = || {
            let memory = std::fs::read_to_string(state.join("agent.json")).unwrap_or_default();
            memory.contains("\"phase\": \"ended\"")
        };
        until(has_announced).await;
        std::fs::write(evidence.join("run.db"), "another run!").unwrap();
        let (mut second, mut listener) = (fleet.resumed(), Listener::default());
        second.conduct(&mut listener).await.unwrap();
        let given_up = &second.memory().given_up["host.0"];
        assert_eq!(given_up, "its evidence is not what it announced: run.db");
        let notes = listener.notes.borrow().clone();
        assert!(notes.iter().any(|note| note.starts_with("host.0") && note.contains(given_up)), "{notes:?}");
        // A person who asks for the end does not have to wait for that.
        let (mut third, mut listener) = (fleet.resumed(), Listener::default());
        *listener.interrupts.borrow_mut() = 1;
        third.conduct(&mut listener).await.unwrap();
        let notes = listener.notes.borrow().clone();
        assert!(notes.iter().any(|note| note.contains("nothing more is waited for")), "{notes:?}");
    });
}

#[test]
fn a_controller_whose_bus_ends_with_another_controller_says_so_and_a_request_ends_it() {
    if !has_server() {
        return;
    }
    let fleet = Fleet::new(1);
    in_local(async {
        let server = fleet.server();
        fleet.wait_for_server();
        let mut controller = fleet.controller(fleet.plan());
        let mut listener = Listener::default();
        let (notes, interrupts) = (listener.notes.clone(), listener.interrupts.clone());
        let scenario = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(server);
            until(|| notes.borrow().iter().any(|note| note.contains("is gone: start nats-server"))).await;
            *interrupts.borrow_mut() = 1;
        };
        let (conducted, ()) = tokio::join!(controller.conduct(&mut listener), scenario);
        let error = conducted.expect_err("no host can be told").to_string();
        assert!(error.starts_with("the bus at tls://127.0.0.1:") && error.contains(" is gone"), "{error}");
    });
}

//! What controller and agents make of each other's words, case by case: strangers, doubles, other builds and
//! other controllers, agents that forgot their run, hosts that are lost.

use std::collections::BTreeMap;

use fleet::agent_state::Action;
use fleet::membership::{Fate, Membership, Plan, WhenLost};
use fleet::message::{ControllerHead, Ended, EvidenceFile, Heartbeat, Look, PROTOCOL, WhenAlone, Work};

use results::{Environment, Severity};

use crate::exchange::{Host, MS, plan, points};

pub fn ready(host: &str, process: u64) -> Heartbeat {
    Heartbeat {
        protocol: PROTOCOL,
        tool_version: "1.0".into(),
        build: "b".into(),
        host: host.into(),
        process,
        nonce: 1,
        run: Some("run-1".into()),
        epoch: 1,
        work: Work::Ready(Look::default()),
        calendar_offset_ns: None,
        clock_uncertainty_ns: None,
        refusals: Vec::new(),
        state_error: None,
    }
}

pub fn running(host: &str, process: u64) -> Heartbeat {
    Heartbeat {
        work: Work::Running {
            waiting_at: Some(points()[0]),
            progress: String::new(),
            done: 0.0,
            iops: 0.0,
            read_latency_ms: 0.0,
            log_write_latency_ms: 0.0,
        },
        ..ready(host, process)
    }
}

#[test]
fn a_stranger_another_version_and_a_double_are_told_why_and_change_nothing() {
    let mut membership = Membership::new(plan(2), 0);
    membership.heartbeat(0, 0, ready("h0", 1));
    let before = membership.memory().clone();
    let mut refused =
        |heartbeat: Heartbeat| membership.heartbeat(0, 0, heartbeat).refused.expect("not refused");
    assert!(refused(ready("h9", 1)).contains("takes no part"));
    assert!(refused(Heartbeat { protocol: 99, ..ready("h1", 2) }).contains("version 99"));
    assert!(refused(ready("h0", 7)).contains("another agent"));
    assert_eq!(*membership.memory(), before);
    assert!(!membership.memory().go, "h1 was never ready");
    membership.heartbeat(0, 0, ready("h1", 2));
    assert!(membership.memory().go);
}

#[test]
fn an_older_controller_learns_that_it_is_superseded() {
    let mut old = Membership::new(plan(1), 0);
    let new = Membership::resume(old.memory().clone(), 0);
    assert_eq!((old.memory().epoch, new.memory().epoch), (1, 2));
    let orders = old.heartbeat(0, 0, Heartbeat { epoch: 2, ..ready("h0", 1) });
    assert!(orders.refused.is_some(), "the agent obeys another controller");
    assert!(!old.is_superseded(), "an agent cannot say who conducts a run");
    for (run, epoch) in [("run-2", 7), ("run-1", 1)] {
        old.hear_controller(0, head(run, epoch, 0));
        assert!(!old.is_superseded(), "epoch {epoch} of {run}");
    }
    old.hear_controller(0, new.head(0, false));
    assert!(old.is_superseded());
}

#[test]
fn an_agent_of_another_version_or_build_is_refused() {
    let mut membership = Membership::new(plan(1), 0);
    let mut refused =
        |heartbeat: Heartbeat| membership.heartbeat(0, 0, heartbeat).refused.expect("it is refused");
    assert!(refused(Heartbeat { tool_version: "0.9".into(), ..ready("h0", 1) }).contains("0.9"));
    // One of before builds were compared says none.
    for build in ["c", ""] {
        assert!(refused(Heartbeat { build: build.into(), ..ready("h0", 1) }).contains("another build"));
    }
    assert!(!membership.memory().go);
    let mut any = Membership::new(Plan { build: None, ..plan(1) }, 0);
    any.heartbeat(0, 0, Heartbeat { build: "c".into(), ..ready("h0", 1) });
    assert!(any.memory().go, "the run was started so that any build may take part");
}

#[test]
fn a_second_user_of_the_credentials_of_a_host_is_noted_once() {
    let mut membership = Membership::new(plan(1), 0);
    let second = Heartbeat { process: 7, ..ready("h0", 7) };
    membership.heartbeat(0, 0, ready("h0", 1));
    (0..5).for_each(|_| drop(membership.heartbeat(0, 0, second.clone())));
    let notes = membership.take_notes();
    let of_it: Vec<_> = notes.iter().filter(|note| note.text.contains("two processes")).collect();
    assert_eq!(of_it.len(), 1, "{notes:?}");
}

#[test]
fn a_host_that_writes_long_texts_or_many_notes_fills_no_log() {
    let mut membership = Membership::new(plan(1), 0);
    for number in 0..500 {
        let refusals = vec![format!("\x1b[31m{number}{}", "x".repeat(100_000)); 40];
        membership.heartbeat(0, 0, Heartbeat { refusals, ..ready("h0", 1) });
    }
    let notes = membership.take_notes();
    assert!(notes.len() <= 201, "{}", notes.len());
    assert!(notes.iter().all(|note| note.text.len() < 1_000 && !note.text.contains('\x1b')));
    assert!(notes.iter().any(|note| note.text.contains("no more are kept")));
}

#[test]
fn hosts_on_one_machine_and_file_system_are_named_once_before_their_tests_start() {
    let mut membership = Membership::new(plan(3), 0);
    let row = |host: &str, area: &str, name: &str, value: &str| {
        let [host, area, name, value] = [host, area, name, value].map(str::to_owned);
        Environment { host, area, name, value, severity: Severity::Info, note: String::new() }
    };
    for (host, boot_id) in [("h0", "1"), ("h1", "1"), ("h2", "2")] {
        let identity = vec![
            row(host, "System", "Boot id", boot_id),
            row(host, "Volume V", "Identity", "file system on device 259:2"),
        ];
        let work = Work::Ready(Look { identity, ..Look::default() });
        membership.heartbeat(0, 0, Heartbeat { work, ..ready(host, 1) });
    }
    assert!(membership.memory().go);
    membership.heartbeat(0, 0, ready("h0", 1));
    let notes: Vec<String> = membership.take_notes().into_iter().map(|note| note.text).collect();
    let told: Vec<usize> = (0..notes.len()).filter(|at| notes[*at].starts_with("h0 and h1 ")).collect();
    let start = notes.iter().position(|note| note.contains("the tests start")).expect("they start");
    assert!(told.len() == 2 && told.iter().all(|at| *at < start), "{notes:?}");
    assert!(
        notes[told[0]].starts_with("h0 and h1 run on one machine, and the solution file does not say so")
    );
}

/// Announcement of another controller that claims host h0.
fn head(run: &str, epoch: u64, since_unix_ns: u64) -> ControllerHead {
    let hosts = vec!["h0".to_owned()];
    ControllerHead { protocol: PROTOCOL, run: run.into(), epoch, since_unix_ns, hosts, ends: false }
}

#[test]
fn a_host_is_left_to_the_controller_of_its_run_as_long_as_that_one_lives() {
    let files = vec![EvidenceFile { name: "run.db".into(), bytes: 1, sha256: String::new() }];
    let owing = Work::Ended { how: Ended::Passed, why: None, files };
    for work in [owing, Work::Ready(Look::default()), running("h0", 1).work] {
        let mut membership = Membership::new(plan(1), 0);
        let heartbeat = Heartbeat { run: Some("run-0".into()), work, ..ready("h0", 1) };
        assert!(
            membership.leaves_to_another(0, 5, &heartbeat),
            "it has not had the time to hear the other controller"
        );
        for second in 1..600 {
            // The other controller is started again, later than this one: it has the host all the same.
            membership.hear_controller(second * 1_000 * MS, head("run-0", 1, 9));
            assert!(membership.leaves_to_another(second * 1_000 * MS, 5, &heartbeat), "{second}");
        }
        assert!(
            !membership.leaves_to_another(610_000 * MS, 5, &heartbeat),
            "nothing is heard of the other controller"
        );
        let notes = membership.take_notes();
        assert_eq!(notes.iter().filter(|note| note.text.contains("run-0")).count(), 1, "{notes:?}");
        let own = Heartbeat { run: Some("run-1".into()), ..heartbeat };
        assert!(!membership.leaves_to_another(0, 5, &own));
    }
}

#[test]
fn of_two_runs_that_want_the_same_hosts_the_earlier_one_goes_first() {
    let idle = Heartbeat { run: None, work: Work::Idle, ..ready("h0", 1) };
    let mut membership = Membership::new(plan(1), 0);
    membership.hear_controller(0, head("run-2", 1, 6));
    assert!(!membership.leaves_to_another(0, 5, &idle), "the other one is later");
    membership.hear_controller(0, head("run-2", 1, 4));
    assert!(membership.leaves_to_another(0, 5, &idle));
    let of_another_host = Heartbeat { host: "h1".into(), ..idle.clone() };
    assert!(!membership.leaves_to_another(0, 5, &of_another_host), "the other run does not want that host");
    membership.hear_controller(0, ControllerHead { ends: true, ..head("run-2", 1, 4) });
    assert!(!membership.leaves_to_another(0, 5, &idle), "the other run is over");
}

#[test]
fn the_name_of_a_run_reaches_nobody_raw() {
    let run = Some(format!("\x1b[2J{}", "x".repeat(100_000)));
    let mut membership = Membership::new(plan(1), 0);
    let heartbeat = Heartbeat { run, ..ready("h0", 1) };
    membership.leaves_to_another(0, 0, &heartbeat);
    membership.heartbeat(0, 0, ready("h0", 1));
    membership.heartbeat(0, 0, heartbeat);
    let notes = membership.take_notes().into_iter().map(|note| note.text);
    let fates = membership.memory().fates.values().map(|fate| format!("{fate:?}"));
    for text in notes.chain(fates) {
        assert!(text.len() < 1_000 && !text.contains('\x1b') && !text.contains("u{1b}"), "{text}");
    }
}

/// Refusals of an agent that is assigned to run-2, `silence_ms` after the last message of its own controller.
fn offered_another_run(host: &mut Host, own: &mut Membership, silence_ms: u64) -> Vec<String> {
    let heartbeat = host.heartbeat(0, 1);
    host.orders(0, own.heartbeat(0, 0, heartbeat));
    let mut other = Membership::new(Plan { run: "run-2".into(), ..plan(1) }, 0);
    let now_ns = silence_ms * MS;
    let heartbeat = host.heartbeat(now_ns, 2);
    host.orders(
        now_ns,
        other.heartbeat(now_ns, now_ns, Heartbeat { run: None, work: Work::Idle, ..heartbeat }),
    );
    host.heartbeat(now_ns, 3).refusals
}

#[test]
fn an_agent_gives_no_living_controller_up_for_another_one() {
    let mut own = Membership::new(plan(1), 0);
    let mut host = Host::new(0);
    let heartbeat = host.heartbeat(0, 1);
    host.orders(0, own.heartbeat(0, 0, heartbeat));
    host.step(0);
    // The other host of the run is not ready yet.
    let mut two = Membership::new(plan(2), 0);
    let refusals = offered_another_run(&mut host, &mut two, 9_000);
    assert!(refusals.iter().any(|why| why.contains("ready for it")), "{refusals:?}");
    let heartbeat = host.heartbeat(0, 1);
    host.orders(0, own.heartbeat(0, 0, heartbeat));
    host.state.ended(Ended::Passed, None, host.evidence());
    let refusals = offered_another_run(&mut host, &mut own, 9_000);
    assert!(refusals.iter().any(|why| why.contains("owes its evidence")), "{refusals:?}");
    // Nothing is heard of its controller any more; a later one finds the evidence in its folder.
    let refusals = offered_another_run(&mut host, &mut own, 11_000);
    assert!(refusals.is_empty(), "{refusals:?}");
    assert!(host.preparing && host.state.memory().is_some_and(|memory| memory.assignment.run == "run-2"));
}

#[test]
fn evidence_is_collected_from_an_agent_that_has_taken_up_another_run_since() {
    let mut membership = Membership::new(plan(1), 0);
    membership.heartbeat(0, 0, ready("h0", 1));
    assert!(membership.memory().go);
    // The agent has forgotten this run, as one that a second controller has taken.
    let mut host = Host::new(0);
    for nonce in 1..20 {
        let now_ns = 1_000_000 * MS + nonce * 500 * MS;
        let heartbeat = host.heartbeat(now_ns, nonce);
        let orders = membership.heartbeat(now_ns, now_ns, Heartbeat { process: 1, ..heartbeat });
        if host.orders(now_ns, orders) {
            membership.evidence_kept("h0");
        }
        assert!(!host.preparing && !host.running, "it does not carry the run out again");
    }
    let fate = &membership.memory().fates["h0"];
    assert!(matches!(fate, Fate::Ended { how: Ended::AgentDied, evidence_kept: true, .. }), "{fate:?}");
    let notes = membership.take_notes();
    assert!(notes.iter().any(|note| note.text.contains("collected")), "{notes:?}");
}

#[test]
fn an_agent_does_not_obey_orders_of_an_older_epoch() {
    let mut old = Membership::new(plan(1), 0);
    let mut new = Membership::resume(old.memory().clone(), 0);
    let mut host = Host::new(0);
    let heartbeat = host.heartbeat(0, 1);
    host.orders(0, new.heartbeat(0, 0, heartbeat));
    host.step(0);
    let heartbeat = host.heartbeat(0, 2);
    let mut orders = old.heartbeat(0, 0, Heartbeat { epoch: 0, ..heartbeat });
    (orders.nonce, orders.refused) = (2, None);
    assert!(orders.go, "the old controller would start the tests");
    host.orders(0, orders);
    assert!(!host.running);
    assert!(host.heartbeat(0, 3).refusals[0].contains("epoch 1"), "and the agent says why");
}

/// Fate of a host whose agent can no longer store its state after `orders_before` orders, and the notes about it.
fn fate_with_a_full_disk(orders_before: u64) -> (Fate, Vec<String>) {
    let (mut membership, mut host) = (Membership::new(plan(1), 0), Host::new(0));
    for nonce in 0..orders_before {
        let heartbeat = host.heartbeat(0, nonce);
        host.orders(0, membership.heartbeat(0, 0, heartbeat));
        host.step(0);
    }
    let heartbeat = host.heartbeat(0, 100);
    let actions = host.state.orders(0, 0, membership.heartbeat(0, 0, heartbeat));
    let allowed = host.state.kept(Err("agent.json: no space".into()), actions);
    assert_eq!(allowed, [], "it neither prepares nor starts tests");
    for nonce in 101..104 {
        let heartbeat = host.heartbeat(0, nonce);
        membership.heartbeat(0, 0, heartbeat);
    }
    let notes = membership.take_notes().into_iter().map(|note| note.text).collect();
    (membership.memory().fates["h0"].clone(), notes)
}

#[test]
fn an_agent_that_cannot_keep_its_state_starts_nothing_and_its_controller_says_why_once() {
    let why = "it cannot write its state: agent.json: no space".to_owned();
    let (before, notes) = fate_with_a_full_disk(0);
    assert_eq!(before, Fate::Refused { why: why.clone() }, "{notes:?}");
    let (begun, notes) = fate_with_a_full_disk(1);
    let expected = Fate::Ended { how: Ended::Aborted, why: Some(why.clone()), evidence_kept: true };
    assert_eq!(begun, expected, "{notes:?}");
    assert_eq!(notes.iter().filter(|note| **note == why).count(), 1, "{notes:?}");
}

#[test]
fn a_host_that_cannot_take_part_stops_the_run_before_it_starts() {
    let mut membership = Membership::new(plan(2), 0);
    membership.heartbeat(0, 0, ready("h0", 1));
    let why = "no space".to_owned();
    let orders = membership.heartbeat(0, 0, Heartbeat { work: Work::Refused { why }, ..ready("h1", 2) });
    assert!(orders.stop.is_some_and(|why| why.contains("h1")));
    assert!(!membership.memory().go);
    assert!(!membership.is_over(), "h0 has not heard of it");
    membership.heartbeat(1, 1, Heartbeat { run: None, work: Work::Idle, ..ready("h0", 1) });
    assert!(membership.is_over(), "h0 has put the run away, and has nothing to send of it");
}

#[test]
fn the_loss_of_a_host_is_survived_or_ends_the_run_as_planned() {
    for (when_lost, stops) in [(WhenLost::Finish, false), (WhenLost::Stop, true)] {
        let mut membership = Membership::new(Plan { when_lost, ..plan(2) }, 0);
        membership.heartbeat(0, 0, ready("h0", 1));
        membership.heartbeat(0, 0, ready("h1", 2));
        assert!(membership.heartbeat(1, 1, running("h0", 1)).released.is_none(), "h1 is not there yet");
        let mut now = 0;
        while now < 30_000 * MS {
            now += 500 * MS;
            membership.heartbeat(now, now, running("h0", 1));
            membership.tick(now, now, true);
        }
        assert_eq!(membership.memory().stop.is_some(), stops);
        assert_eq!(membership.memory().released.is_some(), !stops, "h0 goes on alone, or ends");
        assert_eq!(membership.missing(), ["h1"]);
    }
}

#[test]
fn nobody_is_lost_while_the_bus_is_away_and_silence_counts_from_its_return() {
    for when_lost in [WhenLost::Finish, WhenLost::Stop] {
        let mut membership = Membership::new(Plan { when_lost, ..plan(2) }, 0);
        membership.heartbeat(0, 0, ready("h0", 1));
        membership.heartbeat(0, 0, ready("h1", 2));
        membership.heartbeat(0, 0, running("h0", 1));
        let mut pass = |seconds: std::ops::Range<u64>, hears: bool| {
            for now in seconds.map(|second| second * 1_000 * MS) {
                membership.tick(now, now, hears);
            }
            (membership.is_over(), membership.missing().len(), membership.memory().stop.is_some())
        };
        assert_eq!(pass(1..9, true), (false, 0, false));
        assert_eq!(pass(9..60, false), (false, 0, false));
        assert_eq!(pass(60..69, true), (false, 0, false));
        assert_eq!(pass(69..72, true), (true, 2, when_lost == WhenLost::Stop));
    }
}

#[test]
fn without_its_controller_an_agent_finishes_or_stops_as_planned() {
    for (when_alone, finishes) in [(WhenAlone::Finish, true), (WhenAlone::Stop, false)] {
        let mut membership = Membership::new(Plan { when_alone, alone_after_ms: 5_000, ..plan(1) }, 0);
        let mut host = Host::new(0);
        for nonce in 0..3 {
            let heartbeat = host.heartbeat(0, nonce);
            host.orders(0, membership.heartbeat(0, 0, heartbeat));
            host.step(0);
        }
        assert!(host.running);
        assert_eq!(host.state.alone(host.local(4_000 * MS)), None);
        let action = host.state.alone(host.local(5_001 * MS)).expect("alone for longer than planned");
        assert_eq!(matches!(action, Action::Release(..)), finishes);
        assert_eq!(matches!(action, Action::Stop(_)), !finishes);
        assert_eq!(host.state.alone(host.local(6_000 * MS)), None, "once");
    }
}

/// Fates of the hosts of a started run after its next controller has received these heartbeats for `seconds`, and
/// whether the run is over.
fn resumed(heartbeats: &[Heartbeat], seconds: u64) -> (BTreeMap<String, Fate>, bool) {
    let mut first = Membership::new(plan(2), 0);
    first.heartbeat(0, 0, ready("h0", 1));
    first.heartbeat(0, 0, ready("h1", 2));
    assert!(first.memory().go);
    first.stop("asked to");
    let mut next = Membership::resume(first.memory().clone(), 0);
    for second in 0..=seconds {
        let now_ns = second * 1_000 * MS;
        for heartbeat in heartbeats {
            next.heartbeat(now_ns, now_ns, heartbeat.clone());
        }
        next.tick(now_ns, now_ns, true);
    }
    (next.memory().fates.clone(), next.is_over())
}

#[test]
fn the_next_controller_of_a_stopped_run_waits_for_hosts_that_have_evidence() {
    assert!(!resumed(&[], 2).1, "nobody has been heard of yet");
    assert!(resumed(&[], 12).1, "nobody is there");
    let ended = |host: &str, process| {
        let files = vec![EvidenceFile { name: "run.db".into(), bytes: 1, sha256: host.into() }];
        Heartbeat { work: Work::Ended { how: Ended::Interrupted, why: None, files }, ..ready(host, process) }
    };
    assert!(!resumed(&[ended("h0", 1)], 12).1, "it has still to send it");
}

#[test]
fn a_host_that_has_taken_up_another_run_keeps_no_controller_waiting() {
    let other = |host: &str, process| Heartbeat { run: Some("run-2".into()), ..running(host, process) };
    let (fates, is_over) = resumed(&[other("h0", 1), other("h1", 2)], 0);
    assert!(is_over);
    let Fate::Ended { how: Ended::AgentDied, why: Some(why), .. } = &fates["h1"] else { panic!("{fates:?}") };
    assert!(why.contains("run-2"), "{why}");
}

#[test]
fn evidence_that_stays_on_a_host_with_another_run_keeps_no_controller_waiting() {
    let mut first = Membership::new(plan(2), 0);
    first.heartbeat(0, 0, ready("h0", 1));
    first.heartbeat(0, 0, ready("h1", 2));
    for (host, process) in [("h0", 1), ("h1", 2)] {
        let files = vec![EvidenceFile { name: "run.db".into(), bytes: 1, sha256: host.into() }];
        first.heartbeat(
            0,
            0,
            Heartbeat { work: Work::Ended { how: Ended::Passed, why: None, files }, ..ready(host, process) },
        );
    }
    assert!(!first.is_over(), "evidence is still to come");
    let mut next = Membership::resume(first.memory().clone(), 0);
    next.heartbeat(0, 0, Heartbeat { run: Some("run-2".into()), ..running("h0", 1) });
    let orders = next.heartbeat(0, 0, Heartbeat { work: Work::Idle, run: None, ..ready("h1", 2) });
    assert!(orders.collect && orders.assignment.is_some(), "a host that does nothing is asked for it");
    assert!(!next.is_over(), "it has not answered");
    let nothing = Work::Ended { how: Ended::AgentDied, why: Some("nothing is left".into()), files: vec![] };
    next.heartbeat(0, 0, Heartbeat { work: nothing, ..ready("h1", 2) });
    assert!(next.is_over());
    let fates = &next.memory().fates;
    assert!(fates.values().all(|fate| matches!(fate, Fate::Ended { how: Ended::Passed, .. })), "{fates:?}");
    let notes = next.take_notes();
    let told = |text: &str| notes.iter().filter(|note| note.text.contains(text)).count();
    assert_eq!((told("works for another run, run-2"), told("its evidence stays there")), (1, 1), "{notes:?}");
}

#[test]
fn an_agent_that_is_started_again_before_the_tests_has_time_to_be_taken_in() {
    for falls_silent in [false, true] {
        let mut membership = Membership::new(plan(2), 0);
        membership.heartbeat(0, 0, ready("h0", 1));
        let mut now = 0;
        while now < 25_000 * MS {
            now += 300 * MS;
            if now < 9_000 * MS || !falls_silent {
                membership.heartbeat(now, now, ready("h0", 7));
            }
            membership.tick(now, now, true);
            if now < 18_000 * MS {
                assert_eq!(membership.memory().stop, None, "at {} ms", now / MS);
            }
        }
        assert_eq!(membership.memory().stop.is_some(), falls_silent);
        membership.heartbeat(now, now, ready("h1", 2));
        assert_eq!(membership.memory().go, !falls_silent);
    }
}

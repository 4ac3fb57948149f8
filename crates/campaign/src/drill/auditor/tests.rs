use super::*;
use crate::drill::fixture::{full_copy, planned};
use testkit::solutions::SMALL_DRILL;

fn topology() -> (DrillSpec, Rc<Topology>) {
    topology_of(SMALL_DRILL)
}

fn topology_of(text: &str) -> (DrillSpec, Rc<Topology>) {
    let planned = planned(text);
    (planned.drill, planned.topology)
}

/// Drill with a host that comes back.
fn drill() -> DrillSpec {
    let (mut drill, _) = topology();
    drill.failures[0].back_at_s = Some(20.0);
    drill
}

/// Rules that are broken, given what users saw and the page digests.
fn broken(see: impl FnOnce(&mut Auditor)) -> Vec<String> {
    let mut auditor = Auditor::new(topology().1);
    see(&mut auditor);
    let verdicts = auditor.judge(1, 60_000);
    let failed = verdicts.into_iter().filter(|verdict| verdict.outcome == Outcome::Fail);
    failed.map(|verdict| verdict.rule).collect()
}

fn opened(epoch: u32, version: u32) -> Observed {
    Observed::Opened { database: 0, epoch: Epoch(epoch), found: BTreeMap::from([(7, version)]) }
}

fn acknowledged(epoch: u32, version: u32) -> Observed {
    Observed::Acknowledged { database: 0, epoch: Epoch(epoch), folders: BTreeMap::from([(7, version)]) }
}

#[test]
fn a_change_that_was_found_but_never_acknowledged_may_be_lost() {
    let found_again = |version| {
        move |auditor: &mut Auditor| {
            auditor.observe(0, HostId(0), opened(1, 0));
            auditor.observe(1, HostId(0), acknowledged(1, 3));
            auditor.observe(2, HostId(1), opened(2, 5));
            auditor.observe(3, HostId(0), opened(3, version));
        }
    };
    assert_eq!(broken(found_again(3)), Vec::<String>::new());
    assert_eq!(broken(found_again(2)), ["drill_lost_commits"]);
}

#[test]
fn an_acknowledged_version_that_is_not_found_again_is_lost() {
    let found = |version| {
        move |auditor: &mut Auditor| {
            auditor.observe(0, HostId(0), opened(1, 0));
            auditor.observe(1, HostId(0), acknowledged(1, 5));
            auditor.observe(2, HostId(1), opened(2, version));
        }
    };
    assert_eq!(broken(found(5)), Vec::<String>::new());
    assert_eq!(broken(found(4)), ["drill_lost_commits"]);
}

#[test]
fn a_lossy_dial_excuses_what_an_activation_said_that_it_may_lose_and_nothing_else() {
    let lossy = SMALL_DRILL.replace("[test.drill]", "[test.drill]\nmount_dial = \"good_availability\"");
    let fork = replication::Position::of_generation(3);
    let loss = Some(replication::Loss { fork, missing_generations: 1, bound_generations: 3 });
    let broken = |said: &[(u32, Option<replication::Loss>)]| {
        let mut auditor = Auditor::new(topology_of(&lossy).1);
        auditor.observe(0, HostId(0), opened(1, 0));
        auditor.begin_window(0);
        auditor.observe(1, HostId(0), acknowledged(1, 5));
        for &(epoch, loss) in said {
            let holder = HostId(1);
            auditor.decided(0, ArbiterEvent::Activated { holder, epoch: Epoch(epoch), loss });
        }
        auditor.observe(2, HostId(1), opened(3, 4));
        let failed = auditor.judge(1, 60_000).into_iter().filter(|verdict| verdict.outcome == Outcome::Fail);
        failed.map(|verdict| verdict.rule).collect::<Vec<_>>()
    };
    assert_eq!(broken(&[(3, loss)]), Vec::<String>::new());
    assert_eq!(broken(&[(2, loss), (3, None)]), Vec::<String>::new(), "nobody has worked in epoch 2");
    assert_eq!(broken(&[]), Vec::<String>::new(), "nobody knows what the arbiter said");
    assert_eq!(broken(&[(3, None)]), ["drill_lost_commits"]);
    assert_eq!(broken(&[(1, loss), (3, None)]), ["drill_lost_commits"], "that was before");
}

#[test]
fn changes_that_a_lossy_dial_may_lose_are_counted_apart_from_those_that_it_may_not() {
    let lossy = SMALL_DRILL.replace("[test.drill]", "[test.drill]\nmount_dial = \"good_availability\"");
    let fork = replication::Position::of_generation(3);
    let counted = |loss: Option<replication::Loss>| {
        let mut auditor = Auditor::new(topology_of(&lossy).1);
        auditor.observe(0, HostId(0), opened(1, 0));
        auditor.begin_window(0);
        auditor.observe(1, HostId(0), acknowledged(1, 5));
        auditor.decided(0, ArbiterEvent::Activated { holder: HostId(1), epoch: Epoch(2), loss });
        auditor.observe(2, HostId(1), opened(2, 2));
        let verdicts = auditor.judge(1, 60_000);
        ["drill_lost_commits", "drill_lost_changes"].map(|rule| {
            let verdict = verdicts.iter().find(|verdict| verdict.rule == rule);
            verdict.and_then(|verdict| verdict.measured)
        })
    };
    let loss = replication::Loss { fork, missing_generations: 1, bound_generations: 3 };
    assert_eq!(counted(Some(loss)), [Some(0.0), Some(3.0)], "versions 3 to 5 are gone, as announced");
    assert_eq!(counted(None), [Some(3.0), Some(0.0)], "none was to be lost");
}

#[test]
fn an_acknowledgement_of_a_copy_that_another_one_has_followed_is_counted() {
    let late = |auditor: &mut Auditor| {
        auditor.observe(0, HostId(0), opened(1, 0));
        auditor.observe(1, HostId(1), opened(2, 0));
        auditor.observe(2, HostId(0), acknowledged(1, 1));
    };
    assert_eq!(broken(late), ["drill_two_active"]);
}

#[test]
fn a_page_that_differs_and_a_copy_that_cannot_be_read_are_failures() {
    let said = |digests: &[Option<(u32, u32)>]| {
        let digests = digests.iter().map(|digest| digest.map(|digest| BTreeMap::from([digest])));
        let said: Vec<Compared> =
            digests.map(|digests| Compared { database: 0, changed: 9, digests }).collect();
        broken(move |auditor| {
            auditor.observe(0, HostId(0), acknowledged(1, 1));
            auditor.compare(&drill(), &said);
        })
    };
    assert_eq!(said(&[Some((7, 1)), Some((7, 1))]), Vec::<String>::new());
    assert_eq!(said(&[Some((7, 1)), Some((7, 2))]), ["drill_copies_equal"]);
    assert_eq!(said(&[Some((7, 1)), Some((8, 1))]), ["drill_copies_equal"]);
    assert_eq!(said(&[Some((7, 1)), None]), ["drill_copies_compared"]);
    assert_eq!(said(&[Some((7, 1))]), ["drill_copies_compared"]);
}

#[test]
fn a_stall_that_no_activation_ends_is_a_wait() {
    let (_, topology) = topology();
    let mut auditor = Auditor::new(topology);
    auditor.observe(0, HostId(0), opened(1, 0));
    auditor.observe(1_000, HostId(0), acknowledged(1, 1));
    auditor.begin_window(5_000);
    auditor.fails(20_000, &Failure { hosts: vec!["h2".into()], ..drill().failures.remove(0) });
    auditor.observe(21_000, HostId(0), acknowledged(1, 2));
    auditor.observe(50_000, HostId(0), acknowledged(1, 3));
    auditor.end_window(60_000);
    let summary = &auditor.databases[0];
    assert_eq!((summary.wait_ms, summary.outage_ms), (29_000, None));
}

#[test]
fn an_outage_that_no_scheduled_failure_explains_is_measured_all_the_same() {
    let (_, topology) = topology();
    let mut auditor = Auditor::new(topology);
    auditor.observe(0, HostId(0), opened(1, 0));
    auditor.begin_window(0);
    auditor.observe(10_000, HostId(0), acknowledged(1, 1));
    auditor.observe(25_000, HostId(1), opened(2, 1));
    auditor.observe(26_000, HostId(1), acknowledged(2, 2));
    auditor.end_window(30_000);
    let summary = &auditor.databases[0];
    assert_eq!((summary.wait_ms, summary.outage_ms), (16_000, Some(16_000)));
    let stated = auditor.judge(1, 30_000).into_iter().filter(|verdict| verdict.outcome == Outcome::Info);
    let outage = stated.into_iter().find(|verdict| verdict.rule == "drill_outage");
    assert_eq!(outage.and_then(|verdict| verdict.measured), Some(16.0));
}

#[test]
fn a_copy_that_is_cut_off_for_less_than_its_lease_serves_again_when_that_is_over() {
    let (_, topology) = topology();
    let mut auditor = Auditor::new(topology);
    let cut_off = Failure { kind: solution::DrillEventKind::HostCutOff, ..drill().failures.remove(0) };
    auditor.observe(0, HostId(0), opened(1, 0));
    auditor.fails(20_000, &cut_off);
    auditor.observe(21_000, HostId(0), acknowledged(1, 1));
    assert_eq!(auditor.databases[0].outage_ms, None, "users of a host that is cut off reach nobody");
    auditor.is_over(&cut_off);
    auditor.observe(24_000, HostId(0), acknowledged(1, 2));
    let summary = &auditor.databases[0];
    assert_eq!((summary.outage_ms, summary.out_since), (Some(4_000), None));
}

/// Second at whose end every host has reported a complete copy.
fn full_second(auditor: &mut Auditor, now_ms: u64) {
    for host in 0..2 {
        auditor.sample(host, vec![full_copy(host)]);
    }
    auditor.end_of_sample(now_ms);
}

#[test]
fn a_copy_that_was_full_before_the_failure_or_is_cut_off_is_no_full_one() {
    let (_, topology) = topology();
    let mut auditor = Auditor::new(topology);
    let whole_ms = |auditor: &Auditor| auditor.databases[0].whole_ms;
    let killed = drill().failures.remove(0);
    (0..2).for_each(|host| auditor.sample(host, vec![full_copy(host)]));
    auditor.fails(10_000, &killed);
    auditor.end_of_sample(10_500);
    assert_eq!(whole_ms(&auditor), None, "that was before");
    full_second(&mut auditor, 11_500);
    assert_eq!(whole_ms(&auditor), Some(11_500));

    let cut_off = Failure { kind: DrillEventKind::HostCutOff, hosts: vec!["h2".into()], ..killed };
    auditor.fails(20_000, &cut_off);
    full_second(&mut auditor, 21_000);
    assert_eq!(whole_ms(&auditor), None, "nobody reaches it");
    auditor.is_over(&cut_off);
    full_second(&mut auditor, 25_000);
    assert_eq!(whole_ms(&auditor), Some(25_000));
}

#[test]
fn messages_that_a_copy_refused_are_counted_each_and_said_once_with_their_sender() {
    let mut auditor = Auditor::new(topology().1);
    let event = Event::SecondActiveRefused { from: HostId(0) };
    let events = vec![event, event, Event::StaleEpochRefused];
    auditor.sample(1, vec![CopySample { events, ..full_copy(1) }]);
    let verdicts = auditor.judge(1, 60_000);
    let refused = verdicts.iter().find(|verdict| verdict.rule == "drill_refused_messages");
    assert_eq!(refused.and_then(|verdict| verdict.measured), Some(2.0), "an epoch that is over is none");
    let notes = auditor.take_notes();
    let said = notes.iter().filter(|(host, text)| *host == 1 && text.contains("refused log that h1 sent"));
    assert_eq!(said.count(), 1, "{notes:?}");
}

#[test]
fn damaged_pages_are_said_and_those_that_another_copy_replaced_are_counted() {
    let mut auditor = Auditor::new(topology().1);
    let events =
        vec![Event::PageDamaged { page: 8 }, Event::PageDamaged { page: 9 }, Event::PageRepaired { page: 8 }];
    auditor.sample(1, vec![CopySample { events, ..full_copy(1) }]);
    let verdicts = auditor.judge(1, 60_000);
    let repaired = verdicts.iter().find(|verdict| verdict.rule == "drill_repaired_pages");
    assert_eq!(repaired.and_then(|verdict| verdict.measured), Some(1.0));
    let notes = auditor.take_notes();
    for said in ["page 8 failed its check", "page 7 was replaced"] {
        assert!(notes.iter().any(|(host, text)| *host == 1 && text.contains(said)), "{said}: {notes:?}");
    }
}

#[test]
fn a_database_that_served_nobody_all_the_time_fails() {
    assert_eq!(broken(|auditor| auditor.observe(0, HostId(0), opened(1, 0))), ["drill_dismounted"]);
}

#[test]
fn a_place_at_which_one_copy_says_something_else_is_counted_once() {
    let [mut one, two, three] = [(); 3].map(|()| BTreeMap::from([(2, 20), (3, 30), (9, 90)]));
    let places = BTreeSet::from([2, 3, 9]);
    assert_eq!(differing(&places, &[&one, &two, &three]), 0);
    one.insert(3, 31);
    assert_eq!(differing(&places, &[&one, &two, &three]), 1);
    assert_eq!(differing(&places, &[&two, &one, &three]), 1);
    let none = BTreeMap::new();
    assert_eq!(differing(&places, &[&two, &none]), 3);
    assert_eq!(differing(&places, &[&none, &two]), 3);
}

//! Each fault of docs/simulate.md happens at its time, is felt as physics has it, and is told in the events of the run.

use std::collections::BTreeSet;

use crate::common::Question;
use results::IoClass::{LogWrite, TransactionalRead, TransactionalWrite};
use results::{Outcome, Row};

fn busy() -> Question {
    Question { duration_s: 60, ..Question::new("sessions = 4") }
}

#[test]
fn a_lost_disk_slows_reads_until_the_spare_is_rebuilt() {
    let question =
        Question { hot_spares: 1, duration_s: 240, database_mib: 1024, ..Question::new("sessions = 6") };
    let answer = question
        .with_fault("kind = \"disk_fails\"\ntest = \"performance\"\nvolume = \"LUN\"\ndisk = 2\nat_s = 30")
        .answer();
    assert_eq!(answer.event("expected fault: disk 2 of LUN fails").0, 30.0);
    let (rebuilt_s, _) = answer.event("rebuilt after");
    assert!((60.0..180.0).contains(&rebuilt_s), "{rebuilt_s}");
    let reads = |from, to| answer.phase(TransactionalRead, from, to).latency_ms;
    let (before, during) = (reads(0, 30), reads(30, rebuilt_s as u64));
    let after = reads(rebuilt_s as u64 + 1, 240);
    assert!(
        during > before * 1.2 && after < during / 1.1 && after < before * 1.15,
        "{before} {during} {after}"
    );
    let (_, summary) = answer.event("as users saw it: disk 2 of LUN fails");
    for part in ["before (30 s)", "during (", "after (", "rebuilt after"] {
        assert!(summary.contains(part), "{summary}");
    }
}

#[test]
fn without_a_spare_a_mirror_stays_degraded_and_the_report_says_so() {
    let answer = busy()
        .with_fault("kind = \"disk_fails\"\ndisk = 1\nat_s = 30\nnote = \"drill\"\ntest = \"performance\"")
        .answer();
    answer.event("expected fault: disk 1 of LUN fails (drill)");
    let (before, during) = (answer.phase(TransactionalRead, 0, 30), answer.phase(TransactionalRead, 30, 60));
    assert!(
        during.latency_ms > before.latency_ms * 1.2 && during.per_s < before.per_s,
        "{before:?} {during:?}"
    );
    assert!(answer.event("as users saw it").1.ends_with("no spare is left for a rebuild"));
}

#[test]
fn a_slow_disk_is_felt_while_it_is_slow() {
    let fault = "kind = \"disk_slow\"\nfactor = 6\nat_s = 20\nduration_s = 20\ntest = \"performance\"";
    let answer = busy().with_fault(fault).answer();
    assert_eq!(answer.event("expected fault over: disk 1 of LUN is 6 times as slow").0, 40.0);
    let [before, during, after] =
        [(0, 20), (20, 40), (42, 60)].map(|(from, to)| answer.phase(TransactionalRead, from, to).latency_ms);
    assert!(during > before * 1.5 && during > after * 1.5, "{before} {during} {after}");
    let summary = answer.event("as users saw it").1;
    assert!(
        summary.contains("before (20 s)")
            && summary.contains("during (20 s)")
            && summary.contains("after (20 s)"),
        "{summary}"
    );
}

#[test]
fn a_lost_write_cache_multiplies_write_latency() {
    let fault = "kind = \"cache_unprotected\"\nat_s = 20\nduration_s = 20\ntest = \"performance\"";
    let answer = busy().with_fault(fault).answer();
    for class in [TransactionalWrite, LogWrite] {
        let [before, during, after] =
            [(0, 20), (20, 40), (42, 60)].map(|(from, to)| answer.phase(class, from, to).latency_ms);
        assert!(during > before * 3.0 && during > after * 3.0, "{class:?}: {before} {during} {after}");
    }
}

#[test]
fn a_lost_path_moves_the_volume_to_the_other_controller() {
    // The host's links lead to one controller each: without the first, the volume fails over in silence.
    let fault = "kind = \"path_lost\"\nat_s = 20\nduration_s = 20\ntest = \"performance\"";
    let answer = busy().with_fault(fault).answer();
    answer.event("expected fault: a path to LUN is lost");
    let reads = |from, to| answer.phase(TransactionalRead, from, to);
    let (before, silence) = (reads(0, 20), reads(20, 25));
    assert!(silence.per_s < before.per_s / 2.0, "the change of paths takes seconds: {before:?} {silence:?}");
    assert!(reads(30, 40).per_s > reads(0, 20).per_s * 0.8, "the other path carries everything");
    assert!(answer.failed().is_empty(), "what the fault has broken was expected: {:?}", answer.failed());
    let broken = answer.verdicts.iter().find(|verdict| verdict.text.contains("an expected fault broke it"));
    let broken = broken.expect("users waited for it");
    assert_eq!((broken.rule.as_str(), broken.outcome), ("read_latency_max", Outcome::Info));
    assert!(broken.measured > broken.limit, "the verdict goes on to say what was measured");
    let told = answer.rows.iter().any(|row| matches!(row, Row::Verdict(verdict) if verdict == broken));
    assert!(told, "the report says the same");
}

/// The only path to the disks is lost, and the fault has no end in the file. Users would wait for its end, and the
/// test for the users.
#[test]
fn a_fault_that_users_wait_for_is_over_with_the_measured_window() {
    let fault = "kind = \"path_lost\"\nat_s = 10\ntest = \"performance\"";
    let answer = Question { links: 1, duration_s: 20, ..busy() }.with_fault(fault).answer();
    assert_eq!(answer.phase(TransactionalRead, 11, 20).per_s, 0.0);
    assert_eq!(answer.event("expected fault over: a path to LUN is lost").0, 20.0);
    let with = Question { duration_s: 20, ..busy() }.with_fault("kind = \"disk_slow\"\nat_s = 10").answer();
    let over = with.events().into_iter().filter(|(_, text)| text.starts_with("expected fault over"));
    assert_eq!(over.map(|(at_s, _)| at_s).collect::<Vec<_>>(), [20.0]);
}

#[test]
fn what_a_fault_of_a_shared_part_breaks_for_another_host_was_expected() {
    // Two hosts with disks of their own behind one array, on the same controller of it.
    let fault = "kind = \"controller_fails\"\nat_s = 30\nhost = \"h1\"\ntest = \"performance\"";
    let answer = Question { hosts: 2, ..busy() }.with_fault(fault).answer();
    let broken = answer.verdicts.iter().filter(|verdict| verdict.text.contains("an expected fault broke it"));
    let of_reads = broken.filter(|verdict| verdict.rule == "read_latency_max");
    let hosts: BTreeSet<&str> = of_reads.map(|verdict| verdict.origin.host.as_str()).collect();
    assert_eq!(hosts, BTreeSet::from(["h1", "h2"]));
    assert!(answer.failed().is_empty(), "{:?}", answer.failed());
}

#[test]
fn a_threshold_that_is_broken_without_the_fault_too_fails() {
    let fault = "kind = \"disk_slow\"\nfactor = 6\nat_s = 20\nduration_s = 20\ntest = \"performance\"";
    let answer = Question { duration_s: 60, ..Question::new("sessions = 24") }.with_fault(fault).answer();
    answer.event("as users saw it");
    assert!(answer.failed().contains(&"read_latency_avg"), "{:?}", answer.failed());
}

#[test]
fn a_lost_controller_is_a_silence_and_then_writes_go_through() {
    let answer = busy().with_fault("kind = \"controller_fails\"\nat_s = 30\ntest = \"performance\"").answer();
    answer.event("expected fault: the controller of LUN fails");
    let writes = |from, to| answer.phase(LogWrite, from, to).latency_ms;
    assert!(writes(45, 60) > writes(0, 30) * 3.0, "nobody mirrors the cache that is left");
    assert!(answer.phase(TransactionalRead, 45, 60).per_s > 10.0, "the partner serves");
}

#[test]
fn rot_is_found_by_the_checksum_of_the_copy_it_is_on() {
    let tests = "[[test]]\nkind = \"database_checksum\"\n".to_owned();
    let question = Question { tests, database_mib: 256, duration_s: 10, ..Question::new("sessions = 1") };
    assert!(question.answer().failed().is_empty());
    let rot = "kind = \"bit_rot\"\ntest = \"database_checksum\"\ndatabase = \"DB2\"\npage = 5000";
    let answer = question.with_fault(rot).answer();
    answer.event("expected fault: page 5000 of database DB2 rots");
    let found: Vec<_> = answer
        .verdicts
        .iter()
        .filter(|verdict| verdict.rule == "bad_pages" && verdict.measured == Some(1.0))
        .collect();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].origin.database.as_deref(), Some("DB2"));
}

#[test]
fn a_fault_after_the_end_of_its_test_does_not_happen() {
    let fault = "kind = \"disk_slow\"\nat_s = 15\ntest = \"performance\"";
    let answer = Question { duration_s: 10, ..Question::new("sessions = 1") }.with_fault(fault).answer();
    let events = answer.events();
    assert!(events.iter().all(|(_, text)| !text.starts_with("expected fault: ")), "{events:?}");
}

#[test]
fn a_fault_that_cannot_be_is_refused_where_it_stands() {
    let refusal = |fault| Question::new("sessions = 1").with_fault(fault).refusal();
    assert!(refusal("kind = \"meteorite\"").contains("meteorite"));
    assert!(refusal("kind = \"disk_fails\"\ndisk = 3").contains("the last is 2"));
    assert!(refusal("kind = \"disk_fails\"\nduration_s = 3").contains("no end"));
    assert!(refusal("kind = \"bit_rot\"\ndatabase = \"DB9\"").contains("no database"));
    assert!(refusal("kind = \"bit_rot\"\npage = 99_999_999").contains("no database"));
}

#[test]
fn what_would_leave_no_way_to_a_volume_is_refused_where_it_stands() {
    let (one, one_link) = (
        Question { controllers: 1, ..Question::new("sessions = 1") },
        Question { links: 1, ..Question::new("sessions = 1") },
    );
    let fails = "kind = \"controller_fails\"\nat_s = 5\ntest = \"performance\"";
    for question in [&one, &one_link] {
        let refused = question.clone().with_fault(fails).refusal();
        assert!(
            refused.starts_with("what_if.toml:") && refused.contains("no way is left to volume `LUN`"),
            "{refused}"
        );
    }
    // Two hosts, each behind both controllers: one may fail.
    let volumes = "[[volume]]\nname = \"LUN{n}\"\ncount = 2\ndisk = \"ST4000NM0023\"\ndisks = 2\nraid = \"raid1\"\n\
                   path = \"/lun{n}\"\n";
    let both = format!("{fails}\nvolume = \"LUN1\"\n[[fault]]\n{fails}\nvolume = \"LUN2\"");
    let refused =
        Question { volumes: volumes.into(), ..Question::new("sessions = 1") }.with_fault(&both).refusal();
    assert!(refused.contains("no way is left"), "{refused}");
    // Nothing but the end of the test would end these, and it waits for them.
    for lost in ["kind = \"path_lost\"", "kind = \"path_lost\"\ntest = \"database_checksum\""] {
        let refused = one_link.clone().with_fault(lost).refusal();
        assert!(refused.starts_with("what_if.toml:") && refused.contains("add duration_s"), "{refused}");
    }
}

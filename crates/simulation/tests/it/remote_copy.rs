//! What a planner would ask about a synchronous copy at another site.

use crate::common::{Answer, Phase, Question};
use results::IoClass::{LogWrite, TransactionalRead};

/// Users on a mirrored pair with such an `[array.remote_copy]`.
fn answer(remote_copy: &'static str, fault: &str) -> Answer {
    let question = Question { array: remote_copy, ..Question::new("sessions = 2") };
    if fault.is_empty() { question.answer() } else { question.with_fault(fault).answer() }
}

fn whole(answer: &Answer, class: results::IoClass) -> Phase {
    answer.phase(class, 0, 40)
}

#[test]
fn a_hundred_kilometres_are_a_millisecond_more_for_the_log_and_nothing_for_reads() {
    let near =
        answer("[array.remote_copy]\ndistance_km = 0\nlink = \"fc-8g\"\nwhen_link_lost = \"stall\"", "");
    let far =
        answer("[array.remote_copy]\ndistance_km = 100\nlink = \"fc-8g\"\nwhen_link_lost = \"stall\"", "");
    let log_ms = [&near, &far].map(|answer| whole(answer, LogWrite).latency_ms);
    let read_ms = [&near, &far].map(|answer| whole(answer, TransactionalRead).latency_ms);
    // A little less, as slower users wait less for each other; a little more, as a log write waits now and then behind
    // a write of the flush map, which goes the distance, too.
    assert!((0.7..1.15).contains(&(log_ms[1] - log_ms[0])), "log writes: {log_ms:?} ms");
    // A millisecond more would be a tenth; some 2,000 reads of each scatter by a few hundredths.
    assert!((0.9..1.05).contains(&(read_ms[1] / read_ms[0])), "reads: {read_ms:?} ms");
}

const LOST: &str = "kind = \"remote_copy_lost\"\nat_s = 10\nduration_s = 10\ntest = \"performance\"";

#[test]
fn a_suspended_copy_is_behind_for_as_long_as_it_takes_to_copy_what_changed() {
    let answer = answer(
        "[array.remote_copy]\ndistance_km = 100\nlink = \"fc-8g\"\nwhen_link_lost = \"suspend\"",
        LOST,
    );
    answer.event("expected fault: the link to the copy of LUN is lost");
    let log_ms = |from, to| answer.phase(LogWrite, from, to).latency_ms;
    assert!(log_ms(11, 20) + 0.8 < log_ms(0, 10), "alone it is faster: {} {}", log_ms(0, 10), log_ms(11, 20));
    let (at_s, text) = answer.event("in step again after");
    assert!(at_s > 20.0, "{text}");
}

#[test]
fn a_copy_that_must_not_be_behind_stalls_users() {
    let answer =
        answer("[array.remote_copy]\ndistance_km = 100\nlink = \"fc-8g\"\nwhen_link_lost = \"stall\"", LOST);
    // After it they rest as long as they have waited.
    let per_s = |from, to| answer.phase(LogWrite, from, to).per_s;
    assert!(
        per_s(0, 10) > 5.0 && per_s(12, 20) == 0.0 && per_s(32, 40) > 5.0,
        "{} {}",
        per_s(0, 10),
        per_s(12, 20)
    );
}

#[test]
fn a_stall_without_an_end_of_its_own_is_over_with_the_measured_window() {
    let stalls = "[array.remote_copy]\ndistance_km = 100\nlink = \"fc-8g\"\nwhen_link_lost = \"stall\"";
    let answer = answer(stalls, "kind = \"remote_copy_lost\"\nat_s = 10\ntest = \"performance\"");
    assert_eq!(answer.phase(LogWrite, 12, 40).per_s, 0.0);
    assert_eq!(answer.event("expected fault over: the link to the copy of LUN is lost").0, 40.0);
    let question = Question { array: stalls, ..Question::new("sessions = 2") };
    let refused = question.with_fault("kind = \"remote_copy_lost\"\nat_s = 10").refusal();
    assert!(refused.contains("add duration_s"), "{refused}");
}

#[test]
fn a_copy_that_cannot_be_is_refused_where_it_stands() {
    let refused = |array| Question { array, ..Question::new("sessions = 1") }.refused_storage();
    let far = "[array.remote_copy]\ndistance_km = 40_000\nlink = \"fc-8g\"\nwhen_link_lost = \"stall\"";
    assert!(refused(far).contains("`distance_km` must be a number from 0 to 10,000"));
    let error =
        refused("[array.remote_copy]\ndistance_km = 1\nlink = \"tin can\"\nwhen_link_lost = \"stall\"");
    assert!(
        error.contains("tin can") && error.contains("fc-8g") && error.contains("what_if.toml:"),
        "{error}"
    );
    let error = Question::new("sessions = 1").with_fault(LOST).refusal();
    assert!(error.contains("has no copy at another site"), "{error}");
}

//! What a planner would ask, and the answer that physics gives.

use crate::common::{Answer, FLASH, Question};
use results::{IoClass, Measure, Row};

#[test]
fn more_sessions_raise_throughput_and_latency_together() {
    let [one, two, four, sixteen] =
        [1, 2, 4, 16].map(|sessions| Question::new(&format!("sessions = {sessions}")).answer());
    let iops = [&one, &two, &four, &sixteen].map(|answer| answer.iops());
    assert!(iops.is_sorted_by(|a, b| a < b) && iops[0] * 1.5 < iops[2], "{iops:?}");
    let read_ms = [&one, &two, &four, &sixteen].map(|answer| answer.read_ms());
    assert!(read_ms.is_sorted_by(|a, b| a < b), "{read_ms:?}");
    let (gained, paid) = (iops[3] / iops[2], read_ms[3] / read_ms[2]);
    assert!(gained < paid, "beyond the knee more latency is paid ({paid}) than throughput gained ({gained})");
}

#[test]
fn raid_5_instead_of_raid_10_costs_writes() {
    let question = |raid| Question { raid, disks: 4, ..Question::new("sessions = 12") };
    let (mirrored, parity) = (question("raid10").answer(), question("raid5").answer());
    assert!(parity.iops() < mirrored.iops() * 0.9, "{} {}", parity.iops(), mirrored.iops());
    assert!(parity.read_ms() > mirrored.read_ms(), "reads wait behind the writes' reads");
}

#[test]
fn twice_the_mailboxes_on_a_disk_break_the_threshold() {
    let enough = Question::new("target_iops = 200").answer();
    assert!(enough.failed().is_empty(), "{:?}", enough.failed());
    let twice = Question::new("target_iops = 400").answer();
    assert!(twice.failed().contains(&"read_latency_avg"), "{:?}", twice.failed());
}

#[test]
fn a_database_larger_than_its_cache_share_reads_more_per_batch() {
    let reads_per_batch = |database_mib| {
        let answer = Question { database_mib, cache_mib: 64, ..Question::new("sessions = 4") }.answer();
        answer.count(IoClass::TransactionalRead.into()) as f64 / answer.count(Measure::Batch) as f64
    };
    let (small, large) = (reads_per_batch(96), reads_per_batch(200_000));
    assert!(small * 1.5 < large, "{small} {large}");
}

#[test]
fn a_third_host_adapter_helps_only_where_the_adapter_was_the_limit() {
    // Flash behind links of 1 Gb/s; then disks behind the same links.
    let wide = |links| Question {
        disk: FLASH,
        raid: "raid10",
        disks: 4,
        controller: "raid-adapter-2017",
        link: "iscsi-1g",
        links,
        warmup_s: 1,
        duration_s: 3,
        ..Question::new("sessions = 48")
    };
    let narrow =
        |links| Question { disk: Question::new("").disk, warmup_s: 20, duration_s: 40, ..wide(links) };
    let [two, three] = [2, 3].map(|links| wide(links).answer());
    assert!(three.iops() > two.iops() * 1.1, "{} {}", two.iops(), three.iops());
    assert_eq!(two.limit(), "link", "the report names what to add");
    let [two, three] = [2, 3].map(|links| narrow(links).answer());
    let gain = three.iops() / two.iops();
    assert!((0.9..1.08).contains(&gain), "{} {}", two.iops(), three.iops());
    assert_eq!(two.limit(), "drive");
}

#[test]
fn operations_that_fill_a_processor_hold_the_load() {
    let slow = "[host.default]\noperation_us = { value = 2000, source = \"assumption: a slow one\" }";
    let fast = Question {
        disk: FLASH,
        raid: "raid10",
        disks: 4,
        controller: "raid-adapter-2017",
        warmup_s: 1,
        duration_s: 10,
        ..Question::new("sessions = 16")
    };
    let (fast, slow) = (fast.answer(), Question { assumptions: slow, ..fast }.answer());
    let batches_per_s = |answer: &Answer| {
        let (start_ms, end_ms) = answer.window_ms();
        answer.count(Measure::Batch) as f64 * 1e3 / (end_ms - start_ms) as f64
    };
    // 16 operations of 2 ms each.
    assert!(batches_per_s(&slow) < 1.2 * 31.25 && batches_per_s(&fast) > 100.0, "{}", batches_per_s(&fast));
    assert_eq!(slow.limit(), "processor");
}

#[test]
fn a_disk_that_is_left_few_commands_does_less() {
    let deep = Question::new("sessions = 16");
    let one = "[controller.sas-array-2013]\ndisk_queue_depth = { value = 1, source = \"assumption: as if the disks had no queue\" }";
    let shallow = Question { assumptions: one, ..deep.clone() };
    let (deep, shallow) = (deep.answer().iops(), shallow.answer().iops());
    assert!(shallow < 0.9 * deep, "{shallow} instead of {deep}");
}

#[test]
fn databases_are_maintained_while_their_logs_are_replayed_if_wanted() {
    let tests =
        "[[test]]\nkind = \"log_generation\"\nlogs = 3\n[[test]]\nkind = \"soft_recovery\"\n".to_owned();
    let maintained = |engine| {
        let answer =
            Question { tests: tests.clone(), engine, duration_s: 1, ..Question::new("sessions = 4") }
                .answer();
        let last = answer
            .rows
            .iter()
            .filter_map(|row| if let Row::Test(test) = row { Some(test.started_ms) } else { None })
            .max()
            .expect("tests");
        let samples = answer.rows.iter().filter_map(|row| match row {
            Row::Sample(sample)
                if sample.measure == IoClass::MaintenanceRead.into() && sample.t_ms >= last =>
            {
                Some(sample)
            }
            _ => None,
        });
        samples.map(|sample| sample.totals.count).sum::<u64>()
    };
    assert!(maintained("") > 5);
    assert_eq!(maintained("recovery_maintenance = false"), 0);
}

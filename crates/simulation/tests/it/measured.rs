//! A storage that was measured takes the place of its model.

use std::sync::LazyLock;
use std::time::Duration;

use probe::{Calibration, Ground, Pattern, Point, Row, measure_all, model, points};
use results::Outcome;
use simulation::{Assumptions, on_first_server};
use solution::Solution;
use world::World;

use crate::common::{Answer, FLASH, Question};

const FILE_BYTES: u64 = 16 << 30;

fn measure(solution: &Solution, assumptions: &Assumptions, points: &[Point]) -> Vec<Row> {
    let mut rows = Vec::new();
    let measured = on_first_server(solution, assumptions, 1, async |world: World, folders: Vec<String>| {
        let ground = Ground::make(&world, &folders, FILE_BYTES / folders.len() as u64).await?;
        ground.warm(&world, world.now() + Duration::from_secs(10)).await?;
        measure_all(&world, ground, points, &mut |_, row| rows.push(*row), &|_| false).await
    });
    measured.expect("the storage can be modelled").expect("it can be measured");
    rows
}

/// Four flash drives; the probe has as much data as the databases.
fn flash() -> Question {
    Question {
        database_mib: FILE_BYTES >> 21,
        disk: FLASH,
        raid: "raid10",
        disks: 4,
        controller: "raid-adapter-2017",
        warmup_s: 5,
        duration_s: 20,
        ..Question::new("sessions = 8")
    }
}

static FLASH_PROBED: LazyLock<Vec<Row>> =
    LazyLock::new(|| measure(&flash().solution(), &Assumptions::shipped(), &points(60)));

fn calibrated(probed: &[Row]) -> &'static str {
    model(&Calibration::new(probed).unwrap(), "the modelled array", None).unwrap().leak()
}

#[test]
fn a_measured_storage_gives_back_its_probes_and_is_proved_where_it_was_probed() {
    let described = flash();
    let solution = described.solution();
    let measured = Question { assumptions: calibrated(&FLASH_PROBED), ..described.clone() };

    for pattern in Pattern::ALL {
        let of_pattern = |row: &&Row| row.point.pattern == pattern && row.iops.is_some();
        let some: Vec<&Row> = FLASH_PROBED.iter().filter(of_pattern).step_by(6).collect();
        let again: Vec<Point> = some.iter().map(|row| row.point).collect();
        let known = Assumptions::shipped().with(measured.assumptions).unwrap();
        for (row, again) in some.iter().zip(measure(&solution, &known, &again)) {
            let (iops, given_back) = (row.iops.unwrap(), again.iops.unwrap_or_default());
            // 2 of 100 beside the chance of that number of operations in 4 s.
            let chance = 2.0 / (4.0 * iops).sqrt();
            assert!(
                (given_back / iops - 1.0).abs() < 0.02 + chance,
                "{}, given back {given_back}",
                row.text()
            );
        }
    }

    let (described, measured) = (described.answer(), measured.answer());
    assert_eq!(on_storage(&measured), [Outcome::Pass]);
    assert_eq!(on_storage(&described), []);
}

/// A pair of disks of 7,200 rpm, and flash. The bars: largest errors of IOPS, and of the mean read latency. The flash
/// array reads ahead of its sessions, which no probe makes it do.
#[test]
fn a_measured_array_carries_about_what_the_array_itself_carries() {
    let disks = Question { duration_s: 120, database_mib: FILE_BYTES >> 21, ..Question::new("") };
    let disks_probed = measure(&disks.solution(), &Assumptions::shipped(), &points(180));
    let flash = Question { duration_s: 10, ..flash() };
    let mut off = Vec::new();
    for (name, probed, bars, described) in
        [("disks", &disks_probed, [0.15, 0.2], disks), ("flash", &*FLASH_PROBED, [0.2, 0.2], flash)]
    {
        let measured = Question { assumptions: calibrated(probed), ..described.clone() };
        for sessions in [1, 4, 8] {
            let load = format!("sessions = {sessions}");
            let [array, model] = [&described, &measured].map(|one| {
                let answer = Question { load: load.clone(), ..one.clone() }.answer();
                [answer.iops(), answer.read_ms()]
            });
            let errors: [f64; 2] = std::array::from_fn(|figure| model[figure] / array[figure] - 1.0);
            eprintln!("{name}, {sessions} sessions: {array:?}, measured {model:?}, off by {errors:?}");
            if (0..2).any(|figure| errors[figure].abs() > bars[figure]) {
                off.push((name, sessions, errors));
            }
        }
    }
    assert!(off.is_empty(), "{off:?}");
}

/// Limits as control groups set them: what is not used up at once waits for the next slice.
#[test]
fn a_limit_on_writes_is_found_by_the_probes_of_a_storage_that_has_it_and_limits_the_load_alike() {
    let described = Question { duration_s: 10, ..flash() };
    for (of, per_s, per_sync) in [("bytes", 16_777_216.0, 0.0), ("operations", 500.0, 1.0)] {
        let is_in_bytes = of == "bytes";
        let throttle = format!(
            "{{ is_in_bytes = {is_in_bytes}, per_s = {per_s:.1}, slice_ms = 100.0, per_sync = {per_sync} }}"
        );
        let text = format!(
            "{}write_throttle = {{ value = {throttle}, source = \"assumption: a test\" }}\n",
            calibrated(&FLASH_PROBED)
        );
        let limited = Question { assumptions: text.leak(), ..described.clone() };
        let known = Assumptions::shipped().with(limited.assumptions).unwrap();
        let probed = measure(&limited.solution(), &known, &points(60));
        let found = Calibration::new(&probed).unwrap().throttles;
        let [one] = found[..] else { panic!("{found:?}") };
        assert_eq!((one.is_of_reads, one.is_in_bytes, one.per_sync), (false, is_in_bytes, per_sync));
        assert!((one.per_s / per_s - 1.0).abs() < 0.03 && (80.0..=105.0).contains(&one.slice_ms), "{one:?}");

        let again = Question { assumptions: calibrated(&probed), ..described.clone() };
        let [free, limited, again] = [&described, &limited, &again].map(|one| one.answer().iops());
        assert!(limited < free / 2.0, "{of}: {limited} of {free}");
        assert!((again / limited - 1.0).abs() < 0.05, "{of}: {limited}, given back {again}");
    }
}

/// Outcomes of the rule about the probes.
fn on_storage(answer: &Answer) -> Vec<Outcome> {
    let of_rule = answer.verdicts.iter().filter(|verdict| verdict.rule == "storage_probed");
    of_rule.map(|verdict| verdict.outcome).collect()
}

/// Points of small blocks, as few as a calibration needs.
fn few_points() -> Vec<Point> {
    let mut few = points(80);
    few.retain(|point| point.block_bytes <= 1 << 14 && point.pattern == Pattern::Random);
    few.truncate(14);
    few
}

#[test]
fn a_load_beyond_the_probes_is_unproved_and_breaks_no_limit() {
    let probed = measure(&flash().solution(), &Assumptions::shipped(), &few_points());
    let assumptions = calibrated(&probed);
    let answer = Question { assumptions, duration_s: 2, ..flash() }.answer();
    assert_eq!(on_storage(&answer), [Outcome::Unproved], "pages are larger than all that was probed");
    assert!(answer.verdicts.iter().all(|verdict| verdict.outcome != Outcome::Fail), "{:?}", answer.verdicts);
}

#[test]
fn a_fault_of_a_part_is_refused_because_the_storage_was_not_probed_in_that_state() {
    let probed = measure(&flash().solution(), &Assumptions::shipped(), &few_points());
    let known = Assumptions::shipped().with(calibrated(&probed)).unwrap();
    let fault = "kind = \"disk_fails\"\ntest = \"performance\"\nvolume = \"LUN\"\ndisk = 2\nat_s = 1";
    let solution = flash().with_fault(fault).solution();
    let refused = on_first_server(&solution, &known, 1, async |_: World, _: Vec<String>| ());
    let message = refused.expect_err("it has no parts").to_string();
    assert!(message.contains("no parts that can fail"), "{message}");
}

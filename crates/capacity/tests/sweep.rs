//! The search for the mailboxes of a solution against a sweep of all loads near its answer.
#![allow(clippy::print_stdout, reason = "prints the table of docs/lab/capacity.md")]

use capacity::{Case, FoundKind, Probe, Probed, Scaling, Searched, Simulating, by_simulation, probe};
use simulation::Assumptions;
use solution::Solution;
use world::sim::{SideFn, processors, side_by_side};

/// Solutions of the published papers.
const SOLUTIONS: [(&str, &str); 5] = [
    ("dell-md3260-15000", include_str!("../../../solutions/dell-md3260-15000.toml")),
    ("dell-r740xd-10000", include_str!("../../../solutions/dell-r740xd-10000.toml")),
    ("emc-cx3-20c-500", include_str!("../../../solutions/emc-cx3-20c-500.toml")),
    ("lenovo-hx7510-30000", include_str!("../../../solutions/lenovo-hx7510-30000.toml")),
    ("nimble-cs700-100000", include_str!("../../../solutions/nimble-cs700-100000.toml")),
];
/// Seeds of the sweep. No search uses them.
const SEEDS: [u64; 3] = [1_001, 1_002, 1_003];
/// Step of the sweep, and how far below the lowest answer it begins.
const STEP: f64 = 1.01;
const BELOW: f64 = 0.97;
/// Largest distance between an answer and the sweep, percent.
const FAR_PERCENT: f64 = 3.0;

/// Solutions and the number of searches come from the environment: `PROOFLOAD_SWEEP=emc-cx3-20c-500:5` is that
/// solution and five searches.
#[test]
#[ignore = "takes minutes to hours"]
fn a_search_agrees_with_a_sweep() {
    let asked = std::env::var("PROOFLOAD_SWEEP").expect("PROOFLOAD_SWEEP names solutions");
    let assumptions = Assumptions::shipped();
    let how = Simulating {
        assumptions: &assumptions,
        until_percent: 2.0,
        duration_s: None,
        interrupted: &|| false,
    };
    for one in asked.split(',') {
        let (name, searches) = one.split_once(':').expect("NAME:SEARCHES");
        let (name, text) = SOLUTIONS.iter().find(|(known, _)| *known == name).expect("a published solution");
        let solution = Solution::parse(text, name).expect("a solution");
        compare(name, solution, searches.parse().expect("a number of searches"), how);
    }
}

fn compare(name: &str, solution: Solution, searches: u64, how: Simulating<'_>) {
    let answers: Vec<Searched> = (0..searches).map(|n| searched(&solution, 1 + 100 * n, how)).collect();
    let lowest = answers.iter().filter_map(|answer| answer.mailboxes).min().expect("an answer");
    let at_end = answers.iter().all(|answer| answer.found != FoundKind::Carried);
    let scaling = Scaling::of(&solution).expect("it scales");
    let mut holding = (lowest as f64 * BELOW) as u64;
    let mut load = holding;
    let mut broken = 0;
    while broken < 3 && (!at_end || load <= lowest) {
        let holds = holds(&scaling, load, how);
        println!("{name}: {load} {}", if holds { "holds" } else { "breaks a limit" });
        (holding, broken) = match (holds, broken) {
            (true, 0) => (load, 0),
            (_, broken) => (holding, broken + 1),
        };
        load = (load as f64 * STEP).ceil() as u64;
    }
    let (mut far, mut too_high) = (0, 0);
    for answer in &answers {
        let mailboxes = answer.mailboxes.unwrap_or(0);
        let off = 100.0 * (mailboxes as f64 / holding as f64 - 1.0);
        // Between two loads of the sweep the answer itself is judged.
        let is_too_high = mailboxes > holding && !holds(&scaling, mailboxes, how);
        far += usize::from(off.abs() > FAR_PERCENT);
        too_high += usize::from(is_too_high);
        println!(
            "{name}: {:?} {mailboxes}, sweep {holding}, {off:+.1} %, interval {:?}, {} simulations{}",
            answer.found,
            answer.interval,
            answer.probes.len(),
            if is_too_high { ", too high" } else { "" },
        );
    }
    assert_eq!(far, 0, "{name}: answers that are far from the sweep");
    assert!(too_high * 20 <= answers.len(), "{name}: {too_high} of {} answers are too high", answers.len());
}

fn searched(solution: &Solution, seed: u64, how: Simulating<'_>) -> Searched {
    let cases = [Case { changed: None, solution: solution.clone() }];
    let variants =
        by_simulation(&cases, how, seed, &mut |line| println!("{line}")).expect("it can be simulated");
    variants.expect("not interrupted").remove(0).simulated.expect("an answer")
}

/// Whether no limit is broken with this load on the mean of the seeds.
fn holds(scaling: &Scaling<'_>, load: u64, how: Simulating<'_>) -> bool {
    let jobs = SEEDS.iter().map(|&seed| {
        let job: SideFn<'_, (), Probed> = Box::new(move |_| {
            let solution = scaling.solution(load).expect("it fits");
            probe(&solution, Probe { load, seed }, how)
                .expect("it can be simulated")
                .expect("not interrupted")
        });
        job
    });
    let margins: Vec<Vec<f64>> =
        side_by_side(processors(), jobs.collect(), |_| {}).iter().map(Probed::margins).collect();
    (0..margins[0].len()).all(|limit| margins.iter().map(|one| one[limit]).sum::<f64>() >= 0.0)
}

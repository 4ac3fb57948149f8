//! Drills drawn from seeds: layouts, dials and failures at random, and what was promised to users holds in each
//! of them.
//!
//! PROOFLOAD_SEEDS sets how many (40), PROOFLOAD_SEED picks one. A failure prints the line that repeats it.
#![allow(clippy::disallowed_methods, reason = "seeds come from the environment")]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use crate::drawn::{DIALS, Drawn, KINDS, LAYOUTS, draw};
use results::Row;

use crate::performed::{failed, perform_changed};

/// Events that must come.
const SEEN: [&str; 3] =
    ["this copy is seeded", "exists on no other copy", "was replaced by that of another copy"];

/// Plays a drill. Returns the failures, and the kinds of events that were seen.
fn play(seed: u64, drawn: &Drawn) -> (Vec<String>, Vec<&'static str>) {
    let rot_at_s = drawn.rots.then_some(3);
    let (drilled, rows) = perform_changed(&drawn.solution, seed, rot_at_s, |_| {});
    let simulated = drilled.simulated;
    let mut wrong: Vec<String> = failed(&simulated).iter().map(|verdict| format!("{verdict:?}")).collect();
    wrong.extend(simulated.outcome.error.as_ref().map(ToString::to_string));
    let events = || {
        rows.iter().filter_map(|row| match row {
            Row::Event(event) => Some(event),
            _ => None,
        })
    };
    if !wrong.is_empty() && std::env::var("PROOFLOAD_TRACE").is_ok() {
        events().for_each(|event| eprintln!("{:>8} ms {:<8} {}", event.t_ms, event.host, event.text));
    }
    let seen = |what| events().any(|event| event.text.contains(what)).then_some(what);
    let seen = SEEN.into_iter().filter_map(seen).collect();
    (wrong, seen)
}

/// Plays the drill of a seed, which must hold. Returns the kinds of events that were seen.
fn hold(seed: u64) -> Vec<&'static str> {
    let drawn = draw(seed);
    let played = catch_unwind(AssertUnwindSafe(|| play(seed, &drawn)));
    let (wrong, seen) = played.unwrap_or_else(|_| (vec!["it panicked".to_owned()], Vec::new()));
    assert!(
        wrong.is_empty(),
        "seed {seed} ({}): {wrong:#?}\n{}\nrepeat: PROOFLOAD_SEED={seed} PROOFLOAD_TRACE=1 \
         cargo test -p simulation --test it drill_seeds::",
        drawn.said.join(", "),
        drawn.text
    );
    drawn.said.into_iter().chain(seen).collect()
}

#[test]
fn no_failure_breaks_a_promise() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let (seeds, is_complete) = match number("PROOFLOAD_SEED") {
        Some(seed) => (seed..=seed, false),
        None => (1..=number("PROOFLOAD_SEEDS").unwrap_or(40), true),
    };
    let next = Mutex::new(seeds);
    let reached: Mutex<BTreeMap<&str, u32>> = Mutex::default();
    let work = || {
        while let Some(seed) = { next.lock().ok().and_then(|mut seeds| seeds.next()) } {
            let seen = hold(seed);
            let mut reached = reached.lock().expect("nobody panics with it");
            seen.into_iter().for_each(|name| *reached.entry(name).or_default() += 1);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, Into::into);
    std::thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(work)));
    let reached = reached.into_inner().expect("nobody panics with it");
    eprintln!("{reached:?}");
    let wanted = LAYOUTS.iter().map(|layout| layout.0).chain(DIALS).chain(KINDS);
    for name in wanted.chain(SEEN) {
        assert!(!is_complete || reached.contains_key(name), "no seed reached: {name}");
    }
}

//! Drills drawn from seeds: layouts, dials and failures at random, and what was promised to users holds in each of them.
//!
//! PROOFLOAD_SEEDS sets how many (200), PROOFLOAD_SEED picks one. A failure prints the line that repeats it.
#![allow(clippy::disallowed_methods, reason = "seeds come from the environment")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use crate::performed::{failed, perform};
use results::Row;
use solution::Solution;

/// Hosts and copies: name, sites with hosts in each, copies per site.
const LAYOUTS: [(&str, u64, u64, &str); 4] = [
    ("two hosts", 1, 2, "[2]"),
    ("three hosts", 1, 3, "[3]"),
    ("two sites", 2, 1, "[1, 1]"),
    ("two sites of two", 2, 2, "[2, 2]"),
];
const DIALS: [&str; 3] = ["lossless", "good_availability", "best_availability"];
const KINDS: [&str; 4] = ["host_killed", "host_cut_off", "volume_failed", "site_lost"];
/// A volume that fails takes what only it held, so the other copies have to have had time to fetch it.
const WHOLE_AGAIN_S: u64 = 25;

struct Drawn {
    solution: Solution,
    text: String,
    /// Layout, dial, and kinds of the failures.
    said: Vec<&'static str>,
}

/// The drill of a seed: one to three failures, each over before the next one begins.
fn draw(seed: u64) -> Drawn {
    let mut number = testkit::numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    (0..8).for_each(|_| _ = number());
    let mut below = |end: u64| number() % end;
    let (layout, sites, hosts, per_site) = LAYOUTS[below(4) as usize];
    let dial = DIALS[below(3) as usize];
    let partner = ["same_site", "other_site"][below(2) as usize];
    let batches_per_s = 2 + below(4);
    // Small ones, so that old log goes while the drill lasts.
    let log_file_kib = [128, 256, 1024][below(3) as usize];
    let mut said = vec![layout, dial];
    let (mut events, mut at_s) = (String::new(), 5);
    for _ in 0..=below(3) {
        // Two copies, and both of them in a site that is lost, serve nobody; that is no news.
        let kinds = if sites > 1 { 4 } else { 3 };
        let kind = KINDS[below(kinds) as usize];
        let back_after_s = 2 + below(10);
        at_s += if kind == "volume_failed" { WHOLE_AGAIN_S } else { 1 + below(9) };
        let site = ["A", "B"][below(sites) as usize];
        let what = match kind {
            "site_lost" => format!("site = \"{site}\""),
            _ => format!("host = \"{site}{}\"", 1 + below(hosts)),
        };
        let volume = if kind == "volume_failed" { "volume = \"V\"\n" } else { "" };
        writeln!(
            events,
            "[[test.drill.event]]\nkind = \"{kind}\"\n{what}\n{volume}at_s = {at_s}\nback_after_s = {back_after_s}"
        )
        .expect("a string takes it");
        at_s += back_after_s;
        said.push(kind);
    }
    let mut places = String::new();
    for site in &["A", "B"][..sites as usize] {
        writeln!(
            places,
            "[[site]]\nname = \"{site}\"\n[[host]]\nname = \"{site}{{n}}\"\ncount = {hosts}\nsite = \"{site}\""
        )
        .expect("a string takes it");
    }
    let text = format!(
        r#"
[solution]
name = "seed {seed}"
schema = 1
[profile]
exchange = "2016"
mailboxes = 20
messages_per_day = 150
quota_mb = 64
[dag]
databases = 2
databases_per_volume = 2
[copies]
per_site = {per_site}
{places}
[[volume]]
name = "V"
path = "/v"
capacity_gib = 100
[[instance]]
name = "DB{{n}}"
count = 2
volume = "V"
log_file_kib = {log_file_kib}
[sizing]
database_mib = 32
[engine]
cache_min_mib = 4
cache_max_mib = 8
[load]
batches_per_s = {batches_per_s}
copies = 1
[[test]]
kind = "drill"
duration_s = {}
warmup_limit_s = 3
[test.drill]
mount_dial = "{dial}"
partner = "{partner}"
{events}"#,
        at_s + 10
    );
    let solution = Solution::parse(&text, "drill.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    Drawn { solution, text, said }
}

/// What went wrong, and what was seen on the way.
fn play(seed: u64, drawn: &Drawn) -> (Vec<String>, Vec<&'static str>) {
    let (rehearsed, rows) = perform(&drawn.solution, seed);
    let mut wrong: Vec<String> = failed(&rehearsed).iter().map(|verdict| format!("{verdict:?}")).collect();
    wrong.extend(rehearsed.outcome.error.as_ref().map(ToString::to_string));
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
    let seen = ["this copy is seeded", "is nobody else's"].into_iter().filter_map(seen).collect();
    (wrong, seen)
}

/// Plays a seed, and gives what was seen on the way.
fn hold(seed: u64) -> Vec<&'static str> {
    let drawn = draw(seed);
    let played = catch_unwind(AssertUnwindSafe(|| play(seed, &drawn)));
    let (wrong, seen) = played.unwrap_or_else(|_| (vec!["it panicked".to_owned()], Vec::new()));
    assert!(
        wrong.is_empty(),
        "seed {seed} ({}): {wrong:#?}\n{}\nrepeat: PROOFLOAD_SEED={seed} PROOFLOAD_TRACE=1 \
         cargo test -p rehearsal --test it drill_seeds::",
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
        None => (1..=number("PROOFLOAD_SEEDS").unwrap_or(200), true),
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
    for name in wanted.chain(["this copy is seeded", "is nobody else's"]) {
        assert!(!is_complete || reached.contains_key(name), "no seed reached: {name}");
    }
}

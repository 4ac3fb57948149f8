//! How fast the planner is: the largest group with every double failure, and the rate of the search.
//!
//! `cargo run --release -p plan --example plan_speed` prints one line per figure; `make bench` runs it.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "measures the time of a computation that itself reads no clock"
)]

use std::time::Instant;

use plan::search::{Catalogue, search};
use solution::Solution;

const RUNS: usize = 11;

/// Largest group: 16 servers with 1,600 databases of one copy, the most that a group can mount; or 100 databases with
/// 16 copies.
fn group(mailboxes: u32, databases: u32, per_site: &str) -> Solution {
    let text = format!(
        "[solution]\nname = \"largest\"\nschema = 1\n[profile]\nexchange = \"2016\"\nmailboxes = {mailboxes}\n\
         messages_per_day = 150\nquota_mb = 2048\n[dag]\ndatabases = {databases}\ndatabases_per_volume = 4\n\
         [copies]\nper_site = {per_site}\n[[site]]\nname = \"A\"\n[[site]]\nname = \"B\"\n\
         [[host]]\nname = \"a{{n}}\"\ncount = 8\nsite = \"A\"\n[[host]]\nname = \"b{{n}}\"\ncount = 8\nsite = \"B\"\n"
    );
    Solution::parse(&text, "largest").expect("the text above is a solution")
}

/// A catalogue of a little over 100,000 designs.
fn catalogue() -> Catalogue {
    let mut text = String::from(
        "[search]\nsurvive = \"site_and_server\"\nservers_per_site = [2, 3, 4, 5, 6, 7, 8]\n\
         copies_per_site = [[2, 2], [3, 2]]\ndatabases_per_volume = [1, 2, 3, 4, 5]\n\
         volume = [{raid = \"jbod\", disks = 1}, {raid = \"raid1\", disks = 2}, {raid = \"raid10\", disks = 4}]\n",
    );
    for (i, capacity) in [2000, 4000, 6000, 8000, 10000, 12000, 14000, 16000].iter().enumerate() {
        text += &format!("[[disk]]\nname = \"d{i}\"\ncapacity_gb = {capacity}\nrpm = 7200\n");
    }
    for (i, bays) in [24, 40, 60].iter().enumerate() {
        text += &format!("[[server]]\nname = \"s{i}\"\nbays = {bays}\ncores = 40\nmemory_gib = 256\n");
    }
    Catalogue::parse(&text, "catalogue").expect("the text above is a catalogue")
}

fn median_ms(mut run: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64() * 1000.0
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[RUNS / 2]
}

fn main() {
    for (databases, per_site) in [(1600, "[1, 0]"), (400, "[2, 2]"), (100, "[8, 8]")] {
        let solution = group(50_000, databases, per_site);
        let mut scenarios = 0;
        let ms = median_ms(|| {
            scenarios = plan::plan(&solution, &[]).map_or(0, |plan| plan.failures.scenarios.len());
        });
        println!(
            "plan: 16 servers, {databases} databases, copies {per_site}, {scenarios} failures: {ms:.1} ms"
        );
    }
    let (solution, catalogue) = (group(20_000, 384, "[2, 2]"), catalogue());
    let (mut candidates, mut front) = (0, 0);
    let ms = median_ms(|| {
        if let Ok(found) = search(&solution, &catalogue) {
            (candidates, front) = (found.candidates, found.front.len());
        }
    });
    println!(
        "search: {candidates} designs, {front} on the front: {ms:.0} ms, {:.0} designs per second",
        candidates as f64 / ms * 1000.0
    );
}

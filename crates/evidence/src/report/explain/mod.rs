//! Why a test failed, from the rows of the run alone.
//!
//! Invariants
//! 1. Only a load test with a broken limit has causes; the answer for one without a rule that fits is
//!    [`Cause::UNKNOWN`].
//! 2. Each cause has a stable name, the figures that prove it, and a remedy.
//!
//! Limits: rows of seconds and parts make the difference. Imported figures have neither, so only the rules of the load
//! and of means can fit.

mod devices;
mod facts;
mod load;
mod parts;
mod remedies;
mod steadiness;
mod time;

use results::Outcome;

use super::model::{Cause, TestReport};
use super::window::TestView;
use facts::{Facts, Found};

pub use remedies::{CAUSES, of_rule};
pub use steadiness::unsteady;

/// Most causes that a report tells of a test.
const TOLD: usize = 2;

type Rule = fn(&Facts<'_>) -> Option<Found>;

const RULES: [Rule; 20] = [
    load::too_few_sessions,
    load::load_above_target,
    load::cache_too_small,
    load::database_fits_cache,
    load::processors,
    load::too_much_load,
    time::lost_path,
    time::stalled_sync,
    time::write_bursts,
    time::flat_ceiling,
    devices::throttled_above_devices,
    devices::neighbour_on_devices,
    devices::one_slow_device,
    parts::one_slow_part,
    parts::rebuild,
    parts::noisy_neighbour,
    parts::write_cache,
    parts::narrow_part,
    parts::slow_acknowledge,
    parts::slow_disks,
];

/// The causes of a failed test, the likeliest first; none of a test that broke no limit.
pub fn causes(view: &TestView<'_>, report: &TestReport) -> Vec<Cause> {
    if !Facts::is_load(report) || report.outcome == Some(Outcome::Pass) {
        return Vec::new();
    }
    let facts = Facts::new(view, report);
    let broken = ["read_latency", "log_write_latency", "achieved_iops", "page_fault_stalls"];
    if broken.iter().all(|rule| facts.broken(rule).is_none()) {
        return Vec::new();
    }
    let mut found: Vec<Found> = RULES.iter().filter_map(|rule| rule(&facts)).collect();
    found.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    found.truncate(TOLD);
    if found.is_empty() {
        found.push(unknown(&facts));
    }
    found
        .into_iter()
        .map(|found| {
            let remedy = remedies::of_cause(found.name);
            found.cause(remedy)
        })
        .collect()
}

/// The answer that no cause is known, with the figures that were looked at.
fn unknown(facts: &Facts<'_>) -> Found {
    let what = match facts.has_parts() {
        true => "The rows name no cause: no part was busy most of the time, and none differs from its equals",
        false => "The rows name no cause: they hold nothing of what lies behind the volumes",
    };
    Found::new(0.0, Cause::UNKNOWN, what)
}

//! Why a load test that broke no limit was not steady, from the quarters of its window.
//!
//! Limits: quarters say which figure moved and when, not what moved it.

use crate::report::model::{Cause, Proof, Steadiness, TestReport};
use crate::report::sections::holds;
use crate::report::text::significant;

use super::facts::percent;
use super::remedies;

/// The cause of a test that was not steady; `None` for one that was, and for one without quarters.
pub fn unsteady(report: &TestReport) -> Option<Cause> {
    let steadiness = report.steadiness.as_ref().filter(|steadiness| !steadiness.steady)?;
    let is_cold = !holds("write_start_percent", steadiness.write_start);
    // Latencies of a load that follows a day follow it as well.
    let is_slower = steadiness.quarter_asked.is_empty()
        && !holds("latency_change_percent", steadiness.latency_change_max);
    let rates = steadiness.without_day(&steadiness.quarter_iops);
    let quarter = match is_slower {
        true => furthest_latency(steadiness).map(|(_, quarter, _)| quarter),
        false => furthest(rates.iter().copied().map(Some)).map(|(quarter, _)| quarter),
    };
    let (name, what) = match (is_cold, is_slower) {
        (true, _) => {
            ("cache_not_warm", "The window opened before changed pages were written at their usual rate")
        }
        (false, true) => ("storage_drifts", "Latencies moved while the load went on"),
        (false, false) => ("load_drifts", "The rate of the load moved, and the latencies did not"),
    };
    let since = match (is_cold, quarter) {
        (true, _) => "the first sample of the window".to_owned(),
        (false, Some(quarter)) => format!("most in quarter {} of the window", quarter + 1),
        (false, None) => "the whole window".to_owned(),
    };
    let remedy = remedies::of_cause(name).to_owned();
    Some(Cause {
        name: name.into(),
        what: what.into(),
        since,
        part: String::new(),
        proofs: proofs(steadiness),
        remedy,
    })
}

fn proofs(steadiness: &Steadiness) -> Vec<Proof> {
    let mut proofs = Vec::new();
    let mut proof = |rows: &str, figure: String| proofs.push(Proof { rows: rows.to_owned(), figure });
    if let Some(share) = steadiness.write_start {
        proof("transactional_write", format!("{} of the mean rate in the first sample", percent(share)));
    }
    let rates: Vec<String> = steadiness.quarter_iops.iter().map(|iops| significant(*iops)).collect();
    proof(
        "transactional_read and transactional_write",
        format!("{} per second in the quarters", rates.join(", ")),
    );
    if !steadiness.quarter_asked.is_empty() {
        let mean = steadiness.quarter_iops.iter().sum::<f64>() / steadiness.quarter_iops.len() as f64;
        let asked: Vec<String> =
            steadiness.quarter_asked.iter().map(|share| significant(mean * share)).collect();
        proof("[load] hours_percent", format!("asks for {} per second in the quarters", asked.join(", ")));
        return proofs;
    }
    if let Some((rows, _, quarters)) = furthest_latency(steadiness) {
        let means: Vec<String> =
            quarters.iter().map(|mean| mean.map_or("-".to_owned(), significant)).collect();
        proof(rows, format!("{} ms in the quarters", means.join(", ")));
    }
    proofs
}

/// The measure whose latency moved furthest from its mean, in which quarter, and its quarters.
fn furthest_latency(steadiness: &Steadiness) -> Option<(&'static str, usize, &[Option<f64>])> {
    let all = [
        ("transactional_read", &steadiness.quarter_read_latency_ms),
        ("transactional_write", &steadiness.quarter_write_latency_ms),
        ("log_write", &steadiness.quarter_log_write_latency_ms),
    ];
    let moved = all.into_iter().filter_map(|(rows, quarters)| {
        furthest(quarters.iter().copied()).map(|(quarter, share)| (share, rows, quarter, &quarters[..]))
    });
    moved.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, rows, quarter, quarters)| (rows, quarter, quarters))
}

/// The quarter that is furthest from the mean of all, and its distance as a share of the mean.
fn furthest(quarters: impl Iterator<Item = Option<f64>> + Clone) -> Option<(usize, f64)> {
    let known = quarters.clone().flatten().count() as f64;
    let mean = quarters.clone().flatten().sum::<f64>() / known;
    let distances =
        quarters.enumerate().filter_map(|(at, quarter)| Some((at, (quarter? - mean).abs() / mean)));
    distances.max_by(|a, b| a.1.total_cmp(&b.1))
}

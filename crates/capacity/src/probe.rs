//! One measurement: the performance test of a scaled solution, judged by the product's own rules; here on its modelled
//! storage.

use campaign::CampaignError;
use campaign::progress::{Progress, Watcher};
use results::{Comparison, Outcome, RecordError, Recorder, Row, StoragePart, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use simulation::{Assumptions, Planned, WishError, Wishes};
use solution::{Solution, TestKind};

use crate::search::Probe;

/// Rules that grow with the load, each with its description. The last entry stands for all other rules that fail.
pub const LIMITS: [(&str, &str); 7] = [
    ("achieved_iops", "I/O per second"),
    ("read_latency_avg", "mean read latency"),
    ("read_latency_max", "highest read latency"),
    ("log_write_latency_avg", "mean log write latency"),
    ("log_write_latency_max", "highest log write latency"),
    ("page_fault_stalls", "waits for a free buffer"),
    (OTHER, "another rule"),
];
/// Index of the rule on the target of the load.
pub const TARGET: usize = 0;
const OTHER: &str = "other";
/// Margin for a rule that only holds or fails: only its sign counts.
const CLEAR: f64 = 1.0;

/// Options of the simulations.
#[derive(Clone, Copy)]
pub struct Simulating<'a> {
    /// Values of the storage models.
    pub assumptions: &'a Assumptions,
    /// Percentage of precision at which a simulation ends its test early.
    pub until_percent: f64,
    /// Length of the window, s, in place of the solution file's.
    pub duration_s: Option<f64>,
    /// Returns whether the user asked for the end.
    pub interrupted: &'a (dyn Fn() -> bool + Sync),
}

/// Result of the performance test with one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Probed {
    /// Number of mailboxes whose load was measured.
    pub mailboxes: u64,
    /// Seed of the simulation or of the run.
    pub seed: u64,
    /// Number of the test in the run folder; `None` for a simulation.
    pub test: Option<u32>,
    /// Whether no limit is broken and every rule could be judged.
    pub holds: bool,
    /// Target of each server, transactional I/O per second.
    pub target_iops: Option<f64>,
    /// Limits, each with the worst figure.
    pub limits: Vec<Figure>,
    /// Busiest part of the storage, or the processors of a host. Volumes do not count, because they only wait for
    /// other parts.
    pub busiest: Option<Busy>,
    /// Reason why the test could not go on; `None` if it came to its end.
    pub error: Option<String>,
}

/// Measured figure with its limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// Stable name of the rule; `other` for all rules that do not grow with the load.
    pub rule: String,
    /// Description of the limit.
    pub limit: String,
    /// Host, instance and database of the figure, as far as it belongs to one.
    pub place: String,
    /// Measured value.
    pub measured: Option<f64>,
    /// Limit of the value.
    pub bound: Option<f64>,
    /// Unit of value and limit.
    pub unit: String,
    /// Logarithm of limit over value: 0.1 is about a tenth of room; below 0 the limit is broken.
    pub margin: f64,
}

/// Part of the storage with its utilisation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Busy {
    /// Kind of the part: `drive`, `link`, `controller`, `processor`.
    pub kind: String,
    /// Name of the part.
    pub name: String,
    /// Utilisation: share of the time, or of the capacity, 0 to 1.
    pub busy_share: f64,
}

impl Probed {
    /// Judges a test with the load of this many mailboxes by its verdicts, or by the error that ended it.
    pub fn judged(
        (mailboxes, seed): (u64, u64),
        target_iops: Option<f64>,
        verdicts: &[Verdict],
        error: Option<String>,
    ) -> Probed {
        let limits: Vec<Figure> =
            figures(verdicts).into_iter().chain(error.as_deref().map(stopped)).collect();
        Probed {
            mailboxes,
            seed,
            test: None,
            holds: limits.iter().all(|figure| figure.margin >= 0.0),
            target_iops,
            limits,
            busiest: None,
            error,
        }
    }

    /// Margins of a measurement, in the order of [`LIMITS`].
    pub fn margins(&self) -> Vec<f64> {
        LIMITS.iter().map(|(rule, _)| self.figure(rule).map_or(CLEAR, |figure| figure.margin)).collect()
    }

    /// Worst figure of a rule.
    pub fn figure(&self, rule: &str) -> Option<&Figure> {
        self.limits.iter().find(|figure| figure.rule == rule)
    }

    /// Limit with the smallest margin. A reached target is left out, because the load is paced at it and its margin
    /// says nothing about more load.
    pub fn tightest(&self) -> Option<&Figure> {
        let telling = |figure: &&Figure| figure.rule != LIMITS[TARGET].0 || figure.margin < 0.0;
        self.limits.iter().filter(telling).min_by(|a, b| a.margin.total_cmp(&b.margin))
    }
}

/// Simulates the largest group of servers under test that share storage.
///
/// # Errors
/// The solution has no performance test, or storage that cannot be modelled.
pub fn probe(solution: &Solution, probe: Probe, how: Simulating<'_>) -> Result<Option<Probed>, WishError> {
    let wishes = Wishes {
        servers: &servers(solution).join(","),
        tests: &[TestKind::Performance],
        sessions: None,
        duration_s: how.duration_s,
        until_percent: Some(how.until_percent),
        seed: probe.seed,
    };
    let planned = Planned::of(solution, &wishes, how.assumptions)?;
    let titles = campaign::titles(&planned.all_tests());
    let (mut parts, mut watcher) = (StorageParts::default(), Asked(how.interrupted));
    let outcome = planned.play(probe.seed, &titles, &mut parts, &mut watcher).outcome;
    if matches!(outcome.error, Some(CampaignError::Interrupted)) {
        return Ok(None);
    }
    let error = outcome.error.map(|error| error.to_string());
    let target_iops = solution.load.target_iops;
    Ok(Some(Probed {
        busiest: parts
            .0
            .into_iter()
            .filter(|part| part.kind != "volume")
            .max_by(|a, b| a.busy_share.total_cmp(&b.busy_share))
            .map(|part| Busy { kind: part.kind, name: part.name, busy_share: part.busy_share }),
        ..Probed::judged((probe.load, probe.seed), target_iops, &outcome.verdicts, error)
    }))
}

/// Names of the largest group of servers under test that share storage; other groups behave alike.
pub fn servers(solution: &Solution) -> Vec<String> {
    let mut places: Vec<(String, Vec<String>)> = Vec::new();
    for host in solution.hosts_under_test() {
        let place = solution.place_of(host);
        match places.iter_mut().find(|(known, _)| *known == place) {
            Some((_, hosts)) => hosts.push(host.name.clone()),
            None => places.push((place, vec![host.name.clone()])),
        }
    }
    // The first of equals.
    let most = places.iter().map(|(_, hosts)| hosts.len()).max().unwrap_or(0);
    places.into_iter().map(|(_, hosts)| hosts).find(|hosts| hosts.len() == most).unwrap_or_default()
}

/// Worst figure of each rule among the verdicts.
fn figures(verdicts: &[Verdict]) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    for verdict in verdicts.iter().filter(|verdict| verdict.outcome != Outcome::Info) {
        let known = LIMITS.iter().find(|(rule, _)| *rule == verdict.rule);
        let margin = margin(verdict);
        let (rule, limit) = match known {
            Some((rule, words)) => (*rule, (*words).to_owned()),
            // Of a rule that no load reaches gradually only the breach counts.
            None if margin >= 0.0 => continue,
            None => (OTHER, verdict.text.clone()),
        };
        let origin = &verdict.origin;
        let place = [Some(&origin.host), origin.instance.as_ref(), origin.database.as_ref()];
        let figure = Figure {
            rule: rule.to_owned(),
            limit,
            place: place.into_iter().flatten().cloned().collect::<Vec<_>>().join(" "),
            measured: verdict.measured,
            bound: verdict.limit,
            unit: verdict.unit.clone(),
            margin,
        };
        match figures.iter_mut().find(|known| known.rule == rule) {
            Some(known) if known.margin <= margin => {}
            Some(known) => *known = figure,
            None => figures.push(figure),
        }
    }
    figures
}

/// Margin of a verdict: logarithm of limit over figure; its sign says whether the rule holds.
fn margin(verdict: &Verdict) -> f64 {
    let over = match (verdict.measured, verdict.limit, verdict.comparison) {
        (Some(measured), Some(limit), Comparison::AtLeast) => measured / limit,
        (Some(measured), Some(limit), _) => limit / measured,
        _ => f64::NAN,
    };
    let margin = over.ln();
    match verdict.outcome {
        Outcome::Pass if margin.is_finite() => margin.max(0.0),
        Outcome::Pass => CLEAR,
        _ if margin < 0.0 && margin.is_finite() => margin,
        _ => -CLEAR,
    }
}

/// Figure for a simulation that could not go on, as a broken limit.
fn stopped(error: &str) -> Figure {
    Figure {
        rule: OTHER.to_owned(),
        limit: error.to_owned(),
        place: String::new(),
        measured: None,
        bound: None,
        unit: String::new(),
        margin: -CLEAR,
    }
}

/// Recorder that keeps only the figures of the parts of the storage.
#[derive(Default)]
struct StorageParts(Vec<StoragePart>);

impl Recorder for StorageParts {
    fn record(&mut self, row: Row) -> Result<(), RecordError> {
        if let Row::StoragePart(part) = row {
            self.0.push(part);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), RecordError> {
        Ok(())
    }
}

/// Watcher that shows nothing and passes on the user's request for the end.
struct Asked<'a>(&'a (dyn Fn() -> bool + Sync));

impl Watcher for Asked<'_> {
    fn progress(&mut self, _: &Progress) {}

    fn line(&mut self, _: &str) {}

    fn interrupted(&self) -> bool {
        (self.0)()
    }
}

#[cfg(test)]
mod tests {
    use results::Origin;

    use super::*;

    fn verdict(measured: f64, limit: f64, comparison: Comparison, outcome: Outcome) -> Verdict {
        Verdict {
            test: None,
            origin: Origin::host("h"),
            rule: "read_latency_avg".into(),
            text: "r".into(),
            measured: Some(measured),
            limit: Some(limit),
            comparison,
            unit: "ms".into(),
            outcome,
        }
    }

    #[test]
    fn the_sign_of_a_margin_is_the_verdict_whatever_the_figures_say() {
        let of =
            |measured, limit, comparison, outcome| margin(&verdict(measured, limit, comparison, outcome));
        assert!((of(10.0, 20.0, Comparison::AtMost, Outcome::Pass) - 2.0_f64.ln()).abs() < 1e-12);
        assert!((of(40.0, 20.0, Comparison::AtMost, Outcome::Fail) + 2.0_f64.ln()).abs() < 1e-12);
        assert!(of(90.0, 100.0, Comparison::AtLeast, Outcome::Fail) < 0.0);
        assert!(of(10.0, 20.0, Comparison::AtMost, Outcome::Unproved) < 0.0, "nothing is proved");
        assert_eq!(of(0.0, 0.0, Comparison::AtMost, Outcome::Pass), CLEAR);
        assert_eq!(of(0.0, 10.0, Comparison::AtMost, Outcome::Pass), CLEAR);
    }

    #[test]
    fn each_rule_keeps_its_worst_figure_and_other_rules_count_when_they_are_broken() {
        let at = |place: &str, measured| Verdict {
            origin: Origin::database("h", "I", place),
            ..verdict(measured, 20.0, Comparison::AtMost, Outcome::Pass)
        };
        let uneven =
            Verdict { rule: "batches_even".into(), ..verdict(3.0, 1.0, Comparison::AtMost, Outcome::Fail) };
        let even = Verdict { outcome: Outcome::Pass, measured: Some(1.0), ..uneven.clone() };
        let found = figures(&[at("A", 5.0), at("B", 15.0), at("C", 10.0), even]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((&*found[0].place, found[0].measured), ("h I B", Some(15.0)));
        let found = figures(&[at("A", 5.0), uneven]);
        assert_eq!((&*found[1].rule, found[1].margin < 0.0), (OTHER, true), "{found:?}");
    }
}

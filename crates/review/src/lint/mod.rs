//! Lint: does the evidence contradict itself, or the solution that it claims to prove?
//!
//! A rule compares two figures that have to agree and names both with their places. Rules look at facts as
//! printed ([`Evidence`]), so the same rules judge published papers, foreign reports and our own runs; what
//! only a run of ours has (verdicts, `run.db` beside `report.json`, the solution file) has rules of its own in
//! [`run`].
//!
//! Invariants
//! 1. A rule that lacks one of its two figures says nothing: absence is no contradiction.
//! 2. Figures agree if they differ by no more than their printed digits allow, and 0.05 %.
//! 3. One contradiction is told once: a specific rule (the stress run shown as performance) silences the general one.

mod amounts;
mod capacity;
mod copies;
mod counts;
mod grade;
mod judged;
mod physics;
mod rows;
pub(crate) mod run;
mod seals;
mod statements;
mod summary;
mod tables;
mod written;

use schemars::JsonSchema;
use serde::Serialize;

use results::figures::{number, unit_of};

use crate::printed_figures::Evidence;
pub use run::{lint_report, lint_run};
pub use seals::{Beside, signed_by};

/// A figure and its place in the evidence, as findings show it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Figure {
    /// The figure with its unit.
    pub value: String,
    /// Its place in the evidence.
    pub place: String,
}

/// A finding of `lint`: two figures that contradict each other.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    /// Stable name of the rule.
    pub rule: &'static str,
    /// The relation that the two figures should have, in a sentence.
    pub text: String,
    /// The first figure.
    pub one: Figure,
    /// The figure that contradicts it.
    pub other: Figure,
}

/// Every rule of `lint`: stable name, and what evidence must fulfil.
pub const RULES: &[(&str, &str)] = &[
    ("iops_sum", "achieved I/O per second are reads plus writes"),
    ("aggregate_sum", "rates of the aggregate are the sums over the servers"),
    ("aggregate_latency", "latencies of the aggregate are the means of the servers"),
    ("repeated_cell", "two servers do not share a measured figure to the last digit"),
    ("stress_as_performance", "the performance table shows the performance run"),
    ("maintenance_counted", "achieved I/O per second leave background maintenance out"),
    ("host_mixup", "a report belongs to the server that it is shown for"),
    ("summary_differs", "the summary repeats the figures of the reports"),
    ("one_server_as_all", "a figure for all servers is not that of one of them"),
    ("target_differs", "targets are the same wherever they are stated"),
    ("wrong_scenario", "the target is that of the failure under test"),
    ("mailbox_arithmetic", "databases times mailboxes per database are all mailboxes"),
    ("failure_arithmetic", "surviving servers carry exactly what there is"),
    ("layout_activation", "the copy layout gives the load of the failure under test"),
    ("iops_per_mailbox", "I/O per second and mailbox follow from the totals"),
    ("stated_twice", "a fact stated twice is the same both times"),
    ("calculator_divisor", "all rows of the sizing table divide by the same number of servers"),
    ("unit", "the printed unit fits the figure"),
    ("used_capacity", "used storage is the test databases by the formatted capacity"),
    ("database_utilization", "database utilization is the data by the formatted or the raw capacity"),
    ("one_server_capacity", "a ratio does not divide one server's capacity by that of all"),
    ("raw_capacity", "raw capacity is disks times their size"),
    ("volume_count", "volumes need the disks that they are made of"),
    ("tested_disks", "all data disks of the solution are tested"),
    ("raid_level", "the RAID level is the same in the table and in the text"),
    ("foreign_model", "the text names the hardware of this solution only"),
    ("total_of_parts", "a printed total is the sum of its parts"),
    ("rate", "a rate is the amount by the time"),
    ("read_sum", "transactional plus maintenance reads are the total"),
    ("growth", "growth is the final less the initial size"),
    ("average_outside_range", "an average lies between its minimum and its maximum"),
    ("threshold_exceeded", "a test that passed is inside its limits"),
    (
        "littles_law",
        "the reads under way at a time are those that the sessions of a closed load can wait for",
    ),
    ("read_floor", "random reads take at least what the fastest drives of the kind take"),
    ("lenient_threshold", "the laxer maxima are for runs longer than 6 h"),
    ("load_after_window", "the load ends with the measured window, or batch counts include more than it"),
    ("duration_title", "a test lasts as long as its title says"),
    ("short_window", "the measured window is as long as stated"),
    ("percentile_order", "percentiles grow, up to the longest latency"),
    ("load_shape", "operations per batch are the operations by the batches"),
    ("host_figures", "how busy a host was is the same wherever it is stated"),
    ("steadiness", "how much a load changes follows from its quarters"),
    ("io_driver", "a host that can use io_uring does not poll"),
    ("window_gap", "a window without gaps has a sample every second"),
    ("read_share", "the share that was read is the bytes read by the bytes there"),
    ("bad_pages", "a checksum that passed found no bad page"),
    ("coverage", "a check that passes for all pages has read all pages"),
    ("verdict_outcome", "a verdict follows from its figure and its limit"),
    ("verdict_figure", "a verdict judges the figure that the tables show"),
    ("grade", "the grade follows from the verdicts, the ending and the conditions"),
    ("claim", "what the run set out to show is what its solution file says"),
    ("grade_sentence", "the sentence of the grade says what was tested"),
    ("condition_met", "a condition is met if its figure lies in its range"),
    ("condition_range", "the range of a condition is the published one, or is called weaker"),
    ("condition_figure", "the figure of a condition is the one that the tables give"),
    ("condition_missing", "every condition that applies is in the report"),
    ("qualified_without", "a qualified run has a target, and databases larger than their caches"),
    ("solution_threshold", "limits are those of the solution file"),
    ("stray_rows", "every row belongs to a test of the run"),
    ("world_mixed", "a real run is real in all its rows"),
    ("distribution_count", "latency distributions hold the operations that the samples count"),
    ("instance_sum", "what a host did is the sum of what its databases and logs did"),
    ("limit_announced", "verdicts judge by the limits that their test announced"),
    ("verdict_missing", "what is beyond a limit has a verdict that does not pass"),
    ("error_unjudged", "an error that an event names has a verdict that does not pass"),
    ("solution_test", "lengths, targets and sizes are those of the solution file"),
    ("file_size", "checked pages are the bytes that were read, and no fewer than the file holds"),
    ("logs_read", "recovery has read the logs that it states, and its verdict judges them"),
    ("host_unknown", "every host of the run is one of the solution file"),
    ("report_differs", "report.json says what run.db says"),
    ("page_differs", "report.html and junit.xml show what run.db says"),
    ("rows_changed", "rows are those that were sealed"),
    ("seal_broken", "seals are there, follow each other and cover the whole run"),
    ("ending_missing", "a run whose file was closed in order says how it ended"),
    ("attestation", "attestation.json states the files and the result of the run, and its signature fits"),
    ("signature", "the run is signed by the key that was asked for (--verify)"),
];

/// The findings so far.
#[derive(Default)]
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    /// Adds a finding: two figures that contradict each other.
    pub(crate) fn add(
        &mut self,
        rule: &'static str,
        text: impl Into<String>,
        one: (impl Into<String>, impl Into<String>),
        other: (impl Into<String>, impl Into<String>),
    ) {
        debug_assert!(RULES.iter().any(|(name, _)| *name == rule), "{rule} is not in the list");
        let figure = |value: String, place: String| Figure { value, place };
        self.0.push(Finding {
            rule,
            text: text.into(),
            one: figure(one.0.into(), one.1.into()),
            other: figure(other.0.into(), other.1.into()),
        });
    }

    pub(crate) fn has(&self, rule: &str) -> bool {
        self.0.iter().any(|finding| finding.rule == rule)
    }

    pub(crate) fn into_vec(self) -> Vec<Finding> {
        self.0
    }
}

/// Checks printed figures with every rule that applies to them.
pub fn lint(evidence: &Evidence) -> Vec<Finding> {
    let mut findings = Findings::default();
    printed(evidence, &mut findings);
    findings.into_vec()
}

/// Runs the rules for printed figures.
pub(crate) fn printed(evidence: &Evidence, findings: &mut Findings) {
    tables::check(evidence, findings);
    summary::check(evidence, findings);
    statements::check(evidence, findings);
    capacity::check(evidence, findings);
    copies::check(evidence, findings);
    physics::check(evidence, findings);
}

/// A figure as findings print it: with at most six significant digits.
pub(crate) fn shown(value: f64) -> String {
    if value == 0.0 || (value.fract() == 0.0 && value.abs() < 1e15) {
        return number(value, 0);
    }
    let decimals = (5 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    let text = number(value, decimals);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// The beginning of a text that is too long for a finding.
pub(crate) fn brief(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A figure with its unit.
pub(crate) fn with(value: f64, unit: &str) -> String {
    format!("{} {}", shown(value), unit_of(value, unit)).trim_end().to_owned()
}

/// Half a unit of the last digit with which `value` was printed: the largest error of its rounding.
fn half_digit(value: f64) -> f64 {
    let text = format!("{value}");
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    0.5 * 10f64.powi(-(decimals.min(12) as i32))
}

/// Whether a printed figure and one computed from others agree within rounding.
pub(crate) fn agrees(printed: f64, computed: f64) -> bool {
    agrees_within(printed, computed, 5e-4)
}

/// Whether they agree within rounding and a further share, because parts were rounded as well.
pub(crate) fn agrees_within(printed: f64, computed: f64, share: f64) -> bool {
    (printed - computed).abs() <= 1.2 * half_digit(printed) + share * computed.abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_agree_as_far_as_their_digits_go() {
        assert!(agrees(642.0, 642.116) && agrees(630.7, 630.688) && agrees(2.3, 2.3));
        assert!(!agrees(642.0, 633.738) && !agrees(1200.51, 1110.138) && !agrees(2.82, 2.8558));
    }

    #[test]
    fn figures_are_shown_short() {
        assert_eq!(shown(1_200.505_3), "1,200.51");
        assert_eq!(shown(0.469), "0.469");
        assert_eq!(shown(15_008.0), "15,008");
    }
}

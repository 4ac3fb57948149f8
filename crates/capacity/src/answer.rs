//! What `capacity` answers, for programs and for people.

use std::fmt::Write;

use results::figures::{counted, number};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::PlanLimit;
use crate::probe::{Figure, Probed};
use crate::search::Shape;

/// Answer of `proofload capacity`: the mailboxes that a solution carries.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Capacity {
    /// Version of this JSON document: 1.
    pub schema_version: u32,
    /// Name of the solution.
    pub solution: String,
    /// Number of mailboxes in the solution file.
    pub mailboxes_wanted: u64,
    /// Failure whose load the surviving servers must carry.
    pub failure: String,
    /// Servers that are simulated together, or the one whose storage was measured; empty with `--plan-only`.
    pub servers: Vec<String>,
    /// Answers: the solution as described first, then each variation.
    pub variants: Vec<Variant>,
}

/// Answer for the solution as described, or with one change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Variant {
    /// What is changed; `None` for the solution as described.
    pub changed: Option<String>,
    /// Limits of the plan, lowest first.
    pub plan_limits: Vec<PlanLimit>,
    /// Result of the simulations; `None` with `--plan-only` and `--run`.
    pub simulated: Option<Searched>,
    /// Result of the climb on real storage (`--run`).
    pub measured: Option<Searched>,
}

/// Result of the simulations of one variant, or of the climb on real storage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Searched {
    /// How the search ended.
    pub found: FoundKind,
    /// Number of mailboxes at which no measurement broke a limit.
    pub mailboxes: Option<u64>,
    /// Interval of mailboxes in which the limit lies: the bracket of the search, or the 90 % interval of the limit
    /// where seeds scatter.
    pub interval: Option<(f64, f64)>,
    /// Limit that binds first.
    pub binds: Option<Binds>,
    /// Limit that binds next.
    pub next: Option<Binds>,
    /// Measurements in the order in which they ran.
    pub probes: Vec<Probed>,
    /// Reason why the search ended before its answer was sure; `None` if it did not.
    pub incomplete: Option<String>,
    /// Parts of the answer that nothing backs: assumed storage, failed checks of the plan.
    pub doubts: Vec<String>,
}

/// How the search for the capacity ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FoundKind {
    /// The search found a limit of the storage.
    Carried,
    /// A limit of the plan ends the range, and below it the storage breaks no limit.
    CarriedByPlan,
    /// The largest number that was measured breaks no limit.
    NoLimitInRange,
    /// Every number that was measured breaks a limit.
    NoneInRange,
}

/// Limit that binds, and its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Binds {
    /// Name of the limit.
    pub limit: String,
    /// Database, host or kind of volume that reaches the limit first.
    pub place: String,
    /// Mailboxes at which the limit binds; `None` if no measurement reached it.
    pub mailboxes: Option<u64>,
    /// Used share of the limit at the answer, percent; `None` for a limit of the plan.
    pub used_percent: Option<f64>,
    /// `cliff` if the figure gets worse by 10 % or more for each percent of load, else `slope`.
    pub shape: Option<Shape>,
    /// Busiest part of the storage where the limit is broken, with its utilisation in percent.
    pub busiest: Option<(String, f64)>,
}

impl Capacity {
    /// Whether the solution as described carries the mailboxes of its file.
    pub fn suffices(&self) -> bool {
        self.variants.first().is_some_and(|variant| variant.carries() >= Some(self.mailboxes_wanted))
    }

    /// Mailboxes that the solution as described carries by simulation or measurement.
    pub fn carried(&self) -> Option<u64> {
        self.variants.first()?.searched()?.mailboxes
    }

    /// Formats the answer for people.
    pub fn text(&self) -> String {
        let mut out = format!(
            "{}\n{} wanted; failure: {}\n",
            self.solution,
            counted(self.mailboxes_wanted, "mailbox"),
            self.failure
        );
        if !self.servers.is_empty() {
            let how = match self.variants.iter().any(|variant| variant.measured.is_some()) {
                true => "measured on the storage of",
                false => "simulated together",
            };
            let _ = writeln!(out, "{how}: {}", self.servers.join(", "));
        }
        for variant in &self.variants {
            variant.write(&mut out, self.mailboxes_wanted);
        }
        out
    }
}

impl Variant {
    fn searched(&self) -> Option<&Searched> {
        self.measured.as_ref().or(self.simulated.as_ref())
    }

    /// Mailboxes that the variant carries: by simulation or measurement, else by the lowest limit of the plan.
    pub fn carries(&self) -> Option<u64> {
        match self.searched() {
            Some(searched) => searched.mailboxes,
            // Limits that allow none hang on something else than mailboxes, and fail the plan itself.
            None => {
                self.plan_limits.iter().map(|limit| limit.mailboxes.unwrap_or(0)).min().or(Some(u64::MAX))
            }
        }
    }

    fn write(&self, out: &mut String, wanted: u64) {
        let name = self.changed.as_deref().unwrap_or("As described");
        let _ =
            writeln!(out, "\n{name}, by arithmetic\n  {:<28} {:<22} {:>12}", "limit", "part", "mailboxes");
        for limit in &self.plan_limits {
            let mailboxes = limit.mailboxes.map_or("none".into(), |most| number(most as f64, 0));
            let _ = writeln!(out, "  {:<28} {:<22} {mailboxes:>12}", limit.limit, limit.part);
        }
        if self.plan_limits.is_empty() {
            out.push_str("  the plan reaches no limit\n");
        }
        for (how, searched) in [("simulated", &self.simulated), ("measured", &self.measured)] {
            if let Some(searched) = searched {
                let _ = writeln!(out, "\n{name}, {how}");
                searched.write(out, wanted);
            }
        }
    }
}

impl Searched {
    fn write(&self, out: &mut String, wanted: u64) {
        let number_of = if self.probes.iter().any(|probed| probed.test.is_some()) { "test" } else { "seed" };
        let _ = writeln!(
            out,
            "  {:>12} {number_of:>5} {:>10}  {:<6} tightest limit",
            "mailboxes", "target/s", ""
        );
        let mut probes: Vec<&Probed> = self.probes.iter().collect();
        probes.sort_by_key(|probed| (probed.mailboxes, probed.number()));
        for probed in probes {
            let _ = writeln!(out, "  {}", line(probed));
        }
        let sentence = match (self.found, self.mailboxes) {
            (FoundKind::NoneInRange, _) | (_, None) => {
                "carries no number of mailboxes that was looked at".to_owned()
            }
            (FoundKind::NoLimitInRange, Some(most)) => {
                format!("carries {} at least: no limit is broken there", counted(most, "mailbox"))
            }
            (_, Some(most)) => format!("carries {}", counted(most, "mailbox")),
        };
        let share = self.mailboxes.map_or(String::new(), |most| {
            format!(" ({} of those wanted)", percent(100.0 * most as f64 / wanted as f64))
        });
        let _ = writeln!(out, "  {sentence}{share}");
        if let Some((low, high)) = self.interval {
            let _ = writeln!(out, "  the limit is between {} and {}", number(low, 0), number(high, 0));
        }
        for (word, binds) in [("binds first", &self.binds), ("binds next", &self.next)] {
            if let Some(binds) = binds {
                let _ = writeln!(out, "  {word}: {}", binds.text());
            }
        }
        if let Some(why) = &self.incomplete {
            let _ = writeln!(out, "  incomplete, the best answer so far: {why}");
        }
        for doubt in &self.doubts {
            let _ = writeln!(out, "  not backed: {doubt}");
        }
    }
}

/// Formats one measurement as a line.
pub fn line(probed: &Probed) -> String {
    let word = if probed.holds { "holds" } else { "BREAKS" };
    let target = probed.target_iops.map_or(String::new(), |iops| number(iops, 1));
    let tightest = probed.tightest().map_or(String::new(), Figure::text);
    let (mailboxes, ordinal) = (number(probed.mailboxes as f64, 0), probed.number());
    format!("{mailboxes:>12} {ordinal:>5} {target:>10}  {word:<6} {tightest}")
}

impl Probed {
    /// Number by which the measurement is found: its test in the run folder, or its seed.
    fn number(&self) -> u64 {
        self.test.map_or(self.seed, u64::from)
    }
}

impl Figure {
    /// Formats figure and limit as text.
    pub fn text(&self) -> String {
        let figures = match (self.measured, self.bound) {
            (Some(measured), Some(bound)) => {
                format!(" {} of {} {}", number(measured, 2), number(bound, 2), self.unit)
            }
            _ => String::new(),
        };
        let place = if self.place.is_empty() { String::new() } else { format!(", {}", self.place) };
        format!("{}{figures}{place}", self.limit)
    }
}

impl Binds {
    fn text(&self) -> String {
        let mut text = self.limit.clone();
        if !self.place.is_empty() {
            let _ = write!(text, ", {}", self.place);
        }
        match (self.mailboxes, self.used_percent) {
            (Some(mailboxes), _) => {
                let _ = write!(text, ", at {}", counted(mailboxes, "mailbox"));
            }
            (None, Some(used)) => {
                let _ = write!(text, ", not reached: {} of it used", percent(used));
            }
            (None, None) => {}
        }
        match self.shape {
            Some(Shape::Cliff) => text.push_str("; a cliff"),
            Some(Shape::Slope) => text.push_str("; a slope"),
            None => {}
        }
        if let Some((part, busy)) = &self.busiest {
            let _ = write!(text, "; busiest: {part}, {}", percent(*busy));
        }
        text
    }
}

fn percent(value: f64) -> String {
    format!("{} %", number(value, 0))
}

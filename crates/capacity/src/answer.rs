//! What `capacity` answers, for programs and for people.

use std::fmt::Write;

use results::figures::{counted, number};
use schemars::JsonSchema;
use serde::Serialize;

use crate::limits::PlanLimit;
use crate::probe::{Figure, Probed};

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
    /// Servers that are simulated together; empty with `--plan-only`.
    pub servers: Vec<String>,
    /// Answers: the solution as described first, then each variation.
    pub variants: Vec<Variant>,
}

/// Answer for the solution as described, or with one change.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Variant {
    /// What is changed; `None` for the solution as described.
    pub changed: Option<String>,
    /// Limits of the plan, lowest first.
    pub plan_limits: Vec<PlanLimit>,
    /// Result of the simulations; `None` with `--plan-only`.
    pub simulated: Option<Simulated>,
}

/// Result of the simulations of one variant.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Simulated {
    /// How the search ended.
    pub found: FoundKind,
    /// Number of mailboxes at which no simulation broke a limit.
    pub mailboxes: Option<u64>,
    /// Interval of mailboxes in which the limit lies: the bracket of the search, or the 90 % interval of the limit
    /// where seeds scatter.
    pub interval: Option<(f64, f64)>,
    /// Limit that binds first.
    pub binds: Option<Binds>,
    /// Limit that binds next.
    pub next: Option<Binds>,
    /// Simulations in the order in which they ran.
    pub probes: Vec<Probed>,
    /// Parts of the answer that nothing backs: assumed storage, failed checks of the plan.
    pub doubts: Vec<String>,
}

/// How the search for the capacity ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FoundKind {
    /// The search found a limit of the storage.
    Carried,
    /// A limit of the plan ends the range, and below it the storage breaks no limit.
    CarriedByPlan,
    /// The largest number that was simulated breaks no limit.
    NoLimitInRange,
    /// Every number that was simulated breaks a limit.
    NoneInRange,
}

/// Limit that binds, and its place.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Binds {
    /// Name of the limit.
    pub limit: String,
    /// Database, host or kind of volume that reaches the limit first.
    pub place: String,
    /// Mailboxes at which the limit binds; `None` if no simulation reached it.
    pub mailboxes: Option<u64>,
    /// Used share of the limit at the answer, percent; `None` for a limit of the plan.
    pub used_percent: Option<f64>,
    /// `cliff` if the figure gets worse by 10 % or more for each percent of load, else `slope`.
    pub shape: Option<&'static str>,
    /// Busiest part of the storage where the limit is broken, with its utilisation in percent.
    pub busiest: Option<(String, f64)>,
}

impl Capacity {
    /// Whether the solution as described carries the mailboxes of its file.
    pub fn suffices(&self) -> bool {
        self.variants.first().is_some_and(|variant| variant.carries() >= Some(self.mailboxes_wanted))
    }

    /// Mailboxes that the solution as described carries by simulation.
    pub fn carried(&self) -> Option<u64> {
        self.variants.first()?.simulated.as_ref()?.mailboxes
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
            let _ = writeln!(out, "simulated together: {}", self.servers.join(", "));
        }
        for variant in &self.variants {
            variant.write(&mut out, self.mailboxes_wanted);
        }
        out
    }
}

impl Variant {
    /// Mailboxes that the variant carries: by simulation, else by the lowest limit of the plan.
    pub fn carries(&self) -> Option<u64> {
        match &self.simulated {
            Some(simulated) => simulated.mailboxes,
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
        if let Some(simulated) = &self.simulated {
            let _ = writeln!(out, "\n{name}, simulated");
            simulated.write(out, wanted);
        }
    }
}

impl Simulated {
    fn write(&self, out: &mut String, wanted: u64) {
        let _ =
            writeln!(out, "  {:>12} {:>5} {:>10}  {:<6} tightest limit", "mailboxes", "seed", "target/s", "");
        let mut probes: Vec<&Probed> = self.probes.iter().collect();
        probes.sort_by_key(|probed| (probed.mailboxes, probed.seed));
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
        for doubt in &self.doubts {
            let _ = writeln!(out, "  not backed: {doubt}");
        }
    }
}

/// Formats one simulation as a line.
pub fn line(probed: &Probed) -> String {
    let word = if probed.holds { "holds" } else { "BREAKS" };
    let target = probed.target_iops.map_or(String::new(), |iops| number(iops, 1));
    let tightest = probed.tightest().map_or(String::new(), Figure::text);
    let (mailboxes, seed) = (number(probed.mailboxes as f64, 0), probed.seed);
    format!("{mailboxes:>12} {seed:>5} {target:>10}  {word:<6} {tightest}")
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
        if let Some(shape) = self.shape {
            let _ = write!(text, "; a {shape}");
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

//! Asks for the answer: the limits of the plan first, then simulations as the search wants them, independent ones
//! side by side.

use results::WorldKind;
use results::figures::counted;
use results::judge::LatencyRule;
use simulation::{Assumptions, WishError};
use solution::{Scope, Solution};
use world::sim::{SideFn, processors, side_by_side};

use crate::answer::{Binds, Capacity, FoundKind, Searched, Variant, line};
use crate::limits::{PlanLimit, firm, highest, plan_limits};
use crate::probe::{LIMITS, Probed, Simulating, TARGET, probe, servers};
use crate::scale::Scaling;
use crate::search::{Answer, Found, Limit, Measured, Probe, Search, Step};

/// Largest multiple of the file's mailboxes that is simulated if the plan has no limit.
const MOST_TIMES: u64 = 64;

/// Variant of a solution: as described, or with one change.
#[derive(Debug, Clone)]
pub struct Case {
    /// What is changed; `None` for the solution as described.
    pub changed: Option<String>,
    /// Solution of the variant.
    pub solution: Solution,
}

/// Search of one variant that is under way.
pub struct Looking<'a> {
    /// Solution with any number of mailboxes.
    pub scaling: Scaling<'a>,
    /// Limits of the plan.
    pub limits: Vec<PlanLimit>,
    /// Number of mailboxes at which the search starts.
    pub start: u64,
    /// State of the search.
    pub search: Search,
    probes: Vec<Probed>,
}

/// Computes the answer for each case from limits of the plan alone.
///
/// # Errors
/// The file says too little about its users to plan it.
pub fn by_plan(cases: &[Case]) -> Result<Vec<Variant>, WishError> {
    let mut variants = Vec::new();
    for case in cases {
        let plan_limits = plan_limits(&Scaling::of(&case.solution)?);
        variants.push(Variant {
            changed: case.changed.clone(),
            plan_limits,
            simulated: None,
            measured: None,
        });
    }
    Ok(variants)
}

/// Computes the answer for each case by plan and simulation. Calls `tell` with a line for each simulation. `None` if
/// the user asked for the end.
///
/// # Errors
/// The file says too little about its users to plan it, or of its storage to simulate it.
pub fn by_simulation(
    cases: &[Case],
    how: Simulating<'_>,
    seed: u64,
    tell: &mut dyn FnMut(&str),
) -> Result<Option<Vec<Variant>>, WishError> {
    let mut looking = Vec::new();
    for case in cases {
        looking.push(Looking::new(Scaling::of(&case.solution)?, seed)?);
    }
    loop {
        let wanted: Vec<(usize, Probe)> = looking
            .iter()
            .enumerate()
            .flat_map(|(n, one)| one.wanted().into_iter().map(move |p| (n, p)))
            .collect();
        if wanted.is_empty() {
            break;
        }
        let jobs = wanted.iter().map(|&(n, wanted)| {
            let scaling = &looking[n].scaling;
            let job: SideFn<'_, (), _> =
                Box::new(move |_| probe(&scaling.solution(wanted.load)?, wanted, how));
            job
        });
        let measured = side_by_side(processors(), jobs.collect(), |_| {});
        for ((n, _), measured) in wanted.into_iter().zip(measured) {
            let Some(probed) = measured? else { return Ok(None) };
            let of = cases[n].changed.as_ref().map_or(String::new(), |changed| format!("  {changed}"));
            tell(&format!("{}{of}", line(&probed)));
            looking[n].add(probed);
        }
    }
    let mut variants = Vec::new();
    for (case, looked) in cases.iter().zip(looking) {
        let mut simulated = looked.answer();
        let at = simulated.mailboxes.unwrap_or(looked.scaling.mailboxes);
        simulated.doubts.extend(doubts(&looked.scaling.solution(at)?, how.assumptions));
        let (changed, simulated) = (case.changed.clone(), Some(simulated));
        variants.push(Variant { changed, plan_limits: looked.limits, simulated, measured: None });
    }
    Ok(Some(variants))
}

/// Puts the answers together: that of the solution as described, then those of its variations.
///
/// # Errors
/// The file says too little about its users to plan it.
pub fn together(solution: &Solution, variants: Vec<Variant>) -> Result<Capacity, WishError> {
    let is_simulated = variants.iter().any(|variant| variant.simulated.is_some());
    told(solution, if is_simulated { servers(solution) } else { Vec::new() }, variants)
}

/// As [`together`], with the servers that were loaded.
pub fn told(
    solution: &Solution,
    servers: Vec<String>,
    variants: Vec<Variant>,
) -> Result<Capacity, WishError> {
    let planned = plan::plan(solution, &[])?;
    Ok(Capacity {
        schema_version: 1,
        solution: solution.name.clone(),
        mailboxes_wanted: planned.mailboxes,
        failure: planned.targets.target_case,
        servers,
        variants,
    })
}

impl<'a> Looking<'a> {
    /// Prepares the search between the smallest load that can be measured and the lowest limit of the plan.
    ///
    /// # Errors
    /// No load can be measured.
    pub fn new(scaling: Scaling<'a>, seed: u64) -> Result<Looking<'a>, WishError> {
        let limits = plan_limits(&scaling);
        let most = scaling.mailboxes.saturating_mul(MOST_TIMES);
        let most = firm(&limits).next().map_or(most, |(mailboxes, _)| mailboxes.min(most));
        let start = scaling.mailboxes.min(most);
        // Below some number the window is too short for the load.
        let known = if scaling.solution(start).is_ok() { start } else { most };
        scaling.solution(known)?;
        let refused = |mailboxes| scaling.solution(mailboxes).is_err();
        let least = highest(1, known, refused).map_or(1, |mailboxes| mailboxes + 1);
        let start = start.clamp(least, most);
        let worst = (0..LIMITS.len()).filter(|index| is_worst(LIMITS[*index].0)).collect();
        let search = Search::new(least, most, start, seed).with_worst(worst);
        Ok(Looking { scaling, limits, start, search, probes: Vec::new() })
    }

    fn wanted(&self) -> Vec<Probe> {
        match self.search.step() {
            Step::Measure(probes) => probes,
            Step::Answer(_) => Vec::new(),
        }
    }

    /// Adds a measurement.
    pub fn add(&mut self, probed: Probed) {
        let probe = Probe { load: probed.mailboxes, seed: probed.seed };
        self.search.add(Measured { probe, margins: probed.margins() });
        self.probes.push(probed);
    }

    /// Answer by the measurements so far, without doubts.
    pub fn answer(&self) -> Searched {
        let answer = self.search.best();
        let mut of_plan =
            firm(&self.limits).map(|(mailboxes, limit)| self.of_plan(mailboxes, limit)).peekable();
        let mailboxes = answer.found.load();
        let at_ceiling = mailboxes.is_some() && of_plan.peek().and_then(|binds| binds.mailboxes) == mailboxes;
        let mut measured = answer.limits.iter().filter_map(|limit| self.of_limit(limit, &answer));
        let found = match answer.found {
            Found::Carried(_) => FoundKind::Carried,
            Found::AtLeast(_) if at_ceiling => FoundKind::CarriedByPlan,
            Found::AtLeast(_) => FoundKind::NoLimitInRange,
            Found::NoneInRange(_) => FoundKind::NoneInRange,
        };
        let binds = match found {
            FoundKind::CarriedByPlan => of_plan.next(),
            FoundKind::NoLimitInRange => None,
            FoundKind::Carried | FoundKind::NoneInRange => measured.next(),
        };
        let next = measured.chain(of_plan).min_by_key(|binds| binds.mailboxes.unwrap_or(u64::MAX));
        Searched {
            found,
            mailboxes,
            interval: answer.interval,
            binds,
            next,
            probes: self.probes.clone(),
            incomplete: None,
            doubts: mailboxes.map_or_else(Vec::new, |mailboxes| self.excused(mailboxes)),
        }
    }

    /// Limits on worst samples that broke below the answer, in words.
    fn excused(&self, answer: u64) -> Vec<String> {
        let below = self.probes.iter().filter(|probed| probed.mailboxes < answer);
        let figures = below.flat_map(|probed| probed.limits.iter().map(|figure| (probed.mailboxes, figure)));
        figures
            .filter(|(_, figure)| figure.margin < 0.0 && is_worst(&figure.rule))
            .map(|(mailboxes, figure)| {
                format!(
                    "{} breaks at {} and holds with more: a light load has few operations in a sample",
                    figure.text(),
                    counted(mailboxes, "mailbox")
                )
            })
            .collect()
    }

    fn of_plan(&self, mailboxes: u64, limit: &PlanLimit) -> Binds {
        Binds {
            limit: limit.limit.clone(),
            place: limit.part.clone(),
            mailboxes: Some(mailboxes),
            used_percent: None,
            shape: None,
            busiest: None,
        }
    }

    /// Builds the answer's entry for a limit that was judged; `None` if nothing was measured for it, or if it is the
    /// target of a paced load that was always reached, which is as near at every load.
    fn of_limit(&self, limit: &Limit, answer: &Answer) -> Option<Binds> {
        let (rule, words) = LIMITS[limit.index];
        if limit.index == TARGET && limit.at.is_none() && limit.margin >= 0.0 {
            return None;
        }
        let is_broken = |probed: &&Probed| probed.figure(rule).is_some_and(|figure| figure.margin < 0.0);
        let broken = self.probes.iter().filter(is_broken).min_by_key(|probed| probed.mailboxes);
        let at_answer = || self.probes.iter().find(|probed| Some(probed.mailboxes) == answer.found.load());
        let probed = broken.or_else(at_answer)?;
        let figure = probed.figure(rule)?;
        let is_first = answer.limits.first() == Some(limit) && broken.is_some();
        let shape = answer.shape.filter(|_| is_first);
        let busiest = probed.busiest.as_ref().filter(|_| is_first);
        Some(Binds {
            limit: if rule == "other" { figure.limit.clone() } else { words.to_owned() },
            place: figure.place.clone(),
            mailboxes: limit.at.map(|at| at.round() as u64),
            used_percent: Some(100.0 * (-limit.margin).exp()),
            shape,
            busiest: busiest.map(|part| (part.name.clone(), 100.0 * part.busy_share)),
        })
    }
}

/// Whether a rule judges the worst of many samples.
fn is_worst(rule: &str) -> bool {
    LatencyRule::from_name(rule).is_some_and(LatencyRule::is_of_worst_sample)
}

/// Assumptions of a simulation of this solution that have no source, in words.
fn doubts(solution: &Solution, assumptions: &Assumptions) -> Vec<String> {
    let values = assumptions.sources().iter().map(|one| (&*one.key, &*one.value, &*one.source));
    let measured = plan::measured_storage(values);
    let claim = plan::claim(solution, WorldKind::Simulated, measured.as_deref(), Vec::new());
    let mut doubts: Vec<String> = claim.doubts.into_iter().map(|doubt| doubt.text).collect();
    let groups = solution.dag.count;
    let is_shared = solution.array.as_ref().is_some_and(|array| array.scope == Scope::Shared);
    if groups > 1 && is_shared {
        doubts.push(format!(
            "the simulation has the servers of one group of {groups}: where groups share an array, it carries less"
        ));
    }
    doubts
}

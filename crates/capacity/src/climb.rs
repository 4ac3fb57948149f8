//! The climb on real storage: which load the next performance test has, and what the tests say together.
//!
//! The databases are made once, in the size that the solution file gives them; a step changes the load alone. So what
//! the steps measure is load; the place that the mailboxes need is arithmetic of the plan, which ends the range.

use campaign::choice::{ChoiceError, tests_but_drills};
use campaign::{Climb, Climbed};
use results::figures::counted;
use results::{Verdict, WorldKind};
use simulation::{WishError, estimated, with_databases};
use solution::{Deployment, LoadSpec, Solution, TestKind};

use crate::answer::{Capacity, Searched, Variant};
use crate::carry::{Looking, told};
use crate::probe::{Figure, Probed, servers};
use crate::scale::Scaling;
use crate::search::{PROBES_MAX, Probe};

/// Climb of one host: the search for its capacity, whose measurements are tests of a run.
pub struct Climbing<'a> {
    looking: Looking<'a>,
    solution: &'a Solution,
    /// Solution with the load of the first step.
    first: Solution,
    host: String,
    seed: u64,
    /// Load of the test under way.
    asked: Option<Probe>,
    /// Reason why a load of the search could not be prepared.
    refused: Option<WishError>,
}

impl<'a> Climbing<'a> {
    /// Prepares the climb of one host of a solution; `host` may be left out if there is one host.
    ///
    /// # Errors
    /// The file says too little about its users to plan it, or does not describe the host.
    pub fn new(solution: &'a Solution, host: Option<&str>, seed: u64) -> Result<Climbing<'a>, WishError> {
        let looking = Looking::new(Scaling::with_fixed_databases(solution)?, seed)?;
        let load = looking.search.next_alone().map_or(looking.start, |probe| probe.load);
        let first = looking.scaling.solution(load)?;
        let host = first.deployment(host)?.host;
        Ok(Climbing { looking, solution, first, host, seed, asked: None, refused: None })
    }

    /// Solution with the load of the first step. The evidence carries it; the steps after it have other loads.
    pub fn first(&self) -> &Solution {
        &self.first
    }

    /// Deployment of the host, with the load at which the search starts.
    ///
    /// # Errors
    /// The solution does not describe it.
    pub fn deployment(&self) -> Result<Deployment, WishError> {
        Ok(self.looking.scaling.solution(self.looking.start)?.deployment(Some(&self.host))?)
    }

    /// Tests of the climb: the databases are made, then the performance test of the file in each step, which ends once
    /// its figures are known to `until_percent`.
    ///
    /// # Errors
    /// The solution has no performance test, or the precision is out of range.
    pub fn tests(&self, until_percent: f64) -> Result<Climbed, WishError> {
        let chosen = tests_but_drills(&self.deployment()?, &[TestKind::Performance])?;
        let chosen = estimated(chosen, Some(until_percent))?;
        let step = chosen.into_iter().next().ok_or(ChoiceError::NoSuchTest)?;
        Ok(Climbed { before: with_databases(&[]), step, steps_max: PROBES_MAX as u32 })
    }

    /// Answer by the steps so far; `None` if no step came to its end. `incomplete`: reason why no step follows.
    ///
    /// # Errors
    /// A load of the search could not be prepared.
    pub fn answer(self, incomplete: Option<String>) -> Result<Option<Capacity>, WishError> {
        if let Some(refused) = self.refused {
            return Err(refused);
        }
        if self.looking.search.measured().is_empty() {
            return Ok(None);
        }
        let mut measured = Searched { incomplete, ..self.looking.answer() };
        measured.doubts.extend(self.doubts()?);
        let plan_limits = self.looking.limits;
        let variant = Variant { changed: None, plan_limits, simulated: None, measured: Some(measured) };
        told(self.solution, vec![self.host], vec![variant]).map(Some)
    }

    /// Parts of the answer that the steps do not measure.
    fn doubts(&self) -> Result<Vec<String>, WishError> {
        let claim = plan::claim(&self.first, WorldKind::Real, None, Vec::new());
        let mut doubts: Vec<String> = claim.doubts.into_iter().map(|doubt| doubt.text).collect();
        doubts.push(format!(
            "the databases of every step had the size for {}: more mailboxes fill more of the disks, which slows disks \
             with heads, and their recovery and backup were not measured",
            counted(self.looking.scaling.mailboxes, "mailbox")
        ));
        let together = servers(self.solution).len();
        if together > 1 {
            doubts.push(format!(
                "only {} was loaded: where {together} servers share storage, each carries less",
                self.host
            ));
        }
        Ok(doubts)
    }

    fn load(&self, mailboxes: u64) -> Result<LoadSpec, WishError> {
        Ok(self.looking.scaling.solution(mailboxes)?.deployment(Some(&self.host))?.load)
    }
}

impl Climb for Climbing<'_> {
    fn next(&mut self) -> Option<(String, LoadSpec)> {
        let asked = self.looking.search.next_alone()?;
        self.asked = Some(asked);
        let load = self.load(asked.load).map_err(|error| self.refused = Some(error)).ok()?;
        let name = format!("Performance with {}", counted(asked.load, "mailbox"));
        let before = self.looking.search.measured().iter().filter(|one| one.probe.load == asked.load).count();
        Some((if before == 0 { name } else { format!("{name} ({})", before + 1) }, load))
    }

    fn judged(&mut self, test: u32, verdicts: &[Verdict]) -> String {
        let Some(asked) = self.asked.take() else { return String::new() };
        let target_iops = self.load(asked.load).ok().and_then(|load| load.target_iops);
        let judged = Probed::judged((asked.load, self.seed), target_iops, verdicts, None);
        let told = format!(
            "{}: {}; tightest limit: {}",
            counted(asked.load, "mailbox"),
            if judged.holds { "no limit is broken" } else { "a limit is BROKEN" },
            judged.tightest().map_or_else(|| "none".to_owned(), Figure::text)
        );
        self.looking.add(Probed { test: Some(test), ..judged });
        told
    }
}

#[cfg(test)]
mod tests {
    use results::{Comparison, Origin, Outcome};
    use testkit::claims::{HONEST, PERFORMANCE};

    use super::*;
    use crate::answer::FoundKind;
    use crate::search::Shape;

    /// Room for some thousand mailboxes by the plan.
    fn honest() -> Solution {
        let changes = [
            ("quota_mb = 512", "quota_mb = 100"),
            ("memory_gib = 32", "memory_gib = 512"),
            ("specint_rate = 300", "specint_rate = 3000"),
        ];
        let text = changes.iter().fold(HONEST.to_owned(), |text, (from, to)| text.replace(from, to));
        Solution::parse(&format!("{text}{PERFORMANCE}"), "s.toml").expect("it is valid")
    }

    /// Verdict on a read latency, against 20 ms.
    fn read(ms: f64) -> Verdict {
        Verdict {
            test: Some(2),
            origin: Origin::database("mbx1", "DB1", "DB1"),
            rule: "read_latency_avg".into(),
            text: "mean read latency".into(),
            measured: Some(ms),
            limit: Some(20.0),
            comparison: Comparison::AtMost,
            unit: "ms".into(),
            outcome: if ms <= 20.0 { Outcome::Pass } else { Outcome::Fail },
        }
    }

    /// Verdict on a paced load: the target is reached, and hardly more.
    fn reached(target: f64) -> Verdict {
        Verdict {
            rule: "achieved_iops".into(),
            text: "I/O per second".into(),
            measured: Some(1.002 * target),
            limit: Some(target),
            comparison: Comparison::AtLeast,
            unit: "1/s".into(),
            ..read(0.0)
        }
    }

    /// Climbs on a storage whose read latency follows from mailboxes and step; at most `steps` steps. Returns names and
    /// targets of the steps with the answer.
    fn climbed(
        solution: &Solution,
        steps: usize,
        read_ms: impl Fn(f64, usize) -> f64,
    ) -> (Vec<(String, f64)>, Option<Capacity>) {
        climbed_by(solution, steps, |mailboxes, step| vec![read(read_ms(mailboxes, step))])
    }

    /// As [`climbed`], with all verdicts but that on the target.
    fn climbed_by(
        solution: &Solution,
        steps: usize,
        judged: impl Fn(f64, usize) -> Vec<Verdict>,
    ) -> (Vec<(String, f64)>, Option<Capacity>) {
        let mut climbing = Climbing::new(solution, Some("mbx1"), 1).expect("it can be planned");
        let mut seen = Vec::new();
        while seen.len() < steps
            && let Some((name, load)) = climbing.next()
        {
            let target = load.target_iops.expect("the load is paced");
            // 0.121 I/O per second of a mailbox.
            let mut verdicts = judged(target / 0.121, seen.len());
            verdicts.push(reached(target));
            climbing.judged(2 + seen.len() as u32, &verdicts);
            seen.push((name, target));
        }
        let incomplete = climbing.next().map(|_| "it was interrupted".to_owned());
        (seen, climbing.answer(incomplete).expect("every load can be prepared"))
    }

    fn measured(answer: &Option<Capacity>) -> &Searched {
        let variant = &answer.as_ref().expect("steps came to their end").variants[0];
        assert_eq!(variant.simulated, None);
        variant.measured.as_ref().expect("steps were measured")
    }

    #[test]
    fn a_climb_finds_cliff_and_slope_also_where_equal_steps_scatter_and_names_the_database() {
        let scatter = |ms: f64, step: usize| ms * [1.0, 1.03, 0.98, 1.01][step % 4];
        let cliff = |mailboxes: f64, _| if mailboxes <= 700.0 { 8.0 } else { 90.0 };
        let slope = |mailboxes: f64, _| 20.0 * mailboxes / 700.0;
        let noisy = |mailboxes: f64, step| scatter(20.0 * (mailboxes / 700.0).powi(3), step);
        let solution = honest();
        for (curve, shape, within) in [
            (&cliff as &dyn Fn(f64, usize) -> f64, Shape::Cliff, 0.03),
            (&slope, Shape::Slope, 0.03),
            (&noisy, Shape::Slope, 0.06),
        ] {
            let (steps, answer) = climbed(&solution, 99, curve);
            let found = measured(&answer);
            let carried = found.mailboxes.expect("a load is carried") as f64;
            assert_eq!((found.found, &found.incomplete), (FoundKind::Carried, &None));
            assert!((1.0 - within..=1.0 + within).contains(&(carried / 700.0)), "{shape:?}: {carried}");
            let binds = found.binds.as_ref().expect("a limit binds");
            assert_eq!((binds.shape, &*binds.place), (Some(shape), "mbx1 DB1 DB1"), "{found:?}");
            assert!(found.next.as_ref().is_some_and(|next| next.mailboxes > Some(700)), "{found:?}");
            let mut names: Vec<&String> = steps.iter().map(|(name, _)| name).collect();
            assert!(steps.len() <= PROBES_MAX, "{steps:?}");
            names.sort();
            names.dedup();
            assert_eq!(names.len(), steps.len(), "each test has a name of its own");
        }
    }

    #[test]
    fn a_worst_sample_that_a_higher_step_keeps_is_named_as_a_doubt() {
        let worst = |mailboxes: f64| if mailboxes < 500.0 { 60_000.0 / mailboxes } else { 30.0 };
        let judged = |mailboxes: f64, _| {
            let worst = Verdict {
                rule: "read_latency_max".into(),
                text: "worst read latency".into(),
                limit: Some(100.0),
                ..read(worst(mailboxes))
            };
            let outcome = if worst.measured <= worst.limit { Outcome::Pass } else { Outcome::Fail };
            vec![read(20.0 * mailboxes / 700.0), Verdict { outcome, ..worst }]
        };
        let (_, answer) = climbed_by(&honest(), 99, judged);
        let found = measured(&answer);
        let carried = found.mailboxes.expect("a load is carried") as f64;
        assert!((0.97..=1.0).contains(&(carried / 700.0)), "{found:?}");
        let doubts: Vec<&String> = found.doubts.iter().filter(|doubt| doubt.contains("light load")).collect();
        assert!(
            !doubts.is_empty() && doubts.iter().all(|doubt| doubt.contains("holds with more")),
            "{found:?}"
        );
    }

    #[test]
    fn a_climb_that_meets_no_limit_or_only_broken_ones_says_so_and_claims_nothing() {
        let solution = honest();
        let (steps, answer) = climbed(&solution, 99, |_, _| 1.0);
        let found = measured(&answer);
        assert_eq!(found.found, FoundKind::CarriedByPlan, "{found:?}");
        assert!(steps.is_sorted_by_key(|(_, target)| *target), "it climbs: {steps:?}");
        let plan = found.binds.as_ref().and_then(|binds| binds.mailboxes);
        assert_eq!(found.mailboxes, plan, "the plan ends the range");
        let next = found.next.as_ref().expect("another limit of the plan");
        assert!(
            next.limit != "I/O per second" && next.mailboxes > plan,
            "a reached target binds nothing: {next:?}"
        );
        let (_, answer) = climbed(&solution, 99, |_, _| 21.0);
        let found = measured(&answer);
        assert_eq!((found.found, found.mailboxes, found.interval), (FoundKind::NoneInRange, None, None));
        assert!(!answer.expect("steps were measured").suffices());
    }

    #[test]
    fn a_climb_that_is_interrupted_gives_its_best_answer_as_incomplete_or_none_without_a_step() {
        let solution = honest();
        let slope = |mailboxes: f64, _| 20.0 * mailboxes / 700.0;
        let (complete, _) = climbed(&solution, 99, slope);
        for steps in 1..complete.len() {
            let (_, answer) = climbed(&solution, steps, slope);
            let found = measured(&answer);
            assert_eq!(found.probes.len(), steps);
            let held = found.probes.iter().filter(|probed| probed.holds).map(|probed| probed.mailboxes).max();
            assert_eq!(found.mailboxes, held, "after {steps} steps");
            let text = answer.expect("there is one").text();
            assert!(text.contains("incomplete, the best answer so far: it was interrupted"), "{text}");
        }
        assert_eq!(climbed(&solution, 0, slope).1, None);
    }

    #[test]
    fn steps_change_the_load_and_leave_the_databases_as_the_file_has_them() {
        let solution = honest();
        let mut climbing = Climbing::new(&solution, Some("mbx1"), 1).expect("it can be planned");
        let made = climbing.deployment().expect("described");
        assert_eq!(made, solution.deployment(Some("mbx1")).expect("described"));
        let (_, low) = climbing.next().expect("a first step");
        let at_first = climbing.looking.scaling.solution(200).expect("half of the mailboxes");
        let half = at_first.deployment(Some("mbx1")).expect("described");
        assert_eq!((half.instances, half.load.target_iops), (made.instances, Some(24.2)));
        assert!(low.target_iops < made.load.target_iops, "the first step is the lower one of the search");
        let text = climbing.answer(None).expect("nothing failed");
        assert_eq!(text, None);
    }
}

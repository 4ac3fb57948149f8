//! A climb on modelled storage: its steps are tests of one run, and it finds what simulations of single loads find.

use campaign::progress::{Progress, Watcher};
use capacity::{Climbing, FoundKind, Searched, Simulating, by_simulation, cases};
use results::{Outcome, Row, Test, Verdict};
use simulation::{Assumptions, on_first_server};
use solution::{Scope, Solution};
use testkit::claims::HONEST;

/// Two disks under about as many mailboxes as they carry, so that the databases of a climb have the size of those that
/// are simulated; a performance test of one minute.
fn small() -> Solution {
    let changes = [
        ("mailboxes = 400", "mailboxes = 3400"),
        ("database_mib = 163840", "database_mib = 13926"),
        ("quota_mb = 512", "quota_mb = 100"),
        ("memory_gib = 32", "memory_gib = 512"),
        ("specint_rate = 300", "specint_rate = 3000"),
        ("scope = \"shared\"", "scope = \"host\""),
    ];
    let text = changes.iter().fold(HONEST.to_owned(), |text, (from, to)| text.replace(from, to));
    let test = "\n[[test]]\nkind = \"performance\"\nduration_s = 60\nwarmup_limit_s = 20\n";
    Solution::parse(&format!("{text}{test}"), "s.toml").expect("it is valid")
}

/// Watcher that asks for the end once this many steps have been judged.
struct Ends(usize);

impl Watcher for Ends {
    fn progress(&mut self, _: &Progress) {}

    fn line(&mut self, text: &str) {
        self.0 -= usize::from(self.0 > 0 && text.contains("tightest limit"));
    }

    fn interrupted(&self) -> bool {
        self.0 == 0
    }
}

/// The shipped values with a small cache in the array: a large one keeps what earlier steps wrote, so that later steps
/// read faster than a simulation, which begins with an empty one.
fn assumptions() -> Assumptions {
    let cache =
        "[write_cache.\"sas-array-2013\"]\nbytes = { value = 67108864, source = \"assumption: 64 MiB\" }\n";
    Assumptions::shipped().with(cache).expect("it is a value of the model")
}

/// Climbs on the model of the first server; returns the rows and the answer.
fn climbed(solution: &Solution, steps: usize) -> (Vec<Row>, Option<Searched>) {
    let mut climbing = Climbing::new(solution, Some("mbx1"), 1).expect("it can be planned");
    let (tests, deployment) = (climbing.tests(2.0), climbing.deployment());
    let (tests, deployment) = (tests.expect("it has a performance test"), deployment.expect("described"));
    let (mut rows, mut watcher) = (Vec::new(), Ends(steps));
    let outcome = on_first_server(solution, &assumptions(), 1, |world, _| {
        campaign::climb(world, &deployment, &tests, 1, (&mut rows, &mut watcher), &mut climbing)
    });
    let why = outcome.expect("the storage can be modelled").error.map(|error| error.to_string());
    let answer = climbing.answer(why).expect("every load could be prepared");
    (rows, answer.and_then(|mut answer| answer.variants.remove(0).measured))
}

#[test]
fn each_step_is_a_test_of_the_run_that_is_judged_as_a_performance_test_and_the_answer_is_that_of_simulations()
{
    let solution = small();
    assert_eq!(solution.array.as_ref().map(|array| array.scope), Some(Scope::Host));
    let (rows, found) = climbed(&solution, usize::MAX);
    let found = found.expect("steps came to their end");
    assert_eq!((found.found, &found.incomplete), (FoundKind::Carried, &None), "{found:?}");
    for probed in &found.probes {
        let mut tests = rows.iter().filter_map(|row| match row {
            Row::Test(test) if Some(test.ordinal) == probed.test && test.ended_ms.is_some() => Some(test),
            _ => None,
        });
        let test: &Test = tests.next().expect("the test is in the evidence");
        assert_eq!((&*test.kind, test.target_iops), ("performance", probed.target_iops));
        let verdicts: Vec<&Verdict> = rows
            .iter()
            .filter_map(|row| match row {
                Row::Verdict(verdict) if verdict.test == probed.test => Some(verdict),
                _ => None,
            })
            .collect();
        let holds = |verdict: &&Verdict| matches!(verdict.outcome, Outcome::Pass | Outcome::Info);
        assert_eq!(verdicts.iter().all(holds), probed.holds, "{probed:?}");
        assert!(verdicts.iter().any(|verdict| verdict.rule == "read_latency_avg"), "{verdicts:?}");
    }
    let assumptions = assumptions();
    let how = Simulating {
        assumptions: &assumptions,
        until_percent: 2.0,
        duration_s: None,
        interrupted: &|| false,
    };
    let cases = cases(solution, &[], &[]).expect("nothing is varied");
    let simulated =
        by_simulation(&cases, how, 1, &mut |_| {}).expect("it can be simulated").expect("it ends");
    let (climbed, simulated) = (found.mailboxes.expect("carried"), simulated[0].carries().expect("carried"));
    let ratio = climbed as f64 / simulated as f64;
    assert!((0.9..1.1).contains(&ratio), "{climbed} by the climb, {simulated} by simulations");
}

#[test]
fn a_climb_that_is_interrupted_in_a_step_keeps_the_steps_before_it_and_ends_in_order() {
    let (rows, found) = climbed(&small(), 2);
    let found = found.expect("two steps came to their end");
    assert_eq!(found.probes.len(), 2, "{found:?}");
    assert!(found.incomplete.is_some(), "{found:?}");
    let open = rows.iter().filter(|row| matches!(row, Row::Test(test) if test.ordinal > 3)).count();
    assert_eq!(open, 0, "no further step was begun");
    assert_eq!(climbed(&small(), 0).1, None);
}

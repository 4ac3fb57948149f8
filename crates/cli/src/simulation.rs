//! A simulation before it begins: which servers take part, in which tests, on what storage, and what goes wrong.

use std::path::Path;
use std::rc::Rc;

use campaign::drill::Site;
use rehearsal::{Assumptions, PlannedFault, Storage};
use solution::{Deployment, LoadMode, Solution, TestKind, TestSpec};

use crate::failure::Failure;
use crate::run_cmd::tests_beside_drills;

/// What the command line asks for.
pub struct Wishes<'a> {
    /// Servers that take part: how many, or their names.
    pub servers: &'a str,
    /// Only these kinds of tests; all when empty.
    pub tests: &'a [TestKind],
    /// Sessions on each server, instead of the load of the solution file.
    pub sessions: Option<u32>,
    /// Length of every test, instead of what the solution file says.
    pub duration_s: Option<f64>,
    /// How well the figures of a load test must be known to end it before its time.
    pub until_percent: Option<f64>,
    /// Where all randomness comes from.
    pub seed: u64,
}

/// What is simulated.
pub struct Planned {
    /// The servers.
    pub deployments: Vec<Deployment>,
    /// Their tests, in which the databases are made; none if only drills were asked for.
    pub tests: Vec<TestSpec>,
    /// The storage of the tests.
    pub storage: Storage,
    /// What goes wrong in them.
    pub faults: Vec<PlannedFault>,
    /// The drills after them.
    pub drills: Vec<ChosenDrill>,
}

impl Planned {
    /// What is simulated of a solution.
    pub fn of(
        solution: &Solution,
        wishes: &Wishes<'_>,
        assumptions: &Assumptions,
    ) -> Result<Planned, Failure> {
        let mut deployments = servers(solution, wishes.servers)?;
        if let Some(sessions) = wishes.sessions {
            deployments.iter_mut().for_each(|one| one.load.mode = LoadMode::Closed { sessions });
        }
        let drills = chosen_drills(solution, &deployments[0].tests, wishes, assumptions)?;
        let tests = tests_beside_drills(!drills.is_empty(), &deployments[0], wishes.tests)?;
        let tests = match tests.as_slice() {
            [] => tests,
            _ => rehearsal::with_databases(&estimated(
                shortened(tests, wishes.duration_s)?,
                wishes.until_percent,
            )?),
        };
        let storage = rehearsal::storage(solution, &deployments, assumptions, wishes.seed)?;
        let faults = rehearsal::planned(solution, &deployments, &storage.parts)?;
        Ok(Planned { deployments, tests, storage, faults, drills })
    }

    /// All tests in their order.
    pub fn all_tests(&self) -> Vec<TestSpec> {
        self.tests.iter().chain(self.drills.iter().map(|drill| &drill.test)).cloned().collect()
    }
}

/// A drill that was asked for, where it takes place, and on what.
pub struct ChosenDrill {
    /// The test.
    pub test: TestSpec,
    /// Where it takes place.
    pub site: Rc<Site>,
    /// What it takes place on.
    pub storage: Storage,
}

fn chosen_drills(
    solution: &Solution,
    tests: &[TestSpec],
    wishes: &Wishes<'_>,
    assumptions: &Assumptions,
) -> Result<Vec<ChosenDrill>, Failure> {
    let are_wanted = wishes.tests.is_empty() || wishes.tests.contains(&TestKind::Drill);
    let mut chosen = Vec::new();
    for test in tests.iter().filter(|_| are_wanted) {
        let Some(drill) = &test.drill else { continue };
        let site = Rc::new(Site::of(solution, test, drill)?);
        let storage = rehearsal::storage(solution, &site.deployments(), assumptions, wishes.seed)?;
        chosen.push(ChosenDrill { test: test.clone(), site, storage });
    }
    Ok(chosen)
}

/// The shipped assumptions, with the values of a file in place of theirs.
pub fn assumptions(file: Option<&Path>) -> Result<Assumptions, Failure> {
    let shipped = Assumptions::shipped();
    let Some(file) = file else { return Ok(shipped) };
    let wrong = || Failure::wrong_input(format!("cannot use the assumptions of {}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong().because(error))?;
    let help =
        "each value is { value = .., source = \"..\" }, in a table like [drive.\"NAME\"]: docs/arrays.md";
    shipped.with(&text).map_err(|error| wrong().because(error).help(help))
}

/// The deployments of the servers asked for: the first `n`, or those named.
fn servers(solution: &Solution, wanted: &str) -> Result<Vec<Deployment>, Failure> {
    let hosts = solution.hosts_under_test();
    let names: Vec<&str> = match wanted.parse::<usize>() {
        Ok(count) if count == 0 || count > hosts.len() => {
            let message = format!("{count} servers cannot take part, {} are under test", hosts.len());
            return Err(Failure::wrong_input(message));
        }
        Ok(count) => hosts[..count].iter().map(|host| host.name.as_str()).collect(),
        Err(_) => wanted.split(',').map(str::trim).collect(),
    };
    // A server that took part twice would have one storage, marked twice, and count double.
    if let Some((_, twice)) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        return Err(Failure::wrong_input(format!("server `{twice}` is named twice")).help("name each once"));
    }
    names.into_iter().map(|name| Ok(solution.deployment(Some(name))?)).collect()
}

/// Every test at the same length. Of tests that read databases to their end, the length is a limit.
fn shortened(tests: Vec<TestSpec>, duration_s: Option<f64>) -> Result<Vec<TestSpec>, Failure> {
    let Some(duration_s) = duration_s else { return Ok(tests) };
    if !(1.0..=366.0 * 86_400.0).contains(&duration_s) {
        let message = format!("a test cannot last {duration_s} s");
        return Err(Failure::wrong_input(message).help("from 1 to 31622400"));
    }
    let reads = |kind| matches!(kind, TestKind::DatabaseChecksum | TestKind::Backup);
    let shorten =
        |test: TestSpec| TestSpec { duration_s, limit_s: reads(test.kind).then_some(duration_s), ..test };
    Ok(tests.into_iter().map(shorten).collect())
}

/// Load tests that end once their figures are known to so many per cent.
fn estimated(tests: Vec<TestSpec>, until_percent: Option<f64>) -> Result<Vec<TestSpec>, Failure> {
    if let Some(percent) = until_percent.filter(|percent| !(0.1..=50.0).contains(percent)) {
        return Err(
            Failure::wrong_input(format!("figures cannot be estimated to {percent} %")).help("0.1 to 50")
        );
    }
    Ok(tests.into_iter().map(|test| TestSpec { until_percent, ..test }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_HOSTS: &str = r#"
[solution]
name = "Two"
schema = 1

[[host]]
name = "a{n}"
count = 2

[[volume]]
name = "V"
path = "/v"

[[instance]]
name = "DB"
volume = "V"

[sizing]
database_mib = 64

[[test]]
kind = "performance"

[[test]]
kind = "backup"
"#;

    #[test]
    fn servers_are_chosen_by_number_or_by_name() {
        let solution = Solution::parse(TWO_HOSTS, "two.toml").expect("it is valid");
        let names = |wanted: &str| -> Option<Vec<String>> {
            let chosen = servers(&solution, wanted).ok()?;
            Some(chosen.into_iter().map(|deployment| deployment.host).collect())
        };
        assert_eq!(names("1"), Some(vec!["a1".to_owned()]));
        assert_eq!(names("a2, a1"), Some(vec!["a2".to_owned(), "a1".to_owned()]));
        assert_eq!((names("3"), names("0"), names("a9")), (None, None, None));
        assert_eq!(names("a1, a2, a1"), None, "one server does not take part twice");
    }

    #[test]
    fn a_duration_is_the_length_of_a_load_and_the_limit_of_a_reading() {
        let solution = Solution::parse(TWO_HOSTS, "two.toml").expect("it is valid");
        let tests = servers(&solution, "1").expect("a1 exists").remove(0).tests;
        let short = shortened(tests.clone(), Some(600.0)).expect("ten minutes are possible");
        let lengths: Vec<_> = short.iter().map(|test| (test.duration_s, test.limit_s)).collect();
        assert_eq!(lengths, [(600.0, None), (600.0, Some(600.0))]);
        assert_eq!(shortened(tests.clone(), None).expect("nothing was asked"), tests);
        assert!(shortened(tests, Some(0.0)).is_err());
    }
}

//! Which tests a run on many hosts carries out.

use campaign::drill::PlannedDrill;
use solution::{Solution, TestKind, TestSpec};

use crate::failure::Failure;
use crate::run_cmd::{test_kind, tests_beside_drills};

/// What a run on many hosts carries out.
pub struct FleetTests {
    /// The tests of each host.
    pub tests: Vec<TestSpec>,
    /// What all hosts do together at the end.
    pub drill: Option<PlannedDrill>,
}

impl FleetTests {
    /// The tests of these kinds, or all.
    pub fn chosen(solution: &Solution, kinds: &[TestKind]) -> Result<FleetTests, Failure> {
        let hosts = solution.hosts_under_test();
        let deployment = solution.deployment(hosts.first().map(|host| host.name.as_str()))?;
        let is_wanted = kinds.is_empty() || kinds.contains(&TestKind::Drill);
        let mut drills: Vec<&TestSpec> =
            deployment.tests.iter().filter(|test| test.drill.is_some()).collect();
        drills.retain(|_| is_wanted);
        let tests = tests_beside_drills(!drills.is_empty(), &deployment, kinds)?;
        let [test] = drills[..] else {
            if drills.is_empty() {
                return Ok(FleetTests { tests, drill: None });
            }
            return Err(Failure::wrong_input(format!("the solution file has {} drills", drills.len()))
                .help("real hosts perform one in a run: leave one in, or say --tests without drill"));
        };
        let Some(drill) = test.drill.clone() else { return Ok(FleetTests { tests, drill: None }) };
        let ordinal = tests.len() as u32 + 1;
        let titles = campaign::titles(&[&tests[..], std::slice::from_ref(test)].concat());
        let name = titles.last().map_or("", String::as_str);
        let planned = PlannedDrill::of(solution, test, &drill, ordinal, name)?;
        for host in &planned.site.hosts {
            if !hosts.iter().any(|under_test| under_test.name == host.name) {
                let message = format!("host {} has copies and is not under test", host.name);
                return Err(Failure::wrong_input(message)
                    .help("a drill takes place on every host: leave [under_test] hosts out"));
            }
            if host.copy_address.is_none() {
                let message = format!("nobody can reach the copies of host {}", host.name);
                return Err(
                    Failure::wrong_input(message).help("add copy_address = \"ADDRESS:PORT\" to its [[host]]")
                );
            }
        }
        Ok(FleetTests { tests, drill: Some(planned) })
    }

    /// All tests in their order.
    pub fn all(&self) -> Vec<TestSpec> {
        self.tests.iter().chain(self.drill.as_ref().map(|drill| &drill.test)).cloned().collect()
    }
}

/// The kinds of tests that an assignment or a plan names.
pub fn kinds(names: &[String]) -> Result<Vec<TestKind>, Failure> {
    names.iter().map(|kind| test_kind(kind).map_err(Failure::wrong_input)).collect()
}

/// The drill of a solution file whose tests of these kinds are carried out, if it has one.
pub fn drill_of(solution: &str, tests: &[String]) -> Result<Option<PlannedDrill>, Failure> {
    let solution = Solution::parse(solution, "the solution file of the run")?;
    Ok(FleetTests::chosen(&solution, &kinds(tests)?)?.drill)
}

/// The number of a host in a drill.
pub fn number_of(planned: &PlannedDrill, host: &str) -> Result<usize, Failure> {
    fleet::drill::number_of(&planned.site, host)
        .ok_or_else(|| Failure::wrong_input(format!("host {host} has no part in the drill")))
}

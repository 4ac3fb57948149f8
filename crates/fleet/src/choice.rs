//! Which tests a run on many hosts carries out.

use campaign::choice::{ChoiceError, tests_beside_drills};
use campaign::drill::PlannedDrill;
use runner::HostNeeds;
use solution::{Solution, SolutionError, TestKind, TestSpec};

/// Reason why a run on many hosts cannot be carried out as asked for.
#[derive(Debug, thiserror::Error)]
pub enum FleetTestsError {
    /// The solution file lacks something.
    #[error("{}", .0.message)]
    Solution(#[from] Box<SolutionError>),
    /// The solution has no test of the chosen kinds.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// This program does not know the kind of test.
    #[error("no kind of test is called `{0}`")]
    UnknownKind(String),
    /// The run has more than one drill.
    #[error("the solution file has {0} drills")]
    SeveralDrills(usize),
    /// A drill needs a host that takes no part in the run.
    #[error("host {0} has copies and is not under test")]
    NotUnderTest(String),
    /// A host of a drill has no `copy_address`.
    #[error("no other host can reach the copies of host {0}")]
    NoAddress(String),
    /// A host of the run takes no part in its drill.
    #[error("host {0} has no part in the drill")]
    NoPart(String),
}

impl FleetTestsError {
    /// Remedy for the reason.
    pub fn help(&self) -> Option<&str> {
        match self {
            FleetTestsError::Solution(error) => error.help.as_deref(),
            FleetTestsError::Choice(error) => Some(error.help()),
            FleetTestsError::SeveralDrills(_) => {
                Some("real hosts perform one in a run: leave one in, or say --tests without drill")
            }
            FleetTestsError::NotUnderTest(_) => {
                Some("a drill takes place on every host: leave [under_test] hosts out")
            }
            FleetTestsError::NoAddress(_) => Some("add copy_address = \"ADDRESS:PORT\" to its [[host]]"),
            FleetTestsError::UnknownKind(_) | FleetTestsError::NoPart(_) => None,
        }
    }
}

/// Tests and drill of a run on many hosts.
pub struct FleetTests {
    /// Tests of each host.
    pub tests: Vec<TestSpec>,
    /// Drill that all hosts perform together at the end.
    pub drill: Option<PlannedDrill>,
}

impl FleetTests {
    /// Tests of these kinds, or all tests.
    ///
    /// # Errors
    /// The solution has no such tests, or its drill cannot take place on real hosts.
    pub fn chosen(solution: &Solution, kinds: &[TestKind]) -> Result<FleetTests, FleetTestsError> {
        let hosts = solution.hosts_under_test();
        let deployment = solution.deployment(hosts.first().map(|host| host.name.as_str()))?;
        let is_wanted = kinds.is_empty() || kinds.contains(&TestKind::Drill);
        let mut drills: Vec<&TestSpec> =
            deployment.tests.iter().filter(|test| test.drill.is_some()).collect();
        drills.retain(|_| is_wanted);
        let tests = tests_beside_drills(!drills.is_empty(), &deployment, kinds)?;
        let test = match drills[..] {
            [] => return Ok(FleetTests { tests, drill: None }),
            [test] => test,
            _ => return Err(FleetTestsError::SeveralDrills(drills.len())),
        };
        let Some(drill) = test.drill.clone() else { return Ok(FleetTests { tests, drill: None }) };
        let ordinal = tests.len() as u32 + 1;
        let titles = campaign::titles(&[&tests[..], std::slice::from_ref(test)].concat());
        let name = titles.last().map_or("", String::as_str);
        let planned = PlannedDrill::of(solution, test, &drill, ordinal, name)?;
        for host in &planned.topology.hosts {
            if !hosts.iter().any(|under_test| under_test.name == host.name) {
                return Err(FleetTestsError::NotUnderTest(host.name.clone()));
            }
            if host.copy_address.is_none() {
                return Err(FleetTestsError::NoAddress(host.name.clone()));
            }
        }
        Ok(FleetTests { tests, drill: Some(planned) })
    }

    /// All tests, drill included, in order.
    pub fn all(&self) -> Vec<TestSpec> {
        self.tests.iter().chain(self.drill.as_ref().map(|drill| &drill.test)).cloned().collect()
    }

    /// Needs of each host if no file of the run exists yet.
    ///
    /// # Errors
    /// The solution does not describe a host, or it has no part in the drill.
    pub fn needs(&self, solution: &Solution, hosts: &[String]) -> Result<Vec<HostNeeds>, FleetTestsError> {
        let of_host = |host: &String| {
            let deployment = solution.deployment(Some(host))?;
            let mut parts = vec![(&deployment, self.tests.as_slice())];
            let of_drill = |drill: &PlannedDrill| -> Result<_, FleetTestsError> {
                Ok(drill.topology.holdings(number_of(drill, host)?))
            };
            let holdings = self.drill.as_ref().map(of_drill).transpose()?;
            parts.extend(holdings.iter().map(|holdings| (holdings, &[][..])));
            Ok(HostNeeds::of(&parts, false))
        };
        hosts.iter().map(of_host).collect()
    }
}

/// Kinds of tests that an assignment or a plan names.
///
/// # Errors
/// A name that this program does not know.
pub fn kinds(names: &[String]) -> Result<Vec<TestKind>, FleetTestsError> {
    let kind = |name: &String| TestKind::of_name(name).ok_or(FleetTestsError::UnknownKind(name.clone()));
    names.iter().map(kind).collect()
}

/// Drill of a solution file among the tests of these kinds, if there is one.
///
/// # Errors
/// The file or the tests are not what a run on many hosts can carry out.
pub fn drill_of(solution: &str, tests: &[String]) -> Result<Option<PlannedDrill>, FleetTestsError> {
    let solution = Solution::parse(solution, "the solution file of the run")?;
    Ok(FleetTests::chosen(&solution, &kinds(tests)?)?.drill)
}

/// Number of a host in a drill.
///
/// # Errors
/// It has no part in it.
pub fn number_of(planned: &PlannedDrill, host: &str) -> Result<usize, FleetTestsError> {
    crate::drill::number_of(&planned.topology, host).ok_or_else(|| FleetTestsError::NoPart(host.to_owned()))
}

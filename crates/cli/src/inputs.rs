//! What commands read: solution files, values for the models, evidence.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use review::{Source, SourceError};
use simulation::Assumptions;
use solution::{Setting, Solution, SolutionError, TestKind, VARIABLE_PREFIX};

use crate::failure::Failure;

/// The text of a file that the command line names.
pub fn text(path: &Path) -> Result<String, Failure> {
    detail!("reads {}", path.display());
    std::fs::read_to_string(path)
        .map_err(|error| Failure::wrong_input(format!("cannot read {}", path.display())).because(error))
}

/// A solution file, and the values that take the place of its own.
#[derive(clap::Args)]
pub struct SolutionArguments {
    /// The solution file.
    #[arg(value_name = "SOLUTION.toml")]
    pub file: PathBuf,
    /// Use this value in place of the file's: load.sessions=8, test.performance.duration_s=60. Can be repeated.
    /// The variable PROOFLOAD_SET_LOAD__SESSIONS does the same; --set comes after variables.
    #[arg(long, value_name = "KEY=VALUE", value_parser = Setting::of_argument)]
    set: Vec<Setting>,
}

impl SolutionArguments {
    /// Reads the solution file with the settings of command line and environment.
    pub fn read(&self) -> Result<Solution, Failure> {
        let solution = self.parse(&text(&self.file)?)?;
        solution.settings().for_each(|setting| detail!("setting in force: {}", setting.text()));
        Ok(solution)
    }

    /// As [`Self::read`]; a solution without instances gets those of its plan.
    pub fn read_to_run(&self) -> Result<Solution, Failure> {
        Ok(plan::to_run(self.read()?)?)
    }

    /// A solution file without settings of the command line.
    pub fn of_file(file: PathBuf) -> SolutionArguments {
        SolutionArguments { file, set: Vec::new() }
    }

    /// Parses this text of a solution file, with the settings.
    pub fn parse(&self, text: &str) -> Result<Solution, Box<SolutionError>> {
        let mut variables: Vec<(String, String)> = std::env::vars_os()
            .map(|(name, value)| [name, value].map(|text| text.to_string_lossy().into_owned()).into())
            .filter(|(name, _): &(String, String)| name.starts_with(VARIABLE_PREFIX))
            .collect();
        variables.sort();
        let of_variables = variables.iter().filter_map(|(name, value)| Setting::of_variable(name, value));
        let settings: Vec<Setting> = of_variables.chain(self.set.iter().cloned()).collect();
        Solution::parse_with(text, &self.file.display().to_string(), &settings)
    }
}

/// A kind of tests on the command line.
pub fn test_kind() -> impl TypedValueParser<Value = TestKind> {
    let known = PossibleValuesParser::new(TestKind::ALL.map(TestKind::name));
    known.try_map(|name| TestKind::of_name(&name).ok_or("it has no kind"))
}

/// The shipped assumptions, with the values of a file in place of theirs.
pub fn assumptions(file: Option<&Path>) -> Result<Assumptions, Failure> {
    let shipped = Assumptions::shipped();
    let Some(file) = file else { return Ok(shipped) };
    detail!("reads {}", file.display());
    let wrong = || Failure::wrong_input(format!("cannot use the assumptions of {}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong().because(error))?;
    let help =
        "each value is { value = .., source = \"..\" }, in a table like [drive.\"NAME\"]: docs/arrays.md";
    shipped.with(&text).map_err(|error| wrong().because(error).help(help))
}

/// Opens evidence. A path that does not exist or is no evidence counts as wrong input.
pub fn evidence(path: &Path) -> Result<Source, Failure> {
    detail!("reads {}", path.display());
    review::open(path).map_err(|error| {
        let help = match &error {
            SourceError::Unknown(_) => "foreign reports: first `proofload import FILE --out RUN`",
            SourceError::Damaged { .. } => "name the file as it was written, or the folder of a run",
            _ => "name a run folder, a run.db, a report.json or published figures (.toml)",
        };
        Failure::wrong_input("cannot read the evidence").because(error).help(help)
    })
}

/// The points of a `probe.csv` or of a result of fio.
pub fn points(path: &Path) -> Result<Vec<probe::Row>, Failure> {
    probe::read(&text(path)?).map_err(|error| {
        let message = format!("cannot use the points of {}", path.display());
        Failure::wrong_input(message).because(&error).help(error.remedy)
    })
}

/// The points of several files.
pub fn all_points(paths: &[PathBuf]) -> Result<Vec<probe::Row>, Failure> {
    let mut all = Vec::new();
    for path in paths {
        all.extend(points(path)?);
    }
    Ok(all)
}

/// The `run.db` of a run folder.
pub fn run_db(run: &Path) -> Result<PathBuf, Failure> {
    let path = run.join("run.db");
    if path.is_file() {
        detail!("reads {}", path.display());
        return Ok(path);
    }
    let message = format!("{} holds no run.db", run.display());
    Err(Failure::wrong_input(message).help("name a folder that `proofload run` made"))
}

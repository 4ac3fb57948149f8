//! `proofload simulate`: the tests of a solution on a model of its storage, in virtual time.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use campaign::CampaignOutcome;
use campaign::drill::{PlannedDrill, Site};
use campaign::progress::{Progress, Watcher};
use evidence::RunStore;
use rehearsal::{Assumptions, DrillPlan, Rehearsal, Rehearsed, Storage};
use results::{Host, Recorder, Run, WorldKind};
use solution::{Deployment, LoadMode, Solution, TestKind, TestSpec};

use crate::failure::{Failure, Status};
use crate::run_cmd;
use crate::sign::SignArguments;
use crate::watch::TerminalWatcher;

/// Runs the tests of a solution on a model of its storage, in virtual time: what the hardware would show.
#[derive(clap::Args)]
pub struct SimulateArguments {
    /// The solution file.
    #[arg(value_name = "SOLUTION.toml")]
    solution: PathBuf,
    /// Servers under test that take part: how many, or their names.
    #[arg(long, value_name = "N|NAME,..", default_value = "1")]
    servers: String,
    /// Only these kinds of tests, in the order of the solution file.
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = run_cmd::test_kind)]
    tests: Vec<TestKind>,
    /// Sessions on each server, instead of the load of the solution file.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    sessions: Option<u32>,
    /// Length of every test in virtual seconds, instead of what the solution file says.
    #[arg(long, value_name = "SECONDS")]
    duration: Option<f64>,
    /// Values for the models in place of the shipped ones, and parts of your own; the form of assumptions.toml.
    #[arg(long, value_name = "FILE")]
    assumptions: Option<PathBuf>,
    /// What the run has to prove for exit status 0.
    #[arg(long, value_name = "GRADE", value_enum, default_value_t)]
    require: run_cmd::Require,
    /// Folder of the run folders.
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    runs: PathBuf,
    /// Where all randomness comes from; equal seeds give equal results.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    sign: SignArguments,
}

/// Runs the command.
pub fn run(arguments: &SimulateArguments) -> Result<Status, Failure> {
    let solution = run_cmd::read_solution(&arguments.solution)?;
    let key = arguments.sign.key()?;
    let mut deployments = servers(&solution, &arguments.servers)?;
    if let Some(sessions) = arguments.sessions {
        deployments.iter_mut().for_each(|deployment| deployment.load.mode = LoadMode::Closed { sessions });
    }
    let assumptions = assumptions(arguments.assumptions.as_deref())?;
    let drills = chosen_drills(&solution, &deployments[0], &arguments.tests, &assumptions, arguments.seed)?;
    let tests = run_cmd::tests_beside_drills(!drills.is_empty(), &deployments[0], &arguments.tests)?;
    let tests = match tests.as_slice() {
        [] => tests,
        _ => rehearsal::with_databases(&shortened(tests, arguments.duration)?),
    };
    let storage = rehearsal::storage(&solution, &deployments, &assumptions, arguments.seed)?;
    let faults = rehearsal::planned(&solution, &deployments, &storage.parts)?;
    let folder = run_cmd::new_run_folder(&arguments.runs, &format!("{}-simulated", solution.name))?;
    let started = Instant::now();
    let interrupts = Arc::new(AtomicU32::new(0));
    crate::signals::count_interrupts(&interrupts)?;
    let mut watcher = VirtualTime { watcher: TerminalWatcher::new(interrupts), test: None };
    let mut store = RunStore::create_signed(&folder.join("run.db"), key)
        .map_err(|error| Failure::could_not_run("the evidence cannot be kept").because(error))?;
    let mut row = Run {
        world_detail: match &arguments.assumptions {
            None => "simulated storage in virtual time".into(),
            Some(file) => format!("simulated storage in virtual time, with the values of {}", file.display()),
        },
        ..run_cmd::run_row(&folder, &solution, arguments.seed, WorldKind::Simulated)
    };
    let kept =
        |error: results::RecordError| Failure::could_not_run("the evidence cannot be kept").because(error);
    store.record(row.clone().into()).map_err(kept)?;
    crate::rules::rows(&solution).into_iter().try_for_each(|rule| store.record(rule)).map_err(kept)?;
    for deployment in &deployments {
        let description = storage.description.clone();
        store.record(Host { name: deployment.host.clone(), description }.into()).map_err(kept)?;
    }
    let known: Vec<&str> = deployments.iter().map(|deployment| deployment.host.as_str()).collect();
    let hosts = drills.iter().flat_map(|drill| &drill.site.hosts).map(|host| host.name.as_str());
    let further: BTreeSet<&str> = hosts.filter(|name| !known.contains(name)).collect();
    for name in further {
        let host = Host { name: name.to_owned(), description: storage.description.clone() };
        store.record(host.into()).map_err(kept)?;
    }
    let all: Vec<TestSpec> = tests.iter().chain(drills.iter().map(|drill| &drill.test)).cloned().collect();
    let titles = campaign::titles(&all);
    let (mut outcome, mut traces) = (CampaignOutcome { verdicts: Vec::new(), error: None }, Vec::new());
    let mut elapsed = Duration::ZERO;
    let mut ordinal = tests.len() as u32;
    if !tests.is_empty() {
        let plan = Rehearsal {
            deployments,
            tests,
            seed: arguments.seed,
            storage: storage.model,
            modelled: storage.modelled,
            faults,
        };
        let rehearsed = rehearsal::rehearse(plan, &mut store, &mut watcher);
        watcher.watcher.close_line();
        elapsed += rehearsed.elapsed;
        traces.push(format!("{:016x}", rehearsed.trace_hash));
        outcome = rehearsed.outcome;
    }
    for ChosenDrill { test, site, storage } in drills {
        if outcome.error.is_some() {
            break;
        }
        let Some(drill) = test.drill.clone() else { continue };
        ordinal += 1;
        let name = titles[ordinal as usize - 1].clone();
        let (begins_ms, seed) = (elapsed.as_millis() as u64, arguments.seed);
        watcher.line(&format!("{name}: {} databases on {} hosts", site.databases.len(), site.hosts.len()));
        let planned = PlannedDrill { site, test, drill, ordinal, name };
        let plan = DrillPlan { planned, begins_ms, seed, storage: storage.model };
        let Rehearsed { outcome: played, trace_hash, elapsed: length } =
            rehearsal::drill(plan, &mut store, &mut |text| watcher.line(text)).rehearsed;
        elapsed += length;
        traces.push(format!("{trace_hash:016x}"));
        outcome.verdicts.extend(played.verdicts);
        outcome.error = played.error;
    }
    row.ended_ms = Some(elapsed.as_millis() as u64);
    row.ending = Some(run_cmd::ending(&outcome));
    store.record(row.into()).map_err(kept)?;
    store.close().map_err(|error| Failure::could_not_run("the evidence cannot be kept").because(error))?;
    say!(
        "{} of virtual time in {:.1} s; trace {}",
        crate::watch::short_duration(elapsed),
        started.elapsed().as_secs_f64(),
        traces.join(" ")
    );
    run_cmd::tell(&outcome, &titles, &folder, started.elapsed(), arguments.require)
}

/// A drill that was asked for, where it takes place, and on what.
struct ChosenDrill {
    test: TestSpec,
    site: Rc<Site>,
    storage: Storage,
}

fn chosen_drills(
    solution: &Solution,
    deployment: &Deployment,
    kinds: &[TestKind],
    assumptions: &Assumptions,
    seed: u64,
) -> Result<Vec<ChosenDrill>, Failure> {
    let mut chosen = Vec::new();
    for test in &deployment.tests {
        let Some(drill) = &test.drill else { continue };
        if kinds.is_empty() || kinds.contains(&TestKind::Drill) {
            let site = Rc::new(Site::of(solution, test, drill)?);
            let storage = rehearsal::storage(solution, &site.deployments(), assumptions, seed)?;
            chosen.push(ChosenDrill { test: test.clone(), site, storage });
        }
    }
    Ok(chosen)
}

/// The shipped assumptions, with the values of a file in place of theirs.
fn assumptions(file: Option<&Path>) -> Result<Assumptions, Failure> {
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

/// Shows the time left by the clock on the wall: virtual time runs faster.
struct VirtualTime {
    watcher: TerminalWatcher,
    /// The phase under way: since when, and the virtual time that was left then.
    test: Option<(String, Instant, Duration)>,
}

impl Watcher for VirtualTime {
    fn progress(&mut self, progress: &Progress) {
        let mut shown = progress.clone();
        shown.left = progress.left.and_then(|left| self.wall_time(&progress.phase, left));
        self.watcher.progress(&shown);
    }

    fn line(&mut self, text: &str) {
        self.watcher.line(text);
    }

    fn interrupted(&self) -> bool {
        self.watcher.interrupted()
    }
}

impl VirtualTime {
    fn wall_time(&mut self, phase: &str, left: Duration) -> Option<Duration> {
        match &self.test {
            Some((known, since, then)) if known == phase && *then > left => {
                let passed = (*then - left).as_secs_f64();
                Some(since.elapsed().mul_f64(left.as_secs_f64() / passed))
            }
            Some((known, ..)) if known == phase => None,
            _ => {
                self.test = Some((phase.to_owned(), Instant::now(), left));
                None
            }
        }
    }
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

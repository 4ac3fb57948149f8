//! `proofload import`: reports and configurations of others into a run folder.

use std::path::{Path, PathBuf};

use evidence::report::counted;
use evidence::{RunStore, folder};
use results::Recorder;
use review::import::counters::{self, Profile};
use review::import::{About, Foreign, gather, group, parse, rows};
use review::{Evidence, Source, answers};

use crate::failure::{Failure, Status};
use crate::inputs;
use crate::output::printable;
use crate::stdout::{json, write_file};

/// Name of the file with the profile of users that performance counters give.
const PROFILE: &str = "profile.toml";

/// Imports Jetstress reports, papers, results of fio, counters, files of the calculator.
///
/// Reports are HTML, papers are text or published figures (.toml). A configuration is XML and becomes a solution file.
/// Performance counters are CSV (`relog -f csv`, `typeperf`) and become the profile of a solution file.
/// A folder holds the CSV files of a group that the role requirements calculator exports; they become a solution file.
#[derive(clap::Args)]
pub struct ImportArguments {
    /// Files to import. Reports of several servers and tests make one run.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Folder to make: run.db with its reports, evidence.toml with the figures as printed, solution.toml.
    #[arg(long, value_name = "RUN")]
    out: PathBuf,
    /// Active mailboxes of the databases in performance counters.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    mailboxes: Option<u64>,
    /// Title of the solution; otherwise that of the published figures, or the name of the first file.
    #[arg(long)]
    title: Option<String>,
    /// Print what was made as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &ImportArguments) -> Result<Status, Failure> {
    if arguments.out.exists() {
        let message = format!("{} exists already", arguments.out.display());
        return Err(Failure::wrong_input(message).help("name a folder that does not exist yet"));
    }
    let (mut tests, mut solution, mut printed) = (Vec::new(), String::new(), None::<Evidence>);
    let mut logs = Vec::new();
    for file in &arguments.files {
        if file.extension().is_some_and(|extension| extension == "toml") {
            match inputs::evidence(file)? {
                Source::Printed(evidence) if printed.is_none() => printed = Some(*evidence),
                _ => return Err(Failure::wrong_input("published figures of one solution make one run")),
            }
            continue;
        }
        match read(file)? {
            Foreign::Reports(found) => tests.extend(found),
            Foreign::Counters(bytes) => logs.push((file.display().to_string(), bytes)),
            Foreign::Solution(text) if solution.is_empty() => solution = text,
            Foreign::Solution(_) => {
                let message = format!("{} is a second configuration; a run has one", file.display());
                return Err(Failure::wrong_input(message).help("import the runs one by one"));
            }
        }
    }
    let users = profile(&logs, arguments.mailboxes)?;
    let first =
        arguments.files.first().and_then(|file| file.file_stem()).unwrap_or_default().to_string_lossy();
    let published = printed.as_ref().map(|evidence| evidence.solution.title.clone());
    let title = arguments.title.clone().or(published).unwrap_or_else(|| first.into_owned());
    let evidence = match printed {
        Some(mut evidence) => {
            evidence.solution.title.clone_from(&title);
            evidence.test.extend(tests);
            Some(evidence)
        }
        None if tests.is_empty() => None,
        None => Some(gather(&title, tests)),
    };
    let files =
        ["solution.toml", PROFILE, review::PRINTED, "run.db", "report.html", "report.json", "junit.xml"];
    let _claim = folder::take(&arguments.out, &title, &files.map(str::to_owned))
        .map_err(|error| Failure::could_not_run("cannot make the folder").because(error))?;
    if !solution.is_empty() {
        write_file(&arguments.out.join("solution.toml"), &solution)?;
    }
    if let Some(users) = users {
        write_file(&arguments.out.join(PROFILE), &users.text)?;
        users.warnings.iter().for_each(|warning| say!("note: {}", printable(warning)));
    }
    let tests = evidence.as_ref().map_or(0, |evidence| evidence.test.len() as u64);
    if let Some(evidence) = evidence {
        record(&evidence, &solution, arguments)?;
    }
    if arguments.json {
        json(&answers::Imported {
            schema_version: 1,
            tests,
            made: answers::Made::of(&arguments.out, &files),
        })?;
    }
    Ok(Status::Pass)
}

fn read(file: &Path) -> Result<Foreign, Failure> {
    let name = file.display();
    detail!("reads {name}");
    if file.is_dir() {
        return read_group(file).map(Foreign::Solution);
    }
    let bytes = std::fs::read(file)
        .map_err(|error| Failure::wrong_input(format!("cannot read {name}")).because(error))?;
    parse(&bytes).map_err(|error| {
        Failure::wrong_input(format!("cannot import {name}"))
            .because(error)
            .help("it takes HTML reports and XML configurations of Jetstress, papers as plain text, and counters as CSV")
    })
}

/// Makes the profile of users from performance-counter logs.
fn profile(logs: &[(String, Vec<u8>)], mailboxes: Option<u64>) -> Result<Option<Profile>, Failure> {
    if logs.is_empty() {
        return Ok(None);
    }
    counters::profile(logs, mailboxes).map(Some).map_err(|error| {
        Failure::wrong_input("cannot make a profile of the counters")
            .because(format!("\n{error}"))
            .help("docs/howto/counters.md has the command that collects them")
    })
}

/// Makes the solution file of the group (DAG) whose calculator files are in a folder.
fn read_group(folder: &Path) -> Result<String, Failure> {
    let shown = folder.display();
    let failed = |error| Failure::wrong_input(format!("cannot read {shown}")).because(error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if group::names().any(|known| known.eq_ignore_ascii_case(&name)) {
            files.push((name, std::fs::read(&path).map_err(failed)?));
        }
    }
    group::group(&files).map_err(|error| {
        let names: Vec<&str> = group::names().collect();
        Failure::wrong_input(format!("cannot import the group in {shown}"))
            .because(format!("\n{error}"))
            .help(format!("it takes {} of one group, as the calculator exports them", names.join(", ")))
    })
}

fn record(evidence: &Evidence, solution: &str, arguments: &ImportArguments) -> Result<(), Failure> {
    let names: Vec<String> = arguments
        .files
        .iter()
        .filter_map(|file| Some(file.file_name()?.to_string_lossy().into_owned()))
        .collect();
    let id = arguments.out.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let about = About { id, source: names.join(", "), solution_text: solution.to_owned() };
    let failed =
        |error: &dyn std::fmt::Display| Failure::could_not_run("cannot write the run").because(error);
    let mut store = RunStore::create(&arguments.out.join("run.db")).map_err(|error| failed(&error))?;
    for row in rows(evidence, &about) {
        store.record(row).map_err(|error| failed(&error))?;
    }
    store.close().map_err(|error| failed(&error))?;
    let text = evidence.to_toml().map_err(|error| failed(&error))?;
    write_file(&arguments.out.join(review::PRINTED), &text)?;
    crate::reports::render(&arguments.out)?;
    say!("imported {} into {}", counted(evidence.test.len() as u64, "test"), arguments.out.display());
    Ok(())
}

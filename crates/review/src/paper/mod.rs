//! The solution paper: what a programme of reviewed storage solutions publishes, from a solution file and its runs.
//!
//! Invariants
//! 1. Every figure comes from the solution file, its plan, or a run; what only an author can say is marked as such.
//! 2. A simulated run is never called tested: without leave to say "simulated" there is no paper, with it the
//!    paper says so in its title, in every result and in its conclusion.
//! 3. Text from outside never becomes markup.

mod deployment;
mod document;
mod parts;
mod picture;
mod results;

use ::results::WorldKind;
use evidence::Report;
use evidence::environment::storage_model;
use evidence::report::{counted, number};
use plan::Plan;
use solution::Solution;

pub use document::{AUTHOR, Block, Document, Section};
pub use results::file_name;

/// Why no paper was written.
#[derive(Debug, thiserror::Error)]
pub enum PaperError {
    /// A run was simulated, and `--simulated` was not given.
    #[error("run {0} was simulated: it predicts and proves nothing, so no paper may call it tested")]
    Simulated(String),
    /// Simulated and measured runs were given together.
    #[error(
        "run {simulated} was simulated and run {measured} was measured: a paper is about one or the other"
    )]
    Mixed {
        /// One of the simulated runs.
        simulated: String,
        /// One of the measured runs.
        measured: String,
    },
    /// A run is one of another solution.
    #[error("run {run} is of solution `{found}`, the solution file describes `{wanted}`")]
    OtherSolution {
        /// The run.
        run: String,
        /// The solution of the run.
        found: String,
        /// The solution of the paper.
        wanted: String,
    },
    /// The rows of a run contradict its seals.
    #[error("run {run} was changed after it was recorded: {misfit}")]
    Changed {
        /// The run.
        run: String,
        /// The first contradiction.
        misfit: String,
    },
    /// No run was given.
    #[error("no run is given")]
    NoRun,
}

/// The solution and the runs that a paper is made of.
pub struct Subject<'a> {
    solution: &'a Solution,
    plan: &'a Plan,
    runs: &'a [Report],
    simulated: bool,
}

impl Subject<'_> {
    /// The word for how the runs were made: "tested" or "simulated".
    fn done(&self) -> &'static str {
        if self.simulated { "simulated" } else { "tested" }
    }

    /// "Tested" for titles, or that the runs are simulated.
    fn title(&self, tested: &str) -> String {
        if self.simulated { format!("{tested} (simulated, predicted by a model)") } else { tested.to_owned() }
    }
}

/// Makes the paper. `may_say_simulated` allows simulated runs, which the paper then calls so everywhere.
pub fn paper(
    solution: &Solution,
    plan: &Plan,
    runs: &[Report],
    may_say_simulated: bool,
) -> Result<Document, PaperError> {
    let is_simulated = |report: &&Report| report.run.world == WorldKind::Simulated;
    let simulated = runs.iter().find(is_simulated);
    let measured = runs.iter().find(|report| !is_simulated(report));
    match (simulated, measured) {
        (None, None) => return Err(PaperError::NoRun),
        (Some(simulated), Some(measured)) => {
            let (simulated, measured) = (simulated.run.id.clone(), measured.run.id.clone());
            return Err(PaperError::Mixed { simulated, measured });
        }
        (Some(run), None) if !may_say_simulated => return Err(PaperError::Simulated(run.run.id.clone())),
        _ => {}
    }
    if let Some((run, misfit)) =
        runs.iter().find_map(|report| Some((&report.run.id, evidence::misfit(&report.run.seals_broken)?)))
    {
        return Err(PaperError::Changed { run: run.clone(), misfit });
    }
    let wanted = &solution.name;
    if let Some(other) = runs.iter().find(|report| report.run.solution != *wanted) {
        let (run, found) = (other.run.id.clone(), other.run.solution.clone());
        return Err(PaperError::OtherSolution { run, found, wanted: wanted.clone() });
    }
    let subject = Subject { solution, plan, runs, simulated: simulated.is_some() };
    let version = &runs[0].run.tool_version;
    let kicker = match subject.simulated {
        true => format!("Storage solution, simulated with Proofload {version}: predicted, not tested"),
        false => format!("Storage solution, tested with Proofload {version}"),
    };
    let mut sections = vec![overview(&subject), disclaimer(&subject), features(&subject)];
    sections.push(deployment::description(&subject));
    sections.push(deployment::customer(&subject));
    sections.push(deployment::tested(&subject));
    sections.push(best_practices(&subject));
    sections.push(results::backup_strategy(&subject));
    sections.push(contact());
    sections.push(results::summary(&subject));
    sections.push(conclusion(&subject));
    sections.extend(results::appendices(&subject));
    Ok(Document { kicker, title: wanted.clone(), sections })
}

/// The result of a run in a sentence: its grade, then the headline.
fn judgement(report: &Report) -> String {
    let judged = &report.verdict;
    format!("Grade: {}. {} (run {})", judged.grade.words(), judged.headline, report.run.id)
}

fn overview(subject: &Subject<'_>) -> Section {
    let plan = subject.plan;
    let mut section = Section::new("Overview");
    for report in subject.runs {
        section.text(judgement(report));
    }
    section.text(format!(
        "This paper describes a storage solution for {} of Exchange {}, in {} of {} with {} each, on {}. It was {} on {}.",
        counted(plan.mailboxes, "mailbox"),
        plan.exchange_name,
        if plan.dags == 1 { "one availability group".to_owned() } else { format!("{} availability groups", plan.dags) },
        counted(u64::from(plan.sizing.databases), "database"),
        counted(u64::from(plan.copies), "copy"),
        counted(plan.servers.len() as u64, "server"),
        subject.done(),
        subject.runs[0].run.started.split('T').next().unwrap_or_default()
    ));
    if let Some(description) = &subject.solution.description {
        section.text(description.clone());
    }
    if subject.simulated {
        section.text(
            "Every result below is simulated: the load ran in virtual time on a model of the storage. It predicts what \
             a test should show. It proves nothing about real hardware.",
        );
    }
    section
}

fn disclaimer(subject: &Subject<'_>) -> Section {
    let mut section = Section::new("Disclaimer");
    section.text(
        "The results hold for the configuration described here and for no other. They are no benchmark and no ranking: \
         solutions differ in load, size and failure, so figures of two papers cannot be compared as they stand. Verify \
         the design with your own load before you rely on it.",
    );
    if subject.simulated {
        section.text(
            "No hardware took part. The reports in the appendix list every value of the storage model, with its              source, below “Environment”.",
        );
        for report in subject.runs {
            let digests = report.environment.iter().filter(|row| {
                (row.area.as_str(), row.name.as_str()) == (storage_model::AREA, storage_model::DIGEST)
            });
            for row in digests {
                section.text(format!(
                    "Values of the storage model of run {}: SHA-256 {}.",
                    report.run.id, row.value
                ));
            }
        }
    }
    section.author("the legal terms of the publisher");
    section
}

fn features(subject: &Subject<'_>) -> Section {
    let mut section = Section::new("Features");
    let disks: Vec<Vec<String>> = subject
        .solution
        .disks
        .iter()
        .map(|disk| {
            let kind = if disk.solid_state {
                "solid state".to_owned()
            } else {
                disk.rpm.map_or("disk".to_owned(), |rpm| format!("{} rpm", number(f64::from(rpm), 0)))
            };
            vec![disk.name.clone(), kind, format!("{} GB", number(disk.capacity_gb, 0))]
        })
        .collect();
    section
        .author("what the storage does: protection, caches, snapshots, replication, growth, and why it fits");
    section.table(&["Disk", "Kind", "Capacity"], disks);
    section
}

fn best_practices(subject: &Subject<'_>) -> Section {
    let mut section = Section::new("Best practices");
    section.author("settings of the storage, the hosts and Exchange that this design relies on");
    let mut rows: Vec<Vec<String>> = Vec::new();
    for report in subject.runs {
        for row in report.environment.iter().filter(|row| row.severity != ::results::Severity::Info) {
            rows.push(vec![
                row.host.clone(),
                format!("{}: {}", row.area, row.name),
                row.value.clone(),
                row.note.clone(),
            ]);
        }
    }
    if !rows.is_empty() {
        section.text("The check of the hosts before the load noted these settings:");
    }
    section.table(&["Host", "Setting", "Value", "Why it matters"], rows);
    section
}

fn contact() -> Section {
    let mut section = Section::new("Contact");
    section.author("whom to ask: name, address, links to the product pages");
    section
}

fn conclusion(subject: &Subject<'_>) -> Section {
    let mut section = Section::new("Conclusion");
    for report in subject.runs {
        section.text(judgement(report));
        for reason in &report.verdict.reasons {
            section.text(reason.clone());
        }
    }
    section.author("what follows from this for the customer");
    section
}

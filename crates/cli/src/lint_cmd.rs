//! `proofload lint`: does evidence contradict itself, or its solution?

use std::fmt::Write;
use std::path::PathBuf;

use review::lint::{Finding, RULES};
use serde::Serialize;

use crate::failure::{Failure, Status};
use crate::output::{data, tell};

/// Checks evidence against itself and against its solution: run folders, run.db, report.json, published/*.toml.
#[derive(clap::Args)]
pub struct LintArguments {
    /// Run folders, run.db, report.json or published figures (.toml).
    #[arg(value_name = "EVIDENCE", required_unless_present = "rules")]
    evidence: Vec<PathBuf>,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
    /// Print the rules and do nothing else.
    #[arg(long, exclusive = true)]
    rules: bool,
}

#[derive(Serialize)]
struct Linted<'a> {
    evidence: String,
    findings: &'a [Finding],
}

/// Runs the command: exit status 1 when there are findings.
pub fn run(arguments: &LintArguments) -> Result<Status, Failure> {
    if arguments.rules {
        let lines: Vec<String> =
            RULES.iter().map(|(name, demand)| format!("{name:<22} {demand}\n")).collect();
        return data(&lines.concat()).map(|()| Status::Pass);
    }
    let mut all = Vec::new();
    for path in &arguments.evidence {
        all.push((path.display().to_string(), crate::compare_cmd::open(path)?.lint()));
    }
    let count: usize = all.iter().map(|(_, findings)| findings.len()).sum();
    if arguments.json {
        let list: Vec<Linted<'_>> =
            all.iter().map(|(evidence, findings)| Linted { evidence: evidence.clone(), findings }).collect();
        let text = serde_json::to_string_pretty(&list)
            .map_err(|error| Failure::could_not_run("cannot write the findings").because(error))?;
        data(&format!("{text}\n"))?;
    } else {
        tell(&text(&all))?;
    }
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    say!("{count} finding{} in {} piece{} of evidence", plural(count), all.len(), plural(all.len()));
    Ok(if count == 0 { Status::Pass } else { Status::VerdictFail })
}

fn text(all: &[(String, Vec<Finding>)]) -> String {
    let mut text = String::new();
    for (evidence, findings) in all {
        let _ = writeln!(text, "{evidence}: {}", if findings.is_empty() { "nothing found" } else { "" });
        for finding in findings {
            let _ = writeln!(text, "  {}: {}", finding.rule, finding.text);
            for figure in [&finding.one, &finding.other] {
                let _ = writeln!(text, "      {:<24} {}", figure.value, figure.place);
            }
        }
    }
    text
}

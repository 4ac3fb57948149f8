//! `proofload lint`: does evidence contradict itself, or its solution?

use std::path::PathBuf;

use evidence::report::counted;
use evidence::{SigningKey, public_key};
use review::answers::{LintRules, Linted, LintedEvidence};
use review::lint::signed_by;

use crate::failure::{Failure, Status};
use crate::inputs;
use crate::stdout::{data, json, tell};

/// Checks evidence against itself and against its solution.
#[derive(clap::Args)]
pub struct LintArguments {
    /// Run folders, run.db, report.json or published figures (.toml).
    #[arg(value_name = "EVIDENCE", required_unless_present_any = ["rules", "new_key"])]
    evidence: Vec<PathBuf>,
    /// Print the findings, or the rules, as JSON.
    #[arg(long)]
    json: bool,
    /// Print the rules and do nothing else.
    #[arg(long, conflicts_with_all = ["evidence", "verify", "new_key"])]
    rules: bool,
    /// Fail unless this public key (64 hexadecimal digits) signed every seal up to the end of the run.
    #[arg(long, value_name = "PUBKEY")]
    verify: Option<String>,
    /// Make a key for `--sign` in this new file, print its public key, and do nothing else.
    #[arg(long, value_name = "FILE", exclusive = true)]
    new_key: Option<PathBuf>,
}

/// Runs the command: exit status 1 when there are findings.
pub fn run(arguments: &LintArguments) -> Result<Status, Failure> {
    if arguments.rules {
        let rules = LintRules::all();
        let told = if arguments.json { json(&rules) } else { data(&rules.text()) };
        return told.map(|()| Status::Pass);
    }
    if let Some(file) = &arguments.new_key {
        let key = SigningKey::create(file)?;
        say!("wrote {}: keep it secret; the public key is on stdout", file.display());
        return data(&format!("{}\n", key.public())).map(|()| Status::Pass);
    }
    let key = arguments.verify.as_deref().map(public_key).transpose()?;
    let mut all = Vec::new();
    for path in &arguments.evidence {
        let source = inputs::evidence(path)?;
        let mut findings = source.lint();
        findings.extend(key.as_deref().and_then(|key| signed_by(source.seals(), key)));
        all.push(LintedEvidence {
            evidence: path.display().to_string(),
            findings,
            seals: source.seals().cloned(),
            unsealed_files: source.unsealed_files().to_vec(),
        });
    }
    let count: usize = all.iter().map(|looked: &LintedEvidence| looked.findings.len()).sum();
    let pieces = all.len() as u64;
    if arguments.json {
        json(&Linted { schema_version: 1, evidence: all })?;
    } else {
        tell(&all.iter().map(LintedEvidence::text).collect::<String>())?;
    }
    say!("{} in {} of evidence", counted(count as u64, "finding"), counted(pieces, "piece"));
    Ok(if count == 0 { Status::Pass } else { Status::VerdictFail })
}

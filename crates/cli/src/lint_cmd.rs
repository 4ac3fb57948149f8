//! `proofload lint`: does evidence contradict itself, or its solution?

use std::fmt::Write;
use std::path::PathBuf;

use evidence::report::counted;
use evidence::{Chain, SigningKey, public_key};
use review::lint::{Finding, RULES, signed_by};
use serde::Serialize;

use crate::failure::{Failure, Status};
use crate::inputs;
use crate::stdout::{data, json, tell};

/// Checks evidence against itself and against its solution.
#[derive(clap::Args)]
pub struct LintArguments {
    /// Run folders, run.db, report.json or published figures (.toml).
    #[arg(value_name = "EVIDENCE", required_unless_present_any = ["rules", "new_key"])]
    evidence: Vec<PathBuf>,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
    /// Print the rules and do nothing else.
    #[arg(long, exclusive = true)]
    rules: bool,
    /// Demand that every seal is signed by this public key (64 hexadecimal digits), to the end of the run.
    #[arg(long, value_name = "PUBKEY")]
    verify: Option<String>,
    /// Make a key for `--sign` in this new file, print its public key, and do nothing else.
    #[arg(long, value_name = "FILE", exclusive = true)]
    new_key: Option<PathBuf>,
}

#[derive(Serialize)]
struct Linted<'a> {
    evidence: &'a str,
    findings: &'a [Finding],
    seals: Option<&'a Chain>,
}

/// What was found in one piece of evidence.
struct Looked {
    evidence: String,
    findings: Vec<Finding>,
    seals: Option<Chain>,
}

/// Runs the command: exit status 1 when there are findings.
pub fn run(arguments: &LintArguments) -> Result<Status, Failure> {
    if arguments.rules {
        let lines: Vec<String> =
            RULES.iter().map(|(name, demand)| format!("{name:<22} {demand}\n")).collect();
        return data(&lines.concat()).map(|()| Status::Pass);
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
        all.push(Looked { evidence: path.display().to_string(), findings, seals: source.seals().cloned() });
    }
    let count: usize = all.iter().map(|looked| looked.findings.len()).sum();
    if arguments.json {
        let list: Vec<Linted<'_>> = all.iter().map(Linted::from).collect();
        json(&list)?;
    } else {
        tell(&text(&all))?;
    }
    say!("{} in {} of evidence", counted(count as u64, "finding"), counted(all.len() as u64, "piece"));
    Ok(if count == 0 { Status::Pass } else { Status::VerdictFail })
}

impl<'a> From<&'a Looked> for Linted<'a> {
    fn from(looked: &'a Looked) -> Linted<'a> {
        let Looked { evidence, findings, seals } = looked;
        Linted { evidence, findings, seals: seals.as_ref() }
    }
}

fn text(all: &[Looked]) -> String {
    let mut text = String::new();
    for Looked { evidence, findings, seals } in all {
        let _ = writeln!(text, "{evidence}: {}", if findings.is_empty() { "nothing found" } else { "" });
        for finding in findings {
            let _ = writeln!(text, "  {}: {}", finding.rule, finding.text);
            for figure in [&finding.one, &finding.other] {
                let _ = writeln!(text, "      {:<24} {}", figure.value, figure.place);
            }
        }
        if let Some(chain) = seals {
            let _ = writeln!(text, "  {}", seal_line(chain));
        }
    }
    text
}

/// What the seals say, and what they cannot say.
fn seal_line(chain: &Chain) -> String {
    let Some(digest) = &chain.digest else {
        return "not sealed: nothing shows whether its rows were changed".to_owned();
    };
    if !chain.broken.is_empty() {
        return "its seals do not fit: see the findings".to_owned();
    }
    let reach = match (chain.ended, chain.unsealed_tests.len()) {
        (true, _) => "to the end of the run".to_owned(),
        (false, 0) => "not to the end of the run".to_owned(),
        (false, open) => {
            let sealed = counted(chain.sealed_tests.len() as u64, "test");
            format!(
                "up to {sealed}; {} behind them and the run's end are not sealed",
                counted(open as u64, "test")
            )
        }
    };
    let signed = match &chain.signer {
        Some(key) => format!("signed by {key}; this does not show that the holder of the key ran the tests"),
        None => "not signed: a user who can write the file can change it and seal it again".to_owned(),
    };
    format!("sealed {reach}, last seal {digest}\n  {signed}")
}

//! Every rule that can fail has a remedy, and every cause a row in the manual.
#![allow(clippy::disallowed_methods, reason = "a test that reads the source tree")]

use std::collections::BTreeSet;
use std::path::Path;

use evidence::report::{CAUSES, remedy_of_rule};

/// Rules whose figures are for information only.
const TOLD: [&str; 3] = ["window_estimated", "drill_longest_wait", "drill_outage"];

fn project(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).expect("readable")
}

/// String literals that follow `words` in a source text.
fn texts<'a>(source: &'a str, words: &'a str) -> impl Iterator<Item = String> + 'a {
    source.split(words).skip(1).filter_map(|rest| {
        let rest = rest.trim_start().strip_prefix('"')?;
        Some(rest.split('"').next()?.to_owned())
    })
}

/// Rules for which the sources state verdicts.
fn rules() -> BTreeSet<String> {
    let judging = [
        "campaign/src/verdict.rs",
        "campaign/src/recovery.rs",
        "campaign/src/backups.rs",
        "campaign/src/room.rs",
        "campaign/src/load_tests.rs",
        "campaign/src/tuning.rs",
        "campaign/src/drill/auditor.rs",
        "campaign/src/drill/review.rs",
        "evidence/src/merge.rs",
        "evidence/src/environment/mod.rs",
        "fleet/src/merged.rs",
    ];
    let mut found = BTreeSet::new();
    for file in judging {
        let source = project(&format!("crates/{file}"));
        let source = source.split("#[cfg(test)]").next().unwrap_or_default();
        found.extend(texts(source, "rule: "));
        found.extend(texts(source, "Rule {\n        name: "));
        found.extend(texts(source, "Rule {\n            name: "));
        found.extend(texts(source, "Rule { name: "));
        found.extend(texts(source, "origin.clone(), "));
        found.extend(texts(source, "origin, "));
    }
    let checksums = project("crates/campaign/src/checksums.rs");
    found.extend(texts(&checksums, "origin, "));
    found.extend(texts(&checksums, "origin.clone(), "));
    found.extend(texts(&checksums, "Origin::host(self.host_name()), "));
    found.extend(results::judge::LatencyRule::ALL.map(|rule| rule.name().to_owned()));
    found
}

#[test]
fn every_rule_that_can_fail_has_a_remedy() {
    let rules = rules();
    assert!(rules.len() >= 24, "{rules:?}");
    let without: Vec<&String> = rules
        .iter()
        .filter(|rule| remedy_of_rule(rule).is_none() && !TOLD.contains(&rule.as_str()))
        .collect();
    assert!(without.is_empty(), "{without:?}");
}

#[test]
fn every_cause_has_a_remedy_and_a_row_in_the_manual() {
    let manual = project("docs/troubleshooting.md");
    for (name, remedy) in CAUSES {
        assert!(!remedy.is_empty() && manual.contains(&format!("| `{name}` |")), "{name}");
    }
}

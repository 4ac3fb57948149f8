//! The commands that the documents show: the program understands each of them, and those that need no more than the
//! shipped solution files, and neither a long time nor another program, succeed.
#![allow(clippy::disallowed_methods, reason = "tests run the binary")]

use std::collections::BTreeSet;
use std::path::Path;

use crate::documents::{Kind, documents, lines};
use crate::program::output;

/// Commands of a document with their line numbers. Text behind `#`, `|`, `>`, `&` or `;` belongs to the shell. Lines
/// with brackets or dots show a form, not a command.
fn commands(text: &str) -> Vec<(usize, Vec<String>)> {
    let (mut found, mut open) = (Vec::new(), None::<(usize, String)>);
    for (number, kind, line) in lines(text) {
        let line = line.trim().trim_start_matches("$ ");
        let (from, mut command) = match open.take() {
            Some((from, begun)) => (from, format!("{begun} {line}")),
            None if kind == Kind::Code && line.starts_with("proofload ") => (number, line.to_owned()),
            None => continue,
        };
        if command.ends_with('\\') || command.matches(['"']).count() % 2 == 1 {
            command.truncate(command.trim_end_matches('\\').len());
            open = Some((from, command));
            continue;
        }
        let words = words(&command);
        let is_form = |word: &String| word.starts_with('[') || word.ends_with("..") || word == "|";
        if !words.iter().any(is_form) {
            found.push((from, words[1..].to_vec()));
        }
    }
    found
}

/// Words of a command line, up to the first that belongs to the shell.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in command.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#' | '>' | '|' | '&' | ';') => break,
            (None, ' ') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// A form of the command that needs no storage and little time; `None` if there is none.
fn quick(command: &[String], folder: &Path) -> Option<Vec<String>> {
    let mut quick = command.to_vec();
    let has = |option: &str| command.iter().any(|word| word == option);
    match command[0].as_str() {
        "plan" | "check" | "schema" => {}
        "capacity" if has("--plan-only") => {}
        "run" if has("--dry-run") => {}
        "run" => quick.push("--dry-run".into()),
        _ => return None,
    }
    let files = command.iter().filter(|word| word.ends_with(".toml"));
    files.into_iter().all(|file| folder.join(file).exists()).then_some(quick)
}

#[test]
fn every_command_of_the_documents_is_understood_and_the_quick_ones_succeed() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("writable");
    let (_, list, _) = output(folder.path(), &["examples"]);
    std::fs::create_dir(folder.path().join("solutions")).expect("writable");
    for name in list.lines().filter_map(|line| line.split_whitespace().next()) {
        for file in [format!("{name}.toml"), format!("solutions/{name}.toml")] {
            output(folder.path(), &["examples", name, "--out", &file]);
        }
    }
    let (mut findings, mut seen, mut done) = (Vec::new(), BTreeSet::new(), 0);
    for (path, text) in documents().into_iter().filter(|(path, _)| path != "CHANGELOG.md") {
        for (number, command) in
            commands(&text).into_iter().filter(|(_, command)| seen.insert(command.clone()))
        {
            let run = |words: &[String]| {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let (status, _, stderr) = output(folder.path(), &words);
                (status != 0).then(|| format!("{path}:{number}: {}: {stderr}", words.join(" ")))
            };
            let understood = [&command[..], &["--help".to_owned()]].concat();
            findings.extend(run(&understood));
            if let Some(quick) = quick(&command, folder.path()) {
                done += 1;
                findings.extend(run(&quick));
            }
        }
    }
    assert!(findings.is_empty(), "commands of the documents that fail:\n{}", findings.join("\n"));
    assert!(seen.len() >= 80 && done >= 8, "{} commands, {done} of them quick", seen.len());
}

//! House rules that no compiler checks. Each rule says what it protects.
#![allow(clippy::disallowed_methods, reason = "a test that reads the source tree")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace exists")
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("readable").map(|e| e.expect("readable").path()) {
        let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if entry.is_dir() {
            if !["target", ".git", "corpus", "artifacts"].contains(&name.as_str())
                && !name.starts_with("proofload-demo")
            {
                sources(&entry, found);
            }
        } else if [".rs", ".toml", ".md", ".py", ".html", ".sql"].iter().any(|end| name.ends_with(end)) {
            found.push(entry);
        }
    }
}

fn all_sources() -> Vec<(String, String)> {
    let root = root();
    let mut found = Vec::new();
    sources(&root, &mut found);
    found.sort();
    found
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("UTF-8 sources");
            (path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned(), text)
        })
        .collect()
}

/// Code before the unit tests of a file: what ships. Declarations and imports for tests stand among it.
fn shipped(text: &str) -> &str {
    let has_body = |at: &usize| {
        let item = text[*at..].lines().skip(1).find(|line| !line.starts_with("#["));
        item.is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
    };
    let tests = text.match_indices("#[cfg(test)]\n").map(|(at, _)| at).find(has_body);
    &text[..tests.unwrap_or(text.len())]
}

/// A module that is compiled for tests only.
fn is_test_module(path: &str) -> bool {
    path.contains("/src/tests/") || path.ends_with("/tests.rs") || path.ends_with("/testing.rs")
}

fn assert_none(findings: Vec<String>, rule: &str) {
    assert!(findings.is_empty(), "{rule}:\n{}", findings.join("\n"));
}

/// The same campaign code runs in both worlds, repeatably: it may reach the outside only through `World`.
#[test]
fn only_world_touches_clock_files_threads_and_randomness() {
    let pure = [
        "edb",
        "btree",
        "engine",
        "workload",
        "copies",
        "replica",
        "campaign",
        "results",
        "plan",
        "solution",
        "array",
        "simulation",
        "capacity",
        "probe",
    ];
    let banned = [
        "std::fs",
        "std::thread",
        "Instant::now",
        "SystemTime",
        "std::net",
        "thread_rng",
        "std::env::var",
        "compio",
    ];
    let mut findings = Vec::new();
    for (path, text) in all_sources() {
        let in_pure = pure.iter().any(|krate| path.starts_with(&format!("crates/{krate}/src/")));
        if in_pure && path.ends_with(".rs") && !is_test_module(&path) {
            for (number, line) in shipped(&text).lines().enumerate() {
                let code = line.split("//").next().unwrap_or(line);
                if let Some(word) = banned.iter().find(|word| code.contains(**word)) {
                    findings.push(format!("{path}:{}: {word}", number + 1));
                }
            }
        }
    }
    assert_none(findings, "reach the outside through World");
}

/// One campaign, two worlds: no line may ask which one it runs in.
#[test]
fn no_crate_above_world_asks_which_world_it_is() {
    let mut findings = Vec::new();
    for (path, text) in all_sources() {
        let above =
            ["engine", "workload", "campaign"].iter().any(|k| path.starts_with(&format!("crates/{k}/src/")));
        if above && path.ends_with(".rs") && !is_test_module(&path) {
            for (number, line) in shipped(&text).lines().enumerate() {
                let code = line.split("//").next().unwrap_or(line);
                if ["world::sim", "world::real", "is_simulated", "is_sim("]
                    .iter()
                    .any(|word| code.contains(word))
                {
                    findings.push(format!("{path}:{}: {}", number + 1, line.trim()));
                }
            }
        }
    }
    assert_none(findings, "code above `world` must not know which world it runs in");
}

/// `eprintln!` panics where stderr is closed or full, and with it a run would end.
#[test]
fn messages_go_through_the_writer_that_never_panics() {
    let is_shipped = |path: &str| {
        path.starts_with("crates/") && path.contains("/src/") && !path.starts_with("crates/testkit/")
    };
    let mut findings = Vec::new();
    for (path, text) in all_sources() {
        if is_shipped(&path) && path.ends_with(".rs") && !is_test_module(&path) {
            let lines = shipped(&text).lines().enumerate();
            let prints = |line: &str| line.split("//").next().unwrap_or(line).contains("eprint");
            findings.extend(
                lines.filter(|(_, line)| prints(line)).map(|(number, _)| format!("{path}:{}", number + 1)),
            );
        }
    }
    assert_none(findings, "say it with `say!` of the command, or hand it to the caller");
}

/// Most lines of a file, and of a function.
const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;

/// Name and number of lines of each function. `rustfmt` closes a body at the column at which its function begins.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let named = lines.iter().enumerate().filter_map(|(first, line)| {
        let indent = line.len() - line.trim_start().len();
        let words = line.trim_start().strip_prefix("pub").map_or(line.trim_start(), |rest| {
            rest.strip_prefix('(')
                .and_then(|rest| rest.split_once(')'))
                .map_or(rest, |(_, rest)| rest)
                .trim_start()
        });
        let words = ["const ", "async ", "unsafe "]
            .iter()
            .fold(words, |words, word| words.strip_prefix(word).unwrap_or(words));
        let name = words.strip_prefix("fn ")?.split(['(', '<']).next()?;
        // A function of a trait has no body.
        let end = lines[first..]
            .iter()
            .position(|line| line.ends_with(';') || line.ends_with('{') || line.ends_with('}'))?;
        if lines[first + end].ends_with(';') {
            return None;
        }
        let closes = |line: &&str| line.len() == indent + 1 && line.trim_start() == "}";
        Some((name, lines[first..].iter().position(closes)? + 1))
    });
    named.collect()
}

const COLUMNS_MAX: usize = 120;

/// A file that cannot be taken in at one sitting wants splitting, and so does a function that fits no screen.
#[test]
fn files_and_functions_stay_readable() {
    let mut found = Vec::new();
    for (path, text) in all_sources().iter().filter(|(path, _)| path.ends_with(".rs")) {
        if text.lines().count() > FILE_LINES_MAX {
            found.push(path.clone());
        }
        let long = functions(text).into_iter().filter(|(_, lines)| *lines > FUNCTION_LINES_MAX);
        found.extend(long.map(|(name, _)| format!("{path} {name}")));
    }
    assert_none(found, "split these files and functions");
}

/// The formatter holds code to 120 columns and leaves comments alone.
#[test]
fn comments_have_at_most_120_columns() {
    let mut found = Vec::new();
    for (path, text) in all_sources().iter().filter(|(path, _)| path.ends_with(".rs")) {
        let is_long = |line: &&str| line.trim_start().starts_with("//") && line.chars().count() > COLUMNS_MAX;
        let numbered = text.lines().zip(1..).filter(|(line, _)| is_long(line));
        found.extend(numbered.map(|(_, number)| format!("{path}:{number}")));
    }
    assert_none(found, "comments over 120 columns");
}

#[test]
fn functions_are_counted_from_their_name_to_their_closing_brace() {
    let text = "trait T {\n    fn without_body(\n        &self,\n    );\n    pub(crate) async fn two() {\n    }\n}\nfn three() {\n    x\n}\n";
    assert_eq!(functions(text), [("two", 2), ("three", 3)]);
}

/// Most lines of the command line for each of its commands.
const LINES_A_COMMAND: usize = 190;

/// The command line is arguments, rendering and exit status; what a command does is in a library, where others
/// can have it.
#[test]
fn the_command_line_stays_thin_and_no_command_imports_another() {
    let (mut lines, mut commands, mut findings) = (0, 0, Vec::new());
    for (path, text) in all_sources().iter().filter(|(path, _)| path.starts_with("crates/cli/src/")) {
        if !path.ends_with(".rs") {
            continue;
        }
        lines += text.lines().count();
        commands += usize::from(path.ends_with("_cmd.rs"));
        let stem = path.trim_end_matches(".rs").trim_end_matches("/mod").rsplit('/').next().unwrap_or(path);
        let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        let others = words.filter(|word| word.ends_with("_cmd") && *word != stem);
        if !path.ends_with("/main.rs") {
            findings.extend(others.map(|other| format!("{path}: {other}")));
        }
    }
    assert_none(findings, "what two commands share belongs to neither");
    let most = commands * LINES_A_COMMAND;
    assert!(lines < most, "crates/cli/src has {lines} lines for {commands} commands, {most} are too many");
}

/// Unfinished work is not hidden in comments, and no path of a developer's machine leaks.
#[test]
fn no_leftovers() {
    let machine_paths = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/home", "/user")];
    let leftovers =
        [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("unimplem", "ented!(")];
    let mut findings = Vec::new();
    for (path, text) in all_sources() {
        if path == "clippy.toml" || path.starts_with("published/") || path.ends_with("/tidy.rs") {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let is_code = path.ends_with(".rs") || path.ends_with(".py");
            if machine_paths.iter().any(|p| line.contains(p))
                || (is_code && leftovers.iter().any(|w| line.contains(w)))
            {
                findings.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert_none(findings, "leftovers");
}

/// Licence and toolchain are what the README promises.
#[test]
fn every_crate_inherits_the_licence() {
    for entry in std::fs::read_dir(root().join("crates")).expect("readable") {
        let manifest = entry.expect("readable").path().join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest).expect("a manifest");
        assert!(
            text.contains("license.workspace = true"),
            "{} does not inherit the licence",
            manifest.display()
        );
    }
}

/// A test aimed at a sync is only tried first if the place still has that name.
#[test]
fn places_of_syncs_in_tools_and_documents_name_functions_that_ask_for_one() {
    let tool = std::fs::read_to_string(root().join("tools/sync-removal")).expect("the tool exists");
    let tool = &tool[tool.find("AIMED = {").expect("the tool has a table of aimed tests")..];
    let aimed = tool.lines().skip(1).take_while(|line| *line != "}");
    let aimed = aimed.filter_map(|line| line.trim().strip_prefix('"')?.split_once('"')?.0.split_once(' '));
    let faults = std::fs::read_to_string(root().join("docs/faults.md")).expect("the document exists");
    let rows = faults.lines().filter(|line| line.starts_with("| "));
    let named = rows.filter_map(|line| line.split('|').nth(2)?.trim().strip_prefix('`')?.strip_suffix('`'));
    let places: Vec<_> = aimed.chain(named.filter_map(|place| place.split_once("`, `"))).collect();
    assert!(places.len() > 20, "{places:?}");
    let asks = |(file, function): &(&str, &str)| {
        let text = std::fs::read_to_string(root().join("crates/engine/src").join(file)).unwrap_or_default();
        let body = text.split("fn ").find(|body| body.starts_with(&format!("{function}(")));
        body.is_some_and(|body| body.contains("sync") || body.contains("write_durable"))
    };
    let missing = places.into_iter().filter(|place| !asks(place));
    assert_none(missing.map(|(file, function)| format!("{file}: {function}")).collect(), "no sync there");
}

/// A document that names a test for a promise is worth as much as the test that is there.
#[test]
fn tests_of_faults_that_tools_and_documents_name_exist() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).expect("it exists");
    let texts = [read("docs/faults.md"), read("tools/sync-removal")];
    let is_name = |word: &&str| {
        word.starts_with(|first: char| first.is_ascii_lowercase())
            && word.matches('_').count() >= 4
            && word.chars().all(|c| matches!(c, 'a'..='z' | '_'))
    };
    let named: BTreeSet<&str> =
        texts.iter().flat_map(|text| text.split(['`', '"'])).filter(is_name).collect();
    assert!(named.len() > 15, "{named:?}");
    let tests: Vec<String> = all_sources()
        .into_iter()
        .filter(|(path, _)| path.starts_with("crates/") && path.contains("/tests/"))
        .map(|(_, text)| text)
        .collect();
    let missing =
        named.into_iter().filter(|name| !tests.iter().any(|text| text.contains(&format!("fn {name}()"))));
    assert_none(missing.map(str::to_owned).collect(), "no such test");
}

//! Rules for README.md, docs/ and the other documents: named files and tests exist, prose is narrow. Links,
//! anchors and names of crates: `make docs-check`.
#![allow(clippy::disallowed_methods, reason = "a test that reads the source tree")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Most columns of a line of prose; tables and code may be wider.
const PROSE_COLUMNS_MAX: usize = 100;

/// Kind of a line of a document. A heading counts as a table row, so it may be wider.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Prose,
    Table,
    Code,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace exists")
}

/// Adds the files below a directory whose names end in `end` to `found`.
fn collect(dir: &Path, end: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("readable").map(|entry| entry.expect("readable").path()) {
        if entry.is_dir() {
            collect(&entry, end, found);
        } else if entry.extension().is_some_and(|found| found == end) {
            found.push(entry);
        }
    }
}

/// Path below the root and text of every document.
pub fn documents() -> BTreeMap<String, String> {
    let root = root();
    let single = [
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "deploy/README.md",
        "published/README.md",
        "crates/cli/tests/released/README.md",
    ];
    let mut paths = single.map(|file| root.join(file)).to_vec();
    collect(&root.join("docs"), "md", &mut paths);
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("UTF-8");
        (path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned(), text)
    };
    paths.into_iter().map(read).collect()
}

/// Every line with its number and what it is. Code is fenced, or indented by four columns behind an empty line.
pub fn lines(text: &str) -> Vec<(usize, Kind, &str)> {
    let (mut fenced, mut indented, mut after_empty) = (false, false, true);
    let mut kind_of = |line: &str| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        indented = line.starts_with("    ") && (after_empty || indented);
        after_empty = line.trim().is_empty();
        match line.trim_start().chars().next() {
            _ if fenced || is_fence || indented => Kind::Code,
            Some('|' | '#') => Kind::Table,
            _ => Kind::Prose,
        }
    };
    (1..).zip(text.lines()).map(|(number, line)| (number, kind_of(line), line)).collect()
}

/// The code spans of a line.
fn spans(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

fn assert_none(findings: &[String], rule: &str) {
    assert!(findings.is_empty(), "{rule}:\n{}", findings.join("\n"));
}

/// Whether a code span is a path of this repository, without wildcards.
fn is_path(span: &str) -> bool {
    ["crates/", "tools/", "docs/", "solutions/", "published/"].iter().any(|start| span.starts_with(start))
        && span.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-'))
}

/// Programs of tests that a command starts, below `crates`, and the modules in them that it names.
fn named_tests(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for command in line.split("cargo test ").skip(1) {
        let words: Vec<&str> = command.split('`').next().unwrap_or("").split_whitespace().collect();
        let behind = |option: &str| words.windows(2).find(|pair| pair[0] == option).map(|pair| pair[1]);
        let (Some(package), Some(program)) = (behind("-p"), behind("--test")) else { continue };
        let folder = if package == "proofload" { "cli" } else { package };
        let program = format!("{folder}/tests/{program}");
        let modules = words.iter().filter_map(|word| word.strip_suffix("::"));
        found.extend(modules.map(|module| format!("{program}/{module}")));
        found.push(program);
    }
    found
}

#[test]
fn every_file_and_test_that_the_documents_name_exists() {
    let root = root();
    let mut findings = Vec::new();
    for (path, text) in documents() {
        for (number, kind, line) in lines(&text) {
            let spans = if kind == Kind::Code { Vec::new() } else { spans(line) };
            for span in spans.into_iter().filter(|span| is_path(span) && !root.join(span).exists()) {
                findings.push(format!("{path}:{number}: {span}"));
            }
            for name in named_tests(line) {
                let at = root.join("crates").join(&name);
                if !at.with_extension("rs").exists() && !at.exists() {
                    findings.push(format!("{path}:{number}: the test {name}"));
                }
            }
        }
    }
    assert_none(&findings, "the documents name what is not there");
}

/// The text of all sources, with continued lines of string literals put together.
fn sources() -> String {
    let mut files = Vec::new();
    collect(&root().join("crates"), "rs", &mut files);
    let of_product = files.iter().filter(|file| file.components().any(|part| part.as_os_str() == "src"));
    let text: String = of_product.map(|file| std::fs::read_to_string(file).expect("a source")).collect();
    text.split("\\\n").map(str::trim_start).collect()
}

#[test]
fn every_message_of_the_troubleshooting_page_is_one_that_the_program_prints() {
    let page = std::fs::read_to_string(root().join("docs/troubleshooting.md")).expect("the page");
    let sources = sources();
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let messages: Vec<String> =
        rows.flat_map(|row| spans(row.split('|').nth(1).unwrap_or_default())).map(str::to_owned).collect();
    assert!(messages.len() >= 20, "{}", messages.len());
    let unknown: Vec<String> = messages.into_iter().filter(|message| !sources.contains(message)).collect();
    assert_none(&unknown, "messages of docs/troubleshooting.md that no source has");
}

#[test]
fn prose_of_the_documents_has_at_most_100_columns() {
    let mut findings = Vec::new();
    for (path, text) in documents() {
        let prose = lines(&text).into_iter().filter(|(_, kind, _)| *kind == Kind::Prose);
        // An address has no place to break at.
        let wide = prose.filter(|(_, _, line)| {
            line.chars().count() > PROSE_COLUMNS_MAX && line.split_whitespace().count() > 2
        });
        findings.extend(wide.map(|(number, _, line)| format!("{path}:{number}: {}", line.chars().count())));
    }
    assert_none(&findings, "lines of prose over 100 columns");
}

//! No circles between the files of a crate: a reader can understand a file before those that use it.
//!
//! A file may use its parent modules, whose types its parts share. Unit tests count as no part of a file.
#![allow(clippy::disallowed_methods, reason = "a test that reads the source tree")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A module of a crate by the segments of its path; the root has none.
type Module = Vec<String>;

/// Imports of a file: full paths from the root of its crate, and the names that it re-exports.
#[derive(Default)]
struct Imports {
    used: Vec<Vec<String>>,
    handed_on: BTreeMap<String, Vec<String>>,
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("readable").map(|entry| entry.expect("readable").path()) {
        if entry.is_dir() {
            files(&entry, found);
        } else if entry.extension().is_some_and(|end| end == "rs") {
            found.push(entry);
        }
    }
}

fn module_of(source: &Path, file: &Path) -> Module {
    let path = file.strip_prefix(source).expect("below the sources").with_extension("");
    let mut module: Module = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        module.pop();
    }
    module
}

/// Paths of one `use` tree: `a::{b, c::{d, e as f}}` has three.
fn expand(tree: &str) -> Vec<String> {
    let Some((head, rest)) = tree.split_once('{') else {
        return vec![tree.split(" as ").next().unwrap_or_default().trim().to_owned()];
    };
    let body = &rest[..rest.rfind('}').expect("an import is balanced")];
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for c in body.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        match (c, depth) {
            (',', 0) => parts.push(String::new()),
            _ => parts.last_mut().expect("one at least").push(c),
        }
    }
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| expand(part)).map(|path| head.trim().to_owned() + &path).collect()
}

/// The path from the root of the crate; `None` for another crate.
fn absolute(path: &str, module: &Module, modules: &BTreeSet<Module>) -> Option<Vec<String>> {
    let mut segments: Vec<String> = path.split("::").map(|part| part.trim().to_owned()).collect();
    let mut base = module.clone();
    match segments[0].as_str() {
        "crate" => base.clear(),
        "self" => {}
        "super" => {
            while segments.get(1).is_some_and(|next| next == "super") {
                segments.remove(0);
                base.pop();
            }
            base.pop();
        }
        first => {
            base.push(first.to_owned());
            return modules.contains(&base).then(|| [&base[..], &segments[1..]].concat());
        }
    }
    Some([&base[..], &segments[1..]].concat())
}

/// Code of a file that ships, without comments and unit tests.
fn shipped(text: &str) -> String {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let code = code.collect::<Vec<&str>>().join("\n");
    let tests = code.match_indices("#[cfg(test)]\nmod ").map(|(at, _)| at);
    let has_body = |at: &usize| code[*at..].lines().nth(1).is_some_and(|line| line.ends_with('{'));
    code[..tests.into_iter().find(has_body).unwrap_or(code.len())].to_owned()
}

/// Paths that the code names with `crate::` and does not import.
fn inline_paths(code: &str) -> impl Iterator<Item = &str> {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    code.match_indices("crate::").map(move |(at, _)| {
        let rest = &code[at..];
        rest[..rest.find(|c| !is_path(c)).unwrap_or(rest.len())].trim_end_matches(':')
    })
}

fn imports(text: &str, module: &Module, modules: &BTreeSet<Module>) -> Imports {
    let code = shipped(text);
    let (mut imports, mut rest) = (Imports::default(), String::new());
    for statement in code.split_inclusive(';') {
        let line = statement.rfind("use ").map(|at| statement[..at].rfind('\n').map_or(0, |start| start + 1));
        let import = line.map(|start| statement[start..].trim_end_matches(';'));
        let import = import.and_then(|import| import.trim_start().split_once("use "));
        let is_visibility = |before: &str| before.is_empty() || before == "pub " || before.ends_with(") ");
        let Some((visible, tree)) =
            import.filter(|(before, _)| is_visibility(before) && !before.contains(" fn "))
        else {
            rest += statement;
            continue;
        };
        for path in expand(tree).iter().filter_map(|path| absolute(path, module, modules)) {
            match visible {
                "" => imports.used.push(path),
                _ => {
                    imports.handed_on.insert(path.last().cloned().unwrap_or_default(), path);
                }
            }
        }
    }
    imports.used.extend(inline_paths(&rest).filter_map(|path| absolute(path, module, modules)));
    imports
}

/// Module that defines the item at `path`; re-exports are followed up to `depth` times.
fn definer(path: &[String], crate_: &BTreeMap<Module, Imports>, depth: usize) -> Module {
    let known = (0..=path.len()).rev().find(|length| crate_.contains_key(&path[..*length]));
    let (module, rest) = path.split_at(known.unwrap_or(0));
    let handed_on = rest.first().and_then(|name| crate_.get(module)?.handed_on.get(name));
    match handed_on {
        Some(origin) if depth < 8 && origin.as_slice() != path => definer(origin, crate_, depth + 1),
        _ => module.to_vec(),
    }
}

/// Modules that can be reached from `from` over imports.
fn reached(from: &Module, arrows: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<Module> {
    let (mut seen, mut left) = (BTreeSet::new(), vec![from.clone()]);
    while let Some(module) = left.pop() {
        for next in arrows.get(&module).into_iter().flatten() {
            if seen.insert(next.clone()) {
                left.push(next.clone());
            }
        }
    }
    seen
}

/// Files of a crate that import each other in a circle, each with the imports that close it.
fn circles(source: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    files(source, &mut paths);
    let is_test = |module: &Module| module.iter().any(|part| part == "tests" || part == "testing");
    let paths: BTreeMap<Module, PathBuf> = paths
        .into_iter()
        .map(|path| (module_of(source, &path), path))
        .filter(|(module, _)| !is_test(module))
        .collect();
    let modules: BTreeSet<Module> = paths.keys().cloned().collect();
    let read = |(module, path): (&Module, &PathBuf)| {
        let text = std::fs::read_to_string(path).expect("UTF-8 sources");
        (module.clone(), imports(&text, module, &modules))
    };
    let crate_: BTreeMap<Module, Imports> = paths.iter().map(read).collect();
    let arrows: BTreeMap<Module, BTreeSet<Module>> = crate_
        .iter()
        .map(|(module, imports)| {
            let to = imports.used.iter().map(|path| definer(path, &crate_, 0));
            (module.clone(), to.filter(|to| !module.starts_with(to)).collect())
        })
        .collect();
    let in_circle = arrows.keys().filter(|module| reached(module, &arrows).contains(*module));
    in_circle
        .map(|module| {
            let back = arrows[module].iter().filter(|next| reached(next, &arrows).contains(module));
            let back: Vec<String> = back.map(|next| next.join("/")).collect();
            format!("{}: {} -> {}", source.display(), module.join("/"), back.join(", "))
        })
        .collect()
}

#[test]
fn files_of_a_crate_import_each_other_in_no_circle() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(crates).expect("readable").map(|entry| entry.expect("readable").path()) {
        if entry.join("src").is_dir() {
            found.extend(circles(&entry.join("src")));
        }
    }
    assert!(found.is_empty(), "files that import each other in a circle:\n{}", found.join("\n"));
}

#[test]
fn circles_over_what_a_module_hands_on_are_found() {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("written");
    write("lib.rs", "mod a;\nmod b;\npub use b::{Second, Third};\n");
    write("a.rs", "use crate::{\n    Second as Other,\n};\npub struct First(Other);\n");
    write(
        "b.rs",
        "pub struct Second;\npub struct Third;\n#[cfg(test)]\nmod tests {\n    use crate::a::First;\n}\n",
    );
    assert_eq!(circles(dir.path()), Vec::<String>::new(), "unit tests do not count");
    write("b.rs", "use super::a::First;\npub struct Second;\npub struct Third(First);\n");
    assert_eq!(circles(dir.path()).len(), 2, "{:?}", circles(dir.path()));
}

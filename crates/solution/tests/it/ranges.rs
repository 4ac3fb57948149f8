//! Numbers, names and words that no file may have, and how they are told: at their line, once, for every command.

use std::collections::BTreeMap;

use serde_json::Value as Schema;
use solution::{Solution, SolutionError};
use toml::{Table, Value};

/// Solution file with one of every table and its required keys.
const WHOLE: &str = r#"
[solution]
name = "whole"
schema = 1
[profile]
exchange = "2016"
mailboxes = 1
[dag]
[copies]
per_site = [2]
[[layout.database]]
name = "a"
copies = [["h", 1], ["g", 2]]
[[site]]
name = "s"
[[host]]
name = "h"
[[host]]
name = "g"
[[enclosure]]
name = "e"
[[disk]]
name = "d"
capacity_gb = 1
[[pool]]
name = "p"
disk = "d"
disks = 4
tiering = { model = "m", every_min = 1 }
snapshots = { every_min = 1, keep = 1 }
[building_block]
[[volume]]
name = "v"
disk = "d"
path = "/v"
[[instance]]
name = "i"
databases = [{ name = "x" }]
[sizing]
[under_test]
[load]
target_iops = 10
hours_percent = [50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 100]
mix = { insert = 40, delete = 20, replace = 5, read = 35, lazy = 70 }
classes = { view = 50, body = 20, delivery = 15, search = 10, index_update = 5 }
[engine]
[thresholds]
[[test]]
kind = "drill"
thresholds = {}
[[test.drill.event]]
kind = "host_killed"
host = "h"
at_s = 1
[[fault]]
kind = "disk_slow"
[qualification]
reads_per_batch = [0, 9]
writes_per_batch = [0, 9]
log_writes_per_batch = [0, 9]
log_file_kib_per_batch = [0, 9]
[fleet]
[array]
scope = "shared"
controller = "c"
link = "l"
"#;

/// Keys of `[array]` that are allowed with groups of disks, and not with every kind of store.
const BESIDE_GROUPS: &str = r#"
read_cache = { disk = "d", disks = 1 }
remote_copy = { distance_km = 1, link = "l", when_link_lost = "suspend" }
"#;

const STORES: [&str; 3] = [
    "kind = \"log_structured\"\nmodel = \"m\"\ncache_disk = \"d\"\ncache_disks = 1",
    "kind = \"dynamic_pool\"\nmodel = \"m\"\nspare_disks = 1",
    "kind = \"replicated\"\nmodel = \"m\"\nnodes = 3\nerasure_coding = { delay_days = 1 }\n\
     compression = { stored_per_written = 0.5, delay_min = 1 }\n\
     deduplication = { equal_share = 0.5, copies = 2, delay_min = 1 }",
];

/// Collects the paths of all numbers below a schema. `[]` is any entry of a list, a number is a position in a short
/// list.
fn numbers(root: &Schema, schema: &Schema, path: &[String], found: &mut BTreeMap<String, Vec<String>>) {
    if let Some(name) = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
        numbers(root, &root["$defs"][name], path, found);
    }
    let types = match &schema["type"] {
        Schema::Array(types) => types.clone(),
        one => vec![one.clone()],
    };
    if types.iter().any(|one| one == "integer" || one == "number") {
        let keys: Vec<&str> = path.iter().map(String::as_str).filter(|&part| part != "[]").collect();
        found.insert(keys.join("."), path.to_vec());
    }
    let below = |part: &str| path.iter().cloned().chain([part.to_owned()]).collect::<Vec<_>>();
    for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
        numbers(root, inner, &below(key), found);
    }
    if schema["items"].is_object() {
        numbers(root, &schema["items"], &below("[]"), found);
    }
    for (place, inner) in schema["prefixItems"].as_array().into_iter().flatten().enumerate() {
        numbers(root, inner, &below(&place.to_string()), found);
    }
    for choice in ["anyOf", "oneOf", "allOf"] {
        for inner in schema[choice].as_array().into_iter().flatten() {
            numbers(root, inner, path, found);
        }
    }
}

/// Every number of the solution file: its path as messages print it, and the path for [`put`].
fn every_number() -> BTreeMap<String, Vec<String>> {
    let (schema, mut found) = (Solution::json_schema(), BTreeMap::new());
    numbers(&schema, &schema, &[], &mut found);
    assert!(found.len() > 120, "{}", found.len());
    found
}

/// Puts a value at a path.
fn put(place: &mut Value, path: &[String], value: Value) {
    let Some((part, rest)) = path.split_first() else {
        *place = value;
        return;
    };
    match (part.as_str(), place) {
        ("[]", Value::Array(list)) => put(&mut list[0], rest, value),
        (index, Value::Array(list)) => put(&mut list[index.parse::<usize>().expect("a place")], rest, value),
        (key, Value::Table(table)) => {
            put(table.entry(key).or_insert(Value::Boolean(false)), rest, value);
        }
        (part, place) => panic!("{part} in {place}"),
    }
}

/// The complete file with `value` at `path`.
fn with(path: &[String], value: Value) -> String {
    let beside = if path[0] == "array" && path[1] == "store" { "" } else { BESIDE_GROUPS };
    let mut file: Table = format!("{WHOLE}{beside}").parse().expect("it is TOML");
    let store = path.get(2).filter(|_| path[0] == "array" && path[1] == "store");
    if let Some(key) = store {
        let stores = STORES.map(|text| text.parse::<Table>().expect("it is TOML"));
        let fits = |store: &&Table| store.contains_key(key);
        let store = stores.iter().find(fits).expect("some store has the key").clone();
        put(file.get_mut("array").expect("it is there"), &["store".into()], Value::Table(store));
    }
    let mut file = Value::Table(file);
    put(&mut file, path, value);
    toml::to_string(&file).expect("it can be written")
}

fn refused(text: &str) -> Box<SolutionError> {
    match Solution::parse(text, "t.toml") {
        Err(error) => error,
        Ok(_) => panic!("accepted:\n{text}"),
    }
}

fn place(error: &SolutionError) -> &str {
    &error.text[error.span.clone()]
}

#[test]
fn the_whole_file_is_accepted_with_every_store() {
    let stores = STORES.map(|store| format!("[array.store]\n{store}\n"));
    for more in stores.iter().map(String::as_str).chain([BESIDE_GROUPS]) {
        let text = format!("{WHOLE}\n{more}");
        Solution::parse(&text, "t.toml").unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn every_number_refuses_in_one_clear_sentence_what_no_number_of_its_kind_can_be() {
    for (name, path) in every_number() {
        let key = path.iter().rfind(|part| part.parse::<u32>().is_err() && *part != "[]").expect("a key");
        for value in [
            Value::Integer(-1),
            Value::Float(-0.5),
            Value::Float(f64::NAN),
            Value::Float(f64::INFINITY),
            Value::Float(1e300),
            Value::Integer(i64::MAX),
            Value::String("three".into()),
            Value::Boolean(true),
        ] {
            let said = value.to_string();
            let error = refused(&with(&path, value));
            assert!(error.message.starts_with(&format!("`{key}` must be ")), "{name} = {said}: {error}");
            assert_eq!(
                (place(&error), error.to_string().lines().count()),
                (said.as_str(), 1),
                "{name} = {said}: {error}"
            );
            for word in ["u8", "u16", "u32", "u64", "i64", "f64", "usize"] {
                assert!(!error.message.contains(word), "{name} = {said}: {error}");
            }
        }
        // Nothing may be meant, or not: then the same sentence says so, or one that says what it would be nothing of.
        if let Err(error) = Solution::parse(&with(&path, Value::Integer(0)), "t.toml") {
            assert_eq!(error.to_string().lines().count(), 1, "{name} = 0: {error}");
        }
    }
}

#[test]
fn hardware_of_less_than_nothing_is_refused() {
    for (table, key) in [("host", "specint_rate"), ("disk", "random_iops"), ("disk", "capacity_gb")] {
        let path = [table, "[]", key].map(str::to_owned);
        let error = refused(&with(&path, Value::Integer(-100)));
        assert!(error.message.contains("not -100"), "{error}");
    }
}

#[test]
fn a_range_is_told_with_the_value_and_its_line() {
    let text = WHOLE.replace("mailboxes = 1", "mailboxes = 0");
    let error = refused(&text);
    assert_eq!(error.message, "`mailboxes` must be a whole number from 1 to 1,000,000,000, not 0");
    assert_eq!(text.lines().nth(error.line() - 1), Some("mailboxes = 0"));
}

#[test]
fn all_mistakes_of_a_file_are_told_at_once_in_its_order() {
    let text = WHOLE
        .replace("mailboxes = 1", "mailboxes = -1")
        .replace("capacity_gb = 1", "capacity_gb = \"large\"")
        .replace("scope = \"shared\"", "scope = \"hots\"");
    let error = refused(&text);
    let lines: Vec<String> = error.to_string().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 3, "{error}");
    for (line, words) in
        lines.iter().zip(["`mailboxes` must be", "`capacity_gb` must be", "unknown value `hots`"])
    {
        assert!(line.starts_with("t.toml:") && line.contains(words), "{error}");
    }
}

#[test]
fn a_name_that_stands_twice_is_refused_at_its_second_place() {
    for (list, name, more) in [
        ("site", "s", ""),
        ("enclosure", "e", ""),
        ("disk", "d", "capacity_gb = 1"),
        ("pool", "p", "disk = \"d\"\ndisks = 1"),
    ] {
        let text = format!("{WHOLE}\n[[{list}]]\nname = \"{name}\"\n{more}\n");
        let error = refused(&text);
        let first = text.lines().position(|line| line == format!("[[{list}]]")).expect("it is there") + 2;
        assert_eq!(error.message, format!("two [[{list}]] are called `{name}`, the first in line {first}"));
        assert!(error.line() > first && place(&error) == format!("\"{name}\""), "{error}");
    }
    let error = refused(&format!("{WHOLE}\n[[host]]\nname = \"h\"\n"));
    assert_eq!(error.message, "two hosts are called `h`");
}

#[test]
fn wrong_words_and_types_are_told_in_the_words_of_the_file() {
    for (before, after, words) in [
        ("exchange = \"2016\"", "exchange = \"2021\"", "2003, 2007, 2010, 2013, 2016, 2019"),
        ("exchange = \"2016\"", "exchange = 2016", "in quotes"),
        ("name = \"h\"", "name = 5", "must be text in quotes"),
        ("name = \"h\"", "name = \"h\"\ncount = 5000", "from 1 to 4,096, not 5000"),
        ("name = \"h\"", "name = \"h\"\ncount = 5000", "16 hosts of a group at most"),
        ("[dag]", "[dag]\nsymmetric = 1", "must be true or false"),
        ("per_site = [2]", "per_site = 2", "must be a list"),
        ("exchange = \"2016\"\n", "", "`exchange` is missing"),
        ("kind = \"disk_slow\"", "kind = \"meteorite\"", "`meteorite`"),
        ("kind = \"disk_slow\"", "kind = \"disk_fails\"\nduration_s = 3", "no end"),
    ] {
        assert!(WHOLE.contains(before), "{before}");
        let error = refused(&WHOLE.replacen(before, after, 1)).to_string();
        assert!(error.contains(words), "{after}: {words}: {error}");
        for word in ["u32", "u64", "f64", "struct", "enum", "sequence", "boolean"] {
            assert!(!error.contains(word), "{after}: {error}");
        }
    }
    let empty = refused("\n");
    assert!(empty.message.contains("the file is empty") && empty.help.is_some(), "{empty}");
}

#[test]
fn every_number_has_one_row_and_every_row_a_number() {
    let rows: Vec<&str> = solution::ranges::SOLUTION.iter().map(|(key, _)| *key).collect();
    let mut sorted = rows.clone();
    sorted.sort_unstable();
    let known: Vec<String> = every_number().into_keys().collect();
    assert_eq!(sorted, known);
}

#[test]
fn the_documents_give_every_range_as_it_is() {
    let text = include_str!("../../../../docs/solution.md");
    for (path, allowed) in solution::ranges::SOLUTION.iter().filter(|(path, _)| *path != "solution.schema") {
        let words = allowed.words();
        let range = words.split_once("from ").or(words.split_once("number ")).or(words.split_once("one of "));
        let (_, range) = range.expect("it says from where to where");
        // A place in a list has the key of the list, and the operations of a batch stand together.
        let path = if path.starts_with("load.mix.") { "load.mix" } else { path.trim_end_matches(".1") };
        let key = path.rsplit('.').next().unwrap_or(path);
        let told = |line: &str| line.contains(key) && line.contains(range);
        assert!(text.lines().any(told), "{path}: {range}");
    }
}

//! Values that are given beside the solution file, and take the place of those in it.
//!
//! A setting changes the text of the file, so that a run keeps and repeats what was really asked for. A mistake
//! in what a setting brought in is told at the setting, every other mistake at its line of the file as it was.
//!
//! Invariants
//! 1. A setting that changes nothing else than its value leaves every other byte of the text.
//! 2. A path that means no single place is an error, never a guess.

use std::ops::Range;

use toml_edit::{DocumentMut, Item, Key, Table, TableLike, Value};

use crate::error::Mistake;
use crate::setting::{Setting, VARIABLE_PREFIX};
use crate::{locate, ranges};

/// Largest number of paths that a help text lists.
const PATHS_SHOWN: usize = 4;

impl Setting {
    fn wrong(&self, in_value: bool, message: impl Into<String>, help: Option<String>) -> Mistake {
        let span = if in_value { self.value_span() } else { self.name_span() };
        Mistake { message: message.into(), help, span, setting: Some(self.clone()) }
    }

    /// Help for a setting whose path does not exist: paths that end in the same key, best matches first.
    fn did_you_mean(&self, text: &str) -> Option<String> {
        let given: Vec<&str> = self.path().split('.').collect();
        let key = given.last()?;
        let mut paths = Vec::new();
        if let Ok(document) = text.parse::<DocumentMut>() {
            paths_to(key, document.as_table(), "", &mut paths);
        }
        if paths.is_empty() {
            let known = ranges::SOLUTION.iter().map(|(path, _)| *path);
            paths = known.filter(|path| path.rsplit('.').next() == Some(*key)).map(str::to_owned).collect();
        }
        let has_all = |path: &String| given.iter().all(|&key| path.split('.').any(|one| one == key));
        if paths.iter().any(has_all) {
            paths.retain(has_all);
        }
        let written = |path: String| match self.source() {
            "--set" => format!("`{path}`"),
            _ => format!("`{VARIABLE_PREFIX}{}`", path.replace('.', "__").to_uppercase()),
        };
        let mut paths: Vec<String> = paths.into_iter().take(PATHS_SHOWN).map(written).collect();
        let last = paths.pop()?;
        Some(if paths.is_empty() {
            format!("did you mean {last}?")
        } else {
            format!("did you mean {} or {last}?", paths.join(", "))
        })
    }

    /// Value to store for a setting: TOML, or text for a word without quotes.
    fn parsed(&self) -> Result<Value, Mistake> {
        let value = self.value().trim();
        match value.parse::<Value>() {
            Ok(mut parsed) => {
                // What stands around it comes from where it is put.
                parsed.decor_mut().clear();
                Ok(parsed)
            }
            Err(_) if !value.starts_with(['"', '\'', '[', '{']) => Ok(Value::from(value)),
            Err(_) => {
                let help = "write a number, true or false, a word, or text, a list or a table as in TOML";
                Err(self.wrong(true, "this is no value", Some(help.to_owned())))
            }
        }
    }
}

/// Change of a text by one setting.
#[derive(Debug, Clone, PartialEq)]
struct Edit {
    setting: Setting,
    /// Byte range that the setting brought into the new text.
    brought: Range<usize>,
    /// Offset of the value in that range; the key comes before it.
    value_at: usize,
    /// Byte range that was replaced in the old text.
    replaced: usize,
}

/// Text with settings applied, which can translate places back to the original text.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Edited {
    /// Text before all settings.
    pub original: String,
    edits: Vec<Edit>,
}

impl Edited {
    /// Applies the settings in order and returns the new text. A text that is not TOML stays unchanged.
    pub fn apply(original: &str, settings: &[Setting]) -> (String, Result<Edited, Mistake>) {
        let mut edited = Edited { original: original.to_owned(), edits: Vec::new() };
        let mut text = original.to_owned();
        for setting in settings {
            match apply(&text, setting) {
                Ok(Some((new, edit))) => {
                    text = new;
                    edited.edits.push(edit);
                }
                Ok(None) => {}
                Err(mistake) => return (text, Err(mistake)),
            }
        }
        (text, Ok(edited))
    }

    /// Settings, in their order.
    pub fn settings(&self) -> impl Iterator<Item = &Setting> {
        self.edits.iter().map(|edit| &edit.setting)
    }

    /// Mistake at a place of the text with settings, moved to where the user wrote it.
    pub fn told(&self, mistake: Mistake) -> Mistake {
        let mut span = mistake.span.clone();
        for Edit { setting, brought, value_at, replaced } in self.edits.iter().rev() {
            let is_around = span.start < brought.start && span.end > brought.end;
            let is_touched = span.start < brought.end && span.end > brought.start;
            if is_touched && !is_around {
                let is_key = mistake.message.starts_with("unknown key");
                let near = is_key.then(|| setting.did_you_mean(&self.original)).flatten();
                return setting.wrong(span.end > *value_at, mistake.message, near.or(mistake.help));
            }
            let back = |at: usize| if at >= brought.end { at - brought.len() + replaced } else { at };
            span = back(span.start)..back(span.end);
        }
        Mistake { span, ..mistake }
    }
}

/// Text with one setting applied; `None` if the text is not TOML.
fn apply(text: &str, setting: &Setting) -> Result<Option<(String, Edit)>, Mistake> {
    let value = setting.parsed()?;
    let Ok(mut document) = text.parse::<DocumentMut>() else { return Ok(None) };
    let keys = Key::parse(setting.path()).ok().filter(|keys| !keys.is_empty());
    let help = || Some("write the keys with dots between, such as load.sessions".to_owned());
    let keys = keys.ok_or_else(|| setting.wrong(false, "this is no path of a value", help()))?;
    let keys: Vec<&str> = keys.iter().map(Key::get).collect();
    let mut place = String::new();
    put(document.as_table_mut(), &keys, value, &mut place).map_err(|(message, help)| {
        let is_last = place.split('.').count() + 1 == keys.len();
        let near = is_last.then(|| setting.did_you_mean(text)).flatten();
        setting.wrong(false, message, near.or(help))
    })?;
    let new = document.to_string();
    // A table inside a table of one line, which does not exist yet.
    if !locate::locate(&new, &place).exact {
        return Err(setting.wrong(false, format!("`{place}` cannot be set here"), help()));
    }
    let edit = edit(setting, text, &new, &place);
    Ok(Some((new, edit)))
}

/// Message and help for a path that does not exist.
type Astray = (String, Option<String>);

/// Sets a value in a table or below it. Appends its path to `place`.
fn put(table: &mut dyn TableLike, keys: &[&str], value: Value, place: &mut String) -> Result<(), Astray> {
    let Some((key, rest)) = keys.split_first() else { return Ok(()) };
    if !place.is_empty() {
        place.push('.');
    }
    place.push_str(key);
    if rest.is_empty() {
        return match table.get_mut(key) {
            Some(item) if item.is_table_like() => Err((
                format!("`{place}` is a table"),
                Some(format!("set one of its keys: {place}.KEY=VALUE")),
            )),
            Some(item) if is_list_of_tables(item) => {
                let help = format!("set a key of one of them: {place}.0.KEY=VALUE");
                Err((format!("`{place}` is a list of tables"), Some(help)))
            }
            Some(Item::Value(old)) => {
                let decor = old.decor().clone();
                *old = value;
                *old.decor_mut() = decor;
                Ok(())
            }
            _ => {
                table.insert(key, Item::Value(value));
                Ok(())
            }
        };
    }
    let item = table.entry(key).or_insert_with(|| Item::Table(Table::new()));
    if is_list_of_tables(item) {
        return put_in_list(item, rest, value, place);
    }
    match item.as_table_like_mut() {
        Some(inner) => put(inner, rest, value, place),
        None => Err((format!("`{place}` is a value and has no keys"), None)),
    }
}

/// Sets a value in an entry of a list of tables. The first key selects the entry: index from 0, name, or kind.
fn put_in_list(list: &mut Item, keys: &[&str], value: Value, place: &mut String) -> Result<(), Astray> {
    let (entry, rest) = keys.split_first().expect("the path goes on behind a list");
    let mut entries: Vec<&mut dyn TableLike> = match list {
        Item::ArrayOfTables(tables) => tables.iter_mut().map(|table| table as &mut dyn TableLike).collect(),
        Item::Value(Value::Array(values)) => values
            .iter_mut()
            .filter_map(|value| value.as_inline_table_mut().map(|table| table as &mut dyn TableLike))
            .collect(),
        _ => Vec::new(),
    };
    let names = |table: &dyn TableLike| {
        let text = |key: &str| table.get(key).and_then(Item::as_str).map(str::to_owned);
        ["name", "kind"].into_iter().filter_map(text).collect::<Vec<_>>()
    };
    let is_named = |name: &String| name.eq_ignore_ascii_case(entry);
    let meant: Vec<usize> = match entry.parse::<usize>() {
        Ok(number) => (number..entries.len()).take(1).collect(),
        Err(_) => (0..entries.len()).filter(|&n| names(entries[n]).iter().any(is_named)).collect(),
    };
    let &[number] = &meant[..] else {
        let all: Vec<String> =
            entries.iter().enumerate().map(|(n, table)| format!("{n} {}", names(*table).join(" "))).collect();
        let count = if meant.is_empty() { "no entry" } else { "more than one entry" };
        let help = format!("name one by its number: {}", all.join(", "));
        return Err((format!("{count} of `{place}` is called `{entry}`"), Some(help)));
    };
    if rest.is_empty() {
        let help = format!("set one of its keys: {place}.{entry}.KEY=VALUE");
        return Err((format!("`{place}.{entry}` is a table"), Some(help)));
    }
    *place += &format!("[{number}]");
    put(entries.swap_remove(number), rest, value, place)
}

/// Collects the paths of all values below `table`, which is at `at`, that have this key.
fn paths_to(key: &str, table: &dyn TableLike, at: &str, paths: &mut Vec<String>) {
    for (name, item) in table.iter() {
        let path = if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
        if let Some(inner) = item.as_table_like() {
            paths_to(key, inner, &path, paths);
        } else if let Some(entries) = item.as_array_of_tables() {
            let kind = |table: &Table| table.get("kind").and_then(Item::as_str).map(str::to_owned);
            for (number, entry) in entries.iter().enumerate() {
                let own = kind(entry).filter(|own| {
                    entries.iter().filter(|other| kind(other).as_ref() == Some(own)).count() == 1
                });
                let entry_path = format!("{path}.{}", own.unwrap_or_else(|| number.to_string()));
                paths_to(key, entry, &entry_path, paths);
            }
        } else if name == key {
            paths.push(path);
        }
    }
}

fn is_list_of_tables(item: &Item) -> bool {
    match item {
        Item::ArrayOfTables(_) => true,
        Item::Value(Value::Array(values)) => !values.is_empty() && values.iter().all(Value::is_inline_table),
        _ => false,
    }
}

/// Change of the text by a setting: the differing range, extended to the whole value at `place`. A new key comes with
/// its line.
fn edit(setting: &Setting, old: &str, new: &str, place: &str) -> Edit {
    let same = |(one, other): &(u8, u8)| one == other;
    let most = old.len().min(new.len());
    let before = old.bytes().zip(new.bytes()).take_while(same).count();
    let behind = old.bytes().rev().zip(new.bytes().rev()).take(most - before).take_while(same).count();
    let value = locate::locate(new, place).span;
    let mut start = before.min(value.start);
    let end = (new.len() - behind).max(value.end);
    if !locate::locate(old, place).exact {
        start = start.min(new[..value.start].rfind('\n').map_or(0, |newline| newline + 1));
    }
    let replaced = old.len() - start - (new.len() - end);
    Edit { setting: setting.clone(), brought: start..end, value_at: value.start, replaced }
}

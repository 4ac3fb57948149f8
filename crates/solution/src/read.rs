//! Reading a TOML file of ours: its types, the ranges of its numbers, and all that is wrong with either.
//!
//! The reader of types stops at the first value that it cannot take. That value is left out and the rest read
//! again, until all of the file was looked at.

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, Deserializer};

use crate::error::{Misread, MisreadText, Mistake, did_you_mean};
use crate::ranges;
use crate::source::Source;

/// Parses any TOML file of Proofload with the messages of a solution file, and checks the ranges of its numbers.
/// Reports all mistakes that do not hide each other. `file_name` is only for messages.
///
/// # Errors
/// If the text is no such file.
pub fn read_toml<T: DeserializeOwned>(text: &str, file_name: &str, rows: &ranges::Rows) -> crate::Result<T> {
    match read(text, rows) {
        (Some(read), misread) if misread.mistakes.is_empty() => Ok(read),
        (_, misread) => {
            let source = Source::plain(text, file_name);
            Err(source.errors(misread.mistakes.into_iter().map(|misread| misread.mistake).collect()))
        }
    }
}

/// Parsed value of a text with its mistakes; no value only if there is a mistake.
pub(crate) fn read<T: DeserializeOwned>(text: &str, rows: &ranges::Rows) -> (Option<T>, MisreadText) {
    let mut misread = MisreadText::default();
    let mut root = match DeTable::parse(text) {
        Ok(root) => root,
        Err(error) => {
            let mistake = in_our_words(&error, text);
            misread.mistakes.push(Misread { path: String::new(), mistake });
            return (None, misread);
        }
    };
    misread.mistakes = ranges::mistakes(text, root.get_ref(), rows);
    // Tables that lack a value because it was left out here.
    let mut incomplete: Vec<String> = Vec::new();
    loop {
        let error = match T::deserialize(Deserializer::from(root.clone())) {
            Ok(read) => return (Some(read), misread),
            Err(error) => error,
        };
        let mistake = in_our_words(&error, text);
        let left_out = leave_out(root.get_mut(), &mistake.span, "");
        let path = left_out.clone().unwrap_or_default();
        let (in_text, message) = (misread.path_in_text(path.clone()), error.message());
        let is_told = misread.mistakes.iter().any(|known| {
            // A value in a table with a kind is told at the table.
            known.mistake.span == mistake.span
                || (message.starts_with("invalid") && known.path.starts_with(&in_text))
        }) || (message.starts_with("missing field") && incomplete.contains(&path));
        if !is_told {
            misread.mistakes.push(Misread { path: in_text, mistake });
        }
        if left_out.is_none() {
            return (None, misread);
        }
        incomplete.push(path.rsplit_once('.').map_or("", |(table, _)| table).to_owned());
        misread.left_out.extend(left_out.filter(|path| path.ends_with(']')));
    }
}

/// Leaves out the list entry or keyed value at this byte range, so that parsing can go on. Returns its path.
fn leave_out(table: &mut DeTable<'_>, span: &Range<usize>, at: &str) -> Option<String> {
    let is_meant = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
        // A list of tables has the span of its first one.
        DeValue::Array(list) if list.iter().any(|entry| entry.get_ref().is_table()) => false,
        DeValue::Array(list) => value.span() == *span || is_in_list(list, span),
        _ => value.span() == *span,
    };
    let meant = table.iter().find(|(key, value)| key.span() == *span || is_meant(value));
    if let Some(key) = meant.map(|(key, _)| key.clone()) {
        table.remove(&key);
        return Some(below(at, key.get_ref()));
    }
    for (key, value) in table.iter_mut() {
        let path = below(at, key.get_ref());
        let found = match value.get_mut() {
            DeValue::Table(inner) => leave_out(inner, span, &path),
            DeValue::Array(list) => leave_out_of_list(list, span, &path),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

fn leave_out_of_list(list: &mut DeArray<'_>, span: &Range<usize>, at: &str) -> Option<String> {
    if let Some(place) = list.iter().position(|entry| entry.span() == *span) {
        let mut kept = DeArray::new();
        list.iter().enumerate().filter(|(n, _)| *n != place).for_each(|(_, entry)| kept.push(entry.clone()));
        *list = kept;
        return Some(format!("{at}[{place}]"));
    }
    list.iter_mut().enumerate().find_map(|(place, entry)| match entry.get_mut() {
        DeValue::Table(inner) => leave_out(inner, span, &format!("{at}[{place}]")),
        _ => None,
    })
}

/// Whether the byte range belongs to a value in a list without tables, at any depth.
fn is_in_list(list: &DeArray<'_>, span: &Range<usize>) -> bool {
    list.iter().any(|entry| match entry.get_ref() {
        DeValue::Array(inner) => entry.span() == *span || is_in_list(inner, span),
        _ => entry.span() == *span,
    })
}

fn below(at: &str, key: &str) -> String {
    if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") }
}

/// Translates an error of the TOML parser into a mistake of Proofload.
fn in_our_words(error: &toml::de::Error, text: &str) -> Mistake {
    let message = error.message();
    let span = error.span().unwrap_or(0..0);
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let unknown = message.starts_with("unknown field") || message.starts_with("unknown variant");
    let (message, help) = match quoted.split_first() {
        Some((wrong, known)) if unknown => {
            let what = if message.starts_with("unknown field") { "key" } else { "value" };
            let all = || format!("known here: {}", known.join(", "));
            let near = did_you_mean(wrong, known.iter().copied());
            // The nearest number is seldom the one that is meant.
            let near = near.filter(|_| wrong.parse::<f64>().is_err());
            (
                format!("unknown {what} `{wrong}`"),
                Some(near.map_or_else(all, |near| format!("did you mean `{near}`?"))),
            )
        }
        _ if text.trim().is_empty() => {
            ("the file is empty".into(), Some("begin with [solution], its name, and schema = 1".into()))
        }
        Some((missing, _)) if message.starts_with("missing field") => {
            (format!("`{missing}` is missing here"), None)
        }
        _ => (plain(message.lines().next().unwrap_or_default()), None),
    };
    Mistake { message, help, span, setting: None }
}

/// Message about a wrong type, without names of Rust types.
fn plain(message: &str) -> String {
    if message == "wanted string or table" {
        return "this must be one of the known words, in quotes".into();
    }
    let Some((found, wanted)) =
        message.strip_prefix("invalid type: ").and_then(|rest| rest.split_once(", expected "))
    else {
        return message.to_owned();
    };
    let wanted = match wanted {
        "u32" | "u64" => "a whole number of at least 0",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a string" | "string" => "text in quotes",
        "a sequence" => "a list",
        wanted if wanted.starts_with("struct ") => "a table of keys",
        wanted if wanted.starts_with("a tuple of size ") => "a list of fixed length",
        wanted => wanted,
    };
    let found = match found {
        "sequence" => "a list",
        "map" => "a table",
        found => found,
    };
    format!("this must be {wanted}, not {found}")
}

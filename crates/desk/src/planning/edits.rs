//! Changes to a solution file that the page asks for, and what is wrong with them.
//!
//! Invariant: what is not changed keeps every byte, comments included.

use serde::{Deserialize, Serialize};
use solution::{Setting, Solution, SolutionError};
use toml_edit::{ArrayOfTables, Document, DocumentMut, Item, TableLike, Value};

/// New value for one key of the file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// Keys joined by dots; a list entry is its index from 0 (`host.0.cores`).
    pub path: String,
    /// The value; null removes the key, so that its default applies.
    pub value: serde_json::Value,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// Path of the wrong value or table, if it is known.
    pub path: Option<String>,
    /// Line of the file; `None` if an edit is wrong.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// Remedy, if one is known.
    pub help: Option<String>,
}

/// Applies the edits to the text of a solution file.
///
/// # Errors
/// All mistakes in the file and in the edits.
pub fn edited(text: &str, file_name: &str, edits: &[Edit]) -> Result<Solution, Vec<Mistake>> {
    let mut text = text.to_owned();
    let (left_out, set): (Vec<&Edit>, Vec<&Edit>) = edits.iter().partition(|edit| edit.value.is_null());
    if !left_out.is_empty()
        && let Ok(mut document) = text.parse::<DocumentMut>()
    {
        for edit in left_out {
            let keys: Vec<&str> = edit.path.split('.').collect();
            leave_out(document.as_table_mut(), &keys);
        }
        text = document.to_string();
    }
    let settings = set.into_iter().map(setting).collect::<Result<Vec<_>, _>>().map_err(|one| vec![one])?;
    let solution = Solution::parse_with(&text, file_name, &settings).map_err(|error| mistakes(&error))?;
    // From here on nothing but the text counts: what is saved, exported and simulated is what was planned.
    Solution::parse(solution.text(), file_name).map_err(|error| mistakes(&error))
}

/// All mistakes of a solution error, each with the path of the wrong value.
pub fn mistakes(error: &SolutionError) -> Vec<Mistake> {
    let told = error.mistakes().map(|mistake| {
        let line = error.line_of_mistake(&mistake);
        let path = match &mistake.setting {
            Some(setting) => Some(setting.path().to_owned()),
            None => path_at(&error.text, mistake.span.start),
        };
        Mistake { path, line, message: mistake.message, help: mistake.help }
    });
    told.collect()
}

/// The edit as a setting.
fn setting(edit: &Edit) -> Result<Setting, Mistake> {
    let wrong = |message: String| Mistake { path: Some(edit.path.clone()), line: None, message, help: None };
    let is_key = |key: &str| {
        !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    if !edit.path.split('.').all(is_key) {
        return Err(wrong("this is no path of a value".to_owned()));
    }
    let value = toml_value(&edit.value)
        .ok_or_else(|| wrong("a value must be text, a number, true, false, or a list of these".to_owned()))?;
    Setting::of_argument(&format!("{}={value}", edit.path)).map_err(wrong)
}

fn toml_value(value: &serde_json::Value) -> Option<Value> {
    Some(match value {
        serde_json::Value::Bool(value) => Value::from(*value),
        serde_json::Value::String(text) => Value::from(text.as_str()),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(whole) => Value::from(whole),
            None => Value::from(number.as_f64()?),
        },
        serde_json::Value::Array(values) => {
            Value::Array(values.iter().map(toml_value).collect::<Option<_>>()?)
        }
        serde_json::Value::Null | serde_json::Value::Object(_) => return None,
    })
}

/// Removes a key, if it exists, from a table or from a table below it.
fn leave_out(table: &mut dyn TableLike, keys: &[&str]) {
    match keys {
        [] => {}
        [key] => {
            if table.get(key).is_some_and(Item::is_value) {
                table.remove(key);
            }
        }
        [key, rest @ ..] => match table.get_mut(key) {
            Some(Item::ArrayOfTables(entries)) => {
                let number = rest[0].parse().ok();
                if let Some(entry) = number.and_then(|number| entries.get_mut(number)) {
                    leave_out(entry, &rest[1..]);
                }
            }
            Some(inner) => {
                if let Some(inner) = inner.as_table_like_mut() {
                    leave_out(inner, rest);
                }
            }
            None => {}
        },
    }
}

/// Path of the value at byte `at` of a text, or of the table whose header is there.
fn path_at(text: &str, at: usize) -> Option<String> {
    let document = Document::parse(text).ok()?;
    path_in(document.as_table(), "", at)
}

fn path_in(table: &dyn TableLike, path: &str, at: usize) -> Option<String> {
    table.iter().find_map(|(key, item)| {
        let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        let is_here = item.span().is_some_and(|span| span.contains(&at));
        if let Some(entries) = item.as_array_of_tables() {
            return path_in_list(entries, &path, at);
        }
        let below = item.as_table_like().and_then(|inner| path_in(inner, &path, at));
        below.or_else(|| is_here.then_some(path))
    })
}

fn path_in_list(entries: &ArrayOfTables, path: &str, at: usize) -> Option<String> {
    entries.iter().enumerate().find_map(|(number, entry)| {
        let path = format!("{path}.{number}");
        let is_here = entry.span().is_some_and(|span| span.contains(&at));
        path_in(entry, &path, at).or_else(|| is_here.then_some(path))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use testkit::claims::HONEST;

    use super::*;

    fn edit(path: &str, value: serde_json::Value) -> Edit {
        Edit { path: path.to_owned(), value }
    }

    fn paths(edits: &[Edit]) -> Vec<Option<String>> {
        let mistakes = edited(HONEST, "s.toml", edits).expect_err("something is wrong");
        mistakes.into_iter().map(|mistake| mistake.path).collect()
    }

    #[test]
    fn edits_change_their_values_and_keep_every_other_byte() {
        let text = HONEST.replacen("mailboxes = 400", "mailboxes = 400 # as ordered", 1);
        let edits = [
            edit("profile.mailboxes", json!(300)),
            edit("profile.headroom_percent", json!(20.5)),
            edit("solution.name", json!("It's \"new\" = #1")),
        ];
        let solution = edited(&text, "s.toml", &edits).expect("it is valid");
        assert_eq!(solution.users().expect("users").mailboxes, 300);
        assert_eq!(solution.name, "It's \"new\" = #1");
        assert!(solution.text().contains("mailboxes = 300 # as ordered"), "{}", solution.text());
        let is_edited =
            |line: &&str| ["mailboxes", "headroom", "name = "].iter().any(|key| line.contains(key));
        let rest =
            |text: &str| text.lines().filter(|line| !is_edited(line)).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(rest(solution.text()), rest(&text));
        assert_eq!(solution.settings().count(), 0, "the edits are the file's own values");
    }

    #[test]
    fn an_edit_without_a_value_leaves_the_key_out() {
        let solution = edited(HONEST, "s.toml", &[edit("dag.databases", json!(null))]).expect("it is valid");
        assert_eq!(solution.databases, None);
        let same = edited(HONEST, "s.toml", &[edit("dag.no_such_key", json!(null))]).expect("it is valid");
        assert_eq!(same.text(), HONEST);
    }

    #[test]
    fn mistakes_name_the_value_that_is_meant() {
        let named = |path: &str| vec![Some(path.to_owned())];
        assert_eq!(paths(&[edit("profile.mailboxes", json!("many"))]), named("profile.mailboxes"));
        assert_eq!(paths(&[edit("profile.mailboxes", json!(-1))]), named("profile.mailboxes"));
        assert_eq!(paths(&[edit("profile.mailboxen", json!(1))]), named("profile.mailboxen"));
        assert_eq!(paths(&[edit("profile.mailboxes", json!({ "a": 1 }))]), named("profile.mailboxes"));
        assert_eq!(paths(&[edit("host.99.cores", json!(1))]), named("host.99.cores"));
        for path in ["", "profile..a", "a=b", "profile.\"a\"", "a b"] {
            assert_eq!(paths(&[edit(path, json!(1))]), named(path), "{path}");
        }
        let text = HONEST.replacen("mailboxes = 400", "mailboxes = 0", 1);
        let mistakes = edited(&text, "s.toml", &[]).expect_err("no mailboxes");
        assert_eq!(mistakes[0].path.as_deref(), Some("profile.mailboxes"), "{mistakes:?}");
        assert!(mistakes[0].line.is_some());
        let mistakes = edited("[solution\n", "s.toml", &[]).expect_err("no TOML");
        assert_eq!((mistakes[0].path.as_deref(), mistakes[0].line), (None, Some(1)), "{mistakes:?}");
    }
}

//! A value that is given beside the solution file, as it was written.

use std::ops::Range;

/// How the name of an environment variable begins that is a setting.
pub const VARIABLE_PREFIX: &str = "PROOFLOAD_SET_";
const OPTION: &str = "--set ";

/// A value at a path, as it was given: `--set load.sessions=8`, or `PROOFLOAD_SET_LOAD__SESSIONS=8`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// All of it, for messages.
    text: String,
    /// Segments of its path with dots between.
    path: String,
    /// Where its value begins in `text`.
    value_at: usize,
}

impl Setting {
    /// A setting of the command line: `KEY=VALUE`, where the key is a path with dots.
    ///
    /// # Errors
    /// It has no value.
    pub fn of_argument(argument: &str) -> Result<Setting, String> {
        match argument.split_once('=') {
            Some((path, value)) if !path.trim().is_empty() => {
                Ok(Setting::new(format!("{OPTION}{path}="), path.trim().to_owned(), value))
            }
            _ => Err("write KEY=VALUE, such as load.sessions=8".to_owned()),
        }
    }

    /// A setting of an environment variable, if its name begins like one. The rest of the name is the path:
    /// `__` stands for a dot, and capitals for small letters.
    pub fn of_variable(name: &str, value: &str) -> Option<Setting> {
        let rest = name.strip_prefix(VARIABLE_PREFIX)?;
        Some(Setting::new(format!("{name}="), rest.replace("__", ".").to_lowercase(), value))
    }

    fn new(head: String, path: String, value: &str) -> Setting {
        Setting { value_at: head.len(), text: head + value, path }
    }

    /// As it was given, with its name: what a message quotes.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Path of the value that it sets.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The value as it was given.
    pub fn value(&self) -> &str {
        &self.text[self.value_at..]
    }

    /// What it was given by: `--set`, or the name of the variable.
    pub fn source(&self) -> &str {
        if self.text.starts_with(OPTION) { OPTION.trim() } else { &self.text[..self.value_at - 1] }
    }

    /// Bytes of the text that are its name.
    pub(crate) fn name_span(&self) -> Range<usize> {
        let start = if self.text.starts_with(OPTION) { OPTION.len() } else { 0 };
        start..self.value_at.saturating_sub(1)
    }

    /// Bytes of the text that are its value.
    pub(crate) fn value_span(&self) -> Range<usize> {
        self.value_at..self.text.len()
    }
}

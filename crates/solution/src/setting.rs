//! A value that is given beside the solution file, as it was written.

use std::ops::Range;

/// Prefix of environment variables that are settings.
pub const VARIABLE_PREFIX: &str = "PROOFLOAD_SET_";
const OPTION: &str = "--set ";

/// Setting of a value, as given: `--set load.sessions=8`, or `PROOFLOAD_SET_LOAD__SESSIONS=8`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Whole setting, for messages.
    text: String,
    /// Keys of its path.
    path: String,
    /// Offset of its value in `text`.
    value_at: usize,
}

impl Setting {
    /// Parses a setting of the command line: `KEY=VALUE`, where the key is a path with dots.
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

    /// Parses a setting from an environment variable with the prefix. The rest of its name is the path: `__` stands
    /// for a dot, capitals for small letters.
    pub fn of_variable(name: &str, value: &str) -> Option<Setting> {
        let rest = name.strip_prefix(VARIABLE_PREFIX)?;
        Some(Setting::new(format!("{name}="), rest.replace("__", ".").to_lowercase(), value))
    }

    fn new(head: String, path: String, value: &str) -> Setting {
        Setting { value_at: head.len(), text: head + value, path }
    }

    /// Setting as given, for quotation in messages.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Path of the value that the setting replaces.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Value of the setting, as given.
    pub fn value(&self) -> &str {
        &self.text[self.value_at..]
    }

    /// Source of the setting: `--set`, or the name of the variable.
    pub fn source(&self) -> &str {
        if self.text.starts_with(OPTION) { OPTION.trim() } else { &self.text[..self.value_at - 1] }
    }

    /// Byte range of the name in the setting.
    pub(crate) fn name_span(&self) -> Range<usize> {
        let start = if self.text.starts_with(OPTION) { OPTION.len() } else { 0 };
        start..self.value_at.saturating_sub(1)
    }

    /// Byte range of the value in the setting.
    pub(crate) fn value_span(&self) -> Range<usize> {
        self.value_at..self.text.len()
    }
}

//! The text of a solution file, and everything that is wrong with it, told at once.

use crate::error::{Checked, MisreadText, Mistake, Wrong};
use crate::settings::Edited;
use crate::{Setting, SolutionError, locate};

/// Text of a file with its name, for messages.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Source {
    /// Text with the settings applied.
    pub text: String,
    pub file_name: String,
    /// Settings; `None` if there are none.
    edited: Option<Edited>,
}

impl Source {
    /// Creates a source without settings.
    pub fn plain(text: &str, file_name: &str) -> Source {
        Source { text: text.to_owned(), file_name: file_name.to_owned(), edited: None }
    }

    /// Creates a source with settings applied.
    pub fn with(text: &str, file_name: &str, settings: &[Setting]) -> crate::Result<Source> {
        let plain = Source::plain(text, file_name);
        if settings.is_empty() {
            return Ok(plain);
        }
        match Edited::apply(text, settings) {
            (text, Ok(edited)) => Ok(Source { text, edited: Some(edited), ..plain }),
            (_, Err(mistake)) => Err(plain.errors(vec![mistake])),
        }
    }

    /// Settings, in their order.
    pub fn settings(&self) -> impl Iterator<Item = &Setting> {
        self.edited.iter().flat_map(Edited::settings)
    }

    /// Error at the value at `path`, or at its nearest table if the file leaves the value out.
    pub fn error(&self, wrong: Wrong) -> Box<SolutionError> {
        self.errors(vec![self.mistake(wrong)])
    }

    fn mistake(&self, Wrong { path, message, help }: Wrong) -> Mistake {
        Mistake { message, help, span: locate::locate(&self.text, &path).span, setting: None }
    }

    /// Error with all these mistakes in the order of the text; at least one.
    pub fn errors(&self, mut mistakes: Vec<Mistake>) -> Box<SolutionError> {
        mistakes.sort_by_key(|mistake| mistake.span.start);
        let told = |mistake| match &self.edited {
            Some(edited) => edited.told(mistake),
            None => mistake,
        };
        let mut mistakes = mistakes.into_iter().map(told);
        let Mistake { message, help, span, setting } = mistakes.next().unwrap_or_default();
        Box::new(SolutionError {
            message,
            help,
            span,
            setting,
            others: mistakes.collect(),
            file_name: self.file_name.clone(),
            text: self.edited.as_ref().map_or(&self.text, |edited| &edited.original).clone(),
        })
    }
}

/// Collector of the mistakes of a file.
///
/// A mistake hides others: what was misread in an entry says nothing about the rest of it, and a table of names
/// that is wrong says nothing about those who use the names ([`Mistakes::names_are_known`]), the other tables
/// of names among them.
pub(crate) struct Mistakes<'a> {
    source: &'a Source,
    read: MisreadText,
    found: Vec<Wrong>,
}

/// Tables that define names for others, and the one that selects those under test.
const NAMES: [&str; 7] = ["site", "enclosure", "host", "disk", "pool", "volume", "under_test"];

impl<'a> Mistakes<'a> {
    pub fn new(source: &'a Source, read: MisreadText) -> Mistakes<'a> {
        Mistakes { source, read, found: Vec::new() }
    }

    /// Adds a mistake, one for each place, because a mistake on one host repeats on the next.
    pub fn add(&mut self, wrong: Wrong) {
        if !self.found.iter().any(|known| known.path == wrong.path) {
            self.found.push(wrong);
        }
    }

    /// Returns the value, or adds its mistake and returns `None`.
    pub fn keep<T>(&mut self, checked: Checked<T>) -> Option<T> {
        checked.map_err(|wrong| self.add(wrong)).ok()
    }

    /// Whether a part of a table was misread, so that a missing part may only be wrong.
    pub fn is_misread(&self, table: &str) -> bool {
        self.read.mistakes.iter().any(|misread| table_of(&misread.path) == table)
    }

    /// Whether every table that defines names is right so far.
    pub fn names_are_known(&self) -> bool {
        let paths = self.read.mistakes.iter().map(|misread| &misread.path);
        let mut tables = paths.chain(self.found.iter().map(|wrong| &wrong.path)).map(|path| table_of(path));
        !tables.any(|table| NAMES.contains(&table))
    }

    /// Returns the value if there is no mistake, else the error with all of them.
    pub fn told<T>(self, value: Option<T>) -> crate::Result<T> {
        let Mistakes { source, read, found } = self;
        let names_are_misread = read.mistakes.iter().any(|misread| NAMES.contains(&table_of(&misread.path)));
        let is_hidden = |wrong: &Wrong| {
            (names_are_misread && NAMES.contains(&table_of(&wrong.path)))
                || read.mistakes.iter().any(|misread| entry_of(&misread.path) == entry_of(&wrong.path))
        };
        let found = found.into_iter().map(|wrong| Wrong { path: read.path_in_text(wrong.path), ..wrong });
        let found: Vec<Wrong> = found.filter(|wrong| !is_hidden(wrong)).collect();
        match value {
            Some(value) if read.mistakes.is_empty() && found.is_empty() => Ok(value),
            _ => {
                let read = read.mistakes.into_iter().map(|misread| misread.mistake);
                let found = found.into_iter().map(|wrong| source.mistake(wrong));
                Err(source.errors(read.chain(found).collect()))
            }
        }
    }
}

/// Entry that contains a path: `host[2]`, or `load`.
fn entry_of(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

/// Table that contains a path: `host`, or `load`.
fn table_of(path: &str) -> &str {
    path.split(['.', '[']).next().unwrap_or(path)
}

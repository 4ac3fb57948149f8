//! What is wrong with a solution file, and where.

use std::fmt;
use std::ops::Range;

use crate::setting::Setting;

/// Mistake of a file besides the first one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mistake {
    /// Description of the mistake, one sentence.
    pub message: String,
    /// Remedy, if known.
    pub help: Option<String>,
    /// Byte range of the mistake: in the setting, if there is one, else in the file.
    pub span: Range<usize>,
    /// Setting that contains the mistake; `None` if the file does.
    pub setting: Option<Setting>,
}

/// Mistake in the value at a path (`host[2].name`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub path: String,
    pub message: String,
    pub help: Option<String>,
}

/// Result of a check that knows paths and not the text of the file.
pub(crate) type Checked<T> = std::result::Result<T, Wrong>;

impl Wrong {
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Wrong {
        Wrong { path: path.into(), message: message.into(), help: None }
    }

    pub fn help(self, help: impl Into<String>) -> Wrong {
        Wrong { help: Some(help.into()), ..self }
    }

    /// Mistake about a name that is not defined.
    pub fn unknown_name<'a>(
        what: &str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
        path: impl Into<String>,
    ) -> Wrong {
        let known: Vec<&str> = known.into_iter().collect();
        let near = did_you_mean(name, known.iter().copied());
        let few = || format!("known: {}", known[..known.len().min(12)].join(", "));
        let help = near.map(|near| format!("did you mean `{near}`?"));
        let help = help.or_else(|| (!known.is_empty()).then(few));
        Wrong { help, ..Wrong::new(path, format!("no {what} is called `{name}`")) }
    }
}

/// Error of a solution file: a sentence, the place in the file, and a remedy.
///
/// The text of the file is carried along so that a terminal can underline the place without reading the file again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SolutionError {
    /// Description of the first mistake, one sentence.
    pub message: String,
    /// Remedy, if known.
    pub help: Option<String>,
    /// Byte range of the mistake: in `setting`, if there is one, else in `text`.
    pub span: Range<usize>,
    /// Setting that contains the mistake; `None` if the file does.
    pub setting: Option<Setting>,
    /// Other mistakes of the file, in its order, as far as the first one does not hide them.
    pub others: Vec<Mistake>,
    /// Name of the file, as given to [`crate::Solution::parse`].
    pub file_name: String,
    /// Text of the whole file.
    pub text: String,
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Box<SolutionError>>;

impl SolutionError {
    /// Line of the first mistake, from 1.
    pub fn line(&self) -> usize {
        self.line_of(&self.span)
    }

    /// All mistakes, in the order of the file.
    pub fn mistakes(&self) -> impl Iterator<Item = Mistake> {
        let SolutionError { message, help, span, setting, .. } = self.clone();
        std::iter::once(Mistake { message, help, span, setting }).chain(self.others.iter().cloned())
    }

    /// Line of a mistake in the file, from 1; `None` for a mistake in a setting.
    pub fn line_of_mistake(&self, mistake: &Mistake) -> Option<usize> {
        mistake.setting.is_none().then(|| self.line_of(&mistake.span))
    }

    fn line_of(&self, span: &Range<usize>) -> usize {
        let start = span.start.min(self.text.len());
        1 + self.text.as_bytes()[..start].iter().filter(|&&byte| byte == b'\n').count()
    }
}

/// Displays one line for each mistake.
impl fmt::Display for SolutionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, mistake) in self.mistakes().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            match &mistake.setting {
                Some(setting) => write!(f, "{}", setting.text())?,
                None => write!(f, "{}:{}", self.file_name, self.line_of(&mistake.span))?,
            }
            write!(f, ": {}", mistake.message)?;
            if let Some(help) = &mistake.help {
                write!(f, " ({help})")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for SolutionError {}

/// Known name that is nearest to a misspelt one, if it is near enough.
pub fn did_you_mean<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = 1 + wrong.chars().count() / 3;
    known
        .into_iter()
        .map(|name| (strsim::levenshtein(wrong, name), name))
        .min()
        .filter(|&(distance, _)| distance <= limit)
        .map(|(_, name)| name)
}

/// Mistake found while the text was parsed.
#[derive(Debug, Clone)]
pub(crate) struct Misread {
    /// Path of the wrong value; empty for the text as a whole.
    pub path: String,
    pub mistake: Mistake,
}

/// Mistakes of a text found while it was parsed.
#[derive(Debug, Default)]
pub(crate) struct MisreadText {
    pub mistakes: Vec<Misread>,
    /// List entries that were left out, in order; entries behind them have moved up.
    pub left_out: Vec<String>,
}

impl MisreadText {
    /// Path in the text of a value, given its path after entries were left out.
    pub fn path_in_text(&self, path: String) -> String {
        let moved_back = |path: String, left_out: &String| {
            let Some((list, place)) = left_out.strip_suffix(']').and_then(|entry| entry.rsplit_once('['))
            else {
                return path;
            };
            let rest = path.strip_prefix(list).and_then(|rest| rest.strip_prefix('['));
            let Some((number, rest)) = rest.and_then(|rest| rest.split_once(']')) else { return path };
            match (number.parse::<usize>(), place.parse::<usize>()) {
                (Ok(number), Ok(place)) if number >= place => format!("{list}[{}]{rest}", number + 1),
                _ => path,
            }
        };
        self.left_out.iter().rev().fold(path, moved_back)
    }
}

//! What is wrong with a solution file, and where.

use std::fmt;
use std::ops::Range;

/// A mistake beside the first one of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mistake {
    /// One sentence in the words of the field.
    pub message: String,
    /// What to write instead, where that is known.
    pub help: Option<String>,
    /// Bytes of the text that are meant.
    pub span: Range<usize>,
}

/// What is wrong with the value at a path (`host[2].name`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub path: String,
    pub message: String,
    pub help: Option<String>,
}

/// Result of a rule of this crate, which knows paths and not the text.
pub(crate) type Checked<T> = std::result::Result<T, Wrong>;

impl Wrong {
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Wrong {
        Wrong { path: path.into(), message: message.into(), help: None }
    }

    pub fn help(self, help: impl Into<String>) -> Wrong {
        Wrong { help: Some(help.into()), ..self }
    }

    /// About a name that nothing has.
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

/// A wish that cannot be granted: one sentence, the place in the file that asks for it, and what to do instead.
///
/// The text of the file is carried along so that a terminal can underline the place without reading the file again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SolutionError {
    /// One sentence in the words of the field.
    pub message: String,
    /// What to write instead, where that is known.
    pub help: Option<String>,
    /// Bytes of `text` that ask for it.
    pub span: Range<usize>,
    /// What else is wrong with the file, in its order, where that can be told at once.
    pub others: Vec<Mistake>,
    /// Name of the file, as given to [`crate::Solution::parse`].
    pub file_name: String,
    /// The whole file.
    pub text: String,
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Box<SolutionError>>;

impl SolutionError {
    /// The line of the place, counted from 1.
    pub fn line(&self) -> usize {
        self.line_of(&self.span)
    }

    /// Line, message and help of everything that is wrong, in the order of the file.
    pub fn mistakes(&self) -> Vec<(usize, String, Option<String>)> {
        let first = (&self.span, &self.message, &self.help);
        let others = self.others.iter().map(|other| (&other.span, &other.message, &other.help));
        let all = std::iter::once(first).chain(others);
        all.map(|(span, message, help)| (self.line_of(span), message.clone(), help.clone())).collect()
    }

    fn line_of(&self, span: &Range<usize>) -> usize {
        let start = span.start.min(self.text.len());
        1 + self.text.as_bytes()[..start].iter().filter(|&&byte| byte == b'\n').count()
    }

    fn write(
        &self,
        f: &mut fmt::Formatter<'_>,
        (span, message, help): (&Range<usize>, &str, Option<&String>),
    ) -> fmt::Result {
        write!(f, "{}:{}: {message}", self.file_name, self.line_of(span))?;
        match help {
            Some(help) => write!(f, " ({help})"),
            None => Ok(()),
        }
    }
}

/// One line for each mistake.
impl fmt::Display for SolutionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, (&self.span, &self.message, self.help.as_ref()))?;
        self.others.iter().try_for_each(|other| {
            writeln!(f)?;
            self.write(f, (&other.span, &other.message, other.help.as_ref()))
        })
    }
}

impl std::error::Error for SolutionError {}

/// The known name nearest to a misspelt one, if it is near enough to be meant.
pub fn did_you_mean<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = 1 + wrong.chars().count() / 3;
    known
        .into_iter()
        .map(|name| (strsim::levenshtein(wrong, name), name))
        .min()
        .filter(|&(distance, _)| distance <= limit)
        .map(|(_, name)| name)
}

/// A mistake that was found while reading.
#[derive(Debug, Clone)]
pub(crate) struct Misread {
    /// Path of what is wrong; empty when it is the text as a whole.
    pub path: String,
    pub mistake: Mistake,
}

/// What is wrong with a text as it was read.
#[derive(Debug, Default)]
pub(crate) struct MisreadText {
    pub mistakes: Vec<Misread>,
    /// Entries of lists that were left out, one after the other: those behind them have moved up.
    pub left_out: Vec<String>,
}

impl MisreadText {
    /// The path in the text of what has this path in what was read.
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

//! How a command ends: a status, or one story with the cause and the remedy.

use std::process::ExitCode;

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};
use solution::SolutionError;

use crate::output::printable;

/// A command that ran to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Everything asked for holds.
    Pass,
    /// A verdict or a check failed.
    VerdictFail,
    /// Ended early on request; what was measured is kept.
    Interrupted,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> ExitCode {
        match status {
            Status::Pass => ExitCode::from(0),
            Status::VerdictFail => ExitCode::from(1),
            Status::Interrupted => ExitCode::from(4),
        }
    }
}

/// A command that could not do what it was asked to.
#[derive(Debug)]
pub struct Failure {
    exit: u8,
    message: String,
    cause: Option<String>,
    help: Option<String>,
    place: Option<Box<Place>>,
}

#[derive(Debug)]
struct Place {
    source: NamedSource<String>,
    span: LabeledSpan,
}

impl Failure {
    /// The input asks for what cannot be: exit status 2.
    pub fn wrong_input(message: impl Into<String>) -> Failure {
        Failure { exit: 2, message: message.into(), cause: None, help: None, place: None }
    }

    /// The input is fine, the surroundings are not: exit status 3.
    pub fn could_not_run(message: impl Into<String>) -> Failure {
        Failure { exit: 3, ..Failure::wrong_input(message) }
    }

    /// Adds what the system said.
    pub fn because(mut self, cause: impl ToString) -> Failure {
        self.cause = Some(cause.to_string());
        self
    }

    /// Adds what to do about it.
    pub fn help(mut self, help: impl Into<String>) -> Failure {
        self.help = Some(help.into());
        self
    }

    /// The story in one line, for someone on another host.
    pub fn line(&self) -> String {
        match &self.help {
            Some(help) => format!("{self} ({help})"),
            None => self.to_string(),
        }
    }

    /// Prints the story on stderr and gives the exit status.
    pub fn tell(mut self) -> ExitCode {
        let exit = ExitCode::from(self.exit);
        // Causes quote what files say.
        self.message = printable(&self.message);
        self.cause = self.cause.as_deref().map(printable);
        self.help = self.help.as_deref().map(printable);
        eprintln!("{:?}", miette::Report::new(self));
        exit
    }
}

impl From<Box<SolutionError>> for Failure {
    fn from(error: Box<SolutionError>) -> Failure {
        let SolutionError { message, help, span, file_name, text } = *error;
        let place = Place {
            source: NamedSource::new(printable(&file_name), harmless(&text)).with_language("toml"),
            span: LabeledSpan::new_with_span(Some("asked for here".into()), span),
        };
        Failure { help, place: Some(Box::new(place)), ..Failure::wrong_input(message) }
    }
}

/// A source text in which nothing acts on the terminal, with every byte in its place.
fn harmless(text: &str) -> String {
    let change = |c: char| match c {
        '\n' | '\t' | '\r' => c,
        // Control characters beyond ASCII take two bytes, and so does this.
        c if c.is_control() => {
            if c.is_ascii() {
                '?'
            } else {
                '¿'
            }
        }
        c => c,
    };
    text.chars().map(change).collect()
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.cause {
            Some(cause) => write!(f, "{}: {cause}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Failure {}

impl Diagnostic for Failure {
    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn std::fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.place.as_ref().map(|place| &place.source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.place.as_ref().map(|place| Box::new(std::iter::once(place.span.clone())) as Box<_>)
    }
}

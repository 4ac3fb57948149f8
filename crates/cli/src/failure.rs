//! How a command ends: a status, or one story with the cause and the remedy. What each exit status means:
//! docs/verdict.md.

use std::process::ExitCode;

use annotate_snippets::{AnnotationKind, Element, Level, Renderer, Snippet};
use campaign::choice::ChoiceError;
use evidence::KeyError;
use evidence::folder::{FolderError, NewRunError};
use runner::crash_test::Unproved;
use runner::{PreflightError, RunError};
use simulation::WishError;
use solution::{Mistake, SolutionError};

use crate::output::printable;

/// Outcome of a command that could do its work; it decides the exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Everything that was asked for holds: exit status 0.
    Pass = 0,
    /// A limit is broken, a check failed, or what was asked for is not shown: exit status 1.
    VerdictFail = 1,
    /// Ended early on request, with what was measured kept.
    Interrupted = 4,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> ExitCode {
        ExitCode::from(status as u8)
    }
}

/// A command that could not do its work: exit status, message, remedy, place in a file.
#[derive(Debug)]
pub struct Failure {
    exit: u8,
    message: String,
    cause: Option<String>,
    help: Option<String>,
    place: Option<Box<FileMistakes>>,
}

/// A file with its mistakes, or a setting with one, as the place of a failure.
#[derive(Debug)]
struct FileMistakes {
    file_name: String,
    text: String,
    mistakes: Vec<Mistake>,
}

impl FileMistakes {
    /// The lines of the file, or the setting, around the mistake, marked as compilers do.
    fn shown<'a>(&'a self, mistake: &'a Mistake) -> Element<'a> {
        let span = AnnotationKind::Primary.span(mistake.span.clone()).label("asked for here");
        Element::from(match &mistake.setting {
            Some(setting) => Snippet::source(setting.text()).line_start(1).annotation(span),
            None => Snippet::source(&self.text).path(&self.file_name).annotation(span),
        })
    }
}

impl Failure {
    /// The input asks for what cannot be: exit status 2.
    pub fn wrong_input(message: impl Into<String>) -> Failure {
        Failure { exit: 2, message: message.into(), cause: None, help: None, place: None }
    }

    /// Failure of a judgement whose input does not show the answer: exit status 1.
    pub fn not_shown(message: impl Into<String>) -> Failure {
        Failure { exit: 1, ..Failure::wrong_input(message) }
    }

    /// The input is fine, the surroundings are not: exit status 3.
    pub fn could_not_run(message: impl Into<String>) -> Failure {
        Failure { exit: 3, ..Failure::wrong_input(message) }
    }

    /// Adds the error of the system.
    pub fn because(mut self, cause: impl ToString) -> Failure {
        self.cause = Some(cause.to_string());
        self
    }

    /// Adds the remedy.
    pub fn help(mut self, help: impl Into<String>) -> Failure {
        self.help = Some(help.into());
        self
    }

    /// Adds the remedy, where one is known.
    fn helped(mut self, help: Option<&str>) -> Failure {
        self.help = help.map(str::to_owned);
        self
    }

    /// The exit status.
    #[cfg(test)]
    pub fn exit(&self) -> u8 {
        self.exit
    }

    /// The remedy, if it has one.
    pub fn remedy(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// Line of the file with the mistake, from 1.
    pub fn place_line(&self) -> Option<usize> {
        let place = self.place.as_ref()?;
        let mistake = place.mistakes.first().filter(|mistake| mistake.setting.is_none())?;
        let before = place.text.get(..mistake.span.start)?;
        Some(1 + before.matches('\n').count())
    }

    /// Prints message, place and remedy on stderr and gives the exit status.
    pub fn tell(self) -> ExitCode {
        // Causes quote what files say.
        let mistakes = self.place.iter().flat_map(|place| place.mistakes.iter().map(move |one| (place, one)));
        let first = mistakes.clone().next().map(|(place, mistake)| place.shown(mistake));
        tell_story(&self.to_string(), first, self.help.as_deref());
        for (place, other) in mistakes.skip(1) {
            tell_story(&other.message, Some(place.shown(other)), other.help.as_deref());
        }
        ExitCode::from(self.exit)
    }
}

fn tell_story(title: &str, place: Option<Element<'_>>, help: Option<&str>) {
    crate::output::error(title, help, || {
        let help = help.map(|help| Level::HELP.message(printable(help)).into());
        let story = Level::ERROR.primary_title(printable(title)).elements(place.into_iter().chain(help));
        Renderer::styled().render(&[story])
    });
}

impl From<Box<SolutionError>> for Failure {
    fn from(error: Box<SolutionError>) -> Failure {
        let mistakes = error.mistakes().collect();
        let SolutionError { message, help, file_name, text, .. } = *error;
        let place = FileMistakes { file_name: printable(&file_name), text: harmless(&text), mistakes };
        Failure { help, place: Some(Box::new(place)), ..Failure::wrong_input(message) }
    }
}

impl From<WishError> for Failure {
    fn from(error: WishError) -> Failure {
        match error {
            WishError::Solution(error) => error.into(),
            error => Failure::wrong_input(error.to_string()).helped(error.help()),
        }
    }
}

impl From<ChoiceError> for Failure {
    fn from(error: ChoiceError) -> Failure {
        Failure::wrong_input(error.to_string()).help(error.help())
    }
}

impl From<FolderError> for Failure {
    fn from(error: FolderError) -> Failure {
        Failure::could_not_run(error.to_string()).help(error.help())
    }
}

impl From<PreflightError> for Failure {
    fn from(error: PreflightError) -> Failure {
        let failure = match &error {
            PreflightError::Nothing => Failure::wrong_input(error.to_string()),
            PreflightError::Folder(_) | PreflightError::Mount(_) => Failure::could_not_run(error.to_string()),
        };
        failure.helped(error.help())
    }
}

impl From<NewRunError> for Failure {
    fn from(error: NewRunError) -> Failure {
        Failure::could_not_run(error.to_string())
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        Failure::could_not_run(error.to_string())
    }
}

impl From<Unproved> for Failure {
    fn from(error: Unproved) -> Failure {
        let message = error.to_string();
        let failure = if error.is_wrong_input() {
            Failure::wrong_input(message)
        } else {
            Failure::could_not_run(message)
        };
        failure.helped(error.help())
    }
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Failure {
        Failure::wrong_input("cannot use the key").because(&error).help(error.help())
    }
}

#[cfg(feature = "fleet")]
impl From<fleet::credentials::CredentialsError> for Failure {
    fn from(error: fleet::credentials::CredentialsError) -> Failure {
        Failure::wrong_input(error.to_string()).help(error.help())
    }
}

#[cfg(feature = "fleet")]
impl From<fleet::controller::ControllerError> for Failure {
    fn from(error: fleet::controller::ControllerError) -> Failure {
        use fleet::controller::ControllerError::{Folder, NotTheController};
        let failure = match &error {
            Folder { .. } | NotTheController(_) => Failure::wrong_input(error.to_string()),
            _ => Failure::could_not_run(error.to_string()),
        };
        failure.help(error.help())
    }
}

#[cfg(feature = "fleet")]
impl From<fleet::agent::AgentError> for Failure {
    fn from(error: fleet::agent::AgentError) -> Failure {
        let failure = match &error {
            fleet::agent::AgentError::NotAHost => Failure::wrong_input(error.to_string()),
            _ => Failure::could_not_run(error.to_string()),
        };
        failure.help(error.help())
    }
}

#[cfg(feature = "fleet")]
impl From<fleet::choice::FleetTestsError> for Failure {
    fn from(error: fleet::choice::FleetTestsError) -> Failure {
        match error {
            fleet::choice::FleetTestsError::Solution(error) => error.into(),
            error => Failure::wrong_input(error.to_string()).helped(error.help()),
        }
    }
}

/// A source text with its control characters replaced by as many bytes, so that nothing in it acts on the terminal.
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

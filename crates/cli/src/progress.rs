//! `--progress`: how far a command is, on stderr. One line that rewrites itself on a terminal, plain lines elsewhere,
//! or events in JSON.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use campaign::progress::{Progress, Watcher};
use evidence::report::iso_8601;
use review::progress::{Pacer, Told};

use crate::output;

/// How a command that runs long shows how far it is.
#[derive(Default, clap::Args)]
pub struct ProgressArguments {
    /// How to show progress on stderr.
    #[arg(long, value_name = "FORM", value_enum, default_value_t)]
    progress: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum Form {
    /// A line that rewrites itself on a terminal, plain lines elsewhere.
    #[default]
    Auto,
    /// Lines with the time of day: after the first five, at most one a minute.
    Plain,
    /// Everything on stderr as JSON, one object a line (`proofload schema progress`).
    Json,
    /// No progress; messages stay.
    None,
}

impl ProgressArguments {
    /// A progress meter in the form that `--progress` asks for; from now on messages have that form, too.
    pub fn meter(&self) -> Meter {
        let form = match self.progress {
            _ if output::is_quiet() => Form::None,
            Form::Auto if !std::io::stderr().is_terminal() => Form::Plain,
            form => form,
        };
        if form == Form::Json {
            output::as_events();
        }
        Meter { form, pacer: Pacer::default(), begun: Instant::now(), test: None }
    }
}

/// Shows how far a command is: as lines, JSON events or not at all.
pub struct Meter {
    /// Form of the output; `auto` is already replaced by what the terminal allows.
    form: Form,
    pacer: Pacer,
    begun: Instant,
    /// Ordinal of the test that was shown last.
    test: Option<u32>,
}

impl Meter {
    /// Shows the progress if a line is due; on a terminal with further lines below it.
    pub fn show(&mut self, told: Told, further: Vec<String>) {
        let test = if let Told::Test(progress) = &told { Some(progress.ordinal) } else { None };
        let begins = std::mem::replace(&mut self.test, test) != test;
        let now = self.begun.elapsed();
        match self.form {
            Form::None => {}
            Form::Auto => {
                output::rewrite(&[vec![output::printable(&told.line())], further].concat());
            }
            Form::Json if self.pacer.is_event_due(now, begins) => output::show_event(told),
            Form::Plain if self.pacer.is_line_due(now, begins) => {
                say!("{}  {}", iso_8601(runner::unix_ms()), output::printable(&told.line()));
            }
            Form::Json | Form::Plain => {}
        }
    }
}

/// Shows the progress of a run as lines.
pub struct LineWatcher {
    meter: Meter,
    interrupts: Arc<AtomicU32>,
}

impl LineWatcher {
    /// `interrupts` counts the requests to end the run.
    pub fn new(meter: Meter, interrupts: Arc<AtomicU32>) -> LineWatcher {
        LineWatcher { meter, interrupts }
    }
}

impl Watcher for LineWatcher {
    fn progress(&mut self, progress: &Progress) {
        self.meter.show(Told::Test(progress.into()), Vec::new());
    }

    fn line(&mut self, text: &str) {
        say!("{text}");
    }

    fn interrupted(&self) -> bool {
        self.interrupts.load(Ordering::SeqCst) > 0
    }
}

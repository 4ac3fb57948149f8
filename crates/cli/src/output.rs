//! stderr, where messages go.
//!
//! Invariants
//! 1. No command fails or ends because a message cannot be shown: a terminal may be gone, a reader may have
//!    ended, a disk may be full. Every message goes through [`show`]; `eprintln!` panics then, and the lints of
//!    this crate refuse it.
//! 2. The next output, to stderr or stdout, first erases the lines that [`rewrite`] has left on the terminal.
//! 3. With `--progress json` each line is an [`Event`], errors included.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use clap::{ColorChoice, ValueEnum};
use review::progress::{Event, Told};

const QUIET: u8 = 0;
const NORMAL: u8 = 1;
const VERBOSE: u8 = 2;

/// Which messages are shown: none, normal or with details. Errors are always shown.
static VERBOSITY: AtomicU8 = AtomicU8::new(NORMAL);
/// Whether each line on stderr is a JSON event (`--progress json`).
static EVENTS: AtomicBool = AtomicBool::new(false);
/// Number of lines on the terminal that the next output replaces.
static REWRITTEN: AtomicUsize = AtomicUsize::new(0);

/// How every command shows what it has to say.
#[derive(clap::Args)]
#[command(next_help_heading = "Messages")]
pub struct OutputArguments {
    /// No messages but errors: no progress, no warnings.
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Also say which files are read, which settings are in force, and how files are read and written.
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    verbose: bool,
    /// When to use colours.
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

impl OutputArguments {
    /// Applies the arguments: from now on messages are shown like this.
    pub fn apply(&self) {
        let verbosity = match (self.quiet, self.verbose) {
            (true, _) => QUIET,
            (false, true) => VERBOSE,
            (false, false) => NORMAL,
        };
        VERBOSITY.store(verbosity, Ordering::SeqCst);
        match self.color {
            ColorChoice::Auto => anstream::ColorChoice::Auto,
            ColorChoice::Always => anstream::ColorChoice::Always,
            ColorChoice::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

/// What `--color` says on a command line that is not read yet: help and mistakes of the command line itself
/// have colours, too.
pub fn color_asked_for(words: impl Iterator<Item = String>) -> ColorChoice {
    let words: Vec<String> = words.collect();
    let joined = words.iter().filter_map(|word| word.strip_prefix("--color="));
    let apart = words.windows(2).filter(|pair| pair[0] == "--color").map(|pair| pair[1].as_str());
    let asked = joined.chain(apart).next().and_then(|when| ColorChoice::from_str(when, true).ok());
    asked.unwrap_or(ColorChoice::Auto)
}

/// Whether messages are left out.
pub fn is_quiet() -> bool {
    VERBOSITY.load(Ordering::SeqCst) == QUIET
}

/// Whether details are shown.
pub fn is_verbose() -> bool {
    VERBOSITY.load(Ordering::SeqCst) == VERBOSE
}

/// From now on each line is an event.
pub fn as_events() {
    EVENTS.store(true, Ordering::SeqCst);
}

/// Prints an error, even with `--quiet`: as a JSON event, or in the form that `for_people` gives it.
pub fn error(text: &str, help: Option<&str>, for_people: impl FnOnce() -> String) {
    if EVENTS.load(Ordering::SeqCst) {
        write_event(Told::Error { text: text.to_owned(), help: help.map(str::to_owned) });
        return;
    }
    let mut out = anstream::stderr().lock();
    let _ = writeln!(out, "{}{}", erasure(), for_people());
}

/// Shows text on stderr as it is, unless messages are left out.
pub fn show(text: std::fmt::Arguments<'_>) {
    if is_quiet() {
        return;
    }
    if EVENTS.load(Ordering::SeqCst) {
        write_event(Told::Message { text: text.to_string().trim_end().to_owned() });
        return;
    }
    write(|| format!("{}{text}", erasure()));
}

/// Shows an event on stderr, unless messages are left out.
pub fn show_event(told: Told) {
    if !is_quiet() {
        write_event(told);
    }
}

/// Shows progress lines on a terminal, which the next output replaces.
pub fn rewrite(lines: &[String]) {
    write(|| {
        let erasure = erasure();
        REWRITTEN.store(lines.len(), Ordering::SeqCst);
        // No wrapping: a wrapped line would count as two.
        format!("{erasure}\x1b[?7l{}\x1b[?7h", lines.join("\n"))
    });
}

/// Erases the progress lines that are on the terminal.
pub fn clear() {
    write(erasure);
}

/// The escape sequence that erases the progress lines.
fn erasure() -> String {
    match REWRITTEN.swap(0, Ordering::SeqCst) {
        0 => String::new(),
        1 => "\r\x1b[J".to_owned(),
        lines => format!("\r\x1b[{}A\x1b[J", lines - 1),
    }
}

fn write_event(told: Told) {
    write(|| Event::at(runner::unix_ms(), told).line() + "\n");
}

/// Writes to stderr in one piece, so that lines of several processes do not mix.
fn write(text: impl FnOnce() -> String) {
    let mut out = std::io::stderr().lock();
    let _ = out.write_all(text().as_bytes()).and_then(|()| out.flush());
}

/// Shows text on stderr as it is; as `eprint!`, but never panics.
macro_rules! show {
    ($($text:tt)+) => { $crate::output::show(format_args!($($text)+)) };
}

/// Shows a line on stderr; as `eprintln!`, but never panics.
macro_rules! say {
    () => { $crate::output::show(format_args!("\n")) };
    ($($text:tt)+) => { $crate::output::show(format_args!("{}\n", format_args!($($text)+))) };
}

/// Shows a line on stderr that only `--verbose` asks for.
macro_rules! detail {
    ($($text:tt)+) => { if $crate::output::is_verbose() { say!($($text)+) } };
}

/// Text in which names and notes from evidence cannot move the cursor, recolour the terminal or set its title.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

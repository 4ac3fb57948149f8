//! stderr, where messages go.
//!
//! Invariants
//! 1. No command fails or ends because a message cannot be shown: a terminal may be gone, a reader may have
//!    ended, a disk may be full. Every message goes through [`show`]; `eprintln!` panics then, and the lints of
//!    this crate refuse it.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{ColorChoice, ValueEnum};

/// Whether messages are left out; errors are not messages.
static QUIET: AtomicBool = AtomicBool::new(false);

/// How every command shows what it has to say.
#[derive(clap::Args)]
#[command(next_help_heading = "Messages")]
pub struct OutputArguments {
    /// No messages but errors: no progress, no warnings.
    #[arg(short, long, global = true)]
    quiet: bool,
    /// When to use colours.
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

impl OutputArguments {
    /// From now on messages are shown like this.
    pub fn apply(&self) {
        QUIET.store(self.quiet, Ordering::SeqCst);
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
    QUIET.load(Ordering::SeqCst)
}

/// Shows text on stderr as it is, unless messages are left out.
pub fn show(text: std::fmt::Arguments<'_>) {
    if is_quiet() {
        return;
    }
    let mut out = std::io::stderr().lock();
    // In one piece, so that lines of several processes do not mix.
    let _ = out.write_all(text.to_string().as_bytes()).and_then(|()| out.flush());
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

/// Text in which names and notes from evidence cannot move the cursor, recolour the terminal or set its title.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

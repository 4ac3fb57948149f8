//! stderr, where messages go.
//!
//! Invariants
//! 1. No command fails or ends because a message cannot be shown: a terminal may be gone, a reader may have
//!    ended, a disk may be full. Every message goes through [`show`]; `eprintln!` panics then, and the lints of
//!    this crate refuse it.

use std::io::Write;

/// Shows text on stderr as it is.
pub fn show(text: std::fmt::Arguments<'_>) {
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

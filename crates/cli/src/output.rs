//! stdout, where data goes, and stderr, where messages go.
//!
//! Invariants
//! 1. No command fails or ends because a message cannot be shown: a terminal may be gone, a reader may have ended, a disk may be
//!    full. Every message goes through [`show`]; `eprintln!` panics then, and the lints of this crate refuse it.

use std::io::Write;

use crate::failure::Failure;

/// Data goes to stdout; a reader that has gone away (`| head`) is no failure.
pub fn data(text: &str) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::could_not_run("cannot write to stdout").because(error))
        }
        _ => Ok(()),
    }
}

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

/// Text for people on stdout.
pub fn tell(text: &str) -> Result<(), Failure> {
    data(&printable(text))
}

/// Text in which names and notes from evidence cannot move the cursor, recolour the terminal or set its title.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

/// Writes a document and says so.
pub fn write_file(path: &std::path::Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::could_not_run(format!("cannot write {}", path.display())).because(error))?;
    say!("wrote {}", path.display());
    Ok(())
}

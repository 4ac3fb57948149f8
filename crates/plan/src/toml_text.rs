//! Pieces of a solution file as text.

use std::fmt::Write;

/// TOML string literal of `text`, with special characters escaped.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => write!(out, "\\u{:04x}", u32::from(c)).expect("a string takes it"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

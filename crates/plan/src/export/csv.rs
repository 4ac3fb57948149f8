//! Tables of comma-separated fields, as Windows tools read them.
//!
//! Invariants
//! 1. Every field is in quotes, so commas, quotes and line ends are data.
//! 2. No field begins with a character that a spreadsheet takes for a formula: such a field gets an apostrophe in
//!    front, which [`plain`] takes away.

use csv::{QuoteStyle, Terminator, WriterBuilder};

/// First characters that make a spreadsheet compute a field.
const FORMULA: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// Formats a CSV line.
pub fn line<T: AsRef<str>>(fields: &[T]) -> String {
    let mut quoted = WriterBuilder::new();
    let mut line =
        quoted.quote_style(QuoteStyle::Always).terminator(Terminator::CRLF).from_writer(Vec::new());
    let guarded = fields.iter().map(|field| match field.as_ref() {
        field if is_formula(field) => format!("'{field}"),
        field => field.to_owned(),
    });
    line.write_record(guarded).expect("memory takes it");
    String::from_utf8(line.into_inner().expect("memory takes it")).expect("fields are text")
}

/// Formats a list in one CSV field: names with commas between them, quoted where needed.
pub fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let needs_quotes = |name: &str| name.is_empty() || name.contains([',', '"', '\r', '\n', ' ']);
    let quoted = names.into_iter().map(|name| match needs_quotes(name) {
        true => format!("\"{}\"", name.replace('"', "\"\"")),
        false => name.to_owned(),
    });
    quoted.collect::<Vec<_>>().join(",")
}

/// Original text of a field that [`line()`] wrote.
pub fn plain(field: &str) -> &str {
    match field.strip_prefix('\'') {
        Some(rest) if is_formula(rest) => rest,
        _ => field,
    }
}

/// Whether a spreadsheet would compute a field, after any leading apostrophes. Such fields are guarded so that
/// [`plain`] returns every text unchanged.
fn is_formula(field: &str) -> bool {
    field.trim_start_matches('\'').starts_with(FORMULA)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_is_a_formula_and_every_field_comes_back() {
        for text in ["=1+1", "'=1", "''@x", "-", "'", "it's", "", "\r\n", "a=b"] {
            let line = line(&[text]);
            let field = line.trim_end_matches("\r\n");
            let field = &field[1..field.len() - 1];
            assert!(!field.starts_with(FORMULA), "{line:?}");
            assert_eq!(plain(field), text);
        }
    }
}

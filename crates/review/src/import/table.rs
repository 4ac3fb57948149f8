//! Tables of separated fields, with the line of each row for messages.
//!
//! Fields may be in quotes, with commas and line ends in them. Space around fields without quotes does not count.

use std::fmt;
use std::iter::Peekable;
use std::str::Chars;

/// A reason why a table is refused, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// Name of the file.
    pub file: String,
    /// Line, from 1, if the reason is in a single line.
    pub line: Option<usize>,
    /// The reason as a sentence.
    pub text: String,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.text),
            None => write!(f, "{}: {}", self.file, self.text),
        }
    }
}

/// A row of a CSV file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Line at which it begins, from 1.
    pub line: usize,
    /// The fields of the row.
    pub fields: Vec<String>,
}

/// The rows of a CSV text one by one, without empty lines. If a quote is never closed, the last item is the line of
/// that quote.
pub fn rows(text: &str, separator: char) -> Rows<'_> {
    Rows { chars: text.chars().peekable(), separator, line: 1 }
}

/// The iterator of [`rows`].
pub struct Rows<'a> {
    chars: Peekable<Chars<'a>>,
    separator: char,
    line: usize,
}

impl Iterator for Rows<'_> {
    type Item = Result<Row, usize>;

    fn next(&mut self) -> Option<Result<Row, usize>> {
        loop {
            self.chars.peek()?;
            match self.row() {
                Ok(row) if row.fields == [""] => {}
                found => return Some(found),
            }
        }
    }
}

impl Rows<'_> {
    fn row(&mut self) -> Result<Row, usize> {
        let mut row = Row { line: self.line, fields: Vec::new() };
        let mut field = Field::default();
        // Line at which an open quote began.
        let mut quote = None;
        while let Some(c) = self.chars.next() {
            let line = self.line;
            self.line += usize::from(c == '\n');
            match (c, quote) {
                ('"', Some(_)) if self.chars.peek() == Some(&'"') => field.text.extend(self.chars.next()),
                ('"', Some(_)) => quote = None,
                (c, Some(_)) => field.text.push(c),
                ('"', None) if field.text.trim().is_empty() => {
                    field = Field { text: String::new(), is_quoted: true };
                    quote = Some(line);
                }
                (c, None) if c == self.separator => row.fields.push(std::mem::take(&mut field).whole()),
                ('\n', None) => break,
                (c, None) if field.is_quoted && c.is_whitespace() => {}
                (c, None) => field.text.push(c),
            }
        }
        row.fields.push(field.whole());
        quote.map_or(Ok(row), Err)
    }
}

#[derive(Default)]
struct Field {
    text: String,
    is_quoted: bool,
}

impl Field {
    fn whole(self) -> String {
        if self.is_quoted { self.text } else { self.text.trim().to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_separators_and_lines_and_rows_know_where_they_begin() {
        let text = "a, b\r\n\"x,\"\"y\n z\" ,2\n\n  3,\" \"\n";
        let found: Vec<Row> = rows(text, ',').collect::<Result<_, _>>().expect("a table");
        let fields: Vec<(usize, Vec<&str>)> =
            found.iter().map(|row| (row.line, row.fields.iter().map(String::as_str).collect())).collect();
        assert_eq!(fields, [(1, vec!["a", "b"]), (2, vec!["x,\"y\n z", "2"]), (5, vec!["3", " "])]);
        assert_eq!(rows("a\n\"b\nc", ',').last(), Some(Err(2)));
    }
}

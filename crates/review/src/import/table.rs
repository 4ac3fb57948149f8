//! Tables of separated fields, with the line of each row for messages.
//!
//! Fields may be in quotes, with commas and line ends in them. Space around fields without quotes does not count.

use std::fmt;

/// What is wrong with a file, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// Name of the file.
    pub file: String,
    /// Line, from 1, where the reason is in one.
    pub line: Option<usize>,
    /// A sentence.
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

/// A row that begins at a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Line, from 1.
    pub line: usize,
    /// Its fields.
    pub fields: Vec<String>,
}

/// Rows of a text, empty lines left out.
///
/// # Errors
/// The line where a quote opens that nothing closes.
pub fn rows(text: &str, separator: char) -> Result<Vec<Row>, usize> {
    let mut rows = Vec::new();
    let mut row = Row { line: 1, fields: Vec::new() };
    let (mut field, mut line) = (Field::default(), 1);
    // Line at which an open quote began.
    let mut quote = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('"', Some(_)) if chars.peek() == Some(&'"') => field.text.extend(chars.next()),
            ('"', Some(_)) => quote = None,
            (c, Some(_)) => field.text.push(c),
            ('"', None) if field.text.trim().is_empty() => {
                field = Field { text: String::new(), is_quoted: true };
                quote = Some(line);
            }
            (c, None) if c == separator => row.fields.push(std::mem::take(&mut field).whole()),
            ('\n', None) => {
                row.fields.push(std::mem::take(&mut field).whole());
                let whole = std::mem::replace(&mut row, Row { line: line + 1, fields: Vec::new() });
                rows.extend(Some(whole).filter(|row| row.fields != [""]));
            }
            (c, None) if field.is_quoted && c.is_whitespace() => {}
            (c, None) => field.text.push(c),
        }
        line += usize::from(c == '\n');
    }
    if let Some(line) = quote {
        return Err(line);
    }
    row.fields.push(field.whole());
    rows.extend(Some(row).filter(|row| row.fields != [""]));
    Ok(rows)
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
        let found = rows(text, ',').expect("a table");
        let fields: Vec<(usize, Vec<&str>)> =
            found.iter().map(|row| (row.line, row.fields.iter().map(String::as_str).collect())).collect();
        assert_eq!(fields, [(1, vec!["a", "b"]), (2, vec!["x,\"y\n z", "2"]), (5, vec!["3", " "])]);
        assert_eq!(rows("a\n\"b\nc", ','), Err(2));
    }
}

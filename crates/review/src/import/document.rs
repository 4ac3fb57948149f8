//! A foreign document as a list of lines and table rows: HTML by its `tr`, plain text by its columns.
//!
//! Limits: documents up to [`MOST_BYTES`]; nested tables become rows of their own, in order.

use html5gum::{Token, Tokenizer};

/// Largest report that is read; larger than any ever seen (a 24 h run of 56 databases writes about 1 MB).
pub const MOST_BYTES: usize = 64 << 20;

/// A line or table row of a report's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// A heading or a paragraph.
    Line(String),
    /// The cells of a table row, at least two.
    Row(Vec<String>),
}

/// Reads an HTML document into lines and rows; also tells whether it ends as one that was written completely.
pub fn html(text: &str) -> (Vec<Block>, bool) {
    let mut reader = Reader::default();
    let mut complete = false;
    for token in Tokenizer::new(text) {
        let Ok(token) = token;
        match token {
            Token::StartTag(tag) => reader.start(&tag.name),
            Token::EndTag(tag) => {
                complete |= tag.name.as_slice() == b"html";
                reader.end(&tag.name);
            }
            Token::String(string) => reader.text(&String::from_utf8_lossy(string.as_slice())),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
    }
    reader.end_row();
    reader.end_line();
    (reader.blocks, complete)
}

#[derive(Default)]
struct Reader {
    blocks: Vec<Block>,
    /// Text since the last line or row ended.
    line: String,
    /// Cells of the table row that is open, if one is.
    row: Option<Vec<String>>,
    /// Whether a cell is open: an empty one keeps its place in the row.
    in_cell: bool,
    /// Whether the parser is inside a script or a style sheet, whose text does not count.
    hidden: bool,
}

impl Reader {
    fn start(&mut self, name: &[u8]) {
        match name {
            b"script" | b"style" => self.hidden = true,
            b"tr" => {
                self.end_row();
                self.end_line();
                self.row = Some(Vec::new());
            }
            b"td" | b"th" => {
                self.end_cell();
                self.in_cell = self.row.is_some();
            }
            b"br" if self.row.is_none() => self.end_line(),
            b"br" => self.line.push(' '),
            b"h1" | b"h2" | b"h3" | b"h4" | b"p" | b"div" | b"li" | b"pre" | b"caption"
                if self.row.is_none() =>
            {
                self.end_line();
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &[u8]) {
        match name {
            b"script" | b"style" => self.hidden = false,
            b"td" | b"th" => self.end_cell(),
            b"tr" | b"table" => self.end_row(),
            b"h1" | b"h2" | b"h3" | b"h4" | b"p" | b"div" | b"li" | b"pre" | b"caption"
                if self.row.is_none() =>
            {
                self.end_line();
            }
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.hidden {
            return;
        }
        if self.row.is_some() {
            self.line.push_str(text);
            return;
        }
        // Lines of a test log in one element stay lines.
        for (n, part) in text.split('\n').enumerate() {
            if n > 0 {
                self.end_line();
            }
            self.line.push_str(part);
        }
    }

    fn end_cell(&mut self) {
        let Some(cells) = &mut self.row else { return };
        let text = tidy(&std::mem::take(&mut self.line));
        if std::mem::take(&mut self.in_cell) || !text.is_empty() {
            cells.push(text);
        }
    }

    fn end_row(&mut self) {
        self.end_cell();
        let Some(cells) = self.row.take() else { return };
        let mut filled = cells.iter().filter(|cell| !cell.is_empty());
        match (filled.next(), filled.next()) {
            (Some(only), None) => self.blocks.push(Block::Line(only.clone())),
            (Some(_), Some(_)) => self.blocks.push(Block::Row(cells)),
            (None, _) => {}
        }
    }

    fn end_line(&mut self) {
        let text = tidy(&std::mem::take(&mut self.line));
        if !text.is_empty() {
            self.blocks.push(Block::Line(text));
        }
    }
}

/// A text with one space between words and without control characters.
fn tidy(text: &str) -> String {
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).collect();
    words.join(" ")
}

/// Reads plain text into lines and rows: tabs, bars or two spaces divide columns.
pub fn text(text: &str) -> Vec<Block> {
    text.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<Block> {
    let marked: String = line.replace(['\t', '|'], "  ");
    let cells: Vec<String> = marked.split("  ").map(tidy).filter(|cell| !cell.is_empty()).collect();
    match cells.len() {
        0 => None,
        1 => cells.into_iter().next().map(Block::Line),
        _ => Some(Block::Row(cells)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> Block {
        Block::Row(cells.iter().map(|cell| (*cell).to_owned()).collect())
    }

    #[test]
    fn rows_lines_and_entities_come_out_as_text() {
        let (blocks, complete) = html(
            "<html><style>td{}</style><h1>Stress &amp; test</h1><table><tr><td>a <td> 1&lt;2</tr>\
             <tr><td colspan=2>Title</td></tr></table><p>one\ntwo</p></html>",
        );
        assert!(complete);
        let line = |text: &str| Block::Line(text.to_owned());
        assert_eq!(
            blocks,
            [line("Stress & test"), row(&["a", "1<2"]), line("Title"), line("one"), line("two")]
        );
        assert!(!html("<table><tr><td>a").1, "a document that was cut off says so");
    }

    #[test]
    fn columns_of_text_are_cells() {
        assert_eq!(
            text("Thread Count    16\n\nTotal I/O\na\tb | c"),
            [row(&["Thread Count", "16"]), Block::Line("Total I/O".to_owned()), row(&["a", "b", "c"]),]
        );
    }
}

//! A document as data, so that HTML and Markdown say the same.

use std::fmt::Write;

use evidence::markup::escape;

use crate::markup;

/// A paragraph, table or picture of a section.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// A place that only the author can fill in: what belongs there.
    Author(String),
    /// A heading below that of the section.
    Heading(String),
    /// A table with its column heads.
    Table(Vec<String>, Vec<Vec<String>>),
    /// An SVG picture and its text description.
    Picture(String, String),
    /// A link to a file beside the document.
    File(String, String),
}

/// A section of the paper.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Section {
    /// Title.
    pub title: String,
    /// Its paragraphs, tables and pictures.
    pub blocks: Vec<Block>,
}

impl Section {
    /// A section without content.
    pub fn new(title: impl Into<String>) -> Section {
        Section { title: title.into(), blocks: Vec::new() }
    }

    /// Whether the section is short enough to follow another on a printed page; others begin a new one.
    fn is_short(&self) -> bool {
        let large = |block: &&Block| matches!(block, Block::Table(..) | Block::Picture(..) | Block::File(..));
        self.blocks.iter().filter(large).count() < 2
    }

    /// Adds a paragraph.
    pub fn text(&mut self, text: impl Into<String>) -> &mut Section {
        self.blocks.push(Block::Text(text.into()));
        self
    }

    /// Adds a place that the author fills in.
    pub fn author(&mut self, what: impl Into<String>) -> &mut Section {
        self.blocks.push(Block::Author(what.into()));
        self
    }

    /// Adds a heading.
    pub fn heading(&mut self, text: impl Into<String>) -> &mut Section {
        self.blocks.push(Block::Heading(text.into()));
        self
    }

    /// Adds a table, unless it has no rows.
    pub fn table(&mut self, head: &[&str], rows: Vec<Vec<String>>) -> &mut Section {
        if !rows.is_empty() {
            self.blocks.push(Block::Table(head.iter().map(|text| (*text).to_owned()).collect(), rows));
        }
        self
    }
}

/// The paper, independent of its form.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Line above the title, such as the kind of paper.
    pub kicker: String,
    /// Title.
    pub title: String,
    /// Sections in order.
    pub sections: Vec<Section>,
}

/// Beginning of a place that the author fills in; also what to search for.
pub const AUTHOR: &str = "TO BE WRITTEN BY THE AUTHOR";

impl Document {
    /// The document as one page.
    pub fn html(&self) -> String {
        let mut body = String::new();
        for section in &self.sections {
            let class = if section.is_short() { " class=\"flow\"" } else { "" };
            let title = escape(&section.title);
            let _ = writeln!(body, "<section{class}><header><h2>{title}</h2></header>");
            for block in &section.blocks {
                html_block(&mut body, block);
            }
            body.push_str("</section>\n");
        }
        markup::page(&self.kicker, &self.title, &body)
    }

    /// The document as Markdown. Pictures are in the page only; Markdown has their text descriptions.
    pub fn markdown(&self) -> String {
        let mut text = format!("*{}*\n\n# {}\n", plain(&self.kicker), plain(&self.title));
        for section in &self.sections {
            let _ = write!(text, "\n## {}\n", plain(&section.title));
            for block in &section.blocks {
                markdown_block(&mut text, block);
            }
        }
        text
    }
}

fn html_block(body: &mut String, block: &Block) {
    let _ = match block {
        Block::Text(text) => writeln!(body, "<p>{}</p>", escape(text)),
        Block::Author(what) => {
            writeln!(body, "<p class=\"note\"><b>{AUTHOR}:</b> {}</p>", escape(what))
        }
        Block::Heading(text) => writeln!(body, "<h3>{}</h3>", escape(text)),
        Block::Table(head, rows) => {
            let head: Vec<&str> = head.iter().map(String::as_str).collect();
            writeln!(body, "{}", markup::table(&head, rows))
        }
        Block::Picture(svg, words) => {
            writeln!(body, "<figure>{svg}</figure>\n<p class=\"caption\">{}</p>", escape(words))
        }
        Block::File(name, words) => {
            writeln!(body, "<p><a href=\"{0}\">{1}</a></p>", escape(name), escape(words))
        }
    };
}

fn markdown_block(text: &mut String, block: &Block) {
    let _ = match block {
        Block::Text(words) => write!(text, "\n{}\n", plain(words)),
        Block::Author(what) => write!(text, "\n> **{AUTHOR}:** {}\n", plain(what)),
        Block::Heading(words) => write!(text, "\n### {}\n", plain(words)),
        Block::Table(head, rows) => {
            let line = |cells: &[String]| {
                let cells: Vec<String> = cells.iter().map(|cell| plain(cell)).collect();
                format!("| {} |\n", cells.join(" | "))
            };
            let figures = markup::figure_columns(head.len(), rows);
            let rule: Vec<&str> =
                figures.iter().map(|is_figure| if *is_figure { "--:" } else { ":--" }).collect();
            let rows: String = rows.iter().map(|row| line(row)).collect();
            write!(text, "\n{}| {} |\n{rows}", line(head), rule.join(" | "))
        }
        Block::Picture(_, words) => write!(text, "\n*Picture in the page: {}*\n", plain(words)),
        Block::File(name, words) => write!(text, "\n[{}]({name})\n", plain(words)),
    };
}

/// Text on one line in which Markdown finds no markup.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '#' | '|' | '~' | '!' => {
                plain.push('\\');
                plain.push(c);
            }
            // Markdown passes tags through: only references are safe everywhere.
            '<' => plain.push_str("&lt;"),
            '>' => plain.push_str("&gt;"),
            '&' => plain.push_str("&amp;"),
            c if c.is_whitespace() || c.is_control() => plain.push(' '),
            c => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_markup_in_neither_form() {
        let mut section = Section::new("</h2><script>");
        section
            .text("[x](javascript:y) <b>")
            .author("<i>")
            .heading("# h")
            .table(&["a|b"], vec![vec!["c\n| d".into()]]);
        let document = Document { kicker: "<k>".into(), title: "<t>".into(), sections: vec![section] };
        let (html, markdown) = (document.html(), document.markdown());
        for tag in ["<script", "<b>x", "<i>", "<k>", "<t>"] {
            assert!(!html.contains(tag) && !markdown.contains(tag), "{tag}");
        }
        assert!(markdown.contains("\\[x\\](javascript:y)") && markdown.contains("c \\| d"), "{markdown}");
    }
}

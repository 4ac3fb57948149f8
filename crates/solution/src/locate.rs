//! Where in the text a value stands.
//!
//! The types of the file are plain data. Only when something has to be shown to the user is the text parsed
//! once more, with spans, and the value looked up by its path (`host[2].name`). A value that was left to its
//! default is shown at the nearest table that exists.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Place of a path in a text: that of the value, or of its nearest existing ancestor.
pub(crate) struct Located {
    /// Byte range in the text.
    pub span: Range<usize>,
    /// Whether the whole path exists.
    pub exact: bool,
}

/// Finds the value at `path`. A text that is not TOML gives an empty range at its start.
pub(crate) fn locate(text: &str, path: &str) -> Located {
    let Ok(root) = DeTable::parse(text) else {
        return Located { span: 0..0, exact: false };
    };
    let mut span = 0..text.find('\n').unwrap_or(text.len());
    let mut here = Node::Table(root.get_ref());
    for segment in path.split(['.', '[']).filter(|segment| !segment.is_empty()) {
        let found: Option<&Spanned<DeValue<'_>>> = match (&here, segment.strip_suffix(']')) {
            (Node::Array(items), Some(index)) => index.parse().ok().and_then(|index: usize| items.get(index)),
            (Node::Table(table), None) => table.get(segment),
            _ => None,
        };
        let Some(value) = found else {
            return Located { span, exact: false };
        };
        span = value.span();
        here = match value.get_ref() {
            DeValue::Table(table) => Node::Table(table),
            DeValue::Array(items) => Node::Array(items),
            _ => Node::Leaf,
        };
    }
    Located { span, exact: true }
}

enum Node<'a> {
    Table(&'a DeTable<'a>),
    Array(&'a [Spanned<DeValue<'a>>]),
    Leaf,
}

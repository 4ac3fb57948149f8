//! Text from outside as HTML and XML: the one escaper of reports, pages, charts and JUnit files.

use minijinja::HtmlEscape;

/// Escapes text for a place between tags or in a quoted attribute. A control character, which XML cannot hold and
/// which hides text from readers, becomes U+FFFD.
pub fn escape(text: &str) -> String {
    let is_hidden =
        |c: char| c.is_control() && !matches!(c, '\t' | '\n') || matches!(c, '\u{fffe}' | '\u{ffff}');
    HtmlEscape(&text.replace(is_hidden, "\u{fffd}")).to_string()
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn escaped_text_holds_no_markup_and_no_control_character() {
        let text = "<a b='c' d=\"e\">&\u{1}\u{ffff}\r";
        assert_eq!(escape(text), "&lt;a b=&#x27;c&#x27; d=&quot;e&quot;&gt;&amp;\u{fffd}\u{fffd}\u{fffd}");
    }
}

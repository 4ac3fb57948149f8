//! Our pages: one file, no script, nothing from elsewhere, text from outside never markup.

/// Text for a place between tags or in a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' => escaped.push(c),
            // Control characters are no HTML and hide text from readers.
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A page with our style.
pub fn page(kicker: &str, title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"Proofload {}\">\n<title>{}</title>\n<style>\n{}\n</style>\n</head>\n<body>\n\
         <p class=\"kicker\">{}</p>\n<h1>{}</h1>\n{body}</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        escape(title),
        evidence::report::STYLE,
        escape(kicker),
        escape(title)
    )
}

/// A table: the first column holds names, the others figures, to the right.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let cell = |n: usize, text: &str| match n {
        0 => format!("<th>{}</th>", escape(text)),
        _ => format!("<td class=\"r\">{}</td>", escape(text)),
    };
    let head: String = head
        .iter()
        .enumerate()
        .map(|(n, text)| format!("<th{}>{}</th>", if n == 0 { "" } else { " class=\"r\"" }, escape(text)))
        .collect();
    let rows: String = rows
        .iter()
        .map(|row| {
            let cells: String = row.iter().enumerate().map(|(n, text)| cell(n, text)).collect();
            format!("<tr>{cells}</tr>\n")
        })
        .collect();
    format!(
        "<div class=\"table\"><table class=\"wide\">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_never_becomes_markup() {
        assert_eq!(escape("<a b='c' d=\"e\">&\u{1}"), "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;\u{fffd}");
        let html = page("</title>", "<script>", &table(&["<b>"], &[vec!["<i>".into(), "</table>".into()]]));
        assert!(!html.contains("<script") && !html.contains("<b>") && !html.contains("<i>"));
        assert_eq!(html.matches("</table>").count(), 1);
    }
}

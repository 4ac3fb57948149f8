//! Our pages: one file, no script, nothing from elsewhere, text from outside never markup.

use evidence::markup::escape;

/// An HTML page with the style sheet of the reports.
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

/// Columns that hold nothing but figures; the first column holds names and never counts.
pub fn figure_columns(columns: usize, rows: &[Vec<String>]) -> Vec<bool> {
    let is_figure = |text: &String| {
        text.is_empty() || text.starts_with(|c: char| c.is_ascii_digit() || "–−+".contains(c))
    };
    (0..columns).map(|n| n > 0 && rows.iter().filter_map(|row| row.get(n)).all(is_figure)).collect()
}

/// An HTML table: names in the first column; figures aligned right, words left.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let figures = figure_columns(head.len(), rows);
    let to_right = |n: usize| if figures.get(n) == Some(&true) { " class=\"r\"" } else { "" };
    let cell = |n: usize, text: &str| match n {
        0 => format!("<th scope=\"row\">{}</th>", escape(text)),
        _ => format!("<td{}>{}</td>", to_right(n), escape(text)),
    };
    let head: String = head
        .iter()
        .enumerate()
        .map(|(n, text)| format!("<th scope=\"col\"{}>{}</th>", to_right(n), escape(text)))
        .collect();
    let rows: String = rows
        .iter()
        .map(|row| {
            let cells: String = row.iter().enumerate().map(|(n, text)| cell(n, text)).collect();
            format!("<tr>{cells}</tr>\n")
        })
        .collect();
    format!(
        "<div class=\"table\" tabindex=\"0\"><table class=\"wide\">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_never_becomes_markup() {
        let html = page("</title>", "<script>", &table(&["<b>"], &[vec!["<i>".into(), "</table>".into()]]));
        assert!(!html.contains("<script") && !html.contains("<b>") && !html.contains("<i>"));
        assert_eq!(html.matches("</table>").count(), 1);
        let rows =
            ["7,200 rpm", "–", ""].map(|text| vec!["a".to_owned(), text.to_owned(), "word".to_owned()]);
        assert_eq!(figure_columns(3, &rows), [false, true, false]);
    }
}

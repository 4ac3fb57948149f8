//! Figures as people read them: the same in reports, tables and messages.

/// A number with its digits in groups of three.
pub fn number(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), None), |(w, f)| (w, Some(f)));
    let digits = whole.len();
    let mut out = String::new();
    if value < 0.0 && text.chars().any(|c| c.is_ascii_digit() && c != '0') {
        out.push('−');
    }
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (digits - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// A number of things.
pub fn counted(count: u64, thing: &str) -> String {
    format!("{} {thing}{}", number(count as f64, 0), if count == 1 { "" } else { "s" })
}

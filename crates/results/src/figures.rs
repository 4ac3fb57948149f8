//! Figures as people read them: the same in reports, tables and messages.

/// Formats a number with its digits in groups of three.
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

/// Formats a part of a whole as percent: 100 only if they are equal, and at least 100 if the part is larger.
pub fn percent(part: f64, whole: f64) -> f64 {
    // Multiplied first, 0.0804 of 0.0804 is 99.99999999999999 %, and misses a bound of 100.
    part / whole * 100.0
}

/// Formats a count of things. `thing` is an English noun in the singular, perhaps with words in front.
pub fn counted(count: u64, thing: &str) -> String {
    let noun = if count == 1 { thing.to_owned() } else { plural(thing) };
    format!("{} {noun}", number(count as f64, 0))
}

/// The plural of an English noun, perhaps with words in front.
fn plural(thing: &str) -> String {
    match thing.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if thing.ends_with(['s', 'x']) || thing.ends_with("ch") => format!("{thing}es"),
        _ => format!("{thing}s"),
    }
}

/// Nouns that serve as units of measured values.
const THINGS: [&str; 13] = [
    "active database",
    "batch",
    "byte",
    "database",
    "host",
    "journal",
    "log",
    "mailbox",
    "message",
    "page",
    "server",
    "session",
    "test",
];

/// Unit as printed behind a value; a plural unit becomes singular behind 1.
pub fn unit_of(value: f64, unit: &str) -> &str {
    match THINGS.into_iter().find(|thing| value == 1.0 && plural(thing) == unit) {
        Some(thing) => thing,
        None if unit == "1/s" => "/s",
        None => unit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_is_exactly_100_percent_of_itself() {
        for whole in [0.0804, 48.24, 0.1, 1.0 / 3.0, 1e300] {
            assert_eq!((percent(whole, whole), percent(whole.next_up(), whole) >= 100.0), (100.0, true));
        }
    }

    #[test]
    fn one_thing_is_singular_and_every_other_number_plural_with_separators() {
        assert_eq!(counted(1, "open transaction"), "1 open transaction");
        assert_eq!(counted(0, "session"), "0 sessions");
        let many = ["mailbox", "copy", "batch", "day"].map(|thing| counted(12_345, thing));
        assert_eq!(many, ["12,345 mailboxes", "12,345 copies", "12,345 batches", "12,345 days"]);
    }

    #[test]
    fn unit_of_one_thing_is_singular_and_units_of_measure_stay() {
        assert_eq!(["sessions", "batches", "ms"].map(|unit| unit_of(1.0, unit)), ["session", "batch", "ms"]);
        assert_eq!(
            [unit_of(2.0, "logs"), unit_of(1.0, "% of rules"), unit_of(1.0, "1/s")],
            ["logs", "% of rules", "/s"]
        );
    }
}

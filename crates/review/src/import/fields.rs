//! Numbers and moments as reports print them.

use toml::value::{Date, Datetime, Time};

use crate::Instant;

/// The number at the start of a cell, without thousands separators and units; NaN if its digits make no number (a
/// damaged scan), nothing if there are no digits.
pub fn number(text: &str) -> Option<f64> {
    let first = text.split_whitespace().next()?;
    let digits: String = first.trim_end_matches('%').replace(',', "");
    match digits.parse::<f64>() {
        Ok(value) if value.is_finite() => Some(value),
        _ if text.chars().any(|c| c.is_ascii_digit()) => Some(f64::NAN),
        _ => None,
    }
}

/// The time in `2/9/2014 4:20:54 PM` or `2014-02-09 16:20:54`.
pub fn instant(text: &str) -> Option<Instant> {
    let mut words = text.split_whitespace();
    let (date, time) = (words.next()?, words.next()?);
    let (year, month, day) = if let Some((month, rest)) = date.split_once('/') {
        let (day, year) = rest.split_once('/')?;
        (year, month, day)
    } else {
        let (year, rest) = date.split_once('-')?;
        let (month, day) = rest.split_once('-')?;
        (year, month, day)
    };
    let mut parts = time.split(':');
    let (hour, minute) = (parts.next()?, parts.next()?);
    let second: u8 = parts.next().map_or(Some(0), |part| part.parse().ok())?;
    let mut hour: u8 = hour.parse().ok()?;
    match words.next().map(str::to_ascii_uppercase).as_deref() {
        Some("PM") if hour < 12 => hour += 12,
        Some("AM") if hour == 12 => hour = 0,
        _ => {}
    }
    let (year, month, day): (u16, u8, u8) = (year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
    let minute: u8 = minute.parse().ok()?;
    let sensible = (1990..2200).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    sensible.then_some(Instant(Datetime {
        date: Some(Date { year, month, day }),
        time: Some(Time { hour, minute, second: Some(second), nanosecond: None }),
        offset: None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_carry_separators_and_units() {
        assert_eq!(number("16,174,214,414,336"), Some(16_174_214_414_336.0));
        assert_eq!(
            (number("40%"), number("448.0 MB"), number("633.738")),
            (Some(40.0), Some(448.0), Some(633.738))
        );
        assert!(number("6B3.7").is_some_and(f64::is_nan), "a damaged cell is unreadable, not absent");
        assert_eq!((number("n/a"), number(""), number("inf")), (None, None, None));
    }

    #[test]
    fn both_ways_to_write_a_moment_are_the_same() {
        let american = instant("2/9/2014 4:20:54 PM").expect("a moment");
        assert_eq!(Some(&american), instant("2014-02-09 16:20:54").as_ref());
        assert_eq!(american.unix_s(), Some(1_391_962_854));
        assert_eq!(instant("12/31/2006 12:00:01 AM").and_then(|i| i.unix_s()), Some(1_167_523_201));
        assert_eq!(instant("13/40/2014 25:00:00"), None);
    }
}

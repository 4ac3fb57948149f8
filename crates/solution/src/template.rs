//! Names that stand for many: `DB{n:03}`, `V{n/4}`, `{host}`.
//!
//! `{n}` counts from 1; `{n:03}` fills with zeros; `{n/4}` says which group of four `n` lies in (1, 1, 1, 1, 2, ...).

use std::ops::Range;

use crate::MAX_NAMES;
use crate::error::{Checked, Wrong};

/// Values for the placeholders of a template.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names<'a> {
    /// Running number, from 1.
    pub n: u32,
    /// Name of the host, if there is one.
    pub host: Option<&'a str>,
}

/// Fills in a template; `Err` is a sentence about an unknown placeholder.
pub(crate) fn expand(template: &str, names: Names<'_>) -> Result<String, String> {
    let mut out = String::with_capacity(template.len() + 8);
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        let Some(close) = rest[open..].find('}') else {
            return Err(format!("the name `{template}` opens a brace that it does not close"));
        };
        out.push_str(&value(&rest[open + 1..open + close], names, template)?);
        rest = &rest[open + close + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Fills in a template; refuses an unknown placeholder as a mistake at `path`.
pub(crate) fn name(template: &str, names: Names<'_>, path: &str) -> Checked<String> {
    expand(template, names).map_err(|sentence| {
        Wrong::new(path, sentence).help("known are {n}, {n:03}, {n/4} and, in volumes and instances, {host}")
    })
}

/// Fills in a template for a file or folder name below a volume; refuses a name that would lead out of the volume.
pub(crate) fn name_on_disk(template: &str, names: Names<'_>, path: &str) -> Checked<String> {
    let name = name(template, names, path)?;
    refuse_foreign_name(&name, path)?;
    Ok(name)
}

/// Refuses a name that leads out of its volume, because volumes are marked and cleaned as a whole.
pub(crate) fn refuse_foreign_name(name: &str, path: &str) -> Checked<()> {
    // Markers of folders have `#` for any digit of a log's number.
    if !matches!(name, "" | "." | "..") && !name.contains(['/', '\0', '#']) {
        return Ok(());
    }
    let wrong = Wrong::new(path, format!("no file or folder of a volume can be called `{name}`"));
    Err(wrong.help("a name without `/` and `#`; the volume's path says where it lies"))
}

/// Running numbers of an entry with `count`; refuses too many.
pub(crate) fn numbers(count: u32, first: u32, path: &str, already: usize) -> Checked<Range<u32>> {
    if count == 0 || count > MAX_NAMES.saturating_sub(already as u32) {
        let message = format!("{count} of these cannot be, a solution may have 1 to {MAX_NAMES}");
        return Err(Wrong::new(path, message));
    }
    Ok(first..first.saturating_add(count))
}

fn value(field: &str, names: Names<'_>, template: &str) -> Result<String, String> {
    let unknown = || format!("the name `{template}` uses `{{{field}}}`, which is not known here");
    if field == "host" {
        return names.host.map(str::to_owned).ok_or_else(unknown);
    }
    let (expression, width) = match field.split_once(':') {
        Some((expression, width)) => (expression, width.parse::<usize>().map_err(|_| unknown())?),
        None => (field, 0),
    };
    let number = match expression.split_once('/') {
        None if expression == "n" => names.n,
        Some(("n", group)) => match group.parse::<u32>() {
            Ok(group) if group > 0 => names.n.div_ceil(group),
            _ => return Err(unknown()),
        },
        _ => return Err(unknown()),
    };
    Ok(format!("{number:0width$}", width = width.min(20)))
}

/// Whether `name` fits `pattern`, in which each `*` stands for any characters.
pub fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => {
            let Some(rest) = name.strip_prefix(head) else {
                return false;
            };
            (0..=rest.len()).filter(|&at| rest.is_char_boundary(at)).any(|at| matches(tail, &rest[at..]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_padded_and_grouped() {
        let names = Names { n: 5, host: Some("A") };
        assert_eq!(expand("{host}-DB{n:03}/V{n/4}", names).unwrap(), "A-DB005/V2");
        assert_eq!(expand("V{n/4:02}", Names { n: 4, host: None }).unwrap(), "V01");
    }

    #[test]
    fn an_unknown_field_is_an_error() {
        for bad in ["{m}", "{n", "{n/0}", "{n:x}", "{host}"] {
            assert!(expand(bad, Names { n: 1, host: None }).is_err(), "{bad}");
        }
    }

    #[test]
    fn stars_match_any_characters() {
        assert!(matches("Site*-MBX*", "SiteA-MBX12"));
        assert!(matches("*", ""));
        assert!(!matches("SiteB-*", "SiteA-MBX1"));
    }
}

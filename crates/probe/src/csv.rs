//! `probe.csv`: one row for each point, columns by name (docs/probe.md).

use crate::calibrate::Prediction;
use crate::check::check_row;
use crate::point::{Latency, Load, Pattern, Point, ProbeError, Row};

/// First line of a `probe.csv` of this version.
const VERSION_LINE: &str = "# proofload probe 1";
/// Beginning of the first line of a `probe.csv` of any version.
const VERSION_PREFIX: &str = "# proofload probe ";

const COLUMNS: [&str; 16] = [
    "block_bytes",
    "read_share",
    "pattern",
    "outstanding",
    "offered_iops",
    "iops",
    "read_mean_ms",
    "read_p50_ms",
    "read_p95_ms",
    "read_p99_ms",
    "write_mean_ms",
    "write_p50_ms",
    "write_p95_ms",
    "write_p99_ms",
    "seconds",
    "steady",
];

const FORM: &str = "docs/probe.md describes the columns of probe.csv";

/// Writes rows as the text of a `probe.csv`.
pub fn write(rows: &[Row]) -> String {
    rows.iter().fold(heading(), |text, row| text + &line(row))
}

/// First lines of a `probe.csv`: version and column names.
pub fn heading() -> String {
    format!("{VERSION_LINE}\n{}\n", COLUMNS.join(","))
}

/// Formats a row as a line of CSV.
pub fn line(row: &Row) -> String {
    cells(row).join(",") + "\n"
}

fn cells(row: &Row) -> [String; COLUMNS.len()] {
    let number = |value: Option<f64>| value.map(shortest).unwrap_or_default();
    let (outstanding, offered) = match row.point.load {
        Load::Outstanding(outstanding) => (Some(outstanding), None),
        Load::Offered(rate) => (None, Some(rate)),
    };
    let steady = row.steady.map(|steady| if steady { "yes" } else { "no" });
    [
        row.point.block_bytes.to_string(),
        shortest(row.point.read_share),
        row.point.pattern.name().to_owned(),
        number(outstanding),
        number(offered),
        number(row.iops),
        number(row.reads.mean_ms),
        number(row.reads.p50_ms),
        number(row.reads.p95_ms),
        number(row.reads.p99_ms),
        number(row.writes.mean_ms),
        number(row.writes.p50_ms),
        number(row.writes.p95_ms),
        number(row.writes.p99_ms),
        number(row.seconds),
        steady.unwrap_or_default().to_owned(),
    ]
}

/// Writes predicted points as CSV: IOPS, interval, mean latency, and whether they are proved. Unproved points get
/// empty cells.
pub fn write_predictions(predicted: &[(Row, Option<Prediction>)]) -> String {
    let mut text =
        "block_bytes,read_share,pattern,outstanding,iops,iops_low,iops_high,latency_ms,proved\n".to_owned();
    for (row, prediction) in predicted {
        let expected = prediction.map(|one| [one.iops, one.interval.0, one.interval.1, one.latency_ms]);
        let expected = expected.map_or(",,,no".into(), |all: [f64; 4]| all.map(shortest).join(",") + ",yes");
        text += &format!("{},{expected}\n", cells(row)[..4].join(","));
    }
    text
}

/// Formats a number with six significant digits and without trailing zeros.
fn shortest(value: f64) -> String {
    let rounded: f64 = format!("{value:.5e}").parse().expect("a number is read as it was written");
    rounded.to_string()
}

/// Reads a `probe.csv` and checks each row.
///
/// # Errors
/// If it is no such file, or if a row cannot have been measured.
pub fn read(text: &str) -> Result<Vec<Row>, ProbeError> {
    let mut lines = text.lines().zip(1..).peekable();
    if let Some((first, _)) = lines.next_if(|(line, _)| line.starts_with(VERSION_PREFIX))
        && first.trim_end() != VERSION_LINE
    {
        let remedy = "use the version of proofload that wrote it";
        let version = first.trim_start_matches(VERSION_PREFIX).trim_end();
        return Err(ProbeError::new(format!("a probe of version `{version}`, this program reads 1"), remedy));
    }
    let mut lines = lines.filter(|(line, _)| !line.trim().is_empty() && !line.starts_with('#'));
    let Some((heading, _)) = lines.next() else {
        return Err(ProbeError::new("no line with the names of the columns", FORM));
    };
    let names: Vec<&str> = heading.trim_start_matches('\u{feff}').split(',').map(str::trim).collect();
    check_names(&names)?;
    lines.map(|(line, number)| row(&names, line).map_err(|error| at_line(number, error))).collect()
}

fn check_names(names: &[&str]) -> Result<(), ProbeError> {
    let wrong = |message: String| Err(ProbeError::new(message, FORM));
    for (position, name) in names.iter().enumerate() {
        if !COLUMNS.contains(name) {
            return wrong(format!("column `{name}` is unknown; columns are {}", COLUMNS.join(", ")));
        }
        if names[..position].contains(name) {
            return wrong(format!("column `{name}` is there twice"));
        }
    }
    for needed in ["block_bytes", "read_share"] {
        if !names.contains(&needed) {
            return wrong(format!("column `{needed}` is missing"));
        }
    }
    if !names.contains(&"outstanding") && !names.contains(&"offered_iops") {
        return wrong("column `outstanding` or `offered_iops` is missing".into());
    }
    Ok(())
}

fn at_line(number: usize, error: ProbeError) -> ProbeError {
    ProbeError { message: format!("line {number}: {}", error.message), ..error }
}

/// Cells of a CSV line, by column name.
struct Cells<'a> {
    names: &'a [&'a str],
    cells: Vec<&'a str>,
}

impl Cells<'_> {
    fn text(&self, name: &str) -> &str {
        let position = self.names.iter().position(|known| *known == name);
        position.map_or("", |position| self.cells[position])
    }

    fn number(&self, name: &str) -> Result<Option<f64>, ProbeError> {
        let text = self.text(name);
        if text.is_empty() {
            return Ok(None);
        }
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() && value >= 0.0 => Ok(Some(value)),
            _ => Err(ProbeError::new(format!("`{name}` is {text}: not a number of 0 or more"), FORM)),
        }
    }

    fn needed(&self, name: &str) -> Result<f64, ProbeError> {
        self.number(name)?.ok_or_else(|| ProbeError::new(format!("`{name}` is empty"), FORM))
    }

    fn latency(&self, of: &str) -> Result<Latency, ProbeError> {
        let part = |name: &str| self.number(&format!("{of}_{name}_ms"));
        Ok(Latency {
            mean_ms: part("mean")?,
            p50_ms: part("p50")?,
            p95_ms: part("p95")?,
            p99_ms: part("p99")?,
        })
    }

    fn pattern(&self) -> Result<Pattern, ProbeError> {
        let text = self.text("pattern");
        if text.is_empty() {
            return Ok(Pattern::Random);
        }
        let known = Pattern::ALL.into_iter().find(|pattern| pattern.name() == text);
        known.ok_or_else(|| {
            let names = Pattern::ALL.map(Pattern::name).join(", ");
            ProbeError::new(format!("`pattern` is {text}: not one of {names}"), FORM)
        })
    }

    fn load(&self) -> Result<Load, ProbeError> {
        match (self.number("outstanding")?, self.number("offered_iops")?) {
            (Some(outstanding), None) => Ok(Load::Outstanding(outstanding)),
            (None, Some(rate)) => Ok(Load::Offered(rate)),
            (None, None) => {
                Err(ProbeError::new("neither `outstanding` nor `offered_iops` has a value", FORM))
            }
            (Some(_), Some(_)) => {
                Err(ProbeError::new("both `outstanding` and `offered_iops` have a value", FORM))
            }
        }
    }

    fn steady(&self) -> Result<Option<bool>, ProbeError> {
        match self.text("steady") {
            "" => Ok(None),
            "yes" => Ok(Some(true)),
            "no" => Ok(Some(false)),
            other => Err(ProbeError::new(format!("`steady` is {other}: not yes or no"), FORM)),
        }
    }
}

fn row(names: &[&str], line: &str) -> Result<Row, ProbeError> {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    if cells.len() != names.len() {
        let message = format!("{} values for {} columns", cells.len(), names.len());
        return Err(ProbeError::new(message, FORM));
    }
    let cells = Cells { names, cells };
    let block = cells.needed("block_bytes")?;
    if block.fract() != 0.0 {
        return Err(ProbeError::new(format!("`block_bytes` is {block}: not a whole number"), FORM));
    }
    let row = Row {
        point: Point {
            block_bytes: block as u64,
            read_share: cells.needed("read_share")?,
            pattern: cells.pattern()?,
            load: cells.load()?,
        },
        iops: cells.number("iops")?,
        reads: cells.latency("read")?,
        writes: cells.latency("write")?,
        seconds: cells.number("seconds")?,
        steady: cells.steady()?,
    };
    check_row(&row)?;
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOREIGN: &str = "block_bytes,outstanding,read_share,iops\n4096,8,0.7,12000\n65536,1,0,800.5\n";

    #[test]
    fn a_probe_is_read_as_it_was_written() {
        let rows = read(FOREIGN).unwrap();
        assert_eq!(rows[1].iops, Some(800.5));
        let full = Row {
            reads: Latency { mean_ms: Some(0.7), p50_ms: Some(0.5), p95_ms: Some(1.5), p99_ms: Some(3.25) },
            writes: Latency { mean_ms: Some(0.5), ..Latency::default() },
            seconds: Some(5.0),
            steady: Some(false),
            ..rows[0]
        };
        let open = Point { load: Load::Offered(1000.0), pattern: Pattern::Sync, ..full.point };
        let rows = vec![full, rows[1], Row::unmeasured(open)];
        assert_eq!(read(&write(&rows)).unwrap(), rows);
    }

    #[test]
    fn bad_cells_are_refused_by_line_and_column() {
        for (from, to, wanted) in [
            ("12000", "NaN", "line 2: `iops` is NaN"),
            ("12000", "-3", "line 2: `iops` is -3"),
            ("12000", "0", "line 2: `iops` is 0"),
            ("0.7", "1.2", "line 2: `read_share` is 1.2"),
            ("65536", "0", "line 3: `block_bytes` is 0"),
            ("8,0.7", "0.5,0.7", "line 2: `outstanding` is 0.5"),
            ("8,0.7", ",0.7", "line 2: neither"),
            (",800.5", "", "line 3: 3 values for 4 columns"),
            (",iops", ",iopz", "column `iopz` is unknown"),
            ("read_share", "iops", "column `iops` is there twice"),
        ] {
            let error = read(&FOREIGN.replace(from, to)).unwrap_err();
            assert!(error.message.starts_with(wanted), "{wanted}: {}", error.message);
        }
        let error = read("# proofload probe 2\n").unwrap_err();
        assert!(error.message.contains("version `2`"), "{}", error.message);
    }
}

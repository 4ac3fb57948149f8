//! What a run was really made with: the build of the program, and the settings beside the solution file.

use results::{Environment, Row, Severity};
use solution::Solution;

/// Environment row that names the build of the program on a host.
pub fn build_row(host: &str, build: &str) -> Row {
    row(host, "Program", "Build", build.to_owned())
}

/// Environment rows for the settings (`--set`) that were applied to the solution file. `host` is any host of the run.
pub fn setting_rows(host: &str, solution: &Solution) -> Vec<Row> {
    let rows = solution.settings().map(|setting| {
        let value = format!("{}, set by {}", setting.value(), setting.source());
        row(host, "Solution file", setting.path(), value)
    });
    rows.collect()
}

fn row(host: &str, area: &str, name: &str, value: String) -> Row {
    let (host, area, name) = (host.to_owned(), area.to_owned(), name.to_owned());
    Environment { host, area, name, value, severity: Severity::Info, note: String::new() }.into()
}

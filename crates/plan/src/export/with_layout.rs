//! The solution file with the layout of its plan.
//!
//! Invariant: what the file says stays as it is; tables are only added behind it.

use std::fmt::Write;

use solution::{Result, Solution};

use crate::Plan;
use crate::layout::DatabasePlace;
use crate::toml_text::quoted;

/// Text of the solution file, with a `[[layout.database]]` row for each database if it lists none.
///
/// # Errors
/// `layout` is no table of its own.
pub fn with_layout(solution: &Solution, plan: &Plan) -> Result<String> {
    let mut text = solution.text().to_owned();
    if plan.layout.imported {
        return Ok(text);
    }
    if let Some(layout) = solution.span("layout")
        && !text[layout.clone()].starts_with('[')
    {
        let message = "rows cannot be added to a `layout` that is no table of its own";
        let help = "write [layout] on a line, and its keys on lines below";
        return Err(solution.error("layout", message, Some(help.into())));
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text += "\n# From the plan of this file: server and activation preference of each copy.\n";
    for database in &plan.layout.databases {
        row(&mut text, plan, database);
    }
    Ok(text)
}

/// Row of a database. A volume number that differs between its servers is left out, because the plan deals it in the
/// same way again.
fn row(text: &mut String, plan: &Plan, database: &DatabasePlace) {
    let copies = database.copies.iter().zip(1..).map(|(copy, preference)| {
        format!("[{}, {preference}]", quoted(&plan.servers[usize::from(copy.server)].name))
    });
    let copies = copies.collect::<Vec<_>>().join(", ");
    writeln!(text, "[[layout.database]]\nname = {}", quoted(&database.name)).expect("a string takes it");
    let volume = database.copies[0].volume;
    if database.copies.iter().all(|copy| copy.volume == volume) {
        writeln!(text, "volume = {volume}").expect("a string takes it");
    }
    writeln!(text, "copies = [{copies}]\n").expect("a string takes it");
}

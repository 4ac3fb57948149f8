//! `[qualification]`: the rules by which a run is a qualification, checked.

use crate::error::{Checked, Wrong};
use crate::file::{Qualification, SolutionFile, TestKind};

/// Conditions of the solution's own, as the run records them; else the published ones.
pub(crate) fn qualification(file: &SolutionFile) -> Checked<Qualification> {
    let own = file.qualification.clone().unwrap_or_default();
    for (name, least, most) in own.ranges() {
        if least.zip(most).is_some_and(|(least, most)| least > most) {
            let message = format!("the least of {name} is above its most");
            return Err(Wrong::new(format!("qualification.{name}"), message).help("write [least, most]"));
        }
    }
    if let Some(kinds) = &own.tests
        && !kinds.iter().any(|kind| matches!(kind, TestKind::Performance | TestKind::Stress))
    {
        let wrong = Wrong::new("qualification.tests", "no run without a load is a qualification");
        return Err(wrong.help("name performance or stress among the tests"));
    }
    Ok(own)
}

//! The layout of the copies as a picture: servers to the right, databases downwards, the first choice darkest.

use std::fmt::Write;

use plan::Plan;

use evidence::markup::escape;

const NAMES: f64 = 110.0;
const WIDTH: f64 = 720.0;
const TOP: f64 = 34.0;

/// The picture of the copies on the servers. Many databases share a row height of two units: a pattern is seen even
/// where names are not.
pub fn layout(plan: &Plan) -> String {
    let databases = &plan.layout.databases;
    let servers = plan.servers.len().max(1);
    let row = (900.0 / databases.len().max(1) as f64).clamp(2.0, 12.0);
    let column = ((WIDTH - NAMES) / servers as f64).min(44.0);
    let height = TOP + row * databases.len() as f64 + 6.0;
    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"Copies on servers\">");
    for n in 0..plan.servers.len() {
        let x = NAMES + column * (n as f64 + 0.5);
        let _ = write!(
            svg,
            "<text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            TOP - 8.0,
            n + 1
        );
    }
    let every = (13.0 / row).ceil() as usize;
    for (n, database) in databases.iter().enumerate() {
        let y = TOP + row * n as f64;
        if n.is_multiple_of(every) {
            let _ = write!(
                svg,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                NAMES - 6.0,
                y + row * 0.8 + 1.0,
                escape(&database.name)
            );
        }
        for (preference, copy) in database.copies.iter().enumerate() {
            let x = NAMES + column * f64::from(copy.server);
            let shade = 8usize.saturating_sub(preference * 3).max(1);
            let _ = write!(
                svg,
                "<rect class=\"h{shade}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                x + 1.0,
                column - 2.0,
                (row - 0.5).max(1.0)
            );
        }
    }
    svg.push_str("</svg>");
    svg
}
